//! Desired routes against the rows of a dump, as they arrive: what is in order falls through and is held nowhere.
//!
//! A row falls through if it bears our marker, is exactly as desired, and is alone on its key. Whatever else is on a desired key
//! is kept, and that key is a mismatch: the plan is made of what was kept and of the mismatches, as if there were nothing else. Routes that
//! lead straight out of a device are always kept: gateways may be reachable by them.
//!
//! It walks both sides once, side by side, and so rests on the order of the dump. Rows out of order are told, and then nothing
//! that was found holds.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::NexthopTable;
use super::key::{self, Key4, Key6, Packed};
use super::{Id, Routes};
use crate::devices::Devices;
use crate::kinds::{Item as _, NextHop, NextHops, Route, RouteKey, RouteType, Scope};
use crate::values::{Dev, Family};

/// An observed route in canonical form that has nothing beside what most have: at most one next hop, be it written out or that of a
/// nexthop object; no metrics, no preferred source, no source prefix, nothing unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainRoute {
    /// The table.
    pub table: u32,
    /// The family.
    pub family: Family,
    /// The destination as a number, without host bits.
    pub dst: u128,
    /// Its length.
    pub len: u8,
    /// The metric.
    pub metric: u32,
    /// The type of service.
    pub tos: u8,
    /// The type.
    pub kind: RouteType,
    /// The scope, of IPv4 alone.
    pub scope: Option<Scope>,
    /// Who installed it.
    pub protocol: u8,
    /// The gateway.
    pub via: Option<IpAddr>,
    /// The index of the device.
    pub dev: Option<u32>,
    /// The gateway is taken to be on the link.
    pub onlink: bool,
    /// The nexthop object that it points at. Of what that expands to, the device alone is told.
    pub object: Option<u32>,
}

impl PlainRoute {
    /// A route in canonical form, if it has nothing beside.
    pub fn of(route: &Route) -> Option<PlainRoute> {
        let (via, dev, onlink, object) = match &route.nexthops {
            NextHops::None => (None, None, false, None),
            NextHops::One(hop) => (hop.via, hop.dev.and_then(Dev::as_index), hop.onlink, None),
            NextHops::Object(id, devs) => match devs[..] {
                [] => (None, None, false, Some(*id)),
                [dev] => (None, dev.as_index(), false, Some(*id)),
                _ => return None,
            },
            NextHops::Many(_) => return None,
        };
        let more = route.src.is_some() || route.from.is_some() || !route.metrics.is_empty();
        if more || route.unmodelled {
            return None;
        }
        Some(PlainRoute {
            table: route.table,
            family: route.family(),
            dst: match route.dst.address() {
                IpAddr::V4(dst) => u128::from(dst.to_bits()),
                IpAddr::V6(dst) => dst.to_bits(),
            },
            len: route.dst.len(),
            metric: route.metric,
            tos: route.tos,
            kind: route.kind,
            scope: route.scope,
            protocol: route.protocol,
            via,
            dev,
            onlink,
            object,
        })
    }

    /// As a route.
    pub fn to_route(&self) -> Route {
        let dev = self.dev.map(Dev::index);
        let hop = NextHop {
            via: self.via,
            dev,
            weight: 1,
            onlink: self.onlink,
        };
        let nexthops = match (self.object, self.via, dev) {
            (Some(id), ..) => NextHops::Object(id, dev.into_iter().collect()),
            (None, None, None) => NextHops::None,
            _ => NextHops::One(hop),
        };
        Route {
            table: self.table,
            metric: self.metric,
            tos: self.tos,
            kind: self.kind,
            scope: self.scope,
            protocol: self.protocol,
            ..Route::new(self.key().unpack().dst, nexthops)
        }
    }

