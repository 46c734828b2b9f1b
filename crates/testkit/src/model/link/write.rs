//! `RTM_NEWLINK`, `RTM_SETLINK`, `RTM_DELLINK`: how links are made, changed and deleted.

use crate::message::u32_at;

use super::super::bag::Bag;
use super::super::neighbour::Flush;
use super::super::numbers::*;
use super::super::request::{Refusal, Request};
use super::super::{Flaw, Origin, State};
use super::kind::LinkKind;
use super::{
    IFF_MULTICAST, IFF_NOARP, IFF_UP, IFLA_ADDRESS, IFLA_BROADCAST, IFLA_GROUP, IFLA_IFALIAS,
    IFLA_IFNAME, IFLA_INFO_DATA, IFLA_INFO_KIND, IFLA_LINK, IFLA_LINKINFO, IFLA_MASTER, IFLA_MTU,
    Link,
};

const VETH_INFO_PEER: u16 = 1;
const IFNAMSIZ: usize = 16;
/// Attributes that are read, or kept in another form.
const READ: [u16; 8] = [
    IFLA_IFNAME,
    IFLA_MTU,
    IFLA_LINK,
    IFLA_MASTER,
    IFLA_LINKINFO,
    IFLA_IFALIAS,
    29,
    26,
];

impl Link {
    pub(super) fn new(kind: &'static LinkKind) -> Self {
        Self {
            origin: Origin::default(),
            index: 0,
            name: Vec::new(),
            flags: kind.flags,
            carrier: kind.carrier,
            mtu: kind.mtu,
            kind,
            below: None,
            master: None,
            attrs: Bag::default(),
            data: kind.defaults(),
            is_enabled: false,
            has_own_address: false,
            has_own_mtu: false,
        }
    }
}

