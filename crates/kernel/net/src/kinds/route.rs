//! Routes: one row of a routing table. Their metrics have a file of their own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use metrics::RTAX_CC_ALGO;

use super::{
    Action, Canonical, Carriers, Cleared, Collateral, Dependencies, Depths, Difference, Kind,
    Kinds, Loss, ObjectKind, OnAddresses, Ordered, Provider, Stage, in_place, recreate,
};
use crate::devices::Devices;
use crate::kinds::{Check, must};
use crate::kinds::{Located, Part, Place};
use crate::values::{Dev, Family, Prefix, Protocols};
pub use metrics::{Metric, Metrics};

mod metrics;
pub(crate) mod render;

/// Table numbers with names (`include/uapi/linux/rtnetlink.h`).
pub mod table {
    /// `RT_TABLE_DEFAULT`: looked up after main, and usually empty.
    pub const DEFAULT: u32 = 253;
    /// `RT_TABLE_MAIN`: the default table of a route.
    pub const MAIN: u32 = 254;
    /// `RT_TABLE_LOCAL`: maintained by the kernel.
    pub const LOCAL: u32 = 255;
}

/// The kernel's default metric for an IPv6 route (`IP6_RT_PRIO_USER`).
pub const DEFAULT_IPV6_METRIC: u32 = 1024;

/// How a route treats its packets (`rtm_type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum RouteType {
    /// They go to a next hop.
    #[default]
    Unicast,
    /// They are delivered to this host.
    Local,
    /// They are delivered to this host and sent as a link broadcast.
    Broadcast,
    /// They are delivered to this host if the address is anycast.
    Anycast,
    /// They are copied to the group's receivers (`RTN_MULTICAST`).
    Multicast,
    /// They are silently dropped.
    Blackhole,
    /// They are dropped; the sender receives "host unreachable".
    Unreachable,
    /// They are dropped; the sender receives "administratively prohibited".
    Prohibit,
    /// The lookup continues with the next rule.
    Throw,
    /// Any other `rtm_type` (linux/rtnetlink.h), as the kernel reported it.
    Other(u8),
}

impl RouteType {
    /// The named types, by number from 1, with iproute2's words.
    const NUMBERED: [(RouteType, &str); 9] = [
        (RouteType::Unicast, "unicast"),
        (RouteType::Local, "local"),
        (RouteType::Broadcast, "broadcast"),
        (RouteType::Anycast, "anycast"),
        (RouteType::Multicast, "multicast"),
        (RouteType::Blackhole, "blackhole"),
        (RouteType::Unreachable, "unreachable"),
        (RouteType::Prohibit, "prohibit"),
        (RouteType::Throw, "throw"),
    ];

    /// Returns the type of an `rtm_type` (`RTN_*`); [`Other`](Self::Other) for 0 and from 10 on.
    #[inline]
    pub fn from_number(number: u8) -> RouteType {
        let known = usize::from(number).checked_sub(1).and_then(|at| RouteType::NUMBERED.get(at));
        known.map_or(RouteType::Other(number), |(known, _)| *known)
    }

    /// Returns the kernel's number for the type.
    #[inline]
    pub fn number(self) -> u8 {
        match self {
            RouteType::Unicast => 1,
            RouteType::Local => 2,
            RouteType::Broadcast => 3,
            RouteType::Anycast => 4,
            RouteType::Multicast => 5,
            RouteType::Blackhole => 6,
            RouteType::Unreachable => 7,
            RouteType::Prohibit => 8,
            RouteType::Throw => 9,
            RouteType::Other(number) => number,
        }
    }

    /// Returns true if the route refuses packets or ends the lookup, so that it has no next hop.
    pub fn is_reject(self) -> bool {
        use RouteType::{Blackhole, Prohibit, Throw, Unreachable};
        matches!(self, Blackhole | Unreachable | Prohibit | Throw)
    }

    /// Returns iproute2's word, or `None` if it has none for the type.
    pub fn name(self) -> Option<&'static str> {
        let known = RouteType::NUMBERED.into_iter().find(|(known, _)| *known == self);
        known.map(|(_, name)| name)
    }
}

/// How far away the destination is (`rtm_scope`, `ifa_scope`): 0 universe, 200 site, 253 link,
/// 254 host, 255 nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Scope(pub u8);

