//! Desired routes at scale: in the order in which the kernel dumps them, compact, and with a memory of their changes.
//!
//! A route's key is one integer of 16 bytes (IPv4) or a few of 32 (IPv6), and what else it has is held once for all routes that
//! share it, so that an IPv4 route takes some 24 bytes. [`DumpMatcher`] compares them with the rows of a dump as they arrive.

mod dump_matcher;
mod key;
mod log;
mod nexthop_assignment;
mod nexthop_table;
mod resolved;
mod tracker;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::kinds::{NextHops, Route, RouteKey};
use crate::values::IfName;
pub use dump_matcher::{DumpMatcher, Mismatches, PlainRoute, RouteDependencies, RowMatch};
use key::{Key4, Key6, Packed};
pub use log::Revision;
use log::{Change, Log};
pub use nexthop_assignment::NexthopAssignment;
pub use nexthop_table::NexthopTable;
pub use tracker::Tracker;
use values::{Id, Value, Values};

/// Desired routes, by their keys. Of two with one key the last counts.
///
/// ```
/// use trueup_diff::{NextHop, NextHops, Route, Routes};
///
/// let via = |gateway: [u8; 4]| NextHops::One(NextHop::via(gateway.into()));
/// let mut routes: Routes = [
///     Route::new("10.1.0.0/16".parse()?, via([10, 0, 0, 1])),
///     Route::new("10.2.0.0/16".parse()?, via([10, 0, 0, 1])),
/// ].into();
/// let was = routes.insert(Route::new("10.2.0.0/16".parse()?, via([10, 0, 0, 2])));
/// assert_eq!(was.map(|route| route.nexthops), Some(via([10, 0, 0, 1])));
/// assert_eq!(routes.len(), 2);
/// # Ok::<(), trueup_diff::ParseError>(())
/// ```
#[derive(Clone, Default)]
pub struct Routes {
    v4: BTreeMap<Key4, Id>,
    v6: BTreeMap<Key6, Id>,
    generic: BTreeMap<RouteKey, Id>,
    values: Values,
    adopt: BTreeSet<RouteKey>,
    log: Log,
}

impl Routes {
    /// No routes.
    pub fn new() -> Routes {
        Routes::default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.generic.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a route, or has it take the place of that on its key, which is given back.
    pub fn insert(&mut self, route: Route<IfName>) -> Option<Route<IfName>> {
        let (key, value) = Value::of(route);
        let id = self.values.take(value);
        let old = match Packed::of(&key) {
            Packed::V4(packed) => self.v4.insert(packed, id),
            Packed::V6(packed) => self.v6.insert(packed, id),
            Packed::Generic(key) => self.generic.insert(key, id),
        };
        self.changed(key, old)
    }

    /// Takes a route out.
    pub fn remove(&mut self, key: &RouteKey) -> Option<Route<IfName>> {
        let old = match Packed::of(key) {
            Packed::V4(packed) => self.v4.remove(&packed),
            Packed::V6(packed) => self.v6.remove(&packed),
            Packed::Generic(key) => self.generic.remove(&key),
        }?;
        self.adopt.remove(key);
        self.changed(*key, Some(old))
    }

    /// Notes that the route of a key is another now, and gives what it was.
    fn changed(&mut self, key: RouteKey, old: Option<Id>) -> Option<Route<IfName>> {
        let old = old.and_then(|id| self.values.release(id));
        let routes = self.len();
        self.log.note(Change::Route(key, old.clone()), routes);
        old.map(|value| value.at(key))
    }

    /// The route of a key, as [`Route::canonical_key`] gives it.
    pub fn get(&self, key: &RouteKey) -> Option<Route<IfName>> {
        Some(self.values.get(self.id(Packed::of(key))?)?.at(*key))
    }

    fn id(&self, key: Packed) -> Option<Id> {
        match key {
            Packed::V4(key) => self.v4.get(&key),
            Packed::V6(key) => self.v6.get(&key),
            Packed::Generic(key) => self.generic.get(&key),
        }
        .copied()
    }

    /// Leads all routes that go by `from` another way, of either family. Costs the number of ways, not of routes.
    pub fn replace_nexthops(&mut self, from: &NextHops<IfName>, to: &NextHops<IfName>) {
        let of: Vec<Id> = (0..)
            .zip(self.values.iter())
            .filter(|(_, value)| value.is_some_and(|value| value.nexthops == *from))
            .map(|(id, _)| id)
            .collect();
        let routes = self.len();
        for id in of {
            let Some(value) = self.values.get(id) else {
                continue;
            };
            let now = value.with_nexthops(to.clone());
            if self.values.replace(id, now).is_some() {
                self.log.note(Change::Nexthops(id), routes);
            }
        }
    }

    /// The routes, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Route<IfName>> + '_ {
        self.ids()
            .filter_map(|(key, id)| Some(self.values.get(id)?.at(key.unpack())))
    }