impl State {
    /// `RTM_*LINK`, then the announcement of all that is not as it was.
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
        if !is_set && request.has(NLM_F_EXCL) {
            return Err(EEXIST.into());
        }
        if !is_set && request.has(NLM_F_REPLACE) {
            return Err(EOPNOTSUPP.into());
        }
        if let Some(data) = info.nested(IFLA_INFO_DATA).filter(|_| !is_set) {
            self.change_kind(index, info.text(IFLA_INFO_KIND), &data, request)?;
        }
        self.set_link(index, request)
    }

    /// `rtnl_newlink_create`.
    fn make_link(
        &mut self,
        kind: &'static LinkKind,
        data: Bag,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let index = request.u32(4);
        let mut link = self.new_device(kind, &request.attrs)?;
        if kind.word == "veth" {
            link.below = Some(self.make_peer(index, data.get(VETH_INFO_PEER))?);
        }
        let peer = link.below;
        let made = self.finish_device(&mut link, index, request, &data);
        let index = link.index;
        let is_registered = made.is_ok();
        if is_registered {
            let has_carrier_checked = link.is("bridge") && link.has_own_address;
            let lower = link.lower();
            self.register_link(link);
            if let Some(lower) = lower {
                self.announce_link(lower);
            }
            if has_carrier_checked {
                self.update_bridge_carrier(index);
            }
        }
        let announced = made.and_then(|()| {
            if let Some(peer) = peer.filter(|_| kind.word == "veth") {
                self.with_link(peer, |link| link.below = Some(index));
            }
            self.update_carriers(index);
            self.set_flags(index, request.u32(8), request.u32(12))
        });
        let done = announced.and_then(|()| match request.attrs.u32(IFLA_MASTER) {
            Some(master) => self.set_master(index, master),
            None => Ok(()),
        });
        if done.is_err() {
            let own = is_registered.then_some(index);
            let peer = peer.filter(|_| kind.word == "veth");
            let going: Vec<_> = own.into_iter().chain(peer).collect();
            // A VXLAN was announced when it came.
            let is_unannounced = announced.is_err() && kind.word != "vxlan";
            self.unregister_links(&going, own.filter(|_| is_unannounced));
        }
        done
    }

    /// The other end of a pair, which is made first.
    fn make_peer(&mut self, index: u32, nest: Option<&[u8]>) -> Result<u32, Refusal> {
        let (header, attrs) = match nest.and_then(|nest| nest.split_first_chunk::<16>()) {
            Some((header, rest)) => (*header, Bag::read(rest)),
            None => ([0; 16], Bag::default()),
        };
        let veth = LinkKind::named(b"veth").ok_or(EINVAL)?;
        let mut peer = self.new_device(veth, &attrs)?;
        let wanted = if index == 0 { 0 } else { u32_at(&header, 4) };
        self.place_link(&mut peer, wanted, attrs.text(IFLA_IFNAME))?;
        peer.below = Some(0);
        let index = peer.index;
        self.register_link(peer);
        // It is announced before there is another.
        self.announce_link(index);
        Ok(index)
    }

    /// `rtnl_create_link`: of any kind, not yet in its place.
    fn new_device(&mut self, kind: &'static LinkKind, attrs: &Bag) -> Result<Link, Refusal> {
        let mut link = Link {
            origin: self.new_origin(),
            attrs: attrs.clone(),
            ..Link::new(kind)
        };
        if let Some(mtu) = attrs.u32(IFLA_MTU) {
            self.check_mtu(&link, mtu)?;
            link.mtu = mtu;
            link.has_own_mtu = !link.is("bridge");
        }
        link.has_own_address = attrs.has(IFLA_ADDRESS);
        link.attrs.remove(&READ);
        if !attrs.has(IFLA_BROADCAST) {
            link.attrs.set(IFLA_BROADCAST, [0xff; 6]);
        }
        link.attrs
            .set_u32(IFLA_GROUP, attrs.u32(IFLA_GROUP).unwrap_or(0));
        Ok(link)
    }

    /// A kind's own part of making a link (`newlink`).
    fn finish_device(
        &mut self,
        link: &mut Link,
        index: u32,
        request: &Request<'_>,
        data: &Bag,
    ) -> Result<(), Refusal> {
        link.index = index;
        if matches!(link.kind.word, "macvlan" | "vlan") {
            self.put_on_lower(link, &request.attrs)?;
        }
        self.configure(link, data, true)?;
        self.place_link(link, index, request.attrs.text(IFLA_IFNAME))
    }

    fn put_on_lower(&self, link: &mut Link, attrs: &Bag) -> Result<(), Refusal> {
        let below = |index: Option<u32>| self.links.get(index?);
        let index = attrs.u32(IFLA_LINK).ok_or(EINVAL)?;
        let mut lower = self.links.get(index).ok_or(ENODEV)?;
        // On another macvlan it lies beside it.
        if link.is("macvlan") && lower.is("macvlan") {
            lower = below(lower.lower()).ok_or(ENODEV)?;
        }
        link.below = Some(lower.index);
        link.carrier = lower.carrier;
        if !link.has_own_mtu {
            link.mtu = lower.mtu;
        } else if link.mtu > lower.mtu {
            return Err(EINVAL.into());
        }
        if link.is("vlan") && !link.has_own_address {
            link.attrs.set(IFLA_ADDRESS, lower.address());
        }
        let bridge = below(lower.master);
        match link.is("macvlan") {
            true if lower.is_loopback() => Err(EINVAL.into()),
            true if bridge.is_some_and(|bridge| bridge.is("bridge")) => Err(EBUSY.into()),
            _ => Ok(()),
        }
    }

    /// `register_netdevice`: a name and an index of its own, and an address if it was given none.
    fn place_link(
        &mut self,
        link: &mut Link,
        index: u32,
        name: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        let pattern = format!("{}%d", link.kind.word).into_bytes();
        link.name = self.free_name(name.unwrap_or(&pattern))?;
        if self.links.get(index).is_some() {
            return Err(EBUSY.into());
        }
        link.index = match index {
            0 => self.links.free_index(),
            index => index,
        };
        if link.address().is_empty() {
            let [a, b, c, d] = link.index.to_be_bytes();
            link.attrs.set(IFLA_ADDRESS, [0x02, 0xfa, a, b, c, d]);
        }
        Ok(())
    }

    /// `dev_alloc_name`: the name itself, or the first free one of a pattern such as `veth%d`.
    fn free_name(&self, wanted: &[u8]) -> Result<Vec<u8>, Refusal> {
        let is_free = |name: &Vec<u8>| self.links.named(name).is_none();
        let Some(at) = wanted.iter().position(|byte| *byte == b'%') else {
            return Some(wanted.to_vec()).filter(is_free).ok_or(EEXIST.into());
        };
        let (head, tail) = (&wanted[..at], wanted.get(at + 2..).unwrap_or(&[]));
        let numbered = |number: u32| {
            let mut name = [head, number.to_string().as_bytes(), tail].concat();
            name.truncate(IFNAMSIZ - 1);
            name
        };
        let mut names = (0..).map(numbered);
        names.find(is_free).ok_or(EEXIST.into())
    }

    /// `rtnl_changelink`, the part of the kind.
    fn change_kind(
        &mut self,
        index: u32,
        kind: Option<&[u8]>,
        data: &Bag,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        let mut link = self.links.get(index).cloned().ok_or(ENODEV)?;
        let is_other = kind != Some(link.kind.word.as_bytes());
        if is_other || link.is("vxlan") && request.attrs.has(IFLA_MTU) {
            return Err(EOPNOTSUPP.into());
        }
        self.configure(&mut link, data, false)?;
        link.origin = self.changed(link.origin);
        self.change_state(index, |was| *was = link);
        self.update_carriers(index);
        Ok(())
    }

    /// `do_setlink`: one after another; what was set before an error stays.
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
        if link.is("ifb") {
            return Err(EOPNOTSUPP.into());
        }
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

    fn check_mtu(&self, link: &Link, mtu: u32) -> Result<(), Refusal> {
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        let (mut least, mut greatest) = link.kind.mtu_limits;
        if let Some(lower) = lower.filter(|_| link.is("macvlan")) {
            (least, greatest) = lower.kind.mtu_limits;
        }
        let fits = mtu <= i32::MAX as u32
            && mtu >= least
            && (greatest == 0 || mtu <= greatest)
            && lower.is_none_or(|lower| mtu <= lower.mtu.saturating_sub(link.headroom()));
        match fits || self.has_flaw(Flaw::MtuUnchecked) {
            true => Ok(()),
            false => Err(EINVAL.into()),
        }
    }

    /// `NETDEV_CHANGEMTU`: those on the link do not stay larger, and its master may follow.
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
            let is_larger = |link: &Link| !link.is("vxlan") && link.mtu > mtu;
            if self.links.get(upper).is_some_and(is_larger) {
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
    fn set_flags(&mut self, index: u32, flags: u32, mask: u32) -> Result<(), Refusal> {
        // Changes of these are announced to protocols, while the link is up.
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
        if up && is_vlan && !lower.is_some_and(|lower| self.is_up(lower)) {
            return Err(ENETDOWN.into());
        }
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
        if going.is_empty() {
            return Err(ENODEV.into());
        }
        if going.iter().any(|index| self.is_loopback(*index)) {
            return Err(EOPNOTSUPP.into());
        }
        self.unregister_links(&going, None);
        Ok(())
    }
}