    fn key(&self) -> Packed {
        match self.family {
            Family::Inet => {
                let dst = self.dst as u32;
                Packed::V4(key::key4(self.table, dst, self.len, self.tos, self.metric))
            }
            Family::Inet6 => Packed::V6(Key6::new(self.table, self.dst, self.len, self.metric)),
        }
    }
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum RowMatch {
    /// It is in order.
    Matched,
    /// It is to be kept.
    Kept,
    /// It is to be kept, and so is the one before it, which was in order while it was alone.
    KeptBoth(Box<Route>),
}

/// How the routes of a value look once they are there.
struct Expected {
    route: Box<Route>,
    /// The same, if it has nothing beside.
    plain: Option<Plain>,
}

/// What a plain route has beside its key and its marker.
#[derive(Clone, Copy)]
struct Plain {
    kind: RouteType,
    scope: Option<Scope>,
    way: Leads,
}

#[derive(Clone, Copy)]
enum Leads {
    /// By whichever device the gateway is reached, if none is named.
    By {
        via: Option<IpAddr>,
        dev: Option<u32>,
        onlink: bool,
    },
    /// What it leads to is the object's to say.
    To(u32),
}

impl Expected {
    /// `None` if no row may fall through.
    fn of(route: Route) -> Option<Expected> {
        let direct = |hop: &NextHop| hop.via.is_none() || hop.dev.is_some_and(Dev::is_planned);
        if route.nexthops.as_slice().iter().any(direct) {
            return None;
        }
        let plain = PlainRoute::of(&route).map(|seen| Plain {
            kind: seen.kind,
            scope: seen.scope,
            way: match seen.object {
                Some(id) => Leads::To(id),
                None => Leads::By {
                    via: seen.via,
                    dev: seen.dev,
                    onlink: seen.onlink,
                },
            },
        });
        let route = Box::new(route);
        Some(Expected { route, plain })
    }

    #[inline]
    fn is(&self, seen: &PlainRoute) -> bool {
        self.plain.is_some_and(|Plain { kind, scope, way }| {
            let leads = match way {
                Leads::By { via, dev, onlink } => {
                    via == seen.via
                        && (dev.is_none() || dev == seen.dev)
                        && onlink == seen.onlink
                        && seen.object.is_none()
                }
                Leads::To(id) => seen.object == Some(id),
            };
            leads && kind == seen.kind && scope == seen.scope
        })
    }

    /// The plain row of a key that was found to be as expected, out of a device.
    fn plain_row(&self, key: Packed, dev: Option<u32>) -> Route {
        let mut route = self.route.at(key.unpack());
        let dev = dev.map(Dev::index);
        match &mut route.nexthops {
            NextHops::One(hop) => hop.dev = dev,
            NextHops::Object(_, devs) => *devs = dev.into_iter().collect(),
            NextHops::None | NextHops::Many(_) => {}
        }
        route
    }
}

/// A row that was in order.
enum Last {
    None,
    /// All else that it says is as desired.
    Plain(Id, Option<u32>),
    Other(Box<Route>),
}

/// Desired routes, held against a dump.
pub struct DumpMatcher<'a> {
    routes: &'a Routes,
    marker: u8,
    /// Keys on which nothing falls through.
    kept: BTreeSet<RouteKey>,
    /// By value; `None` is like nothing that may fall through.
    expected: Vec<Option<Expected>>,
    v4: Run<'a, Key4>,
    v6: Run<'a, Key6>,
    matched: usize,
    dependencies: RouteDependencies,
    /// What was noted last: runs of one device or object are long.
    noted: (Option<u32>, Option<u32>),
    /// The last row, if it was in order.
    last: Last,
    in_order: bool,
}

/// What routes rest on beside the gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteDependencies {
    /// Devices, by index.
    pub devices: BTreeSet<u32>,
    /// Preferred sources.
    pub sources: BTreeSet<IpAddr>,
    /// Nexthop objects, by id.
    pub nexthops: BTreeSet<u32>,
}

impl RouteDependencies {
    /// Adds those of a route.
    pub fn note(&mut self, route: &Route) {
        self.sources.extend(route.src);
        if let NextHops::Object(id, _) = &route.nexthops {
            self.nexthops.insert(*id);
        }
        let devices = route.nexthops.devices();
        self.devices
            .extend(devices.filter_map(|dev| dev.as_index()));
    }

    /// Adds others.
    pub fn add(&mut self, others: RouteDependencies) {
        self.devices.extend(others.devices);
        self.sources.extend(others.sources);
        self.nexthops.extend(others.nexthops);
    }
}

