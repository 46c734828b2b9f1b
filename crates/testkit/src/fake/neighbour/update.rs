//! One row, and how a request changes it: `__neigh_update`.

use crate::message::{Action, RawMessage};

use super::super::request::Refusal;
use super::{
    Id, NDA_CACHEINFO, NDA_LLADDR, NDA_PROBES, NDA_PROTOCOL, NTF_EXT_LEARNED, NTF_EXT_VALIDATED,
    NTF_MANAGED, NTF_ROUTER, NTF_USE, RTN_UNICAST, refused, row,
};

const NUD_INCOMPLETE: u8 = 0x01;
const NUD_REACHABLE: u8 = 0x02;
const NUD_STALE: u8 = 0x04;
const NUD_DELAY: u8 = 0x08;
const NUD_PROBE: u8 = 0x10;
pub(super) const NUD_FAILED: u8 = 0x20;
pub(super) const NUD_NOARP: u8 = 0x40;
pub(super) const NUD_PERMANENT: u8 = 0x80;
const NUD_CONNECTED: u8 = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE;
pub(super) const NUD_VALID: u8 = NUD_CONNECTED | NUD_PROBE | NUD_STALE | NUD_DELAY;

/// One neighbour.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// `NUD_*`; a request may set several bits, and they stay.
    pub(super) state: u8,
    /// `NTF_*`, extended ones above the first byte.
    pub(super) flags: u32,
    /// Counts while the state is valid.
    pub(super) lladdr: Vec<u8>,
    pub(super) protocol: u8,
    /// `ndm_type`.
    pub(super) kind: u8,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            state: 0,
            flags: 0,
            lladdr: Vec::new(),
            protocol: 0,
            kind: RTN_UNICAST,
        }
    }
}

/// What a request wants of a row.
pub(super) struct Change<'a> {
    pub(super) state: u8,
    /// `NTF_*` of the request.
    pub(super) flags: u32,
    pub(super) lladdr: Option<&'a [u8]>,
    /// Whether another link address replaces the one known, and the router flag is set or cleared.
    pub(super) overrides: bool,
    /// Length of the device's addresses.
    pub(super) width: usize,
}

impl Change<'_> {
    /// That of a delete.
    pub(super) fn failed(width: usize) -> Self {
        Self {
            state: NUD_FAILED,
            flags: 0,
            lladdr: None,
            overrides: true,
            width,
        }
    }
}

impl Entry {
    /// Changes the row; also says whether that is told. A change that is refused may have changed flags, and may be told.
    pub(super) fn update(&mut self, change: &Change<'_>) -> (Result<(), Refusal>, bool) {
        const KEPT: u32 = NTF_EXT_LEARNED | NTF_MANAGED | NTF_EXT_VALIDATED;
        let old = self.state;
        let mut tells = (self.flags ^ change.flags) & KEPT != 0;
        self.flags = self.flags & !KEPT | change.flags & KEPT;
        if change.flags & (NTF_USE | NTF_MANAGED) != 0 {
            self.state &= !NUD_PERMANENT;
            return (Ok(()), tells);
        }
        let new = change.state;
        if new & NUD_VALID == 0 {
            self.state = new;
            // Changed flags are not told.
            let fails = old & (NUD_INCOMPLETE | NUD_PROBE) != 0 && new & NUD_FAILED != 0;
            return (Ok(()), old & NUD_VALID != 0 || fails);
        }
        let known = old & NUD_VALID != 0;
        let given = change.lladdr.and_then(|lladdr| lladdr.get(..change.width));
        let other = match given {
            _ if change.width == 0 => None,
            Some(lladdr) => (!known || lladdr != self.lladdr).then_some(lladdr),
            None if known => None,
            None => return (Err(refused("No link layer address given")), tells),
        };
        if known && other.is_some() && !change.overrides {
            return (Ok(()), tells);
        }
        if new != old {
            self.state = new;
            tells = true;
        }
        if let Some(lladdr) = other {
            self.lladdr = lladdr.to_vec();
            tells = true;
        }
        if change.overrides && (self.flags ^ change.flags) & NTF_ROUTER != 0 {
            self.flags ^= NTF_ROUTER;
            tells = true;
        }
        (Ok(()), tells)
    }

    /// `neigh_event_send`: somebody wants to send there.
    pub(super) fn ask(&mut self) {
        if self.state & (NUD_CONNECTED | NUD_DELAY | NUD_PROBE) != 0 {
            return;
        }
        if self.state & (NUD_STALE | NUD_INCOMPLETE) == 0 {
            self.state = NUD_INCOMPLETE;
        } else if self.state & NUD_STALE != 0 {
            self.state = NUD_DELAY;
        }
    }

    /// Whether it is never collected, and not counted against the limit.
    pub(super) fn is_exempt(&self) -> bool {
        self.state & NUD_PERMANENT != 0 || self.flags & (NTF_EXT_LEARNED | NTF_EXT_VALIDATED) != 0
    }

    /// `__neigh_fill_info`.
    pub(super) fn row(&self, (family, device, key): &Id, action: Action) -> RawMessage {
        let id = (*family, *device, key.as_slice());
        let mut row = row(id, self.state, self.flags, self.kind, action);
        if self.state & NUD_VALID != 0 {
            row.attrs.insert(NDA_LLADDR, self.lladdr.clone());
        }
        row.attrs.insert(NDA_PROBES, vec![0; 4]);
        row.attrs.insert(NDA_CACHEINFO, vec![0; 16]);
        if self.protocol != 0 {
            row.attrs.insert(NDA_PROTOCOL, vec![self.protocol]);
        }
        row
    }
}
