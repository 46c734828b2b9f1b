//! Which nexthop objects routes are known to point at, from one look to the next.
//!
//! Where all routes of a way are to lead another way, they stay on their objects if those are given the new way: so it costs the
//! number of objects, whatever the number of routes.

use super::NexthopTable;
use super::Routes;
use super::index::{Change, Revision};
use crate::devices::Devices;

/// Desired routes of a revision that all point at the nexthop objects that they are to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NexthopAssignment {
    at: Revision,
    /// By value; none where the routes have next hops of their own.
    objects: Vec<Option<u32>>,
}

impl NexthopAssignment {
    /// The routes are on those objects, as of a look at all of them.
    pub fn in_sync(
        routes: &Routes,
        objects: &NexthopTable,
        devices: &Devices,
        marker: u8,
    ) -> NexthopAssignment {
        NexthopAssignment {
            at: routes.revision(),
            objects: routes.pointing(objects, devices, marker),
        }
    }

    /// Takes in what has become desired since the last time.
    ///
    /// Tells whether it could: not where more than the ways of routes that point at objects has changed. It is of no use then, and
    /// it takes a look at the whole.
    #[must_use]
    pub fn follow(&mut self, routes: &Routes) -> bool {
        let Some(mut changes) = routes.log.since(self.at) else {
            return false;
        };
        let points = |id: u32| matches!(self.objects.get(id as usize), Some(Some(_)));
        let ways = changes.all(|change| matches!(change, Change::Nexthops(id) if points(*id)));
        self.at = routes.revision();
        // Routes with a source prefix share ways with others, and point at nothing.
        ways && routes.generic.is_empty()
    }

    /// Whether the routes are to stay on their objects, where those are the objects by now.
    pub fn is_current(
        &self,
        routes: &Routes,
        objects: &NexthopTable,
        devices: &Devices,
        marker: u8,
    ) -> bool {
        self.at == routes.revision() && self.objects == routes.pointing(objects, devices, marker)
    }
}
