//! Creation of links.

use crate::message::u32_at;

use super::super::bag::Bag;
use super::super::numbers::*;
use super::super::request::{Refusal, Request, refuse_if};
use super::super::{Origin, State};
use super::Link;
use super::kind::LinkKind;
use super::write::READ;

const VETH_INFO_PEER: u16 = 1;
const IFNAMSIZ: usize = 16;

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
    /// `rtnl_newlink_create`.
    pub(super) fn make_link(
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
            let has_carrier_checked =
                link.is("bridge") && (link.has_own_address || link.has_spanning_tree());
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
            // A VXLAN was announced at its creation.
            let is_unannounced = announced.is_err() && kind.word != "vxlan";
            self.unregister_links(&going, own.filter(|_| is_unannounced));
        }
        done
    }

    /// Makes the other end of a pair, which comes first, and returns its index.
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
        // Announced before the second link exists.
        self.announce_link(index);
        Ok(index)
    }

    /// `rtnl_create_link`: makes a link of any kind, not yet registered.
    fn new_device(&mut self, kind: &'static LinkKind, attrs: &Bag) -> Result<Link, Refusal> {
        let mut link = Link { origin: self.new_origin(), attrs: attrs.clone(), ..Link::new(kind) };
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
        link.attrs.set_u32(IFLA_GROUP, attrs.u32(IFLA_GROUP).unwrap_or(0));
        Ok(link)
    }

    /// Does a kind's own part of the creation (`newlink`).
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
        // A macvlan on another macvlan lies on the same lower device as that one.
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

    /// `register_netdevice`: assigns a name and an index, and an address if the request has none.
    fn place_link(
        &mut self,
        link: &mut Link,
        index: u32,
        name: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        let pattern = format!("{}%d", link.kind.word).into_bytes();
        link.name = self.free_name(name.unwrap_or(&pattern))?;
        refuse_if(self.links.get(index).is_some(), EBUSY)?;
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

    /// `dev_alloc_name`: returns the name itself, or the first free one of a pattern such as
    /// `veth%d`.
    pub(super) fn free_name(&self, wanted: &[u8]) -> Result<Vec<u8>, Refusal> {
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
}
