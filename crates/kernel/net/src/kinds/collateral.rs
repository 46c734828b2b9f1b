//! The ways in which an object is lost: the links that carry it, and the events on them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Object, ObjectKind, Route};
use crate::values::{Dev, Prefix};

/// An event on a link that deletes objects on it.
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
    /// The link leaves its master.
    Port,
}

/// The lookup tables for the links that carry an object.
pub(crate) struct Carriers {
    /// Local addresses, with the devices that have them.
    pub(crate) addresses: BTreeSet<(IpAddr, Dev)>,
    /// The device of each nexthop object.
    pub(crate) nexthops: BTreeMap<u32, Dev>,
    /// The nexthop objects in use by routes and groups. `None` if not all of these are known.
    pub(crate) used_nexthops: Option<BTreeSet<u32>>,
}

/// Objects lost with more than a link: with addresses.
#[derive(Default)]
pub(crate) struct OnAddresses {
    /// IPv4 addresses that follow the first of their subnet.
    pub(crate) secondaries: BTreeMap<(Dev, Prefix), Object>,
    /// IPv4 neighbours, lost with their device's last IPv4 address.
    pub(crate) neighbours: BTreeMap<Dev, Object>,
    /// IPv4 routes, and IPv6 routes with a preferred source.
    pub(crate) routes: Vec<Route>,
}

/// The ways in which the kernel deletes an object along with another.
pub(crate) trait Collateral: ObjectKind {
    /// Returns the links that carry the object.
    fn carriers(&self, _of: &Carriers) -> Vec<Dev> {
        Vec::new()
    }

    /// Returns the events on one of those links that delete the object.
    fn losses(&self) -> &'static [Loss] {
        &[]
    }

    /// Returns true if the object holds nothing but its device's name, so that its loss with the
    /// device is harmless.
    fn only_names_device(&self, _of: &Carriers) -> bool {
        false
    }

    /// Records how the object is lost with an address.
    fn note_addresses(&self, _lost: &mut OnAddresses) {}
}
