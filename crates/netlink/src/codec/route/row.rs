//! [`Row`]: a route as it stands in the receive buffer. One walk over the attributes puts what
//! nearly every route says into a few integers, and allocates nothing; the rest is left where it
//! is until someone asks for the whole [`Route`].
//!
//! This is what makes it cheap to look at a route that is as it should be, which in a large table
//! are all of them. What the attributes mean is said here and in [`super::list`], nowhere else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trueup_diff::{
    Dev, Family, Kind, Metrics, NextHop, NextHops, PlainRoute, Prefix, Route, RouteKey, RouteType,
    Scope,
};

use super::list::{read_hops, read_metrics, read_via};
use super::{
    RTA_CACHEINFO, RTA_DST, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_PAD,
    RTA_PREF, RTA_PREFSRC, RTA_PRIORITY, RTA_SRC, RTA_TABLE, RTA_VIA, RTM_F_CLONED, RTNH_F_ONLINK,
    RTNH_F_PERVASIVE, type_from,
};
use crate::codec::{BROKEN, SHORT, Undecodable, family_from, read_ip_of, take};
use crate::wire::{Attrs, read_u8, read_u32};

/// The metric of an IPv6 route that names none (`IP6_RT_PRIO_USER`).
const IPV6_METRIC: u32 = 1024;

/// One route of the kernel's, borrowed from the message that told it. All that it says is in
/// canonical form, as [`Route::canonical`] has it.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    address: u128,
    /// The gateway as a number; of which family says `via_family`.
    via: u128,
    attrs: &'a [u8],
    table: u32,
    metric: u32,
    dev: u32,
    object: u32,
    family: Family,
    via_family: Option<Family>,
    len: u8,
    from_len: u8,
    tos: u8,
    scope: u8,
    kind: u8,
    protocol: u8,
    onlink: bool,
    many: bool,
    other: bool,
    unmodelled: bool,
}

/// The only next hop of a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The gateway, of either family.
    pub via: Option<IpAddr>,
    /// The interface index; 0 is none.
    pub dev: u32,
    /// The gateway is taken to be on the link although no address says so.
    pub onlink: bool,
}

