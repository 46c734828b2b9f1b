//! IPv6 addresses (`net/ipv6/addrconf.c`).
//!
//! Lifetimes do not run. Duplicate detection, where `accept_dad` asks for it, ends when it is told to
//! ([`Kernel::finish_duplicate_detection`](super::Kernel::finish_duplicate_detection)), and without a finding. There are
//! no temporary addresses, no router advertisements, and of the ways to make a link-local address only the one from the
//! hardware address.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::address4::{
    IFA_ADDRESS, IFA_CACHEINFO, IFA_F_DEPRECATED, IFA_F_HOMEADDRESS, IFA_F_MANAGETEMPADDR,
    IFA_F_MCAUTOJOIN, IFA_F_NODAD, IFA_F_NOPREFIXROUTE, IFA_F_PERMANENT, IFA_F_TENTATIVE,
    IFA_FLAGS, IFA_LOCAL, IFA_MAX, IFA_PROTO, IFA_RT_PRIORITY, INFINITY, Lifetime,
};
use super::dispatch::{Dump, filtered};
use super::link::{IFF_NOARP, Link};
use super::policy::{Policy, Shape};
use super::request::{
    Attributes, EACCES, EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, NLM_F_EXCL, NLM_F_REPLACE, Refusal,
    Request,
};
use super::state::{State, group};

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
const IFAPROT_KERNEL_LO: u8 = 1;
const IFAPROT_KERNEL_LL: u8 = 3;
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

    fn row(&self, index: u32, action: Action) -> RawMessage {
        let mut header = vec![10, self.length, self.flags as u8, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attrs = BTreeMap::new();
        match self.peer {
            Some(peer) => {
                attrs.insert(IFA_LOCAL, self.address.to_vec());
                attrs.insert(IFA_ADDRESS, peer.to_vec());
            }
            None => {
                attrs.insert(IFA_ADDRESS, self.address.to_vec());
            }
        }
        if self.protocol != 0 {
            attrs.insert(IFA_PROTO, vec![self.protocol]);
        }
        attrs.insert(IFA_FLAGS, self.flags.to_ne_bytes().to_vec());
        if self.metric != 0 {
            attrs.insert(IFA_RT_PRIORITY, self.metric.to_ne_bytes().to_vec());
        }
        let cache = [self.preferred, self.valid, 0, 0].map(u32::to_ne_bytes);
        attrs.insert(IFA_CACHEINFO, cache.as_flattened().to_vec());
        RawMessage {
            kind: Kind::Address,
            action,
            header,
            attrs,
        }
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

    /// `ipv6_find_idev`: IPv6 on a link, if its MTU allows.
    fn device6(&mut self, index: u32) -> Result<&mut Device6, Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if !self.addresses6.is_on(index) {
            if link.mtu < IPV6_MIN_MTU {
                return Err(EINVAL.into());
            }
            let device = Device6 {
                ready: link.is_running(),
                settings: self.addresses6.for_new,
            };
            self.addresses6.all.insert(index, Vec::new());
            self.addresses6.devices.insert(index, device);
        }
        let device = self.addresses6.devices.get_mut(&index);
        device.ok_or(EINVAL.into())
    }

    /// `inet6_addr_add`.
    fn add_address6(&mut self, index: u32, new: Address6) -> Result<(), Refusal> {
        let einval = Refusal::errno(EINVAL);
        if new.length > 128 {
            return Err(einval.because("ipv6: Invalid prefix length"));
        }
        if new.flags & IFA_F_MANAGETEMPADDR != 0 && new.length != 64 {
            let words = "ipv6: address with \"mngtmpaddr\" flag must have a prefix length of 64";
            return Err(einval.because(words));
        }
        self.multicast_route6(index)?;
        if new.flags & IFA_F_MCAUTOJOIN != 0 && new.address[0] != 0xff {
            return Err(einval.because("ipv6: Multicast auto join failed"));
        }
        let (prefix, length, metric) = (new.prefix(), new.length, new.metric);
        let (lifetime, routed) = (new.lifetime(), new.has_prefix_route());
        let address = new.address;
        self.insert_address6(index, new)?;
        if routed {
            self.routes6_prefix_added(index, prefix, length, metric, lifetime);
        }
        // It is told of while it is tentative, and again when it can be used.
        if let Some(new) = self.addresses6.find(index, address)
            && new.flags & IFA_F_NODAD == 0
        {
            let row = new.row(index, Action::New);
            self.announce(group::IPV6_IFADDR, &row, None);
        }
        self.detect_duplicates6(index, address);
        Ok(())
    }

    /// `addrconf_add_dev`: the multicast route is there before any address.
    fn multicast_route6(&mut self, index: u32) -> Result<(), Refusal> {
        if self.device6(index)?.settings.disabled {
            let words = "ipv6: IPv6 is disabled on this device";
            return Err(Refusal::errno(EACCES).because(words));
        }
        if !self.links.get(index).is_some_and(|link| link.is_loopback()) {
            self.routes6_multicast_added(index);
        }
        Ok(())
    }

    /// `ipv6_add_addr`: puts it in the list, and no more.
    fn insert_address6(&mut self, index: u32, mut new: Address6) -> Result<(), Refusal> {
        let refused = Refusal::errno(EADDRNOTAVAIL);
        if new.address == [0; 16] {
            return Err(refused.because("ipv6: Invalid address"));
        }
        if new.address[0] == 0xff && new.flags & IFA_F_MCAUTOJOIN == 0 {
            return Err(refused.because(
                "ipv6: Cannot assign multicast address without \"IFA_F_MCAUTOJOIN\" flag",
            ));
        }
        let loopback = self.links.get(index).is_some_and(|link| link.is_loopback());
        if new.address == LOOPBACK && !loopback {
            return Err(refused.because("ipv6: Cannot assign loopback address on this device"));
        }
        if self.addresses6.is_disabled(index) {
            let words = "ipv6: IPv6 is disabled on this device";
            return Err(Refusal::errno(EACCES).because(words));
        }
        let list = self.addresses6.all.get_mut(&index).ok_or(EINVAL)?;
        if list.iter().any(|old| old.address == new.address) {
            return Err(EEXIST.into());
        }
        self.addresses6.made += 1;
        new.made = self.addresses6.made;
        let narrower = |old: &Address6| old.scope > new.scope;
        let at = list.iter().position(narrower).unwrap_or(list.len());
        list.insert(at, new);
        Ok(())
    }

    /// `addrconf_dad_begin`: an address that nobody needs to check can be used at once.
    fn detect_duplicates6(&mut self, index: u32, address: [u8; 16]) {
        let checked = self.detects_duplicates6(index);
        if let Some(list) = self.addresses6.all.get_mut(&index)
            && let Some(new) = list.iter_mut().find(|own| own.address == address)
            && checked
            && new.flags & IFA_F_NODAD == 0
        {
            new.flags |= IFA_F_TENTATIVE;
            return;
        }
        self.usable_address6(index, address);
    }

    fn detects_duplicates6(&self, index: u32) -> bool {
        let no_neighbours = |link: &Link| link.is_loopback() || link.flags & IFF_NOARP != 0;
        let asked = |device: &Device6| device.settings.detect_duplicates;
        !self.links.get(index).is_none_or(no_neighbours)
            && (self.addresses6.for_all.detect_duplicates
                || self.addresses6.devices.get(&index).is_some_and(asked))
    }

    /// Duplicate detection ends, and has found none; a link that has no carrier yet has not begun.
    pub(crate) fn finish_duplicate_detection(&mut self) {
        let ready = self.addresses6.devices.iter();
        let ready: Vec<u32> = ready
            .filter(|(_, device)| device.ready)
            .map(|(index, _)| *index)
            .collect();
        for index in ready {
            for address in self.addresses6.of(index).to_vec() {
                if address.is_tentative() {
                    self.usable_address6(index, address.address);
                }
            }
        }
    }

    /// `addrconf_dad_completed`.
    fn usable_address6(&mut self, index: u32, address: [u8; 16]) {
        let list = self.addresses6.all.get_mut(&index);
        let Some(found) = list.and_then(|list| list.iter_mut().find(|own| own.address == address))
        else {
            return;
        };
        found.flags &= !IFA_F_TENTATIVE;
        let row = found.row(index, Action::New);
        let (peer, metric) = (found.peer, found.metric);
        self.announce(group::IPV6_IFADDR, &row, None);
        self.routes6_local_added(index, address);
        if let Some(peer) = peer {
            self.routes6_prefix_added(index, peer, 128, metric, None);
        }
    }

    /// `inet6_addr_modify`; whether an other end was given, be it none.
    fn modify_address6(&mut self, index: u32, new: Address6, peered: bool) -> Result<(), Refusal> {
        const REPLACED: u32 = IFA_F_DEPRECATED
            | IFA_F_PERMANENT
            | IFA_F_NODAD
            | IFA_F_HOMEADDRESS
            | IFA_F_MANAGETEMPADDR
            | IFA_F_NOPREFIXROUTE;
        let Some(was) = self.addresses6.find(index, new.address).cloned() else {
            return Ok(());
        };
        if new.flags & IFA_F_MANAGETEMPADDR != 0 && was.length != 64 {
            return Err(EINVAL.into());
        }
        if let Some(old) = was.peer
            && peered
            && new.peer != was.peer
        {
            self.routes6_prefix_removed(index, prefix(old, was.length), was.length);
        }
        let now = Address6 {
            flags: was.flags & !REPLACED | new.flags,
            preferred: new.preferred,
            valid: new.valid,
            protocol: new.protocol,
            metric: if new.metric == 0 {
                was.metric
            } else {
                new.metric
            },
            peer: if peered { new.peer } else { was.peer },
            ..was.clone()
        };
        if let Some(list) = self.addresses6.all.get_mut(&index)
            && let Some(old) = list.iter_mut().find(|old| old.made == now.made)
        {
            *old = now.clone();
        }
        if !now.is_tentative() {
            self.announce(group::IPV6_IFADDR, &now.row(index, Action::New), None);
        }
        let had = was.is_permanent() && was.has_prefix_route();
        if now.has_prefix_route() {
            self.modify_prefixes6(index, &now, had);
        } else if had {
            self.cleanup_prefix6(index, &now, true);
        }
        Ok(())
    }

    /// The routes of an address's prefix and of its other end after a change.
    fn modify_prefixes6(&mut self, index: u32, now: &Address6, had: bool) {
        let (length, metric, lifetime) = (now.length, now.metric, now.lifetime());
        let mut missing = true;
        let own = now.prefix();
        if had {
            missing = !self.routes6_prefix_modified(index, own, length, metric, lifetime);
        }
        if missing {
            self.routes6_prefix_added(index, own, length, metric, lifetime);
        }
        let Some(peer) = now.peer else {
            return;
        };
        let peer = prefix(peer, length);
        if had {
            missing = !self.routes6_prefix_modified(index, peer, length, metric, lifetime);
        }
        if missing {
            self.routes6_prefix_added(index, peer, length, metric, lifetime);
        }
    }

    /// `check_cleanup_prefix_route` and `cleanup_prefix_route`: what becomes of the prefix route without an address,
    /// which is in the list still if it `stays`.
    fn cleanup_prefix6(&mut self, index: u32, gone: &Address6, stays: bool) {
        let mut longest = None;
        for other in self.addresses6.of(index) {
            if stays && other.made == gone.made || !other.same_prefix(gone) {
                continue;
            }
            if other.is_permanent() || !other.has_prefix_route() {
                return;
            }
            longest = longest.max(Some(other.valid));
        }
        match longest {
            Some(longest) => {
                self.routes6_prefix_expires(index, gone.prefix(), gone.length, longest);
            }
            None => self.routes6_prefix_removed(index, gone.prefix(), gone.length),
        }
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

    /// `ipv6_del_addr`.
    fn delete_address6(&mut self, index: u32, at: usize) {
        let Some(gone) = self.unlist_address6(index, at) else {
            return;
        };
        self.announce_gone6(index, &gone);
        // That of a finite lifetime ends by itself.
        if gone.is_permanent() && gone.has_prefix_route() {
            self.cleanup_prefix6(index, &gone, false);
        }
        self.routes6_source_removed(index, gone.address);
    }

    fn unlist_address6(&mut self, index: u32, at: usize) -> Option<Address6> {
        let list = self.addresses6.all.get_mut(&index)?;
        (at < list.len()).then(|| list.remove(at))
    }

    /// `__ipv6_ifa_notify`, `RTM_DELADDR`.
    fn announce_gone6(&mut self, index: u32, gone: &Address6) {
        let row = gone.row(index, Action::Del);
        self.announce(group::IPV6_IFADDR, &row, None);
        if let Some(peer) = gone.peer {
            self.routes6_prefix_removed(index, peer, 128);
        }
        self.routes6_local_removed(index, gone.address);
    }

    pub(crate) fn dump_addresses6(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let mut only = 0;
        if request.strict {
            let einval = Refusal::errno(EINVAL);
            let words = "ipv6: Invalid header for address dump request";
            let (header, attrs) = request.parts::<8>().map_err(|_| einval.because(words))?;
            if header[1..4] != [0; 3] {
                let words = "ipv6: Invalid values in header for address dump request";
                return Err(einval.because(words));
            }
            only = u32_at(header, 4);
            let words = match attrs.all().map(|(number, _)| number).min() {
                Some(IFA_TARGET_NETNSID) => Some("ipv6: Invalid target network namespace id"),
                Some(_) => Some("ipv6: Unsupported attribute in dump request"),
                None => None,
            };
            let refusal = match POLICY.check(attrs, true) {
                Err(refusal) => Some(refusal),
                Ok(()) if words.is_some() => words.map(|words| einval.because(words)),
                Ok(()) if only != 0 && self.links.get(only).is_none() => Some(ENODEV.into()),
                Ok(()) => None,
            };
            if refusal.is_some() {
                return Ok(Dump {
                    end_flags: filtered(only),
                    refusal,
                    ..Dump::default()
                });
            }
        }
        let all = self.addresses6.all.iter();
        let rows = all
            .filter(|(index, _)| only == 0 || **index == only)
            .flat_map(|(index, list)| list.iter().map(|address| address.row(*index, Action::New)));
        Ok(Dump {
            rows: rows.collect(),
            flags: filtered(only),
            end_flags: filtered(only),
            refusal: None,
        })
    }

    pub(crate) fn get_address6(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let einval = Refusal::errno(EINVAL);
        let words = "ipv6: Invalid header for get address request";
        let (header, attrs) = request.parts::<8>().map_err(|_| einval.because(words))?;
        if request.strict && header[1..4] != [0; 3] {
            let words = "ipv6: Invalid values in header for get address request";
            return Err(einval.because(words));
        }
        POLICY.check(attrs, request.strict)?;
        let allowed = |number| matches!(number, IFA_ADDRESS | IFA_LOCAL | IFA_TARGET_NETNSID);
        if request.strict && attrs.all().any(|(number, _)| !allowed(number)) {
            let words = "ipv6: Unsupported attribute in get address request";
            return Err(einval.because(words));
        }
        if attrs.get(IFA_TARGET_NETNSID).is_some() {
            return Err(einval);
        }
        let (address, _) = extract(attrs)?;
        // A device that is not there is as good as none.
        let only = self.links.get(u32_at(header, 4)).map(|link| link.index);
        let found = self
            .addresses6
            .all
            .iter()
            .filter(|(index, _)| only.is_none_or(|only| only == **index))
            .flat_map(|(index, list)| list.iter().map(|found| (*index, found)))
            .filter(|(_, found)| found.address == address)
            .max_by_key(|(_, found)| found.made);
        let (index, found) = found.ok_or(EADDRNOTAVAIL)?;
        Ok(found.row(index, Action::New))
    }

    pub(crate) fn addresses6_registered(&mut self, index: u32) {
        let _too_small = self.device6(index);
    }

    /// `addrconf_notify`, `NETDEV_UP`.
    pub(crate) fn addresses6_up(&mut self, index: u32) {
        if self.addresses6.is_disabled(index) {
            return;
        }
        let kept: Vec<_> = self.addresses6.of(index).to_vec();
        for address in kept.iter().filter(|address| address.is_permanent()) {
            if address.has_prefix_route() {
                let (prefix, length) = (address.prefix(), address.length);
                self.routes6_prefix_added(index, prefix, length, address.metric, None);
            }
            if address.is_tentative() {
                self.detect_duplicates6(index, address.address);
            }
        }
        let running = self.links.get(index).is_some_and(|link| link.is_running());
        if running && let Ok(device) = self.device6(index) {
            device.ready = true;
            self.autoconfigure6(index);
            self.drop_small6(index);
        }
    }

    /// `addrconf_notify`, `NETDEV_CHANGE`.
    pub(crate) fn addresses6_carrier(&mut self, index: u32, on: bool) {
        let Some(device) = self.addresses6.devices.get_mut(&index) else {
            return;
        };
        if on && !device.settings.disabled && !std::mem::replace(&mut device.ready, true) {
            self.autoconfigure6(index);
            self.drop_small6(index);
        }
    }

    /// What lo got while its MTU is below 1280 it loses at once.
    fn drop_small6(&mut self, index: u32) {
        if self
            .links
            .get(index)
            .is_some_and(|link| link.mtu < IPV6_MIN_MTU)
        {
            self.addresses6_mtu(index);
        }
    }

    /// `IFF_NOARP` came or went: each address is checked for duplicates once more, and told of.
    pub(crate) fn addresses6_noarp(&mut self, index: u32) {
        let ready = |device: &Device6| device.ready && !device.settings.disabled;
        if !self.addresses6.devices.get(&index).is_some_and(ready) {
            return;
        }
        for address in self.addresses6.of(index).to_vec() {
            let row = address.row(index, Action::New);
            self.announce(group::IPV6_IFADDR, &row, None);
        }
    }

    /// `addrconf_init_auto_addrs`: ::1, or a link-local address after the hardware address.
    fn autoconfigure6(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        if link.is_loopback() {
            let one = Address6::permanent(LOOPBACK, 128, IFAPROT_KERNEL_LO);
            if self.insert_address6(index, one).is_ok() {
                self.detect_duplicates6(index, LOOPBACK);
            }
            return;
        }
        let [a, b, c, d, e, f] = link.address[..] else {
            return;
        };
        let no_link_local = |device: &Device6| device.settings.no_link_local;
        if self.multicast_route6(index).is_err()
            || self
                .addresses6
                .devices
                .get(&index)
                .is_some_and(no_link_local)
        {
            return;
        }
        let address = [
            0xfe,
            0x80,
            0,
            0,
            0,
            0,
            0,
            0,
            a ^ 2,
            b,
            c,
            0xff,
            0xfe,
            d,
            e,
            f,
        ];
        let new = Address6::permanent(address, 64, IFAPROT_KERNEL_LL);
        if self.insert_address6(index, new).is_ok() {
            self.routes6_prefix_added(index, prefix(address, 64), 64, 0, None);
            self.detect_duplicates6(index, address);
        }
    }

    /// `addrconf_ifdown` after `rt6_disable_ip`.
    pub(crate) fn addresses6_down(&mut self, index: u32) {
        let all = self.addresses6.for_all.keep_addresses;
        let Some(device) = self.addresses6.devices.get_mut(&index) else {
            return;
        };
        device.ready = false;
        let keep = (all || device.settings.keep_addresses) && !device.settings.disabled;
        let local = |address: &Address6| matches!(address.scope, RT_SCOPE_LINK | RT_SCOPE_HOST);
        let list = self.addresses6.all.entry(index).or_default();
        let (mut kept, gone) = std::mem::take(list)
            .into_iter()
            .partition::<Vec<_>, _>(|old| keep && old.is_permanent() && !local(old));
        for address in &mut kept {
            address.flags |= IFA_F_TENTATIVE;
        }
        list.clone_from(&kept);
        for address in kept {
            self.routes6_local_removed(index, address.address);
        }
        for address in gone {
            self.announce_gone6(index, &address);
        }
    }

    pub(crate) fn addresses6_gone(&mut self, index: u32) {
        self.addresses6.devices.remove(&index);
        for address in self.addresses6.all.remove(&index).unwrap_or_default() {
            self.announce_gone6(index, &address);
        }
    }

    /// `addrconf_notify`, `NETDEV_CHANGEMTU`: below 1280 a link has no IPv6.
    pub(crate) fn addresses6_mtu(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        let (small, loopback) = (link.mtu < IPV6_MIN_MTU, link.is_loopback());
        if small {
            if loopback {
                self.routes6_down(index);
                self.neighbours6_down(index);
                self.addresses6_down(index);
            } else {
                self.routes6_gone(index);
                self.neighbours6_down(index);
                self.addresses6_gone(index);
            }
        } else if !self.addresses6.is_on(index) {
            let ready = |device: &mut Device6| device.ready && !device.settings.disabled;
            if self.device6(index).is_ok_and(ready) {
                self.autoconfigure6(index);
            }
        }
    }

    /// `net.ipv6.conf.SCOPE.disable_ipv6`.
    pub(crate) fn disable_ipv6(&mut self, scope: &str, on: bool) -> Option<()> {
        let indexes: Vec<u32> = match scope {
            "default" => {
                self.addresses6.for_new.disabled = on;
                return Some(());
            }
            "all" => {
                self.addresses6.for_all.disabled = on;
                self.addresses6.for_new.disabled = on;
                self.addresses6.devices.keys().copied().collect()
            }
            name => vec![self.links.named(name.as_bytes())?.index],
        };
        for index in indexes {
            let Some(device) = self.addresses6.devices.get_mut(&index) else {
                continue;
            };
            if std::mem::replace(&mut device.settings.disabled, on) == on {
                continue;
            }
            if on {
                self.routes6_down(index);
                self.neighbours6_down(index);
                self.addresses6_down(index);
            } else if self.links.get(index).is_some_and(|link| link.is_up()) {
                self.addresses6_up(index);
            }
        }
        Some(())
    }

    /// The settings of all links, of those to come, or of one.
    pub(crate) fn settings6(&mut self, scope: &str) -> Option<&mut Settings6> {
        match scope {
            "all" => Some(&mut self.addresses6.for_all),
            "default" => Some(&mut self.addresses6.for_new),
            name => {
                let index = self.links.named(name.as_bytes())?.index;
                let device = self.addresses6.devices.get_mut(&index);
                device.map(|device| &mut device.settings)
            }
        }
    }
}
