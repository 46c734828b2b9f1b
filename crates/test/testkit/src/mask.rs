//! Imitates an older kernel, one without the markers of some kinds of objects.
//!
//! In requests the marker's attribute gets a number unknown to every kernel; today's number is just
//! as unknown to an older kernel. Answers and announcements lose the attribute. The markers of
//! routes and nexthop objects are in their fixed headers, on every kernel, and stay.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use trueup_netlink::{Connect, Namespace, Transport};

use crate::layer::{self, Layer};
use crate::message::{Kind, attributes, requests, u16_at, u32_at};

const HEADER: usize = 16;
/// Added to a marker's number to make it unknown to every kernel.
const BEYOND: u16 = 0x2000;

/// Returns a namespace that behaves as `inner` on a kernel without markers for the `hidden` kinds.
/// Routes and nexthop objects always keep theirs, and links have none.
///
/// ```
/// use trueup_netlink::{Socket, marker};
/// use trueup_testkit::model::Kernel;
/// use trueup_testkit::{Kind, mask};
///
/// let older = mask(Kernel::new().namespace(), &[Kind::Address]);
/// let mut socket = Socket::open(&older)?;
/// assert_eq!(marker(&mut socket, trueup_net::Kind::Address)?, Some(false));
/// assert_eq!(marker(&mut socket, trueup_net::Kind::Rule)?, Some(true));
/// # Ok::<(), trueup_netlink::Error>(())
/// ```
pub fn mask(inner: Namespace, hidden: &[Kind]) -> Namespace {
    Namespace::through(Arc::new(Mask { inner, hidden: hidden.into() }))
}

#[derive(Debug)]
struct Mask {
    inner: Namespace,
    hidden: Arc<[Kind]>,
}

impl Connect for Mask {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let hidden = Arc::clone(&self.hidden);
        layer::connect(&self.inner, Masked { hidden })
    }

    fn below(&self) -> Option<&Namespace> {
        Some(&self.inner)
    }
}

struct Masked {
    hidden: Arc<[Kind]>,
}

impl Masked {
    /// Returns the places of the hidden markers in a message, with their padding.
    fn markers(&self, message: &[u8]) -> Vec<Range<usize>> {
        let kind = message.get(4..6).map_or(0, |kind| u16_at(kind, 0)) & !3;
        let hidden = self.hidden.iter().find(|hidden| hidden.new_type() == kind);
        let Some((kind, marker)) = hidden.and_then(|kind| Some((kind, kind.marker()?))) else {
            return Vec::new();
        };
        let mut at = HEADER + kind.header_len();
        let end = message.len().min(u32_at(message, 0) as usize);
        let mut found = Vec::new();
        while let Some((number, payload)) =
            message.get(at..end).and_then(|rest| attributes(rest).next())
        {
            let next = (at + (4 + payload.len()).next_multiple_of(4)).min(end);
            if number == marker {
                found.push(at..next);
            }
            at = next;
        }
        found
    }
}

impl Layer for Masked {
    fn send(&mut self, inner: &mut dyn Transport, datagram: &[u8]) -> io::Result<()> {
        let mut sent = datagram.to_vec();
        let mut begin = 0;
        for request in requests(datagram) {
            for marker in self.markers(request) {
                let number = begin + marker.start + 2;
                let unknown = u16_at(&sent, number) + BEYOND;
                sent[number..number + 2].copy_from_slice(&unknown.to_ne_bytes());
            }
            begin += request.len();
        }
        inner.send(&sent)
    }

    fn receive(&mut self, inner: &mut dyn Transport, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let length = inner.receive(buffer)?;
        if length > buffer.len() {
            // The message did not fit the buffer: no one reads it.
            return Ok(length);
        }
        let mut seen = Vec::with_capacity(length);
        for message in requests(buffer) {
            let begin = seen.len();
            let mut rest = 0;
            let mut shorter = 0;
            for marker in self.markers(message) {
                shorter += marker.len();
                seen.extend_from_slice(&message[rest..marker.start]);
                rest = marker.end;
            }
            seen.extend_from_slice(&message[rest..]);
            if shorter > 0 {
                let length = u32_at(message, 0) - shorter as u32;
                seen[begin..begin + 4].copy_from_slice(&length.to_ne_bytes());
            }
        }
        // Bytes shorter than a header are no message, and stay as they are.
        let passed: usize = requests(buffer).map(<[u8]>::len).sum();
        seen.extend_from_slice(&buffer[passed..]);
        // Keep the capacity: it limits the next receive.
        buffer.clear();
        buffer.extend_from_slice(&seen);
        Ok(buffer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Action;
    use crate::message::RawMessage;
    use crate::model::Kernel;

    fn masked(hidden: &[Kind]) -> Masked {
        Masked { hidden: hidden.into() }
    }

    fn address(attrs: &[(u16, &[u8])]) -> Vec<u8> {
        let attrs = attrs.iter().map(|(n, p)| (*n, p.to_vec())).collect();
        let header = vec![2, 24, 0, 0, 1, 0, 0, 0];
        let (kind, action) = (Kind::Address, Action::New);
        RawMessage { kind, action, header, attrs }.encode(0, 1, 0)
    }

    #[test]
    fn a_marker_is_found_wherever_it_stands() {
        let mask = masked(&[Kind::Address]);
        let alone = address(&[(11, &[116])]);
        assert_eq!(mask.markers(&alone), vec![24..32]);
        let between = address(&[(2, &[10, 0, 0, 1]), (11, &[116]), (12, &[1])]);
        assert_eq!(mask.markers(&between), vec![32..40]);
        assert!(masked(&[Kind::Rule]).markers(&between).is_empty());
        assert!(masked(&[Kind::Route]).markers(&between).is_empty());
        // Wherever the message is cut off, nothing is found beyond its end.
        for length in 0..between.len() {
            let found = mask.markers(&between[..length]);
            assert!(found.iter().all(|marker| marker.end <= length), "{length}");
        }
    }

    #[test]
    fn what_goes_out_is_dropped_and_what_comes_back_is_without() {
        let kernel = Kernel::new().namespace();
        let mut mask = layer::connect(&kernel, masked(&[Kind::Address])).unwrap();
        mask.prepare_requests().unwrap();
        let mut buffer = Vec::with_capacity(1 << 16);
        let mut ask = |request: Vec<u8>| {
            mask.send(&request).unwrap();
            let mut rows = Vec::new();
            while mask.receive(&mut buffer).is_ok() {
                assert_eq!(buffer.capacity(), 1 << 16);
                for message in requests(&buffer) {
                    assert_eq!(u32_at(message, 0) as usize, message.len());
                    rows.extend(RawMessage::parse(u16_at(message, 4), &message[HEADER..]));
                }
            }
            rows
        };
        let mut make = address(&[(2, &[10, 0, 0, 1]), (11, &[116])]);
        make[6..8].copy_from_slice(&0x605_u16.to_ne_bytes());
        let twice = [make.clone(), make].concat();
        ask(twice);
        let mut dump = address(&[]);
        dump[4..8].copy_from_slice(&[22, 0, 1, 3]);
        dump[16..24].copy_from_slice(&[0; 8]);
        let rows = ask(dump);
        // The rows include the addresses of `lo`; the kernel marks its own IPv6 one.
        assert!(rows.len() >= 3, "{rows:?}");
        assert!(rows.iter().all(|row| row.protocol().is_none()), "{rows:?}");
    }
}
