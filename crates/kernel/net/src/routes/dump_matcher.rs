//! [`DumpMatcher`] compares desired routes with the rows of a dump as the rows arrive.
//!
//! A row matches if it has our marker, is exactly as desired, and is the only one with its key. A
//! matching row is not kept. All other rows on desired keys are kept, and their keys are
//! mismatches. The plan for the kept rows and the mismatches is the plan for all routes. Rows
//! straight out of a device are always kept, since they may make gateways reachable.
//!
//! The matcher walks both sides once, side by side, and so depends on the order of the dump. If it
//! reports rows out of order, all its results are void.
//!
//! - `walk` finds the desired route with a row's key: table, destination, metric, type of service.
//! - `compare` compares all other fields.
//! - `result` holds the results of one dump.

use std::collections::BTreeSet;
use std::hash::Hash;

use trueup_diff::{Found, Verdict, decide};

use super::index::{Id, Key4, Key6, Packed, Routes};
use super::plain::PlainRoute;
use super::resolved::{DeviceName, ResolvedRoutes};
use crate::devices::Devices;
use crate::kinds::{ObjectKind as _, Route, RouteKey};
use crate::values::Family;
pub use result::RouteDependencies;
use result::{Mismatches, RowMatch};
use walk::{OnKey, Walk};

mod result;
mod walk;

/// Compares desired routes with a dump.
pub struct DumpMatcher<'a> {
    v4: Walk<'a, Key4>,
    v6: Walk<'a, Key6>,
    expected: Expected,
    marker: u8,
    /// Keys of which all rows are kept.
    kept: BTreeSet<RouteKey>,
    matched: usize,
    differing: usize,
    dependencies: RouteDependencies,
    /// The device and object last added to the dependencies, since the same ones come in long runs.
    noted: (Option<u32>, Option<u32>),
    /// The last row's value and device, if the row matched and is plain.
    last: Option<(Id, Option<u32>)>,
    /// The last row, if it matched and is not plain. If `last` is set too, that one is newer.
    last_other: Option<Box<Route>>,
    in_order: bool,
    /// The ended dumps that are not settled yet.
    attempts: Vec<Mismatches>,
    found: Mismatches,
    /// The result of an earlier read.
    before: Option<Mismatches>,
}

