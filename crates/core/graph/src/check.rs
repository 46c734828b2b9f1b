//! Reports what a graph would do, without doing it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_reconcile::Ledger;

use crate::driver::call::check_apply;
use crate::driver::cell::catch;
use crate::driver::{replacing, snapshot};
use crate::edge::Kinds;
use crate::ports::{Input, Value};
use crate::sync::{after, now};
use crate::{
    Error, Explanation, Failure, Graph, Record, RunContext, Snapshot, Verdict, Vertex, VertexId,
    VertexSpec, Wait,
};

/// Checks each vertex once, parents first and the vertices of a group together, and changes
/// nothing.
///
/// `ledger` is the graph's ledger. A vertex sees its pending refreshes, one more for each parent
/// that would change, and the values sent by other vertices' checks. A vertex is not checked if a
/// failed one holds it back, or if it receives a value that no check sends. The snapshot lists
/// reversals after the vertices; each would change.
///
/// ```
/// use trueup_graph::{RunContext, Verdict, Vertex, VertexSpec, check};
/// use trueup_reconcile::MemoryLedger;
///
/// let vertex = |_: &RunContext, apply: bool| {
///     assert!(!apply); // a check changes nothing
///     Ok(Verdict::WouldChange)
/// };
/// let vertices = [(VertexSpec::new("a"), Box::new(vertex) as Box<dyn Vertex>)];
/// let snapshot = check(vertices, &MemoryLedger::default())?;
/// assert_eq!(snapshot.vertices[0].last, Some(Ok(Verdict::WouldChange)));
/// # Ok::<(), trueup_graph::Error>(())
/// ```
///
/// # Errors
///
/// The graph cannot be built, or the ledger cannot be read.
pub fn check(
    vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
    ledger: &dyn Ledger,
) -> Result<Snapshot, Error> {
    let (graph, vertices) = replacing::build(vertices)?;
    let records = crate::records::read(ledger)?;
    let calls: Vec<Vec<VertexId>> = calls(&graph).collect();
    let mut check = Check {
        pending: pending(&records),
        vertices: vertices.into_iter().map(Some).collect(),
        values: BTreeMap::new(),
        failed: BTreeMap::new(),
        waiting: BTreeSet::new(),
        explained: BTreeMap::new(),
        graph,
    };
    for call in calls {
        check.call(call);
    }
    let Check { graph, mut explained, .. } = check;
    let mut snapshot = snapshot::of(&graph, |vertex| explained.remove(&vertex));
    let made = records.iter().filter(|(_, record)| record.made.is_some());
    let left = made.filter(|(name, _)| graph.find(name).is_none());
    snapshot.vertices.extend(left.map(|(name, _)| Explanation {
        last: Some(Ok(Verdict::WouldChange)),
        reversal: true,
        ..unchecked(name, None, 0)
    }));
    Ok(snapshot)
}

/// A check in progress.
struct Check {
    graph: Graph,
    /// `None` for a vertex that was checked.
    vertices: Vec<Option<Box<dyn Vertex>>>,
    pending: BTreeMap<Arc<str>, u32>,
    /// The values sent, by vertex and port.
    values: BTreeMap<(Arc<str>, Arc<str>), Value>,
    /// Vertices that failed or are below a failed one, each with the names of the failed ones.
    failed: BTreeMap<VertexId, BTreeSet<String>>,
    /// Vertices that lack a value to receive, and the vertices below them.
    waiting: BTreeSet<VertexId>,
    explained: BTreeMap<VertexId, Explanation>,
}

impl Check {
    /// Checks vertices in one call, except for those held back.
    fn call(&mut self, vertices: Vec<VertexId>) {
        let (mut called, mut contexts) = (Vec::new(), Vec::new());
        for vertex in vertices {
            let declared = &self.graph.vertices[vertex.0 as usize];
            let refreshes = self.pending.remove(&declared.name).unwrap_or_default();
            let group = declared.rare().group.as_ref().map(|it| it.to_string());
            let mut explanation = unchecked(&declared.name, group, refreshes);
            explanation.waits = self.waits(vertex);
            if explanation.waits.is_empty() {
                match self.context(vertex, refreshes) {
                    Ok(context) => {
                        called.push(vertex);
                        contexts.push(context);
                    }
                    Err(failure) => self.fail(vertex, &mut explanation, &failure),
                }
            }
            self.explained.insert(vertex, explanation);
        }
        let mut members: Vec<Box<dyn Vertex>> =
            called.iter().filter_map(|it| self.vertices[it.0 as usize].take()).collect();
        let mut members: Vec<&mut dyn Vertex> = members.iter_mut().map(|it| &mut **it).collect();
        let results = check_apply(&mut members, &contexts, false);
        for ((vertex, context), checked) in called.into_iter().zip(contexts).zip(results) {
            let Some(mut explanation) = self.explained.remove(&vertex) else {
                continue;
            };
            match checked {
                Ok(verdict) => {
                    explanation.last = Some(Ok(verdict));
                    self.send(vertex, &context);
                    let is_noop = self.graph.vertices[vertex.0 as usize].noop;
                    if verdict == Verdict::WouldChange && !is_noop {
                        let said = context.kinds().map(Kinds::from_iter);
                        self.notify(vertex, &said.unwrap_or(Kinds::All));
                    }
                }
                Err(failure) => self.fail(vertex, &mut explanation, &failure),
            }
            self.explained.insert(vertex, explanation);
        }
    }

