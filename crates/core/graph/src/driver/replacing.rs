//! A driver's graph: declared vertices, reversals of earlier ones, and the replacement.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use super::Driver;
use super::cell::{Cell, Place, catch, discard};
use super::jobs::NamedWork;
use super::shared::{Named, stopped};
use crate::error::ErrorKind;
use crate::runner::Runner;
use crate::sync::{lock, now};
use crate::{
    Error, Failure, Graph, Record, Records, RunContext, Verdict, Vertex, VertexId, VertexSpec,
};

/// How often new vertices are asked what they adopt while the old ones continue to run.
const MAX_TRIES: u32 = 100;

/// Builds a graph of declared vertices. A vertex's number is its place in the list.
pub(crate) fn build(
    vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
) -> Result<(Graph, Vec<Box<dyn Vertex>>), Error> {
    let (specs, vertices): (Vec<_>, Vec<_>) = vertices
        .into_iter()
        .map(|(spec, vertex)| {
            // If this panics, so will the runs.
            let records = catch(|| Ok(vertex.records())).unwrap_or(Records::Varying);
            let announces = catch(|| Ok(vertex.announces())).unwrap_or_default();
            (spec.with_records(records).with_announcements(announces), vertex)
        })
        .unzip();
    Ok((Graph::new(specs)?, vertices))
}

/// Returns the names of the threads that vertices are declared to run on.
pub(super) fn threads(graph: &Graph) -> BTreeSet<Arc<str>> {
    let vertices = graph.vertices.iter();
    vertices.filter_map(|it| it.rare().thread.clone()).collect()
}

impl Driver {
    /// Replaces the graph while it runs. A vertex with the same name and declaration continues,
    /// even if it is running, and its new instance is dropped: if the vertex's task changes, change
    /// its [revision](VertexSpec::with_revision). Pending refreshes stay.
    ///
    /// # Errors
    ///
    /// The graph cannot be built, or a thread cannot be started. The old graph continues.
    pub fn replace(
        &self,
        vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
    ) -> Result<(), Error> {
        let (graph, mut vertices) = build(vertices)?;
        self.start_named(threads(&graph))?;
        let mut core = lock(&self.shared.core);
        let (mut adopted, mut not_taken) = Default::default();
        for tries in 0.. {
            let made = core.state.to_adopt(&graph);
            if made == adopted || core.is_stopping {
                break;
            }
            // A run may make something more meanwhile.
            drop(core);
            if tries == MAX_TRIES {
                let message = "not replaced: the vertices make something new without a pause";
                return Err(Error::new(ErrorKind::TimedOut, message.to_owned()));
            }
            not_taken = refused(&graph, &mut vertices, &made);
            adopted = made;
            core = lock(&self.shared.core);
        }
        if core.is_stopping {
            return Err(stopped());
        }
        let replaced = core.state.replace(now(), graph, &not_taken)?;
        let values = std::mem::take(&mut core.values).into_iter();
        let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            values.partition(|(it, _)| core.state.values.contains(it));
        core.values = kept;
        let own = core.state.graph().own;
        let mut cells: Vec<Option<Arc<Cell>>> = vec![None; core.state.graph().len()];
        let mut messages = std::mem::take(&mut core.messages);
        for (from, to) in &replaced.moved {
            let is_kept = replaced.kept.binary_search(to).is_ok();
            if is_kept || to.0 as usize >= own {
                cells[to.0 as usize] = Some(Arc::clone(&core.cells[from.0 as usize]));
                let message = messages.remove(from);
                core.messages.extend(message.map(|it| (*to, it)));
            }
        }
        let old = std::mem::take(&mut core.cells);
        // Vertices must be dropped without the lock.
        let mut unused = Vec::new();
        for (vertex, at) in vertices.into_iter().zip(0u32..) {
            match &mut cells[at as usize] {
                Some(_) => unused.push(vertex),
                empty => {
                    let declared = &core.state.graph().vertices[at as usize];
                    *empty = Some(Arc::new(Cell::new(vertex, declared, at)));
                }
            }
        }
        // Every cell is filled: its vertex is new, or was moved.
        core.cells = cells.into_iter().flatten().collect();
        old.iter().for_each(|cell| cell.set_place(None, false));
        for (at, cell) in (0..).zip(&core.cells) {
            cell.set_place(Some(at), core.state.graph().is_reversal(VertexId(at)));
        }
        let (watched, unwatched): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut core.watched)
                .into_iter()
                .partition(|(_, (cell, _))| cell.place().is_some_and(Place::is_watching));
        core.watched = watched;
        self.shared.wake(&mut core);
        drop(core);
        unwatched.into_iter().for_each(discard);
        unused.into_iter().for_each(discard);
        old.into_iter().for_each(discard);
        gone.into_iter().for_each(discard);
        Ok(())
    }

    /// Starts the named threads that do not run yet.
    pub(super) fn start_named(&self, names: BTreeSet<Arc<str>>) -> Result<(), Error> {
        // Keep this lock, so that each thread is started once.
        let mut runners = lock(&self.named);
        for name in names {
            if runners.contains_key(&name) {
                continue;
            }
            let runner = start_threads(&name, NonZeroUsize::MIN)?;
            runner.add_task(|member| {
                let (shared, thread) = (Arc::clone(&self.shared), Arc::clone(&name));
                lock(&shared.core).named.insert(Arc::clone(&name), Named::new(member));
                Arc::new(NamedWork { shared, thread })
            });
            runners.insert(name, Arc::new(runner));
        }
        Ok(())
    }
}

