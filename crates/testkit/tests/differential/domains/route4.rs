//! IPv4 routes of every shape in a small space of destinations, tables, metrics and gateways, on
//! links and addresses that come and go meanwhile; with rules and nexthop objects now and then.

mod around;
mod filter;
mod parts;

use trueup_testkit::Kind;

use self::around::{address, any_address, link, rule};
pub(crate) use self::filter::{is_by_chance, is_modelled};
use self::parts::{extras, multipath, via};
use super::address::address4;
use super::nexthop::nexthop;
use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{
    APPEND, CREATE, DUMP, EXCL, Message, REPLACE, again, odd_attribute, set_up, veth,
};

pub(crate) struct Routes4;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_FLOW: u16 = 11;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_NH_ID: u16 = 30;
const RTA_MAX: u16 = 33;

const GATEWAYS: [[u8; 4]; 13] = [
    [10, 0, 0, 2],
    [10, 0, 0, 3],
    [10, 0, 1, 2],
    [10, 0, 0, 2],
    [10, 0, 0, 2],
    [10, 0, 0, 3],
    [10, 0, 1, 2],
    [10, 0, 1, 2],
    [10, 0, 0, 1],
    [10, 9, 9, 9],
    [192, 0, 2, 1],
    [10, 0, 0, 255],
    [0, 0, 0, 0],
];

impl Domain for Routes4 {
    fn name(&self) -> &'static str {
        "route4"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Route, Kind::Nexthop]
    }

    fn prelude(&self) -> Vec<Message> {
        vec![
            veth("v0", 10, "v1", 11),
            set_up(10, true),
            set_up(11, true),
            address(10, [10, 0, 0, 1], 24),
            address(11, [10, 0, 1, 1], 24),
        ]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..66 => route(rng),
            66..72 => nexthop(rng),
            72..76 => any_address(rng),
            76..80 => address4(rng, false),
            80..88 => set_up(pick(rng, &[10, 11, 1]), rng.u8(..3) > 0),
            88..90 => link(rng),
            90..94 => dump(rng),
            94..96 => get(rng),
            96..99 => rule(rng),
            _ => garbage(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        let mut all = Vec::new();
        while all.len() < length {
            let repeated = match rng.u8(..6) {
                0 => again(rng, &all),
                1 | 2 => varied(rng, &all),
                _ => None,
            };
            // Links and addresses are others' to change in odd ways.
            let repeated = repeated.filter(|message| message.kind > 23 || all.contains(message));
            let message = repeated.unwrap_or_else(|| self.message(rng));
            if is_modelled(&message) && !is_by_chance(&message, &all) {
                all.push(message);
            }
        }
        all
    }
}

