//! The byte level of rtnetlink: message headers and attributes, read without allocation and
//! written into a buffer that is used again.
//!
//! Shared by the transport and the codecs. It knows the framing (`nlmsghdr`, `nlattr`, four-byte
//! alignment, host byte order) and nothing of what a message means; it does no I/O.
//!
//! Reading is tolerant: whatever the bytes are, iteration ends and nothing panics; a malformed
//! tail is told by a flag, so that one bad attribute costs neither the message nor its
//! neighbours. Source of the framing: `linux/netlink.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of a netlink message header (`struct nlmsghdr`) in bytes.
pub const HEADER_LEN: usize = 16;
/// Length of an attribute header (`struct nlattr`) in bytes.
pub const ATTR_HEADER_LEN: usize = 4;

/// `NLMSG_NOOP`: to be ignored.
pub const NLMSG_NOOP: u16 = 1;
/// `NLMSG_ERROR`: an acknowledgement (errno 0) or an error.
pub const NLMSG_ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a dump.
pub const NLMSG_DONE: u16 = 3;

/// `NLM_F_REQUEST`: on every message to the kernel.
pub const NLM_F_REQUEST: u16 = 0x1;
/// `NLM_F_MULTI`: part of a reply of several messages, ended by [`NLMSG_DONE`].
pub const NLM_F_MULTI: u16 = 0x2;
/// `NLM_F_ACK`: answer with an acknowledgement when the request succeeded.
pub const NLM_F_ACK: u16 = 0x4;
/// `NLM_F_ECHO`: echo the request's notification to the sender.
pub const NLM_F_ECHO: u16 = 0x8;
/// `NLM_F_DUMP_INTR`: the dump is inconsistent, objects changed meanwhile.
pub const NLM_F_DUMP_INTR: u16 = 0x10;
/// `NLM_F_DUMP_FILTERED`: the dump was filtered as requested.
pub const NLM_F_DUMP_FILTERED: u16 = 0x20;
/// `NLM_F_DUMP` (`ROOT | MATCH`), on a GET request.
pub const NLM_F_DUMP: u16 = 0x300;
/// `NLM_F_REPLACE`, on a NEW request: overwrite what exists.
pub const NLM_F_REPLACE: u16 = 0x100;
/// `NLM_F_EXCL`, on a NEW request: refuse (`EEXIST`) when it exists.
pub const NLM_F_EXCL: u16 = 0x200;
/// `NLM_F_BULK`, on a DEL request (Linux 6.0): delete all that match. It is the bit of
/// [`NLM_F_EXCL`]: a delete must never carry over the flags of a create.
pub const NLM_F_BULK: u16 = 0x200;
/// `NLM_F_CREATE`, on a NEW request: create when it does not exist.
pub const NLM_F_CREATE: u16 = 0x400;
/// `NLM_F_APPEND`, on a NEW request: add to the end of the list.
pub const NLM_F_APPEND: u16 = 0x800;
/// `NLM_F_CAPPED`, on an acknowledgement: the request is not echoed in it.
pub const NLM_F_CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`, on an acknowledgement or `NLMSG_DONE`: extended attributes follow.
pub const NLM_F_ACK_TLVS: u16 = 0x200;

/// `NLA_F_NESTED`: flag bit in an attribute's type.
pub const NLA_F_NESTED: u16 = 0x8000;
/// The bits of an attribute's type that are its number; the other two are flags
/// (`NLA_F_NESTED`, `NLA_F_NET_BYTEORDER`).
pub const NLA_TYPE_MASK: u16 = 0x3fff;

/// Rounds a length up to netlink's alignment of four bytes.
///
/// Saturates at the top of the range, so that an absurd length from outside cannot wrap.
#[must_use]
pub const fn align(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// A netlink message header (`struct nlmsghdr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the message with this header, without trailing padding, in bytes.
    pub length: u32,
    /// Message type (`RTM_NEWROUTE`, [`NLMSG_DONE`], ...).
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Sequence number: a reply carries its request's.
    pub sequence: u32,
    /// Port id: a reply carries the requester's, an event that of whoever caused it, 0 is the kernel.
    pub port: u32,
}

