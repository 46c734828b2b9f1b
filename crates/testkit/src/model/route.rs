//! Routes of both families: what they are, how a request states one, and how they are shown.

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Action, Kind, RawMessage, u16_at, u32_at};

use super::bag::{Bag, Ip, Prefix, ip, width};
use super::numbers::*;
use super::request::Request;
use super::{By, Origin, State};

pub(super) const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
pub(super) const RTA_PREFSRC: u16 = 7;
pub(super) const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_PREF: u16 = 20;
pub(super) const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;
/// Attributes that are no part of the bag: the key, and the way out.
const TAKEN: [u16; 11] = [
    RTA_DST,
    RTA_SRC,
    RTA_IIF,
    RTA_OIF,
    RTA_GATEWAY,
    RTA_PRIORITY,
    RTA_MULTIPATH,
    RTA_TABLE,
    RTA_VIA,
    RTA_NH_ID,
    RTA_CACHEINFO,
];

pub(super) const RTNH_F_DEAD: u8 = 1;
pub(super) const RTNH_F_ONLINK: u8 = 4;
pub(super) const RTNH_F_LINKDOWN: u8 = 16;
/// Dead, offloaded, link down, trapped: the state of a way out.
pub(super) const RTNH_STATE: u8 = RTNH_F_DEAD | 8 | RTNH_F_LINKDOWN | 64;

/// All routes.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    /// The routes of each key, in the kernel's order: falling TOS, rising metric.
    pub(super) all: BTreeMap<Key, Vec<Route>>,
    /// The tables that exist. They come with the first request that names them, and never go.
    pub(super) tables: BTreeSet<(u8, u32)>,
    /// `net.ipv6.route.skip_notify_on_dev_down`: what a link takes along is not announced.
    pub(super) go_silently: bool,
}

/// Where a route stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) family: u8,
    pub(super) table: u32,
    pub(super) dst: Prefix,
    /// `RTA_SRC`, of IPv6 alone.
    pub(super) src: Prefix,
}

impl Key {
    pub(super) fn new(family: u8, table: u32, dst: Prefix) -> Self {
        Self {
            family,
            table,
            dst,
            src: Prefix::default(),
        }
    }
}

/// One route. Those of one IPv6 multipath route are routes of their own, side by side.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    pub(super) origin: Origin,
    pub(super) tos: u8,
    pub(super) protocol: u8,
    pub(super) scope: u8,
    /// `RTN_*`.
    pub(super) kind: u8,
    pub(super) metric: u32,
    /// `RTNH_F_*` of an IPv4 route as a whole.
    pub(super) flags: u8,
    /// All other attributes.
    pub(super) attrs: Bag,
    /// The ways out; none with a nexthop object.
    pub(super) legs: Vec<Leg>,
    /// The nexthop object; 0 is none.
    pub(super) nexthop: u32,
}

/// One way out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) device: u32,
    pub(super) gateway: Option<Gateway>,
    /// `RTNH_F_*`.
    pub(super) flags: u8,
    pub(super) scope: u8,
    pub(super) weight: u16,
    pub(super) attrs: Bag,
}

/// An address that a way out leads to beyond its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gateway {
    pub(super) family: u8,
    pub(super) ip: Ip,
}

impl Gateway {
    /// Reads `RTA_VIA` or `RTA_GATEWAY`. An IPv4 gateway of zeros is none.
    pub(super) fn read(family: u8, attrs: &Bag) -> Option<Self> {
        let (family, payload) = match attrs.get(RTA_VIA) {
            Some(via) => (u16_at(via.get(..2)?, 0) as u8, via.get(2..)?),
            None => (family, attrs.get(RTA_GATEWAY)?),
        };
        Self::of(family, ip(payload))
    }

    pub(super) fn of(family: u8, ip: Ip) -> Option<Self> {
        (family != INET || ip != [0; 16]).then_some(Self { family, ip })
    }

    fn put(&self, family: u8, attrs: &mut Bag) {
        let ip = &self.ip[..width(self.family)];
        match self.family == family {
            true => attrs.set(RTA_GATEWAY, ip),
            false => attrs.set(
                RTA_VIA,
                [&u16::from(self.family).to_ne_bytes(), ip].concat(),
            ),
        }
    }
}

impl Leg {
    pub(super) fn to_device(device: u32) -> Self {
        Self {
            device,
            weight: 1,
            ..Self::default()
        }
    }

