//! [`Routes`] holds desired routes compactly, in the order of the kernel's dumps, with a log of
//! their changes.
//!
//! An IPv4 key is one integer of 16 bytes, an IPv6 key a few of 32 bytes in total. All other fields
//! are stored once for all routes that share them, so an IPv4 route takes about 24 bytes.

mod key;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use trueup_diff::{ChangeLog, Revision};

use crate::collection::logged;
use crate::kinds::{NextHops, Route, RouteKey};
use crate::values::{Family, IfName};
pub(super) use key::{DumpKey, Key4, Key6, Packed, key4};
use values::Values;
pub(super) use values::{Id, Value};

/// A change of the desired routes.
#[derive(Clone, Debug)]
pub(super) enum Change<D> {
    /// The route of a key changed. Contains its former value.
    Route(RouteKey, Option<Arc<Value<D>>>),
    /// All routes with a value got other next hops. Contains the former value.
    Nexthops(Id, Arc<Value<D>>),
}

/// Desired routes, by key. If two have the same key, the last counts.
///
/// `D` names their devices: `Routes` is authored, by name; `Routes<Dev>` is indexed.
///
/// ```
/// use trueup_net::{NextHop, NextHops, Route, Routes};
///
/// let via = |gateway: [u8; 4]| NextHops::One(NextHop::via(gateway.into()));
/// let mut routes: Routes = [
///     Route::new("10.1.0.0/16".parse()?, via([10, 0, 0, 1])),
///     Route::new("10.2.0.0/16".parse()?, via([10, 0, 0, 1])),
/// ].into();
/// let was = routes.insert(Route::new("10.2.0.0/16".parse()?, via([10, 0, 0, 2])));
/// assert_eq!(was.map(|route| route.nexthops), Some(via([10, 0, 0, 1])));
/// assert_eq!(routes.len(), 2);
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Routes<D = IfName> {
    pub(super) v4: BTreeMap<Key4, Id>,
    pub(super) v6: BTreeMap<Key6, Id>,
    pub(super) generic: BTreeMap<RouteKey, Id>,
    pub(super) values: Values<D>,
    adopt: BTreeSet<RouteKey>,
    offered: BTreeSet<RouteKey>,
    pub(super) log: ChangeLog<Change<D>>,
    /// The revision of the whole set, if this is a part of it. Values are at the same positions.
    pub(super) part_of: Option<Revision>,
}

impl<D> Default for Routes<D> {
    fn default() -> Routes<D> {
        Routes {
            v4: BTreeMap::new(),
            v6: BTreeMap::new(),
            generic: BTreeMap::new(),
            values: Values::default(),
            adopt: BTreeSet::new(),
            offered: BTreeSet::new(),
            log: ChangeLog::default(),
            part_of: None,
        }
    }
}

impl<D: Clone + Eq + Hash> Routes<D> {
    /// Makes an empty set of routes.
    pub fn new() -> Routes<D> {
        Routes::default()
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len() + self.generic.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a route. Returns the route that it replaces, if there was one with its key.
    pub fn insert(&mut self, route: Route<D>) -> Option<Route<D>> {
        let (key, value) = Value::of(route);
        let id = self.values.add(value);
        let old = match Packed::of(&key) {
            Packed::V4(packed) => self.v4.insert(packed, id),
            Packed::V6(packed) => self.v6.insert(packed, id),
            Packed::Generic(key) => self.generic.insert(key, id),
        };
        self.changed(key, old)
    }

    /// Removes and returns a route, or returns `None` if the key has none.
    pub fn remove(&mut self, key: &RouteKey) -> Option<Route<D>> {
        let old = match Packed::of(key) {
            Packed::V4(packed) => self.v4.remove(&packed),
            Packed::V6(packed) => self.v6.remove(&packed),
            Packed::Generic(key) => self.generic.remove(&key),
        }?;
        self.adopt.remove(key);
        self.offered.remove(key);
        self.changed(*key, Some(old))
    }

    /// Logs a change of a key's route, and returns the former route.
    fn changed(&mut self, key: RouteKey, old: Option<Id>) -> Option<Route<D>> {
        let released = old.and_then(|id| self.values.release(id));
        self.part_of = None;
        self.log(Change::Route(key, released.clone()));
        released.map(|value| value.at(key))
    }

    /// Returns the route of a key, which must be as [`Route::canonical_key`] gives it.
    pub fn get(&self, key: &RouteKey) -> Option<Route<D>> {
        self.route(*key, self.id(Packed::of(key))?)
    }

    /// Builds a route from its key and value.
    fn route(&self, key: RouteKey, id: Id) -> Option<Route<D>> {
        Some(self.values.get(id)?.at(key))
    }

    pub(super) fn id(&self, key: Packed) -> Option<Id> {
        match key {
            Packed::V4(key) => self.v4.get(&key),
            Packed::V6(key) => self.v6.get(&key),
            Packed::Generic(key) => self.generic.get(&key),
        }
        .copied()
    }

    /// Replaces the next hops `from` by `to` in all routes of both families. The cost depends on
    /// the number of different next hops, not of routes.
    pub fn replace_nexthops(&mut self, from: &NextHops<D>, to: &NextHops<D>) {
        let of: Vec<Id> = (0..)
            .zip(self.values.iter())
            .filter(|(_, value)| value.is_some_and(|value| value.nexthops == *from))
            .map(|(id, _)| id)
            .collect();
        for id in of {
            let value = self.values.get(id).map(|value| value.with_nexthops(to.clone()));
            if let Some(old) = value.and_then(|value| self.values.replace(id, value)) {
                self.part_of = None;
                self.log(Change::Nexthops(id, old));
            }
        }
    }

    /// Returns the routes, in key order.
    pub fn iter(&self) -> impl Iterator<Item = Route<D>> + '_ {
        self.ids().filter_map(|(key, id)| self.route(key.unpack(), id))
    }

