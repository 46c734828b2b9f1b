//! What a graph would do, without doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_reconcile::Ledger;

use crate::driver::{replacing, snapshot};
use crate::panics::catch;
use crate::sync::{after, now};
use crate::{
    Error, Explanation, Failure, Graph, RunContext, Snapshot, Verdict, Vertex, VertexId,
    VertexSpec, Wait,
};

/// Checks each vertex once, parents first, and changes nothing. `ledger` is that of the graph: a
/// vertex sees the refreshes that are pending, and one more of each parent that would change. A
/// vertex below one that fails is not checked.
///
/// # Errors
///
/// The graph cannot be built, or the ledger cannot be read.
pub fn check(
    vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
    ledger: &dyn Ledger,
) -> Result<Snapshot, Error> {
    let (graph, mut vertices) = replacing::build(vertices)?;
    let mut pending = pending(ledger)?;
    let mut failed: BTreeMap<VertexId, BTreeSet<String>> = BTreeMap::new();
    let mut explained: BTreeMap<VertexId, Explanation> = BTreeMap::new();
    for vertex in graph.order() {
        let name = graph.name(vertex.0).clone();
        let refreshes = pending.remove(&*name).unwrap_or_default();
        let above: BTreeSet<String> = graph
            .parents(vertex)
            .filter_map(|parent| failed.get(&parent).cloned())
            .flatten()
            .collect();
        let mut explanation = unchecked(&name, refreshes);
        if above.is_empty() {
            let context = RunContext {
                refreshes,
                deadline: graph.vertices[vertex.0 as usize]
                    .timeout
                    .map(|timeout| after(now(), timeout)),
                is_interrupted: Arc::default(),
            };
            let checked = catch(|| vertices[vertex.0 as usize].0.check_apply(&context, false));
            if checked == Ok(Verdict::WouldChange) {
                notify(&graph, vertex, &mut pending);
            }
            if checked.is_err() {
                failed.insert(vertex, [name.to_string()].into());
            }
            explanation.last = Some(checked.as_ref().map(|it| *it).map_err(Failure::class));
            explanation.message = checked.err().map(|it| it.message().to_owned());
        } else {
            explanation.waits = vec![Wait::FailedAncestors(above.iter().cloned().collect())];
            failed.insert(vertex, above);
        }
        explained.insert(vertex, explanation);
    }
    Ok(snapshot::of(&graph, |vertex| explained.remove(&vertex)))
}

/// Returns the refreshes that are pending: an intent is one, as after a crash.
fn pending(ledger: &dyn Ledger) -> Result<BTreeMap<Arc<str>, u32>, Error> {
    let mut pending = BTreeMap::<Arc<str>, u32>::new();
    for (name, record) in crate::records::read(ledger)? {
        let own = [(name, record.refreshes)].into_iter();
        let others = record.intent.into_iter().map(|name| (name, 1));
        for (name, count) in own.chain(others) {
            let sum = pending.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    Ok(pending)
}

fn notify(graph: &Graph, vertex: VertexId, pending: &mut BTreeMap<Arc<str>, u32>) {
    for (child, _) in graph
        .children(vertex)
        .filter(|(_, is_notified)| *is_notified)
    {
        let sum = pending.entry(graph.name(child.0).clone()).or_default();
        *sum = sum.saturating_add(1);
    }
}

fn unchecked(name: &str, refreshes: u32) -> Explanation {
    Explanation {
        name: name.to_owned(),
        cause: None,
        upstream: None,
        running: false,
        waits: Vec::new(),
        refreshes,
        attempts: 0,
        last: None,
        message: None,
        reversal: false,
    }
}
