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
use crate::model::{
    Dev, Family, Item as _, NextHop, NextHops, Prefix, Route, RouteKey, RouteType, Scope,
};
use crate::resolve::Devices;

/// An observed route in canonical form that has nothing beside what most have: at most one next hop, no metrics, no preferred
/// source, no source prefix, nothing unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The table.
    pub table: u32,
    /// The destination, without host bits.
    pub dst: IpAddr,
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
            ..Route::new(Prefix::of_parts(self.dst, self.len), nexthops)
        }
    }

    fn key(&self) -> Packed {
        match self.dst {
            IpAddr::V4(dst) => {
                let dst = dst.to_bits();
                Packed::V4(key::key4(self.table, dst, self.len, self.tos, self.metric))
            }
            IpAddr::V6(dst) => {
                Packed::V6(Key6::new(self.table, dst.to_bits(), self.len, self.metric))
            }
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
    /// The last row, if it was in order.
    last: Option<Row>,
    in_order: bool,
}

impl<'a> Sieve<'a> {
    /// For routes that bear `marker` and whose devices are those. On the keys in `kept` everything is kept.
    pub fn new(
        routes: &'a Routes,
        devices: &Devices,
        marker: u8,
        kept: BTreeSet<RouteKey>,
    ) -> Sieve<'a> {
        let expected = routes.resolved_values(devices, marker).into_iter();
        let expected = expected.map(|value| match value {
            Some(Ok(route)) => Expected::of(route),
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
            last: None,
            in_order: true,
        }
    }

    /// Forgets all rows.
    pub fn begin(&mut self) {
        self.v4 = Run::default();
        self.v6 = Run::default();
        self.settled = 0;
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
                    self.last = Some(row());
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

    /// The dump of a family, of some tables or all, is at its end.
    pub fn end(&mut self, family: Family, tables: Option<&BTreeSet<u32>>) {
        let within = |table| tables.is_none_or(|tables| tables.contains(&table));
        match family {
            Family::Inet => self
                .v4
                .end(&self.routes.v4, key::table4, key::of_table4, within),
            Family::Inet6 => {
                self.v6
                    .end(&self.routes.v6, |key| key.table, Key6::of_table, within);
            }
        }
        self.last = None;
    }

    /// What was found out since the begin.
    pub fn unmet_now(&mut self) -> Unmet {
        let mut unmet = Unmet {
            v4: std::mem::take(&mut self.v4.unmet),
            v6: std::mem::take(&mut self.v6.unmet),
            settled: self.settled,
            in_order: self.in_order,
        };
        unmet.v4.sort_unstable();
        unmet.v6.sort_unstable();
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
        within: impl Fn(u32) -> bool,
    ) {
        self.drain();
        let mut next = routes.first_key_value().map(|(key, _)| table(*key));
        while let Some(number) = next {
            if within(number) && self.tables.insert(number) {
                let missing = routes.range(all(number));
                self.unmet.extend(missing.map(|(key, _)| *key));
            }
            let after = (
                std::ops::Bound::Excluded(*all(number).end()),
                std::ops::Bound::Unbounded,
            );
            next = routes.range(after).next().map(|(key, _)| table(*key));
        }
    }
}

/// What a walk has found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmet {
    v4: Vec<Key4>,
    v6: Vec<Key6>,
    settled: usize,
    in_order: bool,
}

impl Unmet {
    /// How many routes are in order.
    pub fn settled(&self) -> usize {
        self.settled
    }

    /// Whether the rows came in order. Else nothing of this holds.
    pub fn in_order(&self) -> bool {
        self.in_order
    }

    /// What is unmet here and there: what was seen once is there.
    #[must_use]
    pub fn and(mut self, other: &Unmet) -> Unmet {
        self.v4.retain(|key| other.v4.binary_search(key).is_ok());
        self.v6.retain(|key| other.v6.binary_search(key).is_ok());
        self.settled = self.settled.max(other.settled);
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
