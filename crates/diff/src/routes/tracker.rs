//! What the kernel is known to hold of desired routes, from one look to the next.
//!
//! After a look that left nothing to do, it holds what is desired; from then on, what is desired otherwise is told by the routes
//! themselves, and what happens in the kernel by whoever listens. So all that has to be held here is the exceptions, and what
//! there is to do costs the number of changes, whatever the number of routes.

use std::collections::{BTreeMap, BTreeSet};

use super::Routes;
use super::index::{Change, Revision};
use crate::devices::Devices;
use crate::kinds::{Item as _, Route, RouteKey};
use crate::values::IfName;

/// The desired routes of a revision, and where the kernel holds something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracker {
    at: Revision,
    /// By key, what is there; nothing where there is none.
    dirty_keys: BTreeMap<RouteKey, Vec<Route>>,
}

impl Tracker {
    /// The kernel holds just these routes, as of a look at all of them.
    pub fn in_sync(routes: &Routes) -> Tracker {
        Tracker {
            at: routes.revision(),
            dirty_keys: BTreeMap::new(),
        }
    }

    /// Takes in what has become desired since the last time. What was desired until then is what the kernel is known to hold; a
    /// device that was left open in it stays open.
    ///
    /// Tells whether it could: not where too much has changed, or so that it concerns no single routes, or where a device is not
    /// known any more. It is of no use then, and it takes a look at the whole.
    #[must_use]
    pub fn follow(&mut self, routes: &Routes, devices: &Devices, marker: u8) -> bool {
        let Some(changes) = routes.log.since(self.at) else {
            return false;
        };
        let held = |key: RouteKey, value: &Route<IfName>| {
            let route = value.clone().with_key(key);
            let mut route = route
                .try_map_dev(|name| devices.find(name))
                .ok()?
                .canonical();
            route.protocol = marker;
            Some(route)
        };
        for change in changes {
            let Change::Route(key, old) = change else {
                return false;
            };
            if self.dirty_keys.contains_key(key) {
                continue;
            }
            let there = match old {
                None => Vec::new(),
                Some(old) => match held(*key, old) {
                    Some(route) => vec![route],
                    None => return false,
                },
            };
            self.dirty_keys.insert(*key, there);
        }
        self.at = routes.revision();
        true
    }

    /// The kernel holds nothing on a key any more.
    pub fn mark_absent(&mut self, key: RouteKey) {
        self.dirty_keys.insert(key, Vec::new());
    }

    /// The kernel holds a route, in canonical form, and nothing else on its key.
    pub fn mark_present(&mut self, route: Route) {
        self.dirty_keys.insert(route.key(), vec![route]);
    }

    /// The kernel holds what is desired on a key.
    pub fn mark_in_sync(&mut self, key: &RouteKey) {
        self.dirty_keys.remove(key);
    }

    /// The keys on which it holds something else, or did when that was last heard of.
    pub fn dirty_keys(&self) -> impl Iterator<Item = &RouteKey> {
        self.dirty_keys.keys()
    }

    /// What is desired on those keys, and what is there. A plan for the one against the other is the plan for all routes.
    pub fn partial_input(&self, routes: &Routes) -> (Routes, Vec<Route>) {
        let keys: BTreeSet<RouteKey> = self.dirty_keys.keys().copied().collect();
        let there = self.dirty_keys.values().flatten().cloned();
        (routes.at(keys), there.collect())
    }
}
