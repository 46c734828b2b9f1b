//! Extended acknowledgements: the payloads of `NLMSG_ERROR` and `NLMSG_DONE`.
//!
//! Both begin with an errno, negative, or 0 for success. An `NLMSG_ERROR` then contains the
//! request's header and, unless `NLM_F_CAPPED` is set, its body. Attributes follow if
//! `NLM_F_ACK_TLVS` is set. An `NLMSG_DONE` contains no request: a dump's own error and its
//! attributes come first. Source: `linux/netlink.h`.

use crate::kernel_error::{Answer, KernelError};
use crate::wire::{
    ATTR_HEADER_LEN, Attrs, HEADER_LEN, Header, Message, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLMSG_DONE,
    align, read_i32, read_string, read_u16, read_u32,
};

const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;
const NLMSGERR_ATTR_MISS_TYPE: u16 = 5;

/// Reads the answer from an `NLMSG_ERROR` or `NLMSG_DONE`.
///
/// `request` is the answered message with its header, to resolve offsets; empty if unknown. Returns
/// `None` if the payload is too short for an errno.
pub(crate) fn answer(message: &Message<'_>, request: &[u8]) -> Answer {
    let errno = match read_i32(message.body.get(..4)?)? {
        0 => return Some(Ok(())),
        errno @ ..0 => errno.saturating_neg(),
        // The return value of the kernel's dump function, which is no error.
        1.. if message.header.kind == NLMSG_DONE => return Some(Ok(())),
        errno => errno,
    };
    let mut error = KernelError::from_errno(errno);
    if message.header.flags & NLM_F_ACK_TLVS != 0 {
        read_tlvs(&mut error, tlvs(message).unwrap_or(&[]), request);
    }
    Some(Err(error))
}

fn tlvs<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    if message.header.kind == NLMSG_DONE {
        return message.body.get(4..);
    }
    let echoed = Header::read(message.body.get(4..)?)?;
    let request = if message.header.flags & NLM_F_CAPPED != 0 {
        HEADER_LEN
    } else {
        align(usize::try_from(echoed.length).ok()?)
    };
    message.body.get(4_usize.checked_add(request)?..)
}

fn read_tlvs(error: &mut KernelError, tlvs: &[u8], request: &[u8]) {
    for (kind, payload) in Attrs::new(tlvs) {
        match kind {
            NLMSGERR_ATTR_MSG => {
                error.message = Some(String::from_utf8_lossy(read_string(payload)).into());
            }
            NLMSGERR_ATTR_OFFS => {
                error.attribute =
                    read_u32(payload).map(|offset| (offset, resolve(request, offset).into()));
            }
            NLMSGERR_ATTR_MISS_TYPE => error.missing = read_u32(payload),
            _ => {}
        }
    }
}

/// Returns the attribute numbers that lead to the attribute at `offset` of `request`.
fn resolve(request: &[u8], offset: u32) -> Vec<u16> {
    let mut path = Vec::new();
    let Some(fixed) = Header::read(request).and_then(|header| fixed_len(header.kind)) else {
        return path;
    };
    let Ok(offset) = usize::try_from(offset) else {
        return path;
    };
    let mut at = HEADER_LEN + align(fixed);
    let mut end = request.len();
    // Each iteration skips an attribute or enters one, so `at` grows by at least four.
    while let Some(header) = request.get(at..end).and_then(|rest| rest.get(..ATTR_HEADER_LEN)) {
        let length = read_u16(&header[..2]).map_or(0, usize::from);
        let Some(kind) = read_u16(&header[2..]) else {
            break;
        };
        if length < ATTR_HEADER_LEN || at + length > end || at > offset {
            break;
        }
        if offset < at + length {
            path.push(kind & crate::wire::NLA_TYPE_MASK);
            if offset < at + ATTR_HEADER_LEN {
                break;
            }
            end = at + length;
            at += ATTR_HEADER_LEN;
        } else {
            at += align(length);
        }
    }
    path
}