    /// Their keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = RouteKey> + '_ {
        self.ids().map(|(key, _)| key.unpack())
    }

    fn ids(&self) -> impl Iterator<Item = (Packed, Id)> + '_ {
        let v4 = self.v4.iter().map(|(key, id)| (Packed::V4(*key), *id));
        let v6 = self.v6.iter().map(|(key, id)| (Packed::V6(*key), *id));
        let generic = self
            .generic
            .iter()
            .map(|(key, id)| (Packed::Generic(*key), *id));
        v4.chain(v6).chain(generic)
    }

    /// The ways that they lead, each once or a few times.
    pub fn nexthops(&self) -> impl Iterator<Item = &NextHops<IfName>> {
        self.values.iter().flatten().map(|value| &value.nexthops)
    }

    /// Has a route become ours if it is there already as desired. That ends when it is taken out.
    pub fn adopt(&mut self, key: RouteKey) {
        if self.adopt.insert(key) {
            let id = self.id(Packed::of(&key));
            let value = id.and_then(|id| self.values.get(id)).map(Arc::clone);
            self.log.note(Change::Route(key, value), self.len());
        }
    }

    /// The keys of those that become ours if they are there already.
    pub fn adopted(&self) -> &BTreeSet<RouteKey> {
        &self.adopt
    }

    /// Tells the state that they are in from all others that they or any other routes were in.
    pub fn revision(&self) -> Revision {
        self.log.now()
    }

    /// Those of the routes on some keys.
    #[must_use]
    pub fn at(&self, keys: impl IntoIterator<Item = RouteKey>) -> Routes {
        let keys = keys.into_iter();
        let mut some: Routes = keys.filter_map(|key| self.get(&key)).collect();
        some.adopt_as(self);
        some
    }

    /// Those of the routes that are wanted.
    #[must_use]
    pub fn filtered(&self, mut wanted: impl FnMut(&RouteKey) -> bool) -> Routes {
        self.subset(
            self.v4
                .iter()
                .filter(|(key, _)| wanted(&Packed::V4(**key).unpack()))
                .map(|(key, id)| (*key, *id))
                .collect(),
            self.v6
                .iter()
                .filter(|(key, _)| wanted(&Packed::V6(**key).unpack()))
                .map(|(key, id)| (*key, *id))
                .collect(),
        )
        .without_generic(wanted)
    }

    /// Some rows, and all of those with what is rare.
    fn subset(&self, v4: BTreeMap<Key4, Id>, v6: BTreeMap<Key6, Id>) -> Routes {
        let generic = self.generic.clone();
        let ids = || {
            v4.values()
                .chain(v6.values())
                .chain(generic.values())
                .copied()
        };
        let values = self.values.among(ids);
        let mut some = Routes {
            v4,
            v6,
            generic,
            values,
            ..Routes::default()
        };
        some.adopt_as(self);
        some
    }

    fn without_generic(mut self, mut wanted: impl FnMut(&RouteKey) -> bool) -> Routes {
        let values = &mut self.values;
        self.generic.retain(|key, id| {
            let wanted = wanted(key);
            if !wanted {
                values.release(*id);
            }
            wanted
        });
        self
    }

    fn adopt_as(&mut self, others: &Routes) {
        let adopted = others.adopt.iter().copied();
        self.adopt = adopted
            .filter(|key| self.id(Packed::of(key)).is_some())
            .collect();
    }
}

impl FromIterator<Route<IfName>> for Routes {
    fn from_iter<I: IntoIterator<Item = Route<IfName>>>(routes: I) -> Routes {
        // Trees that are made of all their rows at once are full, and made in no time where those are in order.
        let (mut v4, mut v6, mut generic) = (Vec::new(), Vec::new(), Vec::new());
        let mut values = Values::default();
        for route in routes {
            let (key, value) = Value::of(route);
            let id = values.take(value);
            match Packed::of(&key) {
                Packed::V4(key) => v4.push((key, id)),
                Packed::V6(key) => v6.push((key, id)),
                Packed::Generic(key) => generic.push((key, id)),
            }
        }
        let mut all = Routes {
            v4: full(v4, &mut values),
            v6: full(v6, &mut values),
            generic: full(generic, &mut values),
            ..Routes::default()
        };
        all.values = values;
        all
    }
}

/// Of two rows of one key the last counts.
fn full<K: Ord + Copy>(mut rows: Vec<(K, Id)>, values: &mut Values) -> BTreeMap<K, Id> {
    if !rows.is_sorted_by(|(a, _), (b, _)| a < b) {
        rows.sort_by_key(|(key, _)| *key);
        rows.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                values.release(kept.1);
                kept.1 = next.1;
            }
            same
        });
    }
    rows.into_iter().collect()
}

impl Extend<Route<IfName>> for Routes {
    fn extend<I: IntoIterator<Item = Route<IfName>>>(&mut self, routes: I) {
        routes
            .into_iter()
            .for_each(|route| drop(self.insert(route)));
    }
}

impl From<Vec<Route<IfName>>> for Routes {
    fn from(routes: Vec<Route<IfName>>) -> Routes {
        routes.into_iter().collect()
    }
}

impl<const N: usize> From<[Route<IfName>; N]> for Routes {
    fn from(routes: [Route<IfName>; N]) -> Routes {
        routes.into_iter().collect()
    }
}

/// Whether they are the same routes, whatever they were before.
impl PartialEq for Routes {
    fn eq(&self, other: &Routes) -> bool {
        self.revision() == other.revision()
            || self.len() == other.len()
                && self.adopt == other.adopt
                && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
