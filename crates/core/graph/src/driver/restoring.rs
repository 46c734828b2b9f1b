//! What was made by other processes, or by other declarations of a name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use crate::panics::catch;
use crate::{Error, Failure, Graph, Record, RunContext, Verdict, Vertex, VertexSpec};

/// Makes a vertex that undoes what its record says.
pub(super) type Restore =
    dyn Fn(&str, &[u8]) -> Result<(VertexSpec, Box<dyn Vertex>), Failure> + Send + Sync;

/// A vertex that could not be made of its record. Reversing it tries again.
struct Unrestored {
    name: Arc<str>,
    undo: Arc<[u8]>,
    restore: Arc<Restore>,
}

impl Vertex for Unrestored {
    fn check_apply(&mut self, _: &RunContext, _: bool) -> Result<Verdict, Failure> {
        Ok(Verdict::InPlace)
    }

    fn reverse(&mut self, context: &RunContext) -> Result<Verdict, Failure> {
        let (_, mut vertex) = (self.restore)(&self.name, &self.undo)?;
        vertex.reverse(context)
    }
}

/// The restoring of a driver that was started without one.
pub(super) fn none(name: &str, _: &[u8]) -> Result<(VertexSpec, Box<dyn Vertex>), Failure> {
    let message = format!(
        "what vertex {name} made is kept, as it cannot be undone without its vertex; declare it \
         again, or start the driver with a way to restore it"
    );
    Err(Failure::new(ErrorClass::Unsupported, message))
}

/// Adds to a graph what is to be reversed by the records, and its vertices.
pub(super) fn restore(
    graph: Graph,
    vertices: &mut Vec<Box<dyn Vertex>>,
    records: &[(Arc<str>, Record)],
    restore: &Arc<Restore>,
) -> Result<Graph, Error> {
    let made = records.iter().filter_map(|(name, record)| {
        let made = record.made.as_ref()?;
        Some((name.clone(), made.undo.clone()))
    });
    let made = made.collect::<BTreeMap<_, _>>();
    let refused = refused(&graph, vertices, &made);
    let mut restored = BTreeMap::new();
    for (name, undo) in made {
        if graph.find(&name).is_some() && !refused.contains(&name) {
            continue;
        }
        let made =
            catch(|| restore(&name, &undo)).map(|(spec, vertex)| (spec.with_name(&name), vertex));
        let declared = made.unwrap_or_else(|_| {
            let spec = VertexSpec::new(&name);
            let restore = Arc::clone(restore);
            let name = name.clone();
            (spec, Box::new(Unrestored { name, undo, restore }))
        });
        restored.insert(name, declared);
    }
    if restored.is_empty() {
        return Ok(graph);
    }
    let specs = restored.values().map(|it| it.0.clone()).collect::<Vec<_>>();
    let graph = graph.restore(records, specs)?;
    let reversals = &graph.vertices[graph.own..];
    let found = reversals.iter().filter_map(|it| restored.remove(&it.name));
    vertices.extend(found.map(|it| it.1));
    Ok(graph)
}

/// Has each vertex take over what was made under its name, and returns the names of those that do
/// not.
pub(super) fn refused(
    graph: &Graph,
    vertices: &mut [Box<dyn Vertex>],
    made: &BTreeMap<Arc<str>, Arc<[u8]>>,
) -> BTreeSet<Arc<str>> {
    let mut refused = BTreeSet::new();
    for (name, undo) in made {
        let found = graph.find(name);
        let vertex = found.and_then(|it| vertices.get_mut(it.0 as usize));
        // One whose code is at fault has nothing undone.
        let is_refused = vertex.is_some_and(|it| !catch(|| Ok(it.adopt(undo))).unwrap_or(true));
        if is_refused {
            refused.insert(name.clone());
        }
    }
    refused
}