impl Scope {
    /// `RT_SCOPE_UNIVERSE`, iproute2's `global`.
    pub const UNIVERSE: Scope = Scope(0);
    /// `RT_SCOPE_SITE`: inside the local site.
    pub const SITE: Scope = Scope(200);
    /// `RT_SCOPE_LINK`: directly on a link.
    pub const LINK: Scope = Scope(253);
    /// `RT_SCOPE_HOST`: this host itself.
    pub const HOST: Scope = Scope(254);
    /// `RT_SCOPE_NOWHERE`: the wildcard of a delete.
    pub const NOWHERE: Scope = Scope(255);
}

/// One of a route's ways to its destination.
///
/// ```
/// use trueup_net::{IfName, NextHop};
///
/// let hop: NextHop<IfName> = NextHop::via("10.1.0.9".parse()?).with_dev("eth0".parse()?);
/// assert_eq!((hop.weight, hop.onlink), (1, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NextHop<D = Dev> {
    /// The gateway, of either family (`RTA_GATEWAY`, `RTA_VIA`).
    pub via: Option<IpAddr>,
    /// The device. If `None`, the kernel finds it from the gateway.
    pub dev: Option<D>,
    /// True if the device was left open and found by the gateway. A route through another device is
    /// not as desired. The device is not written, since the kernel finds it itself.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "std::ops::Not::not"))]
    pub found: bool,
    /// The share among several next hops, 1 to 256 (`rtnh_hops` + 1).
    pub weight: u16,
    /// True if the gateway counts as on the link although no address says so.
    pub onlink: bool,
}

/// No gateway, no device, and weight 1.
impl<D> Default for NextHop<D> {
    fn default() -> NextHop<D> {
        NextHop { via: None, dev: None, found: false, weight: 1, onlink: false }
    }
}

impl<D> NextHop<D> {
    /// Makes a next hop through a gateway. The kernel finds the device.
    pub fn via(gateway: IpAddr) -> NextHop<D> {
        NextHop::default().with_via(gateway)
    }

    /// Makes a next hop straight out of a device.
    pub fn dev(dev: D) -> NextHop<D> {
        NextHop::default().with_dev(dev)
    }

    /// Returns the device to write, or `None` if the kernel is to find it.
    pub fn written_dev(&self) -> Option<&D> {
        self.dev.as_ref().filter(|_| !self.found)
    }
}

setters! { impl NextHop<D> {
    with_via(via: IpAddr);
    with_dev(dev: D);
    /// 1 to 256.
    with_weight(weight: u16);
    with_onlink(onlink: bool);
    with_found(found: bool);
} }

/// The next hops of a route: written in the route, or in a nexthop object that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum NextHops<D = Dev> {
    /// None, for a route that refuses packets or ends the lookup.
    #[default]
    None,
    /// One next hop. Its weight has no meaning.
    One(NextHop<D>),
    /// Several, in the order written. Canonically at least two.
    Many(Vec<NextHop<D>>),
    /// A nexthop object, by id, with the devices to which it leads, as far as the kernel reports
    /// them. Only observed.
    Object(u32, Vec<D>),
}

