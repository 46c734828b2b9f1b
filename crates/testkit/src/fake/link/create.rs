//! Making a link: the other end of a pair first, then the link on its lower device with what its kind was told, a name and
//! an index of its own, its flags and its master. When one of the last two fails the link goes again.

use crate::message::u32_at;

use super::super::request::{Attributes, EBUSY, EINVAL, ENODEV, Refusal};
use super::super::state::State;
use super::check::vxlan_headroom;
use super::kind::LinkKind;
use super::write::VETH_INFO_PEER;
use super::{
    IFF_UP, IFLA_ADDRESS, IFLA_BROADCAST, IFLA_GROUP, IFLA_IFNAME, IFLA_LINK, IFLA_MASTER,
    IFLA_MTU, Link,
};

const ENOTCONN: i32 = 107;

impl State {
    /// `rtnl_newlink_create`.
    pub(super) fn make_link(
        &mut self,
        header: &[u8; 16],
        attrs: Attributes<'_>,
        kind: LinkKind,
        data: Option<Attributes<'_>>,
    ) -> Result<(), Refusal> {
        let mut link = self.new_device(kind, attrs)?;
        let index = u32_at(header, 4);
        let data = data.unwrap_or_default();
        if kind == LinkKind::Veth {
            self.make_peer(&mut link, index, attrs, data)?;
        }
        let made = self.finish_device(&mut link, index, attrs, data);
        let index = link.index;
        let peer = link.below.filter(|_| kind == LinkKind::Veth);
        if made.is_ok() {
            let addressed = kind == LinkKind::Bridge && link.address_set;
            let lower = link.lower();
            self.register_link(link);
            self.tell_lower(lower);
            if addressed {
                self.select_ports(index);
            }
        }
        let registered = made.is_ok();
        let known = made.and_then(|()| {
            if let Some(peer) = peer {
                self.with_link(peer, |link| link.below = Some(index));
            }
            self.carry(index);
            self.set_flags(index, u32_at(header, 8), u32_at(header, 12))
        });
        let joined = match attrs.u32(IFLA_MASTER) {
            Some(master) if known.is_ok() => self.set_master(index, master),
            _ => Ok(()),
        };
        if known.and(joined).is_err() {
            let own = registered.then_some(index);
            let going: Vec<_> = [own, peer].into_iter().flatten().collect();
            // A VXLAN device was told of when it came.
            let unknown = known.is_err() && kind != LinkKind::Vxlan;
            self.unregister_links(&going, own.filter(|_| unknown));
        }
        known.and(joined)
    }

    /// The other end of a pair, which comes to be first.
    fn make_peer(
        &mut self,
        link: &mut Link,
        index: u32,
        attrs: Attributes<'_>,
        data: Attributes<'_>,
    ) -> Result<(), Refusal> {
        let nest = data.get(VETH_INFO_PEER);
        let (header, peer_attrs) = match nest.and_then(|nest| nest.split_first_chunk::<16>()) {
            Some((header, rest)) => (*header, Attributes::new(rest)),
            None => ([0; 16], attrs),
        };
        let mut peer = self.new_device(LinkKind::Veth, peer_attrs)?;
        let mut wanted = peer_attrs.string(IFLA_IFNAME);
        if nest.is_none() {
            wanted = None;
            peer.address.clear();
        }
        let wanted_index = if index == 0 { 0 } else { u32_at(&header, 4) };
        self.place_link(&mut peer, wanted_index, wanted)?;
        link.below = Some(peer.index);
        let index = peer.index;
        let (flags, mask) = (u32_at(&header, 8), u32_at(&header, 12));
        if flags & IFF_UP != 0 && (mask == 0 || mask & IFF_UP != 0) {
            return Err(ENOTCONN.into()); // veth_open, as there is no other end yet
        }
        peer.below = Some(0);
        self.register_link(peer);
        self.set_flags(index, flags, mask)?;
        // It is told of before there is another.
        self.tell(index);
        Ok(())
    }

