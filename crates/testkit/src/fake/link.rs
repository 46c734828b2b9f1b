//! Links (`net/core/rtnetlink.c`, `net/core/dev.c`): what there is, and what follows when one goes up, goes down or loses
//! its carrier.
//!
//! Of a row the fake gives name, flags, type, MTU, addresses, lower device, master, alias, group, operational state,
//! carrier, and of the kind what [`kind`] knows. Refused with `EOPNOTSUPP`: other namespaces, carrier and operational
//! state set by hand, virtual functions, XDP, settings of address families, properties. What the kernel tells of a
//! carrier later from a work queue happens at once; a bridge's spanning tree does not advance.

mod change;
mod check;
mod create;
mod kind;
mod master;
mod name;
mod read;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Action, Kind, RawMessage, push_attribute};

use super::state::{State, group};
pub(crate) use kind::LinkKind;

/// All links, by index.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) all: BTreeMap<u32, Link>,
    /// Where the search for a free index goes on.
    cursor: u32,
    /// Rows as they were before a request, or were told meanwhile; without the other end of a pair, of which nobody is
    /// told when it comes.
    told: BTreeMap<u32, RawMessage>,
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
    pub(crate) kind: LinkKind,
    /// `IFLA_LINK`: the lower device, or the other end of a pair.
    pub(crate) below: Option<u32>,
    pub(crate) master: Option<u32>,
    pub(crate) group: u32,
    pub(crate) alias: Vec<u8>,
    /// `IFLA_INFO_DATA`, the attributes that the fake knows.
    pub(crate) data: BTreeMap<u16, Vec<u8>>,
    /// Of a bridge's port: it forwards.
    pub(crate) forwards: bool,
    /// Of a bridge's port: it takes part at all.
    pub(crate) enabled: bool,
    /// The address was set by somebody: a bridge keeps it then.
    pub(crate) address_set: bool,
    /// Of a VXLAN device: its tunnel is of IPv6.
    ipv6: bool,
    /// Of a bridge: somebody set the MTU, so that it does not follow its ports.
    mtu_set: bool,
}

// linux/if.h
pub(crate) const IFF_UP: u32 = 0x1;
pub(crate) const IFF_BROADCAST: u32 = 0x2;
pub(crate) const IFF_LOOPBACK: u32 = 0x8;
pub(crate) const IFF_RUNNING: u32 = 0x40;
pub(crate) const IFF_NOARP: u32 = 0x80;
pub(crate) const IFF_PROMISC: u32 = 0x100;
pub(crate) const IFF_ALLMULTI: u32 = 0x200;
pub(crate) const IFF_MASTER: u32 = 0x400;
pub(crate) const IFF_SLAVE: u32 = 0x800;
pub(crate) const IFF_MULTICAST: u32 = 0x1000;
pub(crate) const IFF_LOWER_UP: u32 = 0x1_0000;

// linux/if_link.h
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
const IFLA_INFO_SLAVE_KIND: u16 = 4;

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_DOWN: u8 = 2;
const IF_OPER_LOWERLAYERDOWN: u8 = 3;
const IF_OPER_UP: u8 = 6;

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

    fn row(&self, action: Action, slave_kind: Option<&str>) -> RawMessage {
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
        attrs.insert(IFLA_IFNAME, text(&self.name));
        attrs.insert(IFLA_MTU, self.mtu.to_ne_bytes().to_vec());
        attrs.insert(IFLA_GROUP, self.group.to_ne_bytes().to_vec());
        attrs.insert(IFLA_CARRIER, vec![self.carrier.into()]);
        attrs.insert(IFLA_OPERSTATE, vec![self.operational_state()]);
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
            attrs.insert(IFLA_IFALIAS, text(&self.alias));
        }
        let mut info = Vec::new();
        if !self.kind.word().is_empty() {
            push_attribute(
                &mut info,
                IFLA_INFO_KIND,
                &text(self.kind.word().as_bytes()),
            );
        }
        if !self.data.is_empty() {
            let mut data = Vec::new();
            for (number, payload) in &self.data {
                push_attribute(&mut data, *number, payload);
            }
            push_attribute(&mut info, IFLA_INFO_DATA, &data);
        }
        if let Some(kind) = slave_kind {
            push_attribute(&mut info, IFLA_INFO_SLAVE_KIND, &text(kind.as_bytes()));
        }
        if !info.is_empty() {
            attrs.insert(IFLA_LINKINFO, info);
        }
        RawMessage {
            kind: Kind::Link,
            action,
            header,
            attrs,
        }
    }

    /// `IFLA_OPERSTATE`: what never lost its carrier does not know.
    fn operational_state(&self) -> u8 {
        let follows = self.below.is_some() || self.kind == LinkKind::Bridge;
        match (self.carrier, self.is_up()) {
            (_, false) => IF_OPER_DOWN,
            (true, true) if follows => IF_OPER_UP,
            (true, true) => IF_OPER_UNKNOWN,
            (false, true) if self.below.is_some() => IF_OPER_LOWERLAYERDOWN,
            (false, true) => IF_OPER_DOWN,
        }
    }
}

