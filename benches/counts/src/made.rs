//! Generated routes, the same each time, and the kernel's dump of them.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trueup_diff::{Diff, Duplicate};
use trueup_net::internal::{DumpMatcher, PlainRoute, Tracker};
use trueup_net::{
    Desired, Dev, Devices, Family, IfName, Kind, NextHop, NextHops, Observed, Owned, Plan, Prefix,
    Route, RouteKey, RouteType, Routes, plan, table,
};
use trueup_netlink::codec::route::{self, Row};
use trueup_netlink::wire::{MessageWriter, Messages, NLM_F_MULTI};

/// The protocol of the routes.
pub(crate) const MARKER: u8 = 116;
/// The index of the interface towards all gateways.
pub(crate) const DEV: u32 = 2;
/// The number of gateways, over which the routes are spread.
const GATEWAYS: usize = 64;

/// Returns `count` prefixes, ascending: /24 from 16.0.0.0 on, at most 13,631,488 before multicast;
/// /48 from 2a00:: on.
pub(crate) fn prefixes(family: Family, count: usize) -> impl Iterator<Item = Prefix> {
    (0..count).filter_map(move |at| prefix(family, at))
}

fn prefix(family: Family, at: usize) -> Option<Prefix> {
    let (address, length) = match family {
        Family::Inet => {
            let address = (16 << 24) + ((at as u32) << 8);
            (IpAddr::V4(Ipv4Addr::from(address)), 24)
        }
        Family::Inet6 => {
            let address = (0x2a00 << 112) + ((at as u128) << 80);
            (IpAddr::V6(Ipv6Addr::from(address)), 48)
        }
    };
    Prefix::new(address, length).ok()
}

fn gateway(family: Family, at: usize) -> IpAddr {
    // A golden-ratio stride: neighbours in the table have distant gateways.
    let number = 2 + (at.wrapping_mul(0x9E37_79B9) >> 7) % GATEWAYS;
    match family {
        Family::Inet => IpAddr::V4(Ipv4Addr::new(10, 200, 0, number as u8)),
        Family::Inet6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, number as u16)),
    }
}

/// Returns a route to each prefix as the kernel reports it, in its order.
pub(crate) fn routes(family: Family, count: usize) -> Vec<Route> {
    let routes = prefixes(family, count).enumerate().map(|(at, prefix)| {
        let hop = NextHop::via(gateway(family, at)).with_dev(Dev::index(DEV));
        let mut route = Route::new(prefix, NextHops::One(hop)).canonical();
        route.protocol = MARKER;
        route
    });
    routes.collect()
}

/// Returns a route's parts outside its key, for a diff.
pub(crate) fn value(route: &Route) -> (RouteType, &NextHops) {
    (route.kind, &route.nexthops)
}

/// Returns the diff of items by their values; all items are ours.
pub(crate) fn two_way<'a, T, K: Ord, V: PartialEq>(
    desired: &'a [T],
    observed: &'a [T],
    key: impl Fn(&'a T) -> K,
    value: impl Fn(&'a T) -> V,
) -> Result<Diff<'a, T>, Duplicate> {
    trueup_diff::two_way(
        desired,
        observed,
        &key,
        &key,
        |desired, observed| value(desired) == value(observed),
        |_| true,
    )
}

/// Returns the same elements, each far from its place, and in the same order each time.
pub(crate) fn shuffled<T: Clone>(items: &[T]) -> Vec<T> {
    let count = items.len();
    // Coprime to the sizes in use, which are powers of ten.
    const STRIDE: usize = 618_033_989;
    (0..count).map(|at| items[at * STRIDE % count].clone()).collect()
}

/// Returns the same routes as desired: the gateway determines the device.
pub(crate) fn wanted(family: Family, count: usize) -> impl Iterator<Item = Route<IfName>> {
    let prefixes = prefixes(family, count).enumerate();
    prefixes.map(move |(at, prefix)| {
        let hop = NextHop::via(gateway(family, at));
        Route::new(prefix, NextHops::One(hop))
    })
}

/// Returns a desired state with only these routes.
pub(crate) fn desired(family: Family, count: usize) -> Desired {
    Desired::default().with_routes(wanted(family, count).collect::<Routes>())
}

/// Returns an observation with only these routes.
pub(crate) fn observed(routes: Vec<Route>) -> Observed {
    Observed::default().with_routes(routes).with_complete([Kind::Route].into_iter().collect())
}

