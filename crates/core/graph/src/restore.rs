//! Reversals of what was made under names that the graph does not have, or by other declarations.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::state::Made;
use crate::{EdgeKind, Error, Graph, Record, VertexId, VertexSpec};

pub(crate) fn restore(
    graph: Graph,
    records: &[(Arc<str>, Record)],
    vertices: impl IntoIterator<Item = VertexSpec>,
) -> Result<Graph, Error> {
    let made = records.iter().filter_map(|(name, record)| {
        let made = record.made.as_ref()?;
        Some((&**name, made))
    });
    let made: BTreeMap<&str, &Made> = made.collect();
    let restored = vertices.into_iter().filter_map(|mut vertex| {
        let made = *made.get(vertex.name())?;
        vertex.links = None;
        Some((made.place, vertex))
    });
    let mut restored: Vec<_> = restored.collect();
    // What was made last comes first.
    restored.sort_by(|one, other| (other.0, one.1.name()).cmp(&(one.0, other.1.name())));
    restored.dedup_by(|one, other| one.1.name == other.1.name);
    let mut builder = graph.to_builder();
    let mut numbers = BTreeMap::new();
    for (_, vertex) in restored {
        let (found, name) = (graph.find(vertex.name()), vertex.name.clone());
        let number = builder.vertex(vertex);
        if let Some(found) = found {
            builder.edge(number, found);
        }
        numbers.insert(name, number);
    }
    // Children before their parents: of what is undone in the order of making, and against it; and
    // before what vertices that stay needed.
    let (mut agreeing, mut others, mut leaving) = (Vec::new(), Vec::new(), Vec::new());
    for (child, made_by_child) in &made {
        for parent in &made_by_child.after {
            let Some(parent_number) = numbers.get(parent) else {
                continue;
            };
            let edge = |child: VertexId| (child.0, EdgeKind::After.to(parent_number.0));
            match (numbers.get(*child), graph.find(child)) {
                (Some(child), _) => match made_by_child.place > made[&**parent].place {
                    true => agreeing.push(edge(*child)),
                    false => others.push(edge(*child)),
                },
                (None, Some(child)) if graph.find(parent).is_none() => leaving.push(edge(child)),
                (None, _) => {}
            }
        }
    }
    builder.assemble_with(graph.own, graph.by_name, &[agreeing, leaving, others])
}
