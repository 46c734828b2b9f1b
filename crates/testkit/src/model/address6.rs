//! IPv6 addresses (`net/ipv6/addrconf.c`): the list of each link with what comes and goes with it.
//! There is no duplicate address detection, and no router advertisement.

use crate::message::Action;

use super::State;
use super::address::{
    Address, IFA_CACHEINFO, IFA_F_DEPRECATED, IFA_F_NOPREFIXROUTE, IFA_F_PERMANENT,
    IFA_F_TENTATIVE, IFA_PROTO, IFA_RT_PRIORITY,
};
use super::bag::{Ip, Prefix};
use super::neighbour::Flush;
use super::numbers::*;
use super::request::{Refusal, Request};

const IPV6_MIN_MTU: u32 = 1280;
const ONE: Ip = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// `IFAPROT_KERNEL_LO`, `IFAPROT_KERNEL_LL`.
const PROTOCOL_LO: u8 = 1;
const PROTOCOL_LL: u8 = 3;
const SCOPE_SITE: u8 = 200;
/// Of the flags in a request: `IFA_F_NODAD`, `_HOMEADDRESS`, `_MANAGETEMPADDR`, `_MCAUTOJOIN`, and
/// those that [`Address`] knows.
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
    /// `ipv6_find_idev`: IPv6 on a link, if its MTU allows.
    fn device6(&mut self, index: u32) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if !self.addresses6.is_on(index) {
            if link.mtu < IPV6_MIN_MTU {
                return Err(EINVAL.into());
            }
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
        if new.peer == [0; 16] {
            new.peer = new.local;
        }
        let index = request.u32(4);
        self.device6(index)?;
        let list = self.addresses6.of(index);
        if !list.iter().any(|old| old.local == new.local) {
            return self.add_address6(index, new);
        }
        if request.has(NLM_F_EXCL) || !request.has(NLM_F_REPLACE) {
            return Err(EEXIST.into());
        }
        // IFA_LOCAL beside IFA_ADDRESS states the other end, be it none.
        let states_peer = request.attrs.has(2) && request.attrs.has(1);
        self.modify_address6(index, new, states_peer);
        Ok(())
    }

    /// `inet6_addr_add`.
    fn add_address6(&mut self, index: u32, new: Address) -> Result<(), Refusal> {
        self.multicast_route6(index)?;
        let local = new.local;
        self.insert_address6(index, new)?;
        let list = self.addresses6.of(index).iter();
        if let Some(new) = list.clone().find(|a| a.local == local).cloned() {
            if !new.has(IFA_F_NOPREFIXROUTE) {
                self.prefix_added6(index, new.prefix(), new.metric(), new.lifetime());
            }
            // It is announced before it can be used, and again when it can.
            const IFA_F_NODAD: u32 = 0x02;
            if !new.has(IFA_F_NODAD) {
                self.announce_address6(index, &new, Action::New);
            }
        }
        self.use_address6(index, local);
        Ok(())
    }

    /// `addrconf_add_dev`: the multicast route exists before any address.
    fn multicast_route6(&mut self, index: u32) -> Result<(), Refusal> {
        self.device6(index)?;
        if !self.is_loopback(index) {
            self.multicast_added6(index);
        }
        Ok(())
    }

    /// `ipv6_add_addr`: puts it in the list, and no more.
    fn insert_address6(&mut self, index: u32, mut new: Address) -> Result<(), Refusal> {
        let is_bad = new.local == [0; 16]
            || new.local[0] == 0xff
            || new.local == ONE && !self.is_loopback(index);
        if is_bad {
            return Err(EADDRNOTAVAIL.into());
        }
        new.origin = self.new_origin();
        let list = self.addresses6.all.get_mut(&index).ok_or(EINVAL)?;
        if list.iter().any(|old| old.local == new.local) {
            return Err(EEXIST.into());
        }
        let at = list.iter().position(|old| old.scope > new.scope);
        list.insert(at.unwrap_or(list.len()), new);
        Ok(())
    }

    fn announce_address6(&mut self, index: u32, address: &Address, action: Action) {
        let row = address.row(INET6, index, action);
        self.announce(&row, None);
    }

    /// `addrconf_dad_completed`: the address can be used.
    fn use_address6(&mut self, index: u32, local: Ip) {
        let list = self.addresses6.all.get_mut(&index);
        let found = list.and_then(|list| list.iter_mut().find(|old| old.local == local));
        let Some(address) = found else {
            return;
        };
        address.flags &= !IFA_F_TENTATIVE;
        let address = address.clone();
        self.announce_address6(index, &address, Action::New);
        self.local_added6(index, local);
        if address.peer != local {
            self.prefix_added6(
                index,
                Prefix::new(address.peer, 128),
                address.metric(),
                None,
            );
        }
    }

    /// `inet6_addr_modify`.
    fn modify_address6(&mut self, index: u32, new: Address, states_peer: bool) {
        const KEPT: u32 = !(WRITABLE & !0x400);
        let writer = self.writer;
        let list = self.addresses6.all.entry(index).or_default();
        let Some(address) = list.iter_mut().find(|old| old.local == new.local) else {
            return;
        };
        let was = address.clone();
        address.origin.changed_by = writer;
        address.flags = was.flags & KEPT | new.flags;
        address.attrs.take_from(&new.attrs, IFA_CACHEINFO);
        address.attrs.take_from(&new.attrs, IFA_PROTO);
        if new.metric() != 0 {
            address.attrs.take_from(&new.attrs, IFA_RT_PRIORITY);
        }
        if states_peer {
            address.peer = new.peer;
        }
        let now = address.clone();
        if now.peer != was.peer && was.peer != was.local {
            self.prefix_removed6(index, Prefix::new(was.peer, was.length));
        }
        if !now.has(IFA_F_TENTATIVE) {
            self.announce_address6(index, &now, Action::New);
        }
        let had_route = was.has(IFA_F_PERMANENT) && !was.has(IFA_F_NOPREFIXROUTE);
        if now.has(IFA_F_NOPREFIXROUTE) {
            if had_route {
                self.clean_up_prefix6(index, &now);
            }
            return;
        }
        let peer = Prefix::new(now.peer, now.length);
        let prefixes = [Some(now.prefix()), (now.peer != now.local).then_some(peer)];
        for prefix in prefixes.into_iter().flatten() {
            if !had_route || !self.prefix_modified6(index, prefix, now.metric(), now.lifetime()) {
                self.prefix_added6(index, prefix, now.metric(), now.lifetime());
            }
        }
    }

    /// `check_cleanup_prefix_route`: the prefix route goes unless another address needs it.
    fn clean_up_prefix6(&mut self, index: u32, gone: &Address) {
        let needs =
            |other: &&Address| other.origin.id != gone.origin.id && other.prefix() == gone.prefix();
        let mut others = self.addresses6.of(index).iter().filter(needs);
        if others.next().is_none() {
            self.prefix_removed6(index, gone.prefix());
        }
    }

    pub(super) fn del_address6(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let local = Address::local(request)?;
        let index = request.u32(4);
        self.links.get(index).ok_or(ENODEV)?;
        let list = self.addresses6.all.get_mut(&index).ok_or(ENXIO)?;
        let found = list
            .iter()
            .position(|old| old.local == local && old.length == request.header[1]);
        let gone = list.remove(found.ok_or(EADDRNOTAVAIL)?);
        self.address6_gone(index, &gone);
        // The route of a finite lifetime ends by itself.
        if gone.has(IFA_F_PERMANENT) && !gone.has(IFA_F_NOPREFIXROUTE) {
            self.clean_up_prefix6(index, &gone);
        }
        self.source_gone6(gone.local);
        Ok(())
    }

    /// `__ipv6_ifa_notify`, `RTM_DELADDR`.
    fn address6_gone(&mut self, index: u32, gone: &Address) {
        self.announce_address6(index, gone, Action::Del);
        if gone.peer != gone.local {
            self.prefix_removed6(index, Prefix::new(gone.peer, 128));
        }
        self.local_removed6(index, gone.local);
    }

    pub(super) fn addresses6_registered(&mut self, index: u32) {
        let _too_small = self.device6(index);
    }

    pub(super) fn addresses6_up(&mut self, index: u32) {
        for address in self.addresses6.of(index).to_vec() {
            if !address.has(IFA_F_PERMANENT) {
                continue;
            }
            if !address.has(IFA_F_NOPREFIXROUTE) {
                self.prefix_added6(index, address.prefix(), address.metric(), None);
            }
        }
        if self.has_carrier(index) {
            self.addresses6_carrier(index, true);
        }
    }

    /// A link that has its carrier for the first time since it was set up gets its own addresses.
    pub(super) fn addresses6_carrier(&mut self, index: u32, on: bool) {
        if on
            && self.is_up(index)
            && self.device6(index).is_ok()
            && self.ready6.insert(index, true) == Some(false)
        {
            self.autoconfigure6(index);
        }
    }

    /// `addrconf_init_auto_addrs`: `::1`, or a link-local address after the hardware address.
    fn autoconfigure6(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        let (local, length, protocol) = match *link.address() {
            _ if link.is_loopback() => (ONE, 128, PROTOCOL_LO),
            [a, b, c, d, e, f] => {
                let local = [
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
                (local, 64, PROTOCOL_LL)
            }
            _ => return,
        };
        if protocol == PROTOCOL_LL && self.multicast_route6(index).is_err() {
            return;
        }
        let mut new = Address::of_kernel(local, length, scope(local));
        new.attrs.set(IFA_PROTO, [protocol]);
        let prefix = new.prefix();
        if self.insert_address6(index, new).is_ok() {
            if protocol == PROTOCOL_LL {
                self.prefix_added6(index, prefix, 0, None);
            }
            self.use_address6(index, local);
        }
    }

    /// `addrconf_ifdown`, after the routes have gone.
    pub(super) fn addresses6_down(&mut self, index: u32) {
        self.ready6
            .entry(index)
            .and_modify(|is_ready| *is_ready = false);
        let list = self.addresses6.all.get_mut(&index);
        for address in list.map(std::mem::take).unwrap_or_default() {
            self.address6_gone(index, &address);
        }
    }

    pub(super) fn addresses6_gone(&mut self, index: u32) {
        self.ready6.remove(&index);
        for address in self.addresses6.all.remove(&index).unwrap_or_default() {
            self.address6_gone(index, &address);
        }
    }

    /// Below 1280 a link has no IPv6.
    pub(super) fn addresses6_mtu(&mut self, index: u32) {
        let is_small = self
            .links
            .get(index)
            .is_none_or(|link| link.mtu < IPV6_MIN_MTU);
        if is_small {
            self.leave_ipv6(index);
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

    fn leave_ipv6(&mut self, index: u32) {
        self.routes6_down(index);
        self.flush_neighbours(index, Flush::Family(INET6));
        self.addresses6_down(index);
    }
}
