//! Routes of both families, and their form in a request.

use crate::message::{u16_at, u32_at};

use super::Origin;
use super::bag::{Bag, Ip, Prefix, ip, width};
use super::numbers::*;
use super::request::Request;

/// Attributes kept outside the bag: those of the key and of the legs.
const TAKEN: [u16; 11] = [
    RTA_DST,
    RTA_SRC,
    RTA_IIF,
    RTA_OIF,
    RTA_GATEWAY,
    RTA_PRIORITY,
    RTA_MULTIPATH,
    RTA_TABLE,
    RTA_VIA,
    RTA_NH_ID,
    RTA_CACHEINFO,
];

/// The key of a list of routes: family, table, destination and source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) family: u8,
    pub(super) table: u32,
    pub(super) dst: Prefix,
    /// `RTA_SRC`, for IPv6 only.
    pub(super) src: Prefix,
}

impl Key {
    pub(super) fn new(family: u8, table: u32, dst: Prefix) -> Self {
        Self { family, table, dst, src: Prefix::default() }
    }
}

/// One route. The next hops of an IPv6 multipath route are separate routes, side by side.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    pub(super) origin: Origin,
    pub(super) tos: u8,
    pub(super) protocol: u8,
    pub(super) scope: u8,
    /// `RTN_*`.
    pub(super) kind: u8,
    pub(super) metric: u32,
    /// `RTNH_F_*` of an IPv4 route as a whole.
    pub(super) flags: u8,
    /// All other attributes.
    pub(super) attrs: Bag,
    /// The next hops; empty if the route uses a nexthop object.
    pub(super) legs: Vec<Leg>,
    /// The id of the nexthop object; 0 if there is none.
    pub(super) nexthop: u32,
}

/// One next hop: a device, and perhaps a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) device: u32,
    pub(super) gateway: Option<Gateway>,
    /// `RTNH_F_*`.
    pub(super) flags: u8,
    pub(super) scope: u8,
    pub(super) weight: u16,
    pub(super) attrs: Bag,
}

/// A gateway's address, of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gateway {
    pub(super) family: u8,
    pub(super) ip: Ip,
}

impl Gateway {
    /// Reads `RTA_VIA` or `RTA_GATEWAY`. An IPv4 gateway of zeros counts as none.
    pub(super) fn read(family: u8, attrs: &Bag) -> Option<Self> {
        let (family, payload) = match attrs.get(RTA_VIA) {
            Some(via) => (u16_at(via.get(..2)?, 0) as u8, via.get(2..)?),
            None => (family, attrs.get(RTA_GATEWAY)?),
        };
        Self::of(family, ip(payload))
    }

    pub(super) fn of(family: u8, ip: Ip) -> Option<Self> {
        (family != INET || ip != [0; 16]).then_some(Self { family, ip })
    }

    fn put(&self, family: u8, attrs: &mut Bag) {
        let ip = &self.ip[..width(self.family)];
        if self.family == family {
            attrs.set(RTA_GATEWAY, ip)
        } else {
            attrs.set(RTA_VIA, [&u16::from(self.family).to_ne_bytes(), ip].concat())
        }
    }
}

impl Leg {
    pub(super) fn to_device(device: u32) -> Self {
        Self { device, weight: 1, ..Self::default() }
    }

    /// Reads the only leg of a request without `RTA_MULTIPATH`.
    fn read(family: u8, flags: u8, attrs: &Bag) -> Self {
        Self {
            gateway: Gateway::read(family, attrs),
            flags,
            ..Self::to_device(attrs.u32(RTA_OIF).unwrap_or(0))
        }
    }

    /// Reads `RTA_MULTIPATH`, up to the first `struct rtnexthop` that does not fit; `common` has
    /// the properties shared by all.
    fn read_hops(family: u8, common: &Self, mut rest: &[u8]) -> Vec<Self> {
        let mut legs = Vec::new();
        while let Some((fixed, _)) = rest.split_at_checked(8)
            && let Some(inner) = rest.get(8..usize::from(u16_at(fixed, 0)))
        {
            let mut leg = Self {
                flags: fixed[2],
                weight: u16::from(fixed[3]) + 1,
                attrs: Bag::read(inner),
                ..Self::to_device(u32_at(fixed, 4))
            };
            leg.gateway = Gateway::read(family, &leg.attrs);
            leg.attrs.remove(&[RTA_GATEWAY, RTA_VIA]);
            if family == INET6 {
                if leg.device == 0 {
                    leg.device = common.device;
                }
                leg.gateway = leg.gateway.or(common.gateway);
                leg.flags |= common.flags & RTNH_F_ONLINK;
            }
            legs.push(leg);
            let next = (8 + inner.len()).next_multiple_of(4);
            rest = rest.get(next..).unwrap_or(&[]);
        }
        legs
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// True if both lead the same way, whatever their status.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.flags ^ other.flags) & !RTNH_STATE == 0
            && (self.device, self.gateway, self.scope, self.weight)
                == (other.device, other.gateway, other.scope, other.weight)
            && self.attrs == other.attrs
    }

