//! Links (`net/core/rtnetlink.c`, `net/core/dev.c`): their state, and the consequences when one
//! goes up, goes down, loses its carrier or is deleted. The kernel announces some carrier changes
//! from a work queue; here they happen at once. A bridge's spanning tree does not advance.

mod carrier;
mod kind;
mod make;
mod master;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use kind::LinkKind;

use super::bag::Bag;
use super::neighbour::Flush;
use super::numbers::*;
use super::request::{Refusal, Request};
use super::{Origin, State};
use crate::message::{Action, Kind, RawMessage};

/// All links, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    all: BTreeMap<u32, Link>,
    /// The index at which the search for a free one continues.
    cursor: u32,
    /// The links' rows before the current request, or as announced since.
    announced: BTreeMap<u32, RawMessage>,
}

/// A link of any kind.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) origin: Origin,
    pub(super) index: u32,
    pub(super) name: Vec<u8>,
    /// `IFF_*` without the flags that only report a state.
    pub(super) flags: u32,
    pub(super) carrier: bool,
    pub(super) mtu: u32,
    pub(super) kind: &'static LinkKind,
    /// `IFLA_LINK`: the lower device, or the other end of a pair.
    below: Option<u32>,
    pub(super) master: Option<u32>,
    /// All other attributes.
    pub(super) attrs: Bag,
    /// `IFLA_INFO_DATA`.
    data: Bag,
    /// True for an up port of an up bridge.
    is_enabled: bool,
    /// True if a request wrote the address: a bridge keeps it then.
    has_own_address: bool,
    /// True if a request wrote the MTU: a bridge then ignores its ports' MTU.
    has_own_mtu: bool,
}

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_DOWN: u8 = 2;
const IF_OPER_LOWERLAYERDOWN: u8 = 3;
const IF_OPER_UP: u8 = 6;

impl Link {
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind.word == word
    }

    pub(super) fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    pub(super) fn is_loopback(&self) -> bool {
        self.flags & IFF_LOOPBACK != 0
    }

    /// True if it could carry packets: `IFF_RUNNING` and `IFF_LOWER_UP` are set.
    pub(super) fn is_running(&self) -> bool {
        self.is_up() && self.carrier
    }

    /// Returns the hardware address.
    pub(super) fn address(&self) -> &[u8] {
        self.attrs.get(IFLA_ADDRESS).unwrap_or(&[])
    }

    pub(super) fn broadcast(&self) -> &[u8] {
        self.attrs.get(IFLA_BROADCAST).unwrap_or(&[])
    }

    /// Returns the attributes of its kind.
    pub(super) fn data(&self) -> &Bag {
        &self.data
    }

    fn group(&self) -> u32 {
        self.attrs.u32(IFLA_GROUP).unwrap_or(0)
    }

    fn row(&self, action: Action, slave_kind: Option<&str>) -> RawMessage {
        let mut flags = self.flags;
        if self.is_running() {
            flags |= IFF_RUNNING | IFF_LOWER_UP;
        }
        let arp_type = if self.is_loopback() { ARPHRD_LOOPBACK } else { ARPHRD_ETHER };
        let mut header = vec![0, 0];
        header.extend(arp_type.to_ne_bytes());
        header.extend(self.index.to_ne_bytes());
        header.extend(flags.to_ne_bytes());
        header.extend([0; 4]);
        let mut attrs = self.attrs.clone();
        attrs.set_text(IFLA_IFNAME, &self.name);
        attrs.set_u32(IFLA_MTU, self.mtu);
        attrs.set(IFLA_CARRIER, [u8::from(self.carrier)]);
        attrs.set(IFLA_OPERSTATE, [self.operational_state()]);
        for (number, index) in [(IFLA_LINK, self.below), (IFLA_MASTER, self.master)] {
            if let Some(index) = index {
                attrs.set_u32(number, index);
            }
        }
        let mut info = Bag::default();
        if !self.is("") {
            info.set_text(IFLA_INFO_KIND, self.kind.word.as_bytes());
        }
        if self.data != Bag::default() {
            info.set(IFLA_INFO_DATA, self.data.bytes());
        }
        if let Some(kind) = slave_kind {
            info.set_text(IFLA_INFO_SLAVE_KIND, kind.as_bytes());
        }
        if info != Bag::default() {
            attrs.set(IFLA_LINKINFO, info.bytes());
        }
        attrs.row(Kind::Link, action, header)
    }

    /// `IFLA_OPERSTATE`: unknown if the link never lost its carrier.
    fn operational_state(&self) -> u8 {
        let follows = self.below.is_some() || self.is("bridge");
        match (self.carrier, self.is_up()) {
            (_, false) => IF_OPER_DOWN,
            (true, true) if follows => IF_OPER_UP,
            (true, true) => IF_OPER_UNKNOWN,
            (false, true) if self.below.is_some() => IF_OPER_LOWERLAYERDOWN,
            (false, true) => IF_OPER_DOWN,
        }
    }
}

