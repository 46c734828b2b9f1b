//! An export of another host, and the routes that collections would make of it: what this host
//! takes from others, and which destinations and gateways no host can have.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use trueup_net::{IfName, Kind, NextHops, Prefix, Route, RouteKey, table};

use super::accepted::Origin;
use crate::resources::{Hosts, ResourceKey};
use crate::store::{Entry, Revision};

/// An export, in the order in which they are judged: on every host alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) created: Revision,
    pub(super) key: Arc<ResourceKey>,
}

impl Id {
    pub(super) fn origin(&self) -> Origin {
        Origin {
            exporter: self.key.exporter.clone(),
            name: String::from_utf8_lossy(&self.key.name).into_owned(),
            created: self.created,
        }
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        let of = (self.created, &self.key.exporter, &self.key.name, &self.key);
        of.cmp(&(other.created, &other.key.exporter, &other.key.name, &other.key))
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A route that a collection would make.
type Made = (RouteKey, Route<IfName>);

/// What an export says, and what is made of it.
pub(super) struct Offer {
    pub(super) id: Arc<Id>,
    /// What was exported.
    pub(super) entry: Arc<Entry>,
    /// The destination, if it is a route.
    pub(super) dst: Option<Prefix>,
    /// Why it makes no route, whatever the collections say.
    pub(super) error: Option<String>,
    /// Its gateways, if a collection would make a route of it.
    pub(super) gateways: BTreeSet<IpAddr>,
    /// For each collection that takes from its exporter, by its position, the route that it would
    /// make, or why it would make none.
    pub(super) routes: Vec<(usize, Result<Made, String>)>,
    /// The routes that it makes, each by the position of a collection.
    pub(super) taken: BTreeSet<(usize, RouteKey)>,
}

impl Offer {
    /// Confines an export as each collection says. `exported` is what it says, or why it is none.
    pub(super) fn new(
        id: Arc<Id>,
        resource: &Arc<Entry>,
        exported: Result<&Route<IfName>, &String>,
        collects: &[Collect],
    ) -> Offer {
        let mut offer = Offer {
            id,
            entry: Arc::clone(resource),
            dst: None,
            error: None,
            gateways: BTreeSet::new(),
            routes: Vec::new(),
            taken: BTreeSet::new(),
        };
        match exported {
            Err(error) => offer.error = Some(error.clone()),
            Ok(exported) => {
                offer.dst = Some(exported.dst);
                offer.routes = (collects.iter().enumerate())
                    .filter(|(_, collect)| collect.from.contains(&offer.id.key.exporter))
                    .map(|(position, collect)| {
                        let route = confined(exported, collect);
                        (position, route.map(|route| (route.canonical_key(), route)))
                    })
                    .collect();
                if offer.keys().next().is_some() {
                    offer.gateways = gateways(exported).collect();
                }
            }
        }
        offer
    }

    /// Makes no route of it, whatever the collections say.
    pub(super) fn refuse(&mut self, why: String) {
        self.error = Some(why);
        self.gateways.clear();
        self.routes.clear();
    }

    /// True if it is of a resource: a lease or a revision alone says nothing else.
    pub(super) fn is_of(&self, resource: &Arc<Entry>) -> bool {
        (self.id.created, &self.entry.value) == (resource.created, &resource.value)
    }

    /// Returns the destination, if a collection would make a route of it.
    pub(super) fn destination(&self) -> Option<Prefix> {
        self.dst.filter(|_| self.keys().next().is_some())
    }

    /// Returns the keys of the routes that it would make.
    pub(super) fn keys(&self) -> impl Iterator<Item = RouteKey> {
        self.routes.iter().filter_map(|(_, route)| route.as_ref().ok()).map(|(key, _)| *key)
    }

    /// Returns the route of this key that it makes.
    pub(super) fn route(&self, key: &RouteKey) -> Option<&Route<IfName>> {
        self.routes.iter().rev().find_map(|(position, made)| match made {
            Ok((of, route)) if of == key && self.taken.contains(&(*position, *of)) => Some(route),
            _ => None,
        })
    }
}

/// Returns the route as this host has it.
///
/// # Errors
///
/// When the collection takes no such route.
fn confined(exported: &Route<IfName>, collect: &Collect) -> Result<Route<IfName>, String> {
    let dst = exported.dst;
    if !collect.within.iter().any(|within| within.covers(dst)) {
        return Err(format!("{dst} is not within what is collected"));
    }
    if collect.dev.is_none()
        && let Some(gateway) = gateways(exported).find(|it| is_link_local(*it))
    {
        return Err(format!(
            "the gateway {gateway} is link-local, and needs the collection's `dev`"
        ));
    }
    let mut hops = exported.nexthops.as_slice().to_vec();
    for hop in &mut hops {
        hop.dev = collect.dev;
    }
    let route = Route::new(dst, NextHops::Many(hops).canonical())
        .with_metric(collect.metric.unwrap_or(exported.metric));
    Ok(match collect.table {
        Some(table) => route.with_table(table),
        None => route,
    })
}

/// What this host takes from others, and how far it trusts them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collect {
    /// The kind of the objects.
    pub kind: Kind,
    /// The hosts that they are taken from.
    pub from: Hosts,
    /// The prefixes that contain the destination of each route that is taken. They are not empty.
    pub within: Vec<Prefix>,
    /// How many objects are taken from one host: 1 to 1,000,000.
    pub limit: u32,
    /// The metric of each route; `None` for that of its exporter.
    pub metric: Option<u32>,
    /// The table of each route; `None` for `main`.
    pub table: Option<u32>,
    /// The device of each next hop; `None` for the one that leads to the gateway.
    pub dev: Option<IfName>,
}

impl Collect {
    /// How many objects are taken from one host, unless said otherwise.
    pub const LIMIT: u32 = 1_000;

