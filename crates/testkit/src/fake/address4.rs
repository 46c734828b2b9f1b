//! IPv4 addresses (`net/ipv4/devinet.c`).
//!
//! Lifetimes do not run, and joining multicast groups (`IFA_F_MCAUTOJOIN`) does nothing beyond the check of the address.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::dispatch::{Dump, filtered};
use super::policy::{Policy, Shape};
use super::request::{
    Attributes, EADDRNOTAVAIL, EEXIST, EINVAL, ENOBUFS, ENODEV, NLM_F_EXCL, NLM_F_REPLACE, Refusal,
    Request,
};
use super::state::{Flaw, State, group};

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
const IPV6ONLY_FLAGS: u32 = IFA_F_NODAD
    | IFA_F_OPTIMISTIC
    | IFA_F_DADFAILED
    | IFA_F_HOMEADDRESS
    | IFA_F_TENTATIVE
    | IFA_F_MANAGETEMPADDR
    | IFA_F_STABLE_PRIVACY;

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
const RT_SCOPE_HOST: u8 = 254;
/// Below it a link has no IPv4 (`inetdev_valid_mtu`).
const IPV4_MIN_MTU: u32 = 68;
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

    fn row(&self, index: u32, action: Action) -> RawMessage {
        let mut header = vec![2, self.length, self.flags as u8, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attrs = BTreeMap::new();
        for (number, address) in [
            (IFA_ADDRESS, Some(self.peer)),
            (IFA_LOCAL, Some(self.local)),
            (IFA_BROADCAST, self.broadcast),
        ] {
            if let Some(address) = address.filter(|address| *address != [0; 4]) {
                attrs.insert(number, address.to_vec());
            }
        }
        if !self.label.is_empty() {
            attrs.insert(IFA_LABEL, [&self.label[..], &[0]].concat());
        }
        if self.protocol != 0 {
            attrs.insert(IFA_PROTO, vec![self.protocol]);
        }
        attrs.insert(IFA_FLAGS, self.flags.to_ne_bytes().to_vec());
        if self.metric != 0 {
            attrs.insert(IFA_RT_PRIORITY, self.metric.to_ne_bytes().to_vec());
        }
        // A permanent address tells no preferred lifetime, though it may be deprecated.
        let (preferred, valid) = if self.flags & IFA_F_PERMANENT == 0 {
            (self.preferred, self.valid)
        } else {
            (INFINITY, INFINITY)
        };
        let cache = [preferred, valid, 0, 0].map(u32::to_ne_bytes);
        attrs.insert(IFA_CACHEINFO, cache.as_flattened().to_vec());
        RawMessage {
            kind: Kind::Address,
            action,
            header,
            attrs,
        }
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

    /// All that a replace changes: metric, protocol and lifetime.
    fn replace_address4(
        &mut self,
        index: u32,
        at: usize,
        new: &Address4,
        lifetime: Lifetime,
        attrs: Attributes<'_>,
        request: &Request<'_>,
    ) {
        let Some(old) = self.addresses4.of(index).get(at).cloned() else {
            return;
        };
        if old.metric != new.metric {
            self.routes4_metric_changed(index, &old, new.metric);
        }
        let keeps = self.is(Flaw::AddressKeepsLifetime) && attrs.get(IFA_CACHEINFO).is_none();
        let list = self.addresses4.all.entry(index).or_default();
        let Some(address) = list.get_mut(at) else {
            return;
        };
        address.metric = new.metric;
        address.protocol = new.protocol;
        if !keeps {
            address.set_lifetime(lifetime);
        }
        let address = address.clone();
        self.announce_address4(index, &address, Action::New, Some(request));
    }

    /// `__inet_insert_ifa`.
    fn insert_address4(
        &mut self,
        index: u32,
        mut new: Address4,
        by: Option<&Request<'_>>,
    ) -> Result<(), Refusal> {
        new.flags &= !(IFA_F_SECONDARY | IPV6ONLY_FLAGS);
        let list = self.addresses4.all.entry(index).or_default();
        let mut after_primary = 0;
        for (at, old) in list.iter().enumerate() {
            if !old.is_secondary() && new.scope <= old.scope {
                after_primary = at + 1;
            }
            if new.same_subnet(old) {
                if old.local == new.local {
                    return Err(EEXIST.into());
                }
                if old.scope != new.scope {
                    let words = "ipv4: Invalid scope value";
                    return Err(Refusal::errno(EINVAL).because(words));
                }
                new.flags |= IFA_F_SECONDARY;
            }
        }
        let at = if new.is_secondary() {
            list.len()
        } else {
            after_primary
        };
        list.insert(at, new.clone());
        self.announce_address4(index, &new, Action::New, by);
        self.routes4_address_added(index, &new);
        Ok(())
    }

    /// With the port id and the sequence number of the request, which the promotion of another address bears, too.
    fn announce_address4(
        &mut self,
        index: u32,
        address: &Address4,
        action: Action,
        by: Option<&Request<'_>>,
    ) {
        self.announce(group::IPV4_IFADDR, &address.row(index, action), by);
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

    /// `__inet_del_ifa`: with a primary address its secondary ones go, or the first of them takes its place.
    fn delete_address4(&mut self, index: u32, at: usize, by: Option<&Request<'_>>) {
        let Some(gone) = self.addresses4.of(index).get(at).cloned() else {
            return;
        };
        let mut promoted = None;
        if !gone.is_secondary() {
            let secondary = |other: &Address4| other.is_secondary() && gone.same_subnet(other);
            while let Some(other) = self.position4(index, at + 1, &secondary) {
                if self.addresses4.promotes(index) {
                    promoted = Some(other);
                    break;
                }
                self.remove_address4(index, other, by);
            }
        }
        if let Some(promoted) = promoted {
            let all: Vec<_> = self.addresses4.of(index)[promoted..].to_vec();
            for other in all.iter().filter(|other| gone.same_subnet(other)) {
                self.routes4_secondary_removed(index, other, &gone);
            }
        }
        self.remove_address4(index, at, by);
        if let Some(promoted) = promoted {
            self.promote_address4(index, promoted - 1, &gone, by);
        }
    }

    fn remove_address4(&mut self, index: u32, at: usize, by: Option<&Request<'_>>) {
        if let Some(list) = self.addresses4.all.get_mut(&index) {
            let gone = list.remove(at);
            self.announce_address4(index, &gone, Action::Del, by);
            self.routes4_address_removed(index, &gone);
        }
    }

    /// The second half of `__inet_del_ifa`: a secondary address becomes the primary one of its subnet.
    fn promote_address4(
        &mut self,
        index: u32,
        at: usize,
        gone: &Address4,
        by: Option<&Request<'_>>,
    ) {
        let Some(list) = self.addresses4.all.get_mut(&index) else {
            return;
        };
        if at >= list.len() {
            return;
        }
        let mut promoted = list.remove(at);
        promoted.flags &= !IFA_F_SECONDARY;
        let rest: Vec<_> = list.get(at..).unwrap_or(&[]).to_vec();
        let place = list
            .iter()
            .rposition(|other| !other.is_secondary() && gone.scope <= other.scope)
            .map_or(0, |last| last + 1);
        list.insert(place, promoted.clone());
        self.announce_address4(index, &promoted, Action::New, by);
        self.routes4_address_added(index, &promoted);
        for other in rest.iter().filter(|other| gone.same_subnet(other)) {
            self.routes4_primary_added(index, other);
        }
    }

    fn position4(
        &self,
        index: u32,
        from: usize,
        test: &dyn Fn(&Address4) -> bool,
    ) -> Option<usize> {
        let rest = self.addresses4.of(index).get(from..)?;
        rest.iter().position(test).map(|at| from + at)
    }

    pub(crate) fn dump_addresses4(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let mut only = 0;
        if request.strict {
            let einval = Refusal::errno(EINVAL);
            let (header, attrs) = request
                .parts::<8>()
                .map_err(|_| einval.because("ipv4: Invalid header for address dump request"))?;
            if header[1..4] != [0; 3] {
                let words = "ipv4: Invalid values in header for address dump request";
                return Err(einval.because(words));
            }
            only = u32_at(header, 4);
            let words = match attrs.all().map(|(number, _)| number).min() {
                Some(IFA_TARGET_NETNSID) => Some("ipv4: Invalid target network namespace id"),
                Some(_) => Some("ipv4: Unsupported attribute in dump request"),
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
        let all = self.addresses4.all.iter();
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

    pub(crate) fn addresses4_registered(&mut self, index: u32) {
        self.addresses4.all.entry(index).or_default();
        let promote = self.addresses4.promote_default;
        self.addresses4.promote.insert(index, promote);
    }

    /// `inetdev_event`, `NETDEV_UP`: a loopback has 127.0.0.1.
    pub(crate) fn addresses4_up(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        if link.mtu < IPV4_MIN_MTU || !link.is_loopback() || !self.addresses4.is_on(index) {
            return;
        }
        let one = Address4 {
            local: [127, 0, 0, 1],
            peer: [127, 0, 0, 1],
            length: 8,
            scope: RT_SCOPE_HOST,
            flags: IFA_F_PERMANENT,
            label: link.name.clone(),
            preferred: INFINITY,
            valid: INFINITY,
            ..Address4::default()
        };
        let _there_already = self.insert_address4(index, one, None);
    }

    /// `inetdev_destroy`: one after another, without a promotion.
    pub(crate) fn addresses4_gone(&mut self, index: u32) {
        while !self.addresses4.of(index).is_empty() {
            self.remove_address4(index, 0, None);
        }
        self.addresses4.all.remove(&index);
        self.addresses4.promote.remove(&index);
    }

    pub(crate) fn addresses4_mtu(&mut self, index: u32) {
        let valid = self
            .links
            .get(index)
            .is_some_and(|link| link.mtu >= IPV4_MIN_MTU);
        match (valid, self.addresses4.is_on(index)) {
            (false, true) => self.addresses4_gone(index),
            (true, false) => self.addresses4_registered(index),
            _ => {}
        }
    }

    /// `inetdev_changename`: the first address gets the new name as its label, the others keep their suffix or get one.
    pub(crate) fn addresses4_renamed(&mut self, index: u32, _before: &[u8]) {
        const LABEL: usize = 15;
        let Some(link) = self.links.get(index) else {
            return;
        };
        let name = link.name.clone();
        let list = self.addresses4.all.entry(index).or_default();
        for (position, address) in list.iter_mut().enumerate() {
            let old = std::mem::replace(&mut address.label, name.clone());
            if position == 0 {
                continue;
            }
            let suffix = match old.iter().position(|byte| *byte == b':') {
                Some(colon) => old[colon..].to_vec(),
                None => format!(":{}", position + 1).into_bytes(),
            };
            address.label.truncate(LABEL.saturating_sub(suffix.len()));
            address.label.extend(suffix);
        }
        for address in list.clone() {
            self.announce_address4(index, &address, Action::New, None);
        }
    }

    /// `net.ipv4.conf.SCOPE.promote_secondaries`.
    pub(crate) fn set_promote_secondaries(&mut self, scope: &str, on: bool) -> Option<()> {
        match scope {
            "all" => self.addresses4.promote_all = on,
            "default" => self.addresses4.promote_default = on,
            name => {
                let index = self.links.named(name.as_bytes())?.index;
                self.addresses4.promote.insert(index, on);
            }
        }
        Some(())
    }
}
