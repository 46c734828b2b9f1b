//! Desired routes against the rows of a dump, as they arrive: what is in order falls through and is held nowhere.
//!
//! A row falls through if it bears our marker, is exactly as desired, and is alone on its key. Whatever else is on a desired key
//! is kept, and that key is unmet: the plan is made of what was kept and of the unmet, as if there were nothing else. Routes that
//! lead straight out of a device are always kept: gateways may be reachable by them.
//!
//! It walks both sides once, side by side, and so rests on the order of the dump. Rows out of order are told, and then nothing
//! that was found holds.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::key::{self, Key4, Key6, Packed};
use super::{Id, Routes};
use crate::model::{Dev, Family, Item as _, NextHop, NextHops, Route, RouteKey, RouteType, Scope};
use crate::resolve::Devices;
use crate::shape::Objects;

/// An observed route in canonical form that has nothing beside what most have: at most one next hop, no metrics, no preferred
/// source, no source prefix, nothing unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
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
}

impl Seen {
    /// A route in canonical form, if it has nothing beside.
    pub fn of(route: &Route) -> Option<Seen> {
        let hop = match &route.nexthops {
            NextHops::None => None,
            NextHops::One(hop) => Some(hop),
            NextHops::Many(_) | NextHops::Object(..) => return None,
        };
        let more = route.src.is_some() || route.from.is_some() || !route.metrics.is_empty();
        if more || route.unmodelled {
            return None;
        }
        Some(Seen {
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
            via: hop.and_then(|hop| hop.via),
            dev: hop.and_then(|hop| hop.dev).and_then(Dev::as_index),
            onlink: hop.is_some_and(|hop| hop.onlink),
        })
    }

    /// As a route.
    pub fn route(&self) -> Route {
        let hop = NextHop {
            via: self.via,
            dev: self.dev.map(Dev::index),
            weight: 1,
            onlink: self.onlink,
        };
        let nexthops = match (self.via, self.dev) {
            (None, None) => NextHops::None,
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
pub enum Verdict {
    /// It is in order.
    Settled,
    /// It is to be kept.
    Kept,
    /// It is to be kept, and so is the one before it, which was in order while it was alone.
    Both(Box<Route>),
}

/// How the routes of a value look once they are there.
enum Expected {
    /// Like nothing that may fall through.
    Never,
    Plain {
        kind: RouteType,
        scope: Option<Scope>,
        via: Option<IpAddr>,
        dev: Option<u32>,
        onlink: bool,
    },
    Other(Box<Route>),
}

impl Expected {
    fn of(route: Route) -> Expected {
        let hops = route.nexthops.as_slice();
        let planned = |dev: Dev| dev.is_planned();
        if hops
            .iter()
            .any(|hop| hop.via.is_none() || hop.dev.is_some_and(planned))
        {
            return Expected::Never;
        }
        let (via, dev, onlink) = match &route.nexthops {
            NextHops::None => (None, None, false),
            NextHops::One(hop) => (hop.via, hop.dev.and_then(Dev::as_index), hop.onlink),
            _ => return Expected::Other(Box::new(route)),
        };
        if route.src.is_some() || !route.metrics.is_empty() {
            return Expected::Other(Box::new(route));
        }
        Expected::Plain {
            kind: route.kind,
            scope: route.scope,
            via,
            dev,
            onlink,
        }
    }

    fn is(&self, seen: &Seen) -> bool {
        match self {
            Expected::Plain {
                kind,
                scope,
                via,
                dev,
                onlink,
            } => {
                *via == seen.via
                    && (dev.is_none() || *dev == seen.dev)
                    && (*kind, *scope, *onlink) == (seen.kind, seen.scope, seen.onlink)
            }
            Expected::Never | Expected::Other(_) => false,
        }
    }

    fn agrees(&self, seen: &Route) -> bool {
        matches!(self, Expected::Other(wanted) if wanted.agrees(seen))
    }
}

/// A row as it came.
#[derive(Clone)]
enum Row {
    Plain(Seen),
    Other(Box<Route>),
}

/// Desired routes, held against a dump.
pub struct Sieve<'a> {
    routes: &'a Routes,
    marker: u8,
    /// Keys on which nothing falls through.
    kept: BTreeSet<RouteKey>,
    /// By value.
    expected: Vec<Expected>,
    v4: Run<'a, Key4>,
    v6: Run<'a, Key6>,
    settled: usize,
    rests: Rests,
    /// The last row, if it was in order.
    last: Option<Row>,
    in_order: bool,
}

/// What routes rest on beside the gateways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rests {
    /// Devices, by index.
    pub devices: BTreeSet<u32>,
    /// Preferred sources.
    pub sources: BTreeSet<IpAddr>,
    /// Nexthop objects, by id.
    pub nexthops: BTreeSet<u32>,
}

impl Rests {
    /// Adds those of a route.
    pub fn note(&mut self, route: &Route) {
        self.sources.extend(route.src);
        if let NextHops::Object(id, _) = &route.nexthops {
            self.nexthops.insert(*id);
        }
        let devices = route.nexthops.devices();
        devices
            .filter_map(|dev| dev.as_index())
            .for_each(|dev| self.on(dev));
    }

