//! IPv6 addresses (`net/ipv6/addrconf.c`).
//!
//! Lifetimes do not run. Duplicate detection, where `accept_dad` asks for it, ends when it is told to
//! ([`Kernel::finish_duplicate_detection`](super::Kernel::finish_duplicate_detection)), and without a finding. There are
//! no temporary addresses, no router advertisements, and of the ways to make a link-local address only the one from the
//! hardware address.

mod kernel;
mod list;
mod row;

use std::collections::BTreeMap;

use crate::message::u32_at;

use super::address4::{
    IFA_ADDRESS, IFA_CACHEINFO, IFA_F_DEPRECATED, IFA_F_HOMEADDRESS, IFA_F_MANAGETEMPADDR,
    IFA_F_MCAUTOJOIN, IFA_F_NODAD, IFA_F_NOPREFIXROUTE, IFA_F_PERMANENT, IFA_F_TENTATIVE,
    IFA_FLAGS, IFA_LOCAL, IFA_MAX, IFA_PROTO, IFA_RT_PRIORITY, INFINITY, Lifetime,
};
use super::policy::{Policy, Shape};
use super::request::{
    Attributes, EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, NLM_F_EXCL, NLM_F_REPLACE, Refusal, Request,
};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Addresses6 {
    /// The addresses of each link that has IPv6, which are those with an MTU of at least 1280; of wider scope first.
    pub(crate) all: BTreeMap<u32, Vec<Address6>>,
    /// What else there is of these links.
    devices: BTreeMap<u32, Device6>,
    for_all: Settings6,
    for_new: Settings6,
    /// Counts addresses, as the latest one is found first.
    made: u64,
}

/// `struct inet6_dev`.
#[derive(Clone, Copy, Debug, Default)]
struct Device6 {
    /// `IF_READY`: the link was up with a carrier once since it was set up.
    ready: bool,
    settings: Settings6,
}

/// `net.ipv6.conf.SCOPE`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings6 {
    pub(crate) disabled: bool,
    pub(crate) keep_addresses: bool,
    /// `accept_dad` above 0: new addresses are checked for duplicates.
    pub(crate) detect_duplicates: bool,
    /// `addr_gen_mode` 1: no link-local address.
    pub(crate) no_link_local: bool,
}

/// One address, `struct inet6_ifaddr`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address6 {
    pub(crate) address: [u8; 16],
    pub(crate) peer: Option<[u8; 16]>,
    pub(crate) length: u8,
    /// `RT_SCOPE_*`, after the address.
    pub(crate) scope: u8,
    /// `IFA_F_*`.
    pub(crate) flags: u32,
    /// `IFA_PROTO`; 0 is none.
    pub(crate) protocol: u8,
    /// `IFA_RT_PRIORITY`: the metric of the prefix route.
    pub(crate) metric: u32,
    pub(crate) preferred: u32,
    pub(crate) valid: u32,
    made: u64,
}

const POLICY: Policy = Policy {
    shapes: &[
        (IFA_ADDRESS, Shape::AtLeast(16)),
        (IFA_LOCAL, Shape::AtLeast(16)),
        (IFA_CACHEINFO, Shape::AtLeast(16)),
        (IFA_FLAGS, Shape::AtLeast(4)),
        (IFA_RT_PRIORITY, Shape::AtLeast(4)),
        (IFA_TARGET_NETNSID, Shape::U32),
        (IFA_PROTO, Shape::U8),
    ],
    max: IFA_MAX,
    strict_from: u16::MAX,
};

const IFA_TARGET_NETNSID: u16 = 10;
const RT_SCOPE_SITE: u8 = 200;
const RT_SCOPE_LINK: u8 = 253;
const RT_SCOPE_HOST: u8 = 254;
const IPV6_MIN_MTU: u32 = 1280;
const ENXIO: i32 = 6;
const LOOPBACK: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const NO_DEVICE: Refusal = Refusal::errno(ENODEV).because("ipv6: Unable to find the interface");

impl Address6 {
    fn permanent(address: [u8; 16], length: u8, protocol: u8) -> Self {
        Self {
            address,
            length,
            scope: scope(address),
            flags: IFA_F_PERMANENT,
            protocol,
            preferred: INFINITY,
            valid: INFINITY,
            ..Self::default()
        }
    }

    fn is_permanent(&self) -> bool {
        self.flags & IFA_F_PERMANENT != 0
    }

    /// Not to be used: under duplicate detection, or kept while its link is down.
    pub(crate) fn is_tentative(&self) -> bool {
        self.flags & IFA_F_TENTATIVE != 0
    }

    fn has_prefix_route(&self) -> bool {
        self.flags & IFA_F_NOPREFIXROUTE == 0
    }

    /// For the route of its prefix.
    fn lifetime(&self) -> Option<u32> {
        (!self.is_permanent()).then_some(self.valid)
    }

    fn prefix(&self) -> [u8; 16] {
        prefix(self.address, self.length)
    }

