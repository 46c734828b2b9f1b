//! [`WatchScope`]: the events that a monitor reports.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use trueup_net::{Kind, Kinds, Route, RouteKey};

/// The objects whose changes a monitor reports. A monitor may report more: a narrower scope only
/// saves work.
///
/// A set that is `None` includes everything. A device that does not exist yet has no index. When it
/// appears, the links become dirty with any index.
///
/// ```
/// use trueup_net::{Kind, Kinds};
/// use trueup_observe::WatchScope;
///
/// let scope = WatchScope::new(Kinds::NONE.with(Kind::Route), 116);
/// assert_eq!(scope.protocol, 116);
/// assert!(scope.devices.is_none()); // any device
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchScope {
    /// The managed kinds. Links are always included, for the names of the devices.
    pub kinds: Kinds,
    /// The marker: the protocol number of our objects, 116 by default.
    pub protocol: u8,
    /// The kinds whose foreign objects are included too: ours do not have the protocol, or a
    /// foreign one conflicts with ours.
    pub any_protocol: Kinds,
    /// The devices whose links, addresses and neighbours are included, by interface index.
    pub devices: Option<BTreeSet<u32>>,
    /// The devices that our routes use, or would use. The kernel removes routes with their device,
    /// and a new address can make a route possible. So the links and addresses of these devices are
    /// included for any managed kinds.
    pub route_devices: Option<BTreeSet<u32>>,
    /// The preferred sources of our routes. With such an address the kernel removes an IPv4 route,
    /// and an IPv6 route's source.
    pub route_sources: Option<BTreeSet<IpAddr>>,
    /// The gateways whose devices the kernel finds: a route straight to one of them may lead there
    /// by another device.
    pub gateways: Option<BTreeSet<IpAddr>>,
    /// The nexthop objects that our routes use.
    pub nexthops: Option<BTreeSet<u32>>,
    /// The keys of the included foreign routes, if `any_protocol` contains routes.
    pub foreign_routes: Option<Arc<BTreeSet<RouteKey>>>,
}

impl WatchScope {
    /// Returns the scope of our objects of these kinds, on every device.
    pub fn new(kinds: Kinds, protocol: u8) -> WatchScope {
        WatchScope {
            kinds,
            protocol,
            any_protocol: Kinds::NONE,
            devices: None,
            route_devices: None,
            route_sources: None,
            gateways: None,
            nexthops: None,
            foreign_routes: None,
        }
    }

    /// Returns the scope in which a change of any object of any writer counts.
    pub fn everything() -> WatchScope {
        WatchScope { any_protocol: Kinds::ALL, ..WatchScope::new(Kinds::ALL, 0) }
    }

    pub(crate) fn includes_routes(&self) -> bool {
        self.kinds.contains(Kind::Route)
    }

    /// Returns true if foreign objects of a kind are included.
    pub(crate) fn includes_foreign(&self, kind: Kind) -> bool {
        self.any_protocol.contains(kind)
    }

    /// Returns true if the links, addresses and neighbours of a device are included.
    pub(crate) fn covers_device(&self, index: u32) -> bool {
        includes(&self.devices, &index)
    }

    /// Returns true if a route may lead to a gateway whose device the kernel finds.
    pub(crate) fn leads_to_gateway(&self, route: &Route) -> bool {
        match &self.gateways {
            Some(gateways) => gateways.iter().any(|via| route.direct_device(*via).is_some()),
            None => route.direct_device(route.dst.address()).is_some(),
        }
    }

    /// Returns true if our routes depend on a device.
    pub(crate) fn covers_route_device(&self, index: u32) -> bool {
        self.includes_routes() && includes(&self.route_devices, &index)
    }
}

/// Returns true if a set of a scope includes a member.
pub(crate) fn includes<T: Ord>(set: &Option<BTreeSet<T>>, member: &T) -> bool {
    set.as_ref().is_none_or(|set| set.contains(member))
}