impl<D> NextHops<D> {
    /// Returns the next hops contained in the route. Empty for an object.
    pub fn as_slice(&self) -> &[NextHop<D>] {
        match self {
            NextHops::None | NextHops::Object(..) => &[],
            NextHops::One(hop) => std::slice::from_ref(hop),
            NextHops::Many(hops) => hops,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [NextHop<D>] {
        match self {
            NextHops::None | NextHops::Object(..) => &mut [],
            NextHops::One(hop) => std::slice::from_mut(hop),
            NextHops::Many(hops) => hops,
        }
    }

    /// Returns their devices, as far as the kernel reports them.
    pub fn devices(&self) -> impl Iterator<Item = &D> {
        let of_object = match self {
            NextHops::Object(_, devs) => devs.as_slice(),
            _ => &[],
        };
        let of_hops = self.as_slice().iter().filter_map(|hop| hop.dev.as_ref());
        of_hops.chain(of_object)
    }

    /// Returns the canonical form: a list of one becomes that one, an empty list none, and a single
    /// weight 1.
    #[must_use]
    pub fn canonical(self) -> NextHops<D> {
        match self {
            NextHops::Many(mut hops) if hops.len() < 2 => {
                hops.pop().map_or(NextHops::None, |hop| NextHops::One(hop.with_weight(1)))
            }
            NextHops::One(hop) => NextHops::One(hop.with_weight(1)),
            other => other,
        }
    }

    /// Translates the device references to another type.
    fn try_map_dev<F, E>(
        self,
        mut translate: impl FnMut(D) -> Result<F, E>,
    ) -> Result<NextHops<F>, E> {
        let mut one = |hop: NextHop<D>| {
            Ok(NextHop {
                via: hop.via,
                dev: hop.dev.map(&mut translate).transpose()?,
                found: hop.found,
                weight: hop.weight,
                onlink: hop.onlink,
            })
        };
        Ok(match self {
            NextHops::None => NextHops::None,
            NextHops::One(hop) => NextHops::One(one(hop)?),
            NextHops::Many(hops) => {
                NextHops::Many(hops.into_iter().map(one).collect::<Result<_, E>>()?)
            }
            NextHops::Object(id, devs) => {
                NextHops::Object(id, devs.into_iter().map(translate).collect::<Result<_, E>>()?)
            }
        })
    }
}

impl NextHop {
    /// Returns true if another next hop has the same gateway, and the same device if this one names
    /// one.
    pub(crate) fn is_same_way(&self, other: &NextHop) -> bool {
        self.via == other.via && (self.dev.is_none() || self.dev == other.dev)
    }

    /// Returns true if an observed next hop is as desired.
    #[inline]
    fn agrees(&self, observed: &NextHop) -> bool {
        (self.via, self.weight, self.onlink) == (observed.via, observed.weight, observed.onlink)
            && (self.dev.is_none() || self.dev == observed.dev)
    }
}

impl NextHops {
    /// Copies `onlink` from next hops in `other` with the same gateway and device.
    fn with_open_of(&self, other: &NextHops) -> NextHops {
        let mut nexthops = self.clone();
        for hop in nexthops.as_mut_slice() {
            let same = other.as_slice().iter().find(|other| hop.is_same_way(other));
            hop.onlink |= same.is_some_and(|it| it.onlink);
        }
        nexthops
    }

    /// Returns true if the observed next hops are the desired ones, in any order. The kernel keeps
    /// the given order, but balances the same in each. An open device matches any.
    fn agrees(&self, observed: &NextHops) -> bool {
        match (self, observed) {
            (NextHops::Object(a, _), NextHops::Object(b, _)) => return a == b,
            (NextHops::Object(..), _) | (_, NextHops::Object(..)) => return false,
            _ => {}
        }
        let (desired, observed) = (self.as_slice(), observed.as_slice());
        if desired.len() != observed.len() {
            return false;
        }
        if desired.iter().zip(observed).all(|(desired, observed)| desired.agrees(observed)) {
            return true;
        }
        // Next hops with a device choose first, and those without one take the rest.
        let mut left: Vec<&NextHop> = observed.iter().collect();
        let (named, open): (Vec<_>, Vec<_>) = desired.iter().partition(|hop| hop.dev.is_some());
        named.into_iter().chain(open).all(|hop| {
            let found = left.iter().position(|observed| hop.agrees(observed));
            found.map(|at| left.swap_remove(at)).is_some()
        })
    }
}

/// A route. `D` names its devices: [`Dev`] if indexed, [`crate::IfName`] if authored.
///
/// ```
/// use trueup_net::{IfName, NextHop, NextHops, Route};
///
/// let hop = NextHop::via("10.1.0.9".parse()?).with_dev("eth0".parse()?);
/// let route: Route<IfName> = Route::new("10.2.0.0/16".parse()?, NextHops::One(hop))
///     .with_table(100)
///     .with_src("10.1.0.1".parse()?);
/// assert_eq!((route.table, route.metric, route.scope), (100, 0, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Route<D = Dev> {
    /// The table's number, which may exceed 255 (`RTA_TABLE`).
    pub table: u32,
    /// The destination, which also gives the family.
    pub dst: Prefix,
    /// The metric (`RTA_PRIORITY`); the lowest wins. With 0, an IPv6 route gets 1024.
    pub metric: u32,
    /// The type of service, for IPv4 (`rtm_tos`).
    pub tos: u8,
    /// The source prefix, for IPv6 (`RTA_SRC`).
    pub from: Option<Prefix>,
    /// How the route treats its packets.
    pub kind: RouteType,
    /// The ways to the destination; none for a blackhole and the like.
    pub nexthops: NextHops<D>,
    /// The preferred source address (`RTA_PREFSRC`). `None` leaves the choice to the kernel.
    pub src: Option<IpAddr>,
    /// The scope, for IPv4. If `None`, it follows from type and gateway.
    pub scope: Option<Scope>,
    /// The MTU and the other metrics.
    pub metrics: Metrics,
    /// The writer's protocol (`rtm_protocol`). A desired route has the marker.
    pub protocol: u8,
    /// True if the kernel reports configuration that this model lacks, such as an encapsulation or
    /// an expiry. Never set on a desired route, so the two never agree.
    pub unmodelled: bool,
}

impl<D> Route<D> {
    /// Makes a unicast route through `nexthops`, in table main.
    pub fn new(dst: Prefix, nexthops: NextHops<D>) -> Route<D> {
        Route {
            table: table::MAIN,
            dst,
            metric: 0,
            tos: 0,
            from: None,
            kind: RouteType::Unicast,
            nexthops,
            src: None,
            scope: None,
            metrics: Metrics::default(),
            protocol: 0,
            unmodelled: false,
        }
    }

