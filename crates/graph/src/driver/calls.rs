//! Calls of vertices: of one, or of those of a group at once.

use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use super::cell::Cell;
use super::shared::{Core, Shared};
use crate::panics::catch;
use crate::sync::{MutexGuard, lock, now};
use crate::{Context, Failure, RunContext, RunId, Verdict, Vertex, VertexId};

/// A call of a vertex.
pub(super) struct Call {
    run: RunId,
    cell: Arc<Cell>,
    context: Context,
    run_context: RunContext,
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
        };
        Call {
            run,
            cell,
            context,
            run_context,
        }
    }
}

/// Calls vertices, and reports their results.
pub(super) fn call<'a>(shared: &'a Shared, calls: &[Call]) -> MutexGuard<'a, Core> {
    let mut ended = Vec::with_capacity(calls.len());
    // Those of a group that only check, and those that apply.
    for apply in [false, true] {
        let part = calls.iter().filter(|it| it.context.apply == apply);
        let part: Vec<&Call> = part.collect();
        let results = call_part(&part, apply);
        ended.extend(part.into_iter().zip(results));
    }
    let ended = ended.into_iter().map(|(call, result)| {
        let class = result.as_ref().map(|it| it.0).map_err(Failure::class);
        let (undo, failure) = match result {
            Ok((_, undo)) => (undo, None),
            Err(failure) => (None, Some(failure)),
        };
        *lock(&call.cell.failure) = failure;
        (call, class, undo)
    });
    let ended: Vec<_> = ended.collect();
    let mut core = lock(&shared.core);
    // From the last one, as runs are in the order of their numbers.
    for (call, class, undo) in ended.into_iter().rev() {
        core.running.remove(&call.run);
        if let Some(undo) = undo {
            core.state.handle_record(call.run, undo);
        }
        match class {
            Err(_) if call.run_context.is_interrupted() => {
                core.state.handle_interrupted(now(), call.run);
            }
            _ => core.state.handle_done(now(), call.run, class),
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