/// With its final NUL.
fn text(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0]].concat()
}

impl Links {
    pub(crate) fn get(&self, index: u32) -> Option<&Link> {
        self.all.get(&index)
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<&Link> {
        self.all.values().find(|link| link.name == name)
    }

    fn row(&self, link: &Link, action: Action) -> RawMessage {
        let master = link.master.and_then(|master| self.get(master));
        link.row(action, master.map(|master| master.kind.word()))
    }

    /// As all links are now, to see later which have changed.
    fn remember(&mut self) {
        self.told = self
            .all
            .values()
            .map(|link| (link.index, self.essence(link)))
            .collect();
    }

    fn essence(&self, link: &Link) -> RawMessage {
        let mut row = self.row(link, Action::New);
        if link.kind == LinkKind::Veth {
            row.attrs.remove(&IFLA_LINK);
        }
        row
    }

    /// The next one that is free, round and round (`xa_alloc_cyclic`).
    fn free_index(&mut self) -> u32 {
        let free = |index: &u32| !self.all.contains_key(index);
        let next = self.cursor.max(1);
        let found = (next..=i32::MAX as u32).chain(1..next).find(free);
        let index = found.unwrap_or(i32::MAX as u32);
        self.cursor = index.saturating_add(1);
        index
    }

    /// Those put on a link, in the order of their indexes.
    fn on(&self, index: u32) -> Vec<u32> {
        let all = self.all.values();
        all.filter(|link| link.kind.is_stacked() && link.lower() == Some(index))
            .map(|link| link.index)
            .collect()
    }

    fn ports(&self, master: u32) -> Vec<u32> {
        let all = self.all.values();
        all.filter(|link| link.master == Some(master))
            .map(|link| link.index)
            .collect()
    }
}

impl State {
    /// A link that has been put together comes to be, down.
    fn register_link(&mut self, link: Link) {
        let index = link.index;
        self.links.all.insert(index, link);
        self.link_registered(index);
    }

    /// `dev_open` and `dev_close`, with what follows for others that hang on it.
    pub(crate) fn set_link_up(&mut self, index: u32, up: bool) {
        let Some(link) = self.links.all.get_mut(&index) else {
            return;
        };
        if link.is_up() == up {
            return;
        }
        link.flags ^= IFF_UP;
        if up {
            self.link_up(index);
        } else {
            // Before what goes with it (`dev_close_many`, `__dev_notify_flags`).
            self.tell(index);
            self.link_down(index);
        }
        self.carry(index);
    }

    /// Sets the carrier of each link by what it hangs on, until nothing moves; of one link before the others, as
    /// `veth_open` tells of its own end first.
    fn carry(&mut self, first: u32) {
        loop {
            self.enable_ports();
            let links = self
                .links
                .get(first)
                .into_iter()
                .chain(self.links.all.values());
            let moved = links.into_iter().find_map(|link| {
                let carrier = self.expected_carrier(link)?;
                (carrier != link.carrier).then_some((link.index, carrier))
            });
            let Some((index, carrier)) = moved else {
                return;
            };
            self.set_carrier(index, carrier);
        }
    }

