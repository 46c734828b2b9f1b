//! Desired states of routes and rules, and the same as `ip -batch` files.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, Result};
use ipnetwork::IpNetwork;
use trueup_net::{
    Desired, Family, IfName, NextHop, NextHops, Prefix, Route, Routes, Rule, RuleAction, table,
};
use trueup_rtnl::DEFAULT_PROTOCOL;

use crate::prefixes::Prefixes;

/// Over how many gateways the routes of a family are spread.
pub const GATEWAYS: usize = 64;

/// The priority of the first rule; each that follows has the next.
const FIRST_PRIORITY: u32 = 1_000;

/// Makes the interface that all gateways are behind, in the calling thread's namespace.
pub fn make_uplink() {
    trueup_testkit::uplinks(1);
}

/// The gateway of a prefix, by its place in the table: scattered over all of them, but always the
/// same.
fn gateway(family: Family, at: usize) -> IpAddr {
    // A golden-ratio stride, so that neighbours in the table have gateways far apart.
    let number = 2 + (at.wrapping_mul(0x9E37_79B9) >> 7) % GATEWAYS;
    match family {
        Family::Inet => IpAddr::V4(Ipv4Addr::new(10, 200, 0, number as u8)),
        Family::Inet6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, number as u16)),
    }
}

/// A route by one gateway.
pub(crate) fn route((address, length): (IpAddr, u8), gateway: IpAddr) -> Result<Route<IfName>> {
    let prefix = Prefix::new(address, length).context("a prefix")?;
    Ok(Route::new(prefix, NextHops::One(NextHop::via(gateway))))
}

/// The way over a gateway, with the device, as a nexthop object needs it.
pub(crate) fn hop_out_of_up0(gateway: Ipv4Addr) -> Result<NextHops<IfName>> {
    let hop = NextHop::via(gateway.into());
    Ok(NextHops::One(hop.with_dev(Some("up0".parse()?))))
}

/// The table with the gateway of each prefix.
pub(crate) fn routes(prefixes: &Prefixes) -> impl Iterator<Item = (Prefix, IpAddr)> + '_ {
    prefixes.iter().enumerate().map(|(at, prefix)| (prefix, gateway(prefix.family(), at)))
}

/// The `at`-th rule: of IPv4 and IPv6 in turn, from a source prefix of its own.
fn rule(at: usize) -> (Family, u32, IpNetwork) {
    let priority = FIRST_PRIORITY + (at / 2) as u32;
    let bytes = ((at / 2) as u16).to_be_bytes();
    let (family, source) = if at.is_multiple_of(2) {
        let source = Ipv4Addr::new(10, 201, bytes[0], bytes[1]);
        (Family::Inet, IpAddr::V4(source))
    } else {
        let source = Ipv6Addr::new(0xfd00, 0x201, u16::from_be_bytes(bytes), 0, 0, 0, 0, 1);
        (Family::Inet6, IpAddr::V6(source))
    };
    (family, priority, IpNetwork::from(source))
}

/// The rules, each family's by rising priority.
pub(crate) fn rules(count: usize) -> impl Iterator<Item = Rule> {
    (0..count).map(|at| {
        let (family, priority, from) = rule(at);
        let mut rule = Rule::new(family, priority, RuleAction::Lookup(table::MAIN));
        rule.from = Some(from);
        rule
    })
}

/// A route to each prefix, and rules. A kind of which there are to be none is declared to have
/// none.
pub fn desired(prefixes: &Prefixes, rules: usize) -> Desired {
    let routes =
        routes(prefixes).map(|(prefix, via)| Route::new(prefix, NextHops::One(NextHop::via(via))));
    Desired::default()
        .with_routes(routes.collect::<Routes>())
        .with_rules(self::rules(rules).collect::<Vec<_>>())
}

/// Writes the lines that make `ip -batch` add or delete the same routes and rules, in the order of
/// a plan: rules come last and go first. IPv6 rules go to a file of their own, for `ip -6 -batch`:
/// in a line of a batch there is no saying the family.
///
/// # Errors
///
/// Those of the writers.
pub fn write_batch(
    create: bool,
    prefixes: &Prefixes,
    rules: usize,
    main: &mut impl Write,
    rules_v6: &mut impl Write,
) -> io::Result<()> {
    if create {
        write_routes("add", prefixes, main)?;
        write_rules("add", rules, main, rules_v6)
    } else {
        write_rules("del", rules, main, rules_v6)?;
        write_routes("del", prefixes, main)
    }
}

fn write_routes(verb: &str, prefixes: &Prefixes, to: &mut impl Write) -> io::Result<()> {
    routes(prefixes).try_for_each(|(prefix, via)| {
        writeln!(to, "route {verb} {prefix} via {via} proto {DEFAULT_PROTOCOL}")
    })
}

fn write_rules(
    verb: &str,
    count: usize,
    v4: &mut impl Write,
    v6: &mut impl Write,
) -> io::Result<()> {
    (0..count).map(rule).try_for_each(|(family, priority, from)| {
        let to: &mut dyn Write = match family {
            Family::Inet => v4,
            Family::Inet6 => v6,
        };
        let words = format!("rule {verb} priority {priority} from {from} lookup main");
        writeln!(to, "{words} protocol {DEFAULT_PROTOCOL}")
    })
}
