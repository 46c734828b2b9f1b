//! [`Row`]: a route in the receive buffer. One walk over the attributes puts the fields that nearly
//! every route has into a [`PlainRoute`], and allocates nothing. Other fields are read only if a
//! caller asks for the whole [`Route`].
//!
//! So comparing a route that is as desired is cheap, and in a large table all are. Only this file
//! and [`super::list`] interpret the attributes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trueup_net::internal::PlainRoute;
use trueup_net::{
    DEFAULT_IPV6_METRIC, Dev, Family, Kind, Metric, Metrics, NextHop, NextHops, Prefix, Route,
    RouteKey, RouteType, Scope,
};

use super::{
    RTA_CACHEINFO, RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_PAD,
    RTA_PREF, RTA_PREFSRC, RTA_PRIORITY, RTA_SRC, RTA_TABLE, RTA_VIA, RTAX_CC_ALGO, RTAX_LOCK,
    RTM_F_CLONED, RTNH_F_ONLINK, RTNH_F_PERVASIVE, RTNH_LEN,
};
use crate::codec::{BROKEN, SHORT, Undecodable, family_from, read_ip_of, take};
use crate::wire::{Attrs, read_ipv4, read_ipv6, read_string, read_u8, read_u16, read_u32};

/// A route from the kernel, borrowed from its message. All fields are in canonical form, as in
/// [`Route::canonical`].
#[derive(Clone, Debug)]
pub struct Row<'a> {
    common: PlainRoute,
    attrs: &'a [u8],
    from_len: u8,
    /// True if there is a list of next hops.
    many: bool,
    /// True if there is a field that [`PlainRoute`] lacks, other than such a list.
    other: bool,
    unmodelled: bool,
}

