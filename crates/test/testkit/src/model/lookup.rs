//! Lookups in the routing tables: is a gateway reachable, and is an address local?

use super::State;
use super::bag::{Ip, Prefix};
use super::numbers::*;
use super::request::{Refusal, refuse_if};
use super::route::{Key, Leg, Route};

/// The result of a route lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// `RTN_*`.
    pub(super) kind: u8,
    pub(super) scope: u8,
    pub(super) device: u32,
    /// True for an IPv6 route that leads nowhere.
    rejects: bool,
    has_gateway: bool,
    /// The length of the matching prefix.
    length: u8,
}

/// Returns the lookup's errno for a type of route that leads nowhere; `None` for the others.
fn errors(kind: u8) -> Option<i32> {
    match kind {
        6 | 10 | 11 => Some(EINVAL),
        7 => Some(EHOSTUNREACH),
        8 => Some(EACCES),
        9 => Some(EAGAIN),
        _ => None,
    }
}

impl State {
    /// Returns the lists of routes that contain an address, longest prefix first.
    fn holding(&self, family: u8, table: u32, ip: Ip, source: Ip) -> Vec<(&Key, &Vec<Route>)> {
        let bits = if family == INET { 32 } else { 128 };
        // Until the first IPv4 rule is added or deleted, one table serves local and main
        // (`fib_unmerge`).
        let is_merged = family == INET && !self.rules.is_custom4;
        let tables = match table {
            TABLE_MAIN | TABLE_LOCAL if is_merged => vec![TABLE_LOCAL, TABLE_MAIN],
            table => vec![table],
        };
        let mut found = Vec::new();
        let prefixes = (0..=bits).rev().map(|length| Prefix::new(ip, length));
        for (prefix, table) in prefixes.flat_map(|it| tables.iter().map(move |table| (it, *table)))
        {
            let first = Key::new(family, table, prefix);
            let last = Key { src: Prefix { address: [0xff; 16], length: u8::MAX }, ..first };
            let lists = self.routes.all.range(first..=last).rev();
            // Routes with a source prefix hide those without one (`fib6_node_lookup_1`).
            let mut is_hidden = false;
            found.extend(lists.filter(|(key, _)| {
                is_hidden |= key.src.length > 0;
                key.src.holds(source) && !(is_hidden && key.src.length == 0)
            }));
        }
        found
    }

    /// `fib_table_lookup`: considers routes with this scope or a narrower one.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if there is no route; the errno of a route that leads nowhere.
    fn find4(&self, table: u32, ip: Ip, scope: u8, device: u32) -> Result<Found, i32> {
        let lists = self.holding(INET, table, ip, [0; 16]).into_iter();
        for (key, route) in lists.flat_map(|(key, list)| list.iter().map(move |r| (key, r))) {
            if route.tos != 0 || route.scope < scope {
                continue;
            }
            if let Some(errno) = errors(route.kind) {
                return Err(errno);
            }
            if route.flags & RTNH_F_DEAD != 0 {
                continue;
            }
            if self.is_blackhole(route.nexthop) {
                return Err(EINVAL);
            }
            let legs = self.legs_of(route);
            let is_it = |leg: &&Leg| !leg.has(RTNH_F_DEAD) && (device == 0 || leg.device == device);
            if let Some(leg) = legs.iter().find(is_it) {
                return Ok(Found {
                    kind: route.kind,
                    scope: route.scope,
                    device: leg.device,
                    rejects: false,
                    has_gateway: leg.gateway.is_some(),
                    length: key.dst.length,
                });
            }
        }
        Err(EAGAIN)
    }