    /// Reads the way out of a request without `RTA_MULTIPATH`.
    fn read(family: u8, flags: u8, attrs: &Bag) -> Self {
        Self {
            gateway: Gateway::read(family, attrs),
            flags,
            ..Self::to_device(attrs.u32(RTA_OIF).unwrap_or(0))
        }
    }

    /// Reads `RTA_MULTIPATH`, up to the first `struct rtnexthop` that does not fit; `common` is what
    /// all have in common.
    fn read_hops(family: u8, common: &Self, mut rest: &[u8]) -> Vec<Self> {
        let mut legs = Vec::new();
        while let Some((fixed, _)) = rest.split_at_checked(8)
            && let Some(inner) = rest.get(8..usize::from(u16_at(fixed, 0)))
        {
            let mut leg = Self {
                flags: fixed[2],
                weight: u16::from(fixed[3]) + 1,
                attrs: Bag::read(inner),
                ..Self::to_device(u32_at(fixed, 4))
            };
            leg.gateway = Gateway::read(family, &leg.attrs);
            leg.attrs.remove(&[RTA_GATEWAY, RTA_VIA]);
            if family == INET6 {
                if leg.device == 0 {
                    leg.device = common.device;
                }
                leg.gateway = leg.gateway.or(common.gateway);
                leg.flags |= common.flags & RTNH_F_ONLINK;
            }
            legs.push(leg);
            let next = (8 + inner.len()).next_multiple_of(4);
            rest = rest.get(next..).unwrap_or(&[]);
        }
        legs
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// True if both lead the same way, whatever their state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.flags ^ other.flags) & !RTNH_STATE == 0
            && (self.device, self.gateway, self.scope, self.weight)
                == (other.device, other.gateway, other.scope, other.weight)
            && self.attrs == other.attrs
    }

    /// The attributes, without the device.
    fn bag(&self, family: u8) -> Bag {
        let mut attrs = self.attrs.clone();
        if let Some(gateway) = self.gateway {
            gateway.put(family, &mut attrs);
        }
        attrs
    }
}

/// The flags of a way out that are shown.
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

/// A route as a request states it: its ways out are not checked.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) key: Key,
    pub(super) route: Route,
    pub(super) is_multipath: bool,
}

impl Wanted {
    /// Reads a request.
    pub(super) fn read(request: &Request<'_>) -> Self {
        let attrs = &request.attrs;
        let (header, family) = (request.header, request.family());
        let prefix = |number, length| {
            let address = attrs.get(number).map(ip).unwrap_or_default();
            Prefix::new(address, length)
        };
        let table = attrs.u32(RTA_TABLE).unwrap_or(header[4].into());
        let key = Key {
            family,
            table: if table == 0 { TABLE_MAIN } else { table },
            dst: prefix(RTA_DST, header[1]),
            src: prefix(RTA_SRC, header[2]),
        };
        let nexthop = attrs.u32(RTA_NH_ID).unwrap_or(0);
        let mut legs = vec![Leg::read(family, header[8], attrs)];
        if nexthop != 0 || attrs.has(RTA_MULTIPATH) {
            let hops = attrs.get(RTA_MULTIPATH).unwrap_or(&[]);
            legs = Leg::read_hops(family, &legs[0], hops);
        }
        let mut bag = attrs.clone();
        bag.remove(&TAKEN);
        bag.remove_zeros(&[RTA_PREFSRC]);
        if bag.u32(RTA_EXPIRES) == Some(u32::MAX) {
            bag.remove(&[RTA_EXPIRES]);
        }
        if let Some(mut metrics) = bag.nested(RTA_METRICS) {
            let numbers: Vec<_> = metrics.numbers().collect();
            metrics.remove_zeros(&numbers);
            bag.set(RTA_METRICS, metrics.bytes());
            bag.remove_zeros(&[RTA_METRICS]);
        }
        let is_v4 = family == INET;
        Self {
            key,
            route: Route {
                origin: Origin::default(),
                tos: header[3],
                protocol: header[5],
                scope: if is_v4 { header[6] } else { 0 },
                kind: header[7],
                metric: attrs.u32(RTA_PRIORITY).unwrap_or(0),
                flags: if is_v4 { header[8] & RTNH_F_ONLINK } else { 0 },
                attrs: bag,
                legs,
                nexthop,
            },
            is_multipath: attrs.has(RTA_MULTIPATH),
        }
    }
}

