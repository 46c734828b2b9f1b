//! Finds the device that leads to a gateway, for next hops without a device.
//!
//! The kernel chooses the device when it stores a route, and keeps it: if a gateway's subnet moves
//! to another device, no route follows. So the choice is repeated here, once for each gateway, from
//! the kernel's present answer and the changes in the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::Routes;
use super::index::{Id, Packed, Value};
use crate::desired::Desired;
use crate::devices::Devices;
use crate::kinds::{
    AddressFlags, FOREVER, NextHop, NextHops, ObjectKind as _, Route, RouteKey, RouteType,
};
use crate::observed::Observed;
use crate::proof::Proof;
use crate::values::{Dev, Family, IfName, Prefix};

/// `RTPROT_KERNEL`: the route to the subnet of an address.
const KERNEL: u8 = 2;

impl<D> NextHop<D> {
    /// Returns the gateway, if the kernel must find its device.
    fn open_gateway(&self) -> Option<IpAddr> {
        let via = self.via.filter(|_| self.dev.is_none() && !self.onlink)?;
        // A link-local gateway is on every link.
        let is_ambiguous = matches!(via, IpAddr::V6(via) if via.is_unicast_link_local());
        (!is_ambiguous).then_some(via)
    }
}

impl Route {
    /// Returns the route's device if the route leads straight to the gateway.
    pub fn direct_device(&self, gateway: IpAddr) -> Option<Dev> {
        match self.nexthops {
            NextHops::One(NextHop { via: None, dev, .. })
                if self.kind == RouteType::Unicast && self.dst.contains(gateway) =>
            {
                dev
            }
            _ => None,
        }
    }
}

impl<D> Routes<D> {
    /// Returns the gateways of next hops without a device, each once, with its route's table, in
    /// which the kernel looks first.
    pub fn open_gateways(&self) -> BTreeSet<(u32, IpAddr)> {
        let mut gateways = BTreeSet::new();
        for value in self.values.iter().flatten() {
            let open = value.nexthops.as_slice().iter().filter_map(NextHop::open_gateway);
            gateways.extend(open.map(|via| (value.table, via)));
        }
        gateways
    }
}

/// The devices that lead to gateways, by the route's table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gateways(BTreeMap<(u32, IpAddr), Leads>);

/// The device that leads to a gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Leads {
    dev: Dev,
    /// True if the kernel finds the device by itself: no other device leads there now.
    is_found: bool,
}

impl Gateways {
    /// Finds the devices that will lead to the gateways looked up, after the plan.
    pub(crate) fn of(
        desired: &Desired,
        observed: &Observed,
        devices: &Devices,
        proof: Proof<'_>,
    ) -> Gateways {
        if observed.gateways.is_empty() {
            return Gateways::default();
        }
        let down = observed.devices_down(desired.links.iter().flatten(), devices);
        let ways = Ways { desired, observed, devices, down, proof };
        let subnets = ways.subnets();
        let gateways = observed.gateways.iter();
        let leads = gateways.filter_map(|(gateway, now)| {
            Some((*gateway, ways.lead(*gateway, now.as_ref(), &subnets)?))
        });
        Gateways(leads.collect())
    }

    /// Adds devices to the next hops by their gateways.
    pub(super) fn complete(&self, table: u32, nexthops: &mut NextHops) {
        if self.0.is_empty() {
            return;
        }
        for hop in nexthops.as_mut_slice() {
            if let Some(leads) = hop.open_gateway().and_then(|via| self.0.get(&(table, via))) {
                (hop.dev, hop.found) = (Some(leads.dev), leads.is_found);
            }
        }
    }
}

/// The ways to gateways, now and after the plan.
struct Ways<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    devices: &'a Devices,
    down: BTreeSet<Dev>,
    proof: Proof<'a>,
}