/// Starts `count` threads of a name.
pub(super) fn start_threads(name: &str, count: NonZeroUsize) -> Result<Runner, Error> {
    let started = if name.contains('\0') {
        Err("its name has a NUL byte; choose another".to_owned())
    } else {
        Runner::start(name, count).map_err(|error| error.to_string())
    };
    started.map_err(|error| {
        Error::new(ErrorKind::Os, format!("cannot start thread {name:?}: {error}"))
    })
}

/// Makes a vertex that undoes the work described by its record.
pub(super) type Restore =
    dyn Fn(&str, &[u8]) -> Result<(VertexSpec, Box<dyn Vertex>), Failure> + Send + Sync;

/// A vertex that could not be made from its record. Its reversal tries again.
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

/// The `restore` of a driver that was started without one: always fails.
pub(super) fn none(name: &str, _: &[u8]) -> Result<(VertexSpec, Box<dyn Vertex>), Failure> {
    let message = format!(
        "what vertex {name} made is kept, as it cannot be undone without its vertex; declare it \
         again, or start the driver with a way to restore it"
    );
    Err(Failure::new(ErrorClass::Unsupported, message))
}

/// Adds the reversals that the records call for, and their vertices, to a graph.
pub(super) fn restore(
    graph: Graph,
    vertices: &mut Vec<Box<dyn Vertex>>,
    records: &[(Arc<str>, Record)],
    restore: &Arc<Restore>,
) -> Result<Graph, Error> {
    let made: BTreeMap<_, _> = records
        .iter()
        .filter_map(|(name, record)| Some((name.clone(), record.made.as_ref()?.undo.clone())))
        .collect();
    let not_taken = refused(&graph, vertices, &made);
    let mut restored = BTreeMap::new();
    for (name, undo) in made {
        if graph.find(&name).is_some() && !not_taken.contains(&name) {
            continue;
        }
        let made =
            catch(|| restore(&name, &undo)).map(|(spec, vertex)| (spec.with_name(&name), vertex));
        let declared = made.unwrap_or_else(|_| {
            let (spec, restore) = (VertexSpec::new(&name), Arc::clone(restore));
            (spec, Box::new(Unrestored { name: name.clone(), undo, restore }))
        });
        restored.insert(name, declared);
    }
    if restored.is_empty() {
        return Ok(graph);
    }
    let specs = restored.values().map(|it| it.0.clone()).collect::<Vec<_>>();
    let whole = graph.restore(records, specs)?;
    let reversals = &whole.vertices[whole.own..];
    let found = reversals.iter().filter_map(|it| restored.remove(&it.name));
    vertices.extend(found.map(|it| it.1));
    Ok(whole)
}

/// Offers each vertex the work made under its name, and returns the names of the vertices that
/// refuse.
pub(super) fn refused(
    graph: &Graph,
    vertices: &mut [Box<dyn Vertex>],
    made: &BTreeMap<Arc<str>, Arc<[u8]>>,
) -> BTreeSet<Arc<str>> {
    let mut refused = BTreeSet::new();
    for (name, undo) in made {
        let found = graph.find(name);
        let vertex = found.and_then(|it| vertices.get_mut(it.0 as usize));
        // If the vertex's code panics, its work is not undone.
        let is_refused = vertex.is_some_and(|it| !catch(|| Ok(it.adopt(undo))).unwrap_or(true));
        if is_refused {
            refused.insert(name.clone());
        }
    }
    refused
}
