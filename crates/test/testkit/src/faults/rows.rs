//! Faults in the rows of a dump.

use std::collections::VecDeque;

use super::{ENOBUFS, Fault, HEADER, NLMSG_ERROR};
use crate::message::{Kind, push_attribute, requests, u16_at};

const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Larger than any attribute number the kernel has assigned so far.
const UNKNOWN_ATTRIBUTE: u16 = 0x3f00;

/// Applies a fault to the rows of a dump.
pub(super) fn spoil(fault: &Fault, answers: &mut VecDeque<Result<Vec<u8>, i32>>) {
    let mut rows: Vec<Vec<u8>> = Vec::new();
    let mut rest = Vec::new();
    // Left there by an earlier fault.
    let errors: Vec<i32> =
        (answers.iter()).filter_map(|answer| answer.as_ref().err().copied()).collect();
    for answer in answers.iter().flatten() {
        for message in requests(answer) {
            if matches!(u16_at(message, 4), NLMSG_DONE | NLMSG_ERROR) {
                rest.push(message.to_vec());
            } else {
                rows.push(message.to_vec());
            }
        }
    }
    if rest.is_empty() {
        return;
    }
    let row = |n: usize| n.checked_sub(1).filter(|at| *at < rows.len());
    match fault {
        Fault::Interrupt => {
            for message in rows.iter_mut().chain(&mut rest) {
                let flags = u16_at(message, 6) | NLM_F_DUMP_INTR;
                message[6..8].copy_from_slice(&flags.to_ne_bytes());
            }
        }
        Fault::LoseRow(n) => {
            row(*n).map(|at| rows.remove(at));
        }
        Fault::RepeatRow(n) => {
            if let Some(at) = row(*n) {
                rows.insert(at, rows[at].clone());
            }
        }
        Fault::SpoilRow(n) => {
            if let Some(at) = row(*n) {
                shorten_first_attribute(&mut rows[at]);
            }
        }
        Fault::UnknownAttribute => {
            for message in &mut rows {
                push_attribute(message, UNKNOWN_ATTRIBUTE, b"unknown");
                set_length(message);
            }
        }
        Fault::Corrupt => {
            if let Some(first) = rows.first_mut() {
                first[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
            }
        }
        Fault::BreakOff(errno) => {
            for done in &mut rest {
                done[HEADER..HEADER + 4].copy_from_slice(&(-errno).to_ne_bytes());
            }
        }
        Fault::Truncate | Fault::Overrun => {}
        _ => return,
    }
    let mut spoilt: VecDeque<_> = errors.into_iter().map(Err).collect();
    match fault {
        Fault::Truncate => {
            let mut bytes = rows.concat();
            // Longer than the buffer of any reader.
            bytes.resize(bytes.len().max(32 << 20), 0);
            spoilt.push_back(Ok(bytes));
        }
        Fault::Overrun => {
            spoilt.push_back(Err(ENOBUFS));
            spoilt.extend(rows.into_iter().skip(1).map(Ok));
        }
        _ => spoilt.extend(rows.into_iter().map(Ok)),
    }
    spoilt.extend(rest.into_iter().map(Ok));
    *answers = spoilt;
}

fn set_length(message: &mut [u8]) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    message[..4].copy_from_slice(&length.to_ne_bytes());
}

/// Makes the first attribute's payload one byte shorter than its kind needs.
fn shorten_first_attribute(message: &mut [u8]) {
    let fixed = Kind::of(u16_at(message, 4)).map_or(0, |(kind, _)| kind.header_len());
    let at = HEADER + fixed;
    if message.len() >= at + 4 {
        let length = u16_at(message, at).saturating_sub(1).max(4);
        message[at..at + 2].copy_from_slice(&length.to_ne_bytes());
    }
}