impl Ways<'_> {
    /// Returns the device with a name, if packets can leave by it.
    fn usable(&self, name: &IfName) -> Option<Dev> {
        self.devices.dev(name).filter(|dev| !self.down.contains(dev))
    }

    /// Returns the subnets of desired addresses.
    fn subnets(&self) -> Vec<(Prefix, Dev)> {
        let addresses = self.desired.addresses.iter().flatten();
        addresses
            .filter(|address| !address.flags.contains(AddressFlags::NOPREFIXROUTE))
            .filter_map(|address| Some((address, self.usable(&address.dev)?)))
            .flat_map(|(address, dev)| address.on_link().map(move |prefix| (prefix, dev)))
            .collect()
    }

    /// Finds the device that leads to a gateway in a table. The kernel reaches it now by the route
    /// `now`.
    fn lead(
        &self,
        (table, via): (u32, IpAddr),
        now: Option<&Route>,
        subnets: &[(Prefix, Dev)],
    ) -> Option<Leads> {
        let leads_now = now.and_then(|now| Some((now.dst.len(), now.direct_device(via)?)));
        let lasting = leads_now.filter(|_| now.is_some_and(|now| self.stays(now)));
        let to_be = subnets.iter().filter(|(subnet, _)| subnet.contains(via));
        // Of equal ones, take the first, which the kernel uses already.
        let (_, dev) = lasting
            .into_iter()
            .chain(to_be.map(|(subnet, dev)| (subnet.len(), *dev)))
            .chain(self.desired_route_to(table, via))
            .reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        Some(Leads { dev, is_found: leads_now.is_none_or(|(_, now)| now == dev) })
    }

    /// Returns the longest prefix length, and the device, of a desired route straight to a gateway
    /// out of a usable device.
    fn desired_route_to(&self, table: u32, via: IpAddr) -> Option<(u8, Dev)> {
        let routes = self.desired.routes.as_ref()?;
        (0..=Family::of(via).max_len()).rev().find_map(|len| {
            let dst = Prefix::containing(ipnetwork::IpNetwork::new(via, len).ok()?);
            let mut values = routes.of_prefix(table, dst);
            let dev = values.find_map(|value| match &value.nexthops {
                NextHops::One(NextHop { via: None, dev, .. }) => self.usable(dev.as_ref()?),
                _ => None,
            })?;
            Some((len, dev))
        })
    }

    /// Returns true if a route remains after the plan.
    fn stays(&self, route: &Route) -> bool {
        let NextHops::One(NextHop { dev: Some(dev), .. }) = route.nexthops else {
            return false;
        };
        let Some(name) = self.devices.name(dev) else {
            return false;
        };
        // A link that goes, or is made anew, is no longer the device with its name.
        let is_link_left = self.devices.dev(name) == Some(dev) && !self.down.contains(&dev);
        is_link_left && !self.is_subnet_given_up(dev, route) && !self.is_undesired(name, route)
    }

    /// Returns true if it is the route to a subnet whose addresses are all to go.
    fn is_subnet_given_up(&self, dev: Dev, route: &Route) -> bool {
        let Some(desired) = self.desired.addresses.as_ref() else {
            return false;
        };
        let addresses = self.observed.addresses.iter();
        let mut in_subnet = addresses
            .filter(|address| address.dev == dev && address.on_link().any(|it| it == route.dst))
            .peekable();
        route.protocol == KERNEL
            && in_subnet.peek().is_some()
            && in_subnet.all(|address| {
                let is_desired = desired.iter().any(|it| {
                    it.subnet() == address.subnet()
                        && it.address.ip() == address.address.ip()
                        && self.devices.dev(&it.dev) == Some(dev)
                });
                // The IPv6 route of an address with a lifetime stays until that lifetime ends
                // (`ipv6_del_addr`).
                let takes_along =
                    address.family() == Family::Inet || address.lifetimes.valid == FOREVER;
                self.proof.is_ours(address) && !is_desired && takes_along
            })
    }

    /// Returns true if it is our route and is to change or go.
    fn is_undesired(&self, name: &IfName, route: &Route) -> bool {
        let Some(routes) = &self.desired.routes else {
            return false;
        };
        self.proof.is_ours(route)
            && !routes
                .get(&route.key())
                .is_some_and(|wanted| wanted.nexthops.devices().any(|dev| dev == name))
    }
}

impl<D> Routes<D> {
    /// Returns the values of the routes to a prefix in a table, with any other key fields but
    /// without a source prefix.
    fn of_prefix(&self, table: u32, dst: Prefix) -> impl Iterator<Item = &Value<D>> {
        let key = RouteKey::new(table, dst);
        let first = match dst.family() {
            Family::Inet => key.with_tos(u8::MAX),
            Family::Inet6 => key,
        };
        let ids: Vec<Id> = match (Packed::of(&first), Packed::of(&key.with_metric(u32::MAX))) {
            (Packed::V4(first), Packed::V4(last)) => {
                self.v4.range(first..=last).map(|(_, id)| *id).collect()
            }
            (Packed::V6(first), Packed::V6(last)) => {
                self.v6.range(first..=last).map(|(_, id)| *id).collect()
            }
            _ => Vec::new(),
        };
        ids.into_iter().filter_map(|id| self.values.get(id)).map(|value| &**value)
    }
}
