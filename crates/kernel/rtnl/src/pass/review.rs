//! Reviews a plan in the light of earlier passes: what waits for a grace, what is contended, what
//! the kernel stores otherwise, and what another writer has overwritten.

use std::borrow::Cow;
use std::time::Instant;

use trueup_net::{Dev, Object, Observed, Plan, Reason, Resolved, resolve, resolve_with};
use trueup_observe::DirtySet;

use super::Pass;
use super::pass_plan::PassPlan;
use crate::Error;
use crate::history::{History, Review};
use crate::location::link_names;
use crate::ownership::record_key::RecordKey;

impl Pass<'_> {
    /// Reviews the first plan of a pass, given what became dirty since the last one. Returns the
    /// objects that another writer has overwritten meanwhile.
    pub(super) fn review(
        &self,
        history: &mut History,
        next: &mut PassPlan,
        dirty: &DirtySet,
        now: Instant,
    ) -> Result<Vec<Object>, Error> {
        if history.is_behind(self.desired, self.options) {
            history.declare(&self.resolve_all(next)?);
        }
        let overwritten = self.overwritten(history, &next.planned.plan);
        let (plan, observed) = (&mut next.planned.plan, &next.planned.observed);
        self.hold(history, plan, observed, Some(dirty), now);
        Ok(overwritten)
    }

    /// Resolves all that is desired, with the names of a plan where it is for everything.
    pub(crate) fn resolve_all(&self, next: &PassPlan) -> Result<Resolved, Error> {
        let (desired, policy) = (self.desired, &self.policy);
        let (observed, owned) = (&next.planned.observed, &next.owned);
        let devices = next.devices.as_ref().filter(|_| self.scope.is_everything());
        let Some(devices) = devices else {
            return Ok(resolve(desired, observed, owned, policy)?);
        };
        let routes = desired.routes.as_ref().zip(next.routes.as_ref());
        Ok(resolve_with(desired, routes, devices, policy)?)
    }

    /// Returns what was ours when the last pass ended, and is another writer's by now.
    pub(super) fn overwritten(&self, history: &History, plan: &Plan) -> Vec<Object> {
        if !history.is_same(self.desired) {
            return Vec::new();
        }
        let was_in_place = |object: &Object| history.was_in_place(object, &plan.devices);
        let conflicts = plan.conflicts.iter();
        let conflicts =
            conflicts.filter(|conflict| !conflict.is_in_front && was_in_place(&conflict.desired));
        let mut all: Vec<Object> = conflicts.map(|conflict| conflict.foreign.clone()).collect();
        let overriding = plan.ops.iter().filter(|op| op.reason == Reason::Overridden);
        let overriding = overriding.filter(|op| was_in_place(&op.object));
        all.extend(overriding.filter_map(|op| op.was().map(Cow::into_owned)));
        all
    }

    /// Holds the ops of a plan that have to wait. `dirty` is given for the first plan of a pass.
    pub(super) fn hold(
        &self,
        history: &mut History,
        plan: &mut Plan,
        observed: &Observed,
        dirty: Option<&DirtySet>,
        now: Instant,
    ) {
        let names = link_names(observed);
        let is_recorded = |object: &Object| {
            let name = |dev: Dev| names.get(&dev.as_index()?).copied();
            let key = RecordKey::of(object, name);
            key.is_some_and(|key| self.ledger_view.record(&key).is_some())
        };
        let is_recorded = |object: &Object| !self.ledger_view.is_empty() && is_recorded(object);
        let review = Review {
            desired: self.desired,
            observed,
            options: self.options,
            dirty,
            scope: &self.scope,
            now,
        };
        history.review(plan, &review, is_recorded);
    }
}
