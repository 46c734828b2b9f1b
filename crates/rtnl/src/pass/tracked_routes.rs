//! The scope of a pass over single routes: those that are desired otherwise than before, and those
//! whose deletion the kernel announced.
//!
//! The tracker knows what the kernel holds on these keys, so they are not read. A create is
//! exclusive: the kernel itself refuses it where another writer's route is on the key.

use trueup_diff::{Desired, Kind, Observed, Route, Routes, Tracker};
use trueup_observe::DirtySet;

use crate::dirty_part::DirtyPart;

/// Dirty routes, and what the kernel holds on their keys.
#[derive(Clone, Debug)]
pub(crate) struct TrackedRoutes {
    /// The tables that the routes are in. They are read where a pass has to look.
    pub(super) part: DirtyPart,
    pub(super) desired: Desired,
    there: Vec<Route>,
    /// True if nothing else is dirty: then the kernel's echo of each change verifies it.
    pub(super) is_verified_by_echo: bool,
}

impl TrackedRoutes {
    /// Returns the routes whose keys are dirty, or `None` where there are none, or where links,
    /// addresses or all routes of a family are dirty: the routes may depend on those.
    pub(super) fn of(
        tracker: Option<&Tracker>,
        routes: Option<&Routes>,
        dirty: &DirtySet,
        part: &DirtyPart,
    ) -> Option<TrackedRoutes> {
        let alone = !dirty.links && dirty.addresses.is_empty() && dirty.routes.is_empty();
        let mut tracker = tracker.filter(|_| alone)?.clone();
        let deleted = dirty.deleted_routes.iter();
        deleted.for_each(|key| tracker.mark_absent(*key));
        tracker.dirty_keys().next()?;
        let (routes, there) = routes.map(|routes| tracker.partial_input(routes)).unzip();
        let mut desired = Desired::default();
        desired.routes = routes;
        Some(TrackedRoutes {
            part: part.clone(),
            desired,
            there: there.unwrap_or_default(),
            is_verified_by_echo: dirty.is_empty(),
        })
    }

    /// Adds what the kernel is known to hold on the keys.
    pub(super) fn add_routes(&mut self, observed: &mut Observed) {
        observed.routes = std::mem::take(&mut self.there);
        observed.complete = observed.complete.with(Kind::Route);
    }
}
