//! Neighbours of both families and proxies (`net/core/neighbour.c`). Nothing is resolved: a row
//! that the kernel would probe stays as it is. The table is never full.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u16_at};

use super::bag::{Bag, ip, width};
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::{Flaw, Origin, State};

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

/// All neighbours, followed by all proxies.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours(BTreeMap<Key, Neighbour>);

/// True for a proxy; then family, device, address.
type Key = (bool, u8, u32, Vec<u8>);

/// The reason for deleting a link's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// The link goes down or is deleted.
    Down,
    /// The link loses this family.
    Family(u8),
    /// The link loses its carrier: permanent rows stay.
    Carrier,
    /// The link's hardware address changes: proxies stay.
    Address,
}

#[derive(Clone, Debug, Default)]
struct Neighbour {
    origin: Origin,
    /// `NUD_*`; a request may set several bits, and they stay.
    state: u8,
    /// `NTF_*`.
    flags: u32,
    /// `ndm_type`.
    kind: u8,
    /// `NDA_LLADDR`, which is valid if the state is, and `NDA_PROTOCOL`.
    attrs: Bag,
}

/// A request's changes to a neighbour.
struct Change<'a> {
    state: u8,
    flags: u32,
    lladdr: Option<&'a [u8]>,
    /// True if a new link address replaces a known one, and the router flag follows the request.
    overrides: bool,
}

impl Neighbour {
    /// `__neigh_update`: also returns true if the change is announced. A refused change may still
    /// have changed flags, and may be announced.
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
        let (is_proxy, family, device, ip) = key;
        let mut header = vec![*family, 0, 0, 0];
        header.extend(device.to_ne_bytes());
        let state = if *is_proxy { 0 } else { self.state };
        header.extend([state, 0, self.flags as u8, self.kind]);
        let mut attrs = self.attrs.clone();
        attrs.set(NDA_DST, &ip[..]);
        attrs.remove_zeros(&[NDA_PROTOCOL]);
        if self.state & NUD_VALID == 0 {
            attrs.remove(&[NDA_LLADDR]);
        }
        if !is_proxy {
            attrs.set(NDA_PROBES, [0; 4]);
            attrs.set(NDA_CACHEINFO, [0; 16]);
        }
        attrs.row(Kind::Neighbour, action, header)
    }
}

/// Returns the key in a request.
fn key(request: &Request<'_>) -> Result<Key, Refusal> {
    let family = request.family();
    let dst = request.attrs.get(NDA_DST).ok_or(EINVAL)?;
    refuse_if(!matches!(family, INET | INET6), EAFNOSUPPORT)?;
    let ip = dst.get(..width(family)).ok_or(EINVAL)?;
    let is_proxy = u32::from(request.header[10]) & NTF_PROXY != 0;
    Ok((is_proxy, family, request.u32(4), ip.to_vec()))
}

impl State {
    pub(super) fn new_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let key = key(request)?;
        let (is_proxy, family, index, _) = key;
        let flags = u32::from(request.header[10]);
        let state = u16_at(request.header, 8) as u8;
        refuse_if(index == 0, EINVAL)?;
        self.links.get(index).ok_or(ENODEV)?;
        let has_family = self.addresses(family).is_on(index);
        if is_proxy {
            refuse_if(family == INET6 && !has_family, ENOBUFS)?;
            self.new_proxy(key, state & NUD_PERMANENT, flags, &request.attrs);
            return Ok(());
        }
        refuse_if(!has_family, EINVAL)?;
        let change =
            Change { state, flags, lladdr: request.attrs.get(NDA_LLADDR), overrides: true };
        self.add_neighbour(key, change, request)
    }

    /// Adds a proxy. The kernel never announces proxies, and does not show their state.
    fn new_proxy(&mut self, key: Key, state: u8, flags: u32, new: &Bag) {
        let origin = self.new_origin();
        let proxy = self.neighbours.0.entry(key).or_insert(Neighbour {
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
    }

    fn add_neighbour(
        &mut self,
        mut key: Key,
        mut change: Change<'_>,
        request: &Request<'_>,
    ) -> Result<(), Refusal> {
        if !self.neighbours.0.contains_key(&key) {
            refuse_if(!request.has(NLM_F_CREATE), ENOENT)?;
            if key.1 == INET && self.is_loopback(key.2) {
                key.3 = vec![0; 4];
            }
            let mut new = self.constructed(&key);
            new.flags = change.flags & NTF_EXT_LEARNED;
            new.origin = self.new_origin();
            self.neighbours.0.entry(key.clone()).or_insert(new);
        } else if request.has(NLM_F_EXCL) {
            return Err(EEXIST.into());
        } else {
            change.overrides = request.has(NLM_F_REPLACE);
        }
        let loses_protocol = self.has_flaw(Flaw::NeighbourLosesProtocol);
        let writer = self.writer;
        let Some(neighbour) = self.neighbours.0.get_mut(&key) else {
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

    /// Returns a new row as family and device initialise it (`arp_constructor`,
    /// `ndisc_constructor`).
    fn constructed(&self, (_, family, index, dst): &Key) -> Neighbour {
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

    /// Deletes a row. A valid one is first announced as failed.
    pub(super) fn del_neighbour(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let key = key(request)?;
        let (is_proxy, _, index, _) = key;
        refuse_if(index == 0 && !is_proxy, EINVAL)?;
        refuse_if(index != 0 && self.links.get(index).is_none(), ENODEV)?;
        let mut neighbour = self.neighbours.0.remove(&key).ok_or(ENOENT)?;
        if is_proxy {
            return Ok(());
        }
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
        self.announce(&neighbour.row(&key, Action::Del), None);
        Ok(())
    }

    pub(super) fn each_neighbour(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for (key, neighbour) in &self.neighbours.0 {
            add(neighbour.row(key, Action::New), neighbour.origin);
        }
    }

    /// Deletes rows of a link; `flush` selects them.
    pub(super) fn flush_neighbours(&mut self, index: u32, flush: Flush) {
        let is_gone = |key: &Key, neighbour: &Neighbour| {
            key.2 == index
                && match flush {
                    Flush::Down => true,
                    Flush::Family(family) => key.1 == family,
                    Flush::Carrier => neighbour.state & NUD_PERMANENT == 0,
                    Flush::Address => !key.0,
                }
        };
        let all = self.neighbours.0.iter();
        let gone: Vec<_> = all
            .filter(|(key, neighbour)| is_gone(key, neighbour))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            if let Some(neighbour) = self.neighbours.0.remove(&key).filter(|_| !key.0) {
                self.announce(&neighbour.row(&key, Action::Del), None);
            }
        }
    }
}
