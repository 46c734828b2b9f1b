//! [`Routes`]: desired routes in the order in which the kernel dumps them, compact, with a log of
//! their changes.
//!
//! An IPv4 route's key is one integer of 16 bytes, an IPv6 route's a few of 32. What else a route
//! has is held once for all routes that share it, so that an IPv4 route takes some 24 bytes.

mod key;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use trueup_diff::{ChangeLog, Revision};

use crate::kinds::{NextHops, Route, RouteKey};
use crate::values::{Family, IfName};
pub(super) use key::{DumpKey, Key4, Key6, Packed, key4};
use values::Values;
pub(super) use values::{Id, Value};

/// The least number of changes that are logged. Of many routes a sixteenth of their number is.
const LOGGED: usize = 4096;

/// One change of desired routes.
#[derive(Clone, Debug)]
pub(super) enum Change<D> {
    /// The route of a key changed; the value is what it had before.
    Route(RouteKey, Option<Arc<Value<D>>>),
    /// All routes of a value got other next hops; the value is what they had before.
    Nexthops(Id, Arc<Value<D>>),
}

/// Desired routes, by their keys. Of two with one key the last counts.
///
/// `D` is how they name devices: `Routes` is authored, by name; `Routes<Dev>` is indexed.
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
    /// The revision of the routes that these are a part of. Values are at the same positions.
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

    /// Adds a route. Returns the route that it replaces, if one had its key.
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

    /// Removes and returns a route.
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

    /// Logs that the route of a key changed, and returns what it was.
    fn changed(&mut self, key: RouteKey, old: Option<Id>) -> Option<Route<D>> {
        let released = old.and_then(|id| self.values.release(id));
        self.part_of = None;
        self.log(Change::Route(key, released.clone()));
        released.map(|value| value.at(key))
    }

    /// Returns the route of a key, which is as [`Route::canonical_key`] gives it.
    pub fn get(&self, key: &RouteKey) -> Option<Route<D>> {
        self.route(*key, self.id(Packed::of(key))?)
    }

    /// Returns the route of a key and a value.
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

    /// Gives all routes with the next hops `from` the next hops `to`, in both families. It costs
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

    /// Returns the routes, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Route<D>> + '_ {
        self.ids().filter_map(|(key, id)| self.route(key.unpack(), id))
    }

    /// Returns the keys of the routes, in order.
    pub fn keys(&self) -> impl Iterator<Item = RouteKey> + '_ {
        self.ids().map(|(key, _)| key.unpack())
    }

    /// Returns the families and the tables of the routes.
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

    /// Returns the next hops of the routes, each once or a few times.
    pub fn nexthops(&self) -> impl Iterator<Item = &NextHops<D>> {
        self.values.iter().flatten().map(|value| &value.nexthops)
    }

    /// Returns the devices that the routes refer to, each once or a few times.
    pub fn device_names(&self) -> impl Iterator<Item = D> {
        self.nexthops().flat_map(|nexthops| nexthops.devices().cloned())
    }

    /// Makes a route ours if it is there already as desired. That ends when it is removed.
    pub fn adopt(&mut self, key: RouteKey) {
        if self.adopt.insert(key) {
            self.log_marked(key);
        }
    }

    /// Logs that a route is marked otherwise.
    fn log_marked(&mut self, key: RouteKey) {
        let id = self.id(Packed::of(&key));
        let value = id.and_then(|id| self.values.get(id)).map(Arc::clone);
        self.log(Change::Route(key, value));
    }

    /// Returns the keys of the routes that become ours if they are there already.
    pub fn adopted(&self) -> &BTreeSet<RouteKey> {
        &self.adopt
    }

    /// Marks a route as offered by another host: whether the kernel takes it is not up to this one.
    /// If the kernel refuses it, that is its status, and all else still converges. That ends when
    /// it is removed.
    pub fn offer(&mut self, key: RouteKey) {
        if self.offered.insert(key) {
            self.log_marked(key);
        }
    }

    /// Returns the keys of the routes that are offered by other hosts.
    pub fn offered(&self) -> &BTreeSet<RouteKey> {
        &self.offered
    }

    fn log(&mut self, change: Change<D>) {
        let kept = LOGGED.max(self.len() / 16);
        self.log.add(change, kept);
    }

    /// Returns the revision, which differs from that of any other state of these or other routes.
    pub fn revision(&self) -> Revision {
        self.log.now()
    }

    /// Returns the keys of the routes that were added, changed or removed since a revision of these
    /// routes; `None` where that is not known of single routes.
    pub fn changed_since(&self, revision: Revision) -> Option<BTreeSet<RouteKey>> {
        let changes = self.log.since(revision)?;
        changes
            .map(|change| match change {
                Change::Route(key, _) => Some(*key),
                Change::Nexthops(..) => None,
            })
            .collect()
    }

    /// Returns those of the routes that have one of `keys`.
    #[must_use]
    pub fn at(&self, keys: impl IntoIterator<Item = RouteKey>) -> Routes<D> {
        let mut some: Routes<D> = keys.into_iter().filter_map(|key| self.get(&key)).collect();
        some.mark_as(self);
        some
    }

    /// Returns those of the routes that are wanted.
    #[must_use]
    pub fn filtered(&self, mut wanted: impl FnMut(&RouteKey) -> bool) -> Routes<D> {
        self.subset(
            retained(&self.v4, |key| wanted(&Packed::V4(*key).unpack())),
            retained(&self.v6, |key| wanted(&Packed::V6(*key).unpack())),
            retained(&self.generic, wanted),
        )
    }

    /// Returns some of the routes, with their values at the same positions.
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

    /// Marks the routes as they are marked among others.
    fn mark_as(&mut self, others: &Routes<D>) {
        [self.adopt, self.offered] = [&others.adopt, &others.offered].map(|marked| {
            marked.iter().copied().filter(|key| self.id(Packed::of(key)).is_some()).collect()
        });
    }
}

impl<D: Clone + Eq + Hash> FromIterator<Route<D>> for Routes<D> {
    fn from_iter<I: IntoIterator<Item = Route<D>>>(routes: I) -> Routes<D> {
        // A tree that is made of all its rows at once is full, and fast to make of rows in order.
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

/// Returns the rows that are wanted.
fn retained<K: Ord + Copy>(
    rows: &BTreeMap<K, Id>,
    mut wanted: impl FnMut(&K) -> bool,
) -> BTreeMap<K, Id> {
    rows.iter().filter(|(key, _)| wanted(key)).map(|(key, id)| (*key, *id)).collect()
}

/// Returns the tables of keys.
pub(super) fn tables<K: DumpKey>(keys: &BTreeMap<K, Id>) -> impl Iterator<Item = u32> {
    let mut last = None;
    std::iter::from_fn(move || {
        let after = last.map_or(Bound::Unbounded, |table| Bound::Excluded(*K::all_of(table).end()));
        let (key, _) = keys.range((after, Bound::Unbounded)).next()?;
        last = Some(key.table());
        last
    })
}

/// Makes a full tree. Of two rows of one key the last counts.
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

/// Whether two are the same routes, whatever they were before.
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