impl Header {
    /// Reads a header from the front of `bytes`; `None` when there are fewer than
    /// [`HEADER_LEN`]. Whether `length` makes sense is not checked.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            length: read_u32(bytes.get(0..4)?)?,
            kind: read_u16(bytes.get(4..6)?)?,
            flags: read_u16(bytes.get(6..8)?)?,
            sequence: read_u32(bytes.get(8..12)?)?,
            port: read_u32(bytes.get(12..16)?)?,
        })
    }

    /// The header as it stands on the wire.
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

/// One whole message, borrowed from a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The message's header.
    pub header: Header,
    /// What follows the header: a fixed struct such as `rtmsg`, then attributes.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Splits the body into its fixed struct of `fixed` bytes and the attributes behind it;
    /// `None` when the body is shorter than that.
    #[must_use]
    pub fn split(&self, fixed: usize) -> Option<(&'a [u8], Attrs<'a>)> {
        let head = self.body.get(..fixed)?;
        Some((
            head,
            Attrs::new(self.body.get(align(fixed)..).unwrap_or(&[])),
        ))
    }
}

/// Iterator over the messages of one datagram.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    malformed: bool,
}

impl<'a> Messages<'a> {
    /// The messages in `datagram`.
    #[must_use]
    pub fn new(datagram: &'a [u8]) -> Self {
        Self {
            rest: datagram,
            malformed: false,
        }
    }

    /// Whether iteration ended at bytes that are no message. Meaningful once it has ended.
    #[must_use]
    pub fn malformed(&self) -> bool {
        self.malformed
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

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
/// The number comes without its flag bits. Attributes that are known not to parse are the
/// caller's affair; a length that does not fit ends the iteration, and [`malformed`] says so.
///
/// [`malformed`]: Attrs::malformed
#[derive(Clone, Debug)]
pub struct Attrs<'a> {
    rest: &'a [u8],
    malformed: bool,
}

impl<'a> Attrs<'a> {
    /// The attributes in `bytes`, which begin with an attribute header.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            malformed: false,
        }
    }

    /// Whether iteration ended at bytes that are no attribute. Meaningful once it has ended.
    #[must_use]
    pub fn malformed(&self) -> bool {
        self.malformed
    }

    /// The payload of the first attribute of this number. Reads from the front, does not advance.
    #[must_use]
    pub fn find(&self, kind: u16) -> Option<&'a [u8]> {
        self.clone()
            .find_map(|(found, payload)| (found == kind).then_some(payload))
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = (u16, &'a [u8]);

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
        pub fn $name(payload: &[u8]) -> Option<$type> {
            payload.try_into().ok().map(<$type>::$from)
        }
    )*};
}

readers! {
    /// Reads a `u8`.
    read_u8 -> u8 = from_ne_bytes;
    /// Reads an `i8`.
    read_i8 -> i8 = from_ne_bytes;
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
    /// Reads a `u32` in network byte order.
    read_be32 -> u32 = from_be_bytes;
}

/// Reads an IPv4 address; `None` unless the payload has exactly four bytes.
#[must_use]
pub fn read_ipv4(payload: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(payload).ok().map(Ipv4Addr::from)
}

/// Reads an IPv6 address; `None` unless the payload has exactly sixteen bytes.
#[must_use]
pub fn read_ipv6(payload: &[u8]) -> Option<Ipv6Addr> {
    <[u8; 16]>::try_from(payload).ok().map(Ipv6Addr::from)
}

/// Reads an address whose family is told by its length, four or sixteen bytes.
#[must_use]
pub fn read_ip(payload: &[u8]) -> Option<IpAddr> {
    read_ipv4(payload)
        .map(IpAddr::V4)
        .or_else(|| read_ipv6(payload).map(IpAddr::V6))
}

/// The bytes of a string attribute up to its first NUL, or all of them.
///
/// Bytes and not `str`: interface names and aliases need not be UTF-8.
#[must_use]
pub fn read_string(payload: &[u8]) -> &[u8] {
    payload.split(|byte| *byte == 0).next().unwrap_or(&[])
}