    /// Makes a route of another type, in table main, without a next hop.
    pub fn of_type(kind: RouteType, dst: Prefix) -> Route<D> {
        Route { kind, ..Route::new(dst, NextHops::None) }
    }

    /// Translates the device references to another type.
    ///
    /// # Errors
    ///
    /// Returns the error of `translate`.
    pub fn try_map_dev<F, E>(
        self,
        translate: impl FnMut(D) -> Result<F, E>,
    ) -> Result<Route<F>, E> {
        Ok(Route {
            table: self.table,
            dst: self.dst,
            metric: self.metric,
            tos: self.tos,
            from: self.from,
            kind: self.kind,
            nexthops: self.nexthops.try_map_dev(translate)?,
            src: self.src,
            scope: self.scope,
            metrics: self.metrics,
            protocol: self.protocol,
            unmodelled: self.unmodelled,
        })
    }

    /// Returns the destination's family.
    pub fn family(&self) -> Family {
        self.dst.family()
    }

    /// Returns the key as the kernel would report it. It does not depend on devices.
    pub fn canonical_key(&self) -> RouteKey {
        RouteKey {
            table: self.table,
            dst: self.dst,
            metric: match (self.family(), self.metric) {
                (Family::Inet6, 0) => DEFAULT_IPV6_METRIC,
                (_, metric) => metric,
            },
            tos: self.tos,
            from: self.from.filter(|from| !from.is_default()),
        }
    }

    /// Replaces the key.
    #[must_use]
    pub(crate) fn with_key(self, key: RouteKey) -> Route<D> {
        let RouteKey { table, dst, metric, tos, from } = key;
        Route { table, dst, metric, tos, from, ..self }
    }

    /// Returns the route as the kernel would report it:
    ///
    /// - An IPv6 metric of 0 becomes 1024 (`IP6_RT_PRIO_USER`).
    /// - An IPv6 route has no scope, and the kernel reports universe. An IPv4 route's scope follows
    ///   from type and gateway.
    /// - A reject route has no next hop, though IPv6 reports the loopback device.
    /// - A list of one next hop becomes that next hop. A source prefix of length 0 becomes none.
    #[must_use]
    pub fn canonical(mut self) -> Route<D> {
        if self.kind.is_reject() && !matches!(self.nexthops, NextHops::Object(..)) {
            self.nexthops = NextHops::None;
        }
        self.nexthops = self.nexthops.canonical();
        let RouteKey { metric, from, .. } = self.canonical_key();
        (self.metric, self.from) = (metric, from);
        match self.family() {
            Family::Inet6 => self.scope = None,
            Family::Inet => self.scope = Some(self.scope.unwrap_or(self.default_scope())),
        }
        self
    }

