//! The last stage: finds out the kernel's state after a plan, and the ops left. An acknowledgement
//! proves nothing.

use std::collections::BTreeSet;

use trueup_apply::{ErrorClass, Outcome};
use trueup_net::internal::ObjectTracker;
use trueup_net::{
    Action, Desired, Kind, Link, Object, ObjectKey, ObjectKind as _, Observed, OfKind, Op, Plan,
    Routes, each_kind, with_object,
};
use trueup_observe::SingleRead;

use super::apply::Applied;
use super::foreign::ENODEV;
use super::mode::{Read, Verify};
use super::observe::add_object;
use super::plan::PassPlan;
use super::{Observation, Pass};
use crate::Error;
use crate::history::History;
use crate::ownership::record_key::RecordKey;
use crate::round::{Round, Rounds};

/// The kernel's state on a plan's keys, by its echoes.
struct Echoed {
    /// The objects that the plan made or changed.
    there: Vec<Object>,
    /// The ops that did not succeed, and changed nothing.
    left: Plan,
}

impl Pass<'_> {
    /// Decides on the verification of a plan. It is by echo if the mode allows it, and if the
    /// echoes are as good as a full read, and cheaper: no route deletes another along, all else was
    /// read before, and other writers' changes after the echo are heard.
    pub(super) fn verification(&self, plan: &Plan, rounds: &Rounds, seen: &Observation) -> Verify {
        let is_first = rounds.done.is_empty() && seen.snapshot.is_complete();
        let is_proof = self.mode.verify == Verify::Echo
            && is_first
            && is_echo_cheaper(plan, self.desired)
            && plan.ops.iter().all(|op| op.hold.is_some() || self.is_shown(op.object.kind()))
            && !self.policy.by_ledger.contains(Kind::Route)
            && !self.ledger_view.keys().any(|key| matches!(key, RecordKey::Route(_)));
        if is_proof { Verify::Echo } else { Verify::Read }
    }

    /// Returns true if an echo, or a request for the single object, shows all effects of an op on
    /// the kind in this mode.
    fn is_shown(&self, kind: Kind) -> bool {
        kind == Kind::Route
            || self.mode.keys.objects().is_some() && ObjectTracker::KINDS.contains(&kind)
    }

    /// Adds the objects that the kernel did not echo, such as neighbours, each by a request of its
    /// own. Returns false if that is not possible.
    fn complete_echoes(&mut self, round: &mut Round, links: &[Link]) -> Result<bool, Error> {
        let Round { plan, outcomes } = round;
        for (at, op) in plan.ops.iter().enumerate() {
            if outcomes.outcomes.get(at) != Some(&Outcome::Applied)
                || outcomes.echoed.contains_key(&at)
                || outcomes.found_existing.contains(&at)
                || op.object.kind() == Kind::Route
            {
                continue;
            }
            let shown = match (op.action, self.observer.single(&op.object, links)?) {
                (Action::Delete, SingleRead::Absent) => op.object.clone(),
                (Action::Delete, SingleRead::Found(object)) if is_transient(&object) => {
                    op.object.clone()
                }
                (Action::Create | Action::Update, SingleRead::Found(object)) => object,
                _ => return Ok(false),
            };
            outcomes.echoed.insert(at, shown);
        }
        Ok(true)
    }

    /// Returns the plan for the rest: failed ops, and objects that the kernel deleted along.
    /// `before` is the observation from which the plan was made, if the kernel echoed each change;
    /// it still holds except for these changes. Without it, observes and plans again.
    pub(super) fn verify(
        &mut self,
        history: &History,
        applied: &mut Applied,
        before: Option<Observation>,
    ) -> Result<PassPlan, Error> {
        if let Some(mut seen) = before
            && self.complete_echoes(&mut applied.round, &seen.snapshot.observed.links)?
            && let Some(Echoed { there, left }) = echoed(&mut applied.round)
        {
            if self.mode.keys.objects().is_some()
                && let Some(events) = &mut self.events
            {
                events.forget_own(&applied.round.plan, &there);
            }
            replace_changed(&mut seen.snapshot.observed, &applied.round.plan, &left, there);
            return Ok(PassPlan { plan: left, seen });
        }
        if self.mode.read == Read::Nothing {
            self.set_wider_mode();
        }
        let Some(mut seen) = self.observe()? else {
            // Objects on new interfaces are outside the keys.
            return Err(Error::links_changed());
        };
        let closed = self.close_intents(&mut seen, &applied.refused);
        self.uncommitted.extend(closed);
        self.plan_completely(history, seen).map_err(|error| {
            // Its position is among the keys. A full pass gives the object's own.
            if error.desired().is_some() && !self.is_over_everything() {
                Error::links_changed()
            } else {
                error
            }
        })
    }
}