    /// `fib_check_nh_nongw` and related functions: looks for a gateway in the route's own table,
    /// then by the rules.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` if there is no route; the errno of the rule or route that refuses.
    pub(super) fn find_gateway4(
        &self,
        ip: Ip,
        table: u32,
        scope: u8,
        device: u32,
    ) -> Result<Found, Refusal> {
        if table != TABLE_MAIN
            && table != 0
            && let Ok(found) = self.find4(table, ip, scope, device)
        {
            return Ok(found);
        }
        for step in self.lookup_steps(INET, ip, device) {
            let (table, suppressed) = step?;
            match self.find4(table, ip, scope, device) {
                Ok(found) if i32::from(found.length) > suppressed => return Ok(found),
                Ok(_) | Err(EAGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(ENETUNREACH.into())
    }

    /// `inet_addr_type_table`: returns the type of the route to an IPv4 address.
    pub(super) fn address_kind(&self, ip: Ip, table: u32) -> u8 {
        match ip[..4] {
            [0, 0, 0, 0] | [255, 255, 255, 255] => RTN_BROADCAST,
            _ if !self.has_table(INET, table) => RTN_BROADCAST,
            [224..=239, ..] => RTN_MULTICAST,
            _ => self.find4(table, ip, 0, 0).map_or(RTN_UNICAST, |found| found.kind),
        }
    }

    /// `fib6_table_lookup`: with `is_strict`, considers only routes over the device; without it,
    /// prefers them.
    fn find6(&self, table: u32, ip: Ip, source: Ip, device: u32, is_strict: bool) -> Option<Found> {
        for (key, list) in self.holding(INET6, table, ip, source) {
            let metric = list.first().map_or(0, |route| route.metric);
            let lowest = list.partition_point(|route| route.metric == metric);
            for routes in [&list[..lowest], &list[lowest..]] {
                let found = self.best6(key, routes, device, is_strict);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// `__find_rr_leaf`.
    fn best6(&self, key: &Key, routes: &[Route], device: u32, is_strict: bool) -> Option<Found> {
        let mut best: Option<(u8, Found)> = None;
        for route in routes {
            let is_blackhole = self.is_blackhole(route.nexthop);
            let mut found = Found {
                kind: route.kind,
                scope: 0,
                device: 0,
                rejects: is_blackhole || self.rejects6(key, route),
                has_gateway: false,
                length: key.dst.length,
            };
            if is_blackhole {
                return Some(found);
            }
            for leg in self.legs_of(route) {
                let is_over = device == 0 || leg.device == device;
                let score = u8::from(is_over) << 1 | (route.preference6() ^ 2) << 2;
                let is_better = best.is_none_or(|(most, _)| score > most);
                if !leg.has(RTNH_F_DEAD) && (is_over || !is_strict) && is_better {
                    found.device = leg.device;
                    found.has_gateway = leg.gateway.is_some();
                    best = Some((score, found));
                    break;
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// `ip6_validate_gw`: returns the device towards an IPv6 gateway.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an address that cannot be a gateway, such as a local one; `EHOSTUNREACH` if by
    /// the tables no device has it on its link.
    pub(super) fn gateway_device6(
        &self,
        leg: &Leg,
        ip: Ip,
        table: u32,
        source: Option<Ip>,
    ) -> Result<u32, Refusal> {
        let is_link_local = ip[0] == 0xfe && ip[1] & 0xc0 == 0x80;
        // A link-local address of another local link may be a gateway on this one.
        let is_ours = |device| self.is_own6(ip, is_link_local.then_some(device));
        refuse_if(leg.device != 0 && is_ours(leg.device), EINVAL)?;
        let mut device = leg.device;
        if !is_link_local {
            refuse_if(ip == [0; 16] || ip[0] == 0xff, EINVAL)?;
            let source = source.unwrap_or_default();
            if leg.has(RTNH_F_ONLINK) {
                self.check_onlink6(ip, source, device)?
            } else {
                device = self.device_towards6(ip, source, table, device)?
            }
        }
        match device {
            0 | LOOPBACK => Err(EINVAL.into()),
            _ if leg.device == 0 && is_ours(device) => Err(EINVAL.into()),
            _ => Ok(device),
        }
    }

    /// `ip6_route_check_nh_onlink`: refuses if the main table leads elsewhere, its default route
    /// aside.
    fn check_onlink6(&self, ip: Ip, source: Ip, device: u32) -> Result<(), Refusal> {
        match self.find6(TABLE_MAIN, ip, source, device, false) {
            Some(found)
                if !found.rejects
                    && found.length != 0
                    && (found.kind != RTN_UNICAST || found.device != device) =>
            {
                Err(EINVAL.into())
            }
            _ => Ok(()),
        }
    }

    /// `ip6_route_check_nh`: the gateway needs a route over a device, without a gateway, in the
    /// route's own table or by the rules.
    fn device_towards6(&self, ip: Ip, source: Ip, table: u32, device: u32) -> Result<u32, Refusal> {
        let leads = |found: Found| (!found.rejects && !found.has_gateway).then_some(found.device);
        let is_wanted = |found: &u32| device == 0 || device == *found;
        let own = self.find6(table, ip, source, device, true);
        if let Some(device) = own.and_then(leads).filter(is_wanted) {
            return Ok(device);
        }
        for step in self.lookup_steps(INET6, ip, device) {
            let Ok((table, _)) = step else {
                break;
            };
            // A quirk: no rule suppresses this result.
            if let Some(found) = self.find6(table, ip, [0; 16], device, true) {
                let device = leads(found).filter(is_wanted);
                return device.ok_or(EHOSTUNREACH.into());
            }
        }
        Err(EHOSTUNREACH.into())
    }

    /// `ipv6_chk_addr`: returns true if an address is local. With a device, link-scope addresses
    /// count only on that link; without one, all count.
    pub(super) fn is_own6(&self, ip: Ip, device: Option<u32>) -> bool {
        let mut all = self.addresses6.all.iter();
        all.any(|(index, list)| {
            let is_here =
                |scope: u8| device.is_none_or(|device| device == *index || scope < SCOPE_LINK);
            list.iter().any(|own| own.local == ip && is_here(own.scope))
        })
    }
}
