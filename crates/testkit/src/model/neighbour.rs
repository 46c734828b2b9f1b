//! Neighbours of both families and proxies (`net/core/neighbour.c`). Nothing is resolved: a row that
//! would be probed stays as it is. The table is never full.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u16_at};

use super::bag::{Bag, ip, width};
use super::link::IFF_NOARP;
use super::numbers::*;
use super::request::{Refusal, Request};
use super::{Flaw, Origin, State};

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_CACHEINFO: u16 = 3;
const NDA_PROBES: u16 = 4;
const NDA_PROTOCOL: u16 = 12;

const NTF_PROXY: u32 = 0x08;
const NTF_EXT_LEARNED: u32 = 0x10;
const NTF_ROUTER: u32 = 0x80;

const NUD_INCOMPLETE: u8 = 0x01;
const NUD_PROBE: u8 = 0x10;
const NUD_FAILED: u8 = 0x20;
const NUD_NOARP: u8 = 0x40;
const NUD_PERMANENT: u8 = 0x80;
/// Reachable, stale, delay, probe, without resolution, permanent.
const NUD_VALID: u8 = 0x02 | 0x04 | 0x08 | NUD_PROBE | NUD_NOARP | NUD_PERMANENT;

/// All neighbours and proxies.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    all: BTreeMap<Key, Neighbour>,
    proxies: BTreeMap<Key, Neighbour>,
}

/// Family, device, address.
type Key = (u8, u32, Vec<u8>);

#[derive(Clone, Debug, Default)]
struct Neighbour {
    origin: Origin,
    /// `NUD_*`; a request may set several bits, and they stay.
    state: u8,
    /// `NTF_*`.
    flags: u32,
    /// `ndm_type`.
    kind: u8,
    /// `NDA_LLADDR`, which counts while the state is valid, and `NDA_PROTOCOL`.
    attrs: Bag,
}

/// What a request wants of a neighbour.
struct Change<'a> {
    state: u8,
    flags: u32,
    lladdr: Option<&'a [u8]>,
    /// Whether another link address replaces the one known, and the router flag is set or cleared.
    overrides: bool,
}

impl Neighbour {
    /// `__neigh_update`; also returns whether the change is announced. One that is refused may have
    /// changed flags, and may be announced.
    fn update(&mut self, change: &Change<'_>) -> (Result<(), Refusal>, bool) {
        const KEPT: u32 = NTF_EXT_LEARNED;
        let old = self.state;
        let mut is_announced = (self.flags ^ change.flags) & KEPT != 0;
        self.flags = self.flags & !KEPT | change.flags & KEPT;
        let new = change.state;
        if new & NUD_VALID == 0 {
            self.state = new;
            // Changed flags are not announced.
            let fails = old & (NUD_INCOMPLETE | NUD_PROBE) != 0 && new & NUD_FAILED != 0;
            return (Ok(()), old & NUD_VALID != 0 || fails);
        }
        let is_known = old & NUD_VALID != 0;
        let known = self.attrs.get(NDA_LLADDR).filter(|_| is_known);
        let other = match change.lladdr {
            Some(lladdr) => (known != Some(lladdr)).then_some(lladdr),
            None if is_known => None,
            None => return (Err(EINVAL.into()), is_announced),
        };
        if is_known && other.is_some() && !change.overrides {
            return (Ok(()), is_announced);
        }
        is_announced |= new != old || other.is_some();
        self.state = new;
        if let Some(lladdr) = other {
            self.attrs.set(NDA_LLADDR, lladdr);
        }
        if change.overrides && (self.flags ^ change.flags) & NTF_ROUTER != 0 {
            self.flags ^= NTF_ROUTER;
            is_announced = true;
        }
        (Ok(()), is_announced)
    }