/// Returns the messages of a dump of these routes, without its end, in one piece.
///
/// The attributes are those from `fib_dump_info` and `rt6_fill_node` for a route through one
/// gateway, in their order.
pub(crate) fn dump(routes: &[Route]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for route in routes {
        let NextHops::One(hop) = &route.nexthops else {
            continue;
        };
        let family: u8 = match route.family() {
            Family::Inet => 2,
            Family::Inet6 => 10,
        };
        let mut message = MessageWriter::begin(&mut bytes, route::NEW, NLM_F_MULTI);
        let unicast = 1;
        let scope = route.scope.map_or(0, |scope| scope.0);
        let table = table::MAIN as u8;
        let protocol = route.protocol;
        let length = route.dst.len();
        message.body(&[family, length, 0, 0, table, protocol, scope, unicast, 0, 0, 0, 0]);
        message.attr_u32(15, route.table); // RTA_TABLE
        message.attr_ip(1, route.dst.address()); // RTA_DST
        if route.metric != 0 {
            message.attr_u32(6, route.metric); // RTA_PRIORITY
        }
        if let Some(via) = hop.via {
            message.attr_ip(5, via); // RTA_GATEWAY
        }
        message.attr_u32(4, DEV); // RTA_OIF
        if family == 10 {
            message.attr(12, &[0; 32]); // RTA_CACHEINFO
            message.attr_u8(20, 0); // RTA_PREF
        }
        if message.finish().is_err() {
            continue;
        }
    }
    bytes
}

/// Returns a matcher for dumps of desired routes.
pub(crate) fn matcher(wanted: &Routes) -> DumpMatcher<'_> {
    DumpMatcher::new(wanted, &Devices::default(), MARKER)
}

/// Matches a dump, and returns the number of rows in sync.
pub(crate) fn match_dump(matcher: &mut DumpMatcher<'_>, family: Family, dump: &[u8]) -> usize {
    match_rows(matcher, family, rows(dump))
}

/// Does the same with parsed rows: the diff alone.
pub(crate) fn match_rows(
    matcher: &mut DumpMatcher<'_>,
    family: Family,
    rows: impl IntoIterator<Item = PlainRoute>,
) -> usize {
    matcher.begin(family);
    let (mut matched, mut kept) = (0, Vec::new());
    for row in rows {
        matched += usize::from(matcher.match_row(Some(&row), || row.to_route(), &mut kept));
    }
    // The list of mismatches, empty here, is part of the work.
    matcher.end(family, None);
    black_box(matcher.settle(true));
    matched
}

/// Returns the rows of a dump, in the matcher's form.
#[inline]
pub(crate) fn rows(dump: &[u8]) -> impl Iterator<Item = PlainRoute> + '_ {
    Messages::new(dump).filter_map(|message| match Row::parse(message.body) {
        Ok(Some(row)) => row.plain().copied(),
        _ => None,
    })
}

/// Routes that change their gateway one at a time, as in a loop between two full passes.
#[derive(Debug)]
pub(crate) struct Changing {
    routes: Routes,
    tracker: Tracker,
    count: usize,
    changes: usize,
}

impl Changing {
    /// Makes `count` IPv4 routes, all in place.
    pub(crate) fn new(count: usize) -> Changing {
        let routes: Routes = wanted(Family::Inet, count).collect();
        Changing { tracker: Tracker::in_sync(&routes), routes, count, changes: 0 }
    }

    /// Changes the next route's gateway, makes the plan for it, and treats it as executed. Returns
    /// `None` if the plan could not be made.
    pub(crate) fn change(&mut self) -> Option<Plan> {
        self.changes += 1;
        let at = self.changes % self.count;
        let prefix = prefix(Family::Inet, at)?;
        let hop = NextHop::via(gateway(Family::Inet, at + self.changes));
        self.routes.insert(Route::new(prefix, NextHops::One(hop)));
        if !self.tracker.follow(&self.routes, &Devices::default(), MARKER) {
            return None;
        }
        let (wanted, there) = self.tracker.partial_input(&self.routes);
        let keys: Vec<RouteKey> = wanted.keys().collect();
        let desired = Desired::default().with_routes(wanted);
        let plan = plan(&desired, &observed(there), &Owned::default(), MARKER).ok()?;
        keys.iter().for_each(|key| self.tracker.states.mark_in_sync(key));
        Some(plan)
    }
}