/// One of the routes sent before with a few things else, or deleted by some of what it was.
pub(crate) fn varied(rng: &mut fastrand::Rng, sent: &[Message]) -> Option<Message> {
    let routes: Vec<_> = sent.iter().filter(|message| message.kind == 24).collect();
    let old = *rng.choice(&routes)?;
    let (header, mut rest) = old.body.split_first_chunk::<12>()?;
    let delete = rng.bool();
    let mut header = *header;
    if one_in(rng, 3) {
        header[3] = pick(rng, &[0, 0, 8, 16]);
    }
    if one_in(rng, 3) {
        header[5] = pick(rng, &[4, 16, 0]);
    }
    if delete {
        header[6] = pick(rng, &[header[6], header[6], 255, 255, 0]);
        header[7] = pick(rng, &[header[7], header[7], 0, 1]);
    }
    let flags = if delete { 0 } else { write_flags(rng) };
    let mut message = Message::new(24 + u16::from(delete), flags, &header);
    let keeps = pick(rng, &[2, 4, 8, 50]);
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(payload) = rest.get(4..length) else {
            break;
        };
        let number = u16::from_ne_bytes([c, d]);
        let key = number == RTA_DST || number == RTA_TABLE;
        if key || !delete || !one_in(rng, keeps) {
            message = message.with(number, payload);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    if one_in(rng, 3) {
        let mut attrs = Vec::new();
        extras(rng, &mut attrs);
        for (number, payload) in attrs {
            message = message.with(number, payload);
        }
    }
    Some(message)
}

fn dump(rng: &mut fastrand::Rng) -> Message {
    let mut fixed = vec![0; pick(rng, &[12, 12, 12, 12, 12, 4])];
    fixed[0] = pick(rng, &[2, 2, 2, 0, 77]);
    if fixed.len() == 12 {
        fixed[4] = pick(rng, &[0, 0, 254, 255, 100, 77]);
        fixed[5] = pick(rng, &[0, 0, 4, 2]);
        fixed[7] = pick(rng, &[0, 0, 1, 2, 6]);
        if one_in(rng, 6) {
            let at = rng.usize(1..12);
            fixed[at] = rng.u8(..);
        }
    }
    let mut message = Message::new(Kind::Route.new_type() + 2, DUMP, &fixed);
    if one_in(rng, 3) {
        message = message.with(RTA_TABLE, pick(rng, &[254_u32, 1000, 4711]).to_ne_bytes());
    }
    if one_in(rng, 3) {
        message = message.with(RTA_OIF, device(rng).to_ne_bytes());
    }
    if one_in(rng, 8) {
        let (number, payload) = odd_attribute(rng, RTA_MAX);
        message = message.with(number, payload);
    }
    message
}

/// Which way to a destination.
pub(crate) fn get(rng: &mut fastrand::Rng) -> Message {
    const RTA_SRC: u16 = 2;
    const RTA_MARK: u16 = 16;
    let flags = pick(rng, &[0_u32, 0, 0x1000, 0x2000, 0x3000]);
    let dst = pick(
        rng,
        &[
            [10, 9, 0, 1],
            [10, 9, 9, 9],
            [10, 0, 0, 2],
            [10, 0, 0, 1],
            [10, 0, 0, 255],
            [192, 0, 2, 7],
            [8, 8, 8, 8],
            [127, 0, 0, 5],
            [255, 255, 255, 255],
            [0, 0, 0, 0],
        ],
    );
    let mut fixed = vec![2, 32, 32, pick(rng, &[0, 0, 0, 8, 16, 3]), 0, 0, 0, 0];
    fixed.extend(flags.to_ne_bytes());
    if one_in(rng, 15) {
        fixed[rng.usize(1..12)] = rng.u8(..) & rng.u8(..) & rng.u8(..);
        fixed[9] &= 0xfe;
    }
    let mut message = Message::new(Kind::Route.new_type() + 2, 0, &fixed);
    if !one_in(rng, 15) {
        message = message.with(RTA_DST, dst);
    }
    if one_in(rng, 4) {
        let source = pick(
            rng,
            &[[10, 0, 0, 1], [10, 0, 1, 1], [10, 0, 0, 77], [127, 0, 0, 1]],
        );
        message = message.with(RTA_SRC, source);
    }
    if one_in(rng, 3) {
        message = message.with(RTA_OIF, device(rng).to_ne_bytes());
    }
    if one_in(rng, 8) {
        message = message.with(RTA_MARK, 7_u32.to_ne_bytes());
    }
    message
}

fn garbage(rng: &mut fastrand::Rng) -> Message {
    let body: Vec<u8> = (0..rng.usize(1..60))
        .map(|_| rng.u8(..) & rng.u8(..) & rng.u8(..))
        .collect();
    let kind = pick(rng, &[24, 25, 104, 105]);
    let mut message = Message::new(kind, rng.u16(..) & 0xd00, &body);
    if kind < 100 {
        message.body[0] = 2;
    }
    message
}

fn device(rng: &mut fastrand::Rng) -> u32 {
    if one_in(rng, 20) {
        99
    } else {
        pick(rng, &[10, 10, 10, 11, 11, 1])
    }
}

pub(crate) fn write_flags(rng: &mut fastrand::Rng) -> u16 {
    pick(
        rng,
        &[
            CREATE | EXCL,
            CREATE | REPLACE,
            CREATE | REPLACE,
            CREATE,
            CREATE | APPEND,
            REPLACE,
            EXCL,
            APPEND,
            0,
            CREATE | EXCL | REPLACE,
            CREATE | REPLACE | APPEND,
        ],
    )
}

fn route(rng: &mut fastrand::Rng) -> Message {
    let delete = rng.u8(..10) < 3;
    let (dst, mut length) = pick(
        rng,
        &[
            ([10, 9, 0, 0], 16),
            ([10, 9, 0, 0], 16),
            ([10, 9, 0, 0], 24),
            ([0, 0, 0, 0], 0),
            ([10, 0, 0, 0], 8),
            ([10, 0, 0, 0], 24),
            ([10, 9, 9, 9], 32),
            ([10, 0, 0, 2], 32),
            ([10, 0, 0, 1], 32),
            ([192, 0, 2, 0], 24),
        ],
    );
    if one_in(rng, 60) {
        length = pick(rng, &[0, 8, 33, 255]);
    }
    let table = pick(rng, &[254, 254, 254, 254, 0, 100, 100, 255, 253]);
    let protocol = pick(rng, &[4, 4, 4, 3, 16, 2, 0]);
    let tos = if one_in(rng, 50) {
        3
    } else {
        pick(rng, &[0, 0, 0, 0, 0, 0, 8, 16, 0xb8])
    };
    let mut kind = if one_in(rng, 12) {
        pick(rng, &[2, 3, 4, 5, 6, 9, 10, 0, 12])
    } else {
        1
    };
    let mut scope = 0;
    let mut attrs: Vec<(u16, Vec<u8>)> = Vec::new();
    let mut add = |number, payload: &[u8]| attrs.push((number, payload.to_vec()));
    match rng.u8(..20) {
        0..4 => {
            scope = 253;
            add(RTA_OIF, &device(rng).to_ne_bytes());
        }
        4..8 => add(RTA_GATEWAY, &pick(rng, &GATEWAYS)),
        8..10 => {
            add(RTA_GATEWAY, &pick(rng, &GATEWAYS));
            add(RTA_OIF, &device(rng).to_ne_bytes());
        }
        10..13 => add(RTA_MULTIPATH, &multipath(rng)),
        13 | 14 => kind = pick(rng, &[6, 7, 8, 9]),
        15 => add(RTA_NH_ID, &pick(rng, &[1_u32, 2, 3, 4, 5]).to_ne_bytes()),
        16 | 17 => {
            add(RTA_VIA, &via(rng));
            add(RTA_OIF, &device(rng).to_ne_bytes());
        }
        18 if delete => {}
        _ => {
            kind = 2;
            scope = 254;
            add(RTA_OIF, &device(rng).to_ne_bytes());
        }
    }
    if delete && one_in(rng, 2) {
        scope = 255;
    }
    if delete && one_in(rng, 3) {
        kind = 0;
    }
    if one_in(rng, 20) {
        scope = pick(rng, &[0, 200, 253, 254, 255]);
    }
    let flags: u32 = if one_in(rng, 8) {
        pick(rng, &[4, 4, 4, 4, 4, 0x100, 0x104, 1, 2, 8, 16, 32, 64])
    } else {
        0
    };
    let mut fixed = vec![2, length, 0, tos, table, protocol, scope, kind];
    fixed.extend(flags.to_ne_bytes());
    if length > 0 || one_in(rng, 2) {
        add(RTA_DST, &dst);
    }
    extras(rng, &mut attrs);
    let verb = Kind::Route.new_type() + u16::from(delete);
    let mut message = Message::new(verb, if delete { 0 } else { write_flags(rng) }, &fixed);
    for (number, payload) in attrs {
        message = message.with(number, payload);
    }
    message
}
