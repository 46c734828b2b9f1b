//! The second stage: plans from what was observed, after a check of the foreign objects that the
//! plan concerns.

use std::collections::BTreeSet;

use trueup_net::{
    Desired, Devices, Item as _, Kind, Object, Observed, Op, Owned, Plan, Policy, Protocols,
    ResolvedDevices, ResolvedRoutes, Route, RouteDependencies, RouteKey, plan_with,
};
use trueup_observe::{Observer, Snapshot};

use super::conflict_check::{ConflictCheck, ForeignObjects};
use super::foreign_keys::ForeignKeys;
use super::observe::{Observation, OutOfSync};
use super::pass_plan::PassPlan;
use super::scope::PassScope;
use crate::{Error, Planned};

/// More changes of routes are cheaper to read first than to make one by one by appending the new
/// route.
const MAX_APPEND_THEN_DELETE: usize = 256;

/// What a plan is made from beside an observation.
pub(super) struct Planner<'a> {
    /// What is desired, in the scope and outside.
    pub(super) desired: &'a Desired,
    pub(super) policy: &'a Policy,
    /// Routes of ours that do not bear the marker.
    pub(super) unmarked: &'a BTreeSet<RouteKey>,
    pub(super) foreign: &'a mut ForeignKeys,
    pub(super) check: ConflictCheck,
    /// Returns true if an op is not tried in this pass, because it failed before.
    pub(super) is_put_off: &'a dyn Fn(&Op, &Devices) -> bool,
    /// Returns true if another writer's object was in the way of an op when it was looked at last.
    pub(super) is_in_conflict: &'a dyn Fn(&Op, &Devices) -> bool,
}

