//! One round of a pass: a plan that was carried out, and the outcome of each op.

use std::collections::{BTreeSet, HashMap};

use trueup_apply::{ErrorClass, Outcome, Outcomes, Pending};
use trueup_net::{Devices, Hold, Object, Op, Plan};

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
        ops.map(move |(op, outcome)| OpOutcome { op, outcome, devices: &plan.devices, plan })
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
        self.retain(|op, devices, outcome| {
            outcome.is_applied() || left.contains_key(&object_id(&op.object, devices))
        });
    }

    /// Keeps some of the ops. One that waits for an op that is not kept can be made by now, and is
    /// for the next pass.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Op, &Devices, &Outcome) -> bool) {
        let Round { plan, outcomes } = self;
        let outcomes = &mut outcomes.outcomes;
        let all = plan.ops.iter().zip(outcomes.iter());
        let kept: Vec<bool> = all.map(|(op, outcome)| keep(op, &plan.devices, outcome)).collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        // An op that waits for another names it by its position.
        let mut places = 0..;
        let place = |kept: &bool| kept.then(|| places.next()).flatten();
        let places: Vec<Option<usize>> = kept.iter().map(place).collect();
        for outcome in outcomes.iter_mut() {
            if let Outcome::Pending(Pending::Needs(needed)) = outcome {
                let waits = places[*needed].map_or(Pending::Held(Hold::Cut), Pending::Needs);
                *outcome = Outcome::Pending(waits);
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

#[cfg(test)]
mod tests {
    use trueup_apply::Failure;
    use trueup_net::{Desired, Family, Kinds, Observed, Owned, Rule, RuleAction};
    use trueup_reconcile::Condition;

    use super::*;

    fn plan(rules: Vec<Rule>) -> Plan {
        let desired = Desired::default().with_rules(rules);
        let observed = Observed::default().with_complete(Kinds::ALL);
        trueup_net::plan(&desired, &observed, &Owned::default(), 116).unwrap()
    }

    #[test]
    fn what_is_as_desired_leaves_the_report_and_what_waited_for_it_is_due() {
        let rule = |priority| Rule::new(Family::Inet, priority, RuleAction::Lookup(100));
        let plan = plan((1..7).map(rule).collect());
        let desired = &plan.ops[0].object;
        let refused = || {
            let failure = Failure::stored_otherwise(desired, None, &Devices::default());
            Outcome::Failed(Box::new(failure))
        };
        let needs = |at| Outcome::Pending(Pending::Needs(at));
        let all = [refused(), needs(0), Outcome::Applied, refused(), needs(3), needs(0)];
        let left = [1, 3, 4].map(|at: usize| {
            let object = &plan.ops[at].object;
            let why = "it is left".to_owned();
            let undone = Undone::new(object, &plan.devices, Condition::Pending { why });
            (object_id(object, &plan.devices), undone)
        });
        let priorities = |round: &Round| -> Vec<_> {
            let objects = round.plan.ops.iter().map(|op| &op.object);
            objects.map(|object| object.spec(&round.plan.devices)).collect()
        };
        let mut outcomes = Outcomes::default();
        outcomes.outcomes = all.to_vec();
        let mut round = Round { plan, outcomes };
        let before = priorities(&round);
        round.settle(&left.into());
        let kept = [1, 2, 3, 4].map(|at: usize| before[at].clone());
        assert_eq!(priorities(&round), kept);
        let due = Outcome::Pending(Pending::Held(Hold::Cut));
        let expected = [due, Outcome::Applied, all[3].clone(), needs(2)];
        assert_eq!(round.outcomes.outcomes, expected);
    }
}
