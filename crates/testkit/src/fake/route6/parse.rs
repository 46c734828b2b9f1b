//! What a request about a route asks for (`rtm_to_fib6_config`).

use super::super::policy::{Policy, Shape};
use super::super::request::{Attributes, EINVAL, EOPNOTSUPP, Refusal, Request};
use super::prefix::Prefix;
use super::table::{Key, RTF_EXPIRES, RTF_LOCAL, RTF_REJECT, RTNH_F_ONLINK, preference_flags};
use crate::message::{attributes, u16_at, u32_at};

// linux/rtnetlink.h
pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_SRC: u16 = 2;
pub(crate) const RTA_IIF: u16 = 3;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
pub(crate) const RTA_PRIORITY: u16 = 6;
pub(crate) const RTA_PREFSRC: u16 = 7;
pub(crate) const RTA_METRICS: u16 = 8;
pub(crate) const RTA_MULTIPATH: u16 = 9;
pub(crate) const RTA_CACHEINFO: u16 = 12;
pub(crate) const RTA_TABLE: u16 = 15;
pub(crate) const RTA_MARK: u16 = 16;
const RTA_VIA: u16 = 18;
pub(crate) const RTA_PREF: u16 = 20;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_EXPIRES: u16 = 23;
pub(crate) const RTA_UID: u16 = 25;
pub(crate) const RTA_IP_PROTO: u16 = 27;
pub(crate) const RTA_SPORT: u16 = 28;
pub(crate) const RTA_DPORT: u16 = 29;
pub(crate) const RTA_NH_ID: u16 = 30;
pub(crate) const RTA_FLOWLABEL: u16 = 31;

pub(crate) const RTN_UNICAST: u8 = 1;
pub(crate) const RTN_LOCAL: u8 = 2;
pub(crate) const RTN_MULTICAST: u8 = 5;
pub(crate) const RTN_BLACKHOLE: u8 = 6;
const RTN_UNREACHABLE: u8 = 7;
const RTN_PROHIBIT: u8 = 8;
const RTN_THROW: u8 = 9;
/// `RTN_MAX`.
const RTN_XRESOLVE: u8 = 11;

pub(crate) const RTPROT_KERNEL: u8 = 2;
pub(crate) const RTPROT_BOOT: u8 = 3;
/// `IP6_RT_PRIO_USER` and `IP6_RT_PRIO_ADDRCONF`: the metrics of a route that was given none.
pub(crate) const METRIC_USER: u32 = 1024;
pub(crate) const METRIC_ADDRCONF: u32 = 256;

const RTM_F_CLONED: u32 = 0x200;
const EVER: u32 = u32::MAX;

/// `rtm_ipv6_policy`.
pub(crate) const POLICY: Policy = Policy {
    shapes: &[
        (RTA_GATEWAY, Shape::AtLeast(16)),
        (RTA_PREFSRC, Shape::AtLeast(16)),
        (RTA_OIF, Shape::U32),
        (RTA_IIF, Shape::U32),
        (RTA_PRIORITY, Shape::U32),
        (RTA_METRICS, Shape::Nested),
        (RTA_MULTIPATH, Shape::AtLeast(8)),
        (RTA_PREF, Shape::U8),
        (RTA_ENCAP_TYPE, Shape::U16),
        (RTA_ENCAP, Shape::Nested),
        (RTA_EXPIRES, Shape::U32),
        (RTA_UID, Shape::U32),
        (RTA_MARK, Shape::U32),
        (RTA_TABLE, Shape::U32),
        (RTA_IP_PROTO, Shape::U8),
        (RTA_SPORT, Shape::U16),
        (RTA_DPORT, Shape::U16),
        (RTA_NH_ID, Shape::U32),
        (RTA_FLOWLABEL, Shape::U32),
    ],
    max: RTA_FLOWLABEL,
    strict_from: RTA_NH_ID,
};

