//! Changing a link that is there: what of its kind a request sets, then address, MTU, group, name, alias, flags and master,
//! one after another. What speaks against a value is in [`check`](super::check).

use crate::message::u32_at;

use super::super::request::{
    Attributes, EBUSY, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, NLM_F_EXCL, NLM_F_REPLACE, Refusal,
    Request,
};
use super::super::state::{Flaw, State};
use super::check::{EADDRINUSE, check_address, vxlan_headroom};
use super::kind::LinkKind;
use super::write::IFLA_INFO_SLAVE_DATA;
use super::{
    IFF_ALLMULTI, IFF_MULTICAST, IFF_NOARP, IFF_PROMISC, IFF_UP, IFLA_ADDRESS, IFLA_BROADCAST,
    IFLA_GROUP, IFLA_IFALIAS, IFLA_IFNAME, IFLA_INFO_DATA, IFLA_MASTER, IFLA_MTU, Link,
};

impl State {
    /// `rtnl_changelink`.
    pub(super) fn change_link(
        &mut self,
        request: &Request<'_>,
        index: u32,
        kind: Option<LinkKind>,
        info: Attributes<'_>,
    ) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        if request.has(NLM_F_EXCL) {
            return Err(EEXIST.into());
        }
        if request.has(NLM_F_REPLACE) {
            return Err(EOPNOTSUPP.into());
        }
        if let Some(data) = info.nested(IFLA_INFO_DATA) {
            let mut link = self.links.get(index).cloned().ok_or(ENODEV)?;
            if kind != Some(link.kind) {
                return Err(EOPNOTSUPP.into());
            }
            if link.kind == LinkKind::Vxlan && attrs.get(IFLA_MTU).is_some() {
                return Err(EOPNOTSUPP.into());
            }
            let lower = link.lower();
            let done = self.configure(&mut link, data, true);
            if done.is_ok() && link.lower() != lower {
                self.move_vxlan(&mut link)?;
            }
            // What of a bridge was set before the error stays.
            if done.is_ok() || link.kind == LinkKind::Bridge {
                self.change_quietly(index, |was| *was = link);
                self.carry(index);
            }
            done?;
        }
        if info.get(IFLA_INFO_SLAVE_DATA).is_some() {
            return Err(EOPNOTSUPP.into());
        }
        Self::refuse_unmodelled(attrs)?;
        self.set_link(index, header, attrs)
    }

    /// A VXLAN device on another lower device may have to become smaller; it tells nobody.
    fn move_vxlan(&self, link: &mut Link) -> Result<(), Refusal> {
        let Some(lower) = link.lower().and_then(|lower| self.links.get(lower)) else {
            return Ok(());
        };
        if lower.index == link.index || self.is_above(lower.index, link.index) {
            return Err(EBUSY.into());
        }
        let most = lower.mtu.saturating_sub(vxlan_headroom(link)).max(68);
        link.mtu = link.mtu.min(most);
        Ok(())
    }

    /// `rtnl_group_changelink`.
    pub(super) fn set_group(
        &mut self,
        group: u32,
        header: &[u8; 16],
        attrs: Attributes<'_>,
    ) -> Result<(), Refusal> {
        Self::refuse_unmodelled(attrs)?;
        let all = self.links.all.values();
        let members: Vec<_> = all
            .filter(|link| link.group == group)
            .map(|link| link.index)
            .collect();
        for index in members {
            self.set_link(index, header, attrs)?;
        }
        Ok(())
    }

    /// `do_setlink`: one after another; what was set before an error stays.
    pub(super) fn set_link(
        &mut self,
        index: u32,
        header: &[u8; 16],
        attrs: Attributes<'_>,
    ) -> Result<(), Refusal> {
        for number in [IFLA_ADDRESS, IFLA_BROADCAST] {
            if attrs.get(number).is_some_and(|address| address.len() < 6) {
                return Err(EINVAL.into());
            }
        }
        if let Some(address) = attrs.array::<6>(IFLA_ADDRESS) {
            self.set_address(index, address)?;
        }
        if let Some(mtu) = attrs.u32(IFLA_MTU) {
            self.set_mtu(index, mtu)?;
        }
        if let Some(group) = attrs.u32(IFLA_GROUP) {
            self.change_quietly(index, |link| link.group = group);
        }
        if let Some(name) = attrs.string(IFLA_IFNAME).filter(|name| !name.is_empty())
            && u32_at(header, 4) != 0
        {
            self.rename(index, &name)?;
        }
        if let Some(alias) = attrs.string(IFLA_IFALIAS) {
            self.change_quietly(index, |link| link.alias = alias);
        }
        if let Some(broadcast) = attrs.array::<6>(IFLA_BROADCAST) {
            self.with_link(index, |link| link.broadcast = broadcast.to_vec());
            self.link_hardware_address(index);
            self.tell(index);
        }
        self.set_flags(index, u32_at(header, 8), u32_at(header, 12))?;
        if let Some(master) = attrs.u32(IFLA_MASTER) {
            self.set_master(index, master)?;
        }
        Ok(())
    }

    pub(super) fn with_link(&mut self, index: u32, change: impl FnOnce(&mut Link)) {
        if let Some(link) = self.links.all.get_mut(&index) {
            change(link);
        }
    }

    /// `netif_set_mac_address` and what the drivers say to it.
    fn set_address(&mut self, index: u32, address: [u8; 6]) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if !link.kind.changes_address() {
            return Err(EOPNOTSUPP.into());
        }
        let same = link.address == address;
        if !same {
            check_address(address)?;
        }
        let apart = link.kind == LinkKind::Macvlan && !link.is_passthru();
        if apart && !same && self.is_taken(link, address) {
            return Err(EADDRINUSE.into());
        }
        if let Some(lower) = link.lower().filter(|_| link.is_passthru() && !same) {
            // The lower device gets it, and hands it on.
            self.set_address(lower, address)?;
        }
        self.take_address(index, address);
        for upper in self.links.on(index) {
            if self.links.get(upper).is_some_and(Link::is_passthru) {
                self.take_address(upper, address);
            }
        }
        if !same
            && self
                .links
                .get(index)
                .is_some_and(|link| link.kind == LinkKind::Bridge)
        {
            self.select_ports(index);
        }
        if let Some(master) = self.links.get(index).and_then(|link| link.master) {
            self.ports_changed(master);
        }
        Ok(())
    }

    fn take_address(&mut self, index: u32, address: [u8; 6]) {
        self.with_link(index, |link| {
            link.address = address.to_vec();
            link.address_set = true;
        });
        self.link_hardware_address(index);
        self.tell(index);
    }

    /// `netif_set_mtu_ext`.
    fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if link.mtu == mtu {
            return Ok(());
        }
        if !self.is(Flaw::MtuUnchecked) {
            self.check_mtu(link, mtu)?;
        }
        self.with_link(index, |link| link.mtu_set = true);
        self.change_mtu(index, mtu);
        Ok(())
    }

    /// `NETDEV_CHANGEMTU`: those on the link do not stay larger, and its master may follow.
    pub(super) fn change_mtu(&mut self, index: u32, mtu: u32) {
        let Some(link) = self.links.all.get_mut(&index) else {
            return;
        };
        let before = std::mem::replace(&mut link.mtu, mtu);
        if before == mtu {
            return;
        }
        let master = link.master;
        self.link_mtu(index, before);
        for upper in self.links.on(index) {
            let larger = |link: &Link| link.kind != LinkKind::Vxlan && link.mtu > mtu;
            if self.links.get(upper).is_some_and(larger) {
                self.change_mtu(upper, mtu);
            }
        }
        if let Some(master) = master {
            self.ports_changed(master);
        }
    }

    fn rename(&mut self, index: u32, name: &[u8]) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if link.name == name {
            return Ok(());
        }
        let name = self.links.valid_name(name)?;
        let before = link.name.clone();
        self.with_link(index, |link| link.name = name);
        self.link_renamed(index, &before);
        Ok(())
    }

    /// `netif_change_flags` of `rtnl_dev_combine_flags`; without a mask all flags are meant.
    pub(super) fn set_flags(&mut self, index: u32, flags: u32, mask: u32) -> Result<(), Refusal> {
        // Besides those named IFF_DEBUG, _NOTRAILERS, _PORTSEL, _AUTOMEDIA and _DYNAMIC.
        const FREE: u32 = 0x4 | 0x20 | 0x2000 | 0x4000 | 0x8000 | IFF_NOARP | IFF_MULTICAST;
        const SETTABLE: u32 = FREE | IFF_PROMISC | IFF_ALLMULTI;
        if flags == 0 && mask == 0 {
            return Ok(());
        }
        let mask = if mask == 0 { u32::MAX } else { mask };
        let link = self.links.get(index).ok_or(ENODEV)?;
        let (was, up) = (link.flags, link.is_up());
        let wanted = flags & mask | was & !mask;
        self.with_link(index, |link| {
            link.flags = wanted & SETTABLE | was & !SETTABLE
        });
        let changed = (wanted ^ was) & SETTABLE;
        if wanted & IFF_UP != was & IFF_UP {
            self.may_open(index, wanted & IFF_UP != 0)?;
            self.set_link_up(index, wanted & IFF_UP != 0);
        } else if up && changed & FREE != 0 {
            if changed & IFF_NOARP != 0 {
                self.addresses6_noarp(index);
            }
            let carrier = self.links.get(index).is_some_and(|link| link.carrier);
            self.addresses6_carrier(index, carrier);
        }
        Ok(())
    }
}