    fn on(&mut self, dev: u32) {
        // Runs of one device are long.
        if self.devices.last() != Some(&dev) && !self.devices.contains(&dev) {
            self.devices.insert(dev);
        }
    }

    /// Adds others.
    pub fn add(&mut self, others: Rests) {
        self.devices.extend(others.devices);
        self.sources.extend(others.sources);
        self.nexthops.extend(others.nexthops);
    }
}

impl<'a> Sieve<'a> {
    /// For routes that bear `marker` and whose devices are those. On the keys in `kept` everything is kept.
    pub fn new(
        routes: &'a Routes,
        devices: &Devices,
        marker: u8,
        kept: BTreeSet<RouteKey>,
    ) -> Sieve<'a> {
        Sieve::shaped(routes, devices, marker, kept, &Objects::default())
    }

    /// The same, where the routes point at nexthop objects.
    pub fn shaped(
        routes: &'a Routes,
        devices: &Devices,
        marker: u8,
        kept: BTreeSet<RouteKey>,
        objects: &Objects,
    ) -> Sieve<'a> {
        let expected = routes.resolved_values(devices, marker).into_iter();
        let expected = expected.map(|value| match value {
            Some(Ok(route)) => Expected::of(match objects.pointing(&route) {
                Some(nexthops) => Route { nexthops, ..route },
                None => route,
            }),
            _ => Expected::Never,
        });
        Sieve {
            routes,
            marker,
            kept,
            expected: expected.collect(),
            v4: Run::default(),
            v6: Run::default(),
            settled: 0,
            rests: Rests::default(),
            last: None,
            in_order: true,
        }
    }

    /// A dump of a family begins.
    pub fn begin(&mut self, family: Family) {
        match family {
            Family::Inet => self.v4 = Run::default(),
            Family::Inet6 => self.v6 = Run::default(),
        }
        self.settled = 0;
        self.rests = Rests::default();
        self.last = None;
        self.in_order = true;
    }

    /// The next row of the dump.
    #[inline]
    pub fn seen(&mut self, row: &Seen) -> Verdict {
        let key = row.key();
        let expected =
            |id: Id, expected: &[Expected]| expected.get(id as usize).is_some_and(|it| it.is(row));
        self.row(key, row.protocol, expected, || Row::Plain(*row))
    }

    /// The next row of the dump, in canonical form.
    pub fn route(&mut self, row: &Route) -> Verdict {
        if let Some(seen) = Seen::of(row) {
            return self.seen(&seen);
        }
        let key = Packed::of(&row.key());
        let expected = |id: Id, expected: &[Expected]| {
            expected.get(id as usize).is_some_and(|it| it.agrees(row))
        };
        self.row(key, row.protocol, expected, || {
            Row::Other(Box::new(row.clone()))
        })
    }

    #[inline]
    fn row(
        &mut self,
        key: Packed,
        protocol: u8,
        is: impl FnOnce(Id, &[Expected]) -> bool,
        row: impl FnOnce() -> Row,
    ) -> Verdict {
        let found = match key {
            Packed::V4(key) => self
                .v4
                .find(key, key::table4(key), &self.routes.v4, key::of_table4),
            Packed::V6(key) => self
                .v6
                .find(key, key.table, &self.routes.v6, Key6::of_table),
            // All of those are unmet.
            Packed::Odd(_) => return Verdict::Kept,
        };
        let before = self.last.take();
        match found {
            Found::Wanted(id) => {
                let is = protocol == self.marker && is(id, &self.expected);
                if is && (self.kept.is_empty() || !self.kept.contains(&key.unpack())) {
                    self.settled += 1;
                    let row = row();
                    match &row {
                        Row::Plain(seen) => seen.dev.into_iter().for_each(|dev| self.rests.on(dev)),
                        Row::Other(route) => self.rests.note(route),
                    }
                    self.last = Some(row);
                    return Verdict::Settled;
                }
                self.unmet(key);
                Verdict::Kept
            }
            Found::Unwanted => Verdict::Kept,
            Found::Again => match before {
                Some(before) => {
                    self.settled -= 1;
                    self.unmet(key);
                    Verdict::Both(Box::new(match before {
                        Row::Plain(seen) => seen.route(),
                        Row::Other(route) => *route,
                    }))
                }
                None => Verdict::Kept,
            },
            Found::OutOfOrder => {
                self.in_order = false;
                Verdict::Kept
            }
        }
    }

    fn unmet(&mut self, key: Packed) {
        match key {
            Packed::V4(key) => self.v4.unmet.push(key),
            Packed::V6(key) => self.v6.unmet.push(key),
            Packed::Odd(_) => {}
        }
    }

    /// The dump of a family, of one table or all, is at its end: what it has found.
    pub fn end(&mut self, family: Family, table: Option<u32>) -> Unmet {
        let mut unmet = Unmet {
            settled: self.settled,
            disorder: !self.in_order,
            rests: std::mem::take(&mut self.rests),
            ..Unmet::default()
        };
        match family {
            Family::Inet => {
                let routes = &self.routes.v4;
                unmet.v4 = self.v4.end(routes, key::table4, key::of_table4, table);
            }
            Family::Inet6 => {
                let routes = &self.routes.v6;
                unmet.v6 = self.v6.end(routes, |key| key.table, Key6::of_table, table);
            }
        }
        self.begin(family);
        unmet
    }
}

