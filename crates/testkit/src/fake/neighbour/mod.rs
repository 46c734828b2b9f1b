//! Neighbours of both families and proxies (`net/core/neighbour.c`, `net/ipv4/arp.c`, `net/ipv6/ndisc.c`).
//!
//! Nobody is asked and nobody answers: a row that would be probed stays as it is, and a row of the kernel's own
//! (multicast groups that links have joined) is not there. The table is full at `gc_thresh3` rows that could be
//! collected, of this namespace alone; the real count is that of the whole machine. Forwarding entries are in
//! [`fdb`](super::fdb).

mod proxy;
mod read;
mod update;
mod write;

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u16_at, u32_at};

use super::policy::{Policy, Shape};
use super::request::{EINVAL, ENODEV, Refusal};
use super::state::{State, group};

use proxy::Proxy;
use update::{Change, Entry, NUD_FAILED, NUD_NOARP, NUD_PERMANENT, NUD_VALID};

const INET: u8 = 2;
const INET6: u8 = 10;
const BRIDGE: u8 = 7;

pub(super) const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;
const NDA_PROBES: u16 = 4;
pub(super) const NDA_VLAN: u16 = 5;
pub(super) const NDA_PORT: u16 = 6;
pub(super) const NDA_VNI: u16 = 7;
pub(super) const NDA_IFINDEX: u16 = 8;
pub(super) const NDA_MASTER: u16 = 9;
pub(super) const NDA_PROTOCOL: u16 = 12;
pub(super) const NDA_NH_ID: u16 = 13;
const NDA_FDB_EXT_ATTRS: u16 = 14;
pub(super) const NDA_FLAGS_EXT: u16 = 15;
const NDA_MAX: u16 = 17;

/// `NTF_*`: those of the header's byte, and above it those of `NDA_FLAGS_EXT`.
const NTF_USE: u32 = 0x01;
const NTF_PROXY: u32 = 0x08;
const NTF_EXT_LEARNED: u32 = 0x10;
const NTF_ROUTER: u32 = 0x80;
const NTF_MANAGED: u32 = 0x100;
const NTF_EXT_VALIDATED: u32 = 0x400;
const NTF_EXT_SHIFT: u32 = 8;

const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_BROADCAST: u8 = 3;
const RTN_MULTICAST: u8 = 5;

const TABLE_LOCAL: u32 = 255;

/// `gc_thresh3`, unless it is set.
const GC_THRESH3: usize = 1024;

/// `nda_policy`.
pub(super) static POLICY: Policy = Policy {
    shapes: &[
        (NDA_DST, Shape::AtMost(32)),
        (NDA_LLADDR, Shape::AtMost(32)),
        (NDA_CACHEINFO, Shape::AtLeast(16)),
        (NDA_PROBES, Shape::U32),
        (NDA_VLAN, Shape::U16),
        (NDA_PORT, Shape::U16),
        (NDA_VNI, Shape::U32),
        (NDA_IFINDEX, Shape::U32),
        (NDA_MASTER, Shape::U32),
        (NDA_PROTOCOL, Shape::U8),
        (NDA_NH_ID, Shape::U32),
        (NDA_FLAGS_EXT, Shape::U32Mask(0x5)),
        (NDA_FDB_EXT_ATTRS, Shape::Nested),
    ],
    max: NDA_MAX,
    strict_from: NDA_NH_ID,
};

/// What there is.
#[derive(Default)]
pub(crate) struct Neighbours {
    all: BTreeMap<Id, Entry>,
    /// The latest first, as a lookup meets them.
    proxies: Vec<Proxy>,
    /// `gc_thresh3` of IPv4 and of IPv6, if it was set.
    limits: [Option<usize>; 2],
}

/// Family, device, address.
type Id = (u8, u32, Vec<u8>);

/// `struct ndmsg`.
pub(super) struct Header {
    family: u8,
    pads: [u8; 3],
    pub(super) device: u32,
    pub(super) state: u16,
    pub(super) flags: u8,
    kind: u8,
}

impl Header {
    pub(super) fn new(fixed: &[u8; 12]) -> Self {
        Self {
            family: fixed[0],
            pads: [fixed[1], fixed[2], fixed[3]],
            device: u32_at(fixed, 4),
            state: u16_at(fixed, 8),
            flags: fixed[10],
            kind: fixed[11],
        }
    }

    /// Whether there is what a GET request may not have: padding, state or type.
    pub(super) fn has_values(&self) -> bool {
        self.pads != [0; 3] || self.state != 0 || self.kind != 0
    }
}

pub(super) const fn refused(words: &'static str) -> Refusal {
    Refusal::errno(EINVAL).because(words)
}

/// Length of an address; `None` for a family without neighbours.
fn key_length(family: u8) -> Option<usize> {
    match family {
        INET => Some(4),
        INET6 => Some(16),
        _ => None,
    }
}