/// A message or an attribute is longer than its length field can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a netlink attribute or message is too large for its length field")]
#[non_exhaustive]
pub struct TooLarge;

/// An open nested attribute of a [`MessageWriter`], to be given back to
/// [`end_nest`](MessageWriter::end_nest).
#[derive(Debug)]
#[must_use = "a nest must be ended"]
pub struct Nest(usize);

/// Appends one message to a buffer.
///
/// Nothing in it fails on the way: what does not fit is remembered and reported by
/// [`finish`](Self::finish), which then takes the message back out. A writer dropped without
/// `finish` leaves the buffer as it was.
///
/// ```
/// use trueup_netlink::wire::{Messages, MessageWriter, NLM_F_REQUEST};
///
/// let mut buffer = Vec::new();
/// let mut message = MessageWriter::begin(&mut buffer, 26, NLM_F_REQUEST);
/// message.body(&[0; 12]);
/// let metrics = message.nest(8);
/// message.attr_u32(2, 1400);
/// message.end_nest(metrics);
/// message.finish()?;
/// assert_eq!(Messages::new(&buffer).count(), 1);
/// # Ok::<(), trueup_netlink::wire::TooLarge>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    overflow: bool,
    finished: bool,
}

impl<'a> MessageWriter<'a> {
    /// Begins a message of this type with these `NLM_F_*` flags. Sequence number and port id are
    /// 0; the socket fills in the sequence number when it sends.
    pub fn begin(buffer: &'a mut Vec<u8>, kind: u16, flags: u16) -> Self {
        let start = buffer.len();
        let header = Header {
            length: 0,
            kind,
            flags,
            sequence: 0,
            port: 0,
        };
        buffer.extend_from_slice(&header.to_bytes());
        Self {
            buffer,
            start,
            overflow: false,
            finished: false,
        }
    }

    /// Appends the fixed struct of the message type, padded to alignment.
    pub fn body(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.pad();
    }

    /// Appends an attribute.
    pub fn attr(&mut self, kind: u16, payload: &[u8]) {
        match u16::try_from(ATTR_HEADER_LEN.saturating_add(payload.len())) {
            Ok(length) => {
                self.buffer.extend_from_slice(&length.to_ne_bytes());
                self.buffer.extend_from_slice(&kind.to_ne_bytes());
                self.buffer.extend_from_slice(payload);
                self.pad();
            }
            Err(_) => self.overflow = true,
        }
    }

    /// Appends an attribute without payload.
    pub fn attr_flag(&mut self, kind: u16) {
        self.attr(kind, &[]);
    }

    /// Appends a `u8` attribute.
    pub fn attr_u8(&mut self, kind: u16, value: u8) {
        self.attr(kind, &[value]);
    }

    /// Appends a `u16` attribute in host byte order.
    pub fn attr_u16(&mut self, kind: u16, value: u16) {
        self.attr(kind, &value.to_ne_bytes());
    }

    /// Appends a `u32` attribute in host byte order.
    pub fn attr_u32(&mut self, kind: u16, value: u32) {
        self.attr(kind, &value.to_ne_bytes());
    }

    /// Appends an `i32` attribute in host byte order.
    pub fn attr_i32(&mut self, kind: u16, value: i32) {
        self.attr(kind, &value.to_ne_bytes());
    }

    /// Appends a `u64` attribute in host byte order.
    pub fn attr_u64(&mut self, kind: u16, value: u64) {
        self.attr(kind, &value.to_ne_bytes());
    }

    /// Appends a `u16` attribute in network byte order.
    pub fn attr_be16(&mut self, kind: u16, value: u16) {
        self.attr(kind, &value.to_be_bytes());
    }

    /// Appends a `u32` attribute in network byte order.
    pub fn attr_be32(&mut self, kind: u16, value: u32) {
        self.attr(kind, &value.to_be_bytes());
    }