    fn same_prefix(&self, other: &Self) -> bool {
        self.length == other.length && self.prefix() == other.prefix()
    }
}

impl Addresses6 {
    /// The addresses of a link, those of wider scope first.
    pub(crate) fn of(&self, index: u32) -> &[Address6] {
        self.all.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Whether a link has IPv6 at all: it does not while its MTU is below 1280.
    pub(crate) fn is_on(&self, index: u32) -> bool {
        self.all.contains_key(&index)
    }

    /// `disable_ipv6` of a link that has IPv6.
    pub(crate) fn is_disabled(&self, index: u32) -> bool {
        self.devices
            .get(&index)
            .is_some_and(|device| device.settings.disabled)
    }

    fn find(&self, index: u32, address: [u8; 16]) -> Option<&Address6> {
        self.of(index).iter().find(|old| old.address == address)
    }
}

fn prefix(address: [u8; 16], length: u8) -> [u8; 16] {
    let mask = u128::MAX
        .checked_shl(128 - u32::from(length.min(128)))
        .unwrap_or(0);
    (u128::from_be_bytes(address) & mask).to_be_bytes()
}

/// `rt_scope` of `ipv6_addr_scope`.
fn scope(address: [u8; 16]) -> u8 {
    match (address[0], address[1]) {
        _ if address == LOOPBACK => RT_SCOPE_HOST,
        (0xfe, second) if second & 0xc0 == 0x80 => RT_SCOPE_LINK,
        (0xfe, second) if second & 0xc0 == 0xc0 => RT_SCOPE_SITE,
        (0xff, second) => match second & 0xf {
            1 => RT_SCOPE_HOST,
            2 => RT_SCOPE_LINK,
            5 => RT_SCOPE_SITE,
            _ => 0,
        },
        _ => 0,
    }
}

/// `extract_addr`: the own address, and the other end if another was given; `::` is none.
fn extract(attrs: Attributes<'_>) -> Result<([u8; 16], Option<[u8; 16]>), Refusal> {
    let address = attrs.array::<16>(IFA_ADDRESS);
    match (attrs.array::<16>(IFA_LOCAL), address) {
        (Some(local), peer) => Ok((local, peer.filter(|peer| *peer != local))),
        (None, Some(address)) => Ok((address, None)),
        (None, None) => Err(EINVAL.into()),
    }
}

impl State {
    pub(crate) fn new_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        const TAKEN: u32 = IFA_F_NODAD
            | IFA_F_HOMEADDRESS
            | IFA_F_MANAGETEMPADDR
            | IFA_F_NOPREFIXROUTE
            | IFA_F_MCAUTOJOIN;
        let (header, attrs) = request.parts::<8>()?;
        POLICY.check(attrs, false)?;
        let (address, peer) = extract(attrs)?;
        let lifetime = Lifetime::parse(attrs, "ipv6: address lifetime invalid")?;
        let mut flags = attrs.u32(IFA_FLAGS).unwrap_or(header[2].into()) & TAKEN;
        if lifetime.valid == INFINITY {
            flags |= IFA_F_PERMANENT;
        }
        if lifetime.preferred == 0 {
            flags |= IFA_F_DEPRECATED;
        }
        let index = u32_at(header, 4);
        self.links.get(index).ok_or(NO_DEVICE)?;
        self.device6(index)?;
        let new = Address6 {
            address,
            peer: peer.filter(|peer| *peer != [0; 16]),
            length: header[1],
            scope: scope(address),
            flags,
            protocol: attrs.u8(IFA_PROTO).unwrap_or(0),
            metric: attrs.u32(IFA_RT_PRIORITY).unwrap_or(0),
            preferred: lifetime.preferred,
            valid: lifetime.valid,
            made: 0,
        };
        if self.addresses6.find(index, address).is_none() {
            return self.add_address6(index, new);
        }
        if request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE) {
            return Err(Refusal::errno(EEXIST).because("ipv6: address already assigned"));
        }
        self.modify_address6(index, new, peer.is_some())
    }

    pub(crate) fn del_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<8>()?;
        POLICY.check(attrs, false)?;
        let (address, _) = extract(attrs)?;
        let index = u32_at(header, 4);
        if header[1] > 128 {
            return Err(Refusal::errno(EINVAL).because("ipv6: Invalid prefix length"));
        }
        self.links.get(index).ok_or(NO_DEVICE)?;
        if !self.addresses6.is_on(index) {
            let words = "ipv6: IPv6 is disabled on this device";
            return Err(Refusal::errno(ENXIO).because(words));
        }
        let list = self.addresses6.of(index);
        let found = list
            .iter()
            .position(|old| old.address == address && old.length == header[1]);
        let nothing = Refusal::errno(EADDRNOTAVAIL).because("ipv6: address not found");
        self.delete_address6(index, found.ok_or(nothing)?);
        Ok(())
    }
}
