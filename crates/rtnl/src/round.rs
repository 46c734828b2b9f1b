//! One round of a pass: a plan that was carried out, and the outcome of each op.

use std::collections::BTreeSet;

use trueup_apply::{ErrorClass, Outcome, Outcomes, Pending};
use trueup_diff::{Object, Plan};

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

    /// Removes the creates that were refused because the object was there already, as desired:
    /// `left`, the plan after this round, asks nothing more of it. Returns these objects.
    pub(crate) fn remove_redundant_creates(&mut self, left: &Plan) -> Vec<Object> {
        if !self.has_refusal() {
            return Vec::new();
        }
        let ops = left.ops.iter().map(|op| &op.object);
        let conflicts = left.conflicts.iter().map(|conflict| &conflict.desired);
        let open: BTreeSet<_> = ops.chain(conflicts).map(Object::key).collect();
        let Round { plan, outcomes } = self;
        let outcomes = &mut outcomes.outcomes;
        let mut kept = Vec::with_capacity(outcomes.len());
        let mut removed = Vec::new();
        for (op, outcome) in plan.ops.iter().zip(outcomes.iter()) {
            let is_redundant = is_refusal(outcome) && !open.contains(&op.object.key());
            removed.extend(is_redundant.then(|| op.object.clone()));
            kept.push(!is_redundant);
        }
        // An op that waits for another names it by its position.
        let waits = |outcome: &Outcome| matches!(outcome, Outcome::Pending(Pending::Needs(_)));
        if outcomes.iter().any(waits) {
            let refused = outcomes.iter_mut().zip(&kept).filter(|(_, kept)| !**kept);
            refused.for_each(|(outcome, _)| *outcome = Outcome::Applied);
            return removed;
        }
        let mut keep = kept.iter().copied();
        *plan = std::mem::take(plan).retain(|_| keep.next().unwrap_or(true));
        let mut keep = kept.iter().copied();
        outcomes.retain(|_| keep.next().unwrap_or(true));
        removed
    }
}

fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.class() == ErrorClass::Conflict)
}
