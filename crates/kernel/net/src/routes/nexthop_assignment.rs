//! [`NexthopAssignment`]: which nexthop objects routes are known to point at, from one pass to the
//! next.
//!
//! A route that gets the next hops of other routes is changed by itself: they have an object that
//! is in the kernel. Where all routes with some next hops get other ones, they stay on their
//! objects if the objects are given the new next hops. That costs the number of objects, whatever
//! the number of routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::index::Id;
use super::nexthop_table::{NexthopTable, can_point};
use super::resolved::{ResolvedRoutes, pointing_at};
use crate::kinds::{Nexthop, Route};

/// The nexthop objects that desired routes are known to point at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NexthopAssignment {
    /// The sets of next hops whose objects are in the kernel as desired.
    pub(super) table: Arc<NexthopTable>,
    /// All others.
    undone_sets: Arc<NexthopTable>,
    /// The objects that are not in the kernel as desired.
    undone: BTreeSet<u32>,
    /// The values that have got other next hops since, each with the object that its routes point
    /// at.
    replaced: BTreeMap<Id, u32>,
}

impl NexthopAssignment {
    /// Records that a pass has found the objects of routes in the kernel, but for those with the
    /// ids `undone`.
    pub(super) fn in_sync(resolved: &ResolvedRoutes, undone: BTreeSet<u32>) -> NexthopAssignment {
        let (done_sets, undone_sets) = resolved.nexthop_table().split(&undone);
        NexthopAssignment {
            table: Arc::new(done_sets),
            undone_sets: Arc::new(undone_sets),
            undone,
            replaced: BTreeMap::new(),
        }
    }

    /// Returns true if routes have got other next hops, all of a value at once.
    pub(super) fn has_replaced(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// Returns true if each route stays on its object, given the objects that all are to point at
    /// now.
    pub(super) fn is_current(&self, resolved: &ResolvedRoutes) -> bool {
        resolved.assigned().all(|(id, route, object)| {
            let before = self.replaced.get(&id).copied().or_else(|| self.table.object_of(route));
            object == before.or_else(|| self.undone_sets.object_of(route))
        })
    }

    /// Returns true if an object that was there is gone, and its routes with it, or if one that was
    /// not as desired is so by now: routes may have waited for it.
    pub(super) fn is_outdated(&self, resolved: &ResolvedRoutes, observed: &[Nexthop]) -> bool {
        resolved.nexthop_table().all().iter().any(|nexthop| {
            let there = observed.iter().find(|it| it.id == nexthop.id);
            if self.undone.contains(&nexthop.id) { there == Some(nexthop) } else { there.is_none() }
        })
    }

    /// Returns a route as it is in the kernel, where it has the next hops of this one; `None` if
    /// the object that it points at is not known.
    pub(super) fn stored(&self, mut route: Route) -> Option<Route> {
        if can_point(&route) {
            route.nexthops = pointing_at(self.table.object_of(&route)?);
        }
        Some(route)
    }

    /// Notes that all routes of a value, each like this one, get other next hops. Returns false if
    /// the object that they point at in the kernel is not known, or if they point at none.
    pub(super) fn replace(&mut self, id: Id, route: &Route) -> bool {
        if self.replaced.contains_key(&id) {
            return true;
        }
        let object = self.table.object_of(route);
        self.replaced.extend(object.map(|object| (id, object)));
        object.is_some()
    }
}
