//! The scope of a pass over the nexthop objects that routes point at: what they lead to is desired
//! otherwise, and each route stays on its object. The pass costs the number of objects, whatever
//! the number of routes.

use trueup_diff::{Desired, Kind, Kinds, NexthopAssignment, NexthopMode, Observed, Owned, Policy};
use trueup_diff::{Devices, ResolvedDevices};
use trueup_observe::ReadScope;

use super::dirty_keys::DirtyKeys;
use crate::dirty_part::DirtyPart;

/// The nexthop objects, what else is dirty, and which route is on which object.
#[derive(Clone, Debug)]
pub(crate) struct NexthopTableScope {
    pub(super) keys: DirtyKeys,
    assignment: NexthopAssignment,
    /// A route has to move to another object, which only a pass over everything can do.
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
        NexthopTableScope {
            keys,
            assignment,
            has_moved_routes: false,
        }
    }

    pub(super) fn read_scope(&self, managed: Kinds, marker: u8) -> ReadScope {
        let scope = self.keys.read_scope(managed);
        ReadScope {
            kinds: scope.kinds.with(Kind::Nexthop),
            // Of foreign nexthop objects those alone that have a number of ours.
            protocol: Some(marker),
            ..scope
        }
    }

    /// Assigns the nexthop objects anew, and notes whether each route stays on its own.
    pub(super) fn assign(
        &mut self,
        desired: &Desired,
        devices: &ResolvedDevices,
        observed: &Observed,
        owned: &Owned,
        policy: Policy,
    ) -> NexthopMode {
        let mode = devices.assign(desired, observed, owned, policy);
        let routes = desired.routes.as_ref().zip(mode.objects());
        let stays = routes.is_some_and(|(routes, objects)| {
            let devices = Devices::observed(&observed.links);
            let assignment = &self.assignment;
            assignment.is_current(routes, objects, &devices, policy.marker)
        });
        self.has_moved_routes |= !stays;
        mode
    }
}
