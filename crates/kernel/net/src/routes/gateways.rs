//! Which device leads to a gateway, for next hops that leave it open.
//!
//! The kernel chooses the device when it stores a route, and keeps it: a gateway whose subnet moves
//! to another device takes no route along. So the choice is made here once more, for each gateway
//! once, from what the kernel answers for it now, and from what the plan is to change of that.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::net::IpAddr;

use super::Routes;
use super::index::{Packed, Value};
use crate::desired::Desired;
use crate::devices::{Devices, devices_down};
use crate::kinds::{
    Address, AddressFlags, FOREVER, NextHop, NextHops, ObjectKind as _, Route, RouteKey, RouteType,
};
use crate::observed::Observed;
use crate::ownership::Proof;
use crate::values::{Dev, Family, IfName, Prefix};

/// `RTPROT_KERNEL`: the route to the subnet of an address.
const KERNEL: u8 = 2;

/// A gateway, and the table of the route that leads through it: the kernel looks there first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Gateway {
    /// The route's table.
    pub table: u32,
    /// The gateway.
    pub via: IpAddr,
}

impl Gateway {
    /// Makes the gateway of a route in a table.
    pub fn new(table: u32, via: IpAddr) -> Gateway {
        Gateway { table, via }
    }

    /// Returns the gateway of a next hop in a table, if the kernel is to find its device.
    fn of_open<D>(table: u32, hop: &NextHop<D>) -> Option<Gateway> {
        let via = hop.via.filter(|_| hop.dev.is_none() && !hop.onlink)?;
        // A link-local one is on every link.
        let is_ambiguous = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
        (!is_ambiguous).then_some(Gateway { table, via })
    }

    /// Returns the device of a route that leads straight to the gateway, if it does.
    pub fn direct_device(&self, route: &Route) -> Option<Dev> {
        let NextHops::One(NextHop { via: None, dev, .. }) = &route.nexthops else {
            return None;
        };
        let leads = route.kind == RouteType::Unicast && route.dst.contains(self.via);
        dev.filter(|_| leads)
    }
}

impl<D> Routes<D> {
    /// Returns the gateways of next hops that name no device, each once.
    pub fn open_gateways(&self) -> BTreeSet<Gateway> {
        self.values
            .iter()
            .flatten()
            .flat_map(|value| -> Vec<Gateway> {
                let hops = value.nexthops.as_slice().iter();
                hops.filter_map(|hop| Gateway::of_open(value.table, hop)).collect()
            })
            .collect()
    }
}

impl<D: Clone + Eq + Hash> Routes<D> {
    /// Returns the length of the longest prefix of which a desired route leads straight to a
    /// gateway out of a usable device, and that device.
    fn route_to(&self, gateway: &Gateway, usable: impl Fn(&D) -> Option<Dev>) -> Option<(u8, Dev)> {
        let lengths = (0..=Family::of(gateway.via).max_len()).rev();
        lengths.into_iter().find_map(|len| {
            let dst = Prefix::containing(ipnetwork::IpNetwork::new(gateway.via, len).ok()?);
            let direct = |value: &Value<D>| match &value.nexthops {
                NextHops::One(NextHop { via: None, dev, .. }) => usable(dev.as_ref()?),
                _ => None,
            };
            let mut of_prefix = self.of_prefix(gateway.table, dst);
            let dev = of_prefix.find_map(|id| direct(self.values.get(id)?))?;
            Some((len, dev))
        })
    }
}

/// The devices that lead to gateways.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gateways(BTreeMap<Gateway, Leads>);

/// The device that leads to a gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leads {
    dev: Dev,
    /// The kernel finds it by itself: none that leads there now is in the way.
    is_found: bool,
}

impl Gateways {
    /// Finds the devices that are to lead to the gateways that were looked up, once a plan is
    /// carried out.
    pub(crate) fn of(
        desired: &Desired,
        observed: &Observed,
        devices: &Devices,
        proof: Proof<'_>,
    ) -> Gateways {
        if observed.gateways.is_empty() {
            return Gateways::default();
        }
        let down = devices_down(desired.links.as_deref(), devices, observed);
        let usable = |name: &IfName| devices.dev(name).filter(|dev| !down.contains(dev));
        let addresses: Vec<(Prefix, Dev)> = desired
            .addresses
            .iter()
            .flatten()
            .filter(|address| !address.flags.contains(AddressFlags::NOPREFIXROUTE))
            .filter_map(|address| Some((address, usable(&address.dev)?)))
            .flat_map(|(address, dev)| address.on_link().map(move |prefix| (prefix, dev)))
            .collect();
        let lasting = Lasting { desired, observed, devices, down: &down, proof };
        let find = |(gateway, now): (&Gateway, &Option<Route>)| {
            let leads_now = |route: &Route| Some((route.dst.len(), gateway.direct_device(route)?));
            let lasting = now.as_ref().filter(|route| lasting.has(route));
            let now = now.as_ref().and_then(leads_now);
            let to_be = addresses
                .iter()
                .filter(|(subnet, _)| subnet.contains(gateway.via))
                .map(|(subnet, dev)| (subnet.len(), *dev));
            let route = desired.routes.as_ref().and_then(|routes| routes.route_to(gateway, usable));
            // Of equal ones the first is that which the kernel uses already.
            let all = lasting.and_then(leads_now).into_iter().chain(to_be).chain(route);
            let best = all.reduce(|best, next| if next.0 > best.0 { next } else { best });
            let (_, dev) = best?;
            let is_found = now.is_none_or(|(_, now)| now == dev);
            Some((*gateway, Leads { dev, is_found }))
        };
        Gateways(observed.gateways.iter().filter_map(find).collect())
    }

