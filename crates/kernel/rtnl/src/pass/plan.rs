//! The second stage: plans from the observation, without reading. It then reviews the plan in the
//! light of earlier passes: objects in a grace, contended objects, objects stored differently by
//! the kernel, and objects overwritten by another writer.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::time::Instant;

use trueup_net::internal::{Resolution, plan_with};
use trueup_net::{Devices, Kind, Object, Observed, Plan, Reason};
use trueup_observe::DirtySet;

use super::mode::{Conflicts, Keys};
use super::{Observation, Pass};
use crate::Error;
use crate::history::{History, Review};
use crate::ownership::record_key::{RecordKey, link_names, name_of};

/// With more changes of routes than this, reading first is cheaper than appending each new route.
const MAX_APPEND_THEN_DELETE: usize = 256;

/// A plan, with the observation from which it was made.
#[derive(Debug, Default)]
pub(crate) struct PassPlan {
    pub(crate) plan: Plan,
    pub(crate) seen: Observation,
}

impl Pass<'_> {
    /// Plans from an observation.
    pub(super) fn plan(&self, seen: &mut Observation) -> Result<Plan, Error> {
        let observed = &seen.snapshot.observed;
        let names = match (seen.names.take(), std::mem::take(&mut seen.are_devices_stale)) {
            (Some(names), false) => names,
            (before, _) => Resolution::of(&self.wanted, observed, &seen.owned, &self.policy)?
                .with_routes_of(before),
        };
        let names = if names.has_routes() {
            names
        } else {
            let names = self.resolve_routes(names, observed);
            seen.moves_routes |= self.moves_routes(&names, observed);
            names
        };
        let names = &*seen.names.insert(names);
        let part = seen.out_of_sync.as_ref().and_then(|rest| rest.routes.as_ref());
        let plan = plan_with(&self.wanted, part, names, observed, &seen.owned, &self.policy)
            // The routes may be only a part: those out of sync, or on the keys.
            .map_err(|error| {
                let planned = part.or(self.wanted.routes.as_ref());
                match planned.zip(self.desired.routes.as_ref()) {
                    Some((part, all)) => error.among(part, all),
                    None => error,
                }
            })?;
        let appends =
            *seen.appends_then_deletes.get_or_insert_with(|| self.appends_then_deletes(&plan));
        Ok(if appends { plan.append_then_delete() } else { plan })
    }

    /// Resolves the desired routes, and assigns them to nexthop objects.
    fn resolve_routes(&self, names: Resolution, observed: &Observed) -> Resolution {
        match (&self.mode.keys, self.assigned(), &self.wanted.routes) {
            (Keys::Nexthops(_), ..) => names.with_routes(self.desired, observed, &self.policy),
            (Keys::Objects(..), Some(known), Some(routes)) => {
                names.with_routes_on(known, routes, &self.policy)
            }
            _ => names.with_routes(&self.wanted, observed, &self.policy),
        }
    }

    /// Returns true if a route must move to an unknown nexthop object, or if one appeared for which
    /// routes waited.
    fn moves_routes(&self, names: &Resolution, observed: &Observed) -> bool {
        match (&self.mode.keys, self.assigned()) {
            (Keys::Nexthops(_), Some(known)) => !known.keeps_objects(names, &observed.nexthops),
            (Keys::Objects(..), Some(_)) => self.wanted.routes.is_some() && !names.has_routes(),
            (Keys::Nexthops(_), None) => true,
            _ => false,
        }
    }

    /// Returns true if few routes change their gateway, and other writers' routes on their keys are
    /// unknown. Then each new route is appended before the former one is deleted.
    fn appends_then_deletes(&self, plan: &Plan) -> bool {
        // A route of ours by the ledger must be alone on its key.
        let by_ledger = !self.unmarked.is_empty() || self.policy.by_ledger.contains(Kind::Route);
        self.mode.conflicts == Conflicts::ByKernel
            && !by_ledger
            && plan.ops.iter().filter(|op| op.can_append_then_delete()).count()
                <= MAX_APPEND_THEN_DELETE
    }

    /// Reviews a pass's first plan, given the objects that became dirty since the last pass.
    /// Returns the objects that another writer has overwritten.
    pub(super) fn review(
        &self,
        history: &mut History,
        next: &mut PassPlan,
        dirty: &DirtySet,
        now: Instant,
    ) -> Result<Vec<Object>, Error> {
        if history.is_behind(self.desired, self.options) {
            let (objects, devices) = self.declared(next)?;
            history.declare(&objects, &devices);
        }
        let overwritten = self.overwritten(history, &next.plan);
        self.hold(history, next, Some(dirty), now);
        Ok(overwritten)
    }

    /// Returns all desired objects and their devices, with a plan's names if the plan covers
    /// everything.
    pub(crate) fn declared(&self, next: &PassPlan) -> Result<(Vec<Object>, Devices), Error> {
        let (desired, policy, seen) = (self.desired, &self.policy, &next.seen);
        let names = match &seen.names {
            Some(names) if self.is_over_everything() => Cow::Borrowed(names),
            _ => {
                let observed = &seen.snapshot.observed;
                let names = Resolution::of(desired, observed, &seen.owned, policy)?;
                Cow::Owned(names.with_routes(desired, observed, policy))
            }
        };
        Ok((names.objects(desired, policy)?, names.devices().clone()))
    }

    /// Returns the objects that were ours after the last pass, and are another writer's now.
    pub(super) fn overwritten(&self, history: &History, plan: &Plan) -> Vec<Object> {
        if !history.is_same(self.desired) {
            return Vec::new();
        }
        let rewritten = plan
            .conflicts
            .iter()
            .filter(|it| !it.is_in_front && history.was_in_place(&it.desired, &plan.devices))
            .map(|conflict| conflict.foreign.clone());
        let overridden = plan
            .ops
            .iter()
            .filter(|op| op.reason == Reason::Overridden)
            .filter(|op| history.was_in_place(&op.object, &plan.devices))
            .filter_map(|op| op.was().map(Cow::into_owned));
        rewritten.chain(overridden).collect()
    }

    /// Holds the ops of a plan that must wait. `dirty` is set for a pass's first plan.
    pub(super) fn hold(
        &self,
        history: &mut History,
        next: &mut PassPlan,
        dirty: Option<&DirtySet>,
        now: Instant,
    ) {
        let PassPlan { plan, seen } = next;
        let observed = &seen.snapshot.observed;
        let names = LazyCell::new(|| link_names(observed));
        let review = Review {
            desired: self.desired,
            observed,
            options: self.options,
            dirty,
            keys: &self.mode.keys,
            now,
        };
        history.review(plan, &review, |object| {
            !self.ledger_view.is_empty()
                && RecordKey::of(object, |dev| name_of(dev, &names))
                    .is_some_and(|key| self.ledger_view.record(&key).is_some())
        });
    }
}