    /// The kernel tells of it from a work queue, and only if the link is up.
    fn set_carrier(&mut self, index: u32, carrier: bool) {
        let Some(link) = self.links.all.get_mut(&index) else {
            return;
        };
        link.carrier = carrier;
        if link.is_up() {
            self.link_carrier(index, carrier);
        }
    }

    /// What a link's carrier follows from; `None` if it is what it was made.
    fn expected_carrier(&self, link: &Link) -> Option<bool> {
        let lower = link.below.and_then(|below| self.links.get(below));
        match link.kind {
            LinkKind::Veth => Some(link.is_up() && lower.is_some_and(Link::is_up)),
            LinkKind::Macvlan | LinkKind::Vlan => Some(lower.is_some_and(|lower| lower.carrier)),
            _ => None,
        }
    }

    /// `unregister_netdevice_many`: links and all that cannot be without them go; nobody is told of one that nobody knows.
    fn unregister_links(&mut self, first: &[u32], unknown: Option<u32>) {
        let mut going = BTreeSet::new();
        let mut found = first.to_vec();
        while let Some(index) = found.pop() {
            if !going.insert(index) {
                continue;
            }
            found.extend(self.links.on(index));
            let pair = self
                .links
                .get(index)
                .filter(|link| link.kind == LinkKind::Veth);
            found.extend(pair.and_then(|link| link.below));
        }
        for index in &going {
            for port in self.links.ports(*index) {
                self.drop_port(port);
            }
        }
        for index in &going {
            self.set_link_up(*index, false);
        }
        for index in &going {
            self.release_port(*index);
            self.link_gone(*index);
        }
        for index in going {
            if let Some(link) = self.links.all.get_mut(&index)
                && link.kind == LinkKind::Veth
            {
                link.below = Some(0); // veth_dellink parts them first
            }
            if let Some(link) = self.links.get(index) {
                let lower = link.lower();
                let row = self.links.row(link, Action::Del);
                self.links.all.remove(&index);
                if unknown != Some(index) {
                    self.announce(group::LINK, &row, None);
                }
                self.tell_lower(lower);
            }
        }
        self.carry(0);
    }

    /// Announces the links that are not as they were told.
    fn announce_changed_links(&mut self) {
        let told = std::mem::take(&mut self.links.told);
        let all = self.links.all.values();
        let rows: Vec<_> = all
            .filter(|link| told.get(&link.index) != Some(&self.links.essence(link)))
            .map(|link| self.links.row(link, Action::New))
            .collect();
        for row in rows {
            self.announce(group::LINK, &row, None);
        }
    }

    /// A change of which the kernel tells with `netif_state_change`: not while the link is down.
    fn change_quietly(&mut self, index: u32, change: impl FnOnce(&mut Link)) {
        self.announce_changed_links();
        self.links.remember();
        if let Some(link) = self.links.all.get_mut(&index) {
            change(link);
            if link.is_up() {
                // Told of at the end, even if it is as it was.
                self.links.told.remove(&index);
                let carrier = link.carrier;
                self.addresses6_carrier(index, carrier);
            } else {
                self.links.remember();
            }
        }
    }

    /// `NETDEV_CHANGEUPPER`: a lower device is told of when something is put on it or taken away.
    fn tell_lower(&mut self, lower: Option<u32>) {
        if let Some(lower) = lower {
            self.tell(lower);
        }
    }

    /// Announces a link whether it changed or not.
    fn tell(&mut self, index: u32) {
        if let Some(link) = self.links.get(index) {
            let row = self.links.row(link, Action::New);
            let essence = self.links.essence(link);
            self.links.told.insert(index, essence);
            self.announce(group::LINK, &row, None);
        }
    }

    /// `lo`, up.
    pub(crate) fn links_at_birth(&mut self) {
        let lo = Link {
            index: self.links.free_index(),
            name: b"lo".to_vec(),
            flags: IFF_LOOPBACK,
            carrier: true,
            arp_type: ARPHRD_LOOPBACK,
            mtu: 65536,
            address: vec![0; 6],
            broadcast: vec![0; 6],
            ..Link::default()
        };
        let index = lo.index;
        self.register_link(lo);
        self.set_link_up(index, true);
    }
}
