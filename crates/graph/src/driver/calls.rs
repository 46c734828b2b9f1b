//! Calls of vertices: of one, or of those of a group at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trueup_reconcile::ErrorClass;

use super::cell::Cell;
use super::exchange::{Incoming, exchange};
use super::shared::{Core, Shared};
use crate::panics::{catch, discard};
use crate::ports::Input;
use crate::sync::{MutexGuard, lock, now};
use crate::{Context, Failure, RunContext, RunId, Verdict, Vertex, VertexId};

/// A call of a vertex.
pub(super) struct Call {
    run: RunId,
    cell: Arc<Cell>,
    context: Context,
    run_context: RunContext,
    incoming: Incoming,
}

impl Core {
    /// Makes the call of a run that begins, or begins to apply.
    pub(super) fn begin(
        &mut self,
        shared: &Shared,
        run: RunId,
        vertex: VertexId,
        context: Context,
    ) -> Call {
        let cell = Arc::clone(&self.cells[vertex.0 as usize]);
        let declared = &self.state.graph().vertices[vertex.0 as usize];
        let deadline = declared.timeout.and_then(|it| now().checked_add(it));
        self.running.insert(run, (declared.name.clone(), deadline));
        let run_context = RunContext {
            refreshes: context.refreshes,
            deadline,
            is_interrupted: Arc::clone(&shared.is_interrupted),
            inputs: Vec::new(),
            sends: declared.sends.as_slice().into(),
            sent: Arc::default(),
        };
        let incoming = match context.reverse {
            true => Vec::new(),
            false => self.incoming(vertex),
        };
        Call {
            run,
            cell,
            context,
            run_context,
            incoming,
        }
    }
}

impl Call {
    /// Takes what the vertex receives. Calls code of its senders and merges.
    fn receive(&mut self) -> Result<(), Failure> {
        let incoming = std::mem::take(&mut self.incoming);
        let seen = lock(&self.cell.seen).clone();
        let inputs = catch(|| {
            let ports = incoming.iter().enumerate();
            let inputs =
                ports.filter_map(|(at, (port, values))| Input::new(port, values, seen.get(at)));
            Ok(inputs.collect())
        });
        incoming.into_iter().flat_map(|it| it.1).for_each(discard);
        seen.into_iter().for_each(discard);
        self.run_context.inputs = inputs?;
        Ok(())
    }
}

/// Calls vertices, and reports their results.
pub(super) fn call(shared: &Shared, mut calls: Vec<Call>) -> MutexGuard<'_, Core> {
    let received = calls.iter_mut().map(|it| it.receive().err().map(Err));
    let mut results: Vec<Option<Ended>> = received.collect();
    // Those of a group that only check, and those that apply.
    for apply in [false, true] {
        let is_part = |&at: &usize| calls[at].context.apply == apply && results[at].is_none();
        let part: Vec<usize> = (0..calls.len()).filter(is_part).collect();
        let ended = call_part(
            &part.iter().map(|&at| &calls[at]).collect::<Vec<_>>(),
            apply,
        );
        for (at, result) in part.into_iter().zip(ended) {
            results[at] = Some(result);
        }
    }
    let ended = calls.into_iter().zip(results).filter_map(|(call, result)| {
        let result = result?;
        let class = result.as_ref().map(|it| it.0).map_err(Failure::class);
        exchange(shared, call.run, &call.cell, class.ok(), call.run_context);
        let (undo, failure) = match result {
            Ok((_, undo)) => (undo, None),
            Err(failure) => (None, Some(failure)),
        };
        *lock(&call.cell.failure) = failure;
        // It may be the last hold of a vertex that has left: it is dropped without the lock.
        discard(call.cell);
        Some((call.run, class, undo))
    });
    let ended: Vec<_> = ended.collect();
    let mut core = lock(&shared.core);
    // From the last one, as runs are in the order of their numbers.
    for (run, class, undo) in ended.into_iter().rev() {
        core.running.remove(&run);
        if let Some(undo) = undo {
            core.state.handle_record(run, undo);
        }
        match class {
            Err(_) if shared.is_interrupted.load(Ordering::SeqCst) => {
                core.state.handle_interrupted(now(), run);
            }
            _ => core.state.handle_done(now(), run, class),
        }
    }
    core
}

/// The result of a vertex, and what undoes what it made if it has records.
type Ended = Result<(Verdict, Option<Undo>), Failure>;
type Undo = Option<Arc<[u8]>>;

fn call_part(calls: &[&Call], apply: bool) -> Vec<Ended> {
    // No other call has more than one of them.
    let mut locked: Vec<_> = calls.iter().map(|it| lock(&it.cell.vertex)).collect();
    let mut vertices: Vec<&mut dyn Vertex> = locked.iter_mut().map(|it| &mut ***it as _).collect();
    // What is reversed is of no group.
    if let ([vertex], [call]) = (&mut vertices[..], calls)
        && call.context.reverse
    {
        let reversed = catch(|| match apply {
            true => vertex.reverse(&call.run_context),
            false => Ok(Verdict::InPlace),
        });
        return vec![reversed.map(|verdict| (verdict, None))];
    }
    let contexts: Vec<_> = calls.iter().map(|it| it.run_context.clone()).collect();
    let results = check_apply(&mut vertices, &contexts, apply);
    let ended = results.into_iter().zip(calls).zip(&vertices);
    let ended = ended.map(|((result, call), vertex)| {
        let verdict = result?;
        let record = || catch(|| Ok(vertex.record().map(Arc::from)));
        Ok((verdict, call.cell.has_records.then(record).transpose()?))
    });
    ended.collect()
}

/// Calls vertices: those of a group at once if they can be, or else one after the other. Returns a
/// result for each.
pub(crate) fn check_apply(
    vertices: &mut [&mut dyn Vertex],
    contexts: &[RunContext],
    apply: bool,
) -> Vec<Result<Verdict, Failure>> {
    if let [first, others @ ..] = vertices
        && !others.is_empty()
    {
        let failed = |failure: Failure| vec![Err(failure); contexts.len()];
        match catch(|| Ok(first.check_apply_group(others, contexts, apply))) {
            Ok(None) => {}
            Ok(Some(results)) if results.len() == contexts.len() => return results,
            Ok(Some(_)) => {
                return failed(Failure::new(
                    ErrorClass::Unknown,
                    "the group's results are not one for each vertex; this is a fault of its code",
                ));
            }
            Err(panic) => return failed(panic),
        }
    }
    let each = vertices.iter_mut().zip(contexts);
    each.map(|(vertex, context)| catch(|| vertex.check_apply(context, apply)))
        .collect()
}
