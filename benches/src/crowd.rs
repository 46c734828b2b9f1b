//! A namespace with few objects of ours among many foreign ones: objects of every kind, in their
//! desired and their written form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, Result};
use ipnetwork::IpNetwork;
use trueup_net::{
    Address, AddressFlags, Desired, Dev, Family, IfName, Neighbour, NextHop, NextHops, Object,
    Prefix, Route, Routes, Rule, RuleAction, table,
};
use trueup_testkit::{Snapshot, index_of, ip_batch};

use crate::writer::{Verb, write};

/// `RTPROT_STATIC`: the protocol of other writers' objects.
const FOREIGN: u8 = 4;

/// The device of our addresses and neighbours.
const OURS: &str = "ours0";
/// The device of other writers' addresses and neighbours.
const THEIRS: &str = "theirs0";

/// The kinds, in the order of the lists here.
pub(crate) const KINDS: [&str; 4] = ["route", "address", "neighbour", "rule"];

/// Moves the calling thread to a namespace with the links, whose own announcements are over, and
/// this number of foreign routes.
pub(crate) fn enter(foreign: u32) -> Result<()> {
    trueup_testkit::enter()?;
    trueup_testkit::quiet_netns();
    trueup_testkit::uplinks(1);
    for name in [OURS, THEIRS] {
        ip_batch([
            format!("link add {name} type veth peer name {name}p"),
            format!("link set {name} up"),
            format!("link set {name}p up"),
        ]);
    }
    // When a device loses its last IPv4 address, it loses all its IPv4 neighbours (`arp_ifdown`
    // from `fib_disable_ip`).
    ip_batch([format!("address add 192.0.2.1/32 dev {THEIRS}")]);
    Snapshot::settled();
    // These routes stay.
    let routes = (0..foreign).map(|at| route::<Dev>(40, at).with_protocol(FOREIGN).canonical());
    write(Verb::Create, &routes.map(Object::Route).collect::<Vec<_>>())
}

fn family(at: u32) -> Family {
    if at.is_multiple_of(2) { Family::Inet } else { Family::Inet6 }
}

/// Returns the `at`-th address of a list: IPv4 and IPv6 in turn.
fn address(list: u8, at: u32) -> IpAddr {
    let [_, high, middle, low] = (at / 2).to_be_bytes();
    match family(at) {
        Family::Inet => Ipv4Addr::new(list, high, middle, low).into(),
        Family::Inet6 => Ipv6Addr::new(0x2001, 0xdb8, list.into(), 0, 0, 0, high.into(), {
            u16::from_be_bytes([middle, low])
        })
        .into(),
    }
}

fn route<D>(list: u8, at: u32) -> Route<D> {
    let via: IpAddr = match family(at) {
        Family::Inet => Ipv4Addr::new(10, 200, 0, 2).into(),
        Family::Inet6 => Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, 2).into(),
    };
    Route::new(Prefix::host(address(list, at)), NextHops::One(NextHop::via(via)))
}

fn address_on<D>(dev: D, list: u8, at: u32) -> Address<D> {
    let mut address = Address::new(dev, IpNetwork::from(address(list, at)));
    if family(at) == Family::Inet6 {
        address.flags = AddressFlags::NODAD;
    }
    address
}

fn neighbour<D>(dev: D, list: u8, at: u32) -> Result<Neighbour<D>> {
    let lladdr = "02:00:00:00:00:01".parse()?;
    Ok(Neighbour::new(dev, address(list, at), lladdr))
}

fn rule(list: u8, at: u32) -> Rule {
    let action = RuleAction::Lookup(table::MAIN);
    let priority = 1_000 * u32::from(list) + at / 2;
    let mut rule = Rule::new(family(at), priority, action);
    rule.from = Some(IpNetwork::from(address(list, at)));
    rule
}

/// Returns our desired state: `routes` routes, and `others` objects of each other kind. Half of it
/// is IPv6.
pub(crate) fn desired(routes: u32, others: u32) -> Result<Desired> {
    let dev: IfName = OURS.parse()?;
    let neighbours = (0..others).map(|at| neighbour(dev, 22, at));
    Ok(Desired::default()
        .with_routes((0..routes).map(|at| route(20, at)).collect::<Routes>())
        .with_addresses((0..others).map(|at| address_on(dev, 21, at)).collect::<Vec<_>>())
        .with_neighbours(neighbours.collect::<Result<Vec<_>>>()?)
        .with_rules((0..others).map(|at| rule(23, at)).collect::<Vec<_>>()))
}

/// Returns the first `each` of our desired objects of each kind in their written form, the lists in
/// the order of [`KINDS`].
pub(crate) fn ours(each: u32, protocol: u8) -> Result<[Vec<Object>; 4]> {
    written(OURS, [20, 21, 22, 23], each, protocol)
}

/// Returns other writers' objects in the same way.
pub(crate) fn theirs(each: u32) -> Result<[Vec<Object>; 4]> {
    written(THEIRS, [30, 31, 32, 33], each, FOREIGN)
}

fn written(device: &str, lists: [u8; 4], each: u32, protocol: u8) -> Result<[Vec<Object>; 4]> {
    let dev = Dev::index(index_of(device));
    let name: IfName = device.parse().context("a name of ours")?;
    let mut all: [Vec<Object>; 4] = Default::default();
    for at in 0..each {
        let route = route(lists[0], at).with_protocol(protocol);
        let address = address_on(dev, lists[1], at).with_protocol(protocol);
        let neighbour = neighbour(dev, lists[2], at)?.with_protocol(protocol);
        let rule = rule(lists[3], at).with_protocol(protocol);
        all[0].push(Object::Route(route.canonical()));
        all[1].push(Object::Address(address.canonical(Some(&name))));
        all[2].push(Object::Neighbour(neighbour.canonical()));
        all[3].push(Object::Rule(Box::new(rule)));
    }
    Ok(all)
}
