//! What links and settings do to IPv6 addresses (`addrconf_notify`, `addrconf_ifdown`, `net.ipv6.conf`), and the addresses
//! the kernel makes by itself: ::1 and those of the link.

use crate::message::Action;

use super::super::address4::IFA_F_TENTATIVE;
use super::super::state::{State, group};
use super::{
    Address6, Device6, IPV6_MIN_MTU, LOOPBACK, RT_SCOPE_HOST, RT_SCOPE_LINK, Settings6, prefix,
};

const IFAPROT_KERNEL_LO: u8 = 1;
const IFAPROT_KERNEL_LL: u8 = 3;

impl State {
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