impl<'a> Row<'a> {
    /// Reads the body of a [`NEW`](super::NEW) or [`DELETE`](super::DELETE) message. Returns `None`
    /// if it is no route here: a cached route, or one of a family other than IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// If the message is too short or lacks the route's identity.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Option<Row<'a>>, Undecodable> {
        let (head, attrs) =
            body.split_first_chunk::<12>().ok_or(Undecodable::whole(Kind::Route, SHORT))?;
        let flags = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
        match family_from(head[0]) {
            _ if flags & RTM_F_CLONED != 0 => Ok(None),
            None => Ok(None),
            Some(Family::Inet) => Row::walk::<Ipv4Addr>(head, attrs).map(Some),
            Some(Family::Inet6) => Row::walk::<Ipv6Addr>(head, attrs).map(Some),
        }
    }

    fn walk<A: Address>(head: &[u8; 12], attrs: &'a [u8]) -> Result<Row<'a>, Undecodable> {
        // The low byte of the flags belongs to the only next hop.
        let [_, len, from_len, tos, table, protocol, scope, kind, flags, ..] = *head;
        let mut common = PlainRoute::new(u32::from(table), A::FAMILY, 0, len);
        common.tos = tos;
        common.kind = RouteType::from_number(kind);
        common.scope = (A::FAMILY == Family::Inet).then_some(Scope(scope));
        common.protocol = protocol;
        common.onlink = flags & RTNH_F_ONLINK != 0;
        let (mut many, mut other) = (false, from_len != 0);
        let mut unmodelled = flags & RTNH_F_PERVASIVE != 0;
        let (mut to, mut from) = (None, None);
        let mut walk = Attrs::new(attrs);
        for (number, payload) in walk.by_ref() {
            // The route's identity must be readable. Other unreadable attributes mark the row.
            match number {
                RTA_TABLE => {
                    common.table = read_u32(payload).ok_or(lost("table", "RTA_TABLE"))?;
                }
                RTA_DST => to = Some(A::read(payload).ok_or(lost("destination", "RTA_DST"))?),
                RTA_SRC => from = Some(A::read(payload).ok_or(lost("source", "RTA_SRC"))?),
                RTA_PRIORITY => {
                    common.metric = read_u32(payload).ok_or(lost("metric", "RTA_PRIORITY"))?;
                }
                RTA_OIF => unmodelled |= !take(&mut common.dev, read_u32(payload).map(device)),
                RTA_GATEWAY => {
                    let via = A::read(payload).map(A::address);
                    unmodelled |= !take(&mut common.via, via.map(Some));
                }
                RTA_VIA => unmodelled |= !take(&mut common.via, read_via(payload).map(Some)),
                RTA_NH_ID => {
                    let id = read_u32(payload).map(|id| (id != 0).then_some(id));
                    unmodelled |= !take(&mut common.object, id);
                }
                RTA_MULTIPATH => many = true,
                RTA_PREFSRC | RTA_METRICS => other = true,
                // `rta_expires`, the struct's third number: the route goes by itself.
                RTA_CACHEINFO => unmodelled |= payload.get(8..12) != Some(&[0; 4]),
                // `ICMPV6_ROUTER_PREF_MEDIUM` is the default.
                RTA_PREF => unmodelled |= read_u8(payload) != Some(0),
                RTA_PAD => {}
                _ => unmodelled = true,
            }
        }
        if walk.malformed() {
            return Err(Undecodable::whole(Kind::Route, BROKEN));
        }

        common.dst = prefix::<A>(to, len).ok_or(lost("prefix", "RTA_DST"))?;
        prefix::<A>(from, from_len).ok_or(lost("prefix", "RTA_SRC"))?;
        if A::FAMILY == Family::Inet6 && common.metric == 0 {
            common.metric = DEFAULT_IPV6_METRIC;
        }
        if common.object.is_some() {
            // An object's next hops are not the route's own.
            (common.via, common.onlink) = (None, false);
        } else if common.kind.is_reject() {
            // IPv6 reports the loopback device.
            (common.via, common.dev, common.onlink) = (None, None, false);
        } else if common.via.is_none() && common.dev.is_none() {
            common.onlink = false;
        }
        Ok(Row { common, attrs, from_len, many, other: other || unmodelled, unmodelled })
    }

    /// Returns the fields common to nearly all routes. Unless the row [is plain](Self::plain), they
    /// are incomplete, and the next hop has no meaning.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn common(&self) -> &PlainRoute {
        &self.common
    }

    /// Returns the whole route, if it is plain.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn plain(&self) -> Option<&PlainRoute> {
        (!self.other && !self.many).then_some(&self.common)
    }

    /// Returns the source prefix. `None` is any source.
    #[must_use]
    pub fn from(&self) -> Option<Prefix> {
        if self.from_len == 0 {
            return None;
        }
        let all = Attrs::new(self.attrs).filter(|(number, _)| *number == RTA_SRC);
        let last = read_ip_of(self.common.family, all.last()?.1)?;
        Prefix::new(last, self.from_len).ok()
    }

    /// Returns the route's identity.
    #[must_use]
    pub fn key(&self) -> RouteKey {
        let mut key = self.common.key();
        key.from = self.from();
        key
    }

    /// Returns the whole route, in canonical form. For a [plain](Self::plain) row without a nexthop
    /// object, this allocates nothing.
    #[must_use]
    pub fn to_route(&self) -> Route {
        let mut route = self.common.to_route();
        if self.plain().is_some() {
            return route;
        }
        route.from = self.from();
        route.unmodelled = self.unmodelled;
        self.read_the_rest(&mut route);
        route.canonical()
    }

    /// Reads the fields that the walk has skipped.
    fn read_the_rest(&self, route: &mut Route) {
        let family = self.common.family;
        let mut many = None;
        for (number, payload) in Attrs::new(self.attrs) {
            let understood = match number {
                RTA_PREFSRC => take(&mut route.src, read_ip_of(family, payload).map(Some)),
                RTA_METRICS => read_metrics(&mut route.metrics, payload),
                RTA_MULTIPATH => take(&mut many, read_hops(family, payload).map(Some)),
                _ => true,
            };
            route.unmodelled |= !understood;
        }
        match (many, self.common.object) {
            (None, _) => {}
            // A route that points at a nexthop object also shows the object's next hops.
            (Some((hops, _)), Some(object)) => {
                let devs = hops.into_iter().filter_map(|hop| hop.dev);
                route.nexthops = NextHops::Object(object, devs.collect());
            }
            (Some((hops, understood)), None) => {
                route.unmodelled |= !understood;
                route.nexthops = NextHops::Many(hops);
            }
        }
    }
}

fn lost(why: &'static str, attribute: &'static str) -> Undecodable {
    Undecodable::new(Kind::Route, why, attribute)
}

/// Returns a device's index, if there is one. No interface has an index of 2^31 or more.
fn device(index: u32) -> Option<u32> {
    (index != 0).then(|| Dev::index(index).as_index()).flatten()
}