/// `struct fib6_config`.
#[derive(Clone, Debug)]
pub(crate) struct Config<'a> {
    pub(crate) table: u32,
    /// As sent: it may be above 128.
    pub(crate) destination_length: u8,
    pub(crate) source_length: u8,
    pub(crate) key: Key,
    /// The destination before it is masked.
    pub(crate) destination: [u8; 16],
    pub(crate) protocol: u8,
    pub(crate) kind: u8,
    /// `RTF_*`.
    pub(crate) flags: u32,
    pub(crate) onlink: bool,
    /// The kernel's own cache of a route, not the route.
    pub(crate) cloned: bool,
    /// 0 is any.
    pub(crate) device: u32,
    pub(crate) gateway: Option<[u8; 16]>,
    pub(crate) metric: u32,
    pub(crate) preferred_source: [u8; 16],
    pub(crate) metrics: Option<Attributes<'a>>,
    pub(crate) multipath: Option<&'a [u8]>,
    /// 0 is none.
    pub(crate) object: u32,
    pub(crate) lifetime: u32,
    pub(crate) weight: u16,
    /// The route of an address: its link need not be up.
    pub(crate) even_down: bool,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Self {
            table: 0,
            destination_length: 0,
            source_length: 0,
            key: Key {
                destination: Prefix::default(),
                source: Prefix::default(),
            },
            destination: [0; 16],
            protocol: 0,
            kind: 0,
            flags: 0,
            onlink: false,
            cloned: false,
            device: 0,
            gateway: None,
            metric: 0,
            preferred_source: [0; 16],
            metrics: None,
            multipath: None,
            object: 0,
            lifetime: 0,
            weight: 1,
            even_down: false,
        }
    }
}

/// One leg of `RTA_MULTIPATH`, `struct rtnexthop`.
pub(crate) struct Hop<'a> {
    flags: u8,
    /// The weight less one.
    hops: u8,
    device: u32,
    /// The first attribute of that number, however long.
    gateway: Option<&'a [u8]>,
}

/// The legs up to the first that does not fit.
pub(crate) fn hops(mut rest: &[u8]) -> impl Iterator<Item = Hop<'_>> {
    std::iter::from_fn(move || {
        let fixed = rest.get(..8)?;
        let length = usize::from(u16_at(fixed, 0));
        let hop = rest.get(..length).filter(|hop| hop.len() >= 8)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        let mut inner = attributes(&hop[8..]);
        Some(Hop {
            flags: fixed[2],
            hops: fixed[3],
            device: u32_at(fixed, 4),
            gateway: inner.find(|(n, _)| *n == RTA_GATEWAY).map(|(_, p)| p),
        })
    })
}

impl<'a> Config<'a> {
    /// Takes a request apart.
    ///
    /// # Errors
    ///
    /// As the policy has it; `EINVAL` for what IPv6 does not know (`rtm_tos`, `RTA_VIA`, `RTA_FLOWLABEL`), for an object
    /// beside a way out, for prefixes shorter than their length and for malformed legs. `EOPNOTSUPP` for encapsulation,
    /// which the fake does not have.
    pub(crate) fn read(request: &Request<'a>, new: bool) -> Result<Self, Refusal> {
        let (header, attrs) = request.parts::<12>()?;
        POLICY.check(attrs, false)?;
        let refuse = |words| Err(Refusal::errno(EINVAL).because(words));
        let [
            _,
            destination_length,
            source_length,
            tos,
            table,
            protocol,
            _,
            kind,
            ..,
        ] = *header;
        if tos != 0 {
            return refuse("Invalid dsfield (tos): option not available for IPv6");
        }
        if attrs.get(RTA_FLOWLABEL).is_some() {
            return refuse("Flow label cannot be specified for this operation");
        }
        let header_flags = u32_at(header, 8);
        let mut config = Self {
            table: attrs.u32(RTA_TABLE).unwrap_or(table.into()),
            destination_length,
            source_length,
            protocol,
            kind,
            onlink: header_flags & u32::from(RTNH_F_ONLINK) != 0,
            cloned: header_flags & RTM_F_CLONED != 0,
            ..Self::default()
        };
        if matches!(
            kind,
            RTN_BLACKHOLE | RTN_UNREACHABLE | RTN_PROHIBIT | RTN_THROW
        ) {
            config.flags |= RTF_REJECT;
        }
        if kind == RTN_LOCAL {
            config.flags |= RTF_LOCAL;
        }
        if let Some(object) = attrs.u32(RTA_NH_ID) {
            let others = [RTA_GATEWAY, RTA_OIF, RTA_MULTIPATH, RTA_ENCAP];
            if others.iter().any(|other| attrs.get(*other).is_some()) {
                return refuse("Nexthop specification and nexthop id are mutually exclusive");
            }
            config.object = object;
        }
        config.gateway = attrs.array(RTA_GATEWAY);
        if attrs.get(RTA_VIA).is_some() {
            return refuse("IPv6 does not support RTA_VIA attribute");
        }
        config.destination = address(attrs, RTA_DST, destination_length)?;
        let source = address(attrs, RTA_SRC, source_length)?;
        config.key = Key {
            destination: Prefix::new(config.destination, destination_length),
            source: Prefix::new(source, source_length),
        };
        config.preferred_source = attrs.array(RTA_PREFSRC).unwrap_or_default();
        config.device = attrs.u32(RTA_OIF).unwrap_or(0);
        config.metric = attrs.u32(RTA_PRIORITY).unwrap_or(0);
        config.metrics = attrs.nested(RTA_METRICS);
        config.multipath = attrs.get(RTA_MULTIPATH);
        if let Some(multipath) = config.multipath {
            config.check_hops(multipath, new)?;
        }
        if let Some(preference) = attrs.u8(RTA_PREF) {
            config.flags |= preference_flags(match preference {
                1 | 3 => preference,
                _ => 0,
            });
        }
        if attrs.get(RTA_ENCAP).is_some() || attrs.get(RTA_ENCAP_TYPE).is_some() {
            return Err(EOPNOTSUPP.into());
        }
        if let Some(lifetime) = attrs.u32(RTA_EXPIRES).filter(|lifetime| *lifetime != EVER) {
            config.flags |= RTF_EXPIRES;
            config.lifetime = lifetime;
        }
        Ok(config)
    }