impl<'a> DumpMatcher<'a> {
    /// For routes that bear `marker` and whose devices are those. On the keys in `kept` everything is kept.
    pub fn new(
        routes: &'a Routes,
        devices: &Devices,
        marker: u8,
        kept: BTreeSet<RouteKey>,
    ) -> DumpMatcher<'a> {
        DumpMatcher::with_nexthop_table(routes, devices, marker, kept, &NexthopTable::default())
    }

    /// The same, where the routes point at nexthop objects.
    pub fn with_nexthop_table(
        routes: &'a Routes,
        devices: &Devices,
        marker: u8,
        kept: BTreeSet<RouteKey>,
        objects: &NexthopTable,
    ) -> DumpMatcher<'a> {
        let expected = routes.resolved_values(devices, marker).into_iter();
        let expected = expected.map(|value| match value {
            Some(Ok(mut route)) => {
                if let Some(object) = objects.pointing(&route) {
                    route.nexthops = NextHops::Object(object, Vec::new());
                }
                Expected::of(route)
            }
            _ => None,
        });
        DumpMatcher {
            routes,
            marker,
            kept,
            expected: expected.collect(),
            v4: Run::default(),
            v6: Run::default(),
            matched: 0,
            dependencies: RouteDependencies::default(),
            noted: (None, None),
            last: Last::None,
            in_order: true,
        }
    }

    /// A dump of a family begins.
    pub fn begin(&mut self, family: Family) {
        match family {
            Family::Inet => self.v4 = Run::default(),
            Family::Inet6 => self.v6 = Run::default(),
        }
        self.matched = 0;
        self.dependencies = RouteDependencies::default();
        self.noted = (None, None);
        self.last = Last::None;
        self.in_order = true;
    }

    /// The next row of the dump.
    #[inline]
    pub fn match_plain(&mut self, row: &PlainRoute) -> RowMatch {
        let key = row.key();
        match self.find(key, row.protocol) {
            Found::Wanted(id) if self.expects(id, |it| it.is(row)) && !self.is_kept(key) => {
                if self.noted != (row.dev, row.object) {
                    self.noted = (row.dev, row.object);
                    self.dependencies.devices.extend(row.dev);
                    self.dependencies.nexthops.extend(row.object);
                }
                self.matched(Last::Plain(id, row.dev))
            }
            found => self.mismatched(key, found),
        }
    }

    /// The next row of the dump, in canonical form.
    pub fn match_route(&mut self, row: &Route) -> RowMatch {
        if let Some(plain) = PlainRoute::of(row) {
            return self.match_plain(&plain);
        }
        let key = Packed::of(&row.key());
        match self.find(key, row.protocol) {
            Found::Wanted(id)
                if self.expects(id, |it| it.route.agrees(row)) && !self.is_kept(key) =>
            {
                self.dependencies.note(row);
                self.matched(Last::Other(Box::new(row.clone())))
            }
            found => self.mismatched(key, found),
        }
    }

    /// What is desired where a row is. One that does not bear the marker is never it.
    #[inline]
    fn find(&mut self, key: Packed, protocol: u8) -> Found {
        let found = match key {
            Packed::V4(key) => self
                .v4
                .find(key, key::table4(key), &self.routes.v4, key::of_table4),
            Packed::V6(key) => self
                .v6
                .find(key, key.table, &self.routes.v6, Key6::of_table),
            // All of those are mismatches.
            Packed::Generic(_) => Found::Generic,
        };
        match found {
            Found::Wanted(_) if protocol != self.marker => Found::Different,
            found => found,
        }
    }

    #[inline]
    fn expects(&self, id: Id, is: impl FnOnce(&Expected) -> bool) -> bool {
        let expected = self.expected.get(id as usize);
        expected.and_then(Option::as_ref).is_some_and(is)
    }

    #[inline]
    fn is_kept(&self, key: Packed) -> bool {
        !self.kept.is_empty() && self.kept.contains(&key.unpack())
    }

    #[inline]
    fn matched(&mut self, row: Last) -> RowMatch {
        self.matched += 1;
        self.last = row;
        RowMatch::Matched
    }

    /// A row that does not fall through.
    #[cold]
    fn mismatched(&mut self, key: Packed, found: Found) -> RowMatch {
        if matches!(found, Found::Generic) {
            return RowMatch::Kept;
        }
        let before = std::mem::replace(&mut self.last, Last::None);
        match found {
            Found::Wanted(_) | Found::Different => self.mismatch(key),
            Found::Again => {
                let before = match before {
                    Last::None => return RowMatch::Kept,
                    Last::Other(route) => route,
                    Last::Plain(id, dev) => {
                        let expected = self.expected.get(id as usize).and_then(Option::as_ref);
                        match expected {
                            Some(expected) => Box::new(expected.plain_row(key, dev)),
                            None => return RowMatch::Kept,
                        }
                    }
                };
                self.matched -= 1;
                self.mismatch(key);
                return RowMatch::KeptBoth(before);
            }
            Found::OutOfOrder => self.in_order = false,
            Found::Unwanted | Found::Generic => {}
        }
        RowMatch::Kept
    }

    fn mismatch(&mut self, key: Packed) {
        match key {
            Packed::V4(key) => self.v4.mismatches.push(key),
            Packed::V6(key) => self.v6.mismatches.push(key),
            Packed::Generic(_) => {}
        }
    }

    /// The dump of a family, of one table or all, is at its end: what it has found.
    pub fn end(&mut self, family: Family, table: Option<u32>) -> Mismatches {
        let mut mismatches = Mismatches {
            matched: self.matched,
            disorder: !self.in_order,
            dependencies: std::mem::take(&mut self.dependencies),
            ..Mismatches::default()
        };
        match family {
            Family::Inet => {
                let routes = &self.routes.v4;
                mismatches.v4 = self.v4.end(routes, key::table4, key::of_table4, table);
            }
            Family::Inet6 => {
                let routes = &self.routes.v6;
                mismatches.v6 = self.v6.end(routes, |key| key.table, Key6::of_table, table);
            }
        }
        self.begin(family);
        mismatches
    }
}

