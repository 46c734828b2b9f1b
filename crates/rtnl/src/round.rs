//! One round of a pass: a plan that was carried out, and the outcome of each op.

use std::collections::{BTreeSet, HashMap};

use trueup_apply::{ErrorClass, Outcome, Outcomes, Pending};
use trueup_diff::{Hold, Object, Op, Plan};

use crate::history::Undone;
use crate::object_id::{ObjectId, object_id};
use crate::report::OpOutcome;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    pub(crate) plan: Plan,
    pub(crate) outcomes: Outcomes,
}

impl Round {
    /// Every op with its outcome.
    pub(crate) fn ops(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        let Round { plan, outcomes } = self;
        let ops = plan.ops.iter().zip(&outcomes.outcomes);
        ops.map(move |(op, outcome)| OpOutcome {
            op,
            outcome,
            devices: &plan.devices,
            plan,
        })
    }

    /// Returns true if the kernel refused a create because something was on the key already.
    pub(crate) fn has_refusal(&self) -> bool {
        self.outcomes.outcomes.iter().any(is_refusal)
    }

    /// Returns the objects whose creation was refused because they were there already, as desired:
    /// `left`, the plan after this round, asks nothing more of them.
    pub(crate) fn redundant_creates(&self, left: &Plan) -> Vec<Object> {
        if !self.has_refusal() {
            return Vec::new();
        }
        let ops = left.ops.iter().map(|op| &op.object);
        let conflicts = left.conflicts.iter().map(|conflict| &conflict.desired);
        let open: BTreeSet<_> = ops.chain(conflicts).map(Object::key).collect();
        let refused = self.ops().filter(|done| is_refusal(done.outcome));
        let redundant = refused.filter(|done| !open.contains(&done.op.object.key()));
        redundant.map(|done| done.op.object.clone()).collect()
    }

    /// Sets what the last observation of the pass says of the ops that were not applied: `left` has
    /// all objects that are not as desired. Of the others the op whose answer was lost is applied,
    /// and one that was refused or not sent was not needed and is removed.
    pub(crate) fn settle(&mut self, left: &HashMap<ObjectId, Undone>) {
        if self.outcomes.outcomes.iter().all(Outcome::is_applied) {
            return;
        }
        let Round { plan, outcomes } = self;
        let outcomes = &mut outcomes.outcomes;
        let is_left = |op: &Op| left.contains_key(&object_id(&op.object, &plan.devices));
        for (op, outcome) in plan.ops.iter().zip(outcomes.iter_mut()) {
            if is_unanswered(outcome) && !is_left(op) {
                *outcome = Outcome::Applied;
            }
        }
        let all = plan.ops.iter().zip(outcomes.iter());
        let kept = all.map(|(op, outcome)| outcome.is_applied() || is_left(op));
        let kept: Vec<bool> = kept.collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        // An op that waits for another names it by its position.
        let place = |at: usize| kept[..at].iter().filter(|kept| **kept).count();
        for outcome in outcomes.iter_mut() {
            if let Outcome::Pending(Pending::Needs(needed)) = outcome {
                let has_what_it_needs = !kept[*needed];
                *outcome = Outcome::Pending(match has_what_it_needs {
                    true => Pending::Held(Hold::Cut),
                    false => Pending::Needs(place(*needed)),
                });
            }
        }
        let mut keep = kept.iter().copied();
        *plan = std::mem::take(plan).retain(|_| keep.next().unwrap_or(true));
        let mut keep = kept.iter().copied();
        outcomes.retain(|_| keep.next().unwrap_or(true));
    }
}

/// Returns true if the kernel's answer was lost.
fn is_unanswered(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure)
        if failure.class() == ErrorClass::Unknown && failure.kernel().is_none())
}

fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.class() == ErrorClass::Conflict)
}
