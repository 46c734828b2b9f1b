//! [`NexthopAssignment`]: which nexthop objects routes are known to point at, from one pass to the
//! next.
//!
//! Where all routes with some next hops get other ones, the routes stay on their objects if the
//! objects are given the new next hops. That costs the number of objects, whatever the number of
//! routes.

use std::hash::Hash;

use super::index::{Change, Routes, RoutesRevision};
use super::resolved::ResolvedRoutes;

/// The nexthop objects that all desired routes of a revision are known to point at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NexthopAssignment {
    at: RoutesRevision,
    /// By value; `None` where the routes have next hops of their own.
    objects: Vec<Option<u32>>,
}

impl NexthopAssignment {
    /// Records that a pass has found all routes on the objects that they are to point at.
    pub fn in_sync(resolved: &ResolvedRoutes) -> NexthopAssignment {
        NexthopAssignment {
            at: resolved.revision(),
            objects: resolved.objects(),
        }
    }

    /// Follows the changes of the desired routes since the last time.
    ///
    /// Returns false if it cannot: where more has changed than the next hops of routes that point
    /// at objects. Then the assignment is of no use any more, and all routes have to be read.
    #[must_use]
    pub fn follow<D: Clone + Eq + Hash>(&mut self, routes: &Routes<D>) -> bool {
        let Some(mut changes) = routes.log.since(self.at) else {
            return false;
        };
        let points = |id: u32| matches!(self.objects.get(id as usize), Some(Some(_)));
        let nexthops = changes.all(|change| matches!(change, Change::Nexthops(id) if points(*id)));
        self.at = routes.revision();
        // Routes with a source prefix share values with others, and point at no object.
        nexthops && routes.generic.is_empty()
    }

    /// Returns true if each route stays on its object, given the objects that they are to point at
    /// now.
    pub fn is_current(&self, resolved: &ResolvedRoutes) -> bool {
        self.at == resolved.revision() && self.objects == resolved.objects()
    }
}
