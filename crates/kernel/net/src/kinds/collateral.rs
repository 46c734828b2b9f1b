//! What an object is lost with: the links that carry it, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Object, ObjectKind, Route};
use crate::values::{Dev, Prefix};

/// How an object on a link can be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// The link is deleted.
    Delete,
    /// The link goes down.
    Down,
    /// The link loses its carrier.
    Carrier,
    /// The link gets another hardware address (`neigh_changeaddr`).
    Address,
    /// The MTU is too small for IPv4.
    Ipv4,
    /// The MTU is too small for IPv6.
    Ipv6,
    /// The link is a port no longer.
    Port,
}

/// What to look up for the links that carry an object.
pub(crate) struct Carriers {
    /// Local addresses, and the devices that have them.
    pub(crate) addresses: BTreeSet<(IpAddr, Dev)>,
    /// The devices that nexthop objects lead out of.
    pub(crate) nexthops: BTreeMap<u32, Dev>,
    /// The nexthop objects that routes and groups use; `None` if not all of these are known.
    pub(crate) used_nexthops: Option<BTreeSet<u32>>,
}

/// What is lost otherwise than with a link alone.
#[derive(Default)]
pub(crate) struct OnAddresses {
    /// IPv4 addresses that follow the first of their subnet.
    pub(crate) secondaries: BTreeMap<(Dev, Prefix), Object>,
    /// IPv4 neighbours, which go with the last IPv4 address of their device.
    pub(crate) neighbours: BTreeMap<Dev, Object>,
    /// IPv4 routes, and IPv6 routes with a preferred source.
    pub(crate) routes: Vec<Route>,
}

/// What the kernel may take along with something else.
pub(crate) trait Collateral: ObjectKind {
    /// The links that carry the object.
    fn carriers(&self, _of: &Carriers) -> Vec<Dev> {
        Vec::new()
    }

    /// The ways in which the object is lost with one of them.
    fn losses(&self) -> &'static [Loss] {
        &[]
    }

    /// Returns true if the object says nothing but the name of its device: nobody misses it if it
    /// goes along with that.
    fn only_names_device(&self, _of: &Carriers) -> bool {
        false
    }

    /// Notes how the object is lost with an address.
    fn note_addresses(&self, _lost: &mut OnAddresses) {}
}
