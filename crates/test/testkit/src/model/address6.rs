//! IPv6 addresses (`net/ipv6/addrconf.c`): each link's list, and the routes that come and go with
//! an address. There is no duplicate address detection, and no router advertisement.

use crate::message::Action;

use super::State;
use super::address::Address;
use super::bag::{Ip, Prefix};
use super::neighbour::Flush;
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};

const ONE: Ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// `IFAPROT_KERNEL_LO`, `IFAPROT_KERNEL_LL`.
const PROTOCOL_LO: u8 = 1;
const PROTOCOL_LL: u8 = 3;
const SCOPE_SITE: u8 = 200;
/// The flags that a request can set: `IFA_F_NODAD`, `_HOMEADDRESS`, `_MANAGETEMPADDR`,
/// `_MCAUTOJOIN`, and the flags known to [`Address`].
const WRITABLE: u32 =
    0x02 | 0x10 | 0x100 | 0x400 | IFA_F_NOPREFIXROUTE | IFA_F_PERMANENT | IFA_F_DEPRECATED;

fn scope(ip: Ip) -> u8 {
    match (ip[0], ip[1] & 0xc0) {
        _ if ip == ONE => SCOPE_HOST,
        (0xfe, 0x80) => SCOPE_LINK,
        (0xfe, 0xc0) => SCOPE_SITE,
        _ => 0,
    }
}

