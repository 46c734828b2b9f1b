//! `RTM_NEWLINK`, `RTM_SETLINK`, `RTM_DELLINK`: creation, change and deletion of links.

use super::super::bag::Bag;
use super::super::neighbour::Flush;
use super::super::numbers::*;
use super::super::request::{Refusal, Request, refuse_if};
use super::super::{Flaw, State};
use super::Link;
use super::kind::LinkKind;

/// Attributes handled here or kept in another form.
pub(super) const READ: [u16; 8] =
    [IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER, IFLA_LINKINFO, IFLA_IFALIAS, 29, 26];

impl State {
    /// Executes `RTM_*LINK`, then announces every changed link.
    pub(in super::super) fn write_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        self.links.remember();
        let done = match request.kind & 3 {
            1 => self.delete_links(request),
            _ => self.make_or_change_link(request),
        };
        self.announce_changed_links();
        done
    }

    /// `rtnl_newlink`, `rtnl_setlink`.
    fn make_or_change_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        const RTM_SETLINK: u16 = 19;
        let is_set = request.kind == RTM_SETLINK;
        let info = request.attrs.nested(IFLA_LINKINFO).unwrap_or_default();
        let index = match self.requested_link(request).map(|link| link.index) {
            Err(_) if !is_set && request.has(NLM_F_CREATE) => {
                let kind = info.text(IFLA_INFO_KIND).and_then(LinkKind::named);
                let data = info.nested(IFLA_INFO_DATA).unwrap_or_default();
                return self.make_link(kind.ok_or(EOPNOTSUPP)?, data, request);
            }
            found => found?,
        };
        refuse_if(!is_set && request.has(NLM_F_EXCL), EEXIST)?;
        refuse_if(!is_set && request.has(NLM_F_REPLACE), EOPNOTSUPP)?;
        if let Some(data) = info.nested(IFLA_INFO_DATA).filter(|_| !is_set) {
            self.change_kind(index, info.text(IFLA_INFO_KIND), &data, request)?;
        }
        self.set_link(index, request)
    }

    /// `rtnl_changelink`, the kind's part.
    fn change_kind(
        &mut self,
        index: u32,
        kind: Option<&[u8]>,
        data: &Bag,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let mut link = self.links.get(index).cloned().ok_or(ENODEV)?;
        let is_other = kind != Some(link.kind.word.as_bytes());
        refuse_if(is_other || link.is("vxlan") && request.attrs.has(IFLA_MTU), EOPNOTSUPP)?;
        let had_spanning_tree = link.has_spanning_tree();
        self.configure(&mut link, data, false)?;
        link.origin = self.changed(link.origin);
        let starts_spanning_tree = link.has_spanning_tree() && !had_spanning_tree;
        self.change_state(index, |was| *was = link);
        if starts_spanning_tree {
            self.update_bridge_carrier(index);
        }
        self.update_carriers(index);
        Ok(())
    }

    /// `do_setlink`: sets one attribute after another; those set before an error stay.
    fn set_link(&mut self, index: u32, request: &Request<'_>) -> Result<(), Refusal> {
        let attrs = &request.attrs;
        if let Some(address) = attrs.array::<6>(IFLA_ADDRESS) {
            self.set_address(index, address)?;
        }
        if let Some(mtu) = attrs.u32(IFLA_MTU) {
            self.set_mtu(index, mtu)?;
        }
        if let Some(name) = attrs.text(IFLA_IFNAME).filter(|name| !name.is_empty())
            && request.u32(4) != 0
        {
            self.rename(index, name)?;
        }
        let mut others = attrs.clone();
        others.remove(&READ);
        others.remove(&[IFLA_ADDRESS]);
        if let Some(alias) = attrs.text(IFLA_IFALIAS) {
            self.change_state(index, |link| match alias {
                [] => link.attrs.remove(&[IFLA_IFALIAS]),
                _ => link.attrs.set_text(IFLA_IFALIAS, alias),
            });
        }
        if others != Bag::default() {
            self.change_state(index, |link| link.attrs.add(&others));
        }
        self.set_flags(index, request.u32(8), request.u32(12))?;
        match attrs.u32(IFLA_MASTER) {
            Some(master) => self.set_master(index, master),
            None => Ok(()),
        }
    }

    fn set_address(&mut self, index: u32, address: [u8; 6]) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        let (is_bridge, master) = (link.is("bridge"), link.master);
        refuse_if(link.is("ifb"), EOPNOTSUPP)?;
        let is_same = link.address() == address;
        self.with_link(index, |link| {
            link.attrs.set(IFLA_ADDRESS, address);
            link.has_own_address = true;
        });
        self.flush_neighbours(index, Flush::Address);
        self.announce_link(index);
        if is_bridge && !is_same {
            self.update_bridge_carrier(index);
        }
        if let Some(master) = master {
            self.ports_changed(master);
        }
        Ok(())
    }

    fn set_mtu(&mut self, index: u32, mtu: u32) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        if link.mtu != mtu {
            self.check_mtu(link, mtu)?;
            self.with_link(index, |link| link.has_own_mtu = true);
            self.change_mtu(index, mtu);
        }
        Ok(())
    }

    pub(super) fn check_mtu(&self, link: &Link, mtu: u32) -> Result<(), Refusal> {
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        let (mut least, mut greatest) = link.kind.mtu_limits;
        if let Some(lower) = lower.filter(|_| link.is("macvlan")) {
            (least, greatest) = lower.kind.mtu_limits;
        }
        let fits = mtu <= i32::MAX as u32
            && mtu >= least
            && (greatest == 0 || mtu <= greatest)
            && lower.is_none_or(|lower| mtu <= lower.mtu.saturating_sub(link.headroom()));
        if fits || self.has_flaw(Flaw::MtuUnchecked) { Ok(()) } else { Err(EINVAL.into()) }
    }

    /// `NETDEV_CHANGEMTU`: cuts the MTU of links on this one; its master may follow.
    pub(super) fn change_mtu(&mut self, index: u32, mtu: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        let (before, master) = (link.mtu, link.master);
        if before == mtu {
            return;
        }
        self.with_link(index, |link| link.mtu = mtu);
        self.link_mtu(index, before);
        for upper in self.links.on(index) {
            if self.links.get(upper).is_some_and(|link| !link.is("vxlan") && link.mtu > mtu) {
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
        let name = self.free_name(name)?;
        self.with_link(index, |link| link.name.clone_from(&name));
        self.addresses4_renamed(index, &name);
        Ok(())
    }

    /// `netif_change_flags`.
    pub(super) fn set_flags(&mut self, index: u32, flags: u32, mask: u32) -> Result<(), Refusal> {
        // While the link is up, protocols learn of changes to these.
        const FREE: u32 = IFF_NOARP | IFF_MULTICAST;
        /// `IFF_PROMISC`, `IFF_ALLMULTI`.
        const SETTABLE: u32 = FREE | 0x100 | 0x200;
        let link = self.links.get(index).ok_or(ENODEV)?;
        let (was, lower, is_vlan) = (link.flags, link.lower(), link.is("vlan"));
        let wanted = flags & mask | was & !mask;
        let changed = wanted ^ was;
        if (flags, mask) != (0, 0) {
            self.with_link(index, |link| link.flags ^= changed & SETTABLE);
        }
        let up = wanted & IFF_UP != 0;
        if changed & IFF_UP == 0 {
            if up && changed & FREE != 0 {
                self.addresses6_carrier(index, self.has_carrier(index));
            }
            return Ok(());
        }
        refuse_if(up && is_vlan && !lower.is_some_and(|lower| self.is_up(lower)), ENETDOWN)?;
        self.set_link_up(index, up);
        Ok(())
    }

    fn delete_links(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let is_group = request.u32(4) == 0 && !request.attrs.has(IFLA_IFNAME);
        let going = match request.attrs.u32(IFLA_GROUP).filter(|_| is_group) {
            Some(0) => return Err(EPERM.into()),
            Some(group) => {
                let of_group = self.links.iter().filter(|link| link.group() == group);
                of_group.map(|link| link.index).collect()
            }
            None => vec![self.requested_link(request)?.index],
        };
        refuse_if(going.is_empty(), ENODEV)?;
        refuse_if(going.iter().any(|index| self.is_loopback(*index)), EOPNOTSUPP)?;
        self.unregister_links(&going, None);
        Ok(())
    }
}