impl Planner<'_> {
    pub(super) fn plan(
        self,
        observer: &mut Observer,
        observation: Observation,
        scope: &mut PassScope,
        owned: Owned,
    ) -> Result<PassPlan, Error> {
        let Observation { snapshot, out_of_sync, devices, foreign: read_along } = observation;
        let Snapshot { mut observed, incomplete: mut doubts, .. } = snapshot;
        let policy = self.policy;
        let resolve_names = |scope: &PassScope, observed: &Observed| {
            let desired = scope.desired(self.desired);
            ResolvedDevices::of(desired, observed, &owned, policy)
        };
        let mut devices = match devices {
            Some(devices) => devices,
            None => resolve_names(scope, &observed)?,
        };
        let is_filtered = out_of_sync.is_some();
        let (mismatched, resolved, dependencies) = match out_of_sync {
            Some(OutOfSync { routes, resolved, dependencies }) => {
                (routes, Some(resolved), dependencies)
            }
            None => (None, None, RouteDependencies::default()),
        };
        let mut resolved = match (&mut *scope, resolved) {
            (PassScope::NexthopTable(table), _) => {
                table.resolve_routes(self.desired, &devices, &observed, policy)
            }
            (PassScope::TrackedRoutes(tracked), _) => {
                tracked.resolve_routes(&devices, &observed, policy)
            }
            (_, Some(resolved)) => Some(resolved),
            (scope, None) => devices.resolve_routes(scope.desired(self.desired), &observed, policy),
        };
        let (desired, scope) = (scope.desired(self.desired), &*scope);
        let routes = mismatched.as_ref().or(desired.routes.as_ref());
        let make =
            |observed: &Observed, devices: &ResolvedDevices, resolved: Option<&ResolvedRoutes>| {
                let routes = routes.zip(resolved);
                let plan = plan_with(desired, routes, devices, observed, &owned, policy);
                // The routes may be a part: those that are not in sync, or that are in the scope.
                let all = routes.map(|(part, _)| part).zip(self.desired.routes.as_ref());
                plan.map_err(|error| {
                    Error::from(match all {
                        Some((part, all)) => error.among(part, all),
                        None => error,
                    })
                })
            };
        let mut plan = make(&observed, &devices, resolved.as_ref())?;
        let append_then_delete = self.appends_then_deletes(&plan);
        if append_then_delete {
            plan = plan.append_then_delete();
        }
        let make_again = |observed: &Observed, devices: &ResolvedDevices, resolved: Option<&_>| {
            let plan = make(observed, devices, resolved)?;
            Ok::<_, Error>(match append_then_delete {
                true => plan.append_then_delete(),
                false => plan,
            })
        };
        let is_unread = |op: &Op| {
            let is_in_conflict = || (self.is_in_conflict)(op, &plan.devices);
            let is_by_kernel = self.check == ConflictCheck::ByKernel && !is_in_conflict();
            is_by_kernel || (self.is_put_off)(op, &plan.devices)
        };
        let known = &*self.foreign;
        let foreign = ForeignObjects::of(&plan, &observed, known, &read_along, is_unread);
        let were_read = read_along.tables.clone();
        self.foreign.extend(read_along);
        if !foreign.is_empty() {
            let managed = desired.managed();
            let is_desired = |key: &RouteKey| self.desired.has_route(key);
            let is_read = |route: &Route| {
                let key = route.key();
                // In the order of the kernel: the first of a key is the one that it uses.
                let was_read = || were_read.contains(&(key.dst.family(), key.table));
                let is_known = route.protocol == policy.marker
                    || self.unmarked.contains(&key)
                    || was_read() && is_desired(&key);
                managed.contains(Kind::Route) && is_known
            };
            let concern_devices = foreign.concern_devices();
            let (into, doubts) = (&mut observed, &mut doubts);
            let read = foreign.read(observer, managed, is_read, is_desired, into, doubts)?;
            self.foreign.extend(read.on_keys);
            if read.is_new {
                // A plan can be large: the old one goes first.
                drop(plan);
                if concern_devices {
                    devices = resolve_names(scope, &observed)?;
                    // Routes in sync stay on their nexthop objects.
                    if !is_filtered
                        && matches!(scope, PassScope::Everything(_) | PassScope::DirtyKeys(_))
                    {
                        resolved = devices.resolve_routes(desired, &observed, policy);
                    }
                }
                plan = make_again(&observed, &devices, resolved.as_ref())?;
            }
        }
        if self.find_advertised(observer, &plan, &mut observed) {
            plan = make_again(&observed, &devices, resolved.as_ref())?;
        }
        Ok(PassPlan {
            planned: Planned { plan, observed, doubts },
            owned,
            check: self.check,
            devices: Some(devices),
            routes: resolved,
            dependencies,
        })
    }

    /// Finds the foreign routes in conflict that are of router advertisements. Returns true if
    /// there are any: another plan comes beside them.
    fn find_advertised(&self, observer: &Observer, plan: &Plan, observed: &mut Observed) -> bool {
        let in_conflict = plan.conflicts.iter();
        let in_conflict = in_conflict.filter_map(|conflict| match &conflict.foreign {
            Object::Route(route) if route.protocol == Protocols::ROUTER_ADVERTISEMENT => {
                Some(route.key())
            }
            _ => None,
        });
        let in_conflict: BTreeSet<RouteKey> = in_conflict.collect();
        if in_conflict.is_empty() {
            return false;
        }
        let foreign = observed.routes.iter();
        let foreign = foreign.filter(|route| in_conflict.contains(&route.key()));
        observed.advertised = observer.advertised(foreign);
        !observed.advertised.is_empty()
    }

    /// Returns true if few routes change another gateway, and who else is on their keys is not
    /// known: then each new route is appended before the former one is deleted.
    fn appends_then_deletes(&self, plan: &Plan) -> bool {
        let changed = || plan.ops.iter().filter(|op| op.can_append_then_delete());
        // A route of ours by the ledger has to be alone on its key.
        let by_ledger = !self.unmarked.is_empty() || self.policy.by_ledger.contains(Kind::Route);
        self.check == ConflictCheck::ByKernel
            && !by_ledger
            && changed().count() <= MAX_APPEND_THEN_DELETE
    }
}