    /// Returns the next hops with the devices that lead to their gateways.
    pub(super) fn complete(&self, table: u32, nexthops: NextHops) -> NextHops {
        if self.0.is_empty() {
            return nexthops;
        }
        let complete = |hop: NextHop| {
            let found = Gateway::of_open(table, &hop).and_then(|gateway| self.0.get(&gateway));
            match found {
                Some(leads) => hop.with_dev(leads.dev).with_found(leads.is_found),
                None => hop,
            }
        };
        match nexthops {
            NextHops::One(hop) => NextHops::One(complete(hop)),
            NextHops::Many(hops) => NextHops::Many(hops.into_iter().map(complete).collect()),
            other => other,
        }
    }
}

/// What is known of the end of a route by which the kernel reaches a gateway.
struct Lasting<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    devices: &'a Devices,
    down: &'a BTreeSet<Dev>,
    proof: Proof<'a>,
}

impl Lasting<'_> {
    /// Returns true if the plan leaves a route.
    fn has(&self, route: &Route) -> bool {
        let NextHops::One(NextHop { dev: Some(dev), .. }) = route.nexthops else {
            return false;
        };
        let Some(name) = self.devices.name(dev) else {
            return false;
        };
        // A link that goes, or is made anew, is not the device of its name.
        let is_link_left = self.devices.dev(name) == Some(dev) && !self.down.contains(&dev);
        is_link_left && !self.is_subnet_given_up(dev, route) && !self.is_undesired(name, route)
    }

    /// Returns true if it is the route to a subnet of which all addresses are to go.
    fn is_subnet_given_up(&self, dev: Dev, route: &Route) -> bool {
        let Some(desired) = self.desired.addresses.as_ref() else {
            return false;
        };
        let is_desired = |address: &Address| {
            let mut all = desired.iter();
            all.any(|it| {
                let same = it.subnet() == address.subnet();
                same && it.address.ip() == address.address.ip()
                    && self.devices.dev(&it.dev) == Some(dev)
            })
        };
        let addresses = self.observed.addresses.iter();
        let mut in_subnet = addresses
            .filter(|address| address.dev == dev && address.on_link().any(|it| it == route.dst))
            .peekable();
        // The IPv6 route of an address with a lifetime stays until that ends (`ipv6_del_addr`).
        let takes_along = |address: &Address| {
            address.family() == Family::Inet || address.lifetimes.valid == FOREVER
        };
        route.protocol == KERNEL
            && in_subnet.peek().is_some()
            && in_subnet.all(|address| {
                self.proof.is_ours(address) && !is_desired(address) && takes_along(address)
            })
    }

    /// Returns true if it is a route of ours that is to lead elsewhere, or to go.
    fn is_undesired(&self, name: &IfName, route: &Route) -> bool {
        let Some(routes) = &self.desired.routes else {
            return false;
        };
        let stays = |wanted: &Route<IfName>| {
            let mut devices = wanted.nexthops.devices();
            devices.any(|dev| dev == name)
        };
        let wanted = || routes.get(&route.key());
        self.proof.is_ours(route) && !wanted().is_some_and(|wanted| stays(&wanted))
    }
}

impl<D> Routes<D> {
    /// Returns the positions of the values of the routes to a prefix in a table, whatever else
    /// their keys have, without those that have a source prefix.
    fn of_prefix(&self, table: u32, dst: Prefix) -> impl Iterator<Item = super::index::Id> {
        let key = |tos, metric| {
            let key = RouteKey::new(table, dst).with_tos(tos).with_metric(metric);
            Packed::of(&key)
        };
        let mut found = Vec::new();
        match (key(u8::MAX, 0), key(0, u32::MAX)) {
            (Packed::V4(first), Packed::V4(last)) => {
                found.extend(self.v4.range(first..=last).map(|(_, id)| *id));
            }
            _ => {
                if let (Packed::V6(first), Packed::V6(last)) = (key(0, 0), key(0, u32::MAX)) {
                    found.extend(self.v6.range(first..=last).map(|(_, id)| *id));
                }
            }
        }
        found.into_iter()
    }
}