    fn row(&self, key: &Key, action: Action) -> RawMessage {
        let (family, device, ip) = key;
        let mut header = vec![*family, 0, 0, 0];
        header.extend(device.to_ne_bytes());
        let state = if self.flags & NTF_PROXY == 0 {
            self.state
        } else {
            0
        };
        header.extend([state, 0, self.flags as u8, self.kind]);
        let mut attrs = self.attrs.clone();
        attrs.set(NDA_DST, &ip[..]);
        attrs.remove_zeros(&[NDA_PROTOCOL]);
        if self.state & NUD_VALID == 0 {
            attrs.remove(&[NDA_LLADDR]);
        }
        if self.flags & NTF_PROXY == 0 {
            attrs.set(NDA_PROBES, [0; 4]);
            attrs.set(NDA_CACHEINFO, [0; 16]);
        }
        attrs.row(Kind::Neighbour, action, header)
    }
}

/// The key of a request.
fn key(request: &Request<'_>) -> Result<Key, Refusal> {
    let family = request.family();
    let dst = request.attrs.get(NDA_DST).ok_or(EINVAL)?;
    if !matches!(family, INET | INET6) {
        return Err(EAFNOSUPPORT.into());
    }
    let ip = dst.get(..width(family)).ok_or(EINVAL)?;
    Ok((family, request.u32(4), ip.to_vec()))
}

