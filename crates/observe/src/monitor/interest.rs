//! What of all that happens in a namespace matters.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trueup_diff::{Kind, Kinds, RouteKey};

/// What matters. Less is only ever a matter of cost: what is named here is told, and more may be.
///
/// Of a set that is `None` any member matters. A device that is to be created has no index yet; that it appeared makes the
/// links doubtful, whatever its index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchScope {
    /// The kinds that are managed. Links matter always: they give the devices their names.
    pub kinds: Kinds,
    /// The protocol that our objects bear.
    pub protocol: u8,
    /// The kinds of which foreign objects matter too: ours do not bear the protocol, or a foreign one is in the way.
    pub any_protocol: Kinds,
    /// The devices whose links, addresses and neighbours matter, by interface index.
    pub devices: Option<BTreeSet<u32>>,
    /// The devices that routes of ours lead through, or would: the routes go with them, and may come with an address. So
    /// their links and addresses are named too, whichever kinds are managed.
    pub route_devices: Option<BTreeSet<u32>>,
    /// The preferred sources of our routes: an IPv4 route goes with the address, an IPv6 route loses it.
    pub route_sources: Option<BTreeSet<IpAddr>>,
    /// The nexthop objects that our routes lead through.
    pub nexthops: Option<BTreeSet<u32>>,
    /// Where foreign routes matter (`any_protocol`): those on these keys.
    pub foreign_routes: Option<BTreeSet<RouteKey>>,
}

impl WatchScope {
    /// In our objects of these kinds, on whatever device.
    pub fn new(kinds: Kinds, protocol: u8) -> WatchScope {
        WatchScope {
            kinds,
            protocol,
            any_protocol: Kinds::NONE,
            devices: None,
            route_devices: None,
            route_sources: None,
            nexthops: None,
            foreign_routes: None,
        }
    }

    /// In everything.
    pub fn everything() -> WatchScope {
        WatchScope {
            any_protocol: Kinds::ALL,
            ..WatchScope::new(Kinds::ALL, 0)
        }
    }

    pub(crate) fn routes(&self) -> bool {
        self.kinds.contains(Kind::Route)
    }

    /// Whether foreign objects of a kind matter.
    pub(crate) fn any(&self, kind: Kind) -> bool {
        self.any_protocol.contains(kind)
    }

    /// Whether what is on a device matters for itself.
    pub(crate) fn of_device(&self, index: u32) -> bool {
        has(&self.devices, &index)
    }

    /// Whether routes may go with a device.
    pub(crate) fn of_route_device(&self, index: u32) -> bool {
        self.routes() && has(&self.route_devices, &index)
    }
}

/// Whether a member of a set matters.
pub(crate) fn has<T: Ord>(set: &Option<BTreeSet<T>>, member: &T) -> bool {
    set.as_ref().is_none_or(|set| set.contains(member))
}
