//! Netlink messages as bytes with just enough structure to compare and select them. Numbers are
//! from `linux/rtnetlink.h` and related headers; the meaning of attributes is unknown here.

use std::collections::BTreeMap;

/// The kind of object in a message. It has the same name as trueup's own kind, but shares no code
/// with it, as tests compare the two.
///
/// ```
/// use trueup_testkit::{Action, Kind};
///
/// assert_eq!(Kind::of(24), Some((Kind::Route, Action::New))); // RTM_NEWROUTE
/// assert_eq!(Kind::Route.word(), "route");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `RTM_*LINK`, header `ifinfomsg`.
    Link,
    /// `RTM_*ADDR`, header `ifaddrmsg`.
    Address,
    /// `RTM_*NEIGH`, header `ndmsg`.
    Neighbour,
    /// `RTM_*ROUTE`, header `rtmsg`.
    Route,
    /// `RTM_*RULE`, header `fib_rule_hdr`.
    Rule,
    /// `RTM_*NEXTHOP`, header `nhmsg`.
    Nexthop,
}

/// The kernel's announcement: an object is added or removed. It is not an operation of trueup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// `RTM_NEW*`: the object exists, new or changed. Rows of a dump are of this kind too.
    New,
    /// `RTM_DEL*`: the object is gone.
    Del,
}

impl Kind {
    /// Every kind, in the order in which objects depend on each other.
    pub const ALL: [Self; 6] =
        [Self::Link, Self::Address, Self::Neighbour, Self::Nexthop, Self::Route, Self::Rule];

    /// Returns the kind and action of a message type, or `None` for types that are neither
    /// `RTM_NEW*` nor `RTM_DEL*` of a known kind.
    pub fn of(message_type: u16) -> Option<(Self, Action)> {
        let kind = Self::ALL.into_iter().find(|kind| kind.new_type() == message_type & !3)?;
        match message_type & 3 {
            0 => Some((kind, Action::New)),
            1 => Some((kind, Action::Del)),
            _ => None,
        }
    }

    /// Returns the number of `RTM_NEW*`; `RTM_DEL*` is one more, `RTM_GET*` two.
    pub const fn new_type(self) -> u16 {
        match self {
            Self::Link => 16,
            Self::Address => 20,
            Self::Route => 24,
            Self::Neighbour => 28,
            Self::Rule => 32,
            Self::Nexthop => 104,
        }
    }

    /// Returns the length of the fixed header before the attributes, in bytes.
    pub const fn header_len(self) -> usize {
        match self {
            Self::Link => 16,
            Self::Neighbour | Self::Route | Self::Rule => 12,
            Self::Address | Self::Nexthop => 8,
        }
    }

    /// Returns the number of the attribute that marks an object's maker. `None` if the marker is in
    /// the fixed header, or there is none.
    pub const fn marker(self) -> Option<u16> {
        match self {
            Self::Rule => Some(FRA_PROTOCOL),
            Self::Neighbour => Some(NDA_PROTOCOL),
            Self::Address => Some(IFA_PROTO),
            Self::Link | Self::Route | Self::Nexthop => None,
        }
    }

    /// Returns the kind's word in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Address => "address",
            Self::Neighbour => "neighbour",
            Self::Route => "route",
            Self::Rule => "rule",
            Self::Nexthop => "nexthop",
        }
    }
}

/// One rtnetlink message: a row of a dump or an announcement.
///
/// ```
/// use trueup_testkit::{Kind, model::Kernel};
///
/// let rows = Kernel::new().rows();
/// let lo = rows.iter().find(|row| row.kind == Kind::Link).expect("a loopback device");
/// assert_eq!(lo.ifname().as_deref(), Some("lo"));
/// assert_eq!(lo.device(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawMessage {
    /// The kind of the object concerned.
    pub kind: Kind,
    /// [`Action::New`] also for rows of a dump.
    pub action: Action,
    /// The fixed header, [`Kind::header_len`] bytes in the machine's byte order.
    pub header: Vec<u8>,
    /// Top-level attributes by number, without the nested and byte-order flags. No kind repeats an
    /// attribute at the top level; if one did, the payloads would be concatenated.
    pub attrs: BTreeMap<u16, Vec<u8>>,
}

impl RawMessage {
    /// Parses a message; `None` if its kind is unknown or it is shorter than its header.
    pub fn parse(message_type: u16, body: &[u8]) -> Option<Self> {
        let (kind, action) = Kind::of(message_type)?;
        let (header, rest) = body.split_at_checked(kind.header_len())?;
        let mut attrs = BTreeMap::<u16, Vec<u8>>::new();
        for (number, payload) in attributes(rest) {
            attrs.entry(number).or_default().extend_from_slice(payload);
        }
        Some(Self { kind, action, header: header.to_vec(), attrs })
    }

    /// Returns the message as bytes, with a netlink header.
    pub fn encode(&self, flags: u16, sequence: u32, port: u32) -> Vec<u8> {
        let message_type = self.kind.new_type() + u16::from(self.action == Action::Del);
        let mut body = self.header.clone();
        for (number, payload) in &self.attrs {
            push_attribute(&mut body, *number, payload);
        }
        framed(message_type, flags, sequence, port, &body)
    }

    /// Returns the address family: `AF_INET` is 2, `AF_INET6` 10, `AF_BRIDGE` 7, 0 for links.
    pub fn family(&self) -> u8 {
        self.header[0]
    }

    /// Returns the index of the object's device, or of the link itself; 0 if none is named
    /// (multipath routes, IPv4 blackholes, rules).
    pub fn device(&self) -> u32 {
        match self.kind {
            Kind::Link | Kind::Address | Kind::Neighbour => u32_at(&self.header, 4),
            Kind::Route => self.attr_u32(RTA_OIF).unwrap_or(0),
            Kind::Nexthop => self.attr_u32(NHA_OIF).unwrap_or(0),
            Kind::Rule => 0,
        }
    }

