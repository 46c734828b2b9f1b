//! Nexthop objects: few ids, so that groups, replacements and deletes meet, and routes of both
//! shapes that use them.

use trueup_testkit::Kind;

use super::route4::{Routes4, is_by_chance, is_modelled, varied, write_flags};
use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{CREATE, DUMP, Message, REPLACE, again, odd_attribute, set_up};

pub(crate) struct Nexthops;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_GROUPS: u16 = 9;
const NHA_MASTER: u16 = 10;
const NHA_FDB: u16 = 11;
const NHA_OP_FLAGS: u16 = 14;
const NHA_MAX: u16 = 19;

const NEXTHOP: u16 = 104;

impl Domain for Nexthops {
    fn name(&self) -> &'static str {
        "nexthop"
    }

    fn kinds(&self) -> &'static [Kind] {
        Routes4.kinds()
    }

    fn prelude(&self) -> Vec<Message> {
        let all = vec![
            Message::new(NEXTHOP, CREATE, &[2, 0, 4, 0, 0, 0, 0, 0])
                .with(NHA_ID, 1_u32.to_ne_bytes())
                .with(NHA_OIF, 10_u32.to_ne_bytes())
                .with(NHA_GATEWAY, [10, 0, 0, 2]),
            Message::new(NEXTHOP, CREATE, &[2, 0, 4, 0, 0, 0, 0, 0])
                .with(NHA_ID, 2_u32.to_ne_bytes())
                .with(NHA_OIF, 11_u32.to_ne_bytes())
                .with(NHA_GATEWAY, [10, 0, 1, 2]),
            Message::new(NEXTHOP, CREATE, &[0, 0, 4, 0, 0, 0, 0, 0])
                .with(NHA_ID, 5_u32.to_ne_bytes())
                .with(NHA_GROUP, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]),
        ];
        [Routes4.prelude(), all].concat()
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..60 => nexthop(rng),
            60..78 => user(rng),
            78..88 => set_up(pick(rng, &[10, 11]), rng.u8(..3) > 0),
            _ => Routes4.message(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        let mut all = Vec::new();
        while all.len() < length {
            let repeated = match rng.u8(..8) {
                0 => again(rng, &all),
                1 => varied(rng, &all),
                _ => None,
            };
            // Links and addresses are others' to change in odd ways.
            let repeated = repeated.filter(|message| message.kind > 23 || all.contains(message));
            let message = repeated.unwrap_or_else(|| self.message(rng));
            if is_modelled(&message) && !is_beyond(&message) && !is_by_chance(&message, &all) {
                all.push(message);
            }
        }
        all
    }
}