/// Returns the length in bytes of the fixed struct at the start of an rtnetlink request
/// (`linux/rtnetlink.h`). Types come in fours: new, delete, get, set.
fn fixed_len(kind: u16) -> Option<usize> {
    Some(match kind & !3 {
        16 => 16,           // RTM_*LINK: ifinfomsg
        20 | 104 => 8,      // RTM_*ADDR: ifaddrmsg; RTM_*NEXTHOP: nhmsg
        24 | 28 | 32 => 12, // RTM_*ROUTE: rtmsg; RTM_*NEIGH: ndmsg; RTM_*RULE: fib_rule_hdr
        36 | 40 | 44 => 20, // RTM_*QDISC, TCLASS, TFILTER: tcmsg
        88 => 4,            // RTM_*NSID: rtgenmsg, padded
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{MessageWriter, Messages, NLM_F_REQUEST, NLMSG_ERROR};
    use proptest::prelude::*;

    /// Makes a route request with a nested metric: RTA_METRICS (8) at byte 28, its RTAX_MTU (2) at
    /// 32.
    fn request() -> Vec<u8> {
        let mut buffer = Vec::new();
        let mut message = MessageWriter::begin(&mut buffer, 24, NLM_F_REQUEST);
        message.body(&[0; 12]);
        let metrics = message.nest(8);
        message.attr_u32(2, 1400);
        message.end_nest(metrics);
        message.attr_u32(4, 7);
        message.finish().unwrap();
        buffer
    }

    fn error(
        flags: u16,
        errno: i32,
        echo: &[u8],
        tlvs: impl Fn(&mut MessageWriter<'_>),
    ) -> Vec<u8> {
        let mut buffer = Vec::new();
        let mut message = MessageWriter::begin(&mut buffer, NLMSG_ERROR, flags);
        message.body(&(-errno).to_ne_bytes());
        message.body(echo);
        tlvs(&mut message);
        message.finish().unwrap();
        buffer
    }

    fn read(bytes: &[u8], request: &[u8]) -> Option<Result<(), KernelError>> {
        answer(&Messages::new(bytes).next().unwrap(), request)
    }

    #[test]
    fn an_acknowledgement_is_success() {
        let request = request();
        assert_eq!(read(&error(0, 0, &request[..16], |_| {}), &request), Some(Ok(())));
    }

    #[test]
    fn message_offset_and_missing_type_are_read_behind_a_capped_or_an_echoed_request() {
        let request = request();
        let capped = NLM_F_CAPPED | NLM_F_ACK_TLVS;
        for (flags, echo) in [(capped, &request[..16]), (NLM_F_ACK_TLVS, &request[..])] {
            let bytes = error(flags, 22, echo, |message| {
                message.attr_string(NLMSGERR_ATTR_MSG, b"Invalid metric");
                message.attr_u32(NLMSGERR_ATTR_OFFS, 32);
                message.attr_u32(NLMSGERR_ATTR_MISS_TYPE, 5);
            });
            let error = read(&bytes, &request).unwrap().unwrap_err();
            assert_eq!(error.errno(), 22);
            assert_eq!(error.message(), Some("Invalid metric"));
            assert_eq!(error.attribute(), Some((32, &[8, 2][..])));
            assert_eq!(error.missing(), Some(5));
        }
    }

    #[test]
    fn attributes_without_the_flag_are_not_read() {
        let request = request();
        let bytes = error(NLM_F_CAPPED, 22, &request[..16], |message| {
            message.attr_string(NLMSGERR_ATTR_MSG, b"stale");
        });
        assert_eq!(read(&bytes, &request).unwrap().unwrap_err().message(), None);
    }

    #[test]
    fn a_dumps_own_error_is_at_the_front_of_done() {
        let mut buffer = Vec::new();
        let mut message = MessageWriter::begin(&mut buffer, NLMSG_DONE, NLM_F_ACK_TLVS);
        message.body(&(-2_i32).to_ne_bytes());
        message.attr_string(NLMSGERR_ATTR_MSG, b"FIB table does not exist");
        message.finish().unwrap();
        let error = read(&buffer, &[]).unwrap().unwrap_err();
        assert_eq!((error.errno(), error.message()), (2, Some("FIB table does not exist")));
    }

    #[test]
    fn offsets_resolve_to_the_path_of_the_attribute() {
        let request = request();
        for (offset, path) in [
            (28, &[8_u16][..]),
            (32, &[8, 2]),
            (40, &[4]),
            (44, &[4]),
            (0, &[]),
            (48, &[]),
            (u32::MAX, &[]),
        ] {
            assert_eq!(resolve(&request, offset), path, "offset {offset}");
        }
    }

    #[test]
    fn an_error_without_an_errno_answers_nothing() {
        let mut buffer = Vec::new();
        MessageWriter::begin(&mut buffer, NLMSG_ERROR, 0).finish().unwrap();
        assert_eq!(read(&buffer, &[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(
            flags: u16, kind: u16, body: Vec<u8>, request: Vec<u8>, offset: u32,
        ) {
            let header = Header { length: 0, kind, flags, sequence: 0, port: 0 };
            let _ = answer(&Message { header, body: &body }, &request);
            prop_assert!(resolve(&request, offset).len() <= request.len() / ATTR_HEADER_LEN);
        }

        #[test]
        fn a_mangled_answer_never_turns_into_success(
            at in 4..60_usize, byte: u8, errno in 1..200_i32,
        ) {
            let request = request();
            let flags = NLM_F_CAPPED | NLM_F_ACK_TLVS;
            let mut bytes = error(flags, errno, &request[..16], |message| {
                message.attr_string(NLMSGERR_ATTR_MSG, b"some words of the kernel");
            });
            let body = bytes.len().min(HEADER_LEN + at);
            if let Some(target) = bytes.get_mut(body) { *target = byte; }
            prop_assert_eq!(read(&bytes, &request).unwrap().unwrap_err().errno(), errno);
        }
    }
}
