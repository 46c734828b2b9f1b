//! The values that vertices send to each other.

use std::sync::Arc;

use super::cell::Cell;
use super::shared::{Core, Shared};
use crate::panics::discard;
use crate::ports::{Receives, Value};
use crate::sync::lock;
use crate::{RunContext, RunId, Verdict, VertexId};

/// What is to be received by each port, one of each sender.
pub(super) type Incoming = Vec<(Receives, Vec<Value>)>;

/// Keeps what a call that succeeded has sent and received, and drops the rest.
pub(super) fn exchange(
    shared: &Shared,
    run: RunId,
    cell: &Cell,
    verdict: Option<Verdict>,
    run_context: RunContext,
) {
    let sent = run_context.take_sent();
    let received = run_context.inputs.into_iter().map(|it| it.value);
    let received: Vec<Value> = received.collect();
    let mut dropped: Vec<Value> = match verdict {
        Some(Verdict::InPlace | Verdict::Changed) => cell.replace_seen(received),
        _ => received,
    };
    if verdict.is_some() && !sent.is_empty() {
        let mut core = lock(&shared.core);
        for (port, value) in sent {
            dropped.extend(core.keep(run, port, value));
        }
    } else {
        dropped.extend(sent.into_values());
    }
    // Without a lock, as what they drop may panic or take time.
    dropped.into_iter().for_each(discard);
}

impl Core {
    /// Returns what a vertex receives. There is a value of each port, or it would not run.
    pub(super) fn incoming(&self, vertex: VertexId) -> Incoming {
        let ports = self.state.graph().vertices[vertex.0 as usize].rare().receives.iter();
        let incoming = ports.map(|port| {
            let values = port.from.iter().filter_map(|it| self.values.get(it));
            (port.clone(), values.cloned().collect())
        });
        incoming.collect()
    }

    /// Keeps a value that a run has sent, and returns the one to drop.
    fn keep(&mut self, run: RunId, port: Arc<str>, value: Value) -> Option<Value> {
        match self.state.handle_sent(run, &port) {
            Some(sender) => self.values.insert((sender, port), value),
            None => Some(value),
        }
    }
}
