//! Turns the numbers of a case into desired state.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use trueup_net::{Desired, Family, IfName, Link, LinkKind, ObjectKind as _};

use super::links::links;
use super::objects::{address, neighbour, rule};
use super::route::route;
use super::spec::DesiredSpec;
use crate::desired::name;

/// Another writer's pair, always present and up, with addresses in subnet 3 of both families.
pub const FOREIGN: [&str; 2] = ["ext0", "ext1"];
pub const LINKS: [&str; super::spec::LINKS] =
    ["br0", "v0", "v1", "vx0", "mv0", "ifb0", "br1", "ext0"];
pub const DEVICES: [&str; super::spec::DEVICES] =
    ["br0", "v0", "v1", "vx0", "mv0", "ifb0", "br1", "ext0"];
pub const TABLES: [u32; 6] = [254, 254, 254, 100, 1_000_000, 254];

pub fn up(links: &[Link<IfName>], dev: &str) -> bool {
    let declared = links.iter().find(|link| link.name == name(dev));
    match declared {
        Some(link) => link.up == Some(true) || dev == "ext0",
        None => dev == "ext0",
    }
}

pub fn ip(v6: bool, subnet: u8, host: u8) -> IpAddr {
    let text = if v6 { format!("fd00:{subnet}::{host}") } else { format!("10.0.{subnet}.{host}") };
    text.parse().unwrap()
}

/// Returns the desired state of a specification, given the present links. It leaves out objects
/// whose device is neither present nor declared, and the second object with a key. In a clean case
/// it also leaves out impossible objects.
pub fn desired(spec: &DesiredSpec, present: &BTreeSet<String>, clean: bool) -> Desired {
    let links = spec.links.as_ref().map(|specs| links(specs, clean));
    let declared = links.as_deref().unwrap_or_default();
    let mut devices = present.clone();
    for link in declared {
        devices.insert(link.name.to_string());
        // Another writer's link with this name has no such peer, and no pass can give it one.
        if let Some(LinkKind::Veth { peer: Some(peer), .. }) = &link.kind
            && !present.contains(&link.name.to_string())
        {
            devices.insert(peer.to_string());
        }
    }
    if clean {
        let standing = |dev: &String| {
            dev == "ext0"
                || dev == "lo"
                || declared.iter().any(|link| {
                    let is_peer = match &link.kind {
                        Some(LinkKind::Veth { peer: Some(peer), .. }) => peer.to_string() == *dev,
                        _ => false,
                    };
                    link.name == name(dev) || is_peer
                })
        };
        devices.retain(standing);
    }
    let addresses = spec.addresses.as_ref().map(|specs| {
        let mut seen = BTreeMap::new();
        for spec in specs.iter().filter(|spec| devices.contains(DEVICES[spec.dev])) {
            let address = address(spec, clean);
            // The kernel's key; if there is a peer, its subnet counts.
            let subnet = address.family() == Family::Inet;
            let subnet = subnet.then(|| address.subnet());
            seen.entry((address.dev, address.address.ip(), subnet)).or_insert(address);
        }
        seen.into_values().collect::<Vec<_>>()
    });
    let held = addresses.as_deref().unwrap_or_default();
    let routes = spec.routes.as_ref().map(|specs| {
        let mut seen = BTreeMap::new();
        for spec in specs {
            let Some(route) = route(spec, &devices, declared, held, clean) else {
                continue;
            };
            let canonical = if route.family() == Family::Inet6 && route.metric == 0 {
                1024
            } else {
                route.metric
            };
            let key = (route.table, route.dst, canonical, route.tos, route.from);
            seen.entry(key).or_insert(route);
        }
        seen.into_values().collect()
    });
    let neighbours = spec.neighbours.as_ref().map(|specs| {
        let mut seen = BTreeMap::new();
        for spec in specs.iter().filter(|spec| devices.contains(DEVICES[spec.dev])) {
            let neighbour = neighbour(spec);
            seen.entry((neighbour.dev, neighbour.dst, neighbour.proxy)).or_insert(neighbour);
        }
        seen.into_values().collect()
    });
    let rules = spec.rules.as_ref().map(|specs| {
        let rules: BTreeMap<_, _> = specs
            .iter()
            .map(|spec| rule(spec, clean))
            .map(|rule| (rule.clone().canonical().key(), rule))
            .collect();
        rules.into_values().collect()
    });
    let mut desired = Desired::default();
    (desired.links, desired.addresses) = (links.map(Into::into), addresses.map(Into::into));
    (desired.neighbours, desired.routes) = (neighbours, routes);
    desired.rules = rules;
    desired
}