    /// Returns iproute2's default scope for an IPv4 route.
    fn default_scope(&self) -> Scope {
        match self.kind {
            RouteType::Local => Scope::HOST,
            RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast => Scope::LINK,
            RouteType::Unicast => {
                let hops = self.nexthops.as_slice();
                let direct = !hops.is_empty() && hops.iter().all(|hop| hop.via.is_none());
                if direct { Scope::LINK } else { Scope::UNIVERSE }
            }
            _ => Scope::UNIVERSE,
        }
    }
}

setters! { impl Route<D> {
    with_table(table: u32);
    with_metric(metric: u32);
    with_tos(tos: u8);
    with_from(from: Prefix);
    with_kind(kind: RouteType);
    with_nexthops(nexthops: NextHops<D>);
    with_src(src: IpAddr);
    with_scope(scope: Scope);
    with_metrics(metrics: Metrics);
    with_protocol(protocol: u8);
    with_unmodelled(unmodelled: bool);
} }

/// A route's identity. IPv4 and IPv6 never share a key, since their destinations differ. The order
/// is that of the kernel's dump of a table.
///
/// ```
/// use trueup_net::{NextHops, ObjectKind as _, Route, RouteKey, RouteType};
///
/// let dst = "10.2.0.0/16".parse()?;
/// let route: Route = Route::new(dst, NextHops::None).with_kind(RouteType::Blackhole);
/// assert_eq!(route.key(), RouteKey::new(254, dst)); // table main
/// assert_ne!(route.with_metric(7).key(), RouteKey::new(254, dst)); // another route
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RouteKey {
    /// The table's number, which may exceed 255.
    pub table: u32,
    /// The destination, which also gives the family.
    pub dst: Prefix,
    /// The metric (`RTA_PRIORITY`), 0 to 4294967295. Of routes to one destination, the lowest wins.
    pub metric: u32,
    /// The type of service, for IPv4.
    pub tos: u8,
    /// The source prefix of an IPv6 route (`RTA_SRC`). `None` is any source.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub from: Option<Prefix>,
}

impl RouteKey {
    /// Makes a key without metric, type of service and source prefix.
    #[inline]
    pub fn new(table: u32, dst: Prefix) -> RouteKey {
        RouteKey { table, dst, metric: 0, tos: 0, from: None }
    }
}

setters! { impl RouteKey {
    with_metric(metric: u32);
    with_tos(tos: u8);
    with_from(from: Prefix);
} }

impl Route {
    /// Returns the devices that the route is deleted with: those it leads to. For an IPv6 route
    /// that refuses packets it is the loopback device (`ip6_route_info_create`), whose index is
    /// always 1.
    pub fn carriers(&self) -> impl Iterator<Item = Dev> {
        let on_loopback = self.kind.is_reject() && self.family() == Family::Inet6;
        let loopback = on_loopback.then_some(Dev::index(1));
        self.nexthops.devices().copied().chain(loopback)
    }
}

impl Located for Route {
    const PARTS: &'static [Part] = &[Part::Interfaces, Part::Tables, Part::Prefixes];

    fn place(&self) -> Place {
        Place::default().with_devices(self.devices()).with_table(self.table).with_prefix(self.dst)
    }
}

impl ObjectKind for Route {
    type Key = RouteKey;
    const KIND: Kind = Kind::Route;
    const NAME: &'static str = "route";

    fn key(&self) -> RouteKey {
        let Route { table, dst, metric, tos, from, .. } = *self;
        RouteKey { table, dst, metric, tos, from }
    }

    fn compare(
        desired: Canonical<&Route>,
        observed: Canonical<&Route>,
        differ: &mut dyn FnMut(Difference),
    ) {
        // A local route may cover the gateways of its replacement. While it exists, they count as
        // local, and the kernel refuses them.
        let was_local = observed.kind == RouteType::Local;
        let kind = if was_local { recreate } else { in_place };
        kind(desired.kind == observed.kind, "type", differ);
        in_place(desired.nexthops.agrees(&observed.nexthops), "nexthops", differ);
        in_place(desired.src == observed.src, "src", differ);
        in_place(desired.scope == observed.scope, "scope", differ);
        in_place(desired.metrics == observed.metrics, "metrics", differ);
        in_place(desired.unmodelled == observed.unmodelled, "attributes unknown here", differ);
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }

    fn bearing(mut self, protocol: u8) -> Route {
        self.protocol = protocol;
        self
    }

