//! The scope of a pass over the nexthop objects that routes point at: what they lead to is desired
//! otherwise, and each route stays on its object, or one that failed is tried again. The pass costs
//! the number of objects, whatever the number of routes.

use trueup_net::{
    Desired, Kind, Kinds, NexthopAssignment, Observed, Policy, ResolvedDevices, ResolvedRoutes,
};
use trueup_observe::ReadScope;

use super::dirty_keys::DirtyKeys;
use crate::dirty_part::DirtyPart;

/// The nexthop objects, what else is dirty, and which route is on which object.
#[derive(Clone, Debug)]
pub(crate) struct NexthopTableScope {
    pub(super) keys: DirtyKeys,
    assignment: NexthopAssignment,
    /// A route has to move to another object, or may point at one that is there at last, which only
    /// a pass over everything can do.
    pub(super) has_moved_routes: bool,
}

impl NexthopTableScope {
    pub(super) fn new(
        part: DirtyPart,
        desired: &Desired,
        assignment: NexthopAssignment,
    ) -> NexthopTableScope {
        let mut keys = DirtyKeys::new(part, desired);
        // Nexthop objects are managed where routes are.
        keys.desired.routes.get_or_insert_default();
        NexthopTableScope { keys, assignment, has_moved_routes: false }
    }

    pub(super) fn read_scope(&self, managed: Kinds, marker: u8) -> ReadScope {
        let scope = self.keys.read_scope(managed);
        let kinds = scope.kinds.with(Kind::Nexthop);
        // Of foreign nexthop objects those alone that have a number of ours.
        scope.with_kinds(kinds).with_protocol(marker)
    }

    /// Resolves all desired routes, with the nexthop objects assigned anew, and notes whether each
    /// route stays on its own.
    pub(super) fn resolve_routes(
        &mut self,
        desired: &Desired,
        devices: &ResolvedDevices,
        observed: &Observed,
        policy: &Policy,
    ) -> Option<ResolvedRoutes> {
        let resolved = devices.resolve_routes(desired, observed, policy);
        let is_current = |resolved: &ResolvedRoutes| {
            self.assignment.is_current(resolved)
                && !self.assignment.is_outdated(resolved, &observed.nexthops)
        };
        self.has_moved_routes |= !resolved.as_ref().is_some_and(is_current);
        resolved
    }
}
