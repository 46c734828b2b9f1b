//! The scope of a pass over single routes: those that are desired otherwise than before, and those
//! whose deletion the kernel announced.
//!
//! The tracker knows what the kernel holds on these keys, so they are not read. A create is
//! exclusive: the kernel itself refuses it where another writer's route is on the key.

use std::collections::BTreeSet;

use trueup_net::{
    Desired, Kind, NexthopAssignment, Observed, Policy, ResolvedDevices, ResolvedRoutes, Route,
    RouteKey, Routes, Tracker,
};
use trueup_observe::{DirtySet, Snapshot};

use super::baseline::Baseline;
use super::observe::Observation;
use crate::dirty_part::DirtyPart;

/// Dirty routes, and what the kernel holds on their keys.
#[derive(Clone, Debug)]
pub(crate) struct TrackedRoutes {
    /// The tables that the routes are in. They are read where a pass has to look.
    pub(super) part: DirtyPart,
    pub(super) keys: BTreeSet<RouteKey>,
    pub(super) desired: Desired,
    there: Vec<Route>,
    /// The nexthop objects that they are to point at, if they are to.
    assignment: Option<NexthopAssignment>,
    /// A route needs an object that is not known, which only a pass over everything can make.
    pub(super) lacks_object: bool,
    /// True if nothing else is dirty: then the kernel's echo of each change verifies it.
    pub(super) is_verified_by_echo: bool,
}

impl TrackedRoutes {
    /// Returns the routes whose keys are dirty, or `None` where there are none, or where links,
    /// addresses or all routes of a family are dirty: the routes may depend on those. `is_shared`:
    /// other writers have put routes on keys of ours.
    pub(super) fn of(
        tracker: &Tracker,
        routes: &Routes,
        dirty: &DirtySet,
        is_shared: bool,
        part: &DirtyPart,
    ) -> Option<TrackedRoutes> {
        let alone = !dirty.links && dirty.addresses.is_empty() && dirty.routes.is_empty();
        let keys: BTreeSet<RouteKey> = tracker.dirty_keys().copied().collect();
        if !alone || keys.is_empty() {
            return None;
        }
        let (routes, there) = tracker.partial_input(routes);
        let mut desired = Desired::default();
        desired.routes = Some(routes);
        Some(TrackedRoutes {
            part: part.clone(),
            keys,
            desired,
            there,
            assignment: tracker.assignment().cloned(),
            lacks_object: false,
            is_verified_by_echo: !is_shared
                && dirty.tables.is_empty()
                && dirty.rules.is_empty()
                && dirty.neighbours.is_empty(),
        })
    }

    /// Resolves the routes, on the nexthop objects that are known, and notes whether one is
    /// missing.
    pub(super) fn resolve_routes(
        &mut self,
        devices: &ResolvedDevices,
        observed: &Observed,
        policy: &Policy,
    ) -> Option<ResolvedRoutes> {
        let Some(known) = &self.assignment else {
            return devices.resolve_routes(&self.desired, observed, policy);
        };
        let routes = self.desired.routes.as_ref()?;
        let resolved = devices.resolve_routes_on(known, routes, policy);
        self.lacks_object |= resolved.is_none();
        resolved
    }

    /// Returns what the kernel is known to hold on the keys, and the links of the baseline, none of
    /// which has changed since.
    pub(super) fn observation(&mut self, baseline: &Baseline) -> Observation {
        let mut snapshot = Snapshot::default();
        snapshot.observed.links.clone_from(&baseline.links);
        snapshot.observed.routes = std::mem::take(&mut self.there);
        snapshot.mark_read(Kind::Link, None);
        snapshot.mark_read(Kind::Route, None);
        snapshot.into()
    }
}
