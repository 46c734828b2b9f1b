//! [`PlainRoute`] holds the fields that most routes have, in a few integers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::index::{Key6, Packed, key4};
use crate::kinds::{Metrics, NextHop, NextHops, Route, RouteKey, RouteType, Scope};
use crate::values::{Dev, Family, Prefix};

/// A route in canonical form with at most one next hop, contained or by a nexthop object. It has no
/// metrics, preferred source, source prefix, or configuration outside the model.
///
/// A route has this form on its way from a netlink message to the
/// [`DumpMatcher`](crate::internal::DumpMatcher). It is copied, and never allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlainRoute {
    /// The table's number, which may exceed 255.
    pub table: u32,
    /// The family of the destination.
    pub family: Family,
    /// The destination as a number, without host bits.
    pub dst: u128,
    /// The destination's prefix length in bits.
    pub len: u8,
    /// The metric; the lowest wins.
    pub metric: u32,
    /// The type of service, for IPv4.
    pub tos: u8,
    /// How the route treats its packets.
    pub kind: RouteType,
    /// The scope, for IPv4; `None` for IPv6.
    pub scope: Option<Scope>,
    /// The protocol number of the writer (`rtm_protocol`); 116 is trueup's by default.
    pub protocol: u8,
    /// The gateway, or `None` if the destination is on the link.
    pub via: Option<IpAddr>,
    /// The index of the device, if the row has one.
    pub dev: Option<u32>,
    /// True if the gateway counts as on the link although no address says so.
    pub onlink: bool,
    /// The nexthop object that the route points at. Of the object's expansion, only the device is
    /// included.
    pub object: Option<u32>,
}

impl PlainRoute {
    /// Makes a unicast route without a next hop. `dst` is a number without host bits.
    #[inline]
    pub fn new(table: u32, family: Family, dst: u128, len: u8) -> PlainRoute {
        PlainRoute {
            table,
            family,
            dst,
            len,
            metric: 0,
            tos: 0,
            kind: RouteType::Unicast,
            scope: None,
            protocol: 0,
            via: None,
            dev: None,
            onlink: false,
            object: None,
        }
    }

    /// Converts a route in canonical form. Returns `None` if it is not plain.
    pub fn of(route: &Route) -> Option<PlainRoute> {
        let (via, dev, onlink, object) = match &route.nexthops {
            NextHops::None => (None, None, false, None),
            NextHops::One(hop) => (hop.via, hop.dev.and_then(Dev::as_index), hop.onlink, None),
            NextHops::Object(id, devs) => match devs[..] {
                [] => (None, None, false, Some(*id)),
                [dev] => (None, dev.as_index(), false, Some(*id)),
                _ => return None,
            },
            NextHops::Many(_) => return None,
        };
        let more = route.src.is_some() || route.from.is_some() || !route.metrics.is_empty();
        if more || route.unmodelled {
            return None;
        }
        Some(PlainRoute {
            table: route.table,
            family: route.family(),
            dst: match route.dst.address() {
                IpAddr::V4(dst) => u128::from(dst.to_bits()),
                IpAddr::V6(dst) => dst.to_bits(),
            },
            len: route.dst.len(),
            metric: route.metric,
            tos: route.tos,
            kind: route.kind,
            scope: route.scope,
            protocol: route.protocol,
            via,
            dev,
            onlink,
            object,
        })
    }

    /// Makes the route with these fields.
    pub fn to_route(&self) -> Route {
        let dev = self.dev.map(Dev::index);
        let nexthops = match (self.object, self.via, dev) {
            (Some(id), ..) => NextHops::Object(id, dev.into_iter().collect()),
            (None, None, None) => NextHops::None,
            (None, via, dev) => {
                NextHops::One(NextHop { via, dev, found: false, weight: 1, onlink: self.onlink })
            }
        };
        Route {
            table: self.table,
            dst: self.dst(),
            metric: self.metric,
            tos: self.tos,
            from: None,
            kind: self.kind,
            nexthops,
            src: None,
            scope: self.scope,
            metrics: Metrics::default(),
            protocol: self.protocol,
            unmodelled: false,
        }
    }

    /// Returns the route's key.
    pub fn key(&self) -> RouteKey {
        RouteKey {
            table: self.table,
            dst: self.dst(),
            metric: self.metric,
            tos: self.tos,
            from: None,
        }
    }

    /// Returns the destination as a prefix.
    pub fn dst(&self) -> Prefix {
        let address = match self.family {
            // The high bits are zero.
            Family::Inet => IpAddr::V4(Ipv4Addr::from_bits(self.dst as u32)),
            Family::Inet6 => IpAddr::V6(Ipv6Addr::from_bits(self.dst)),
        };
        Prefix::of_parts(address, self.len)
    }

    #[inline]
    pub(super) fn packed(&self) -> Packed {
        match self.family {
            Family::Inet => {
                let dst = self.dst as u32;
                Packed::V4(key4(self.table, dst, self.len, self.tos, self.metric))
            }
            Family::Inet6 => Packed::V6(Key6::new(self.table, self.dst, self.len, self.metric)),
        }
    }
}
