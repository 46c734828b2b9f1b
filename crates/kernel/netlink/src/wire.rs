//! The byte level of rtnetlink: message headers and attributes, read without allocation and written
//! into a reused buffer.
//!
//! Shared by the transport and the codecs. It knows the framing (`nlmsghdr`, `nlattr`, four-byte
//! alignment, host byte order), not the meaning of messages, and does no I/O.
//!
//! Reading is tolerant: for any bytes, iteration ends and nothing panics. A flag reports a
//! malformed tail, so that one bad attribute costs neither the message nor its neighbours. Source
//! of the framing: `linux/netlink.h`.

mod writer;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use writer::MessageWriter;

/// Length of a netlink message header (`struct nlmsghdr`) in bytes.
pub const HEADER_LEN: usize = 16;
/// Length of an attribute header (`struct nlattr`) in bytes.
pub const ATTR_HEADER_LEN: usize = 4;

/// `NLMSG_NOOP`: a message to be ignored.
pub const NLMSG_NOOP: u16 = 1;
/// `NLMSG_ERROR`: an acknowledgement (errno 0) or an error.
pub const NLMSG_ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
pub const NLMSG_DONE: u16 = 3;
/// `NLMSG_MIN_TYPE`: lower types are the protocol's own.
pub const NLMSG_MIN_TYPE: u16 = 16;

/// `NLM_F_REQUEST`: on every message to the kernel.
pub const NLM_F_REQUEST: u16 = 0x1;
/// `NLM_F_MULTI`: part of a reply of several messages, ended by [`NLMSG_DONE`].
pub const NLM_F_MULTI: u16 = 0x2;
/// `NLM_F_ACK`: acknowledge the request even if it succeeded.
pub const NLM_F_ACK: u16 = 0x4;
/// `NLM_F_ECHO`: echo the request's notification to the sender.
pub const NLM_F_ECHO: u16 = 0x8;
/// `NLM_F_DUMP_INTR`: the dump is inconsistent, since objects changed meanwhile.
pub const NLM_F_DUMP_INTR: u16 = 0x10;
/// `NLM_F_DUMP_FILTERED`: the dump was filtered as requested.
pub const NLM_F_DUMP_FILTERED: u16 = 0x20;
/// `NLM_F_DUMP` (`ROOT | MATCH`), on a GET request.
pub const NLM_F_DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`, on a NEW request: overwrite an existing object.
pub const NLM_F_REPLACE: u16 = 0x100;
/// `NLM_F_EXCL`, on a NEW request: refuse (`EEXIST`) if the object exists.
pub const NLM_F_EXCL: u16 = 0x200;
/// `NLM_F_BULK`, on a DEL request (Linux 6.0): delete all matching objects. It is the bit of
/// [`NLM_F_EXCL`]: a delete must never reuse the flags of a create.
pub const NLM_F_BULK: u16 = 0x200;
/// `NLM_F_CREATE`, on a NEW request: create the object if it does not exist.
pub const NLM_F_CREATE: u16 = 0x400;
/// `NLM_F_APPEND`, on a NEW request: add to the end of the list.
pub const NLM_F_APPEND: u16 = 0x800;
/// `NLM_F_CAPPED`, on an acknowledgement: the request is not echoed in it.
pub const NLM_F_CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`, on an acknowledgement or `NLMSG_DONE`: extended attributes follow.
pub const NLM_F_ACK_TLVS: u16 = 0x200;

/// `NLA_F_NESTED`: flag bit in an attribute's type.
pub const NLA_F_NESTED: u16 = 0x8000;
/// The bits of an attribute's type with its number. The other two are flags (`NLA_F_NESTED`,
/// `NLA_F_NET_BYTEORDER`).
pub const NLA_TYPE_MASK: u16 = 0x3fff;

