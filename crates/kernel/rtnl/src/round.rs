//! The rounds of a pass: in each a plan was carried out, and every op of it has an outcome. What
//! one round has tried is not tried again in the next.

use std::collections::{BTreeSet, HashMap, HashSet};

use trueup_apply::{ErrorClass, Outcome, Outcomes, Pending, Wait};
use trueup_net::{Action, Devices, Hold, Kind, Object, Op, Plan, Reason};

use crate::history::Undone;
use crate::key::{ObjectId, object_id};
use crate::report::OpOutcome;

/// How often a pass restores what its own ops took along, at most.
const MAX_ROUNDS: usize = 3;

/// A plan that was carried out, and the outcome of each op.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    pub(crate) plan: Plan,
    pub(crate) outcomes: Outcomes,
}

impl Round {
    /// Every op with its outcome.
    pub(crate) fn ops(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        let Round { plan, outcomes } = self;
        let devices = &plan.devices;
        plan.ops.iter().zip(&outcomes.outcomes).map(move |(op, outcome)| OpOutcome {
            op,
            outcome,
            devices,
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
        self.ops()
            .filter(|done| is_refusal(done.outcome) && !open.contains(&done.op.object.key()))
            .map(|done| done.op.object.clone())
            .collect()
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

    /// Has the ops that were refused on objects which other hosts only offer be no failures.
    pub(crate) fn decline(&mut self, left: &HashMap<ObjectId, Undone>) {
        let Round { plan, outcomes } = self;
        for (op, outcome) in plan.ops.iter().zip(&mut outcomes.outcomes) {
            let left = || left.get(&object_id(&op.object, &plan.devices));
            if let Outcome::Failed(failure) = outcome
                && left().is_some_and(|left| left.is_declined)
            {
                *outcome = Outcome::Declined(failure.clone());
            }
        }
    }

    /// Keeps some of the ops. One that waits for an op that is not kept can be made by now, and is
    /// for the next pass.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Op, &Devices, &Outcome) -> bool) {
        let Round { plan, outcomes } = self;
        let outcomes = &mut outcomes.outcomes;
        let kept: Vec<bool> = plan
            .ops
            .iter()
            .zip(outcomes.iter())
            .map(|(op, outcome)| keep(op, &plan.devices, outcome))
            .collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        // An op that waits for another names it by its position.
        let mut next = 0..;
        let places: Vec<Option<usize>> =
            kept.iter().map(|kept| kept.then(|| next.next()).flatten()).collect();
        for outcome in outcomes.iter_mut() {
            if let Outcome::Pending(Pending::Own(Wait::Needs(needed))) = outcome {
                let waits = places[*needed].map_or(Pending::Cut, |at| Wait::Needs(at).into());
                *outcome = Outcome::Pending(waits);
            }
        }
        let mut keep = kept.iter().copied();
        *plan = std::mem::take(plan).retain(|_| keep.next().unwrap_or(true));
        let mut keep = kept.iter().copied();
        outcomes.retain(|_| keep.next().unwrap_or(true));
    }
}

/// The rounds of a pass so far.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) done: Vec<Round>,
    /// Ops that failed or wait, and objects that were recreated: they are not tried again.
    tried: HashSet<OpId>,
    /// Those of them that lacked something: they are tried again beside a link or an address, such
    /// as one that the kernel took along with a change before.
    lacking: HashSet<OpId>,
}

/// What is done, and to which object.
type OpId = (Action, ObjectId);

fn op_id(op: &Op, devices: &Devices) -> OpId {
    (op.action, object_id(&op.object, devices))
}

impl Rounds {
    /// Returns true if a plan has ops that have not been tried, and another round is allowed.
    pub(crate) fn has_due(&self, plan: &Plan) -> bool {
        self.done.len() < MAX_ROUNDS && !plan.ops.iter().all(self.is_tried(plan))
    }

    /// Returns true of the ops of a plan that are not tried again.
    fn is_tried<'a>(&'a self, plan: &'a Plan) -> impl Fn(&Op) -> bool + 'a {
        let id = |op: &Op| op_id(op, &plan.devices);
        let brings = |op: &&Op| {
            let is_ground = matches!(op.object.kind(), Kind::Link | Kind::Address);
            is_ground && op.action != Action::Delete && op.hold.is_none()
        };
        let mut ground = plan.ops.iter().filter(brings);
        let is_brought = !self.lacking.is_empty() && ground.any(|op| !self.tried.contains(&id(op)));
        move |op| {
            let id = id(op);
            self.tried.contains(&id) && !(is_brought && self.lacking.contains(&id))
        }
    }

    /// Returns the part of a plan that has not been tried.
    pub(crate) fn untried(&self, plan: Plan) -> Plan {
        if self.tried.is_empty() {
            return plan;
        }
        let tried: Vec<bool> = plan.ops.iter().map(self.is_tried(&plan)).collect();
        // What points at a nexthop object may be among what was not done.
        let deletes_nexthop =
            |op: &Op| (op.action, op.object.kind()) == (Action::Delete, Kind::Nexthop);
        let mut each = tried.into_iter();
        plan.retain(|op| !each.next().unwrap_or_default() && !deletes_nexthop(op))
    }

    /// Notes the ops of a round that are not to be tried again.
    pub(crate) fn note(&mut self, round: &Round) {
        let Round { plan, outcomes } = round;
        for (op, outcome) in plan.ops.iter().zip(&outcomes.outcomes) {
            if *outcome != Outcome::Applied || op.reason == Reason::Recreated {
                let id = op_id(op, &plan.devices);
                self.tried.insert(id);
                if lacks(outcome) {
                    self.lacking.insert(id);
                }
            }
        }
    }

    /// Ends a round. What `left` holds because the kernel stores it otherwise is not tried again.
    /// What was tried again has the outcome of that.
    pub(crate) fn end(&mut self, round: Round, left: &Plan) {
        if !self.lacking.is_empty() {
            let Plan { ops, devices, .. } = &round.plan;
            let again: HashSet<_> = ops
                .iter()
                .map(|op| op_id(op, devices))
                .filter(|id| self.lacking.contains(id))
                .collect();
            for earlier in self.done.iter_mut().filter(|_| !again.is_empty()) {
                earlier.retain(|op, devices, outcome| {
                    outcome.is_applied() || !again.contains(&op_id(op, devices))
                });
            }
        }
        self.done.push(round);
        self.tried.extend(
            left.ops
                .iter()
                .filter(|op| matches!(op.hold, Some(Hold::StoredOtherwise(_))))
                .map(|op| op_id(op, &left.devices)),
        );
    }
}

/// Returns true if the kernel's answer was lost.
fn is_unanswered(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure)
        if failure.class == ErrorClass::Unknown && failure.errno.is_none())
}

fn is_refusal(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.class == ErrorClass::Conflict)
}

/// Returns true if an op failed, or waits, for want of another object.
fn lacks(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(failure) | Outcome::Declined(failure) => {
            failure.class == ErrorClass::Dependency
        }
        Outcome::Pending(pending) => matches!(pending, Pending::Own(Wait::Needs(_))),
        Outcome::Applied => false,
    }
}

#[cfg(test)]
mod tests {
    use trueup_apply::stored_otherwise;
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
            let failure = stored_otherwise(desired, None, &Devices::default());
            Outcome::Failed(Box::new(failure))
        };
        let needs = |at| Outcome::Pending(Wait::Needs(at).into());
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
        let due = Outcome::Pending(Pending::Cut);
        let expected = [due, Outcome::Applied, all[3].clone(), needs(2)];
        assert_eq!(round.outcomes.outcomes, expected);
    }
}
