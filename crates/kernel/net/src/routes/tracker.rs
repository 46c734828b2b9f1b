//! [`Tracker`]: what the kernel is known to hold of desired routes, from one pass to the next.
//!
//! After a pass over all routes it is known what the kernel holds. From then on the routes
//! themselves log what is desired otherwise, and the monitor reports what changes in the kernel. So
//! the tracker holds the exceptions alone, and a plan costs the number of changes, whatever the
//! number of routes. What could not be brought in place is parked: it is no part of a plan until it
//! is desired otherwise, changes in the kernel, or is to be tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use trueup_diff::Revision;

use super::index::{Change, Id, Packed, Routes};
use super::nexthop_table::{NexthopTable, can_point};
use super::resolved::{DeviceName, ResolvedRoutes, pointing_at};
use crate::devices::Devices;
use crate::kinds::{Nexthop, ObjectKind as _, Route, RouteKey};
use crate::resolve::Resolution;

/// The desired routes of a revision, and the keys on which the kernel holds something else.
///
/// ```
/// use trueup_net::internal::Tracker;
/// use trueup_net::{Dev, Devices, NextHop, NextHops, Route, Routes};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let via = |gateway: [u8; 4]| NextHop::via(gateway.into()).with_dev(Dev::index(2));
/// let route = |dst: &str, gateway| -> Result<Route, trueup_net::ParseError> {
///     Ok(Route::new(dst.parse()?, NextHops::One(via(gateway))))
/// };
/// // Routes that name their devices by index.
/// let mut routes = Routes::from([route("10.1.0.0/16", [10, 0, 0, 1])?]);
/// let mut tracker = Tracker::in_sync(&routes);
///
/// routes.insert(route("10.2.0.0/16", [10, 0, 0, 1])?);
/// assert!(tracker.follow(&routes, &Devices::default(), 116));
/// let (desired, observed) = tracker.partial_input(&routes);
/// assert_eq!((desired.len(), observed.len()), (1, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tracker {
    at: Revision,
    /// What the kernel holds on dirty keys.
    dirty: BTreeMap<RouteKey, Vec<Route>>,
    /// What it holds on parked keys.
    parked: BTreeMap<RouteKey, Vec<Route>>,
    /// The nexthop objects that the routes point at, if they are to point at some.
    pub(crate) assignment: Option<NexthopAssignment>,
}

impl Tracker {
    /// Records that a pass over all routes has found just these in the kernel.
    pub fn in_sync<D: Clone + Eq + Hash>(routes: &Routes<D>) -> Tracker {
        Tracker {
            at: routes.revision(),
            dirty: BTreeMap::new(),
            parked: BTreeMap::new(),
            assignment: None,
        }
    }

    /// Records that a pass has found the nexthop objects of routes in the kernel, but for those
    /// with the ids `undone`.
    ///
    /// Returns `None` if no routes were resolved.
    #[must_use]
    pub fn with_objects(self, resolved: &Resolution, undone: BTreeSet<u32>) -> Option<Tracker> {
        let (table, undone_sets) = resolved.routes.as_ref()?.nexthop_table().split(&undone);
        let assignment = NexthopAssignment {
            table: Arc::new(table),
            undone_sets: Arc::new(undone_sets),
            undone,
            replaced: BTreeMap::new(),
        };
        Some(Tracker { assignment: Some(assignment), ..self })
    }

    /// Returns true if it is known at which nexthop objects the routes point.
    pub fn has_objects(&self) -> bool {
        self.assignment.is_some()
    }

    /// Returns true if each route stays on its object, given the objects that all are to point at
    /// now, none of these is gone, and none for which routes may have waited is there by now.
    pub fn keeps_objects(&self, resolved: &Resolution, observed: &[Nexthop]) -> bool {
        self.assignment.as_ref().zip(resolved.routes.as_ref()).is_some_and(|(known, resolved)| {
            known.is_current(resolved) && !known.is_outdated(resolved, observed)
        })
    }

