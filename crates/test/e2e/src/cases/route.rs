//! Desired routes, by number.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnetwork::IpNetwork;
use trueup_net::{
    Address, AddressFlags, FOREVER, Family, IfName, Link, Metric, NextHop, NextHops, Prefix, Route,
    RouteType,
};

use super::author::{DEVICES, TABLES, ip, up};
use super::spec::{HopSpec, RouteSpec};
use crate::desired::name;

fn dst(v6: bool, number: u8) -> Prefix {
    let text = match (v6, number) {
        (false, 0) => "0.0.0.0/0".to_owned(),
        (false, 1) => "10.50.0.0/16".to_owned(),
        (false, n) => format!("10.50.{n}.0/24"),
        (true, 0) => "::/0".to_owned(),
        (true, 1) => "fd50::/32".to_owned(),
        (true, n) => format!("fd50:{n}::/48"),
    };
    text.parse().unwrap()
}

/// Returns true if an address makes a gateway reachable on a device.
fn reaches(
    held: &[Address<IfName>],
    links: &[Link<IfName>],
    dev: Option<&str>,
    gateway: IpAddr,
) -> bool {
    let serves = |address: &Address<IfName>| {
        let here = dev.is_none_or(|dev| address.dev == name(dev));
        // The first address of a subnet determines if there is a route to it.
        let route = !held.iter().any(|other| {
            (other.dev, other.subnet()) == (address.dev, address.subnet())
                && other.flags.contains(AddressFlags::NOPREFIXROUTE)
        });
        // An IPv6 address with a finite lifetime, added while the link is down, never has a route
        // to its subnet.
        let lasts = address.family() == Family::Inet || address.lifetimes.valid == FOREVER;
        let is_up = up(links, &address.dev.to_string());
        here && route && lasts && is_up && address.subnet().contains(gateway)
    };
    let foreign =
        IpNetwork::new(ip(gateway.is_ipv6(), 3, 200), if gateway.is_ipv6() { 64 } else { 24 });
    held.iter().any(serves)
        || (dev.is_none_or(|dev| dev == "ext0") && foreign.unwrap().contains(gateway))
}

fn hop(spec: &HopSpec, v6: bool, many: bool) -> NextHop<IfName> {
    let dev = name(DEVICES[spec.dev]);
    let mut hop = match spec.how {
        0 | 1 if !many => return NextHop::dev(dev),
        2 if !v6 => NextHop::via(ip(true, spec.subnet, 90 + spec.host)).with_dev(dev),
        3 if v6 => {
            return NextHop::via("fe80::9".parse().unwrap())
                .with_dev(dev)
                .with_weight(u16::from(spec.weight) + 1);
        }
        _ => NextHop::via(ip(v6, spec.subnet, 90 + spec.host)),
    };
    if spec.named || spec.onlink {
        hop = hop.with_dev(dev);
    }
    hop.onlink = spec.onlink;
    if many {
        hop = hop.with_weight(u16::from(spec.weight) + 1);
    }
    hop
}

/// Returns a route, or `None` if its devices are missing; in a clean case, also if the kernel would
/// refuse it.
pub(crate) fn route(
    spec: &RouteSpec,
    devices: &BTreeSet<String>,
    links: &[Link<IfName>],
    held: &[Address<IfName>],
    clean: bool,
) -> Option<Route<IfName>> {
    let kind = match spec.kind {
        0 => RouteType::Blackhole,
        1 => RouteType::Unreachable,
        2 => RouteType::Prohibit,
        3 => RouteType::Throw,
        4 => RouteType::Local,
        _ => RouteType::Unicast,
    };
    let dst = dst(spec.v6, spec.dst);
    let nexthops = match kind {
        // Under a local route, gateways on link are local, even while the route is about to go.
        RouteType::Local if clean && dst.len() < 24 => return None,
        RouteType::Local => NextHops::One(NextHop::dev(name("lo"))),
        kind if kind.is_reject() => NextHops::None,
        _ => {
            let many = spec.hops.len() > 1;
            let mut hops: Vec<_> = spec.hops.iter().map(|one| hop(one, spec.v6, many)).collect();
            hops.dedup_by_key(|hop| (hop.via, hop.dev));
            let possible = |hop: &NextHop<IfName>| {
                let dev = hop.dev.map(|dev| dev.to_string());
                if dev.as_ref().is_some_and(|dev| !devices.contains(dev)) {
                    return false;
                }
                let Some(via) = hop.via.filter(|_| clean) else {
                    return !clean || up(links, dev.as_deref().unwrap_or_default());
                };
                let raised = dev.as_ref().is_none_or(|dev| up(links, dev));
                let local = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
                // The kernel refuses an IPv6 gateway on link while a longer prefix has it on
                // another device, even if that prefix's address is about to go.
                let elsewhere = hop.onlink && via.is_ipv6() && !local;
                let reached = hop.onlink || local || reaches(held, links, dev.as_deref(), via);
                raised && reached && !elsewhere
            };
            hops.retain(possible);
            // IPv6 treats a repeated gateway as one next hop.
            let mut seen = BTreeSet::new();
            hops.retain(|hop| seen.insert(hop.via));
            match hops.len() {
                0 => return None,
                1 => NextHops::One(hops.remove(0).with_weight(1)),
                _ => NextHops::Many(hops),
            }
        }
    };
    // IPv6 looks for gateways in the route's own table first, and would find such a route.
    let catches = nexthops.as_slice().iter().any(|hop| hop.via.is_none());
    if clean && dst.is_default() && spec.v6 && catches {
        return None;
    }
    let mut route = Route::new(dst, nexthops);
    route.kind = kind;
    route.table = TABLES[usize::from(spec.table)];
    route.metric = [0, 100, 1024, 0][usize::from(spec.metric)];
    route.tos = if spec.tos && !spec.v6 { 16 } else { 0 };
    route.from = (spec.from && spec.v6).then(|| "fd60::/48".parse().unwrap());
    if spec.metrics & 6 == 6 && kind == RouteType::Unicast {
        route.metrics.set(Metric::Mtu, 1300 + u32::from(spec.metrics & 1));
        route.metrics.set(Metric::AdvMss, 1200);
    }
    if spec.src < 4 && kind == RouteType::Unicast {
        let src = ip(spec.v6, spec.src, 1);
        let local = held.iter().any(|address| {
            address.address.ip() == src
                && up(links, &address.dev.to_string())
                // Without the flag, the address is tentative for a moment.
                && (!spec.v6 || address.flags.contains(AddressFlags::NODAD))
        });
        if !clean || local {
            route.src = Some(src);
        }
    }
    Some(route)
}