impl<'a> Row<'a> {
    /// Reads the body of a [`NEW`](super::NEW) or [`DELETE`](super::DELETE) message. `None` is a
    /// message about something that is no route here: a cached route, or one of another family
    /// than IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// When the message is too short or does not say what identifies the route.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Option<Row<'a>>, Undecodable> {
        let (head, attrs) = body
            .split_first_chunk::<12>()
            .ok_or(Undecodable::new(Kind::Route, SHORT))?;
        let flags = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
        match family_from(head[0]) {
            _ if flags & RTM_F_CLONED != 0 => Ok(None),
            None => Ok(None),
            Some(Family::Inet) => Row::walk::<Ipv4Addr>(head, attrs).map(Some),
            Some(Family::Inet6) => Row::walk::<Ipv6Addr>(head, attrs).map(Some),
        }
    }

    fn walk<A: Address>(head: &[u8; 12], attrs: &'a [u8]) -> Result<Row<'a>, Undecodable> {
        let lost = |why| Undecodable::new(Kind::Route, why);
        // The low byte of the flags is the only next hop's.
        let [
            _,
            len,
            from_len,
            tos,
            table,
            protocol,
            scope,
            kind,
            flags,
            ..,
        ] = *head;
        let mut row = Row {
            address: 0,
            via: 0,
            attrs,
            table: u32::from(table),
            metric: 0,
            dev: 0,
            object: 0,
            family: A::FAMILY,
            via_family: None,
            len,
            from_len,
            tos,
            scope,
            kind,
            protocol,
            onlink: flags & RTNH_F_ONLINK != 0,
            many: false,
            other: from_len != 0,
            unmodelled: flags & RTNH_F_PERVASIVE != 0,
        };
        let (mut to, mut from) = (None, None);
        let mut walk = Attrs::new(attrs);
        for (number, payload) in walk.by_ref() {
            // What identifies the route must be readable; what else is not, is told by a mark.
            match number {
                RTA_TABLE => row.table = read_u32(payload).ok_or(lost("table"))?,
                RTA_DST => to = Some(A::read(payload).ok_or(lost("destination"))?),
                RTA_SRC => from = Some(A::read(payload).ok_or(lost("source"))?),
                RTA_PRIORITY => row.metric = read_u32(payload).ok_or(lost("metric"))?,
                RTA_OIF => row.unmodelled |= !take(&mut row.dev, read_u32(payload)),
                RTA_GATEWAY => match A::read(payload) {
                    Some(via) => (row.via, row.via_family) = (via, Some(A::FAMILY)),
                    None => row.unmodelled = true,
                },
                RTA_VIA => match read_via(payload) {
                    Some(via) => (row.via, row.via_family) = (bits(via), Some(Family::of(via))),
                    None => row.unmodelled = true,
                },
                RTA_NH_ID => row.unmodelled |= !take(&mut row.object, read_u32(payload)),
                RTA_MULTIPATH => row.many = true,
                RTA_PREFSRC | RTA_METRICS => row.other = true,
                // `rta_expires`, the third of the struct's numbers: it goes by itself.
                RTA_CACHEINFO => row.unmodelled |= payload.get(8..12) != Some(&[0; 4]),
                // `ICMPV6_ROUTER_PREF_MEDIUM` says nothing.
                RTA_PREF => row.unmodelled |= read_u8(payload) != Some(0),
                RTA_PAD => {}
                _ => row.unmodelled = true,
            }
        }
        if walk.malformed() {
            return Err(lost(BROKEN));
        }

        row.address = prefix::<A>(to, len).ok_or(lost("prefix"))?;
        prefix::<A>(from, from_len).ok_or(lost("prefix"))?;
        if A::FAMILY == Family::Inet6 && row.metric == 0 {
            row.metric = IPV6_METRIC;
        }
        row.other |= row.unmodelled;
        Ok(row)
    }

    /// The address family.
    #[must_use]
    #[inline]
    pub fn family(&self) -> Family {
        self.family
    }

    /// The table's number, above 255 too.
    #[must_use]
    #[inline]
    pub fn table(&self) -> u32 {
        self.table
    }

    /// The destination's address as a number, most significant byte first; an IPv4 address is in
    /// the low 32 bits.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u128 {
        self.address
    }

    /// The destination's prefix length. No bits of [`address`](Self::address) are set behind it.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a prefix length, not a count of items"
    )]
    #[must_use]
    #[inline]
    pub fn len(&self) -> u8 {
        self.len
    }

    /// The type of service.
    #[must_use]
    #[inline]
    pub fn tos(&self) -> u8 {
        self.tos
    }

    /// The metric; for IPv6 never 0.
    #[must_use]
    #[inline]
    pub fn metric(&self) -> u32 {
        self.metric
    }

    /// The source prefix; `None` is any source.
    #[must_use]
    pub fn from(&self) -> Option<Prefix> {
        if self.from_len == 0 {
            return None;
        }
        let all = Attrs::new(self.attrs).filter(|(number, _)| *number == RTA_SRC);
        let last = read_ip_of(self.family, all.last()?.1)?;
        Prefix::new(last, self.from_len).ok()
    }

    /// The type.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> RouteType {
        type_from(self.kind)
    }

    /// The scope; `None` for IPv6, which has none.
    #[must_use]
    #[inline]
    pub fn scope(&self) -> Option<Scope> {
        (self.family == Family::Inet).then_some(Scope(self.scope))
    }

    /// Who installed it.
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether the accessors say all there is: one next hop or none, written out, no source
    /// prefix, no preferred source, no metrics, nothing that is not modelled.
    #[must_use]
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.other && !self.many && self.object == 0
    }

    /// The only next hop of a row that [is plain](Self::is_plain). `None` for a route without one,
    /// as all reject routes are, though IPv6 reports the loopback device; and for a row that is not
    /// plain.
    #[must_use]
    #[inline]
    pub fn hop(&self) -> Option<Hop> {
        Some(self.one()).filter(|_| self.is_plain() && self.leads() && !self.kind().is_reject())
    }

    /// All that a row says, if it has nothing beside what most have.
    #[must_use]
    #[inline]
    pub fn plain(&self) -> Option<PlainRoute> {
        if self.other || self.many {
            return None;
        }
        let leads = self.leads() && (self.object != 0 || !self.kind().is_reject());
        let object = (self.object != 0).then_some(self.object);
        // What an object leads to is not the route's to say.
        let hop = leads.then(|| self.one());
        let own = hop.filter(|_| object.is_none());
        Some(PlainRoute {
            table: self.table(),
            dst: self.address(),
            family: self.family(),
            len: self.len(),
            metric: self.metric(),
            tos: self.tos(),
            kind: self.kind(),
            scope: self.scope(),
            protocol: self.protocol(),
            via: own.and_then(|hop| hop.via),
            // No interface has an index of 2^31 or more, and no route keeps one.
            dev: hop
                .filter(|hop| hop.dev != 0)
                .and_then(|hop| Dev::index(hop.dev).as_index()),
            onlink: own.is_some_and(|hop| hop.onlink),
            object,
        })
    }

    /// What identifies the route.
    #[must_use]
    pub fn key(&self) -> RouteKey {
        RouteKey {
            table: self.table,
            dst: self.dst(),
            metric: self.metric,
            tos: self.tos,
            from: self.from(),
        }
    }

    /// The whole route, in canonical form. Of a [plain](Self::is_plain) row it takes no allocation.
    #[must_use]
    pub fn to_route(&self) -> Route {
        let mut route = Route {
            table: self.table,
            dst: self.dst(),
            metric: self.metric,
            tos: self.tos,
            from: self.from(),
            kind: self.kind(),
            nexthops: NextHops::None,
            src: None,
            scope: self.scope(),
            metrics: Metrics::default(),
            protocol: self.protocol,
            unmodelled: self.unmodelled,
        };
        if self.is_plain() {
            if let Some(hop) = self.hop() {
                route.nexthops = NextHops::One(hop.into());
            }
            return route;
        }
        self.read_the_rest(&mut route);
        route.canonical()
    }

    /// What the walk has left where it is.
    fn read_the_rest(&self, route: &mut Route) {
        let mut many = None;
        for (number, payload) in Attrs::new(self.attrs) {
            let understood = match number {
                RTA_PREFSRC => take(&mut route.src, read_ip_of(self.family, payload).map(Some)),
                RTA_METRICS => read_metrics(&mut route.metrics, payload),
                RTA_MULTIPATH => take(&mut many, read_hops(self.family, payload).map(Some)),
                _ => true,
            };
            route.unmodelled |= !understood;
        }
        let hop = NextHop::from(self.one());
        route.nexthops = match many {
            // A route that uses a nexthop object shows what that expands to beside it.
            Some((hops, _)) if self.object != 0 => {
                let devs = hops.into_iter().filter_map(|hop| hop.dev);
                NextHops::Object(self.object, devs.collect())
            }
            None if self.object != 0 => {
                NextHops::Object(self.object, hop.dev.into_iter().collect())
            }
            Some((hops, understood)) => {
                route.unmodelled |= !understood;
                NextHops::Many(hops)
            }
            None if self.leads() => NextHops::One(hop),
            None => NextHops::None,
        };
    }

    /// Whether there is a next hop outside of a list.
    fn leads(&self) -> bool {
        self.dev != 0 || self.via_family.is_some()
    }

    /// The next hop that is outside of a list.
    fn one(&self) -> Hop {
        Hop {
            via: self.via_family.map(|family| address(family, self.via)),
            dev: self.dev,
            onlink: self.onlink,
        }
    }

    fn dst(&self) -> Prefix {
        let address = address(self.family, self.address);
        // It is one: `walk` has seen to that.
        Prefix::new(address, self.len).unwrap_or(Prefix::host(address))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(family: Family, bits: u128) -> IpAddr {
    match family {
        // The high bits are zero.
        Family::Inet => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        Family::Inet6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

/// The address of a prefix of so many bits: only one of length 0 goes without.
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

impl From<Hop> for NextHop {
    fn from(hop: Hop) -> NextHop {
        NextHop {
            via: hop.via,
            dev: (hop.dev != 0).then(|| Dev::index(hop.dev)),
            weight: 1,
            onlink: hop.onlink,
        }
    }
}

/// What the two families do differently.
trait Address {
    const FAMILY: Family;
    /// The longest prefix length.
    const LEN: u8;
    /// All bits of an address.
    const ALL: u128;
    fn read(payload: &[u8]) -> Option<u128>;
}

impl Address for Ipv4Addr {
    const FAMILY: Family = Family::Inet;
    const LEN: u8 = 32;
    const ALL: u128 = u32::MAX as u128;

    fn read(payload: &[u8]) -> Option<u128> {
        let octets = payload.try_into().ok()?;
        Some(u128::from(u32::from_be_bytes(octets)))
    }
}

impl Address for Ipv6Addr {
    const FAMILY: Family = Family::Inet6;
    const LEN: u8 = 128;
    const ALL: u128 = u128::MAX;

    fn read(payload: &[u8]) -> Option<u128> {
        payload.try_into().ok().map(u128::from_be_bytes)
    }
}
