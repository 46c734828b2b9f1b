//! What a graph would do, without doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_reconcile::Ledger;

use crate::driver::calls::check_apply;
use crate::driver::{replacing, snapshot};
use crate::sync::{after, now};
use crate::{
    Error, Explanation, Failure, Graph, RunContext, Snapshot, Verdict, Vertex, VertexId,
    VertexSpec, Wait,
};

/// Checks each vertex once, parents first and those of a group together, and changes nothing.
/// `ledger` is that of the graph: a vertex sees the refreshes that are pending, and one more of each
/// parent that would change. A vertex below one that fails is not checked.
///
/// # Errors
///
/// The graph cannot be built, or the ledger cannot be read.
pub fn check(
    vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
    ledger: &dyn Ledger,
) -> Result<Snapshot, Error> {
    let (graph, vertices) = replacing::build(vertices)?;
    let mut vertices: Vec<_> = vertices.into_iter().map(|it| Some(it.0)).collect();
    let mut pending = pending(ledger)?;
    let mut failed: BTreeMap<VertexId, BTreeSet<String>> = BTreeMap::new();
    let mut explained: BTreeMap<VertexId, Explanation> = BTreeMap::new();
    for call in calls(&graph) {
        let (mut called, mut contexts) = (Vec::new(), Vec::new());
        for vertex in call {
            let name = graph.name(vertex.0);
            let refreshes = pending.remove(&**name).unwrap_or_default();
            let above: BTreeSet<String> = graph
                .parents(vertex)
                .filter_map(|parent| failed.get(&parent).cloned())
                .flatten()
                .collect();
            let mut explanation = unchecked(&graph, vertex, refreshes);
            if above.is_empty() {
                called.push(vertex);
                contexts.push(context(&graph, vertex, refreshes));
            } else {
                explanation.waits = vec![Wait::FailedAncestors(above.iter().cloned().collect())];
                failed.insert(vertex, above);
            }
            explained.insert(vertex, explanation);
        }
        let members = called
            .iter()
            .filter_map(|it| vertices[it.0 as usize].take());
        let mut members: Vec<Box<dyn Vertex>> = members.collect();
        let mut members: Vec<&mut dyn Vertex> = members.iter_mut().map(|it| &mut **it).collect();
        let results = check_apply(&mut members, &contexts, false);
        for (vertex, checked) in called.into_iter().zip(results) {
            if checked == Ok(Verdict::WouldChange) {
                notify(&graph, vertex, &mut pending);
            }
            if checked.is_err() {
                failed.insert(vertex, [graph.name(vertex.0).to_string()].into());
            }
            if let Some(explanation) = explained.get_mut(&vertex) {
                explanation.last = Some(checked.as_ref().map(|it| *it).map_err(Failure::class));
                explanation.message = checked.err().map(|it| it.message().to_owned());
            }
        }
    }
    Ok(snapshot::of(&graph, |vertex| explained.remove(&vertex)))
}

/// Returns the vertices, parents first: alone, or with those of their group that have as many
/// vertices above them.
fn calls(graph: &Graph) -> impl Iterator<Item = Vec<VertexId>> {
    let mut depths = vec![0u32; graph.len()];
    let mut calls = BTreeMap::<_, Vec<VertexId>>::new();
    for (place, vertex) in graph.order().enumerate() {
        let above = graph.parents(vertex).map(|it| depths[it.0 as usize] + 1);
        let depth = above.max().unwrap_or_default();
        depths[vertex.0 as usize] = depth;
        let group = graph.groups.of(vertex.0).ok_or(place);
        calls.entry((depth, group)).or_default().push(vertex);
    }
    calls.into_values()
}

fn context(graph: &Graph, vertex: VertexId, refreshes: u32) -> RunContext {
    let timeout = graph.vertices[vertex.0 as usize].timeout;
    RunContext {
        refreshes,
        deadline: timeout.map(|timeout| after(now(), timeout)),
        is_interrupted: Arc::default(),
        inputs: Vec::new(),
        sends: Arc::default(),
        sent: Arc::default(),
    }
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

fn unchecked(graph: &Graph, vertex: VertexId, refreshes: u32) -> Explanation {
    let declared = &graph.vertices[vertex.0 as usize];
    Explanation {
        name: declared.name.to_string(),
        group: declared.group.as_ref().map(|it| it.to_string()),
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
