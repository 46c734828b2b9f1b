//! The last stage: finds out what the kernel holds after a plan was carried out, and what is left
//! to do. An acknowledgement proves nothing.

use std::collections::BTreeSet;

use trueup_apply::{ErrorClass, Outcome};
use trueup_net::{
    Action, Desired, Kind, Object, ObjectKind as _, Observed, Plan, Route, RouteKey, Routes,
};

use super::apply::Applied;
use super::mode::{Read, Verify};
use super::plan::PassPlan;
use super::{Observation, Pass};
use crate::Error;
use crate::history::History;
use crate::ownership::record_key::RecordKey;
use crate::round::{Round, Rounds};

/// What the kernel holds on the keys of a plan, by its echoes.
struct Echoed {
    /// The routes that the plan has put there.
    there: Vec<Route>,
    /// What the plan has not achieved. Of that nothing was done.
    left: Plan,
}

impl Pass<'_> {
    /// Returns how a plan is verified: by echo if the mode allows it, and if the kernel's echo of
    /// each change is as good as a read of everything, and cheaper. No route takes another one
    /// along, all else was read before, and what another writer does after the echo is heard.
    pub(super) fn verification(&self, plan: &Plan, rounds: &Rounds, seen: &Observation) -> Verify {
        let is_first = rounds.done.is_empty() && seen.snapshot.is_complete();
        let is_proof = self.mode.verify == Verify::Echo
            && is_first
            && is_echo_cheaper(plan, self.desired)
            && plan.ops.iter().all(|op| op.hold.is_some() || op.object.kind() == Kind::Route)
            && !self.policy.by_ledger.contains(Kind::Route)
            && !self.ledger_view.keys().any(|key| matches!(key, RecordKey::Route(_)));
        if is_proof { Verify::Echo } else { Verify::Read }
    }

    /// Returns what is left to do: what a plan did not achieve, and what the kernel took along.
    /// `before` is what the plan was made from, if the kernel has echoed each change: what it shows
    /// still holds but for these changes. Otherwise observes and plans again.
    pub(super) fn verify(
        &mut self,
        history: &History,
        applied: &mut Applied,
        before: Option<Observation>,
    ) -> Result<PassPlan, Error> {
        if let Some(mut seen) = before
            && let Some(Echoed { there, left }) = echoed(&mut applied.round)
        {
            replace_changed(&mut seen.snapshot.observed, &applied.round.plan, &left, there);
            return Ok(PassPlan { plan: left, seen });
        }
        if self.mode.read == Read::Nothing {
            self.set_wider_mode();
        }
        let Some(mut seen) = self.observe()? else {
            // What is on the new ones is outside of the keys.
            return Err(Error::links_changed());
        };
        let closed = self.close_intents(&mut seen, &applied.refused);
        self.uncommitted.extend(closed);
        self.plan_completely(history, seen).map_err(|error| {
            // Its position is one among the keys. A pass over everything says which object it is.
            if error.desired().is_some() && !self.is_over_everything() {
                Error::links_changed()
            } else {
                error
            }
        })
    }
}

/// Puts routes in the place of those that a plan has changed. What is left to do of the plan is as
/// it was.
fn replace_changed(observed: &mut Observed, done: &Plan, left: &Plan, there: Vec<Route>) {
    let (changed, unchanged) = (route_keys(done), route_keys(left));
    observed.retain_routes(|route| {
        let key = route.key();
        !changed.contains(&key) || unchanged.contains(&key)
    });
    observed.routes.extend(there);
}

fn route_keys(plan: &Plan) -> BTreeSet<RouteKey> {
    plan.ops
        .iter()
        .filter_map(|op| match &op.object {
            Object::Route(route) => Some(route.key()),
            _ => None,
        })
        .collect()
}

/// Returns true if a dump of all routes costs more than the echoes: some five rows for each.
fn is_echo_cheaper(plan: &Plan, desired: &Desired) -> bool {
    let routes = desired.routes.as_ref().map_or(0, Routes::len);
    plan.ops.len() <= 64 + routes / 8
}

/// Returns what the kernel holds after a plan, if it has echoed each op as it was to be, or has
/// done nothing of it.
fn echoed(round: &mut Round) -> Option<Echoed> {
    let Round { plan, outcomes } = round;
    let mut echoed = std::mem::take(&mut outcomes.echoed);
    let mut there = Vec::new();
    for (at, op) in plan.ops.iter().enumerate() {
        if outcomes.undone.contains(&at) && !has_conflict(&outcomes.outcomes[at]) {
            continue;
        }
        let route = echoed.remove(&at)?;
        let is_as_planned = match (&op.object, op.action) {
            _ if outcomes.outcomes.get(at) != Some(&Outcome::Applied) => false,
            (Object::Route(gone), Action::Delete) => gone.key() == route.key(),
            (Object::Route(wanted), _) => {
                let same = wanted.key() == route.key() && wanted.protocol == route.protocol;
                same && wanted.agrees(&route)
            }
            _ => false,
        };
        if !is_as_planned {
            return None;
        }
        if op.action != Action::Delete {
            there.push(route);
        }
    }
    let mut at = 0..;
    let left = plan.clone().retain(|_| at.next().is_some_and(|at| outcomes.undone.contains(&at)));
    Some(Echoed { there, left })
}

/// Returns true if something else is on the key than was known.
fn has_conflict(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.class == ErrorClass::Conflict)
}
