//! Checks if the routes that the kernel makes for an address still exist.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trueup_net::{
    Address, AddressFlags, Dev, DuplicateDetection, Family, Kind, Kinds, LostRoutes, NextHop,
    NextHops, Observed, Prefix, Route, RouteType,
};
use trueup_netlink::Error;
use trueup_netlink::codec::ReadScope;

use crate::observer::Observer;

/// `RTPROT_KERNEL`.
const KERNEL: u8 = 2;

impl Observer {
    /// Reads the kernel's routes, and marks the addresses that have lost theirs. This takes one
    /// dump, filtered in the kernel, and a dump of all routes only if one is missing.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn mark_lost_routes(&mut self, observed: &mut Observed) -> Result<(), Error> {
        // Without a carrier the kernel makes no IPv6 routes.
        let running: BTreeSet<Dev> = observed
            .links
            .iter()
            .filter(|link| {
                let status = observed.link_status.get(&link.index);
                link.up == Some(true) && status.is_none_or(|status| status.running)
            })
            .map(|link| Dev::index(link.index))
            .collect();
        let scope = ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Route));
        let kernels = scope.clone().with_protocol(KERNEL);
        let there = self.address_routes(&kernels)?;
        let mut lost: Vec<&mut Address> = observed
            .addresses
            .iter_mut()
            .filter(|it| running.contains(&it.dev) && it.duplicates == DuplicateDetection::Passed)
            .filter(|address| there.lost(address) != LostRoutes::None)
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        // Another writer's route may have taken their place.
        let there = self.address_routes(&scope)?;
        for address in &mut lost {
            address.lost = there.lost(address);
        }
        Ok(())
    }

    fn address_routes(&mut self, scope: &ReadScope) -> Result<AddressRoutes, Error> {
        let mut there = AddressRoutes::default();
        let _incomplete = self.routes_where(scope, |route| {
            there.add(route);
            false
        })?;
        Ok(there)
    }
}

/// The routes straight out of a device, and the routes that make an address local.
#[derive(Debug, Default)]
struct AddressRoutes {
    subnets: BTreeSet<(Dev, Prefix)>,
    locals: BTreeSet<IpAddr>,
}

impl AddressRoutes {
    fn add(&mut self, route: &Route) {
        let NextHops::One(NextHop { via: None, dev, .. }) = &route.nexthops else {
            return;
        };
        match route.kind {
            RouteType::Unicast | RouteType::Local => {
                self.subnets.extend(dev.map(|dev| (dev, route.dst)));
            }
            _ => {}
        }
        if route.kind == RouteType::Local && route.dst.len() == route.family().max_len() {
            self.locals.insert(route.dst.address());
        }
    }

    fn lost(&self, address: &Address) -> LostRoutes {
        // In IPv6 the kernel makes this route, and the one to a peer, late, from a work queue
        // (`addrconf_dad_work`).
        let is_ipv4 = address.family() == Family::Inet;
        if is_ipv4 && !self.locals.contains(&address.address.ip()) {
            return LostRoutes::Local;
        }
        let has_subnet = self.subnets.contains(&(address.dev, address.subnet()));
        if has_subnet || !makes_subnet_route(address) {
            LostRoutes::None
        } else {
            LostRoutes::Subnet
        }
    }
}

/// Returns true if the kernel makes a route to an address's subnet (`fib_add_ifaddr` in
/// net/ipv4/fib_frontend.c, `inet6_addr_add` in net/ipv6/addrconf.c).
fn makes_subnet_route(address: &Address) -> bool {
    if address.flags.contains(AddressFlags::NOPREFIXROUTE) {
        return false;
    }
    let subnet = address.subnet();
    match address.family() {
        Family::Inet => {
            let is_zero = matches!(subnet.address(), IpAddr::V4(ip) if ip.octets()[0] == 0);
            let is_host = subnet.len() == 32 && subnet.address() == address.address.ip();
            !address.secondary && !is_zero && !is_host
        }
        Family::Inet6 => true,
    }
}