impl Links {
    pub(super) fn get(&self, index: u32) -> Option<&Link> {
        self.all.get(&index)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.all.values()
    }

    pub(super) fn named(&self, name: &[u8]) -> Option<&Link> {
        self.iter().find(|link| link.name == name)
    }

    fn row(&self, link: &Link, action: Action) -> RawMessage {
        let master = link.master.and_then(|master| self.get(master));
        link.row(action, master.map(|master| master.kind.word))
    }

    /// Returns the part of a link's row whose change is announced. The arrival of a pair's other
    /// end is not.
    fn essence(&self, link: &Link) -> RawMessage {
        let mut row = self.row(link, Action::New);
        if link.is("veth") {
            row.attrs.remove(&IFLA_LINK);
        }
        row
    }

    fn remember(&mut self) {
        self.announced = self.iter().map(|link| (link.index, self.essence(link))).collect();
    }

    /// Returns the next free index.
    fn free_index(&mut self) -> u32 {
        let index = (self.cursor.max(1)..).find(|index| !self.all.contains_key(index)).unwrap_or(0);
        self.cursor = index.saturating_add(1);
        index
    }

    /// Returns the indexes of the links that lie on a link.
    fn on(&self, index: u32) -> Vec<u32> {
        self.iter()
            .filter(|link| link.kind.is_stacked && link.lower() == Some(index))
            .map(|link| link.index)
            .collect()
    }

    fn ports(&self, master: u32) -> Vec<u32> {
        self.iter().filter(|link| link.master == Some(master)).map(|link| link.index).collect()
    }
}

impl State {
    fn register_link(&mut self, link: Link) {
        let index = link.index;
        self.links.all.insert(index, link);
        self.link_registered(index);
    }

    pub(super) fn with_link(&mut self, index: u32, change: impl FnOnce(&mut Link)) {
        let writer = self.writer;
        if let Some(link) = self.links.all.get_mut(&index) {
            link.origin.changed_by = writer;
            change(link);
        }
    }

