//! A call of one vertex, or of a group's vertices together.

use std::slice;
use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use super::cell::{Cell, catch, discard};
use crate::ports::{Input, Receives, Value};
use crate::sync::lock;
use crate::{Context, Failure, RunContext, RunId, Verdict, Vertex};

/// A vertex's call that is due, with its context.
pub(super) struct Call {
    pub(super) run: RunId,
    pub(super) cell: Arc<Cell>,
    pub(super) context: Context,
    pub(super) run_context: RunContext,
    pub(super) incoming: Incoming,
    pub(super) has_records: bool,
}

/// A vertex's result, and its record if it gives records.
pub(super) type Ended = Result<(Verdict, Option<Undo>), Failure>;
type Undo = Option<Arc<[u8]>>;

/// The values to receive: for each port, one of each sender.
pub(super) type Incoming = Vec<(Receives, Vec<Value>)>;

impl Call {
    /// Takes the values that the vertex receives. Calls code of its senders and merges.
    fn receive(&mut self) -> Result<(), Failure> {
        let incoming = std::mem::take(&mut self.incoming);
        if incoming.is_empty() {
            return Ok(());
        }
        let seen = self.cell.seen();
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

/// Calls vertices. In a group, the checks run before the calls that apply.
pub(super) fn call(calls: &mut [Call]) -> Vec<Option<Ended>> {
    let mut results = Vec::with_capacity(calls.len());
    results.extend(calls.iter_mut().map(|it| it.receive().err().map(Err)));
    for apply in [false, true] {
        call_part(calls, &mut results, apply);
    }
    results
}

/// Makes the calls of one kind, checking or applying, that have no result yet.
fn call_part(calls: &[Call], results: &mut [Option<Ended>], apply: bool) {
    let (calls, mut results): (Vec<_>, Vec<_>) = calls
        .iter()
        .zip(results)
        .filter(|(call, result)| call.context.apply == apply && result.is_none())
        .unzip();
    if calls.is_empty() {
        return;
    }
    // No other call holds more than one of these locks.
    let mut locked: Vec<_> = calls.iter().map(|it| lock(&it.cell.vertex)).collect();
    calls.iter().for_each(|it| it.cell.begin());
    let mut vertices: Vec<&mut dyn Vertex> = locked.iter_mut().map(|it| &mut ***it as _).collect();
    // A reversal is in no group.
    if let ([vertex], [call], [result]) = (&mut vertices[..], &calls[..], &mut results[..])
        && call.context.reverse
    {
        let reversed =
            catch(|| if apply { vertex.reverse(&call.run_context) } else { Ok(Verdict::InPlace) });
        **result = Some(reversed.map(|verdict| (verdict, None)));
        return;
    }
    let verdicts = match &calls[..] {
        [call] => check_apply(&mut vertices, slice::from_ref(&call.run_context), apply),
        calls => {
            let contexts: Vec<_> = calls.iter().map(|it| it.run_context.clone()).collect();
            check_apply(&mut vertices, &contexts, apply)
        }
    };
    let ended = verdicts.into_iter().zip(calls).zip(&vertices);
    for (((verdict, call), vertex), result) in ended.zip(results) {
        *result = Some(verdict.and_then(|verdict| {
            let has_records = call.has_records;
            let undo = has_records.then(|| catch(|| Ok(vertex.record().map(Arc::from))));
            Ok((verdict, undo.transpose()?))
        }));
    }
}

/// Calls vertices and returns a result for each: together if the first supports it, or one after
/// the other.
pub(crate) fn check_apply(
    vertices: &mut [&mut dyn Vertex],
    contexts: &[RunContext],
    apply: bool,
) -> Vec<Result<Verdict, Failure>> {
    if let [first, others @ ..] = vertices
        && !others.is_empty()
    {
        let failure = match catch(|| Ok(first.check_apply_group(others, contexts, apply))) {
            Ok(None) => None,
            Ok(Some(results)) if results.len() == contexts.len() => return results,
            Ok(Some(_)) => Some(Failure::new(
                ErrorClass::Unknown,
                "the group's results are not one for each vertex; this is a fault of its code",
            )),
            Err(panic) => Some(panic),
        };
        if let Some(failure) = failure {
            return vec![Err(failure); contexts.len()];
        }
    }
    let each = vertices.iter_mut().zip(contexts);
    each.map(|(vertex, context)| catch(|| vertex.check_apply(context, apply))).collect()
}