/// One family's part of the walk.
struct Run<'a, K> {
    /// What is desired in the table at hand and is still to come: the next, and those behind it.
    next: Option<(K, Id)>,
    rows: Range<'a, K, Id>,
    table: Option<u32>,
    tables: BTreeSet<u32>,
    last: Option<K>,
    mismatches: Vec<K>,
}

impl<K> Default for Run<'_, K> {
    fn default() -> Self {
        Run {
            next: None,
            rows: Range::default(),
            table: None,
            tables: BTreeSet::new(),
            last: None,
            mismatches: Vec::new(),
        }
    }
}

/// What is desired where a row is.
enum Found {
    Wanted(Id),
    /// Something, which is not what the row is.
    Different,
    Unwanted,
    /// There was another of the same key.
    Again,
    OutOfOrder,
    /// It is not held against anything.
    Generic,
}

impl<'a, K: Ord + Copy> Run<'a, K> {
    #[inline]
    fn find(
        &mut self,
        key: K,
        table: u32,
        routes: &'a BTreeMap<K, Id>,
        all: fn(u32) -> RangeInclusive<K>,
    ) -> Found {
        if self.table != Some(table) {
            self.drain();
            if !self.tables.insert(table) {
                return Found::OutOfOrder;
            }
            self.table = Some(table);
            self.last = None;
            self.rows = routes.range(all(table));
            self.step();
        }
        match self.last {
            Some(last) if last == key => return Found::Again,
            Some(last) if last > key => return Found::OutOfOrder,
            _ => self.last = Some(key),
        }
        while let Some((wanted, id)) = self.next {
            if wanted > key {
                break;
            }
            self.step();
            if wanted == key {
                return Found::Wanted(id);
            }
            self.mismatches.push(wanted);
        }
        Found::Unwanted
    }

    #[inline]
    fn step(&mut self) {
        self.next = self.rows.next().map(|(key, id)| (*key, *id));
    }

    fn drain(&mut self) {
        let rows = std::mem::take(&mut self.rows).map(|(key, _)| *key);
        let next = self.next.take().map(|(key, _)| key);
        self.mismatches.extend(next.into_iter().chain(rows));
        self.table = None;
    }

    /// What is desired in tables that did not come at all is mismatched.
    fn end(
        &mut self,
        routes: &'a BTreeMap<K, Id>,
        table: impl Fn(K) -> u32,
        all: fn(u32) -> RangeInclusive<K>,
        only: Option<u32>,
    ) -> Vec<K> {
        self.drain();
        let mut next = routes.first_key_value().map(|(key, _)| table(*key));
        while let Some(number) = next {
            if only.is_none_or(|only| only == number) && self.tables.insert(number) {
                let missing = routes.range(all(number));
                self.mismatches.extend(missing.map(|(key, _)| *key));
            }
            let after = (
                std::ops::Bound::Excluded(*all(number).end()),
                std::ops::Bound::Unbounded,
            );
            next = routes.range(after).next().map(|(key, _)| table(*key));
        }
        let mut mismatches = std::mem::take(&mut self.mismatches);
        mismatches.sort_unstable();
        mismatches
    }
}

/// What a walk has found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatches {
    v4: Vec<Key4>,
    v6: Vec<Key6>,
    matched: usize,
    dependencies: RouteDependencies,
    disorder: bool,
}

impl Mismatches {
    /// How many routes are in order.
    pub fn matched(&self) -> usize {
        self.matched
    }

    /// What those that are in order rest on.
    pub fn dependencies(&self) -> &RouteDependencies {
        &self.dependencies
    }

    /// Whether the rows came in order. Else nothing of this holds.
    pub fn in_order(&self) -> bool {
        !self.disorder
    }

