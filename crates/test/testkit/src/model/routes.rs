//! The table of all routes, and their form in rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Action, Kind, RawMessage};

use super::bag::width;
use super::numbers::*;
use super::request::Request;
use super::route::{Key, Leg, Route};
use super::{By, Origin, State};

/// All routes of both families.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    /// The routes of each key, in the kernel's order: descending TOS, ascending metric.
    pub(super) all: BTreeMap<Key, Vec<Route>>,
    /// The existing tables. A table is created by the first request that names it, and stays
    /// forever.
    pub(super) tables: BTreeSet<(u8, u32)>,
    /// `net.ipv6.route.skip_notify_on_dev_down`: if true, routes deleted with a link are not
    /// announced.
    pub(super) go_silently: bool,
}

/// The flags of a next hop that rows show.
const SHOWN: u8 = RTNH_STATE | RTNH_F_ONLINK;

/// `RTA_MULTIPATH`.
fn multipath(family: u8, legs: &[Leg]) -> Vec<u8> {
    let mut out = Vec::new();
    for leg in legs {
        let attrs = leg.bag(family).bytes();
        out.extend((8 + attrs.len() as u16).to_ne_bytes());
        out.extend([leg.flags & SHOWN, leg.weight.wrapping_sub(1) as u8]);
        out.extend(leg.device.to_ne_bytes());
        out.extend(attrs);
    }
    out
}

impl Routes {
    pub(super) fn at(&self, key: &Key) -> &[Route] {
        self.all.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn of(&self, family: u8) -> impl Iterator<Item = (&Key, &Route)> {
        let of = self.all.iter().filter(move |(key, _)| key.family == family);
        of.flat_map(|(key, list)| list.iter().map(move |route| (key, route)))
    }

    pub(super) fn of_mut(&mut self, family: u8) -> impl Iterator<Item = &mut Route> {
        let of = self.all.iter_mut().filter(move |(key, _)| key.family == family);
        of.flat_map(|(_, list)| list.iter_mut())
    }

    /// Returns the routes that satisfy a predicate.
    pub(super) fn matching(&self, is_meant: impl Fn(&Key, &Route) -> bool) -> Vec<(Key, Route)> {
        let all = [INET, INET6].into_iter().flat_map(|family| self.of(family));
        let found = all.filter(|(key, route)| is_meant(key, route));
        found.map(|(key, route)| (*key, route.clone())).collect()
    }

    pub(super) fn with_nexthop(&self, id: u32) -> Vec<(Key, Route)> {
        self.matching(|_, route| route.nexthop == id)
    }

    pub(super) fn change(&mut self, key: &Key, id: u64, change: impl FnOnce(&mut Route)) {
        let list = self.all.get_mut(key).into_iter().flatten();
        if let Some(route) = { list }.find(|route| route.origin.id == id) {
            change(route);
        }
    }

    /// Removes a route without an announcement.
    pub(super) fn remove(&mut self, key: &Key, id: u64) -> Option<Route> {
        let list = self.all.get_mut(key)?;
        let at = list.iter().position(|route| route.origin.id == id)?;
        let route = list.remove(at);
        if list.is_empty() {
            self.all.remove(key);
        }
        Some(route)
    }

    /// Returns an IPv6 route and its siblings, in circular order from the route on.
    pub(super) fn siblings(&self, key: &Key, route: &Route) -> Vec<&Route> {
        let list = self.at(key);
        let at = list.iter().position(|other| other.origin.id == route.origin.id);
        let (before, after) = list.split_at(at.unwrap_or(0));
        let all = after.iter().chain(before);
        if key.family == INET6 && route.may_have_siblings() {
            all.filter(|other| other.metric == route.metric && other.may_have_siblings()).collect()
        } else {
            all.take(1).collect()
        }
    }
}

impl State {
    /// Returns a route's legs: its own, or those from its nexthop object.
    pub(super) fn legs_of(&self, route: &Route) -> Vec<Leg> {
        match route.nexthop {
            0 => route.legs.clone(),
            id => self.legs_of_nexthop(id),
        }
    }

    /// Announces the routes of a replaced nexthop object again.
    pub(super) fn announce_routes_of_nexthop(&mut self, id: u32, by: &Request<'_>) {
        for (key, route) in self.routes.with_nexthop(id) {
            let row = self.single_route_row(&key, &route, Action::New);
            self.announce_with(NLM_F_REPLACE, &row, Some(by));
        }
    }