    /// Appends an address, four or sixteen bytes.
    pub fn attr_ip(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.attr(kind, &address.octets()),
            IpAddr::V6(address) => self.attr(kind, &address.octets()),
        }
    }

    /// Appends a string attribute with its terminating NUL, as the kernel's `NLA_STRING` and
    /// `NLA_NUL_STRING` both take it. Any NUL in `bytes` ends the string for the kernel.
    pub fn attr_string(&mut self, kind: u16, bytes: &[u8]) {
        let start = self.nest_raw(kind);
        self.buffer.extend_from_slice(bytes);
        self.buffer.push(0);
        self.close(start);
    }

    /// Opens a nested attribute with `NLA_F_NESTED` set; attributes written until
    /// [`end_nest`](Self::end_nest) are inside it.
    pub fn nest(&mut self, kind: u16) -> Nest {
        Nest(self.nest_raw(kind | NLA_F_NESTED))
    }

    /// Opens a nested attribute without the flag, as iproute2 writes those that are older than
    /// the flag. Kernel families that do not check strictly take either.
    pub fn nest_unflagged(&mut self, kind: u16) -> Nest {
        Nest(self.nest_raw(kind))
    }

    /// Ends a nested attribute. Nests end in the reverse order of their opening.
    pub fn end_nest(&mut self, nest: Nest) {
        self.close(nest.0);
    }

    /// Appends bytes as they are, padded to alignment: for nested arrays of structs such as
    /// `rtnexthop`, whose length the caller patches with [`patch_u16`](Self::patch_u16).
    pub fn raw(&mut self, bytes: &[u8]) {
        self.body(bytes);
    }

    /// Length of the message so far, in bytes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Overwrites a `u16` at a [`position`](Self::position) noted earlier with the number of bytes
    /// from that position to here, as `rtnexthop.rtnh_len` wants it.
    pub fn patch_u16(&mut self, position: usize) {
        let at = self.start.saturating_add(position);
        let length = self
            .buffer
            .len()
            .checked_sub(at)
            .and_then(|len| u16::try_from(len).ok());
        match (length, self.buffer.get_mut(at..at.saturating_add(2))) {
            (Some(length), Some(field)) => field.copy_from_slice(&length.to_ne_bytes()),
            _ => self.overflow = true,
        }
    }

    /// Patches the message's length in and leaves it in the buffer.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] when an attribute, a nest or the message outgrew its length field; the message
    /// is then no longer in the buffer.
    pub fn finish(mut self) -> Result<(), TooLarge> {
        let length = u32::try_from(self.position()).map_err(|_| TooLarge)?;
        if self.overflow {
            return Err(TooLarge);
        }
        self.buffer[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
        self.finished = true;
        Ok(())
    }

    fn nest_raw(&mut self, kind: u16) -> usize {
        let at = self.position();
        self.buffer.extend_from_slice(&[0, 0]);
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        at
    }

    /// An attribute's length field stands at its start, as does `rtnexthop`'s.
    fn close(&mut self, position: usize) {
        self.patch_u16(position);
        self.pad();
    }

    fn pad(&mut self) {
        let aligned = self.start + align(self.position());
        self.buffer.resize(aligned, 0);
    }
}