    /// Returns the vertex's reasons to wait; if there are any, notes that it holds back others too.
    fn waits(&mut self, vertex: VertexId) -> Vec<Wait> {
        let needed = self.graph.needed(vertex.0).map(VertexId);
        let failed: BTreeSet<String> =
            needed.filter_map(|it| self.failed.get(&it).cloned()).flatten().collect();
        let waiting: Vec<String> = self
            .graph
            .parents(vertex)
            .filter(|it| self.waiting.contains(it))
            .map(|it| self.graph.name(it.0).to_string())
            .collect();
        let receives = self.graph.vertices[vertex.0 as usize].rare().receives.iter();
        let missing = receives.flat_map(|it| &it.from).filter(|it| !self.values.contains_key(*it));
        let mut waits = Vec::new();
        if !failed.is_empty() {
            waits.push(Wait::FailedAncestors(failed.iter().cloned().collect()));
            self.failed.insert(vertex, failed);
            return waits;
        }
        if !waiting.is_empty() {
            waits.push(Wait::Parents(waiting));
        }
        waits.extend(missing.map(|(sender, port)| Wait::Value {
            sender: sender.to_string(),
            port: port.to_string(),
        }));
        if !waits.is_empty() {
            self.waiting.insert(vertex);
        }
        waits
    }

    fn context(&self, vertex: VertexId, refreshes: u32) -> Result<RunContext, Failure> {
        let declared = &self.graph.vertices[vertex.0 as usize];
        let inputs = catch(|| {
            let inputs = declared.rare().receives.iter().filter_map(|port| {
                let values = port.from.iter().filter_map(|it| self.values.get(it));
                Input::new(port, &values.cloned().collect::<Vec<_>>(), None)
            });
            Ok(inputs.collect())
        });
        let rare = declared.rare();
        let deadline = rare.timeout.map(|timeout| after(now(), timeout));
        Ok(RunContext {
            inputs: inputs?,
            ..RunContext::new(refreshes, deadline, Arc::default(), &rare.sends)
        })
    }

    fn fail(&mut self, vertex: VertexId, explanation: &mut Explanation, failure: &Failure) {
        explanation.last = Some(Err(failure.class));
        explanation.message = Some(failure.message.clone());
        self.failed.insert(vertex, [explanation.name.clone()].into());
    }

    fn send(&mut self, vertex: VertexId, context: &RunContext) {
        let name = self.graph.name(vertex.0);
        let sent =
            context.take_sent().into_iter().map(|(port, value)| ((name.clone(), port), value));
        self.values.extend(sent);
    }

    fn notify(&mut self, vertex: VertexId, changed: &Kinds) {
        for (child, _) in self.graph.notified(vertex.0, changed) {
            let name = self.graph.name(child).clone();
            let sum = self.pending.entry(name).or_default();
            *sum = sum.saturating_add(1);
        }
    }
}

/// Returns the vertices, parents first. Vertices of one group come together if they have the same
/// number of levels above them.
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

/// Returns the pending refreshes. An intent counts as one, as after a crash.
fn pending(records: &[(Arc<str>, Record)]) -> BTreeMap<Arc<str>, u32> {
    let mut pending = BTreeMap::<Arc<str>, u32>::new();
    for (name, record) in records {
        let own = [(name, record.refreshes)].into_iter();
        let others = record.intent.iter().map(|name| (name, 1));
        for (name, count) in own.chain(others) {
            let sum = pending.entry(name.clone()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    pending
}

fn unchecked(name: &str, group: Option<String>, refreshes: u32) -> Explanation {
    Explanation {
        name: name.to_owned(),
        group,
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
