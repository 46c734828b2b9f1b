//! Writing messages: [`MessageWriter`].

use std::net::IpAddr;

use super::{ATTR_HEADER_LEN, Header, NLA_F_NESTED, align};
use crate::error::EncodeError;

/// Appends one message to a buffer.
///
/// Errors do not interrupt it: a field that does not fit is remembered and reported by
/// [`finish`](Self::finish), which then removes the message from the buffer. A writer dropped
/// without `finish` leaves the buffer unchanged.
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
/// # Ok::<(), trueup_netlink::codec::EncodeError>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    overflow: bool,
    finished: bool,
}

impl<'a> MessageWriter<'a> {
    /// Begins a message of this type with these `NLM_F_*` flags. Sequence number and port id are 0;
    /// the socket sets the sequence number when it sends.
    pub fn begin(buffer: &'a mut Vec<u8>, kind: u16, flags: u16) -> Self {
        let start = buffer.len();
        let header = Header { length: 0, kind, flags, sequence: 0, port: 0 };
        buffer.extend_from_slice(&header.to_bytes());
        Self { buffer, start, overflow: false, finished: false }
    }

    /// Appends the fixed struct of the message type, padded to alignment.
    #[inline]
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
        self.aligned::<8>(kind, &value.to_ne_bytes());
    }

    /// Appends an `i32` attribute in host byte order.
    pub fn attr_i32(&mut self, kind: u16, value: i32) {
        self.attr(kind, &value.to_ne_bytes());
    }

    /// Appends a `u16` attribute in network byte order.
    pub fn attr_be16(&mut self, kind: u16, value: u16) {
        self.attr(kind, &value.to_be_bytes());
    }

    /// Appends an address, four or sixteen bytes.
    pub fn attr_ip(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.aligned::<8>(kind, &address.octets()),
            IpAddr::V6(address) => self.aligned::<20>(kind, &address.octets()),
        }
    }

    /// Appends a string attribute with its terminating NUL, which the kernel's `NLA_STRING` and
    /// `NLA_NUL_STRING` both take. Any NUL in `bytes` ends the string for the kernel.
    pub fn attr_string(&mut self, kind: u16, bytes: &[u8]) {
        let start = self.nest_unflagged(kind);
        self.buffer.extend_from_slice(bytes);
        self.buffer.push(0);
        self.end_nest(start);
    }

    /// Opens a nested attribute with `NLA_F_NESTED` set. Attributes written until
    /// [`end_nest`](Self::end_nest) are inside it. Returns its [`position`](Self::position).
    #[must_use = "a nest must be ended"]
    pub fn nest(&mut self, kind: u16) -> usize {
        self.nest_unflagged(kind | NLA_F_NESTED)
    }

    /// Opens a nested attribute without the flag, as iproute2 writes those that are older than the
    /// flag. Kernel families without strict checking take either.
    #[must_use = "a nest must be ended"]
    pub fn nest_unflagged(&mut self, kind: u16) -> usize {
        let at = self.position();
        self.buffer.extend_from_slice(&[0, 0]);
        self.buffer.extend_from_slice(&kind.to_ne_bytes());
        at
    }

    /// Ends the nested attribute at a position. Nests end in the reverse order of their opening.
    pub fn end_nest(&mut self, position: usize) {
        // An attribute's length field is at its start, like `rtnexthop`'s.
        self.patch_u16(position);
        self.pad();
    }

    /// Appends bytes unchanged, padded to alignment: for nested arrays of structs such as
    /// `rtnexthop`, whose length the caller patches with [`patch_u16`](Self::patch_u16).
    pub fn raw(&mut self, bytes: &[u8]) {
        self.body(bytes);
    }

    /// Returns the length of the message so far, in bytes.
    #[must_use]
    pub fn position(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Overwrites a `u16` at an earlier [`position`](Self::position) with the number of bytes from
    /// there to here, as needed for `rtnexthop.rtnh_len`.
    pub fn patch_u16(&mut self, position: usize) {
        let at = self.start.saturating_add(position);
        let length = self.buffer.len().checked_sub(at).and_then(|len| u16::try_from(len).ok());
        match (length, self.buffer.get_mut(at..at.saturating_add(2))) {
            (Some(length), Some(field)) => field.copy_from_slice(&length.to_ne_bytes()),
            _ => self.overflow = true,
        }
    }

    /// Writes the message's length and leaves the message in the buffer.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](EncodeError::TooLarge) if an attribute, a nest or the message outgrew its
    /// length field. The message is then no longer in the buffer.
    pub fn finish(mut self) -> Result<(), EncodeError> {
        let length = u32::try_from(self.position()).map_err(|_| EncodeError::TooLarge)?;
        if self.overflow {
            return Err(EncodeError::TooLarge);
        }
        self.buffer[self.start..self.start + 4].copy_from_slice(&length.to_ne_bytes());
        self.finished = true;
        Ok(())
    }

    /// Appends an attribute of `N` bytes with its header, a multiple of four, in one piece.
    fn aligned<const N: usize>(&mut self, kind: u16, payload: &[u8]) {
        let mut bytes = [0; N];
        bytes[..2].copy_from_slice(&(N as u16).to_ne_bytes());
        bytes[2..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..].copy_from_slice(payload);
        self.buffer.extend_from_slice(&bytes);
    }

    fn pad(&mut self) {
        let aligned = self.start + align(self.position());
        if aligned != self.buffer.len() {
            self.buffer.resize(aligned, 0);
        }
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
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::wire::{
        Attrs, Messages, NLA_TYPE_MASK, NLM_F_REQUEST, read_be16, read_i32, read_ipv4, read_ipv6,
        read_string, read_u8, read_u16,
    };
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut MessageWriter<'_>)) -> Result<Vec<u8>, EncodeError> {
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
            message.attr(8, &[]);
        })
        .unwrap();
        let message = Messages::new(&bytes).next().unwrap();
        assert_eq!(message.header.length as usize, bytes.len());
        let (fixed, attrs) = message.split(12).unwrap();
        assert_eq!(fixed, [7; 12]);
        assert_eq!(attrs.find(1).and_then(read_u8), Some(0xab));
        assert_eq!(attrs.find(2).and_then(read_be16), Some(0x1234));
        let nest = Attrs::new(attrs.find(3).unwrap());
        assert_eq!(nest.find(4).and_then(read_ipv4), Some(Ipv4Addr::new(10, 1, 2, 3)));
        assert_eq!(nest.find(5).and_then(read_ipv6), Some(Ipv6Addr::LOCALHOST));
        assert_eq!(attrs.find(6), Some(&b"lo\0"[..]));
        assert_eq!(attrs.find(6).map(read_string), Some(&b"lo"[..]));
        assert_eq!(attrs.find(7).and_then(read_i32), Some(-1));
        assert_eq!(attrs.find(8), Some(&[][..]));
        assert_eq!(attrs.find(9), None);
        assert_eq!(attrs.find(1).and_then(read_u16), None, "a wrong length is no value");
    }

    #[test]
    fn too_long_is_an_error_and_leaves_no_trace() {
        assert!(written(|message| message.attr(1, &[0; 65531])).is_ok());
        assert_eq!(written(|message| message.attr(1, &[0; 65532])), Err(EncodeError::TooLarge));
        assert_eq!(
            written(|message| message.attr_string(1, &[b'a'; 65531])),
            Err(EncodeError::TooLarge)
        );
        let nested = written(|message| {
            let nest = message.nest(1);
            message.attr(2, &[0; 40000]);
            message.attr(3, &[0; 40000]);
            message.end_nest(nest);
        });
        assert_eq!(nested, Err(EncodeError::TooLarge));

        let mut buffer = vec![1, 2, 3, 4];
        let mut message = MessageWriter::begin(&mut buffer, 1, 0);
        message.attr(1, &[0; 70000]);
        assert_eq!(message.finish(), Err(EncodeError::TooLarge));
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

    proptest! {
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