    /// Deletes a nexthop object's routes before the object; announces the IPv6 ones.
    pub(super) fn remove_routes_of_nexthop(&mut self, id: u32) {
        for (key, route) in self.routes.with_nexthop(id) {
            match key.family {
                INET => drop(self.routes.remove(&key, route.origin.id)),
                _ => self.remove_route(&key, &route, None),
            }
        }
    }

    /// Removes one route and announces only it.
    pub(super) fn remove_route(&mut self, key: &Key, route: &Route, by: By<'_, '_>) {
        let row = self.single_route_row(key, route, Action::Del);
        if self.routes.remove(key, route.origin.id).is_some() {
            self.announce(&row, by);
        }
    }

    /// Returns a route's row, for IPv6 with its siblings.
    pub(super) fn route_row(&self, key: &Key, route: &Route, action: Action) -> RawMessage {
        let siblings = self.routes.siblings(key, route);
        if siblings.len() < 2 {
            return self.single_route_row(key, route, action);
        }
        let legs = siblings.iter().flat_map(|sibling| sibling.legs.clone()).collect();
        self.row_with_legs(key, route, legs, action)
    }

    /// Returns a route's row, for IPv6 without its siblings.
    pub(super) fn single_route_row(&self, key: &Key, route: &Route, action: Action) -> RawMessage {
        self.row_with_legs(key, route, self.legs_of(route), action)
    }

    fn row_with_legs(
        &self,
        key: &Key,
        route: &Route,
        legs: Vec<Leg>,
        action: Action,
    ) -> RawMessage {
        let mut attrs = route.attrs.clone();
        let mut kind = route.kind;
        let mut flags = if key.family == INET { route.flags } else { 0 };
        if route.nexthop != 0 {
            attrs.set_u32(RTA_NH_ID, route.nexthop);
            if self.is_blackhole(route.nexthop) {
                kind = RTN_BLACKHOLE;
            }
        }
        // IPv6 shows a group as multipath, even with one member.
        let is_group = key.family == INET6 && self.is_group(route.nexthop);
        match &legs[..] {
            [leg] if !is_group => {
                flags = leg.flags & SHOWN;
                attrs.add(&leg.bag(key.family));
                if leg.device != 0 {
                    attrs.set_u32(RTA_OIF, leg.device);
                }
            }
            legs => attrs.set(RTA_MULTIPATH, multipath(key.family, legs)),
        }
        attrs.set_u32(RTA_TABLE, key.table);
        let width = width(key.family);
        for (number, prefix) in [(RTA_DST, key.dst), (RTA_SRC, key.src)] {
            if prefix.length != 0 {
                attrs.set(number, &prefix.address[..width]);
            }
        }
        if key.family == INET6 || route.metric != 0 {
            attrs.set_u32(RTA_PRIORITY, route.metric);
        }
        if key.family == INET6 {
            // In hundredths of a second.
            let left = attrs.u32(RTA_EXPIRES).unwrap_or(0).saturating_mul(100);
            let mut cache = [0; 32];
            cache[8..12].copy_from_slice(&left.to_ne_bytes());
            attrs.set(RTA_CACHEINFO, cache);
            attrs.remove(&[RTA_EXPIRES]);
            let preference = attrs.u8(RTA_PREF).filter(|one| matches!(one, 1 | 3));
            attrs.set(RTA_PREF, [preference.unwrap_or(0)]);
        }
        let mut header = vec![key.family, key.dst.length, key.src.length, route.tos];
        let table = u8::try_from(key.table).unwrap_or(TABLE_COMPAT);
        header.extend([table, route.protocol, route.scope, kind]);
        header.extend(u32::from(flags).to_ne_bytes());
        attrs.row(Kind::Route, action, header)
    }

    /// Returns true if a routing table exists; if not, a dump of it is refused.
    pub(super) fn has_table(&self, family: u8, table: u32) -> bool {
        matches!(table, 254 | 255) || self.routes.tables.contains(&(family, table))
    }

    pub(super) fn each_route(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for (key, list) in &self.routes.all {
            for route in list {
                add(self.single_route_row(key, route, Action::New), route.origin);
            }
        }
    }
}
