//! The start of runs, and the handling of their results.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::call::{Call, Incoming, call};
use super::cell::{Cell, discard};
use super::shared::{Core, Shared};
use crate::ports::Value;
use crate::sync::{MutexGuard, lock, now, wait_until};
use crate::vertex::Announce;
use crate::{Context, RunContext, RunId, Verdict, VertexId};

impl Core {
    /// Creates the call of a run that begins, or begins to apply.
    pub(super) fn begin(
        &mut self,
        shared: &Arc<Shared>,
        run: RunId,
        vertex: VertexId,
        context: Context,
    ) -> Call {
        let cell = Arc::clone(&self.cells[vertex.0 as usize]);
        let declared = &self.state.graph().vertices[vertex.0 as usize];
        let rare = declared.rare();
        let deadline = rare.timeout.and_then(|it| now().checked_add(it));
        if let Some(deadline) = deadline {
            self.deadlines.insert(run, (declared.name.clone(), deadline));
        }
        let is_interrupted = Arc::clone(&self.is_interrupted);
        let mut run_context =
            RunContext::new(context.refreshes, deadline, is_interrupted, &rare.sends);
        if declared.announces && context.apply {
            run_context.announce = Some(announce(shared, run, &run_context));
        }
        let incoming = if context.reverse { Vec::new() } else { self.incoming(vertex) };
        Call { run, cell, context, run_context, incoming, has_records: declared.is_recorded() }
    }
}

/// Returns the function that records a run's announcement.
fn announce(shared: &Arc<Shared>, run: RunId, context: &RunContext) -> Arc<Announce> {
    let (shared, deadline) = (Arc::downgrade(shared), context.deadline);
    let is_interrupted = Arc::clone(&context.is_interrupted);
    Arc::new(move |kinds| {
        let Some(shared) = shared.upgrade() else {
            return false;
        };
        let mut core = lock(&shared.core);
        let mut is_announced = core.state.handle_announced(run, kinds);
        shared.wake_worker(&mut core);
        while !is_announced {
            if is_interrupted.load(Ordering::SeqCst) || deadline.is_some_and(|at| at <= now()) {
                return false;
            }
            core = wait_until(&shared.recorded, core, deadline);
            is_announced = core.state.is_announced(run);
        }
        true
    })
}

/// Calls vertices, and reports their results to the state.
pub(super) fn execute(shared: &Shared, mut calls: Vec<Call>) -> MutexGuard<'_, Core> {
    let results = call(&mut calls);
    let ended = calls.into_iter().zip(results).filter_map(|(call, result)| {
        let (verdict, undo, message) = match result? {
            Ok((verdict, undo)) => (Ok(verdict), undo, call.run_context.warning()),
            Err(failure) => (Err(failure.class), None, Some(failure.message)),
        };
        let is_interrupted = Arc::clone(&call.run_context.is_interrupted);
        let kinds = call.run_context.kinds();
        exchange(shared, call.run, &call.cell, verdict.ok(), call.run_context);
        if let Some(member) = call.cell.take_missed() {
            lock(&shared.core).wake_watched(member);
        }
        let cell = Arc::downgrade(&call.cell);
        // This may be the last reference to a vertex that left, so drop it without the lock.
        discard(call.cell);
        Some((call.run, cell, verdict, message, undo, kinds, is_interrupted))
    });
    let ended: Vec<_> = ended.collect();
    let mut core = shared.come();
    // Last run first: the state's list of runs is in the order of their numbers.
    for (run, cell, result, message, undo, kinds, is_interrupted) in ended.into_iter().rev() {
        core.deadlines.remove(&run);
        core.set_message(run, &cell, message);
        if let Some(undo) = undo {
            core.state.handle_record(run, undo);
        }
        if let Some(kinds) = kinds {
            core.state.handle_changed(run, kinds);
        }
        match result {
            Err(_) if is_interrupted.load(Ordering::SeqCst) => {
                core.state.handle_interrupted(now(), run)
            }
            _ => core.state.handle_done(now(), run, result),
        }
    }
    core
}

impl Core {
    fn wake_watched(&self, member: u64) {
        self.watched.get(&member).iter().for_each(|(_, member)| member.wake());
    }

    /// Stores a run's failure or warning, unless another vertex has taken its place.
    fn set_message(&mut self, run: RunId, cell: &Weak<Cell>, message: Option<String>) {
        let vertex = self.state.vertex_of(run);
        if let Some(vertex) = vertex
            && Arc::as_ptr(&self.cells[vertex.0 as usize]) == cell.as_ptr()
        {
            match message {
                Some(message) => self.messages.insert(vertex, message),
                None => self.messages.remove(&vertex),
            };
        }
    }
}

/// Stores the values that a successful call has sent and received, and drops the others.
fn exchange(
    shared: &Shared,
    run: RunId,
    cell: &Cell,
    verdict: Option<Verdict>,
    run_context: RunContext,
) {
    let sent = run_context.take_sent();
    let received: Vec<Value> = run_context.inputs.into_iter().map(|it| it.value).collect();
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
    // Without a lock, because a drop may panic or take long.
    dropped.into_iter().for_each(discard);
}

impl Core {
    /// Returns the values that a vertex receives. Each port has one, or the vertex would not run.
    fn incoming(&self, vertex: VertexId) -> Incoming {
        let ports = self.state.graph().vertices[vertex.0 as usize].rare().receives.iter();
        let incoming = ports.map(|port| {
            let values = port.from.iter().filter_map(|it| self.values.get(it));
            (port.clone(), values.cloned().collect())
        });
        incoming.collect()
    }

    /// Stores a value that a run has sent, and returns the value to drop.
    fn keep(&mut self, run: RunId, port: Arc<str>, value: Value) -> Option<Value> {
        match self.state.handle_sent(run, &port) {
            Some(sender) => self.values.insert((sender, port), value),
            None => Some(value),
        }
    }
}
