//! An export of another host, and the routes that collections would make of it. Decides what this
//! host takes from others, and which destinations and gateways are valid on no host.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use trueup_net::{IfName, Kind, NextHops, Prefix, Route, RouteKey, table};

use super::accepted::Origin;
use crate::resources::{Hosts, ResourceKey};
use crate::store::{Entry, Revision};

/// An export's identity. The order is the same on every host, and exports are judged in it.
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

/// An export's content, and the routes made of it.
pub(super) struct Offer {
    pub(super) id: Arc<Id>,
    /// The stored entry of the export.
    pub(super) entry: Arc<Entry>,
    /// The destination. `None` if the export is not a route.
    pub(super) dst: Option<Prefix>,
    /// Why it makes no route, regardless of the collections.
    pub(super) error: Option<String>,
    /// Its gateways, if a collection would make a route of it.
    pub(super) gateways: BTreeSet<IpAddr>,
    /// The route that each collection would make, or why it would make none. Each has the position
    /// of a collection that takes from the exporter.
    pub(super) routes: Vec<(usize, Result<Made, String>)>,
    /// The routes made of it, each with the position of a collection.
    pub(super) taken: BTreeSet<(usize, RouteKey)>,
}

impl Offer {
    /// Confines an export as each collection requires. `exported` is its route, or why it is not
    /// one.
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

    /// Makes no route of it, regardless of the collections.
    pub(super) fn refuse(&mut self, why: String) {
        self.error = Some(why);
        self.gateways.clear();
        self.routes.clear();
    }

    /// True if the offer has this resource's content. The lease and the revision do not matter.
    pub(super) fn is_of(&self, resource: &Arc<Entry>) -> bool {
        (self.id.created, &self.entry.value) == (resource.created, &resource.value)
    }

    /// Returns the destination, if a collection would make a route of it.
    pub(super) fn destination(&self) -> Option<Prefix> {
        self.dst.filter(|_| self.keys().next().is_some())
    }

    /// Returns the keys of the routes that collections would make.
    pub(super) fn keys(&self) -> impl Iterator<Item = RouteKey> {
        self.routes.iter().filter_map(|(_, route)| route.as_ref().ok()).map(|(key, _)| *key)
    }

    /// Returns the route with this key that it makes. `None` if it makes none.
    pub(super) fn route(&self, key: &RouteKey) -> Option<&Route<IfName>> {
        self.routes.iter().rev().find_map(|(position, made)| match made {
            Ok((of, route)) if of == key && self.taken.contains(&(*position, *of)) => Some(route),
            _ => None,
        })
    }
}

/// Returns the route in this host's form.
///
/// # Errors
///
/// Fails if the collection does not take such a route.
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

/// A collection: the exports that this host takes from others, and their limits.
///
/// ```
/// use trueup_net::RouteKey;
/// use trueup_world::Collect;
///
/// let pods = Collect::routes(vec!["10.20.0.0/16".parse()?]);
/// assert!(pods.contains(&RouteKey::new(254, "10.20.1.0/24".parse()?)));
/// assert!(!pods.contains(&RouteKey::new(254, "10.0.0.0/8".parse()?))); // wider than allowed
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collect {
    /// The kind of the objects. Only routes can be collected.
    pub kind: Kind,
    /// The hosts to take objects from.
    pub from: Hosts,
    /// The prefixes that must contain each route's destination. Not empty.
    pub within: Vec<Prefix>,
    /// The most objects taken from one host: 1 to 1,000,000.
    pub limit: u32,
    /// The metric of each route. `None` keeps the exporter's.
    pub metric: Option<u32>,
    /// The table of each route. `None` for `main`.
    pub table: Option<u32>,
    /// The device of each next hop. If `None`, the kernel chooses the device that leads to the
    /// gateway.
    pub dev: Option<IfName>,
}

impl Collect {
    /// The default limit of objects taken from one host.
    pub const LIMIT: u32 = 1_000;

    /// Makes a collection of routes to destinations within these prefixes, from any host.
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

    /// Returns true if a route with this key can come from this collection.
    pub fn contains(&self, key: &RouteKey) -> bool {
        let table = self.table.unwrap_or(table::MAIN);
        key.table == table && self.within.iter().any(|within| within.covers(key.dst))
    }
}

/// Refuses a route whose destination or gateway is useless on every host. The kernel would accept
/// some of these routes, and send packets to itself or nowhere.
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

/// True for an address that is valid on one link only. A gateway with such an address needs a
/// device.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns why a prefix is not a valid destination. It is invalid if [`of_address`] refuses all of
/// it.
fn of_destination(dst: Prefix) -> Option<&'static str> {
    let first = dst.address();
    // Each of these ranges also ends at a shorter prefix with the same first address.
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

/// Returns why an address cannot be another host's. `None` if it can.
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