/// Rounds a length up to netlink's alignment of four bytes.
///
/// Saturates at the top of the range, so that an absurd external length cannot wrap.
///
/// ```
/// assert_eq!([0, 1, 4, 5].map(trueup_netlink::wire::align), [0, 4, 4, 8]);
/// ```
#[must_use]
#[inline]
pub const fn align(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// A netlink message header (`struct nlmsghdr`).
///
/// ```
/// use trueup_netlink::wire::{HEADER_LEN, Header, NLM_F_REQUEST};
///
/// let header = Header { length: 32, kind: 18, flags: NLM_F_REQUEST, sequence: 1, port: 0 };
/// let bytes = header.to_bytes();
/// assert_eq!(bytes.len(), HEADER_LEN);
/// assert_eq!(Header::read(&bytes), Some(header));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the message with this header, without trailing padding, in bytes.
    pub length: u32,
    /// Message type (`RTM_NEWROUTE`, [`NLMSG_DONE`], ...).
    pub kind: u16,
    /// The flags, `NLM_F_*`, whose meaning depends on the type.
    pub flags: u16,
    /// Sequence number: a reply carries its request's.
    pub sequence: u32,
    /// Port id: a reply's is the requester's, an event's the writer's. 0 is the kernel.
    pub port: u32,
}

impl Header {
    /// Reads a header from the start of `bytes`; `None` if there are fewer than [`HEADER_LEN`].
    /// Does not check `length`.
    #[must_use]
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            length: read_u32(bytes.get(0..4)?)?,
            kind: read_u16(bytes.get(4..6)?)?,
            flags: read_u16(bytes.get(6..8)?)?,
            sequence: read_u32(bytes.get(8..12)?)?,
            port: read_u32(bytes.get(12..16)?)?,
        })
    }

    /// Returns the header's bytes on the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..4].copy_from_slice(&self.length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.port.to_ne_bytes());
        bytes
    }
}

/// A whole message, borrowed from a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The message's type, flags, sequence number and port id.
    pub header: Header,
    /// The bytes after the header: a fixed struct such as `rtmsg`, then attributes.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Splits the body into its fixed struct of `fixed` bytes and the attributes after it. `None`
    /// if the body is shorter than that.
    #[must_use]
    pub fn split(&self, fixed: usize) -> Option<(&'a [u8], Attrs<'a>)> {
        let head = self.body.get(..fixed)?;
        Some((head, Attrs::new(self.body.get(align(fixed)..).unwrap_or(&[]))))
    }
}

/// Iterator over the messages of one datagram.
///
/// ```
/// use trueup_netlink::codec::link;
/// use trueup_netlink::wire::Messages;
///
/// let mut buffer = Vec::new();
/// link::delete(&mut buffer, 7)?;
/// let mut messages = Messages::new(&buffer);
/// assert_eq!(messages.next().map(|message| message.header.kind), Some(link::DELETE));
/// assert!(messages.next().is_none() && !messages.malformed());
/// # Ok::<(), trueup_netlink::codec::EncodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    malformed: bool,
}

impl<'a> Messages<'a> {
    /// Iterates over the messages in `datagram`.
    #[must_use]
    #[inline]
    pub fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram, malformed: false }
    }

    /// Returns true if iteration ended at bytes that are no message. Valid once it has ended.
    #[must_use]
    pub fn malformed(&self) -> bool {
        self.malformed
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let message = Header::read(rest).and_then(|header| {
            let length = usize::try_from(header.length).ok()?;
            let body = rest.get(HEADER_LEN..length)?;
            self.rest = rest.get(align(length)..).unwrap_or(&[]);
            Some(Message { header, body })
        });
        self.malformed = message.is_none();
        message
    }
}

/// Iterator over the attributes of a byte slice: `(number, payload)`.
///
/// The number excludes its flag bits. The caller checks the payloads. A length that does not fit
/// ends the iteration, and [`malformed`] reports it.
///
/// ```
/// use trueup_netlink::wire::{Attrs, read_u32};
///
/// // One attribute: length 8, type 4, payload 1400.
/// let mut bytes = [8u16.to_ne_bytes(), 4u16.to_ne_bytes()].concat();
/// bytes.extend(1400u32.to_ne_bytes());
/// assert_eq!(Attrs::new(&bytes).find(4).and_then(read_u32), Some(1400));
/// assert_eq!(Attrs::new(&bytes).find(5), None);
/// ```
///
/// [`malformed`]: Attrs::malformed
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
    malformed: bool,
}