    fn devices(&self) -> Vec<Dev> {
        self.nexthops.devices().copied().collect()
    }

    fn canonical_on(self, _devices: &Devices) -> Route {
        self.canonical()
    }

    fn is_canonical_on(&self, _devices: &Devices) -> bool {
        let has_hops = match &self.nexthops {
            NextHops::None | NextHops::Object(..) => true,
            NextHops::One(hop) => hop.weight == 1 && !self.kind.is_reject(),
            NextHops::Many(hops) => hops.len() > 1 && !self.kind.is_reject(),
        };
        let is_of_family = self.scope.is_some() == (self.family() == Family::Inet);
        let has_metric = self.metric != 0 || self.family() == Family::Inet;
        let has_from = self.from.is_none_or(|from| !from.is_default());
        has_hops && is_of_family && has_metric && has_from
    }

    /// Of IPv4 routes with the same key the kernel uses the first (`fib_table_lookup`), of IPv6
    /// routes any.
    fn is_hidden_by_first(&self) -> bool {
        self.family() == Family::Inet
    }

    fn is_kernels_own(&self, _unstored: Kinds) -> bool {
        Protocols::DERIVED.contains(self.protocol)
    }

    /// A scope that follows from type and gateway is open. So are `onlink`, and an undeclared
    /// preferred source or metric.
    fn with_open_of(&self, other: &Route) -> Cow<'_, Route> {
        let unscoped = Route { scope: None, ..self.clone() };
        let follows = self.scope == unscoped.canonical().scope;
        Cow::Owned(Route {
            src: self.src.or(other.src),
            scope: if follows { other.scope } else { self.scope },
            metrics: self.metrics.with_open_of(&other.metrics),
            nexthops: self.nexthops.with_open_of(&other.nexthops),
            ..self.clone()
        })
    }

    fn is_recorded(&self, owned: &BTreeMap<RouteKey, u8>) -> bool {
        !owned.is_empty() && owned.get(&self.key()) == Some(&self.protocol)
    }

    fn short_name(&self) -> String {
        self.dst.to_string()
    }
}

impl Collateral for Route {
    fn carriers(&self, of: &Carriers) -> Vec<Dev> {
        let mut devices: Vec<Dev> = Route::carriers(self).collect();
        // The route can also be lost with the device of its source.
        if let Some(src) = self.src {
            let holders = of.addresses.range((src, Dev::index(0))..);
            devices.extend(holders.take_while(|(ip, _)| *ip == src).map(|(_, dev)| *dev));
        }
        devices
    }

    fn losses(&self) -> &'static [Loss] {
        use Loss::{Carrier, Delete, Down, Ipv4, Ipv6};
        match (self.family(), self.nexthop_id()) {
            (Family::Inet, None) => &[Delete, Down, Ipv4],
            (Family::Inet6, None) => &[Delete, Down, Ipv6],
            (Family::Inet, Some(_)) => &[Delete, Down, Carrier, Ipv4],
            (Family::Inet6, Some(_)) => &[Delete, Down, Carrier, Ipv6],
        }
    }

    fn note_addresses(&self, lost: &mut OnAddresses) {
        if self.family() == Family::Inet || self.src.is_some() {
            lost.routes.push(self.clone());
        }
    }
}

impl Route {
    /// Returns the number of the nexthop object that the route points at.
    pub(crate) fn nexthop_id(&self) -> Option<u32> {
        match self.nexthops {
            NextHops::Object(id, _) => Some(id),
            _ => None,
        }
    }

    /// Returns the nexthop object that the route no longer points at after an op. `was` is the
    /// route before.
    pub(crate) fn nexthop_left(&self, action: Action, was: Option<&Route>) -> Option<u32> {
        match action {
            Action::Create => None,
            Action::Update => was?.nexthop_id(),
            Action::Delete => self.nexthop_id(),
        }
    }
}

impl Route {
    /// Returns true if the route leads straight out of a device, so that it may make gateways
    /// reachable.
    fn is_on_device(&self) -> bool {
        let hops = self.nexthops.as_slice();
        !hops.is_empty() && hops.iter().all(|hop| hop.via.is_none())
    }
}