/// Resilient groups, tunnels and statistics are not modelled.
fn is_beyond(message: &Message) -> bool {
    let mut rest = message.body.get(8..).unwrap_or(&[]);
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(payload) = rest.get(4..length) else {
            break;
        };
        let number = u16::from_ne_bytes([c, d]) & 0x3fff;
        let beyond = match number {
            NHA_GROUP_TYPE => payload.first() == Some(&1),
            NHA_ENCAP | NHA_ENCAP_TYPE | NHA_OP_FLAGS | 12 | 16 => true,
            _ => false,
        };
        if beyond && message.kind & !3 == NEXTHOP {
            return true;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    false
}

/// A route that uses an object.
fn user(rng: &mut fastrand::Rng) -> Message {
    let length = pick(rng, &[16, 24]);
    let scope = pick(rng, &[0, 0, 0, 253, 254]);
    let kind = pick(rng, &[1, 1, 1, 1, 6, 2]);
    let fixed = [2, length, 0, 0, 254, 4, scope, kind, 0, 0, 0, 0];
    Message::new(24, write_flags(rng), &fixed)
        .with(1, [10, 9, 0, 0])
        .with(30, id(rng).to_ne_bytes())
}

fn id(rng: &mut fastrand::Rng) -> u32 {
    pick(rng, &[1, 1, 1, 2, 2, 3, 4, 5, 5])
}

/// A request about one object, or all.
pub(crate) fn nexthop(rng: &mut fastrand::Rng) -> Message {
    let message = match rng.u8(..20) {
        0..3 => delete(rng),
        3 => dump(rng),
        4..9 => group(rng),
        _ => single(rng),
    };
    let message = if one_in(rng, 30) {
        let (number, payload) = odd_attribute(rng, NHA_MAX);
        message.with(number, payload)
    } else {
        message
    };
    if is_beyond(&message) {
        single(rng)
    } else {
        message
    }
}

fn fixed(rng: &mut fastrand::Rng, family: u8, flags: u8) -> Vec<u8> {
    let mut fixed = vec![family, 0, pick(rng, &[4, 16, 0]), 0, flags, 0, 0, 0];
    if one_in(rng, 60) {
        let at = rng.usize(1..8);
        fixed[at] = rng.u8(..);
    }
    fixed
}

fn flags(rng: &mut fastrand::Rng) -> u16 {
    if one_in(rng, 3) {
        REPLACE | write_flags(rng)
    } else {
        write_flags(rng)
    }
}

fn single(rng: &mut fastrand::Rng) -> Message {
    let family = if one_in(rng, 5) {
        pick(rng, &[10, 10, 10, 0])
    } else {
        2
    };
    let onlink = if one_in(rng, 8) { 4 } else { 0 };
    let fixed = fixed(rng, family, onlink);
    let mut message = Message::new(NEXTHOP, flags(rng), &fixed);
    if !one_in(rng, 15) {
        message = message.with(NHA_ID, id(rng).to_ne_bytes());
    }
    let shape = rng.u8(..12);
    if shape == 0 {
        message = message.with(NHA_BLACKHOLE, []);
    } else if shape == 1 {
        message = message.with(NHA_FDB, []);
    }
    if shape > 1 || one_in(rng, 10) {
        message = message.with(
            NHA_OIF,
            if one_in(rng, 10) {
                pick(rng, &[1_u32, 99])
            } else {
                pick(rng, &[10, 11])
            }
            .to_ne_bytes(),
        );
    }
    if shape > 3 || (shape == 1 && !one_in(rng, 3)) {
        message = if family == 10 {
            let mut gateway = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
            gateway[15] = pick(rng, &[7, 8]);
            message.with(NHA_GATEWAY, gateway)
        } else {
            let gateway = pick(
                rng,
                &[
                    [10, 0, 0, 2],
                    [10, 0, 0, 3],
                    [10, 0, 1, 2],
                    [10, 9, 9, 9],
                    [10, 0, 0, 1],
                    [0; 4],
                ],
            );
            message.with(NHA_GATEWAY, gateway)
        };
    }
    message
}

fn group(rng: &mut fastrand::Rng) -> Message {
    let mut group = Vec::new();
    let first = rng.u32(1..4);
    for at in 0..pick(rng, &[1, 2, 2, 2, 3]) {
        let member = if one_in(rng, 6) {
            id(rng)
        } else {
            (first + at) % 3 + 1
        };
        group.extend(member.to_ne_bytes());
        let weight = pick(rng, &[0, 0, 1, 255]);
        let high = if one_in(rng, 8) {
            pick(rng, &[1, 255])
        } else {
            0
        };
        group.extend([weight, high, 0, u8::from(one_in(rng, 40))]);
    }
    let family = if one_in(rng, 20) { 2 } else { 0 };
    let fixed = fixed(rng, family, 0);
    let mut message = Message::new(NEXTHOP, flags(rng), &fixed)
        .with(NHA_ID, pick(rng, &[3_u32, 4, 5, 5]).to_ne_bytes())
        .with(NHA_GROUP, group);
    if one_in(rng, 4) {
        message = message.with(NHA_GROUP_TYPE, pick(rng, &[0_u16, 0, 2]).to_ne_bytes());
    }
    if one_in(rng, 10) {
        message = message.with(NHA_FDB, []);
    }
    message
}

fn delete(rng: &mut fastrand::Rng) -> Message {
    let verb = pick(rng, &[1, 1, 1, 2]);
    let mut fixed = vec![0; 8];
    if one_in(rng, 20) {
        fixed[rng.usize(..8)] = rng.u8(..);
    }
    let message = Message::new(NEXTHOP + verb, 0, &fixed);
    if one_in(rng, 20) {
        message
    } else {
        message.with(NHA_ID, pick(rng, &[1_u32, 2, 3, 4, 5, 0]).to_ne_bytes())
    }
}

fn dump(rng: &mut fastrand::Rng) -> Message {
    let mut fixed = vec![0; 8];
    fixed[0] = pick(rng, &[0, 0, 2, 10, 7]);
    let mut message = Message::new(NEXTHOP + 2, DUMP, &fixed);
    if one_in(rng, 3) {
        message = message.with(NHA_OIF, pick(rng, &[10_u32, 11, 0, 99]).to_ne_bytes());
    }
    if one_in(rng, 4) {
        message = message.with(NHA_GROUPS, []);
    }
    if one_in(rng, 6) {
        message = message.with(NHA_MASTER, pick(rng, &[10_u32, 0, u32::MAX]).to_ne_bytes());
    }
    if one_in(rng, 6) {
        message = message.with(NHA_FDB, []);
    }
    message
}