    /// Returns the attributes, without the device.
    pub(super) fn bag(&self, family: u8) -> Bag {
        let mut attrs = self.attrs.clone();
        if let Some(gateway) = self.gateway {
            gateway.put(family, &mut attrs);
        }
        attrs
    }
}

/// A route as requested, with unchecked legs.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) key: Key,
    pub(super) route: Route,
    pub(super) is_multipath: bool,
    /// The table in the request. Without one, IPv6 looks for gateways by the rules only.
    pub(super) stated_table: u32,
}

impl Wanted {
    /// Reads a request to add or delete a route.
    pub(super) fn read(request: &Request<'_>) -> Self {
        let attrs = &request.attrs;
        let (header, family) = (request.header, request.family());
        let prefix = |number, length| {
            let address = attrs.get(number).map(ip).unwrap_or_default();
            Prefix::new(address, length)
        };
        let table = attrs.u32(RTA_TABLE).unwrap_or(header[4].into());
        let key = Key {
            family,
            table: if table == 0 { TABLE_MAIN } else { table },
            dst: prefix(RTA_DST, header[1]),
            src: prefix(RTA_SRC, header[2]),
        };
        let nexthop = attrs.u32(RTA_NH_ID).unwrap_or(0);
        let mut legs = vec![Leg::read(family, header[8], attrs)];
        if nexthop != 0 || attrs.has(RTA_MULTIPATH) {
            let hops = attrs.get(RTA_MULTIPATH).unwrap_or(&[]);
            legs = Leg::read_hops(family, &legs[0], hops);
        }
        let mut bag = attrs.clone();
        bag.remove(&TAKEN);
        bag.remove_zeros(&[RTA_PREFSRC]);
        if bag.u32(RTA_EXPIRES) == Some(u32::MAX) {
            bag.remove(&[RTA_EXPIRES]);
        }
        if let Some(mut metrics) = bag.nested(RTA_METRICS) {
            let numbers: Vec<_> = metrics.numbers().collect();
            metrics.remove_zeros(&numbers);
            bag.set(RTA_METRICS, metrics.bytes());
            bag.remove_zeros(&[RTA_METRICS]);
        }
        let is_v4 = family == INET;
        Self {
            key,
            route: Route {
                origin: Origin::default(),
                tos: header[3],
                protocol: header[5],
                scope: if is_v4 { header[6] } else { 0 },
                kind: header[7],
                metric: attrs.u32(RTA_PRIORITY).unwrap_or(0),
                flags: if is_v4 { header[8] & RTNH_F_ONLINK } else { 0 },
                attrs: bag,
                legs,
                nexthop,
            },
            is_multipath: attrs.has(RTA_MULTIPATH),
            stated_table: table,
        }
    }
}

impl Route {
    pub(super) fn prefsrc(&self) -> Option<Ip> {
        self.attrs.get(RTA_PREFSRC).map(ip)
    }

    /// Returns true for an IPv6 route with its own gateway, which can become a sibling of others
    /// (`rt6_qualify_for_ecmp`).
    pub(super) fn may_have_siblings(&self) -> bool {
        self.legs.first().is_some_and(|leg| leg.gateway.is_some())
    }

    /// True if one of its legs uses the device.
    pub(super) fn is_over(&self, device: u32) -> bool {
        self.legs.iter().any(|leg| leg.device == device)
    }
}

/// Returns a route's metrics as a bag.
pub(super) fn metrics(route: &Route) -> Bag {
    route.attrs.nested(RTA_METRICS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_end_at_the_first_that_does_not_fit() {
        let two = [8, 0, 1, 2, 5, 0, 0, 0, 12, 0, 0, 0, 6, 0, 0, 0, 4, 0, 7, 0];
        let read = |bytes| {
            let legs = Leg::read_hops(INET, &Leg::default(), bytes);
            legs.iter().map(|leg| leg.device).collect::<Vec<_>>()
        };
        assert_eq!(read(&two[..]), [5, 6]);
        assert_eq!(read(&two[..19]), [5]);
        assert_eq!(read(&[0; 8]), Vec::<u32>::new());
    }
}