impl Ordered for Route {
    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage {
        if action != Action::Delete {
            return if self.is_on_device() { Stage::DeviceRoutes } else { Stage::Routes };
        }
        let mut devices = self.nexthops.as_slice().iter().filter_map(|hop| hop.dev);
        if anew || devices.any(|dev| cleared.devs.contains(&dev)) {
            Stage::ClearRoutes
        } else if self.is_on_device() {
            Stage::DropDeviceRoutes
        } else {
            Stage::DropRoutes
        }
    }

    /// By prefix length, then by family: the longest prefixes are created first and deleted last.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let is_v6 = self.family() == Family::Inet6;
        let length = i64::from(self.dst.len()) * 2 + i64::from(is_v6);
        match stage {
            Stage::DeviceRoutes | Stage::Routes => -length,
            _ => length,
        }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            // The old route stays until the new one exists.
            let made = before.broken.get(&(self.table, self.dst));
            needed.extend(made.copied().flatten());
            return;
        }
        if let Some(src) = self.src {
            before.need_local(src, needed);
        }
        needed.extend(self.nexthop_id().and_then(|id| before.nexthops.get(&id)));
        for hop in self.nexthops.as_slice() {
            before.need_hop(hop, needed);
        }
    }

    fn provide(&self, action: Action, was: Option<&Route>, at: u32, after: &mut Dependencies<'_>) {
        if !after.leaving.is_empty()
            && let Some(id) = self.nexthop_left(action, was)
        {
            after.leave(id, at);
        }
        if action == Action::Delete {
            return;
        }
        if !after.broken.is_empty()
            && let Some(made) = after.broken.get_mut(&(self.table, self.dst))
        {
            made.get_or_insert(at);
        }
        let hops = self.nexthops.as_slice().iter();
        for hop in hops.filter(|hop| hop.via.is_none()) {
            after.provide_prefix(hop.dev, self.dst, Provider::Op(at));
        }
    }
}

impl<D> Check for Route<D> {
    fn check(&self) -> Result<(), &'static str> {
        let family = self.family();
        let hops = self.nexthops.as_slice();
        must(self.table != 0, "table 0 is unspecified: use 254 for main")?;
        must(self.tos == 0 || family == Family::Inet, "IPv6 routes have no tos")?;
        must(
            self.from.is_none() || family == Family::Inet6,
            "a source prefix (`from`) is for IPv6 routes alone",
        )?;
        must(
            self.from.is_none_or(|from| from.family() == family),
            "source and destination prefix are of different families",
        )?;
        must(
            self.src.is_none_or(|src| Family::of(src) == family),
            "the preferred source is of another family than the destination",
        )?;
        must(
            self.src.is_none_or(|src| !src.is_unspecified()),
            "the unspecified address is no source: leave `src` out",
        )?;
        must(!self.unmodelled, "an observed route of unknown attributes cannot be desired")?;
        must(
            !matches!(self.nexthops, NextHops::Object(..)),
            "a route through a nexthop object cannot be desired",
        )?;
        must(
            !self.metrics.locks_nothing(),
            "a metric is locked that has no value: give it one, or leave the lock out",
        )?;
        match self.kind {
            RouteType::Unicast => {
                must(!hops.is_empty(), "a unicast route needs via, dev or nexthops")?
            }
            RouteType::Local => {}
            kind if kind.is_reject() => {
                must(hops.is_empty(), "a route of this type has neither gateway nor device")?;
            }
            _ => {
                return Err(
                    "only unicast, local, blackhole, unreachable, prohibit and throw can be desired",
                );
            }
        }
        for hop in hops {
            must(
                hop.via.is_some() || hop.dev.is_some(),
                "a next hop needs a gateway, a device or both",
            )?;
            must((1..=256).contains(&hop.weight), "the weight of a next hop is 1 to 256")?;
            must(
                hop.via.is_none_or(|via| Family::of(via) == family || family == Family::Inet),
                "an IPv6 route cannot have an IPv4 gateway",
            )?;
            // IPv4 treats it as no gateway (`fib_nh_init`); IPv6 refuses it.
            must(
                hop.via.is_none_or(|via| !via.is_unspecified()),
                "the unspecified address is no gateway: leave `via` out",
            )?;
            must(
                !hop.onlink || (hop.via.is_some() && hop.dev.is_some()),
                "onlink needs both a gateway and a device",
            )?;
        }
        Ok(())
    }
}
