//! Requests as raw bytes, and a small builder for them that knows only the framing.

use std::fmt;

use trueup_testkit::{Kind, RawMessage};

use crate::chance::pick;

pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const EXCL: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
pub(crate) const DUMP: u16 = 0x300;

/// One request, without its netlink header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    /// In addition to `NLM_F_REQUEST` and `NLM_F_ACK`, which are always set.
    pub(crate) flags: u16,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Makes a message from its fixed part.
    pub(crate) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        Self { kind, flags, body: fixed.to_vec() }
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, number: u16, payload: impl AsRef<[u8]>) -> Self {
        attribute(&mut self.body, number, payload.as_ref());
        self
    }

    /// Adds an attribute once in `n` times, with one of these values.
    pub(crate) fn maybe<P: AsRef<[u8]>>(
        self,
        rng: &mut fastrand::Rng,
        n: u8,
        number: u16,
        values: &[P],
    ) -> Self {
        match rng.u8(..n) {
            0 => self.with(number, values[rng.usize(..values.len())].as_ref()),
            _ => self,
        }
    }
}

/// Appends an attribute, padded.
pub(crate) fn attribute(out: &mut Vec<u8>, number: u16, payload: &[u8]) {
    let length = u16::try_from(payload.len() + 4).unwrap();
    out.extend(length.to_ne_bytes());
    out.extend(number.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Returns attributes one after another, as the payload of a nested one.
pub(crate) fn attributes<'a>(list: impl IntoIterator<Item = (u16, &'a [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, payload) in list {
        attribute(&mut out, number, payload);
    }
    out
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = ["new", "del", "get", "set"][usize::from(self.kind & 3)];
        write!(
            f,
            "[{}] {verb} flags {:#x} ",
            self.body.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            self.flags
        )?;
        match RawMessage::parse(self.kind & !3, &self.body) {
            Some(message) => write!(f, "{message}"),
            None => write!(f, "type {} {:02x?}", self.kind, self.body),
        }
    }
}

/// Returns the fixed part of a link message.
pub(crate) fn ifinfomsg(index: u32, flags: u32, change: u32) -> Vec<u8> {
    let mut fixed = vec![0; 4];
    fixed.extend(index.to_ne_bytes());
    fixed.extend(flags.to_ne_bytes());
    fixed.extend(change.to_ne_bytes());
    fixed
}

/// Returns a number as a payload.
pub(crate) fn number(value: u32) -> [u8; 4] {
    value.to_ne_bytes()
}

/// Returns an `RTM_NEWADDR` or `RTM_DELADDR` for an address with a prefix length.
pub(crate) fn address(kind: u16, flags: u16, index: u32, ip: &[u8], length: u8) -> Message {
    let family = if ip.len() == 4 { 2 } else { 10 };
    let fixed = [&[family, length, 0, 0][..], &index.to_ne_bytes()].concat();
    Message::new(kind, flags, &fixed).with(2, ip)
}

/// Parses an IPv6 address.
pub(crate) fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

/// Returns an `RTM_NEWLINK` for a pair of virtual Ethernet links, down, with fixed hardware
/// addresses and indexes.
pub(crate) fn veth(name: &str, index: u32, peer: &str, peer_index: u32) -> Message {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINKINFO: u16 = 18;
    let nul = |text: &str| [text.as_bytes(), &[0]].concat();
    let mac = |index: u32| [2, 0, 0, 0, 0, index as u8];
    let mut other = ifinfomsg(peer_index, 0, 0);
    attribute(&mut other, IFLA_IFNAME, &nul(peer));
    attribute(&mut other, IFLA_ADDRESS, &mac(peer_index));
    let info = attributes([(1, "veth".as_bytes()), (2, &attributes([(1, other.as_slice())]))]);
    Message::new(Kind::Link.new_type(), CREATE | EXCL, &ifinfomsg(index, 0, 0))
        .with(IFLA_IFNAME, nul(name))
        .with(IFLA_ADDRESS, mac(index))
        .with(IFLA_LINKINFO, info)
}

/// Returns an `RTM_NEWLINK` that sets a link up or down.
pub(crate) fn set_up(index: u32, up: bool) -> Message {
    Message::new(Kind::Link.new_type(), 0, &ifinfomsg(index, up.into(), 1))
}

/// Returns an earlier message as an add or a delete, with new flags; `None` if there is none of the
/// kind.
pub(crate) fn again(rng: &mut fastrand::Rng, sent: &[Message], kind: Kind) -> Option<Message> {
    let of_kind = sent.iter().filter(|message| message.kind & !1 == kind.new_type());
    let mut message = rng.choice(of_kind.collect::<Vec<_>>())?.clone();
    message.kind ^= u16::from(rng.u8(..3) > 0);
    message.flags = if message.kind & 1 == 1 { 0 } else { write_flags(rng) };
    Some(message)
}

/// Returns random flags for an add.
pub(crate) fn write_flags(rng: &mut fastrand::Rng) -> u16 {
    let usual = [CREATE | EXCL, CREATE | REPLACE, CREATE | REPLACE, CREATE | APPEND];
    match rng.u8(..8) {
        0 => pick(rng, &[CREATE, REPLACE, 0]),
        _ => pick(rng, &usual),
    }
}