    /// Returns the indexes of a multipath route's devices; for any other message, only
    /// [`device`](Self::device).
    pub fn devices(&self) -> Vec<u32> {
        match self.attrs.get(&RTA_MULTIPATH) {
            Some(hops) if self.kind == Kind::Route => {
                let starts = rtnexthops(hops).into_iter();
                starts.map(|at| u32_at(hops, at + 4)).collect()
            }
            _ => vec![self.device()],
        }
    }

    /// Returns the protocol that marks the object's maker: `rtm_protocol`, `nhm_protocol`,
    /// `FRA_PROTOCOL`, `NDA_PROTOCOL`, `IFA_PROTO`; `None` if the kernel returned none.
    pub fn protocol(&self) -> Option<u8> {
        let attr = |number| self.attrs.get(&number).and_then(|p| p.first().copied());
        match self.kind {
            Kind::Route => Some(self.header[5]),
            Kind::Nexthop => Some(self.header[2]),
            kind => kind.marker().and_then(attr),
        }
    }

    /// Returns the routing table of a route or rule: from the attribute if present, as the header's
    /// byte is 252 for tables above 255.
    pub fn table(&self) -> Option<u32> {
        match self.kind {
            Kind::Route | Kind::Rule => {
                Some(self.attr_u32(RTA_TABLE).unwrap_or_else(|| self.header[4].into()))
            }
            _ => None,
        }
    }

    /// Returns an attribute's payload as a number; `None` unless it is four bytes long.
    pub fn attr_u32(&self, number: u16) -> Option<u32> {
        let payload = self.attrs.get(&number)?.as_slice();
        Some(u32::from_ne_bytes(payload.try_into().ok()?))
    }

    /// Returns a link's name, from `IFLA_IFNAME`, without its final NUL. Bytes that are not UTF-8
    /// are replaced.
    pub fn ifname(&self) -> Option<String> {
        let name = (self.kind == Kind::Link).then(|| self.attrs.get(&IFLA_IFNAME)).flatten()?;
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

const IFLA_IFNAME: u16 = 3;
const RTA_OIF: u16 = 4;
pub(crate) const RTA_MULTIPATH: u16 = 9;
/// `FRA_TABLE` has the same number.
const RTA_TABLE: u16 = 15;
const NHA_OIF: u16 = 5;
const FRA_PROTOCOL: u16 = 21;
const NDA_PROTOCOL: u16 = 12;
const IFA_PROTO: u16 = 11;

/// Returns the attributes in order; stops at the first that does not fit.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes.get(..4)?, 0));
        let number = u16_at(bytes, 2) & 0x3fff;
        let payload = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((number, payload))
    })
}

/// Appends one attribute, padded to four bytes.
pub(crate) fn push_attribute(out: &mut Vec<u8>, number: u16, payload: &[u8]) {
    let len = u16::try_from(payload.len() + 4).expect("attributes are short");
    out.extend(len.to_ne_bytes());
    out.extend(number.to_ne_bytes());
    out.extend(payload);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Returns a message with its netlink header, padded to four bytes.
pub(crate) fn framed(
    message_type: u16,
    flags: u16,
    sequence: u32,
    port: u32,
    body: &[u8],
) -> Vec<u8> {
    const HEADER: usize = 16;
    let length = u32::try_from(HEADER + body.len()).expect("messages are short");
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(length.to_ne_bytes());
    bytes.extend(message_type.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(port.to_ne_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns the messages of a datagram, each padded. An incomplete rest comes as it is, for the
/// kernel to judge.
pub(crate) fn requests(mut datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if datagram.len() < 16 {
            return None;
        }
        let length = (u32_at(datagram, 0) as usize).max(16).next_multiple_of(4);
        let (request, rest) = datagram.split_at(length.min(datagram.len()));
        datagram = rest;
        Some(request)
    })
}

/// Returns the offset of each `struct rtnexthop` in `RTA_MULTIPATH`: length, flags, weight, device;
/// its attributes follow within the length.
pub(crate) fn rtnexthops(hops: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 8 <= hops.len() {
        found.push(at);
        at += usize::from(u16_at(hops, at)).max(8).next_multiple_of(4);
    }
    found
}

/// Reads a 16-bit field at an offset, in the machine's byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// Reads a 32-bit field at an offset, in the machine's byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_message_types() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.new_type()), Some((kind, Action::New)));
            assert_eq!(Kind::of(kind.new_type() + 1), Some((kind, Action::Del)));
            assert_eq!(Kind::of(kind.new_type() + 2), None);
        }
        assert_eq!(Kind::of(3), None);
    }

    #[test]
    fn attributes_come_back_padded_nested_or_cut() {
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, 7, b"abcde");
        push_attribute(&mut bytes, 0x8000 | 9, &[1]);
        assert_eq!(bytes.len() % 4, 0);
        let found: Vec<_> = attributes(&bytes).collect();
        assert_eq!(found, [(7, &b"abcde"[..]), (9, &[1][..])]);
        assert_eq!(attributes(&bytes[..6]).count(), 0);
        assert_eq!(attributes(&[]).count(), 0);
        // A length below the attribute's own header must not loop.
        assert_eq!(attributes(&[0, 0, 1, 0, 8, 0, 2, 0]).count(), 0);
    }

    #[test]
    fn a_short_header_is_no_message() {
        assert_eq!(RawMessage::parse(24, &[2; 11]), None);
        let route = RawMessage::parse(24, &[2; 12]).unwrap();
        assert_eq!((route.family(), route.table()), (2, Some(2)));
    }
}
