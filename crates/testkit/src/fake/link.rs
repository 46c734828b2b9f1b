//! Links (`net/core/rtnetlink.c`, `net/core/dev.c`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, push_attribute, u32_at};

use super::dispatch::Answer;
use super::request::{
    Attributes, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, NLM_F_CREATE, NLM_F_EXCL, Refusal, Request,
};
use super::state::{State, group};

/// All links, by index.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) all: BTreeMap<u32, Link>,
}

/// One link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: Vec<u8>,
    /// `IFF_*` as set by whoever owns it; `IFF_UP` is in it, status flags are not.
    pub(crate) flags: u32,
    /// Whether the other end, or the lower device, is there and up.
    pub(crate) carrier: bool,
    /// `ARPHRD_*`.
    pub(crate) arp_type: u16,
    pub(crate) mtu: u32,
    pub(crate) address: Vec<u8>,
    pub(crate) broadcast: Vec<u8>,
    /// `IFLA_INFO_KIND`; empty for `lo`.
    pub(crate) kind: &'static str,
    /// `IFLA_LINK`: the lower device, or the other end of a pair.
    pub(crate) below: Option<u32>,
    pub(crate) master: Option<u32>,
    pub(crate) group: u32,
    pub(crate) alias: Vec<u8>,
}

pub(crate) const IFF_UP: u32 = 0x1;
pub(crate) const IFF_BROADCAST: u32 = 0x2;
pub(crate) const IFF_LOOPBACK: u32 = 0x8;
pub(crate) const IFF_RUNNING: u32 = 0x40;
pub(crate) const IFF_NOARP: u32 = 0x80;
pub(crate) const IFF_MULTICAST: u32 = 0x1000;
pub(crate) const IFF_LOWER_UP: u32 = 0x1_0000;

const IFLA_ADDRESS: u16 = 1;
const IFLA_BROADCAST: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const IFLA_CARRIER: u16 = 33;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.flags & IFF_LOOPBACK != 0
    }

    /// Whether it could carry packets: `IFF_RUNNING` and `IFF_LOWER_UP` are set.
    pub(crate) fn is_running(&self) -> bool {
        self.is_up() && self.carrier
    }

    fn row(&self, action: Action) -> RawMessage {
        let mut flags = self.flags;
        if self.is_running() {
            flags |= IFF_RUNNING | IFF_LOWER_UP;
        }
        let mut header = vec![0, 0];
        header.extend(self.arp_type.to_ne_bytes());
        header.extend(self.index.to_ne_bytes());
        header.extend(flags.to_ne_bytes());
        header.extend([0; 4]);
        let mut attrs = BTreeMap::new();
        attrs.insert(IFLA_IFNAME, [&self.name[..], &[0]].concat());
        attrs.insert(IFLA_MTU, self.mtu.to_ne_bytes().to_vec());
        attrs.insert(IFLA_GROUP, self.group.to_ne_bytes().to_vec());
        attrs.insert(IFLA_CARRIER, vec![self.carrier.into()]);
        attrs.insert(
            IFLA_OPERSTATE,
            vec![if self.is_loopback() {
                0
            } else if self.is_running() {
                6
            } else {
                2
            }],
        );
        if !self.address.is_empty() {
            attrs.insert(IFLA_ADDRESS, self.address.clone());
            attrs.insert(IFLA_BROADCAST, self.broadcast.clone());
        }
        if let Some(below) = self.below {
            attrs.insert(IFLA_LINK, below.to_ne_bytes().to_vec());
        }
        if let Some(master) = self.master {
            attrs.insert(IFLA_MASTER, master.to_ne_bytes().to_vec());
        }
        if !self.alias.is_empty() {
            attrs.insert(IFLA_IFALIAS, [&self.alias[..], &[0]].concat());
        }
        if !self.kind.is_empty() {
            let mut info = Vec::new();
            push_attribute(
                &mut info,
                IFLA_INFO_KIND,
                &[self.kind.as_bytes(), &[0]].concat(),
            );
            attrs.insert(IFLA_LINKINFO, info);
        }
        RawMessage {
            kind: Kind::Link,
            action,
            header,
            attrs,
        }
    }
}

impl Links {
    pub(crate) fn get(&self, index: u32) -> Option<&Link> {
        self.all.get(&index)
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<&Link> {
        self.all.values().find(|link| link.name == name)
    }

    fn free_index(&self) -> u32 {
        (1..)
            .find(|index| !self.all.contains_key(index))
            .unwrap_or(u32::MAX)
    }
}

impl State {
    pub(crate) fn new_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        let index = u32_at(header, 4);
        let name = attrs.string(IFLA_IFNAME);
        let found = if index > 0 {
            self.links.get(index)
        } else {
            self.links.named(name.as_deref().unwrap_or_default())
        };
        if let Some(found) = found.map(|link| link.index) {
            if request.has(NLM_F_EXCL) {
                return Err(EEXIST.into());
            }
            return self.set_link(found, header);
        }
        if !request.has(NLM_F_CREATE) {
            return Err(ENODEV.into());
        }
        let info = attrs.nested(IFLA_LINKINFO).unwrap_or_default();
        match info.string(IFLA_INFO_KIND).as_deref() {
            Some(b"veth") => self.new_veth(header, attrs, info),
            _ => Err(EOPNOTSUPP.into()),
        }
    }