impl<'a> DumpMatcher<'a> {
    /// Makes a matcher for routes with `marker` that contain their next hops.
    pub fn new<D: DeviceName>(
        routes: &'a Routes<D>,
        devices: &Devices,
        marker: u8,
    ) -> DumpMatcher<'a> {
        let resolved = ResolvedRoutes::new(routes, devices, marker);
        DumpMatcher::of_resolved(routes, &resolved, BTreeSet::new())
    }

    /// Makes a matcher for the resolved routes, or for part of them. See
    /// [`Resolution::matcher`](crate::Resolution::matcher).
    pub(crate) fn of_resolved<D>(
        routes: &'a Routes<D>,
        resolved: &ResolvedRoutes,
        kept: BTreeSet<RouteKey>,
    ) -> DumpMatcher<'a> {
        let is_of_routes = resolved.covers(routes);
        let values = resolved.values().take_while(|_| is_of_routes);
        DumpMatcher {
            v4: Walk::new(&routes.v4),
            v6: Walk::new(&routes.v6),
            expected: Expected::of(values),
            marker: resolved.marker,
            kept,
            matched: 0,
            differing: 0,
            dependencies: RouteDependencies::default(),
            noted: (None, None),
            last: None,
            last_other: None,
            in_order: true,
            attempts: Vec::new(),
            found: Mismatches::default(),
            before: None,
        }
    }

    /// Begins a dump of a family.
    pub fn begin(&mut self, family: Family) {
        match family {
            Family::Inet => self.v4.begin(),
            Family::Inet6 => self.v6.begin(),
        }
        (self.matched, self.differing) = (0, 0);
        self.dependencies = RouteDependencies::default();
        self.noted = (None, None);
        (self.last, self.last_other) = (None, None);
        self.in_order = true;
    }

    /// Takes the next row of the dump, and adds to `kept` the rows that the planner needs: this
    /// one, and perhaps the one before it. `plain` is the row if it is plain, and `to_route` makes
    /// the whole route. Returns true if the row is as desired.
    #[inline]
    pub fn match_row(
        &mut self,
        plain: Option<&PlainRoute>,
        to_route: impl Fn() -> Route,
        kept: &mut Vec<Route>,
    ) -> bool {
        let matched = match plain {
            Some(row) => self.match_plain(row),
            None => self.match_route(&to_route()),
        };
        match matched {
            RowMatch::Matched => return true,
            RowMatch::Foreign => {}
            RowMatch::Kept => kept.push(to_route()),
            RowMatch::KeptBoth(before) => kept.extend([*before, to_route()]),
        }
        false
    }

    #[inline]
    fn match_plain(&mut self, row: &PlainRoute) -> RowMatch {
        let key = row.packed();
        let on_key = self.find(key);
        let verdict = self.verdict(&on_key, row.protocol, |id| self.expected.is_plain(id, row));
        if let (Verdict::Keep, OnKey::Desired(id)) = (verdict, &on_key)
            && !self.is_kept(key)
        {
            if self.noted != (row.dev, row.object) {
                self.noted = (row.dev, row.object);
                self.dependencies.devices.extend(row.dev);
                self.dependencies.nexthops.extend(row.object);
            }
            self.last = Some((*id, row.dev));
            self.matched += 1;
            return RowMatch::Matched;
        }
        self.mismatched(key, &on_key, verdict)
    }

    /// Takes the next row of the dump, in canonical form.
    fn match_route(&mut self, row: &Route) -> RowMatch {
        if let Some(plain) = PlainRoute::of(row) {
            return self.match_plain(&plain);
        }
        let key = Packed::of(&row.key());
        if let Packed::Generic(_) = key {
            return RowMatch::Kept;
        }
        let on_key = self.find(key);
        let verdict = self.verdict(&on_key, row.protocol, |id| self.expected.is_route(id, row));
        if verdict == Verdict::Keep && !self.is_kept(key) {
            self.dependencies.note(row);
            (self.last, self.last_other) = (None, Some(Box::new(row.clone())));
            self.matched += 1;
            return RowMatch::Matched;
        }
        self.mismatched(key, &on_key, verdict)
    }

    /// Decides about a row by itself. Another writer's row counts as different; the planner decides
    /// if it serves.
    #[inline]
    fn verdict(
        &self,
        on_key: &OnKey,
        protocol: u8,
        is_as_desired: impl FnOnce(Id) -> bool,
    ) -> Verdict {
        let (is_desired, id) = match on_key {
            OnKey::Desired(id) => (true, Some(*id)),
            OnKey::Repeated { is_desired } => (*is_desired, None),
            OnKey::Undesired => (false, None),
            // The desired route is unknown, so the row is kept.
            OnKey::OutOfOrder => (true, None),
        };
        if protocol == self.marker {
            decide(is_desired, Found::item(id.is_some_and(is_as_desired)), Found::Nothing)
        } else {
            decide(is_desired, Found::Nothing, Found::Different)
        }
    }

    #[inline]
    fn find(&mut self, key: Packed) -> OnKey {
        match key {
            Packed::V4(key) => self.v4.find(key),
            Packed::V6(key) => self.v6.find(key),
            Packed::Generic(_) => OnKey::Undesired,
        }
    }

    #[inline]
    fn is_kept(&self, key: Packed) -> bool {
        !self.kept.is_empty() && self.kept.contains(&key.unpack())
    }

    /// Drops a mismatched row if it is another writer's and on no desired key. Else keeps it.
    #[inline]
    fn mismatched(&mut self, key: Packed, on_key: &OnKey, verdict: Verdict) -> RowMatch {
        if verdict == Verdict::Leave && !self.is_kept(key) {
            return RowMatch::Foreign;
        }
        self.differing += usize::from(matches!(verdict, Verdict::Keep | Verdict::Change));
        self.keep(key, on_key)
    }

    /// Keeps a row that does not match.
    #[cold]
    fn keep(&mut self, key: Packed, on_key: &OnKey) -> RowMatch {
        let (last, last_other) = (self.last.take(), self.last_other.take());
        match on_key {
            OnKey::Desired(_) => self.mismatch(key),
            OnKey::Undesired => {}
            OnKey::Repeated { .. } => {
                let before = match last {
                    Some((id, dev)) => self.expected.row(id, key.unpack(), dev).map(Box::new),
                    None => last_other,
                };
                if let Some(before) = before {
                    self.matched -= 1;
                    self.mismatch(key);
                    return RowMatch::KeptBoth(before);
                }
            }
            OnKey::OutOfOrder => self.in_order = false,
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

    /// Returns the number of our rows so far that differ from the route desired on their key.
    pub fn differing(&self) -> usize {
        self.differing
    }

    /// Ends the dump of a family, for one table or for all.
    pub fn end(&mut self, family: Family, table: Option<u32>) {
        let mut mismatches = Mismatches {
            matched: self.matched,
            disorder: !self.in_order,
            dependencies: std::mem::take(&mut self.dependencies),
            ..Mismatches::default()
        };
        match family {
            Family::Inet => mismatches.v4 = self.v4.end(table),
            Family::Inet6 => mismatches.v6 = self.v6.end(table),
        }
        self.begin(family);
        self.attempts.push(mismatches);
    }

    /// Settles the attempts at one dump since the last call. If the last one is consistent, it
    /// counts. If not, a route seen by any attempt counts as in place.
    ///
    /// Returns false, and ignores the attempts, if rows came out of order.
    #[must_use]
    pub fn settle(&mut self, is_consistent: bool) -> bool {
        let mut attempts = std::mem::take(&mut self.attempts);
        let last = attempts.pop().unwrap_or_default();
        let seen =
            if is_consistent { last } else { attempts.iter().fold(last, Mismatches::common) };
        let is_in_order = !seen.disorder;
        if is_in_order {
            self.found.add(seen);
        }
        is_in_order
    }

    /// Settles a dump of which all rows were kept and none was matched.
    pub fn settle_unseen(&mut self, family: Family, table: Option<u32>) {
        self.begin(family);
        self.end(family, table);
        // An empty dump is never out of order.
        let _ = self.settle(true);
    }

    /// Begins another read of the same routes.
    pub fn begin_again(&mut self) {
        self.before = Some(std::mem::take(&mut self.found));
    }

    /// Joins both reads: a route seen by either is in place. Returns true if the second lacks a
    /// route seen by the first.
    pub fn join(&mut self) -> bool {
        let Some(before) = self.before.take() else { return false };
        let is_changing = !before.contains(&self.found);
        self.found = before.common(&self.found);
        is_changing
    }

    /// Returns the number of routes in sync.
    pub fn matched(&self) -> usize {
        self.found.matched
    }

    /// Returns the routes without a matching row, and those with a kept row on their key.
    pub fn out_of_sync<D: Clone + Eq + Hash>(
        &self,
        routes: &Routes<D>,
        kept: &[Route],
    ) -> Routes<D> {
        routes.mismatched(&self.found, kept)
    }

    /// Ends the matching, and returns the dependencies of the routes in sync.
    pub fn into_dependencies(self) -> RouteDependencies {
        self.found.dependencies
    }
}

/// The routes as they will be in the kernel, by value. A value without an entry matches no row.
struct Expected {
    plain: Vec<Option<PlainRoute>>,
    /// The ones that are not plain.
    other: Vec<Option<Box<Route>>>,
}

impl Expected {
    fn of(values: impl Iterator<Item = Option<Route>>) -> Expected {
        let parts = values.map(|value| match value.filter(may_match) {
            None => (None, None),
            Some(route) => match PlainRoute::of(&route) {
                Some(plain) => (Some(plain), None),
                None => (None, Some(Box::new(route))),
            },
        });
        let (plain, other) = parts.unzip();
        Expected { plain, other }
    }

    /// Returns true if a plain row is as desired.
    #[inline]
    fn is_plain(&self, id: Id, row: &PlainRoute) -> bool {
        let desired = self.plain.get(id as usize);
        desired.is_some_and(|desired| desired.is_some_and(|desired| agrees(&desired, row)))
    }

    /// Returns true if a row that is not plain is as desired.
    fn is_route(&self, id: Id, row: &Route) -> bool {
        if let Some(Some(desired)) = self.other.get(id as usize) {
            return desired.agrees(row);
        }
        // A plain route points at an object, while the row shows all devices that the object leads
        // to.
        let desired = self.plain.get(id as usize);
        desired.is_some_and(|desired| desired.is_some_and(|it| it.to_route().agrees(row)))
    }

    /// Returns the plain row that matched on a key, out of a device.
    fn row(&self, id: Id, key: RouteKey, dev: Option<u32>) -> Option<Route> {
        let desired = (*self.plain.get(id as usize)?)?;
        Some(PlainRoute { dev, ..desired }.to_route().with_key(key))
    }
}

/// Returns true if a route's rows may match. Rows straight out of a device may not: they may make
/// gateways reachable, so the planner must see them.
fn may_match(route: &Route) -> bool {
    !route
        .nexthops
        .as_slice()
        .iter()
        .any(|hop| hop.via.is_none() || hop.dev.is_some_and(|dev| dev.as_index().is_none()))
}

/// Returns true if two plain routes with the same key and protocol are equal. An open device in the
/// desired one matches any. An object's destination is compared with the object.
#[inline]
fn agrees(desired: &PlainRoute, row: &PlainRoute) -> bool {
    desired.object == row.object
        && (desired.object.is_some()
            || desired.via == row.via
                && (desired.dev.is_none() || desired.dev == row.dev)
                && desired.onlink == row.onlink)
        && desired.kind == row.kind
        && desired.scope == row.scope
}

#[cfg(test)]
mod tests;
