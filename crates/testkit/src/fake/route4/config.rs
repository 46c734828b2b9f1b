//! A request for an IPv4 route taken apart (`rtm_to_fib_config`).

use crate::message::{attributes, u32_at};

use super::super::policy::{Policy, Shape};
use super::super::request::{EINVAL, EOPNOTSUPP, Refusal, Request};
use super::{
    RTA_DPORT, RTA_DST, RTA_ENCAP, RTA_ENCAP_TYPE, RTA_FLOW, RTA_GATEWAY, RTA_IIF, RTA_IP_PROTO,
    RTA_MARK, RTA_METRICS, RTA_MULTIPATH, RTA_NH_ID, RTA_OIF, RTA_PREFSRC, RTA_PRIORITY, RTA_SPORT,
    RTA_SRC, RTA_TABLE, RTA_UID, RTA_VIA, RTN_MAX, TABLE_MAIN,
};

pub(super) const POLICY: Policy = Policy {
    shapes: &[
        (RTA_DST, Shape::U32),
        (RTA_SRC, Shape::U32),
        (RTA_IIF, Shape::U32),
        (RTA_OIF, Shape::U32),
        (RTA_GATEWAY, Shape::U32),
        (RTA_PRIORITY, Shape::U32),
        (RTA_PREFSRC, Shape::U32),
        (RTA_METRICS, Shape::Nested),
        (RTA_MULTIPATH, Shape::AtLeast(8)),
        (RTA_FLOW, Shape::U32),
        (RTA_ENCAP_TYPE, Shape::U16),
        (RTA_ENCAP, Shape::Nested),
        (RTA_UID, Shape::U32),
        (RTA_MARK, Shape::U32),
        (RTA_TABLE, Shape::U32),
        (RTA_IP_PROTO, Shape::U8),
        (RTA_SPORT, Shape::U16),
        (RTA_DPORT, Shape::U16),
        (RTA_NH_ID, Shape::U32),
    ],
    max: 31, // RTA_FLOWLABEL
    strict_from: RTA_DPORT + 1,
};

/// Where a leg leads beyond its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gateway {
    #[default]
    None,
    V4([u8; 4]),
    /// Of an IPv4 route: `RTA_VIA`.
    V6([u8; 16]),
}

/// `struct fib_config`.
#[derive(Clone, Debug, Default)]
pub(super) struct Config<'a> {
    pub(super) length: u8,
    /// In host order.
    pub(super) dst: u32,
    /// The byte of the header: the bits of congestion notification are 0.
    pub(super) tos: u8,
    pub(super) table: u32,
    pub(super) protocol: u8,
    pub(super) scope: u8,
    /// `RTN_*`.
    pub(super) kind: u8,
    pub(super) flags: u32,
    /// `NLM_F_*` of the request.
    pub(super) request: u16,
    pub(super) oif: u32,
    pub(super) gateway: Gateway,
    pub(super) priority: u32,
    pub(super) source: [u8; 4],
    pub(super) metrics: Option<&'a [u8]>,
    pub(super) multipath: Option<&'a [u8]>,
    pub(super) realm: u32,
    pub(super) nexthop: u32,
}

pub(super) const fn refused(words: &'static str) -> Refusal {
    Refusal::errno(EINVAL).because(words)
}

impl<'a> Config<'a> {
    pub(super) fn parse(request: &Request<'a>) -> Result<Self, Refusal> {
        let (header, attrs) = request.parts::<12>().map_err(|_| EINVAL)?;
        POLICY.check(attrs, false)?;
        let [_, length, _, tos, table, protocol, scope, kind, ..] = *header;
        if tos & 3 != 0 {
            return Err(refused("Invalid dsfield (tos): ECN bits must be 0"));
        }
        if kind > RTN_MAX {
            return Err(refused("Invalid route type"));
        }
        let mut config = Self {
            length,
            tos,
            table: table.into(),
            protocol,
            scope,
            kind,
            flags: u32_at(header, 8),
            request: request.flags,
            ..Self::default()
        };
        let both = config.attributes(attrs.bytes)?;
        if config.length > 32 {
            return Err(refused("Invalid prefix length"));
        }
        if config.length < 32 && config.dst << config.length != 0 {
            return Err(refused("Invalid prefix for given prefix length"));
        }
        let named = config.oif != 0 || config.gateway != Gateway::None;
        if config.nexthop != 0 && (named || config.multipath.is_some()) {
            return Err(refused(
                "Nexthop specification and nexthop id are mutually exclusive",
            ));
        }
        if both {
            return Err(refused(
                "Nexthop configuration can not contain both GATEWAY and VIA",
            ));
        }
        if config.table == 0 {
            config.table = TABLE_MAIN;
        }
        Ok(config)
    }

