//! Finds routes that the kernel makes from router advertisements.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv6Addr};

use trueup_net::{Family, NextHop, NextHops, ObjectKind as _, Protocols, Route, RouteKey};

use crate::observer::Observer;

/// The routes of the calling thread's namespace. Netlink does not report their flags.
const ROUTES: &str = "/proc/thread-self/net/ipv6_route";

/// `RTF_ADDRCONF`
const RTF_ADDRCONF: u32 = 0x4_0000;

impl Observer {
    /// Returns the keys of `routes` on which the kernel made every route with protocol `ra`.
    /// Daemons that receive router advertisements themselves use the same protocol, but their
    /// routes merge with others on the same key.
    ///
    /// Reads all IPv6 routes from `/proc/net/ipv6_route`. If the file is missing, the result is
    /// empty.
    pub fn advertised<'r>(
        &self,
        routes: impl IntoIterator<Item = &'r Route>,
    ) -> BTreeSet<RouteKey> {
        let routes: Vec<&Route> = routes
            .into_iter()
            .filter(|route| route.family() == Family::Inet6)
            .filter(|route| route.protocol == Protocols::ROUTER_ADVERTISEMENT)
            .collect();
        if routes.is_empty() {
            return BTreeSet::new();
        }
        let wanted: BTreeSet<Row> = routes.iter().filter_map(|route| Row::of(route)).collect();
        let read = self.namespace.enter(|| read_made(&wanted));
        let made = read.ok().flatten().unwrap_or_default();
        let others: BTreeSet<RouteKey> = routes
            .iter()
            .filter(|route| !Row::of(route).is_some_and(|row| made.contains(&row)))
            .map(|route| route.key())
            .collect();
        routes.iter().map(|route| route.key()).filter(|key| !others.contains(key)).collect()
    }
}

/// The part of a row of `/proc/net/ipv6_route` that identifies a route. It contains no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    dst: Ipv6Addr,
    len: u8,
    gateway: Ipv6Addr,
    metric: u32,
}

impl Row {
    fn of(route: &Route) -> Option<Row> {
        let NextHops::One(NextHop { via, .. }) = &route.nexthops else {
            return None;
        };
        let (IpAddr::V6(dst), gateway) = (route.dst.address(), via.unwrap_or(IpAddr::V6(NONE)))
        else {
            return None;
        };
        let IpAddr::V6(gateway) = gateway else {
            return None;
        };
        Some(Row { dst, len: route.dst.len(), gateway, metric: route.metric })
    }

    /// Parses a row with its flags: destination, length, source, its length, gateway, metric,
    /// number of references, of uses, flags, device (`rt6_info_route` in net/ipv6/route.c).
    fn parse(line: &str) -> Option<(Row, u32)> {
        let mut words = line.split_ascii_whitespace();
        let mut word = |at| words.nth(at);
        let dst = address(word(0)?)?;
        let len = u8::from_str_radix(word(0)?, 16).ok()?;
        let gateway = address(word(2)?)?;
        let metric = u32::from_str_radix(word(0)?, 16).ok()?;
        let flags = u32::from_str_radix(word(2)?, 16).ok()?;
        let row = Row { dst, len, gateway, metric };
        Some((row, flags))
    }
}

const NONE: Ipv6Addr = Ipv6Addr::UNSPECIFIED;

fn address(digits: &str) -> Option<Ipv6Addr> {
    Some(u128::from_str_radix(digits, 16).ok()?.into())
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel's")]
fn open() -> Option<File> {
    File::open(ROUTES).ok()
}

/// Returns the wanted rows made by the kernel from router advertisements, without those that a
/// writer also made in another table. `None` if they cannot be read.
fn read_made(wanted: &BTreeSet<Row>) -> Option<BTreeSet<Row>> {
    let mut lines = BufReader::new(open()?);
    let (mut made, mut written) = (BTreeSet::new(), BTreeSet::new());
    let mut line = String::new();
    while lines.read_line(&mut line).ok()? > 0 {
        if let Some((row, flags)) = Row::parse(&line).filter(|(row, _)| wanted.contains(row)) {
            match flags & RTF_ADDRCONF {
                0 => written.insert(row),
                _ => made.insert(row),
            };
        }
        line.clear();
    }
    made.retain(|row| !written.contains(row));
    Some(made)
}

#[cfg(test)]
mod tests;