    /// `rtm_to_fib6_multipath_config`.
    fn check_hops(&self, multipath: &[u8], new: bool) -> Result<(), Refusal> {
        let mut any = false;
        for hop in hops(multipath) {
            any = true;
            if hop.gateway.is_some_and(|gateway| gateway.len() < 16) {
                let words = "Invalid IPv6 address in RTA_GATEWAY";
                return Err(Refusal::errno(EINVAL).because(words));
            }
            if new
                && (self.object != 0
                    || hop
                        .gateway
                        .or(self.gateway.as_ref().map(|g| &g[..]))
                        .is_none())
            {
                let words = "Device only routes can not be added for IPv6 using the multipath API.";
                return Err(Refusal::errno(EINVAL).because(words));
            }
        }
        if any {
            return Ok(());
        }
        let words = "Invalid nexthop configuration - no valid nexthops";
        Err(Refusal::errno(EINVAL).because(words))
    }

    /// What one leg asks for, with what all legs have in common.
    pub(crate) fn of_hop(&self, hop: &Hop<'_>) -> Self {
        let mut config = self.clone();
        if hop.device != 0 {
            config.device = hop.device;
        }
        if let Some(gateway) = hop.gateway.and_then(|gateway| gateway.first_chunk::<16>()) {
            config.gateway = Some(*gateway);
        }
        config.onlink |= hop.flags & RTNH_F_ONLINK != 0;
        config.weight = u16::from(hop.hops) + 1;
        config
    }

    /// `fib6_config_validate`: what a route that is added must not be.
    pub(crate) fn validate(&self) -> Result<(), Refusal> {
        let refuse = |words| Err(Refusal::errno(EINVAL).because(words));
        if self.cloned {
            return refuse("Userspace can not set RTF_CACHE");
        }
        if self.kind > RTN_XRESOLVE {
            return refuse("Invalid route type");
        }
        if self.destination_length > 128 {
            return refuse("Invalid prefix length");
        }
        if self.source_length > 128 {
            return refuse("Invalid source address length");
        }
        if self.object != 0 && self.source_length > 0 {
            return refuse("Nexthops can not be used with source routing");
        }
        Ok(())
    }
}

/// So many bytes as the length needs; the rest is zero.
fn address(attrs: Attributes<'_>, number: u16, length: u8) -> Result<[u8; 16], Refusal> {
    let needed = usize::from(length).div_ceil(8);
    let mut address = [0; 16];
    if let Some(payload) = attrs.get(number) {
        let given = payload.get(..needed).ok_or(EINVAL)?;
        for (to, from) in address.iter_mut().zip(given) {
            *to = *from;
        }
    }
    Ok(address)
}
