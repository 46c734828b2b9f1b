//! IPv4 addresses (`net/ipv4/devinet.c`): the list of each link, and what becomes of the secondary
//! addresses of a subnet.

use crate::message::Action;

use super::address::{
    Address, IFA_CACHEINFO, IFA_F_DEPRECATED, IFA_F_PERMANENT, IFA_F_SECONDARY, IFA_LABEL,
    IFA_PROTO, IFA_RT_PRIORITY,
};
use super::bag::ip;
use super::numbers::*;
use super::request::{Refusal, Request};
use super::{By, Flaw, State};

/// `IFA_F_NODAD`, `_OPTIMISTIC`, `_DADFAILED`, `_HOMEADDRESS`, `_MANAGETEMPADDR`,
/// `_STABLE_PRIVACY`.
const IPV6_FLAGS: u32 = 0x02 | 0x04 | 0x08 | 0x10 | 0x100 | 0x800;
const IPV4_MIN_MTU: u32 = 68;

fn is_same_subnet(a: &Address, b: &Address) -> bool {
    a.subnet() == b.subnet()
}

fn is_primary(address: &Address) -> bool {
    !address.has(IFA_F_SECONDARY)
}

impl State {
    pub(super) fn new_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut new = Address::read(request)?;
        if new.local == [0; 16] {
            return Ok(());
        }
        let index = request.u32(4);
        let link = self.links.get(index).ok_or(ENODEV)?;
        if !self.addresses4.is_on(index) {
            return Err(ENOBUFS.into());
        }
        let label = new.attrs.text(IFA_LABEL).unwrap_or(&link.name).to_vec();
        new.attrs.set_text(IFA_LABEL, &label);
        let list = self.addresses4.of(index).iter();
        let mut known = list
            .enumerate()
            .filter(|(_, old)| old.local == new.local && is_same_subnet(old, &new));
        let Some((at, _)) = known.next() else {
            return self.insert_address4(index, new, Some(request));
        };
        if request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE) {
            return Err(EEXIST.into());
        }
        self.replace_address4(index, at, &new, request);
        Ok(())
    }

    /// A replace changes metric, protocol and lifetime, and no more.
    fn replace_address4(&mut self, index: u32, at: usize, new: &Address, by: &Request<'_>) {
        let old = self.addresses4.of(index)[at].clone();
        if old.metric() != new.metric() {
            self.metric_changed4(index, &old, new.metric());
        }
        let keeps_lifetime =
            self.has_flaw(Flaw::AddressKeepsLifetime) && !by.attrs.has(IFA_CACHEINFO);
        let writer = self.writer;
        let Some(address) = self
            .addresses4
            .all
            .get_mut(&index)
            .and_then(|l| l.get_mut(at))
        else {
            return;
        };
        address.origin.changed_by = writer;
        address.attrs.take_from(&new.attrs, IFA_PROTO);
        address.attrs.take_from(&new.attrs, IFA_RT_PRIORITY);
        if !keeps_lifetime {
            const OF_LIFETIME: u32 = IFA_F_PERMANENT | IFA_F_DEPRECATED;
            address.attrs.take_from(&new.attrs, IFA_CACHEINFO);
            address.flags = address.flags & !OF_LIFETIME | new.flags & OF_LIFETIME;
        }
        let address = address.clone();
        self.announce_address4(index, &address, Action::New, Some(by));
    }

    /// `__inet_insert_ifa`.
    fn insert_address4(
        &mut self,
        index: u32,
        mut new: Address,
        by: By<'_, '_>,
    ) -> Result<(), Refusal> {
        new.flags &= !(IFA_F_SECONDARY | IPV6_FLAGS);
        let list = self.addresses4.of(index);
        let mut at = 0;
        for (position, old) in list.iter().enumerate() {
            if is_primary(old) && new.scope <= old.scope {
                at = position + 1;
            }
            if is_same_subnet(&new, old) {
                if old.local == new.local {
                    return Err(EEXIST.into());
                }
                if old.scope != new.scope {
                    return Err(EINVAL.into());
                }
                new.flags |= IFA_F_SECONDARY;
            }
        }
        if !is_primary(&new) {
            at = list.len();
        }
        new.origin = self.new_origin();
        self.addresses4
            .all
            .entry(index)
            .or_default()
            .insert(at, new.clone());
        self.announce_address4(index, &new, Action::New, by);
        self.address4_added(index, &new);
        Ok(())
    }

    /// With the request, also for what follows from it.
    fn announce_address4(&mut self, index: u32, address: &Address, action: Action, by: By<'_, '_>) {
        let row = address.row(INET, index, action);
        self.announce(&row, by);
    }

    pub(super) fn del_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let index = request.u32(4);
        if !self.addresses4.is_on(index) {
            return Err(ENODEV.into());
        }
        let attrs = &request.attrs;
        let local = attrs.get(2).map(ip);
        let peer = attrs.get(1).map(ip);
        let at = self.addresses4.of(index).iter().position(|old| {
            local.is_none_or(|local| local == old.local)
                && attrs
                    .text(IFA_LABEL)
                    .is_none_or(|label| old.attrs.text(IFA_LABEL) == Some(label))
                && peer
                    .is_none_or(|peer| request.header[1] == old.length && old.subnet().holds(peer))
        });
        self.delete_address4(index, at.ok_or(EADDRNOTAVAIL)?, Some(request));
        Ok(())
    }

    /// `__inet_del_ifa`: with a primary address its secondary ones go. (The kernel promotes the
    /// first of them instead where `promote_secondaries` is set; here it is not.)
    fn delete_address4(&mut self, index: u32, at: usize, by: By<'_, '_>) {
        let gone = self.addresses4.of(index)[at].clone();
        if is_primary(&gone) {
            let is_secondary = |other: &Address| !is_primary(other) && is_same_subnet(other, &gone);
            while let Some(other) = self.addresses4.of(index).iter().position(is_secondary) {
                self.remove_address4(index, other, by);
            }
        }
        let at = self
            .addresses4
            .of(index)
            .iter()
            .position(|a| a.origin == gone.origin);
        if let Some(at) = at {
            self.remove_address4(index, at, by);
        }
    }

    fn remove_address4(&mut self, index: u32, at: usize, by: By<'_, '_>) {
        if let Some(list) = self.addresses4.all.get_mut(&index) {
            let gone = list.remove(at);
            self.announce_address4(index, &gone, Action::Del, by);
            self.address4_removed(index, &gone);
        }
    }

    pub(super) fn addresses4_registered(&mut self, index: u32) {
        if self
            .links
            .get(index)
            .is_some_and(|link| link.mtu >= IPV4_MIN_MTU)
        {
            self.addresses4.all.entry(index).or_default();
        }
    }

    /// A loopback that comes up gets 127.0.0.1.
    pub(super) fn addresses4_up(&mut self, index: u32) {
        if self.is_loopback(index) && self.addresses4.is_on(index) {
            let mut one = Address::of_kernel(ip(&[127, 0, 0, 1]), 8, SCOPE_HOST);
            if let Some(link) = self.links.get(index) {
                one.attrs.set_text(IFA_LABEL, &link.name);
            }
            let _exists = self.insert_address4(index, one, None);
        }
    }

    /// The link goes: one after another, and no address outlives another.
    pub(super) fn addresses4_gone(&mut self, index: u32) {
        while !self.addresses4.of(index).is_empty() {
            self.remove_address4(index, 0, None);
        }
        self.addresses4.all.remove(&index);
    }

    pub(super) fn addresses4_mtu(&mut self, index: u32) {
        match self
            .links
            .get(index)
            .is_some_and(|link| link.mtu >= IPV4_MIN_MTU)
        {
            true => self.addresses4_registered(index),
            false => self.addresses4_gone(index),
        }
    }

    /// `inetdev_changename`: the first address gets the new name as its label, the others keep
    /// their suffix or get one.
    pub(super) fn addresses4_renamed(&mut self, index: u32) {
        const LABEL: usize = 15;
        let name = self
            .links
            .get(index)
            .map(|link| link.name.clone())
            .unwrap_or_default();
        let list = self.addresses4.all.entry(index).or_default();
        for (position, address) in list.iter_mut().enumerate() {
            let old = address.attrs.text(IFA_LABEL).unwrap_or_default();
            let suffix = match old.iter().position(|byte| *byte == b':') {
                _ if position == 0 => Vec::new(),
                Some(colon) => old[colon..].to_vec(),
                None => format!(":{}", position + 1).into_bytes(),
            };
            let mut label = name.clone();
            label.truncate(LABEL.saturating_sub(suffix.len()));
            label.extend(suffix);
            address.attrs.set_text(IFA_LABEL, &label);
        }
        for address in list.clone() {
            self.announce_address4(index, &address, Action::New, None);
        }
    }
}
