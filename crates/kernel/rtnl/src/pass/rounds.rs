//! The rounds of a pass: which ops of a plan have not been tried yet.

use std::collections::HashSet;

use trueup_apply::{ErrorClass, Outcome, Pending};
use trueup_net::{Action, Devices, Hold, Kind, Op, Plan, Reason};

use crate::object_id::{ObjectId, object_id};
use crate::round::Round;

/// How often a pass restores what its own ops took along, at most.
const MAX_ROUNDS: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) done: Vec<Round>,
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
    pub(super) fn has_due(&self, plan: &Plan) -> bool {
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
    pub(super) fn untried(&self, plan: Plan) -> Plan {
        if self.tried.is_empty() {
            return plan;
        }
        let tried: Vec<bool> = plan.ops.iter().map(self.is_tried(&plan)).collect();
        // What points at a nexthop object may be among what was not done.
        let deletes_nexthop =
            |op: &Op| (op.action, op.object.kind()) == (Action::Delete, Kind::Nexthop);
        let mut tried = tried.into_iter();
        plan.retain(|op| !tried.next().unwrap_or_default() && !deletes_nexthop(op))
    }

    /// Notes the ops of a round that are not to be tried again.
    pub(super) fn note(&mut self, round: &Round) {
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
    pub(super) fn end(&mut self, round: Round, left: &Plan) {
        if !self.lacking.is_empty() {
            let Plan { ops, devices, .. } = &round.plan;
            let again = ops.iter().map(|op| op_id(op, devices));
            let again: HashSet<_> = again.filter(|id| self.lacking.contains(id)).collect();
            for earlier in self.done.iter_mut().filter(|_| !again.is_empty()) {
                earlier.retain(|op, devices, outcome| {
                    outcome.is_applied() || !again.contains(&op_id(op, devices))
                });
            }
        }
        self.done.push(round);
        let is_stored_otherwise = |op: &&Op| matches!(op.hold, Some(Hold::StoredOtherwise(_)));
        let held = left.ops.iter().filter(is_stored_otherwise);
        self.tried.extend(held.map(|op| op_id(op, &left.devices)));
    }
}

/// Returns true if an op failed, or waits, for want of another object.
fn lacks(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(failure) => failure.class() == ErrorClass::Dependency,
        Outcome::Pending(pending) => matches!(pending, Pending::Needs(_)),
        Outcome::Applied => false,
    }
}