impl State {
    /// Whether a family is on at all on a device: its packets have to fit.
    fn has_family(&self, family: u8, index: u32) -> bool {
        let least = if family == INET { 68 } else { 1280 };
        self.links.get(index).is_some_and(|link| link.mtu >= least)
    }

    /// The length of a device's hardware address; `None` when no device is named.
    fn neighbour_device(&self, index: u32) -> Result<Option<usize>, Refusal> {
        if index == 0 {
            return Ok(None);
        }
        let link = self.links.get(index).ok_or(ENODEV)?;
        Ok(Some(link.address.len()))
    }

    /// A new row as its family and device make it (`arp_constructor`, `ndisc_constructor`), and its key.
    fn constructed(&self, (family, index, key): &Id) -> (Vec<u8>, Entry) {
        const IFF_LOOPBACK: u32 = 0x8;
        const IFF_POINTOPOINT: u32 = 0x10;
        const IFF_NOARP: u32 = 0x80;
        const ARPHRD_ETHER: u16 = 1;
        let mut key = key.clone();
        let mut entry = Entry::default();
        let Some(link) = self.links.get(*index) else {
            return (key, entry);
        };
        let point_to_point = link.flags & IFF_POINTOPOINT != 0;
        if *family == INET && (link.is_loopback() || point_to_point) {
            key = vec![0; 4];
        }
        entry.kind = self.neighbour_kind(*family, *index, &key);
        entry.lladdr = vec![0; link.address.len()];
        let fixed = match (entry.kind, link.flags) {
            _ if link.address.is_empty() => Some(Vec::new()),
            (RTN_MULTICAST, _) if link.arp_type != ARPHRD_ETHER => Some(link.broadcast.clone()),
            (RTN_MULTICAST, _) if *family == INET => {
                Some(vec![0x01, 0x00, 0x5e, key[1] & 0x7f, key[2], key[3]])
            }
            (RTN_MULTICAST, _) => Some([&[0x33, 0x33], &key[12..]].concat()),
            (_, flags) if flags & (IFF_NOARP | IFF_LOOPBACK) != 0 => Some(link.address.clone()),
            (RTN_BROADCAST, _) => Some(link.broadcast.clone()),
            _ if point_to_point => Some(link.broadcast.clone()),
            _ => None,
        };
        if let Some(lladdr) = fixed {
            entry.state = NUD_NOARP;
            entry.lladdr = lladdr;
        }
        (key, entry)
    }

    /// `ndm_type`.
    fn neighbour_kind(&self, family: u8, index: u32, key: &[u8]) -> u8 {
        let loopback = self.links.get(index).is_some_and(|link| link.is_loopback());
        match (family, key) {
            (INET6, [0xff, ..]) => RTN_MULTICAST,
            (INET6, _) if loopback => RTN_LOCAL,
            (INET, [a, b, c, d]) => self.address_kind([*a, *b, *c, *d], TABLE_LOCAL),
            _ => RTN_UNICAST,
        }
    }

    /// Whether there is room for one more row that can be collected, perhaps after collecting (`neigh_forced_gc`).
    fn collect_neighbours(&mut self, family: u8) -> bool {
        let limit = self.neighbours.limits[usize::from(family == INET6)].unwrap_or(GC_THRESH3);
        let mut collectable: Vec<_> = self
            .neighbours
            .all
            .iter()
            .filter(|(id, entry)| id.0 == family && !entry.is_exempt())
            .map(|(id, entry)| (id.clone(), entry.state))
            .collect();
        if collectable.len() < limit {
            return true;
        }
        collectable.retain(|(id, state)| {
            let multicast = self.neighbour_kind(family, id.1, &id.2) == RTN_MULTICAST;
            multicast || matches!(*state, NUD_FAILED | NUD_NOARP)
        });
        for (id, _) in &collectable {
            self.flush_neighbour(id);
        }
        !collectable.is_empty()
    }

    fn flush_neighbour(&mut self, id: &Id) {
        if let Some(entry) = self.neighbours.all.remove(id) {
            self.announce(group::NEIGH, &entry.row(id, Action::Del), None);
        }
    }

    /// Takes the rows of a device.
    fn flush_neighbours(&mut self, families: &[u8], index: u32, which: impl Fn(&Entry) -> bool) {
        let all = self.neighbours.all.iter();
        let going: Vec<_> = all
            .filter(|(id, entry)| id.1 == index && families.contains(&id.0) && which(entry))
            .map(|(id, _)| id.clone())
            .collect();
        for id in going {
            self.flush_neighbour(&id);
        }
    }

    /// Rows of all kinds go with a link that goes down.
    pub(crate) fn neighbours_down(&mut self, index: u32) {
        self.neighbours4_down(index);
        self.neighbours6_down(index);
    }