    /// Returns true if [`follow`](Tracker::follow) has found that all routes with some next hops
    /// got other ones. Then no key is dirty: the objects are what is to be planned for.
    pub fn has_replaced_nexthops(&self) -> bool {
        self.assignment.as_ref().is_some_and(|known| !known.replaced.is_empty())
    }

    /// Follows the changes of the desired routes since the last time. The kernel is known to hold
    /// what was desired until then; a device that was left open in it stays open.
    ///
    /// Returns false if it cannot: where too much has changed, or something other than single
    /// routes, or where a device or a nexthop object is not known any more. Then the tracker is of
    /// no use any more, and all routes have to be read.
    #[must_use]
    pub fn follow<D: DeviceName>(
        &mut self,
        routes: &Routes<D>,
        devices: &Devices,
        marker: u8,
    ) -> bool {
        let Some(changes) = routes.log.since(self.at) else {
            return false;
        };
        let followed = changes.into_iter().try_for_each(|change| match change {
            Change::Route(key, old) => {
                let was = old.as_ref().map(|old| indexed(old.at(*key), devices, marker));
                // With the last route of an object the object goes.
                let is_last = self.assignment.is_some()
                    && old.as_ref().is_some_and(|old| !routes.values.contains(old));
                self.follow_route(*key, was, is_last)
            }
            Change::Nexthops(id, old) => {
                self.follow_nexthops(*id, &indexed(old.at_some_key(), devices, marker)?, routes)
            }
        });
        self.at = routes.revision();
        followed.is_some()
    }

    /// Follows the change of a route, which is `was` if there was one, and that is known. `is_last`:
    /// no other route has its value. Returns `None` if it cannot.
    fn follow_route(
        &mut self,
        key: RouteKey,
        was: Option<Option<Route>>,
        is_last: bool,
    ) -> Option<()> {
        let frees_object =
            is_last && was.as_ref().is_some_and(|was| was.as_ref().is_none_or(can_point));
        if self.has_replaced_nexthops() || frees_object {
            return None;
        }
        if self.dirty.contains_key(&key) || self.wake(&key) {
            return Some(());
        }
        let there = match (was, &self.assignment) {
            (None, _) => Vec::new(),
            (Some(was), None) => vec![was?],
            (Some(was), Some(assignment)) => vec![assignment.stored(was?)?],
        };
        self.dirty.insert(key, there);
        Some(())
    }

    /// Follows a change of the next hops of all routes of a value, each like `old`.
    fn follow_nexthops<D: DeviceName>(
        &mut self,
        id: Id,
        old: &Route,
        routes: &Routes<D>,
    ) -> Option<()> {
        let is_alone = self.dirty.is_empty()
            && self.parked.keys().all(|key| routes.id(Packed::of(key)) != Some(id));
        let assignment = self.assignment.as_mut().filter(|_| is_alone)?;
        if !assignment.replaced.contains_key(&id) {
            assignment.replaced.insert(id, assignment.table.object_of(old)?);
        }
        Some(())
    }

    /// Records that the kernel holds nothing on a key.
    pub fn mark_absent(&mut self, key: RouteKey) {
        self.parked.remove(&key);
        self.dirty.insert(key, Vec::new());
    }

    /// Records that the kernel holds a route, in canonical form, and nothing else on its key.
    pub fn mark_present(&mut self, route: Route) {
        self.parked.remove(&route.key());
        self.dirty.insert(route.key(), vec![route]);
    }

    /// Records that the kernel holds what is desired on a key.
    pub fn mark_in_sync(&mut self, key: &RouteKey) {
        self.dirty.remove(key);
        self.parked.remove(key);
    }

    /// Records that the kernel holds what is desired on all keys that are `seen`.
    pub fn mark_all_in_sync(&mut self, seen: impl Fn(&RouteKey) -> bool) {
        self.dirty.retain(|key, _| !seen(key));
        self.parked.retain(|key, _| !seen(key));
    }

    /// Records that the kernel holds these routes on a key, in canonical form, and that they are to
    /// stay for now.
    pub fn park(&mut self, key: RouteKey, there: Vec<Route>) {
        self.dirty.remove(&key);
        self.parked.insert(key, there);
    }