    /// Returns the routes' keys, in the order of [`iter`](Self::iter).
    pub fn keys(&self) -> impl Iterator<Item = RouteKey> + '_ {
        self.ids().map(|(key, _)| key.unpack())
    }

    /// Returns each family with each table in which a route of it is.
    pub fn tables(&self) -> BTreeSet<(Family, u32)> {
        let v4 = tables(&self.v4).map(|table| (Family::Inet, table));
        let v6 = tables(&self.v6).map(|table| (Family::Inet6, table));
        let generic = self.generic.keys().map(|key| (key.dst.family(), key.table));
        v4.chain(v6).chain(generic).collect()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = (Packed, Id)> + '_ {
        let v4 = self.v4.iter().map(|(key, id)| (Packed::V4(*key), *id));
        let v6 = self.v6.iter().map(|(key, id)| (Packed::V6(*key), *id));
        let generic = self.generic.iter().map(|(key, id)| (Packed::Generic(*key), *id));
        v4.chain(v6).chain(generic)
    }

    /// Returns the routes' next hops. The same ones may repeat a few times.
    pub fn nexthops(&self) -> impl Iterator<Item = &NextHops<D>> {
        self.values.iter().flatten().map(|value| &value.nexthops)
    }

    /// Returns the routes' devices. The same one may repeat a few times.
    pub fn device_names(&self) -> impl Iterator<Item = D> {
        self.nexthops().flat_map(|nexthops| nexthops.devices().cloned())
    }

    /// Makes a route ours if it already exists as desired. Removing the route ends this.
    pub fn adopt(&mut self, key: RouteKey) {
        if self.adopt.insert(key) {
            self.log_marked(key);
        }
    }

    /// Logs a change of a route's marks.
    fn log_marked(&mut self, key: RouteKey) {
        let id = self.id(Packed::of(&key));
        let value = id.and_then(|id| self.values.get(id)).map(Arc::clone);
        self.log(Change::Route(key, value));
    }

    /// Returns the keys of the routes that become ours if they already exist.
    pub fn adopted(&self) -> &BTreeSet<RouteKey> {
        &self.adopt
    }

    /// Marks a route as offered by another host. If the kernel refuses it, that is only its status,
    /// and all others still converge. Removing the route ends this.
    pub fn offer(&mut self, key: RouteKey) {
        if self.offered.insert(key) {
            self.log_marked(key);
        }
    }

    /// Returns the keys of the routes offered by other hosts.
    pub fn offered(&self) -> &BTreeSet<RouteKey> {
        &self.offered
    }

    fn log(&mut self, change: Change<D>) {
        let kept = logged(self.len());
        self.log.add(change, kept);
    }

    /// Returns the revision, which is unique among all states of these and other routes.
    pub fn revision(&self) -> Revision {
        self.log.now()
    }

    /// Returns the keys of the routes added, changed or removed since a revision of these routes.
    /// `None` if they are not known one by one.
    pub fn changed_since(&self, revision: Revision) -> Option<BTreeSet<RouteKey>> {
        let changes = self.log.since(revision)?;
        changes
            .map(|change| match change {
                Change::Route(key, _) => Some(*key),
                Change::Nexthops(..) => None,
            })
            .collect()
    }

    /// Returns the routes with these keys.
    #[must_use]
    pub fn at(&self, keys: impl IntoIterator<Item = RouteKey>) -> Routes<D> {
        let mut some: Routes<D> = keys.into_iter().filter_map(|key| self.get(&key)).collect();
        some.mark_as(self);
        some
    }

    /// Returns the routes for which `wanted` returns true.
    #[must_use]
    pub fn filtered(&self, mut wanted: impl FnMut(&RouteKey) -> bool) -> Routes<D> {
        self.subset(
            retained(&self.v4, |key| wanted(&Packed::V4(*key).unpack())),
            retained(&self.v6, |key| wanted(&Packed::V6(*key).unpack())),
            retained(&self.generic, wanted),
        )
    }

    /// Returns part of the routes, with their values at the same positions.
    pub(super) fn subset(
        &self,
        v4: BTreeMap<Key4, Id>,
        v6: BTreeMap<Key6, Id>,
        generic: BTreeMap<RouteKey, Id>,
    ) -> Routes<D> {
        let values = self.values.among(|| {
            let ids = v4.values().chain(v6.values());
            ids.chain(generic.values()).copied()
        });
        let mut some = Routes {
            v4,
            v6,
            generic,
            values,
            part_of: self.part_of.or(Some(self.revision())),
            ..Routes::default()
        };
        some.mark_as(self);
        some
    }

    /// Copies the routes' marks from others.
    fn mark_as(&mut self, others: &Routes<D>) {
        [self.adopt, self.offered] = [&others.adopt, &others.offered].map(|marked| {
            marked.iter().copied().filter(|key| self.id(Packed::of(key)).is_some()).collect()
        });
    }
}

