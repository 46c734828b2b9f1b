//! IPv4 addresses (`net/ipv4/devinet.c`).
//!
//! Lifetimes do not run, and joining multicast groups (`IFA_F_MCAUTOJOIN`) does nothing beyond the check of the address.

mod kernel;
mod list;
mod row;

use std::collections::BTreeMap;

use crate::message::u32_at;

use super::policy::{Policy, Shape};
use super::request::{
    Attributes, EADDRNOTAVAIL, EEXIST, EINVAL, ENOBUFS, ENODEV, NLM_F_EXCL, NLM_F_REPLACE, Refusal,
    Request,
};
use super::state::State;

/// What there is: the addresses of each link in the kernel's order. A link whose MTU was below 68 once has no place for
/// any.
#[derive(Default)]
pub(crate) struct Addresses4 {
    pub(crate) all: BTreeMap<u32, Vec<Address4>>,
    /// `net.ipv4.conf.all.promote_secondaries` and the like of each link.
    promote_all: bool,
    promote_default: bool,
    promote: BTreeMap<u32, bool>,
}

/// One address, `struct in_ifaddr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address4 {
    pub(crate) local: [u8; 4],
    /// `ifa_address`: the other end, or the same as `local`.
    pub(crate) peer: [u8; 4],
    pub(crate) length: u8,
    pub(crate) broadcast: Option<[u8; 4]>,
    pub(crate) scope: u8,
    /// `IFA_F_*`.
    pub(crate) flags: u32,
    pub(crate) label: Vec<u8>,
    /// `IFA_PROTO`; 0 is none.
    pub(crate) protocol: u8,
    /// `IFA_RT_PRIORITY`: the metric of the routes made for it.
    pub(crate) metric: u32,
    pub(crate) preferred: u32,
    pub(crate) valid: u32,
}

// linux/if_addr.h
pub(crate) const IFA_F_SECONDARY: u32 = 0x01;
pub(crate) const IFA_F_NODAD: u32 = 0x02;
pub(crate) const IFA_F_OPTIMISTIC: u32 = 0x04;
pub(crate) const IFA_F_HOMEADDRESS: u32 = 0x10;
pub(crate) const IFA_F_DEPRECATED: u32 = 0x20;
pub(crate) const IFA_F_TENTATIVE: u32 = 0x40;
pub(crate) const IFA_F_PERMANENT: u32 = 0x80;
pub(crate) const IFA_F_MANAGETEMPADDR: u32 = 0x100;
pub(crate) const IFA_F_NOPREFIXROUTE: u32 = 0x200;
pub(crate) const IFA_F_MCAUTOJOIN: u32 = 0x400;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_STABLE_PRIVACY: u32 = 0x800;

pub(crate) const IFA_ADDRESS: u16 = 1;
pub(crate) const IFA_LOCAL: u16 = 2;
pub(crate) const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
pub(crate) const IFA_CACHEINFO: u16 = 6;
pub(crate) const IFA_FLAGS: u16 = 8;
pub(crate) const IFA_RT_PRIORITY: u16 = 9;
const IFA_TARGET_NETNSID: u16 = 10;
pub(crate) const IFA_PROTO: u16 = 11;
pub(crate) const IFA_MAX: u16 = 11;

const POLICY: Policy = Policy {
    shapes: &[
        (IFA_ADDRESS, Shape::U32),
        (IFA_LOCAL, Shape::U32),
        (IFA_LABEL, Shape::Text(15)),
        (IFA_BROADCAST, Shape::U32),
        (IFA_CACHEINFO, Shape::AtLeast(16)),
        (IFA_FLAGS, Shape::U32),
        (IFA_RT_PRIORITY, Shape::U32),
        (IFA_TARGET_NETNSID, Shape::U32),
        (IFA_PROTO, Shape::U8),
    ],
    max: IFA_MAX,
    strict_from: u16::MAX,
};

pub(crate) const INFINITY: u32 = u32::MAX;
const NO_DEVICE: Refusal = Refusal::errno(ENODEV).because("ipv4: Device not found");

impl Address4 {
    pub(crate) fn is_secondary(&self) -> bool {
        self.flags & IFA_F_SECONDARY != 0
    }

    /// `ifa_mask`, in host order.
    pub(crate) fn mask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.length))
            .unwrap_or(0)
    }

    /// Whether an address is in its subnet (`inet_ifa_match`).
    pub(crate) fn holds(&self, address: [u8; 4]) -> bool {
        (u32::from_be_bytes(self.peer) ^ u32::from_be_bytes(address)) & self.mask() == 0
    }

    fn same_subnet(&self, other: &Self) -> bool {
        self.length == other.length && other.holds(self.peer)
    }

    /// `set_ifa_lifetime`.
    fn set_lifetime(&mut self, lifetime: Lifetime) {
        self.flags &= !(IFA_F_PERMANENT | IFA_F_DEPRECATED);
        if lifetime.valid == INFINITY {
            self.flags |= IFA_F_PERMANENT;
        }
        if lifetime.preferred == 0 {
            self.flags |= IFA_F_DEPRECATED;
        }
        self.valid = lifetime.valid;
        self.preferred = lifetime.preferred;
    }
}