/// One family's part of the walk.
struct Run<'a, K> {
    /// What is desired in the table at hand and is still to come.
    rows: Option<Peekable<Range<'a, K, Id>>>,
    table: Option<u32>,
    tables: BTreeSet<u32>,
    last: Option<K>,
    unmet: Vec<K>,
}

impl<K> Default for Run<'_, K> {
    fn default() -> Self {
        Run {
            rows: None,
            table: None,
            tables: BTreeSet::new(),
            last: None,
            unmet: Vec::new(),
        }
    }
}

/// What is desired where a row is.
enum Found {
    Wanted(Id),
    Unwanted,
    /// There was another of the same key.
    Again,
    OutOfOrder,
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
            self.rows = Some(routes.range(all(table)).peekable());
        }
        match self.last {
            Some(last) if last == key => return Found::Again,
            Some(last) if last > key => return Found::OutOfOrder,
            _ => self.last = Some(key),
        }
        let Some(rows) = &mut self.rows else {
            return Found::Unwanted;
        };
        while let Some((wanted, id)) = rows.next_if(|(wanted, _)| **wanted <= key) {
            if *wanted == key {
                return Found::Wanted(*id);
            }
            self.unmet.push(*wanted);
        }
        Found::Unwanted
    }

    fn drain(&mut self) {
        let rows = self.rows.take().into_iter().flatten();
        self.unmet.extend(rows.map(|(key, _)| *key));
        self.table = None;
    }

    /// What is desired in tables that did not come at all is unmet.
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
                self.unmet.extend(missing.map(|(key, _)| *key));
            }
            let after = (
                std::ops::Bound::Excluded(*all(number).end()),
                std::ops::Bound::Unbounded,
            );
            next = routes.range(after).next().map(|(key, _)| table(*key));
        }
        let mut unmet = std::mem::take(&mut self.unmet);
        unmet.sort_unstable();
        unmet
    }
}

/// What a walk has found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmet {
    v4: Vec<Key4>,
    v6: Vec<Key6>,
    settled: usize,
    rests: Rests,
    disorder: bool,
}

impl Unmet {
    /// How many routes are in order.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// What those that are in order rest on.
    pub fn rests(&self) -> &Rests {
        &self.rests
    }

    /// Whether the rows came in order. Else nothing of this holds.
    pub fn in_order(&self) -> bool {
        !self.disorder
    }

    /// Adds what another dump has found.
    pub fn add(&mut self, other: Unmet) {
        let sorted = self.v4.is_empty() && self.v6.is_empty();
        self.v4.extend(other.v4);
        self.v6.extend(other.v6);
        self.settled += other.settled;
        self.rests.add(other.rests);
        self.disorder |= other.disorder;
        if !sorted {
            self.v4.sort_unstable();
            self.v6.sort_unstable();
        }
    }

    /// What is unmet here and there: what was seen once is there.
    #[must_use]
    pub fn and(mut self, other: &Unmet) -> Unmet {
        self.v4.retain(|key| other.v4.binary_search(key).is_ok());
        self.v6.retain(|key| other.v6.binary_search(key).is_ok());
        self.settled = self.settled.max(other.settled);
        self.rests.add(other.rests.clone());
        self
    }
}

impl Routes {
    /// Those that are unmet, and those on whose keys a row was kept.
    pub fn unmet(&self, unmet: &Unmet, kept: &[Route]) -> Routes {
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
            among(&self.v4, &unmet.v4, v4),
            among(&self.v6, &unmet.v6, v6),
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
        let mut sieve = Sieve::new(&routes, &Devices::default(), MARKER, BTreeSet::new());
        sieve.begin(Family::Inet);
        for row in &rows {
            assert_eq!(sieve.route(row), Verdict::Settled);
        }
        let all = sieve.end(Family::Inet, None);
        assert_eq!((all.settled(), all.in_order()), (3, true));
        assert!(routes.unmet(&all, &[]).is_empty());

        for at in [2, 0, 1] {
            let _ = sieve.route(&rows[at]);
        }
        assert!(!sieve.end(Family::Inet, None).in_order());
    }

    #[test]
    fn what_comes_twice_does_not_fall_through() {
        let (routes, rows) = rows(&["10.0.0.0/16", "10.1.0.0/16"]);
        let mut sieve = Sieve::new(&routes, &Devices::default(), MARKER, BTreeSet::new());
        sieve.begin(Family::Inet);
        assert_eq!(sieve.route(&rows[0]), Verdict::Settled);
        let both = Verdict::Both(Box::new(rows[0].clone()));
        assert_eq!(sieve.route(&rows[0]), both);
        assert_eq!(sieve.route(&rows[0]), Verdict::Kept);
        let found = sieve.end(Family::Inet, None);
        assert_eq!(found.settled(), 0);
        assert_eq!(routes.unmet(&found, &rows[..1]).len(), 2);
    }
}