impl<'a> Attrs<'a> {
    /// Iterates over the attributes in `bytes`, which begin with an attribute header.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, malformed: false }
    }

    /// Returns true if iteration ended at bytes that are no attribute. Valid once it has ended.
    #[must_use]
    pub fn malformed(&self) -> bool {
        self.malformed
    }

    /// Returns the payload of the first attribute with this number. Reads from the front, does not
    /// advance.
    #[must_use]
    pub fn find(&self, kind: u16) -> Option<&'a [u8]> {
        self.clone().find_map(|(found, payload)| (found == kind).then_some(payload))
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = (u16, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        let attr = split_attr(rest);
        self.malformed = attr.is_none();
        let (kind, payload, tail) = attr?;
        self.rest = tail;
        Some((kind, payload))
    }
}

#[inline]
fn split_attr(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(read_u16(bytes.get(0..2)?)?);
    let kind = read_u16(bytes.get(2..4)?)? & NLA_TYPE_MASK;
    let payload = bytes.get(ATTR_HEADER_LEN..length)?;
    // The last attribute may lack its padding.
    Some((kind, payload, bytes.get(align(length)..).unwrap_or(&[])))
}

macro_rules! readers {
    ($($(#[$doc:meta])* $name:ident -> $type:ty = $from:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// `None` unless the payload has exactly that length.
        #[must_use]
        #[inline]
        pub fn $name(payload: &[u8]) -> Option<$type> {
            payload.try_into().ok().map(<$type>::$from)
        }
    )*};
}

readers! {
    /// Reads a `u8`.
    read_u8 -> u8 = from_ne_bytes;
    /// Reads a `u16` in host byte order.
    read_u16 -> u16 = from_ne_bytes;
    /// Reads a `u32` in host byte order.
    read_u32 -> u32 = from_ne_bytes;
    /// Reads an `i32` in host byte order.
    read_i32 -> i32 = from_ne_bytes;
    /// Reads a `u64` in host byte order.
    read_u64 -> u64 = from_ne_bytes;
    /// Reads a `u16` in network byte order.
    read_be16 -> u16 = from_be_bytes;
}

/// Reads an IPv4 address; `None` unless the payload has exactly four bytes.
#[must_use]
#[inline]
pub fn read_ipv4(payload: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(payload).ok().map(Ipv4Addr::from)
}

/// Reads an IPv6 address; `None` unless the payload has exactly sixteen bytes.
#[must_use]
#[inline]
pub fn read_ipv6(payload: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(payload).ok().map(Ipv6Addr::from)
}

/// Returns the bytes of a string attribute up to its first NUL, or all of them.
///
/// Bytes and not `str`, since interface names and aliases need not be UTF-8.
#[must_use]
pub fn read_string(payload: &[u8]) -> &[u8] {
    payload.split(|byte| *byte == 0).next().unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn flag_bits_are_no_part_of_the_number() {
        let bytes = [4, 0, 3, 0xc0];
        assert_eq!(Attrs::new(&bytes).next(), Some((3, &[][..])));
    }

    #[test]
    fn a_malformed_tail_ends_the_iteration_and_is_told() {
        let good = [5, 0, 1, 0, 42, 0, 0, 0];
        for tail in [&[1][..], &[3, 0, 1, 0], &[9, 0, 1, 0, 1, 2, 3, 4], &[0, 0, 0, 0]] {
            let bytes = [&good, tail].concat();
            let mut attrs = Attrs::new(&bytes);
            assert_eq!(attrs.next(), Some((1, &[42][..])));
            assert!(!attrs.malformed());
            assert_eq!((attrs.next(), attrs.next()), (None, None), "{tail:?}");
            assert!(attrs.malformed());
        }
        // Padding may be missing after the last one.
        let mut attrs = Attrs::new(&good[..5]);
        assert_eq!((attrs.next(), attrs.next()), (Some((1, &[42][..])), None));
        assert!(!attrs.malformed());
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_panic(bytes: Vec<u8>) {
            let mut messages = Messages::new(&bytes);
            let total: usize = messages.by_ref().map(|message| {
                let _ = message.split(12);
                HEADER_LEN + message.body.len()
            }).sum();
            prop_assert!(total <= bytes.len());
            let mut attrs = Attrs::new(&bytes);
            let total: usize = attrs.by_ref().map(|(_, payload)| 4 + payload.len()).sum();
            prop_assert!(total <= bytes.len());
        }
    }
}