    /// Adds what another dump has found.
    pub fn add(&mut self, other: Mismatches) {
        let sorted = self.v4.is_empty() && self.v6.is_empty();
        self.v4.extend(other.v4);
        self.v6.extend(other.v6);
        self.matched += other.matched;
        self.dependencies.add(other.dependencies);
        self.disorder |= other.disorder;
        if !sorted {
            self.v4.sort_unstable();
            self.v6.sort_unstable();
        }
    }

    /// The mismatches both here and there: what was seen once is there.
    #[must_use]
    pub fn common(mut self, other: &Mismatches) -> Mismatches {
        self.v4.retain(|key| other.v4.binary_search(key).is_ok());
        self.v6.retain(|key| other.v6.binary_search(key).is_ok());
        self.matched = self.matched.max(other.matched);
        self.dependencies.add(other.dependencies.clone());
        self
    }
}

impl Routes {
    /// Those that are mismatched, and those on whose keys a row was kept.
    pub fn mismatched(&self, mismatches: &Mismatches, kept: &[Route]) -> Routes {
        let of_kept = || kept.iter().map(|route| Packed::of(&route.key()));
        let v4 = of_kept().filter_map(|key| match key {
            Packed::V4(key) => Some(key),
            _ => None,
        });
        let v6 = of_kept().filter_map(|key| match key {
            Packed::V6(key) => Some(key),
            _ => None,
        });
        self.subset(
            among(&self.v4, &mismatches.v4, v4),
            among(&self.v6, &mismatches.v6, v6),
        )
    }
}

/// The rows of some keys: the first are in order and all there.
fn among<K: Ord + Copy>(
    rows: &BTreeMap<K, Id>,
    keys: &[K],
    more: impl Iterator<Item = K>,
) -> BTreeMap<K, Id> {
    // Many of many are found faster by a walk.
    let mut some: BTreeMap<K, Id> = if keys.len() > rows.len() / 16 {
        let mut keys = keys.iter().peekable();
        let mut wanted = |key: &K| {
            while keys.next_if(|next| *next < key).is_some() {}
            keys.next_if(|next| *next == key).is_some()
        };
        let rows = rows.iter().filter(|(key, _)| wanted(key));
        rows.map(|(key, id)| (*key, *id)).collect()
    } else {
        let row = |key: &K| Some((*key, *rows.get(key)?));
        keys.iter().filter_map(row).collect()
    };
    for key in more {
        if let Some(id) = rows.get(&key) {
            some.insert(key, *id);
        }
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: u8 = 116;

    fn rows(destinations: &[&str]) -> (Routes, Vec<Route>) {
        let via = NextHop::via([10, 0, 0, 1].into());
        let wanted = |dst: &&str| Route::new(dst.parse().unwrap(), NextHops::One(via.clone()));
        let observed = |dst: &&str| {
            let hop = NextHop::via([10, 0, 0, 1].into());
            let mut route = Route::new(dst.parse().unwrap(), NextHops::One(hop)).canonical();
            route.protocol = MARKER;
            route
        };
        (
            destinations.iter().map(wanted).collect(),
            destinations.iter().map(observed).collect(),
        )
    }

    #[test]
    fn rows_in_order_fall_through_and_rows_out_of_order_are_told() {
        let (routes, rows) = rows(&["10.0.0.0/16", "10.0.0.0/8", "10.1.0.0/16"]);
        let mut matcher = DumpMatcher::new(&routes, &Devices::default(), MARKER, BTreeSet::new());
        matcher.begin(Family::Inet);
        for row in &rows {
            assert_eq!(matcher.match_route(row), RowMatch::Matched);
        }
        let all = matcher.end(Family::Inet, None);
        assert_eq!((all.matched(), all.in_order()), (3, true));
        assert!(routes.mismatched(&all, &[]).is_empty());

        for at in [2, 0, 1] {
            let _ = matcher.match_route(&rows[at]);
        }
        assert!(!matcher.end(Family::Inet, None).in_order());
    }

    #[test]
    fn what_comes_twice_does_not_fall_through() {
        let (routes, rows) = rows(&["10.0.0.0/16", "10.1.0.0/16"]);
        let mut matcher = DumpMatcher::new(&routes, &Devices::default(), MARKER, BTreeSet::new());
        matcher.begin(Family::Inet);
        assert_eq!(matcher.match_route(&rows[0]), RowMatch::Matched);
        let both = RowMatch::KeptBoth(Box::new(rows[0].clone()));
        assert_eq!(matcher.match_route(&rows[0]), both);
        assert_eq!(matcher.match_route(&rows[0]), RowMatch::Kept);
        let found = matcher.end(Family::Inet, None);
        assert_eq!(found.matched(), 0);
        assert_eq!(routes.mismatched(&found, &rows[..1]).len(), 2);
    }
}
