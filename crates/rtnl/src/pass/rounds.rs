//! The rounds of a pass: which ops of a plan have not been tried yet.

use std::collections::HashSet;

use trueup_apply::Outcome;
use trueup_diff::{Action, Hold, Kind, Op, Plan, Reason};

use crate::object_id::{ObjectId, object_id};
use crate::round::Round;

/// How often a pass restores what its own ops took along, at most.
const MAX_ROUNDS: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) done: Vec<Round>,
    /// Ops that failed or wait, and objects that were recreated: they are not tried again.
    tried: HashSet<(Action, ObjectId)>,
}

impl Rounds {
    /// Returns true if a plan has ops that have not been tried, and another round is allowed.
    pub(super) fn has_due(&self, plan: &Plan) -> bool {
        let is_tried = |op: &Op| self.is_tried(op, plan);
        self.done.len() < MAX_ROUNDS && !plan.ops.iter().all(is_tried)
    }

    fn is_tried(&self, op: &Op, plan: &Plan) -> bool {
        self.tried
            .contains(&(op.action, object_id(&op.object, &plan.devices)))
    }

    /// Returns the part of a plan that has not been tried.
    pub(super) fn untried(&self, plan: Plan) -> Plan {
        if self.tried.is_empty() {
            return plan;
        }
        let devices = plan.devices.clone();
        let tried = |op: &Op| {
            let id = object_id(&op.object, &devices);
            self.tried.contains(&(op.action, id))
        };
        // What points at a nexthop object may be among what was not done.
        let deletes_nexthop =
            |op: &Op| (op.action, op.object.kind()) == (Action::Delete, Kind::Nexthop);
        plan.retain(|op| !tried(op) && !deletes_nexthop(op))
    }

    /// Notes the ops of a round that are not to be tried again.
    pub(super) fn note(&mut self, round: &Round) {
        let Round { plan, outcomes } = round;
        for (op, outcome) in plan.ops.iter().zip(&outcomes.outcomes) {
            if *outcome != Outcome::Applied || op.reason == Reason::Recreated {
                let id = object_id(&op.object, &plan.devices);
                self.tried.insert((op.action, id));
            }
        }
    }

    /// Ends a round. What `left` holds because the kernel stores it otherwise is not tried again.
    pub(super) fn end(&mut self, round: Round, left: &Plan) {
        self.done.push(round);
        let is_stored_otherwise = |op: &&Op| matches!(op.hold, Some(Hold::StoredOtherwise(_)));
        let held = left.ops.iter().filter(is_stored_otherwise);
        let held = held.map(|op| (op.action, object_id(&op.object, &left.devices)));
        self.tried.extend(held);
    }
}
