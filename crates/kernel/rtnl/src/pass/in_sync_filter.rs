//! Drops routes of ours that are in sync with what is desired as they arrive: they are compared in
//! the receive buffer, and held nowhere.

use std::collections::BTreeSet;

use trueup_net::{
    Desired, DumpMatcher, Kind, Observed, Owned, Policy, ResolvedDevices, ResolvedRoutes, RouteKey,
    Routes,
};

/// What routes are compared with, resolved once for an observation.
#[derive(Debug)]
pub(super) struct InSyncFilter<'a> {
    routes: &'a Routes,
    pub(super) devices: ResolvedDevices,
    pub(super) resolved: ResolvedRoutes,
    kept: BTreeSet<RouteKey>,
}

impl<'a> InSyncFilter<'a> {
    /// Returns the filter, or `None` where it takes more than a route's marker and value to tell.
    /// `kept` are the keys of routes in the ledger: their rows are kept.
    pub(super) fn of(
        desired: &'a Desired,
        observed: &Observed,
        owned: &Owned,
        policy: &Policy,
        mut kept: BTreeSet<RouteKey>,
    ) -> Option<InSyncFilter<'a>> {
        let routes = desired.routes.as_ref()?;
        if policy.by_ledger.contains(Kind::Route) {
            return None;
        }
        // An error in a link shows when the plan is made.
        let devices = ResolvedDevices::of(desired, observed, owned, policy).ok()?;
        let resolved = devices.resolve_routes(desired, observed, policy)?;
        // They count as another writer's, whom an op may cost something.
        kept.extend(resolved.outside_domain(routes, &observed.links, owned, policy));
        Some(InSyncFilter { routes, devices, resolved, kept })
    }

    /// Returns true if no route is ours by the ledger, or outside of the domain.
    pub(super) fn is_by_marker_alone(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn matcher(&self) -> DumpMatcher<'_> {
        DumpMatcher::new(self.routes, &self.resolved, self.kept.clone())
    }
}