    /// `arp_ifdown`: also when the last address of a link has gone.
    pub(crate) fn neighbours4_down(&mut self, index: u32) {
        self.flush_neighbours(&[INET], index, |_| true);
        self.neighbours.flush_proxies(&[INET], index, false);
    }

    /// `arp_invalidate`: an address has become a broadcast; a row of it that is not valid goes.
    pub(crate) fn forget_neighbour4(&mut self, index: u32, address: [u8; 4]) {
        let id = (INET, index, address.to_vec());
        let Some(entry) = self.neighbours.all.get_mut(&id) else {
            return;
        };
        if entry.state & NUD_VALID != 0 {
            return;
        }
        if entry.state != 0 {
            let (_, tells) = entry.update(&Change::failed(0));
            let row = entry.row(&id, Action::New);
            if tells {
                self.announce(group::NEIGH, &row, None);
            }
        }
        self.flush_neighbour(&id);
    }

    /// `neigh_ifdown` of IPv6: also when a link loses IPv6.
    pub(crate) fn neighbours6_down(&mut self, index: u32) {
        self.flush_neighbours(&[INET6], index, |_| true);
        self.neighbours.flush_proxies(&[INET6], index, false);
    }

    /// With the carrier go all rows but permanent ones.
    pub(crate) fn neighbours_carrier(&mut self, index: u32, on: bool) {
        if !on {
            self.flush_neighbours(&[INET, INET6], index, |entry| {
                entry.state & NUD_PERMANENT == 0 && entry.flags & NTF_EXT_VALIDATED == 0
            });
            self.neighbours.flush_proxies(&[INET, INET6], index, true);
        }
    }

    pub(crate) fn neighbours_gone(&mut self, index: u32) {
        self.neighbours_down(index);
    }

    /// With the hardware address go all rows, but proxies stay.
    pub(crate) fn neighbours_hardware_address(&mut self, index: u32) {
        self.flush_neighbours(&[INET, INET6], index, |_| true);
    }

    /// Writes `gc_thresh3`; `None` when it is another setting.
    pub(crate) fn neighbour_setting(
        &mut self,
        name: &str,
        value: &str,
    ) -> Option<Result<(), String>> {
        let family = match name {
            "net.ipv4.neigh.default.gc_thresh3" => 0,
            "net.ipv6.neigh.default.gc_thresh3" => 1,
            _ => return None,
        };
        let limit = value.parse();
        Some(match limit {
            Ok(limit) => {
                self.neighbours.limits[family] = Some(limit);
                Ok(())
            }
            Err(_) => Err(format!("{name} is a number, not {value}")),
        })
    }
}

/// The fixed part of a row.
fn row(id: (u8, u32, &[u8]), state: u8, flags: u32, kind: u8, action: Action) -> RawMessage {
    let (family, device, key) = id;
    let mut header = vec![family, 0, 0, 0];
    header.extend(device.to_ne_bytes());
    header.extend([state, 0, flags as u8, kind]);
    let mut attrs = BTreeMap::from([(NDA_DST, key.to_vec())]);
    let extended = flags >> NTF_EXT_SHIFT;
    if extended != 0 {
        attrs.insert(NDA_FLAGS_EXT, extended.to_ne_bytes().to_vec());
    }
    RawMessage {
        kind: Kind::Neighbour,
        action,
        header,
        attrs,
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{ENOBUFS, NLM_F_CREATE, Request};
    use super::*;
    use crate::message::push_attribute;

    #[test]
    fn a_full_table_takes_permanent_rows_alone() {
        let mut state = State::new();
        let mut link = state.links.get(1).unwrap().clone();
        link.index = 9;
        link.flags = 0;
        link.mtu = 1500;
        state.links.all.insert(9, link);
        let setting = "net.ipv4.neigh.default.gc_thresh3";
        state.sysctl(setting, "2").unwrap();
        assert!(state.sysctl(setting, "many").is_err());
        let mut add = |last, nud| {
            let mut body = vec![INET, 0, 0, 0, 9, 0, 0, 0, nud, 0, 0, 0];
            push_attribute(&mut body, NDA_DST, &[10, 0, 0, last]);
            push_attribute(&mut body, NDA_LLADDR, &[2; 6]);
            let result = state.new_neighbour(&Request {
                kind: 28,
                flags: NLM_F_CREATE,
                sequence: 1,
                port: 1,
                strict: true,
                body: &body,
            });
            result.map_err(|refusal| refusal.errno)
        };
        const STALE: u8 = 0x04;
        assert_eq!([1, 2].map(|last| add(last, STALE)), [Ok(()); 2]);
        assert_eq!(add(3, STALE), Err(ENOBUFS));
        assert_eq!(add(3, NUD_PERMANENT), Ok(()));
        assert_eq!(add(1, NUD_FAILED), Ok(()), "one that is there changes");
        assert_eq!(add(4, STALE), Ok(()), "and gives way when it has failed");
    }
}