impl Drop for MessageWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.buffer.truncate(self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut MessageWriter<'_>)) -> Result<Vec<u8>, TooLarge> {
        let mut buffer = Vec::new();
        let mut message = MessageWriter::begin(&mut buffer, 24, NLM_F_REQUEST);
        write(&mut message);
        message.finish().map(|()| buffer)
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = written(|message| {
            message.body(&[7; 12]);
            message.attr_u8(1, 0xab);
            message.attr_be16(2, 0x1234);
            let nest = message.nest(3);
            message.attr_ip(4, IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)));
            message.attr_ip(5, IpAddr::V6(Ipv6Addr::LOCALHOST));
            message.end_nest(nest);
            message.attr_string(6, b"lo");
            message.attr_i32(7, -1);
            message.attr_flag(8);
        })
        .unwrap();
        let message = Messages::new(&bytes).next().unwrap();
        assert_eq!(message.header.length as usize, bytes.len());
        let (fixed, attrs) = message.split(12).unwrap();
        assert_eq!(fixed, [7; 12]);
        assert_eq!(attrs.find(1).and_then(read_u8), Some(0xab));
        assert_eq!(attrs.find(2), Some(&[0x12, 0x34][..]));
        let nest = Attrs::new(attrs.find(3).unwrap());
        assert_eq!(
            nest.find(4).and_then(read_ip),
            Some("10.1.2.3".parse().unwrap())
        );
        assert_eq!(nest.find(5).and_then(read_ip), Some("::1".parse().unwrap()));
        assert_eq!(attrs.find(6), Some(&b"lo\0"[..]));
        assert_eq!(attrs.find(6).map(read_string), Some(&b"lo"[..]));
        assert_eq!(attrs.find(7).and_then(read_i32), Some(-1));
        assert_eq!(attrs.find(8), Some(&[][..]));
        assert_eq!(attrs.find(9), None);
        assert_eq!(
            attrs.find(1).and_then(read_u16),
            None,
            "a wrong length is no value"
        );
    }

    #[test]
    fn too_long_is_an_error_and_leaves_no_trace() {
        assert!(written(|message| message.attr(1, &[0; 65531])).is_ok());
        assert_eq!(
            written(|message| message.attr(1, &[0; 65532])),
            Err(TooLarge)
        );
        assert_eq!(
            written(|message| message.attr_string(1, &[b'a'; 65531])),
            Err(TooLarge)
        );
        let nested = written(|message| {
            let nest = message.nest(1);
            message.attr(2, &[0; 40000]);
            message.attr(3, &[0; 40000]);
            message.end_nest(nest);
        });
        assert_eq!(nested, Err(TooLarge));

        let mut buffer = vec![1, 2, 3, 4];
        let mut message = MessageWriter::begin(&mut buffer, 1, 0);
        message.attr(1, &[0; 70000]);
        assert_eq!(message.finish(), Err(TooLarge));
        assert_eq!(buffer, [1, 2, 3, 4]);
        drop(MessageWriter::begin(&mut buffer, 1, 0));
        assert_eq!(buffer, [1, 2, 3, 4]);
    }

    #[test]
    fn raw_structs_take_their_length_afterwards() {
        let bytes = written(|message| {
            let hops = message.nest_unflagged(9);
            let hop = message.position();
            message.raw(&[0; 8]);
            message.attr_u32(5, 1);
            message.patch_u16(hop);
            message.end_nest(hops);
        })
        .unwrap();
        assert_eq!(read_u16(&bytes[20..22]), Some(16));
        assert_eq!(read_u16(&bytes[16..18]), Some(20));
    }

    #[test]
    fn flag_bits_are_no_part_of_the_number() {
        let bytes = [4, 0, 3, 0xc0];
        assert_eq!(Attrs::new(&bytes).next(), Some((3, &[][..])));
    }

    #[test]
    fn a_malformed_tail_ends_the_iteration_and_is_told() {
        let good = [5, 0, 1, 0, 42, 0, 0, 0];
        for tail in [
            &[1][..],
            &[3, 0, 1, 0],
            &[9, 0, 1, 0, 1, 2, 3, 4],
            &[0, 0, 0, 0],
        ] {
            let bytes = [&good, tail].concat();
            let mut attrs = Attrs::new(&bytes);
            assert_eq!(attrs.next(), Some((1, &[42][..])));
            assert!(!attrs.malformed());
            assert_eq!((attrs.next(), attrs.next()), (None, None), "{tail:?}");
            assert!(attrs.malformed());
        }
        // Padding may be missing behind the last one.
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

        #[test]
        fn attributes_round_trip(wanted: Vec<(u16, Vec<u8>)>) {
            let bytes = written(|message| {
                for (kind, payload) in &wanted {
                    message.attr(kind & NLA_TYPE_MASK, payload);
                }
            }).unwrap();
            let (_, mut attrs) = Messages::new(&bytes).next().unwrap().split(0).unwrap();
            let read: Vec<_> = attrs.by_ref().map(|(kind, p)| (kind, p.to_vec())).collect();
            let masked: Vec<_> =
                wanted.into_iter().map(|(kind, p)| (kind & NLA_TYPE_MASK, p)).collect();
            prop_assert_eq!(read, masked);
            prop_assert!(!attrs.malformed());
        }
    }
}