/// Of a request, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Lifetime {
    pub(crate) preferred: u32,
    pub(crate) valid: u32,
}

impl Lifetime {
    /// Endless without `IFA_CACHEINFO`.
    pub(crate) fn parse(attrs: Attributes<'_>, words: &'static str) -> Result<Self, Refusal> {
        let mut lifetime = Self {
            preferred: INFINITY,
            valid: INFINITY,
        };
        if let Some(cache) = attrs.array::<8>(IFA_CACHEINFO) {
            lifetime.preferred = u32_at(&cache, 0);
            lifetime.valid = u32_at(&cache, 4);
            if lifetime.valid == 0 || lifetime.preferred > lifetime.valid {
                return Err(Refusal::errno(EINVAL).because(words));
            }
        }
        Ok(lifetime)
    }
}

impl Addresses4 {
    /// The addresses of a link.
    pub(crate) fn of(&self, index: u32) -> &[Address4] {
        self.all.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Whether a link has IPv4 at all: it does not while its MTU is below 68.
    pub(crate) fn is_on(&self, index: u32) -> bool {
        self.all.contains_key(&index)
    }

    fn promotes(&self, index: u32) -> bool {
        self.promote_all || self.promote.get(&index).copied().unwrap_or(false)
    }
}

impl State {
    pub(crate) fn new_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        POLICY.check(attrs, false)?;
        let einval = Refusal::errno(EINVAL);
        if header[1] > 32 {
            return Err(einval.because("ipv4: Invalid prefix length"));
        }
        let missing = einval.because("ipv4: Local address is not supplied");
        let local = attrs.array::<4>(IFA_LOCAL).ok_or(missing)?;
        let lifetime = Lifetime::parse(attrs, "ipv4: address lifetime invalid")?;
        if local == [0; 4] {
            return Ok(());
        }
        let index = u32_at(header, 4);
        let link = self.links.get(index).ok_or(NO_DEVICE)?;
        if !self.addresses4.is_on(index) {
            return Err(ENOBUFS.into());
        }
        let mut new = Address4 {
            local,
            peer: attrs.array::<4>(IFA_ADDRESS).unwrap_or(local),
            length: header[1],
            broadcast: attrs.array::<4>(IFA_BROADCAST),
            scope: header[3],
            flags: attrs.u32(IFA_FLAGS).unwrap_or(header[2].into()),
            label: attrs.string(IFA_LABEL).unwrap_or_else(|| link.name.clone()),
            protocol: attrs.u8(IFA_PROTO).unwrap_or(0),
            metric: attrs.u32(IFA_RT_PRIORITY).unwrap_or(0),
            ..Address4::default()
        };
        let known = self
            .addresses4
            .of(index)
            .iter()
            .position(|old| old.local == new.local && new.same_subnet(old));
        let Some(at) = known else {
            new.set_lifetime(lifetime);
            if new.flags & IFA_F_MCAUTOJOIN != 0 && new.peer[0] >> 4 != 14 {
                return Err(einval.because("ipv4: Multicast auto join failed"));
            }
            return self.insert_address4(index, new, Some(request));
        };
        if request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE) {
            return Err(Refusal::errno(EEXIST).because("ipv4: Address already assigned"));
        }
        self.replace_address4(index, at, &new, lifetime, attrs, request);
        Ok(())
    }

    pub(crate) fn del_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        POLICY.check(attrs, false)?;
        let index = u32_at(header, 4);
        if !self.addresses4.is_on(index) {
            return Err(NO_DEVICE);
        }
        let local = attrs.array::<4>(IFA_LOCAL);
        // nla_strcmp looks beyond a NUL within.
        let label = attrs.get(IFA_LABEL);
        let label = label.map(|label| label.strip_suffix(&[0]).unwrap_or(label));
        let peer = attrs.array::<4>(IFA_ADDRESS);
        let at = self.addresses4.of(index).iter().position(|old| {
            local.is_none_or(|local| local == old.local)
                && label.is_none_or(|label| label == old.label)
                && peer.is_none_or(|peer| header[1] == old.length && old.holds(peer))
        });
        let nothing = Refusal::errno(EADDRNOTAVAIL).because("ipv4: Address not found");
        self.delete_address4(index, at.ok_or(nothing)?, Some(request));
        Ok(())
    }
}