/// Replaces the objects that a plan has changed. The ops left are unchanged.
fn replace_changed(observed: &mut Observed, done: &Plan, left: &Plan, there: Vec<Object>) {
    let left = keys(left);
    let changed: BTreeSet<ObjectKey> =
        keys(done).into_iter().filter(|key| !left.contains(key)).collect();
    each_kind!(K => if changed.iter().any(|key| key.kind() == K::KIND) {
        if K::KIND == Kind::Route {
            observed.retain_routes(|route| !changed.contains(&ObjectKey::Route(route.key())));
        } else {
            OfKind::<K>::of_kind_mut(observed)
                .retain(|object| !changed.contains(&Object::from(object.clone()).key()));
        }
    });
    there.into_iter().for_each(|object| add_object(observed, object));
}

fn keys(plan: &Plan) -> BTreeSet<ObjectKey> {
    plan.ops.iter().map(|op| op.object.key()).collect()
}

/// Returns true if the kernel made an object and changes it by itself.
fn is_transient(object: &Object) -> bool {
    with_object!(object, object => object.is_transient())
}

/// Returns true if a dump of all routes costs more than the echoes, about five rows each.
fn is_echo_cheaper(plan: &Plan, desired: &Desired) -> bool {
    let routes = desired.routes.as_ref().map_or(0, Routes::len);
    plan.ops.len() <= 64 + routes / 8
}

/// Returns the kernel's state after a plan, if each op was either echoed as desired or did nothing.
fn echoed(round: &mut Round) -> Option<Echoed> {
    let Round { plan, outcomes } = round;
    let mut echoed = std::mem::take(&mut outcomes.echoed);
    let mut there = Vec::new();
    let undone: BTreeSet<ObjectKey> =
        outcomes.undone.iter().filter_map(|at| Some(plan.ops.get(*at)?.object.key())).collect();
    for (at, op) in plan.ops.iter().enumerate() {
        if outcomes.undone.contains(&at) && !has_surprise(op, &outcomes.outcomes[at]) {
            continue;
        }
        let object = echoed.remove(&at)?;
        let is_applied = outcomes.outcomes.get(at) == Some(&Outcome::Applied);
        let is_as_planned = is_applied
            && op.object.key() == object.key()
            && (op.action == Action::Delete
                || op.object.protocol() == object.protocol()
                    && op.object.agrees_on(&object, &plan.devices));
        if !is_as_planned {
            return None;
        }
        if op.action != Action::Delete {
            there.push(object);
        }
        // Of a recreation only one half was done: the object is neither as before nor as desired.
        if undone.contains(&op.object.key()) {
            return None;
        }
    }
    let mut at = 0..;
    let left = plan.clone().retain(|_| at.next().is_some_and(|at| outcomes.undone.contains(&at)));
    Some(Echoed { there, left })
}

/// Returns true if a refusal shows that the known state is wrong: another object is on the key, or
/// the object's device is gone.
fn has_surprise(op: &Op, outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure)
        if failure.class == ErrorClass::Conflict
            || failure.errno == Some(ENODEV) && op.object.kind() != Kind::Route)
}