    /// Each in turn, so that of two the last counts; tells whether there were gateways in both ways.
    fn attributes(&mut self, bytes: &'a [u8]) -> Result<bool, Refusal> {
        let (mut has_gateway, mut has_via) = (false, false);
        for (number, payload) in attributes(bytes) {
            let word = || payload.first_chunk::<4>().copied().unwrap_or_default();
            let value = || u32::from_ne_bytes(word());
            match number {
                RTA_DST => self.dst = u32::from_be_bytes(word()),
                RTA_OIF => self.oif = value(),
                RTA_GATEWAY => {
                    has_gateway = true;
                    // Once there is one, a second of zeros is one of zeros, not none.
                    if word() != [0; 4] || matches!(self.gateway, Gateway::V4(_)) {
                        self.gateway = Gateway::V4(word());
                    }
                }
                RTA_VIA => {
                    has_via = true;
                    self.gateway = via(payload)?;
                }
                RTA_PRIORITY => self.priority = value(),
                RTA_PREFSRC => self.source = word(),
                RTA_METRICS => self.metrics = Some(payload),
                RTA_MULTIPATH => self.multipath = Some(payload),
                RTA_FLOW => self.realm = value(),
                RTA_TABLE => self.table = value(),
                RTA_NH_ID => self.nexthop = value(),
                RTA_ENCAP | RTA_ENCAP_TYPE => return Err(EOPNOTSUPP.into()),
                _ => {}
            }
        }
        Ok(has_gateway && has_via)
    }
}

/// `fib_gw_from_via`.
pub(super) fn via(payload: &[u8]) -> Result<Gateway, Refusal> {
    let Some((family, address)) = payload.split_first_chunk::<2>() else {
        return Err(refused("Invalid attribute length for RTA_VIA"));
    };
    match u16::from_ne_bytes(*family) {
        2 => match address.try_into() {
            Ok(address) => Ok(Gateway::V4(address)),
            Err(_) => Err(refused("Invalid IPv4 address in RTA_VIA")),
        },
        10 => match address.try_into() {
            Ok(address) => Ok(Gateway::V6(address)),
            Err(_) => Err(refused("Invalid IPv6 address in RTA_VIA")),
        },
        _ => Err(refused("Unsupported address family in RTA_VIA")),
    }
}

/// One `struct rtnexthop` of `RTA_MULTIPATH`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop<'a> {
    pub(super) flags: u8,
    /// Less one.
    pub(super) weight: u8,
    pub(super) device: u32,
    pub(super) attributes: &'a [u8],
}

impl<'a> Hop<'a> {
    /// The first one, and what is behind it; `None` when it does not fit.
    pub(super) fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[a, b, flags, weight, c, d, e, f], _) = bytes.split_first_chunk::<8>()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let hop = Self {
            flags,
            weight,
            device: u32::from_ne_bytes([c, d, e, f]),
            attributes: bytes.get(8..length)?,
        };
        let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((hop, rest))
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// `EINVAL` when bytes are left over.
    pub(super) fn all(mut bytes: &'a [u8]) -> Result<Vec<Self>, Refusal> {
        let mut all = Vec::new();
        while let Some((hop, rest)) = Self::first(bytes) {
            all.push(hop);
            bytes = rest;
        }
        if !bytes.is_empty() || all.is_empty() {
            return Err(refused(
                "Invalid nexthop configuration - extra data after nexthops",
            ));
        }
        Ok(all)
    }

    /// The first attribute with this number, as `nla_find`.
    fn find(&self, number: u16) -> Option<&'a [u8]> {
        let mut found = attributes(self.attributes).filter(|(n, _)| *n == number);
        found.next().map(|(_, payload)| payload)
    }

    /// `None` where the leg says nothing of a gateway; one of zeros is [`Gateway::None`].
    pub(super) fn gateway(&self) -> Result<Option<Gateway>, Refusal> {
        match (self.find(RTA_GATEWAY), self.find(RTA_VIA)) {
            (Some(_), Some(_)) => Err(refused(
                "Nexthop configuration can not contain both GATEWAY and VIA",
            )),
            (Some(payload), None) => match payload.first_chunk::<4>() {
                Some([0, 0, 0, 0]) => Ok(Some(Gateway::None)),
                Some(address) => Ok(Some(Gateway::V4(*address))),
                None => Err(refused("Invalid IPv4 address in RTA_GATEWAY")),
            },
            (None, Some(payload)) => via(payload).map(Some),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn realm(&self) -> Result<Option<u32>, Refusal> {
        match self.find(RTA_FLOW).map(<[u8]>::first_chunk::<4>) {
            Some(Some(realm)) => Ok(Some(u32::from_ne_bytes(*realm))),
            Some(None) => Err(refused("Invalid RTA_FLOW")),
            None => Ok(None),
        }
    }

    pub(super) fn has_via(&self) -> bool {
        self.find(RTA_VIA).is_some()
    }

    pub(super) fn is_tunnel(&self) -> bool {
        self.find(RTA_ENCAP).is_some() || self.find(RTA_ENCAP_TYPE).is_some()
    }
}