    /// Has a parked key planned again. Returns false if the key is not parked.
    pub fn wake(&mut self, key: &RouteKey) -> bool {
        let there = self.parked.remove_entry(key);
        let woken = there.is_some();
        self.dirty.extend(there);
        woken
    }

    /// Returns true if a key is parked.
    pub fn is_parked(&self, key: &RouteKey) -> bool {
        self.parked.contains_key(key)
    }

    /// Returns what the kernel holds on a key that is parked.
    pub fn parked(&self, key: &RouteKey) -> Option<&[Route]> {
        self.parked.get(key).map(Vec::as_slice)
    }

    /// Returns what the kernel holds on a key that is dirty or parked. On any other it holds what
    /// is desired.
    pub fn there(&self, key: &RouteKey) -> Option<&[Route]> {
        self.dirty.get(key).or_else(|| self.parked.get(key)).map(Vec::as_slice)
    }

    /// Returns the keys on which the kernel holds something else than desired, or did when the last
    /// change was reported, but for those that are parked.
    pub fn dirty_keys(&self) -> impl Iterator<Item = &RouteKey> {
        self.dirty.keys()
    }

    /// Returns what is desired on the dirty keys, and what the kernel holds there. The plan for
    /// these is the plan for all routes.
    pub fn partial_input<D: Clone + Eq + Hash>(
        &self,
        routes: &Routes<D>,
    ) -> (Routes<D>, Vec<Route>) {
        let keys: BTreeSet<RouteKey> = self.dirty.keys().copied().collect();
        let there = self.dirty.values().flatten().cloned();
        (routes.at(keys), there.collect())
    }
}

/// The nexthop objects that desired routes are known to point at.
///
/// A route that gets the next hops of other routes is changed by itself: they have an object that is
/// in the kernel. If all routes with some next hops get other ones, they stay on their objects, and
/// the objects are given the new next hops. That costs the number of objects, whatever the number of
/// routes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NexthopAssignment {
    /// The sets of next hops whose objects are in the kernel as desired.
    pub(crate) table: Arc<NexthopTable>,
    /// All others.
    undone_sets: Arc<NexthopTable>,
    /// The objects that are not in the kernel as desired.
    undone: BTreeSet<u32>,
    /// The values that have got other next hops since, each with the object that its routes point
    /// at.
    replaced: BTreeMap<Id, u32>,
}

impl NexthopAssignment {
    /// Returns true if each route stays on its object, given the objects that all are to point at
    /// now.
    fn is_current(&self, resolved: &ResolvedRoutes) -> bool {
        resolved.assigned().all(|(id, route, object)| {
            let before = self.replaced.get(&id).copied().or_else(|| self.table.object_of(route));
            object == before.or_else(|| self.undone_sets.object_of(route))
        })
    }

    /// Returns true if an object that was there is gone, and its routes with it, or if one that was
    /// not as desired is so by now: routes may have waited for it.
    fn is_outdated(&self, resolved: &ResolvedRoutes, observed: &[Nexthop]) -> bool {
        resolved.nexthop_table().all().iter().any(|nexthop| {
            let there = observed.iter().find(|it| it.id == nexthop.id);
            if self.undone.contains(&nexthop.id) { there == Some(nexthop) } else { there.is_none() }
        })
    }

    /// Returns a route as it is in the kernel, where it has the next hops of this one; `None` if
    /// the object that it points at is not known.
    fn stored(&self, mut route: Route) -> Option<Route> {
        if can_point(&route) {
            route.nexthops = pointing_at(self.table.object_of(&route)?);
        }
        Some(route)
    }
}

/// Returns a desired route with its devices found, as it is once it is in the kernel.
fn indexed<D: DeviceName>(route: Route<D>, devices: &Devices, marker: u8) -> Option<Route> {
    let found = route.try_map_dev(|name| name.find(devices)).ok()?;
    Some(Route { protocol: marker, ..found.canonical() })
}