impl<D: Clone + Eq + Hash> FromIterator<Route<D>> for Routes<D> {
    fn from_iter<I: IntoIterator<Item = Route<D>>>(routes: I) -> Routes<D> {
        // A tree built from all its rows at once is full, and fast to build from ordered rows.
        let (mut v4, mut v6, mut generic) = (Vec::new(), Vec::new(), Vec::new());
        let mut values = Values::default();
        for route in routes {
            let (key, value) = Value::of(route);
            let id = values.add(value);
            match Packed::of(&key) {
                Packed::V4(key) => v4.push((key, id)),
                Packed::V6(key) => v6.push((key, id)),
                Packed::Generic(key) => generic.push((key, id)),
            }
        }
        Routes {
            v4: full(v4, &mut values),
            v6: full(v6, &mut values),
            generic: full(generic, &mut values),
            values,
            ..Routes::default()
        }
    }
}

/// Returns the rows for which `wanted` returns true.
fn retained<K: Ord + Copy>(
    rows: &BTreeMap<K, Id>,
    mut wanted: impl FnMut(&K) -> bool,
) -> BTreeMap<K, Id> {
    rows.iter().filter(|(key, _)| wanted(key)).map(|(key, id)| (*key, *id)).collect()
}

/// Returns the keys' tables.
pub(super) fn tables<K: DumpKey>(keys: &BTreeMap<K, Id>) -> impl Iterator<Item = u32> {
    let mut last = None;
    std::iter::from_fn(move || {
        let after = last.map_or(Bound::Unbounded, |table| Bound::Excluded(*K::all_of(table).end()));
        let (key, _) = keys.range((after, Bound::Unbounded)).next()?;
        last = Some(key.table());
        last
    })
}

/// Builds a full tree. If two rows have the same key, the last counts.
fn full<K: Ord + Copy, D: Eq + Hash>(
    mut rows: Vec<(K, Id)>,
    values: &mut Values<D>,
) -> BTreeMap<K, Id> {
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

impl<D: Clone + Eq + Hash> Extend<Route<D>> for Routes<D> {
    fn extend<I: IntoIterator<Item = Route<D>>>(&mut self, routes: I) {
        routes.into_iter().for_each(|route| drop(self.insert(route)));
    }
}

impl<D: Clone + Eq + Hash> From<Vec<Route<D>>> for Routes<D> {
    fn from(routes: Vec<Route<D>>) -> Routes<D> {
        routes.into_iter().collect()
    }
}

impl<D: Clone + Eq + Hash, const N: usize> From<[Route<D>; N]> for Routes<D> {
    fn from(routes: [Route<D>; N]) -> Routes<D> {
        routes.into_iter().collect()
    }
}

/// True if the routes are the same, with any history.
impl<D: Clone + Eq + Hash> PartialEq for Routes<D> {
    fn eq(&self, other: &Routes<D>) -> bool {
        self.revision() == other.revision()
            || self.len() == other.len()
                && self.adopt == other.adopt
                && self.offered == other.offered
                && self.iter().eq(other.iter())
    }
}

impl<D: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Routes<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