    fn new_veth(
        &mut self,
        header: &[u8; 16],
        attrs: Attributes<'_>,
        info: Attributes<'_>,
    ) -> Result<(), Refusal> {
        let data = info.nested(IFLA_INFO_DATA).unwrap_or_default();
        let peer = data.get(VETH_INFO_PEER).unwrap_or(&[0; 16]);
        let (peer_header, peer_attrs) = peer.split_first_chunk::<16>().ok_or(EINVAL)?;
        let peer = self.ether("veth", peer_header, Attributes::new(peer_attrs))?;
        let mut link = self.ether("veth", header, attrs)?;
        link.below = Some(peer.index);
        let (index, peer_index) = (link.index, peer.index);
        let peer = Link {
            below: Some(index),
            ..peer
        };
        for link in [peer, link] {
            let index = link.index;
            self.links.all.insert(index, link);
            self.link_registered(index);
        }
        for index in [peer_index, index] {
            self.announce_link(index, Action::New);
        }
        Ok(())
    }

    fn ether(
        &self,
        kind: &'static str,
        header: &[u8; 16],
        attrs: Attributes<'_>,
    ) -> Result<Link, Refusal> {
        let index = match u32_at(header, 4) {
            0 => self.links.free_index(),
            index => index,
        };
        let name = attrs.string(IFLA_IFNAME).ok_or(EINVAL)?;
        if self.links.get(index).is_some() || self.links.named(&name).is_some() {
            return Err(EEXIST.into());
        }
        Ok(Link {
            index,
            name,
            flags: IFF_BROADCAST | IFF_MULTICAST,
            arp_type: ARPHRD_ETHER,
            mtu: 1500,
            address: attrs
                .array::<6>(IFLA_ADDRESS)
                .unwrap_or([2, 0, 0, 0, 0, 0])
                .to_vec(),
            broadcast: vec![0xff; 6],
            kind,
            ..Link::default()
        })
    }

    fn set_link(&mut self, index: u32, header: &[u8; 16]) -> Result<(), Refusal> {
        let (flags, change) = (u32_at(header, 8), u32_at(header, 12));
        if change & IFF_UP != 0 {
            self.set_link_up(index, flags & IFF_UP != 0);
        }
        Ok(())
    }

    /// `dev_open` and `dev_close`, with what follows at once.
    pub(crate) fn set_link_up(&mut self, index: u32, up: bool) {
        let Some(link) = self.links.all.get_mut(&index) else {
            return;
        };
        if link.is_up() == up {
            return;
        }
        link.flags ^= IFF_UP;
        let mut before = self.carriers();
        // veth_open tells of its own end before the other.
        before.sort_by_key(|(other, _)| *other != index);
        if up {
            self.link_up(index);
        } else {
            self.link_down(index);
        }
        // The kernel tells of a carrier from a work queue, after the rest.
        self.carry();
        self.announce_link(index, Action::New);
        for (other, was) in before {
            let now = self
                .links
                .get(other)
                .map(|link| (link.is_up(), link.carrier));
            if let Some((true, carrier)) = now
                && carrier != was
            {
                self.link_carrier(other, carrier);
                self.announce_link(other, Action::New);
            }
        }
    }

    fn carriers(&self) -> Vec<(u32, bool)> {
        self.links
            .all
            .values()
            .map(|link| (link.index, link.carrier))
            .collect()
    }

    /// Sets the carrier of each link by what it hangs on.
    fn carry(&mut self) {
        let up: BTreeMap<u32, bool> = self
            .links
            .all
            .values()
            .map(|link| (link.index, link.is_up()))
            .collect();
        for link in self.links.all.values_mut() {
            if link.kind == "veth" {
                let other = link
                    .below
                    .is_some_and(|below| up.get(&below) == Some(&true));
                link.carrier = link.is_up() && other;
            }
        }
    }

    pub(crate) fn del_link(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        let index = u32_at(header, 4);
        let found = if index > 0 {
            self.links.get(index)
        } else {
            self.links
                .named(&attrs.string(IFLA_IFNAME).unwrap_or_default())
        };
        let link = found.ok_or(ENODEV)?.clone();
        if link.kind.is_empty() {
            return Err(EOPNOTSUPP.into());
        }
        let going: Vec<_> = [Some(link.index), link.below]
            .into_iter()
            .flatten()
            .collect();
        for index in &going {
            self.set_link_up(*index, false);
        }
        for index in going {
            self.link_gone(index);
            self.announce_link(index, Action::Del);
            self.links.all.remove(&index);
        }
        Ok(())
    }

    pub(crate) fn dump_links(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: self
                .links
                .all
                .values()
                .map(|link| link.row(Action::New))
                .collect(),
            flags: 0,
        })
    }

    pub(crate) fn get_link(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let (header, attrs) = request.parts::<16>()?;
        let index = u32_at(header, 4);
        let found = if index > 0 {
            self.links.get(index)
        } else {
            self.links
                .named(&attrs.string(IFLA_IFNAME).unwrap_or_default())
        };
        Ok(found.ok_or(ENODEV)?.row(Action::New))
    }

    fn announce_link(&mut self, index: u32, action: Action) {
        if let Some(link) = self.links.get(index) {
            let row = link.row(action);
            self.announce(group::LINK, &row, None);
        }
    }

    pub(crate) fn links_at_birth(&mut self) {
        let lo = Link {
            index: 1,
            name: b"lo".to_vec(),
            flags: IFF_LOOPBACK,
            carrier: true,
            arp_type: ARPHRD_LOOPBACK,
            mtu: 65536,
            address: vec![0; 6],
            broadcast: vec![0; 6],
            ..Link::default()
        };
        self.links.all.insert(1, lo);
        self.link_registered(1);
        self.set_link_up(1, true);
    }
}