    /// `rtnl_create_link`: of any kind, not yet in its place.
    fn new_device(&self, kind: LinkKind, attrs: Attributes<'_>) -> Result<Link, Refusal> {
        let mut link = kind.new_link();
        for number in [IFLA_ADDRESS, IFLA_BROADCAST] {
            if attrs.get(number).is_some_and(|address| address.len() < 6) {
                return Err(EINVAL.into());
            }
        }
        if let Some(mtu) = attrs.u32(IFLA_MTU) {
            self.check_mtu(&link, mtu)?;
            link.mtu = mtu;
        }
        if let Some(address) = attrs.array::<6>(IFLA_ADDRESS) {
            link.address = address.to_vec();
            link.address_set = true;
        }
        if let Some(broadcast) = attrs.array::<6>(IFLA_BROADCAST) {
            link.broadcast = broadcast.to_vec();
        }
        link.group = attrs.u32(IFLA_GROUP).unwrap_or(0);
        Ok(link)
    }

    /// A kind's own part of making a link (`newlink`).
    fn finish_device(
        &mut self,
        link: &mut Link,
        index: u32,
        attrs: Attributes<'_>,
        data: Attributes<'_>,
    ) -> Result<(), Refusal> {
        link.index = index;
        if matches!(link.kind, LinkKind::Macvlan | LinkKind::Vlan) {
            self.put_on_lower(link, attrs)?;
        }
        self.configure(link, data, false)?;
        self.check_lower(link)?;
        if let (LinkKind::Vxlan, Some(lower)) = (link.kind, link.lower())
            && let Some(lower) = self.links.get(lower)
        {
            let most = lower.mtu.saturating_sub(vxlan_headroom(link)).max(68);
            if attrs.get(IFLA_MTU).is_none() || link.mtu > most {
                link.mtu = most;
            }
        }
        self.place_link(link, index, attrs.string(IFLA_IFNAME))
    }

    fn put_on_lower(&self, link: &mut Link, attrs: Attributes<'_>) -> Result<(), Refusal> {
        let missing = Refusal::errno(EINVAL);
        let missing = match link.kind {
            LinkKind::Vlan => missing.because("link not specified"),
            _ => missing,
        };
        let mut lower = attrs.u32(IFLA_LINK).ok_or(missing)?;
        if link.kind == LinkKind::Macvlan {
            // On another macvlan it lies beside it.
            let on = self
                .links
                .get(lower)
                .filter(|on| on.kind == LinkKind::Macvlan);
            lower = on.and_then(Link::lower).unwrap_or(lower);
        }
        let lower = self.links.get(lower).ok_or(ENODEV)?;
        link.below = Some(lower.index);
        link.carrier = lower.carrier;
        if attrs.get(IFLA_MTU).is_none() {
            link.mtu = lower.mtu;
        } else if link.mtu > lower.mtu {
            return Err(EINVAL.into());
        }
        Ok(())
    }

    /// `macvlan_port_create` and the rules of passing through.
    fn check_lower(&self, link: &mut Link) -> Result<(), Refusal> {
        let Some(lower) = link.lower().and_then(|lower| self.links.get(lower)) else {
            return Ok(());
        };
        if link.kind == LinkKind::Vlan && link.address.is_empty() {
            link.address.clone_from(&lower.address);
        }
        if link.kind != LinkKind::Macvlan {
            return Ok(());
        }
        if lower.is_loopback() {
            return Err(EINVAL.into());
        }
        let bridge = lower.master.and_then(|master| self.links.get(master));
        if bridge.is_some_and(|bridge| bridge.kind == LinkKind::Bridge) {
            return Err(EBUSY.into());
        }
        let mut others = self.links.on(lower.index).into_iter().filter_map(|on| {
            let on = self.links.get(on)?;
            (on.kind == LinkKind::Macvlan).then_some(on)
        });
        if link.is_passthru() {
            if others.next().is_some() {
                return Err(EINVAL.into());
            }
            link.address.clone_from(&lower.address);
        } else if others.any(Link::is_passthru) {
            return Err(EINVAL.into());
        }
        Ok(())
    }

    /// `register_netdevice`: a name and an index of its own, and an address if it was given none.
    fn place_link(
        &mut self,
        link: &mut Link,
        index: u32,
        name: Option<Vec<u8>>,
    ) -> Result<(), Refusal> {
        let pattern = || format!("{}%d", link.kind.word()).into_bytes();
        link.name = self.links.valid_name(&name.unwrap_or_else(pattern))?;
        if self.links.get(index).is_some() {
            return Err(EBUSY.into());
        }
        link.index = if index == 0 {
            self.links.free_index()
        } else {
            index
        };
        if link.address.is_empty() {
            let [a, b, c, d] = link.index.to_be_bytes();
            link.address = vec![0x02, 0xfa, a, b, c, d];
        }
        Ok(())
    }
}