impl Route {
    pub(super) fn prefsrc(&self) -> Option<Ip> {
        self.attrs.get(RTA_PREFSRC).map(ip)
    }

    /// A route of IPv6 with a gateway of its own becomes a sibling of others
    /// (`rt6_qualify_for_ecmp`).
    pub(super) fn may_have_siblings(&self) -> bool {
        self.legs.first().is_some_and(|leg| leg.gateway.is_some())
    }

    /// True if it has a way out over the device.
    pub(super) fn is_over(&self, device: u32) -> bool {
        self.legs.iter().any(|leg| leg.device == device)
    }
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
        let of = self
            .all
            .iter_mut()
            .filter(move |(key, _)| key.family == family);
        of.flat_map(|(_, list)| list.iter_mut())
    }

    /// The routes for which something holds.
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

    /// Takes one route out.
    pub(super) fn remove(&mut self, key: &Key, id: u64) -> Option<Route> {
        let list = self.all.get_mut(key)?;
        let at = list.iter().position(|route| route.origin.id == id)?;
        let route = list.remove(at);
        if list.is_empty() {
            self.all.remove(key);
        }
        Some(route)
    }

    /// A route of IPv6 and its siblings, beginning with itself and going round.
    pub(super) fn siblings(&self, key: &Key, route: &Route) -> Vec<&Route> {
        let list = self.at(key);
        let at = list
            .iter()
            .position(|other| other.origin.id == route.origin.id);
        let (before, after) = list.split_at(at.unwrap_or(0));
        let all = after.iter().chain(before);
        match key.family == INET6 && route.may_have_siblings() {
            false => all.take(1).collect(),
            true => all
                .filter(|other| other.metric == route.metric && other.may_have_siblings())
                .collect(),
        }
    }
}

impl State {
    /// The ways out of a route: its own, or those of its nexthop object.
    pub(super) fn legs_of(&self, route: &Route) -> Vec<Leg> {
        match route.nexthop {
            0 => route.legs.clone(),
            id => self.legs_of_nexthop(id),
        }
    }

    /// The routes of a nexthop object that was replaced are announced anew.
    pub(super) fn announce_routes_of_nexthop(&mut self, id: u32, by: &Request<'_>) {
        for (key, route) in self.routes.with_nexthop(id) {
            let row = self.single_route_row(&key, &route, Action::New);
            self.announce_with(NLM_F_REPLACE, &row, Some(by));
        }
    }

    /// The routes of a nexthop object go before it does; those of IPv6 are announced.
    pub(super) fn remove_routes_of_nexthop(&mut self, id: u32) {
        for (key, route) in self.routes.with_nexthop(id) {
            match key.family {
                INET => drop(self.routes.remove(&key, route.origin.id)),
                _ => self.remove_route(&key, &route, None),
            }
        }
    }

    /// Takes one route out and announces it alone.
    pub(super) fn remove_route(&mut self, key: &Key, route: &Route, by: By<'_, '_>) {
        let row = self.single_route_row(key, route, Action::Del);
        if self.routes.remove(key, route.origin.id).is_some() {
            self.announce(&row, by);
        }
    }

    /// A route as it is shown, for IPv6 with its siblings.
    pub(super) fn route_row(&self, key: &Key, route: &Route, action: Action) -> RawMessage {
        let siblings = self.routes.siblings(key, route);
        if siblings.len() < 2 {
            return self.single_route_row(key, route, action);
        }
        let legs = siblings
            .iter()
            .flat_map(|sibling| sibling.legs.clone())
            .collect();
        self.row_with_legs(key, route, legs, action)
    }

    /// A route alone.
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
        // IPv6 shows a group as one even with one member.
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
            // Hundredths of seconds.
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

/// The metrics of a route as a bag.
pub(super) fn metrics(route: &Route) -> Bag {
    route.attrs.nested(RTA_METRICS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_end_at_the_first_that_does_not_fit() {
        let two = [8, 0, 1, 2, 5, 0, 0, 0, 12, 0, 0, 0, 6, 0, 0, 0, 4, 0, 7, 0];
        let read = |bytes| {
            let legs = Leg::read_hops(INET, &Leg::default(), bytes);
            legs.iter().map(|leg| leg.device).collect::<Vec<_>>()
        };
        assert_eq!(read(&two[..]), [5, 6]);
        assert_eq!(read(&two[..19]), [5]);
        assert_eq!(read(&[0; 8]), Vec::<u32>::new());
    }
}