/// Returns a prefix's address. Only a prefix of length 0 may lack it.
fn prefix<A: Address>(address: Option<u128>, len: u8) -> Option<u128> {
    let address = match address {
        None if len != 0 => return None,
        address => address.unwrap_or(0),
    };
    let behind = match len {
        len if len > A::LEN => return None,
        len if len == A::LEN => 0,
        len => A::ALL >> len,
    };
    (address & behind == 0).then_some(address)
}

/// The differences between the two families.
trait Address {
    const FAMILY: Family;
    /// The longest prefix length in bits.
    const LEN: u8;
    /// All bits of an address.
    const ALL: u128;
    fn read(payload: &[u8]) -> Option<u128>;
    fn address(bits: u128) -> IpAddr;
}

impl Address for Ipv4Addr {
    const FAMILY: Family = Family::Inet;
    const LEN: u8 = 32;
    const ALL: u128 = u32::MAX as u128;

    fn read(payload: &[u8]) -> Option<u128> {
        let octets = payload.try_into().ok()?;
        Some(u128::from(u32::from_be_bytes(octets)))
    }

    fn address(bits: u128) -> IpAddr {
        // The high bits are zero.
        IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
    }
}

impl Address for Ipv6Addr {
    const FAMILY: Family = Family::Inet6;
    const LEN: u8 = 128;
    const ALL: u128 = u128::MAX;

    fn read(payload: &[u8]) -> Option<u128> {
        payload.try_into().ok().map(u128::from_be_bytes)
    }

    fn address(bits: u128) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    }
}

/// Reads a gateway of either family (`struct rtvia`).
pub(super) fn read_via(payload: &[u8]) -> Option<IpAddr> {
    let (family, address) = payload.split_first_chunk::<2>()?;
    let family = u8::try_from(u16::from_ne_bytes(*family)).ok()?;
    match family_from(family)? {
        Family::Inet => read_ipv4(address).map(IpAddr::V4),
        Family::Inet6 => read_ipv6(address).map(IpAddr::V6),
    }
}

/// Reads several next hops, and returns true with them if all their fields are understood. `None`
/// if the list is malformed.
pub(super) fn read_hops(family: Family, mut rest: &[u8]) -> Option<(Vec<NextHop>, bool)> {
    let mut hops = Vec::new();
    let mut all = true;
    while !rest.is_empty() {
        let length = usize::from(read_u16(rest.get(..2)?)?);
        let attrs = rest.get(RTNH_LEN..length)?;
        let (flags, weight) = (*rest.get(2)?, *rest.get(3)?);
        let index = read_u32(rest.get(4..RTNH_LEN)?)?;
        let mut next = NextHop::default()
            .with_weight(u16::from(weight) + 1)
            .with_onlink(flags & RTNH_F_ONLINK != 0);
        next.dev = (index != 0).then(|| Dev::index(index));
        all &= flags & RTNH_F_PERVASIVE == 0;
        let mut attrs = Attrs::new(attrs);
        for (number, payload) in attrs.by_ref() {
            all &= match number {
                RTA_GATEWAY => take(&mut next.via, read_ip_of(family, payload).map(Some)),
                RTA_VIA => take(&mut next.via, read_via(payload).map(Some)),
                RTA_PAD => true,
                _ => false,
            };
        }
        all &= !attrs.malformed();
        hops.push(next);
        rest = rest.get(crate::wire::align(length)..).unwrap_or(&[]);
    }
    Some((hops, all))
}

/// Adds the metrics of an `RTA_METRICS`. Returns true if all of them are understood.
pub(super) fn read_metrics(metrics: &mut Metrics, payload: &[u8]) -> bool {
    let mut all = true;
    let mut attrs = Attrs::new(payload);
    for (number, payload) in attrs.by_ref() {
        let understood = match (number, Metric::from_number(number)) {
            (_, Some(metric)) => read_u32(payload).map(|value| metrics.set(metric, value)),
            (RTAX_LOCK, _) => read_u32(payload).map(|mask| metrics.set_lock(mask)),
            (RTAX_CC_ALGO, _) => std::str::from_utf8(read_string(payload))
                .ok()
                .map(|name| metrics.set_congctl(Some(name.to_owned()))),
            _ => None,
        };
        all &= understood.is_some();
    }
    all && !attrs.malformed()
}
