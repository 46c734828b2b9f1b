//! IPv6 addresses that come, change and go: what each does to the list of its link, to the routes of its prefix and of
//! itself, and what is told of it. Not for the reading of requests, nor for what links do.

use crate::message::Action;

use super::super::address4::{
    IFA_F_DEPRECATED, IFA_F_HOMEADDRESS, IFA_F_MANAGETEMPADDR, IFA_F_MCAUTOJOIN, IFA_F_NODAD,
    IFA_F_NOPREFIXROUTE, IFA_F_PERMANENT, IFA_F_TENTATIVE,
};
use super::super::link::{IFF_NOARP, Link};
use super::super::request::{EACCES, EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, Refusal};
use super::super::state::{State, group};
use super::{Address6, Device6, IPV6_MIN_MTU, LOOPBACK, prefix};

impl State {
    /// `ipv6_find_idev`: IPv6 on a link, if its MTU allows.
    pub(super) fn device6(&mut self, index: u32) -> Result<&mut Device6, Refusal> {
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
    pub(super) fn add_address6(&mut self, index: u32, new: Address6) -> Result<(), Refusal> {
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
    pub(super) fn multicast_route6(&mut self, index: u32) -> Result<(), Refusal> {
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
    pub(super) fn insert_address6(&mut self, index: u32, mut new: Address6) -> Result<(), Refusal> {
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
    pub(super) fn detect_duplicates6(&mut self, index: u32, address: [u8; 16]) {
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
    pub(super) fn modify_address6(
        &mut self,
        index: u32,
        new: Address6,
        peered: bool,
    ) -> Result<(), Refusal> {
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

    /// `ipv6_del_addr`.
    pub(super) fn delete_address6(&mut self, index: u32, at: usize) {
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
    pub(super) fn announce_gone6(&mut self, index: u32, gone: &Address6) {
        let row = gone.row(index, Action::Del);
        self.announce(group::IPV6_IFADDR, &row, None);
        if let Some(peer) = gone.peer {
            self.routes6_prefix_removed(index, peer, 128);
        }
        self.routes6_local_removed(index, gone.address);
    }
}