impl State {
    pub(super) fn new_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let attrs = &request.attrs;
        let key = key(request)?;
        let flags = u32::from(request.header[10]);
        let lladdr = attrs.get(NDA_LLADDR);
        let link = match key.1 {
            0 => return Err(EINVAL.into()),
            index => self.links.get(index).ok_or(ENODEV)?,
        };
        if lladdr.is_some_and(|lladdr| lladdr.len() < link.address().len()) {
            return Err(EINVAL.into());
        }
        let state = u16_at(request.header, 8) as u8;
        if flags & NTF_PROXY != 0 {
            return self.new_proxy(key, state & NUD_PERMANENT, flags, attrs);
        }
        if !self.addresses(key.0).is_on(key.1) {
            return Err(EINVAL.into());
        }
        let change = Change {
            state,
            flags,
            lladdr,
            overrides: true,
        };
        self.add_neighbour(key, change, request)
    }

    /// A proxy, of which nothing is ever announced; its state is not shown.
    fn new_proxy(&mut self, key: Key, state: u8, flags: u32, new: &Bag) -> Result<(), Refusal> {
        let origin = self.new_origin();
        let proxy = self.neighbours.proxies.entry(key).or_insert(Neighbour {
            origin,
            kind: RTN_UNICAST,
            ..Neighbour::default()
        });
        proxy.origin.changed_by = origin.created_by;
        proxy.state = state;
        proxy.flags = flags;
        if new.u8(NDA_PROTOCOL).is_some_and(|protocol| protocol != 0) {
            proxy.attrs.take_from(new, NDA_PROTOCOL);
        }
        Ok(())
    }

    fn add_neighbour(
        &mut self,
        mut key: Key,
        mut change: Change<'_>,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        match self.neighbours.all.contains_key(&key) {
            false => {
                if !request.has(NLM_F_CREATE) {
                    return Err(ENOENT.into());
                }
                if key.0 == INET && self.is_loopback(key.1) {
                    key.2 = vec![0; 4];
                }
                let mut new = self.constructed(&key);
                new.flags = change.flags & NTF_EXT_LEARNED;
                new.origin = self.new_origin();
                self.neighbours.all.entry(key.clone()).or_insert(new);
            }
            true => {
                if request.has(NLM_F_EXCL) {
                    return Err(EEXIST.into());
                }
                change.overrides = request.has(NLM_F_REPLACE);
            }
        }
        let loses_protocol = self.has_flaw(Flaw::NeighbourLosesProtocol);
        let writer = self.writer;
        let Some(neighbour) = self.neighbours.all.get_mut(&key) else {
            return Ok(());
        };
        neighbour.origin.changed_by = writer;
        let protocol = request.attrs.u8(NDA_PROTOCOL).unwrap_or(0);
        if protocol != 0 || loses_protocol {
            neighbour.attrs.set(NDA_PROTOCOL, [protocol]);
        }
        let (result, is_announced) = neighbour.update(&change);
        let row = neighbour.row(&key, Action::New);
        if is_announced {
            self.announce_as(&row, (0, 0, request.port), None);
        }
        result
    }

    /// A new row as its family and device make it (`arp_constructor`, `ndisc_constructor`).
    fn constructed(&self, (family, index, dst): &Key) -> Neighbour {
        let mut new = Neighbour {
            kind: match (family, &dst[..]) {
                (&INET6, [0xff, ..]) => RTN_MULTICAST,
                (&INET6, _) if self.is_loopback(*index) => RTN_LOCAL,
                (&INET, _) => self.address_kind(ip(dst), TABLE_LOCAL),
                _ => RTN_UNICAST,
            },
            ..Neighbour::default()
        };
        let Some(link) = self.links.get(*index) else {
            return new;
        };
        let lladdr = match (new.kind, &dst[..]) {
            (RTN_MULTICAST, [_, b, c, d]) => vec![0x01, 0x00, 0x5e, b & 0x7f, *c, *d],
            (RTN_MULTICAST, _) => [&[0x33, 0x33], &dst[12..]].concat(),
            _ if link.flags & IFF_NOARP != 0 || link.is_loopback() => link.address().to_vec(),
            (RTN_BROADCAST, _) => link.broadcast().to_vec(),
            _ => return new,
        };
        new.state = NUD_NOARP;
        new.attrs.set(NDA_LLADDR, lladdr);
        new
    }

    /// A row that was valid is announced as failed first.
    pub(super) fn del_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let key = key(request)?;
        if key.1 != 0 {
            self.links.get(key.1).ok_or(ENODEV)?;
        }
        if u32::from(request.header[10]) & NTF_PROXY != 0 {
            return self
                .neighbours
                .proxies
                .remove(&key)
                .map(drop)
                .ok_or(ENOENT.into());
        }
        if key.1 == 0 {
            return Err(EINVAL.into());
        }
        let mut neighbour = self.neighbours.all.remove(&key).ok_or(ENOENT)?;
        let (_, is_announced) = neighbour.update(&Change {
            state: NUD_FAILED,
            flags: 0,
            lladdr: None,
            overrides: true,
        });
        if is_announced {
            let row = neighbour.row(&key, Action::New);
            self.announce_as(&row, (0, 0, request.port), None);
        }
        let row = neighbour.row(&key, Action::Del);
        self.announce(&row, None);
        Ok(())
    }

    pub(super) fn each_neighbour(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for (key, neighbour) in self.neighbours.all.iter().chain(&self.neighbours.proxies) {
            add(neighbour.row(key, Action::New), neighbour.origin);
        }
    }

    /// Takes the rows of a device and a family, or of both.
    fn flush_neighbours(&mut self, family: u8, index: u32, is_gone: impl Fn(&Neighbour) -> bool) {
        let is_here = |key: &Key| key.1 == index && (family == 0 || key.0 == family);
        let here = self.neighbours.all.iter();
        let gone = here.filter(|(key, neighbour)| is_here(key) && is_gone(neighbour));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        for key in gone {
            if let Some(neighbour) = self.neighbours.all.remove(&key) {
                let row = neighbour.row(&key, Action::Del);
                self.announce(&row, None);
            }
        }
    }

    fn take_neighbours(&mut self, family: u8, index: u32, is_gone: impl Fn(&Neighbour) -> bool) {
        self.flush_neighbours(family, index, &is_gone);
        self.neighbours.proxies.retain(|key, proxy| {
            key.1 != index || family != 0 && key.0 != family || !is_gone(proxy)
        });
    }

    /// Rows of all kinds go with a link that goes down.
    pub(super) fn neighbours_down(&mut self, index: u32) {
        self.take_neighbours(0, index, |_| true);
    }

    /// The last IPv4 address of a link has gone.
    pub(super) fn neighbours4_down(&mut self, index: u32) {
        self.take_neighbours(INET, index, |_| true);
    }

    /// A link loses IPv6.
    pub(super) fn neighbours6_down(&mut self, index: u32) {
        self.take_neighbours(INET6, index, |_| true);
    }

    /// All rows but permanent ones go with the carrier.
    pub(super) fn neighbours_carrier_lost(&mut self, index: u32) {
        self.take_neighbours(0, index, |neighbour| neighbour.state & NUD_PERMANENT == 0);
    }

    /// All rows go with the hardware address, but proxies stay.
    pub(super) fn neighbours_flush(&mut self, index: u32) {
        self.flush_neighbours(0, index, |_| true);
    }
}
