//! [`Tracker`] remembers the kernel's state of desired routes from one pass to the next.
//!
//! After a pass over all routes, the kernel's state is known. From then on the routes log their own
//! changes, and the monitor reports changes in the kernel. So the tracker stores only the
//! exceptions, and a plan costs the number of changes, for any number of routes. A route that could
//! not be brought in place is parked. Plans leave it out until its declaration changes, it changes
//! in the kernel, or its retry is due.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use trueup_diff::Revision;

use super::index::{Change, Id, Packed, Routes};
use super::nexthop_table::{NexthopTable, can_point};
use super::resolved::{DeviceName, ResolvedRoutes, pointing_at};
use crate::devices::Devices;
use crate::key_states::KeyStates;
use crate::kinds::{Nexthop, Route, RouteKey};
use crate::resolve::Resolution;

/// A revision of the desired routes, and the keys on which the kernel's state differs.
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
    /// The keys on which the kernel may differ from the desired routes, with its rows in canonical
    /// form.
    pub states: KeyStates<RouteKey, Route>,
    /// The nexthop objects that the routes point at, if the mode uses them.
    pub(crate) assignment: Option<NexthopAssignment>,
}

impl Tracker {
    /// Records that a pass over all routes found exactly these in the kernel.
    pub fn in_sync<D: Clone + Eq + Hash>(routes: &Routes<D>) -> Tracker {
        Tracker { at: routes.revision(), states: KeyStates::default(), assignment: None }
    }

    /// Records that a pass found the routes' nexthop objects in the kernel, except those with the
    /// ids `undone`.
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

    /// Returns true if the nexthop objects that the routes point at are known.
    pub fn has_objects(&self) -> bool {
        self.assignment.is_some()
    }

    /// Returns true if each route stays on its object. `resolved` gives the objects that all routes
    /// point at now. No object may be gone, and none may have appeared for which routes could have
    /// waited.
    pub fn keeps_objects(&self, resolved: &Resolution, observed: &[Nexthop]) -> bool {
        self.assignment.as_ref().zip(resolved.routes.as_ref()).is_some_and(|(known, resolved)| {
            known.is_current(resolved) && !known.is_outdated(resolved, observed)
        })
    }

    /// Returns true if [`follow`](Tracker::follow) found that all routes with some next hops got
    /// other ones. Then no key is dirty: the objects must be planned for.
    pub fn has_replaced_nexthops(&self) -> bool {
        self.assignment.as_ref().is_some_and(|known| !known.replaced.is_empty())
    }

    /// Follows the changes of the desired routes since the last call. The kernel holds the routes
    /// as desired until then; a device left open in them stays open.
    ///
    /// Returns false if it cannot: too much has changed, something other than single routes has
    /// changed, or a device or nexthop object is no longer known. Then the tracker is useless, and
    /// all routes must be read.
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
                // With its last route, an object goes.
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

    /// Follows the change of a route, given its known former state `was`. `is_last` is true if no
    /// other route has its value. Returns `None` if it cannot.
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
        let Tracker { states, assignment, .. } = self;
        states.mark_changed(key, || {
            Some(match (was, assignment) {
                (None, _) => Vec::new(),
                (Some(was), None) => vec![was?],
                (Some(was), Some(assignment)) => vec![assignment.stored(was?)?],
            })
        })
    }

    /// Follows a change of next hops in all routes with a value, each like `old`.
    fn follow_nexthops<D: DeviceName>(
        &mut self,
        id: Id,
        old: &Route,
        routes: &Routes<D>,
    ) -> Option<()> {
        let is_alone = self.states.dirty_keys().next().is_none()
            && self.states.parked_keys().all(|key| routes.id(Packed::of(key)) != Some(id));
        let assignment = self.assignment.as_mut().filter(|_| is_alone)?;
        if !assignment.replaced.contains_key(&id) {
            assignment.replaced.insert(id, assignment.table.object_of(old)?);
        }
        Some(())
    }

    /// Returns the desired routes and the kernel's rows on the dirty keys. Their plan is the plan
    /// for all routes.
    pub fn partial_input<D: Clone + Eq + Hash>(
        &self,
        routes: &Routes<D>,
    ) -> (Routes<D>, Vec<Route>) {
        let there = self.states.dirty().flat_map(|(_, there)| there).cloned();
        (routes.at(self.states.dirty_keys().copied()), there.collect())
    }
}

/// The nexthop objects that desired routes are known to point at.
///
/// A route that gets the next hops of other routes is changed by itself, since their object is in
/// the kernel. If all routes with some next hops get other ones, they stay on their objects, and
/// the objects get the new next hops. This costs the number of objects, for any number of routes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NexthopAssignment {
    /// The sets of next hops whose objects are in the kernel as desired.
    pub(crate) table: Arc<NexthopTable>,
    /// All other sets.
    undone_sets: Arc<NexthopTable>,
    /// The objects that are not in the kernel as desired.
    undone: BTreeSet<u32>,
    /// Values whose next hops have changed since, each with the object that its routes point at.
    replaced: BTreeMap<Id, u32>,
}

impl NexthopAssignment {
    /// Returns true if each route stays on its object, given the objects that all routes point at
    /// now.
    fn is_current(&self, resolved: &ResolvedRoutes) -> bool {
        resolved.assigned().all(|(id, route, object)| {
            let before = self.replaced.get(&id).copied().or_else(|| self.table.object_of(route));
            object == before.or_else(|| self.undone_sets.object_of(route))
        })
    }

    /// Returns true if an object is gone, with its routes, or if an undone one is now as desired,
    /// since routes may have waited for it.
    fn is_outdated(&self, resolved: &ResolvedRoutes, observed: &[Nexthop]) -> bool {
        resolved.nexthop_table().all().iter().any(|nexthop| {
            let there = observed.iter().find(|it| it.id == nexthop.id);
            if self.undone.contains(&nexthop.id) { there == Some(nexthop) } else { there.is_none() }
        })
    }

    /// Returns a route as it would be in the kernel with its next hops. `None` if its object is not
    /// known.
    fn stored(&self, mut route: Route) -> Option<Route> {
        if can_point(&route) {
            route.nexthops = pointing_at(self.table.object_of(&route)?);
        }
        Some(route)
    }
}

/// Returns a desired route as it will be in the kernel, with its devices.
fn indexed<D: DeviceName>(route: Route<D>, devices: &Devices, marker: u8) -> Option<Route> {
    let found = route.try_map_dev(|name| name.find(devices)).ok()?;
    Some(Route { protocol: marker, ..found.canonical() })
}
