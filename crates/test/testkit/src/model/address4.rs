//! IPv4 addresses (`net/ipv4/devinet.c`): each link's list, and the handling of a subnet's
//! secondary addresses.

use crate::message::Action;

use super::address::Address;
use super::bag::ip;
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::{By, Flaw, State};

/// `IFA_F_NODAD`, `_OPTIMISTIC`, `_DADFAILED`, `_HOMEADDRESS`, `_MANAGETEMPADDR`,
/// `_STABLE_PRIVACY`.
const IPV6_FLAGS: u32 = 0x02 | 0x04 | 0x08 | 0x10 | 0x100 | 0x800;

fn is_primary(address: &Address) -> bool {
    !address.has(IFA_F_SECONDARY)
}

impl State {
    pub(super) fn new_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut new = Address::read(request)?;
        let link = self.links.get(new.device).ok_or(ENODEV)?;
        refuse_if(!self.addresses4.is_on(new.device), ENOBUFS)?;
        let label = new.attrs.text(IFA_LABEL).unwrap_or(&link.name).to_vec();
        new.attrs.set_text(IFA_LABEL, &label);
        let Some(old) = self
            .addresses4
            .find(new.device, |old| old.local == new.local && old.subnet() == new.subnet())
            .cloned()
        else {
            return self.insert_address4(new, Some(request));
        };
        refuse_if(request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE), EEXIST)?;
        self.replace_address4(old, &new, request);
        Ok(())
    }

    /// Replaces an address, which changes only metric, protocol and lifetime.
    fn replace_address4(&mut self, mut address: Address, new: &Address, by: &Request<'_>) {
        const OF_LIFETIME: u32 = IFA_F_PERMANENT | IFA_F_DEPRECATED;
        if address.metric() != new.metric() {
            self.metric_changed4(&address, new.metric());
        }
        address.attrs.take_from(&new.attrs, IFA_PROTO);
        address.attrs.take_from(&new.attrs, IFA_RT_PRIORITY);
        if by.attrs.has(IFA_CACHEINFO) || !self.has_flaw(Flaw::AddressKeepsLifetime) {
            address.attrs.take_from(&new.attrs, IFA_CACHEINFO);
            address.flags = address.flags & !OF_LIFETIME | new.flags & OF_LIFETIME;
        }
        address.origin = self.changed(address.origin);
        self.store_address(&address);
        self.announce_address(&address, Action::New, Some(by));
    }

    /// `__inet_insert_ifa`.
    fn insert_address4(&mut self, mut new: Address, by: By<'_, '_>) -> Result<(), Refusal> {
        new.flags &= !(IFA_F_SECONDARY | IPV6_FLAGS);
        let list = self.addresses4.of(new.device);
        let mut at = 0;
        for (position, old) in list.iter().enumerate() {
            if is_primary(old) && new.scope <= old.scope {
                at = position + 1;
            }
            if new.subnet() == old.subnet() {
                refuse_if(old.local == new.local, EEXIST)?;
                refuse_if(old.scope != new.scope, EINVAL)?;
                new.flags |= IFA_F_SECONDARY;
            }
        }
        if !is_primary(&new) {
            at = list.len();
        }
        self.put_address(at, &mut new);
        // Its consequences are also announced in the request's name.
        self.announce_address(&new, Action::New, by);
        self.address4_added(&new);
        Ok(())
    }

    /// `__inet_del_ifa`: with a primary address its secondary ones go. (With `promote_secondaries`
    /// set, the kernel promotes the first of them instead; here it is not set.)
    pub(super) fn del_address4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (index, attrs) = (request.u32(4), &request.attrs);
        refuse_if(!self.addresses4.is_on(index), ENODEV)?;
        let (peer, local) = (attrs.get(1).map(ip), attrs.get(2).map(ip));
        let label = attrs.text(IFA_LABEL);
        let is_meant = |old: &Address| {
            local.is_none_or(|local| local == old.local)
                && label.is_none_or(|label| old.attrs.text(IFA_LABEL) == Some(label))
                && peer
                    .is_none_or(|peer| request.header[1] == old.length && old.subnet().holds(peer))
        };
        let found = self.addresses4.find(index, is_meant).cloned();
        let gone = found.ok_or(EADDRNOTAVAIL)?;
        if is_primary(&gone) {
            while let Some(other) = self
                .addresses4
                .find(index, |it| !is_primary(it) && it.subnet() == gone.subnet())
                .cloned()
            {
                self.remove_address4(&other, Some(request));
            }
        }
        self.remove_address4(&gone, Some(request));
        Ok(())
    }

    fn remove_address4(&mut self, gone: &Address, by: By<'_, '_>) {
        self.take_address(gone);
        self.announce_address(gone, Action::Del, by);
        self.address4_removed(gone);
    }

    /// Gives a link IPv4, or takes it away, by its MTU.
    pub(super) fn addresses4_mtu(&mut self, index: u32) {
        let link = self.links.get(index);
        if link.is_some_and(|link| link.mtu >= IPV4_MIN_MTU) {
            self.addresses4.all.entry(index).or_default();
        } else {
            self.addresses4_gone(index);
        }
    }

    /// Gives 127.0.0.1 to a loopback that comes up.
    pub(super) fn addresses4_up(&mut self, index: u32) {
        let link = self.links.get(index).filter(|link| link.is_loopback());
        if let Some(link) = link
            && self.addresses4.is_on(index)
        {
            let own = ip(&[127, 0, 0, 1]);
            let mut one = Address::of_kernel(INET, index, own, 8, SCOPE_HOST);
            one.attrs.set_text(IFA_LABEL, &link.name);
            let _exists = self.insert_address4(one, None);
        }
    }

    /// Deletes a link's addresses before the link goes, one after another; no secondary is
    /// promoted.
    pub(super) fn addresses4_gone(&mut self, index: u32) {
        while let Some(first) = self.addresses4.of(index).first().cloned() {
            self.remove_address4(&first, None);
        }
        self.addresses4.all.remove(&index);
    }

    /// `inetdev_changename`: the first address takes the new name as its label, the others keep
    /// their suffix or get one.
    pub(super) fn addresses4_renamed(&mut self, index: u32, name: &[u8]) {
        const LABEL: usize = 15;
        for (position, mut address) in self.addresses4.of(index).to_vec().into_iter().enumerate() {
            let old = address.attrs.text(IFA_LABEL).unwrap_or_default();
            let suffix = match old.iter().position(|byte| *byte == b':') {
                _ if position == 0 => Vec::new(),
                Some(colon) => old[colon..].to_vec(),
                None => format!(":{}", position + 1).into_bytes(),
            };
            let head = name.len().min(LABEL.saturating_sub(suffix.len()));
            let label = [&name[..head], &suffix].concat();
            address.attrs.set_text(IFA_LABEL, &label);
            self.store_address(&address);
            self.announce_address(&address, Action::New, None);
        }
    }
}
