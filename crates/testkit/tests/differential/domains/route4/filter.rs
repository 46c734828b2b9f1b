//! What the fake does not model, or the kernel leaves to chance: kept out of the sequences.

use super::{RTA_MULTIPATH, RTA_OIF};
use crate::message::{DUMP, Message};

const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;

/// Returns true if the fake carries it out: no tunnels, and of IPv6 dumps along with others.
pub(crate) fn is_modelled(message: &Message) -> bool {
    const ROUTE: u16 = 24;
    const RULE: u16 = 32;
    let family = message.body.first().copied().unwrap_or(0);
    match message.kind & !3 {
        ROUTE if message.kind == 26 && message.flags & DUMP != 0 => matches!(family, 0 | 2 | 77),
        ROUTE => family == 2 && !has_tunnel(message.body.get(12..).unwrap_or(&[]), true),
        RULE => family == 2,
        _ => true,
    }
}

fn has_tunnel(mut rest: &[u8], outside: bool) -> bool {
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(payload) = rest.get(4..length) else {
            break;
        };
        let number = u16::from_ne_bytes([c, d]) & 0x3fff;
        if number == RTA_ENCAP || number == RTA_ENCAP_TYPE {
            return true;
        }
        if number == RTA_MULTIPATH && outside {
            let mut hops = payload;
            while hops.len() >= 8 {
                let length = usize::from(u16::from_ne_bytes([hops[0], hops[1]]));
                if hops.get(8..length).is_some_and(|a| has_tunnel(a, false)) {
                    return true;
                }
                let step = length.max(8).next_multiple_of(4);
                hops = hops.get(step..).unwrap_or(&[]);
            }
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    false
}

/// Returns true if the kernel's answer is not determined: one of several legs, or a user that is
/// not mapped.
pub(crate) fn is_by_chance(message: &Message, sent: &[Message]) -> bool {
    const RTM_F_FIB_MATCH: u8 = 0x20;
    if message.kind != 26 || message.flags & DUMP != 0 {
        return false;
    }
    let has = |message: &Message, number| numbers(message).contains(&number);
    let matched = message
        .body
        .get(9)
        .is_some_and(|b| b & RTM_F_FIB_MATCH != 0);
    let odd = has(message, 25) || has(message, 3) || has(message, 27);
    let legs = |message: &Message| has(message, RTA_MULTIPATH) || message.kind >= 104;
    odd || message.body.get(9).is_some_and(|b| b & 1 != 0)
        || (!matched && !has(message, RTA_OIF) && sent.iter().any(legs))
}

/// The attributes of a message of routes.
fn numbers(message: &Message) -> Vec<u16> {
    let mut all = Vec::new();
    let mut rest = message.body.get(12..).unwrap_or(&[]);
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        if length < 4 {
            break;
        }
        all.push(u16::from_ne_bytes([c, d]) & 0x3fff);
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    all
}