    /// `unregister_netdevice_many`: deletes links and everything that depends on them.
    /// `unannounced` was never announced, so its deletion is not announced either.
    fn unregister_links(&mut self, first: &[u32], unannounced: Option<u32>) {
        let mut going = BTreeSet::new();
        let mut found = first.to_vec();
        while let Some(index) = found.pop() {
            if going.insert(index) {
                found.extend(self.links.on(index));
                let pair = self.links.get(index).filter(|link| link.is("veth"));
                found.extend(pair.and_then(|link| link.below));
            }
        }
        going.retain(|index| self.links.get(*index).is_some());
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
            self.forwarding_gone(index);
            let Some(mut link) = self.links.all.remove(&index) else {
                continue;
            };
            if link.is("veth") {
                link.below = Some(0); // veth_dellink parts them first
            }
            if unannounced != Some(index) {
                let row = self.links.row(&link, Action::Del);
                self.announce(&row, None);
            }
            if let Some(lower) = link.lower() {
                self.announce_link(lower);
            }
        }
        self.update_carriers(0);
    }

    /// Announces the links that differ from their last announcement.
    fn announce_changed_links(&mut self) {
        let announced = std::mem::take(&mut self.links.announced);
        let is_changed =
            |link: &&Link| announced.get(&link.index) != Some(&self.links.essence(link));
        let changed = self.links.iter().filter(is_changed);
        let rows: Vec<_> = changed.map(|link| self.links.row(link, Action::New)).collect();
        for row in rows {
            self.announce(&row, None);
        }
    }

    /// Makes a change that the kernel announces with `netif_state_change`: always, unless the link
    /// is down.
    fn change_state(&mut self, index: u32, change: impl FnOnce(&mut Link)) {
        self.announce_changed_links();
        self.with_link(index, change);
        self.links.remember();
        if self.is_up(index) {
            self.links.announced.remove(&index);
            self.addresses6_carrier(index, self.has_carrier(index));
        }
    }

    /// Announces a link, changed or not.
    pub(super) fn announce_link(&mut self, index: u32) {
        if let Some(link) = self.links.get(index) {
            let (row, essence) = (self.links.row(link, Action::New), self.links.essence(link));
            self.links.announced.insert(index, essence);
            self.announce(&row, None);
        }
    }

    /// Creates `lo`, up.
    pub(super) fn create_loopback(&mut self) {
        let kind = LinkKind::loopback();
        let mut attrs = Bag::default();
        attrs.set(IFLA_ADDRESS, [0; 6]);
        attrs.set(IFLA_BROADCAST, [0; 6]);
        attrs.set_u32(IFLA_GROUP, 0);
        let index = self.links.free_index();
        self.register_link(Link {
            origin: Origin::default(),
            index,
            name: b"lo".to_vec(),
            flags: IFF_LOOPBACK,
            mtu: 65536,
            attrs,
            ..Link::new(kind)
        });
        self.set_link_up(index, true);
    }

    /// Returns the link that a request names by its index, or else by its name.
    fn requested_link(&self, request: &Request<'_>) -> Result<&Link, Refusal> {
        let found = match (request.u32(4), request.attrs.text(IFLA_IFNAME)) {
            (1..=0x7fff_ffff, _) => self.links.get(request.u32(4)),
            (_, Some(name)) => self.links.named(name),
            (_, None) => return Err(EINVAL.into()),
        };
        found.ok_or(ENODEV.into())
    }

    pub(super) fn get_link(&self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let link = self.requested_link(request)?;
        Ok(self.links.row(link, Action::New))
    }

    pub(super) fn each_link(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for link in self.links.iter() {
            add(self.links.row(link, Action::New), link.origin);
        }
    }
}

impl State {
    /// Handles a new link, which is down.
    pub(super) fn link_registered(&mut self, index: u32) {
        self.addresses4_mtu(index);
        let _too_small = self.device6(index);
    }

    pub(super) fn link_up(&mut self, index: u32) {
        self.addresses4_up(index);
        self.routes4_up(index);
        self.addresses6_up(index);
        if self.has_carrier(index) {
            self.routes6_carrier(index, true);
        }
    }

    pub(super) fn link_down(&mut self, index: u32) {
        self.nexthops_down(index, false);
        self.routes4_down(index);
        self.flush_neighbours(index, Flush::Down);
        // addrconf_ifdown takes the routes first.
        self.routes6_down(index);
        self.addresses6_down(index);
        self.forwarding_down(index);
    }

    /// Handles a gained or lost carrier of a link that is up.
    pub(super) fn link_carrier(&mut self, index: u32, on: bool) {
        if !on {
            self.nexthops_down(index, false);
        }
        self.routes4_carrier(index, on);
        if !on {
            self.flush_neighbours(index, Flush::Carrier);
        }
        self.addresses6_carrier(index, on);
        self.routes6_carrier(index, on);
    }

    /// Handles the coming deletion of a link, which is down already and still in `links`.
    pub(super) fn link_gone(&mut self, index: u32) {
        self.nexthops_down(index, true);
        self.addresses4_gone(index);
        self.routes4_gone(index);
        self.flush_neighbours(index, Flush::Down);
        self.routes6_gone(index);
        self.addresses6_gone(index);
    }

    pub(super) fn link_mtu(&mut self, index: u32, before: u32) {
        self.addresses4_mtu(index);
        self.addresses6_mtu(index);
        self.routes6_mtu(index, before);
    }
}