impl State {
    /// `ipv6_find_idev`: gives a link IPv6, if its MTU is large enough.
    pub(super) fn device6(&mut self, index: u32) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if !self.addresses6.is_on(index) {
            refuse_if(link.mtu < IPV6_MIN_MTU, EINVAL)?;
            let is_ready = link.is_running();
            self.addresses6.all.insert(index, Vec::new());
            self.ready6.insert(index, is_ready);
        }
        Ok(())
    }

    pub(super) fn new_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut new = Address::read(request)?;
        new.flags &= WRITABLE;
        new.scope = scope(new.local);
        self.device6(new.device)?;
        let Some(old) = self.addresses6.find(new.device, |old| old.local == new.local).cloned()
        else {
            if new.peer == [0; 16] {
                new.peer = new.local;
            }
            return self.add_address6(new);
        };
        refuse_if(request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE), EEXIST)?;
        // If IFA_ADDRESS differs from IFA_LOCAL, it is the other end, even if all zeros.
        if new.peer == new.local {
            new.peer = old.peer;
        } else if new.peer == [0; 16] {
            new.peer = new.local;
        }
        self.modify_address6(old, new);
        Ok(())
    }

    /// `inet6_addr_add`.
    fn add_address6(&mut self, mut new: Address) -> Result<(), Refusal> {
        const IFA_F_NODAD: u32 = 0x02;
        self.multicast_route6(new.device)?;
        self.insert_address6(&mut new)?;
        if !new.has(IFA_F_NOPREFIXROUTE) {
            self.prefix_added6(&new, new.prefix());
        }
        // It is announced before it is usable, and again once it is.
        if !new.has(IFA_F_NODAD) {
            self.announce_address(&new, Action::New, None);
        }
        self.use_address6(&new);
        Ok(())
    }

    /// `addrconf_add_dev`: adds the multicast route, before any address.
    fn multicast_route6(&mut self, index: u32) -> Result<(), Refusal> {
        self.device6(index)?;
        if !self.is_loopback(index) {
            self.multicast_added6(index);
        }
        Ok(())
    }

    /// `ipv6_add_addr`: only puts the address into the list.
    fn insert_address6(&mut self, new: &mut Address) -> Result<(), Refusal> {
        refuse_if(
            new.local[0] == 0xff || new.local == ONE && !self.is_loopback(new.device),
            EADDRNOTAVAIL,
        )?;
        let list = self.addresses6.of(new.device);
        refuse_if(list.iter().any(|old| old.local == new.local), EEXIST)?;
        let at = list.iter().position(|old| old.scope > new.scope);
        self.put_address(at.unwrap_or(list.len()), new);
        Ok(())
    }

    /// `addrconf_dad_completed`: the address becomes usable.
    fn use_address6(&mut self, address: &Address) {
        self.announce_address(address, Action::New, None);
        self.local_added6(address);
        if address.peer != address.local {
            let endless = Address { flags: IFA_F_PERMANENT, ..address.clone() };
            self.prefix_added6(&endless, Prefix::new(address.peer, 128));
        }
    }

    /// `inet6_addr_modify`.
    fn modify_address6(&mut self, was: Address, new: Address) {
        const KEPT: u32 = !(WRITABLE & !0x400);
        let mut now = was.clone();
        now.flags = was.flags & KEPT | new.flags;
        now.attrs.take_from(&new.attrs, IFA_CACHEINFO);
        now.attrs.take_from(&new.attrs, IFA_PROTO);
        if new.metric() != 0 {
            now.attrs.take_from(&new.attrs, IFA_RT_PRIORITY);
        }
        now.peer = new.peer;
        now.origin = self.changed(was.origin);
        self.store_address(&now);
        if now.peer != was.peer && was.peer != was.local {
            self.prefix_removed6(was.device, Prefix::new(was.peer, was.length));
        }
        self.announce_address(&now, Action::New, None);
        let had_route = was.has(IFA_F_PERMANENT) && !was.has(IFA_F_NOPREFIXROUTE);
        if now.has(IFA_F_NOPREFIXROUTE) {
            if had_route {
                self.clean_up_prefix6(&now);
            }
            return;
        }
        let mut prefixes = vec![now.prefix()];
        if now.peer != now.local {
            prefixes.push(now.subnet());
        }
        for prefix in prefixes {
            if !had_route || !self.prefix_modified6(&now, prefix) {
                self.prefix_added6(&now, prefix);
            }
        }
    }

    /// `check_cleanup_prefix_route`: deletes the prefix route unless another address needs it.
    fn clean_up_prefix6(&mut self, gone: &Address) {
        let needs =
            |other: &Address| other.origin.id != gone.origin.id && other.prefix() == gone.prefix();
        if self.addresses6.find(gone.device, needs).is_none() {
            self.prefix_removed6(gone.device, gone.prefix());
        }
    }

    pub(super) fn del_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let local = Address::local(request)?;
        let index = request.u32(4);
        self.links.get(index).ok_or(ENODEV)?;
        refuse_if(!self.addresses6.is_on(index), ENXIO)?;
        let found = self
            .addresses6
            .find(index, |old| old.local == local && old.length == request.header[1])
            .cloned();
        let gone = found.ok_or(EADDRNOTAVAIL)?;
        self.take_address(&gone);
        self.address6_gone(&gone);
        // The route of a finite lifetime expires by itself.
        if gone.has(IFA_F_PERMANENT) && !gone.has(IFA_F_NOPREFIXROUTE) {
            self.clean_up_prefix6(&gone);
        }
        self.source_gone6(gone.local);
        Ok(())
    }

    /// `__ipv6_ifa_notify`, `RTM_DELADDR`.
    fn address6_gone(&mut self, gone: &Address) {
        self.announce_address(gone, Action::Del, None);
        if gone.peer != gone.local {
            self.prefix_removed6(gone.device, Prefix::new(gone.peer, 128));
        }
        self.local_removed6(gone);
    }

    pub(super) fn addresses6_up(&mut self, index: u32) {
        for address in self.addresses6.of(index).to_vec() {
            if address.has(IFA_F_PERMANENT) && !address.has(IFA_F_NOPREFIXROUTE) {
                self.prefix_added6(&address, address.prefix());
            }
        }
        if self.has_carrier(index) {
            self.addresses6_carrier(index, true);
        }
    }

    /// Gives a link its automatic addresses when it first has a carrier after it was set up.
    pub(super) fn addresses6_carrier(&mut self, index: u32, on: bool) {
        if on
            && self.is_up(index)
            && self.device6(index).is_ok()
            && self.ready6.insert(index, true) == Some(false)
        {
            self.autoconfigure6(index);
        }
        // A loopback keeps IPv6 if its MTU is below 1280, but loses its addresses.
        let link = self.links.get(index).filter(|link| on && link.is_up());
        if link.is_some_and(|link| link.mtu < IPV6_MIN_MTU) && self.addresses6.is_on(index) {
            self.addresses6_mtu(index);
        }
    }

    /// `addrconf_init_auto_addrs`: adds `::1`, or a link-local address derived from the hardware
    /// address.
    fn autoconfigure6(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        let (local, length, protocol) = match *link.address() {
            _ if link.is_loopback() => (ONE, 128, PROTOCOL_LO),
            [a, b, c, d, e, f] => {
                let mut local = [0; 16];
                local[..2].copy_from_slice(&[0xfe, 0x80]);
                local[8..].copy_from_slice(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
                (local, 64, PROTOCOL_LL)
            }
            _ => return,
        };
        if protocol == PROTOCOL_LL && self.multicast_route6(index).is_err() {
            return;
        }
        let mut new = Address::of_kernel(INET6, index, local, length, scope(local));
        new.attrs.set(IFA_PROTO, [protocol]);
        if self.insert_address6(&mut new).is_ok() {
            if protocol == PROTOCOL_LL {
                self.prefix_added6(&new, new.prefix());
            }
            self.use_address6(&new);
        }
    }

    /// `addrconf_ifdown`, called after the routes are deleted.
    pub(super) fn addresses6_down(&mut self, index: u32) {
        if let Some(is_ready) = self.ready6.get_mut(&index) {
            *is_ready = false;
        }
        let list = self.addresses6.all.get_mut(&index);
        for address in list.map(std::mem::take).unwrap_or_default() {
            self.address6_gone(&address);
        }
    }

    pub(super) fn addresses6_gone(&mut self, index: u32) {
        self.addresses6_down(index);
        self.ready6.remove(&index);
        self.addresses6.all.remove(&index);
    }

    /// Gives a link IPv6, or takes it away: below an MTU of 1280 it has none.
    pub(super) fn addresses6_mtu(&mut self, index: u32) {
        let link = self.links.get(index);
        if link.is_none_or(|link| link.mtu < IPV6_MIN_MTU) {
            self.routes6_down(index);
            self.flush_neighbours(index, Flush::Family(INET6));
            self.addresses6_down(index);
            if !self.is_loopback(index) {
                self.routes6_gone(index);
                self.addresses6_gone(index);
            }
        } else if !self.addresses6.is_on(index)
            && self.device6(index).is_ok()
            && self.ready6.get(&index) == Some(&true)
        {
            self.autoconfigure6(index);
        }
    }
}
