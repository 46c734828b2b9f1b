//! Entries of the forwarding databases of bridges and VXLANs (`ndmsg` of family `AF_BRIDGE`). They
//! are only read: the kernel drops their `NDA_PROTOCOL`.

use std::net::IpAddr;

use trueup_net::{Dev, ForwardingEntry, Kind, LinkAddr, NeighbourState};

use super::neighbour::{GET, NUD_NOARP, NUD_PERMANENT};
use super::{BROKEN, Undecodable, split};
use crate::wire::{read_ipv4, read_ipv6, read_u32};

pub use super::neighbour::NEW;

const AF_BRIDGE: u8 = 7;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_MASTER: u16 = 9;

const NTF_EXT_LEARNED: u8 = 0x10;

/// Decodes the body of a [`NEW`] message. Returns `None` for another family, or without an address.
///
/// # Errors
///
/// If the message is too short or broken.
pub fn decode(body: &[u8]) -> Result<Option<ForwardingEntry>, Undecodable> {
    let (head, mut attrs) = split::<12>(Kind::Neighbour, body)?;
    let [family, _, _, _, i0, i1, i2, i3, s0, s1, flags, _] = head;
    if family != AF_BRIDGE {
        return Ok(None);
    }
    let (mut lladdr, mut master, mut dst) = (None, None, None);
    for (number, payload) in attrs.by_ref() {
        match number {
            NDA_LLADDR => lladdr = LinkAddr::from_bytes(payload).ok(),
            NDA_MASTER => master = read_u32(payload).map(Dev::index),
            NDA_DST => {
                let v4 = read_ipv4(payload).map(IpAddr::V4);
                dst = v4.or_else(|| read_ipv6(payload).map(IpAddr::V6));
            }
            _ => {}
        }
    }
    if attrs.malformed() {
        return Err(Undecodable::whole(Kind::Neighbour, BROKEN));
    }
    let state = match u16::from_ne_bytes([s0, s1]) {
        state if state & NUD_PERMANENT != 0 => NeighbourState::Permanent,
        state if state & NUD_NOARP != 0 => NeighbourState::NoArp,
        _ => NeighbourState::Dynamic,
    };
    Ok(lladdr.map(|lladdr| {
        let dev = Dev::index(u32::from_ne_bytes([i0, i1, i2, i3]));
        let mut entry =
            ForwardingEntry::new(dev, lladdr, state).with_ext_learn(flags & NTF_EXT_LEARNED != 0);
        (entry.master, entry.dst) = (master, dst);
        entry
    }))
}

/// Returns the request for the entries of all bridges and VXLAN devices (`AF_BRIDGE`).
#[must_use]
pub fn dump_request() -> Vec<u8> {
    super::dump_query::dump_request(GET, &[AF_BRIDGE, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None)
}