    /// Takes the routes to destinations within these prefixes, from any host.
    pub fn routes(within: Vec<Prefix>) -> Collect {
        Collect {
            kind: Kind::Route,
            from: Hosts::Any,
            within,
            limit: Collect::LIMIT,
            metric: None,
            table: None,
            dev: None,
        }
    }

    /// True if a route of this key can come from this collection.
    pub fn contains(&self, key: &RouteKey) -> bool {
        let table = self.table.unwrap_or(table::MAIN);
        key.table == table && self.within.iter().any(|within| within.covers(key.dst))
    }
}

/// Refuses a route whose destination or gateway is of no use on any host. The kernel would take
/// some of these, and send packets to itself or to nobody.
pub fn check_route(route: &Route<IfName>) -> Result<(), String> {
    if let Some(why) = of_destination(route.dst) {
        return Err(format!("{} is no destination: {why}", route.dst));
    }
    for gateway in gateways(route) {
        if let Some(why) = of_address(gateway) {
            return Err(format!("{gateway} is no gateway: {why}"));
        }
    }
    Ok(())
}

/// Returns the gateways of a route.
fn gateways(route: &Route<IfName>) -> impl Iterator<Item = IpAddr> {
    route.nexthops.as_slice().iter().filter_map(|hop| hop.via)
}

/// True for an address that is of one link alone: a gateway of it needs a device.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns why a prefix is no destination: all of it is what [`of_address`] refuses.
fn of_destination(dst: Prefix) -> Option<&'static str> {
    let first = dst.address();
    // Each of these ranges is left by a shorter prefix that begins with the same address.
    let least = match first {
        IpAddr::V4(address) if address.octets()[0] < 128 => 8,
        IpAddr::V4(_) => 4,
        IpAddr::V6(address) if address.is_multicast() => 8,
        IpAddr::V6(address) if address.is_unicast_link_local() => 10,
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => 96,
        IpAddr::V6(_) => 128,
    };
    if dst.len() < least {
        None
    } else if is_link_local(first) {
        Some("it is link-local")
    } else {
        of_address(first)
    }
}

/// Returns why an address is that of no other host.
fn of_address(address: IpAddr) -> Option<&'static str> {
    let why = match address {
        IpAddr::V4(Ipv4Addr::BROADCAST) => "it is the broadcast address",
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => "it is the unspecified address",
        _ if address.is_loopback() => "it is a loopback address",
        _ if address.is_multicast() => "it is a multicast address",
        IpAddr::V4(address) if address.octets()[0] == 0 => {
            "it is in 0.0.0.0/8, which stands for no host"
        }
        IpAddr::V4(address) if address.octets()[0] >= 240 => {
            "it is in 240.0.0.0/4, which is reserved"
        }
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            "it is an IPv4 address within IPv6"
        }
        _ => return None,
    };
    Some(why)
}
