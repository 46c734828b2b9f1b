//! The order of ops on routes.

use super::Route;
use crate::kinds::{Action, Cleared, Dependencies, Depths, Ordered, Provider, Stage};
use crate::values::Family;

impl Route {
    /// Returns true if the route leads straight out of a device, so that gateways may be reachable
    /// by it.
    fn is_on_device(&self) -> bool {
        let hops = self.nexthops.as_slice();
        !hops.is_empty() && hops.iter().all(|hop| hop.via.is_none())
    }
}

impl Ordered for Route {
    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage {
        if action != Action::Delete {
            return if self.is_on_device() { Stage::DeviceRoutes } else { Stage::Routes };
        }
        let mut devices = self.nexthops.as_slice().iter().filter_map(|hop| hop.dev);
        if anew || devices.any(|dev| cleared.devs.contains(&dev)) {
            Stage::ClearRoutes
        } else if self.is_on_device() {
            Stage::DropDeviceRoutes
        } else {
            Stage::DropRoutes
        }
    }

    /// By the length of the prefix, and those of one length by family: the longest come first and
    /// go last.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let is_v6 = self.family() == Family::Inet6;
        let length = i64::from(self.dst.len()) * 2 + i64::from(is_v6);
        match stage {
            Stage::DeviceRoutes | Stage::Routes => -length,
            _ => length,
        }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            // The old route stays until the new one is made.
            let made = before.broken.get(&(self.table, self.dst));
            needed.extend(made.copied().flatten());
            return;
        }
        if let Some(src) = self.src {
            before.need_local(src, needed);
        }
        needed.extend(self.nexthop_id().and_then(|id| before.nexthops.get(&id)));
        for hop in self.nexthops.as_slice() {
            before.need_hop(hop, needed);
        }
    }

    fn provide(&self, action: Action, was: Option<&Route>, at: u32, after: &mut Dependencies<'_>) {
        if !after.leaving.is_empty()
            && let Some(id) = self.nexthop_left(action, was)
        {
            after.leave(id, at);
        }
        if action == Action::Delete {
            return;
        }
        if !after.broken.is_empty()
            && let Some(made) = after.broken.get_mut(&(self.table, self.dst))
        {
            made.get_or_insert(at);
        }
        let hops = self.nexthops.as_slice().iter();
        for hop in hops.filter(|hop| hop.via.is_none()) {
            after.provide_prefix(hop.dev, self.dst, Provider::Op(at));
        }
    }
}
