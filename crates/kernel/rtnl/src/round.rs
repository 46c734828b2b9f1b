//! The rounds of a pass. Each carries out a plan, with an outcome for every op. An op tried in one
//! round is not tried again in the next.

use std::collections::{BTreeSet, HashSet};

use trueup_apply::{ErrorClass, Outcome, Outcomes, Pending, Wait};
use trueup_net::{Action, Devices, Hold, Kind, Object, Op, Plan, Reason};

use crate::key::{ObjectId, object_id};

/// The largest number of rounds in which a pass restores objects deleted along by its own ops.
const MAX_ROUNDS: usize = 3;

/// A plan that was carried out, and the outcome of each op.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    pub(crate) plan: Plan,
    pub(crate) outcomes: Outcomes,
}

/// An op of a report: planned, and then carried out, refused or not tried.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpOutcome<'a> {
    /// The op, with its reason and hold.
    pub op: &'a Op,
    /// Applied, failed, or pending with the reason.
    pub outcome: &'a Outcome,
    /// The devices to which the op refers.
    pub devices: &'a Devices,
    plan: &'a Plan,
}

impl<'a> OpOutcome<'a> {
    /// Returns the op for which this one waits, or `None`.
    pub fn waits_for(&self) -> Option<&'a Op> {
        match self.outcome {
            Outcome::Pending(Pending::Own(Wait::Needs(at))) => self.plan.ops.get(*at),
            _ => None,
        }
    }

    pub(crate) fn object_id(&self) -> ObjectId {
        object_id(&self.op.object, self.devices)
    }
}

impl Round {
    /// Returns every op with its outcome.
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

    /// Returns true if the kernel refused a create because the key was taken.
    pub(crate) fn has_refusal(&self) -> bool {
        self.outcomes.outcomes.iter().any(is_refusal)
    }

    /// Returns the objects that existed already as desired when they were to be created: `left`,
    /// the plan after this round, has no op on them.
    pub(crate) fn redundant_creates(&self, left: &Plan) -> Vec<Object> {
        let found = &self.outcomes.found_existing;
        if found.is_empty() && !self.has_refusal() {
            return Vec::new();
        }
        let open: BTreeSet<_> = left
            .ops
            .iter()
            .map(|op| &op.object)
            .chain(left.conflicts.iter().map(|conflict| &conflict.desired))
            .map(Object::key)
            .collect();
        self.ops()
            .enumerate()
            .filter(|(at, done)| is_refusal(done.outcome) || found.contains(at))
            .map(|(_, done)| &done.op.object)
            .filter(|object| !open.contains(&object.key()))
            .cloned()
            .collect()
    }

    /// Sets the outcomes of ops that were not applied, by the pass's last observation. `is_left`
    /// returns true for an object that is not as desired. If it is as desired, an op whose answer
    /// was lost counts as applied, and one that was refused or not sent is removed as unneeded.
    pub(crate) fn settle(&mut self, is_left: impl Fn(&ObjectId) -> bool) {
        if self.outcomes.outcomes.iter().all(Outcome::is_applied) {
            return;
        }
        let Round { plan, outcomes } = self;
        for (op, outcome) in plan.ops.iter().zip(&mut outcomes.outcomes) {
            if is_unanswered(outcome) && !is_left(&object_id(&op.object, &plan.devices)) {
                *outcome = Outcome::Applied;
            }
        }
        self.retain(|op, devices, outcome| {
            outcome.is_applied() || is_left(&object_id(&op.object, devices))
        });
    }

    /// Turns refusals on objects that other hosts offer into declined ones.
    pub(crate) fn decline(&mut self, is_declined: impl Fn(&ObjectId) -> bool) {
        let Round { plan, outcomes } = self;
        for (op, outcome) in plan.ops.iter().zip(&mut outcomes.outcomes) {
            if let Outcome::Failed(failure) = outcome
                && is_declined(&object_id(&op.object, &plan.devices))
            {
                *outcome = Outcome::Declined(failure.clone());
            }
        }
    }

    /// Keeps some of the ops. One that waits for a removed op has become possible, and is left to
    /// the next pass.
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
        // An op that waits for another names its position.
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
    /// Ops that failed or wait, and recreated objects. They are not tried again.
    tried: HashSet<OpId>,
    /// Ops among them that lacked an object. They are retried together with a link or an address,
    /// for instance one that an earlier change deleted along.
    lacking: HashSet<OpId>,
}

/// An op's action and object.
type OpId = (Action, ObjectId);

fn op_id(op: &Op, devices: &Devices) -> OpId {
    (op.action, object_id(&op.object, devices))
}

impl Rounds {
    /// Returns true if a plan has untried ops, and another round is allowed.
    pub(crate) fn has_due(&self, plan: &Plan) -> bool {
        self.done.len() < MAX_ROUNDS && !plan.ops.iter().all(self.is_tried(plan))
    }

    /// Returns a test for the ops of a plan that are not tried again.
    fn is_tried<'a>(&'a self, plan: &'a Plan) -> impl Fn(&Op) -> bool + 'a {
        let is_ground_brought = !self.lacking.is_empty()
            && plan.ops.iter().any(|op| {
                matches!(op.object.kind(), Kind::Link | Kind::Address)
                    && op.action != Action::Delete
                    && op.hold.is_none()
                    && !self.tried.contains(&op_id(op, &plan.devices))
            });
        move |op| {
            let id = op_id(op, &plan.devices);
            self.tried.contains(&id) && !(is_ground_brought && self.lacking.contains(&id))
        }
    }

    /// Returns the untried part of a plan.
    pub(crate) fn untried(&self, plan: Plan) -> Plan {
        if self.tried.is_empty() {
            return plan;
        }
        let tried: Vec<bool> = plan.ops.iter().map(self.is_tried(&plan)).collect();
        let mut each = tried.into_iter();
        plan.retain(|op| {
            !each.next().unwrap_or_default()
                // Objects that point at a nexthop object may be among the failed ones.
                && (op.action, op.object.kind()) != (Action::Delete, Kind::Nexthop)
        })
    }

    /// Records the ops of a round that are not to be retried.
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

    /// Ends a round. Ops held in `left` because the kernel stores their object differently are not
    /// retried. A retried op has the outcome of its retry.
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

/// Returns true if an op failed, or waits, for lack of another object.
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
mod tests;
