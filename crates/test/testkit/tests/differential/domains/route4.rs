//! IPv4 routes of every shape with few destinations, tables, metrics and gateways, while links and
//! addresses come and go; with a few rules and nexthop objects.

use trueup_testkit::Kind;

use super::address::address4;
use super::nexthop::nexthop;
use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{
    CREATE, DUMP, EXCL, Message, address, attributes, ifinfomsg, number, set_up, v6, veth,
    write_flags,
};

pub(crate) struct Routes4;

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const GATEWAYS: [[u8; 4]; 8] = [
    [10, 0, 0, 2],
    [10, 0, 0, 2],
    [10, 0, 0, 3],
    [10, 0, 1, 2],
    [10, 0, 1, 2],
    [10, 0, 0, 1],
    [10, 9, 9, 9],
    [192, 0, 2, 1],
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
            address(20, CREATE, 10, &[10, 0, 0, 1], 24),
            address(20, CREATE, 11, &[10, 0, 1, 1], 24),
        ]
    }

    fn repeated(&self) -> Kind {
        Kind::Route
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..68 => route(rng),
            68..72 => nexthop(rng),
            72..80 => address4(rng),
            80..88 => set_up(pick(rng, &[10, 11, 1]), rng.u8(..3) > 0),
            88 => Message::new(17, 0, &ifinfomsg(pick(rng, &[10, 11]), 0, 0)),
            89 => veth("v0", 10, "v1", 11),
            90..95 => dump(rng, 2),
            _ => rule(rng, 2),
        }
    }
}

/// Returns a dump of routes, sometimes filtered.
pub(crate) fn dump(rng: &mut fastrand::Rng, family: u8) -> Message {
    let table = pick(rng, &[0, 0, 254, 255, 100, 77]);
    let (protocol, kind) = (pick(rng, &[0, 0, 4, 2]), pick(rng, &[0, 0, 1, 2, 6]));
    let fixed = [family, 0, 0, 0, table, protocol, 0, kind, 0, 0, 0, 0];
    Message::new(26, DUMP, &fixed).maybe(rng, 3, RTA_TABLE, &[254, 1000, 4711].map(number)).maybe(
        rng,
        3,
        RTA_OIF,
        &[10, 11, 1, 99].map(number),
    )
}

/// Returns a request for a rule that looks up one of the tables, or refuses.
pub(crate) fn rule(rng: &mut fastrand::Rng, family: u8) -> Message {
    let (table, action) = pick(rng, &[(100, 1), (100, 1), (254, 1), (255, 1), (100, 7)]);
    let fixed = [family, 0, 0, 0, table, 3, 0, action, 0, 0, 0, 0];
    let kind = pick(rng, &[32, 32, 33]);
    let flags = if kind == 32 { CREATE | EXCL } else { 0 };
    let priority = number(pick(rng, &[1, 50, 40_000]));
    Message::new(kind, flags, &fixed).with(6, priority)
}

fn device(rng: &mut fastrand::Rng) -> [u8; 4] {
    number(pick(rng, &[10, 10, 10, 11, 11, 1, 99]))
}

fn multipath(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..pick(rng, &[1, 2, 2, 3]) {
        let attrs = match one_in(rng, 6) {
            true => Vec::new(),
            false => attributes([(RTA_GATEWAY, &pick(rng, &GATEWAYS)[..])]),
        };
        all.extend((8 + attrs.len() as u16).to_ne_bytes());
        all.extend([pick(rng, &[0, 0, 0, 4]), pick(rng, &[0, 0, 1, 255])]);
        all.extend(number(pick(rng, &[10, 11, 0, 10, 11, 0, 99])));
        all.extend(attrs);
    }
    all
}

fn route(rng: &mut fastrand::Rng) -> Message {
    let verb = pick(rng, &[24, 24, 25]);
    let (dst, length) = pick(
        rng,
        &[
            ([10, 9, 0, 0], 16),
            ([10, 9, 0, 0], 16),
            ([10, 9, 0, 0], 24),
            ([0, 0, 0, 0], 0),
            ([10, 0, 0, 0], 24),
            ([10, 9, 9, 9], 32),
            ([10, 0, 0, 2], 32),
            ([10, 0, 0, 1], 32),
        ],
    );
    let table = pick(rng, &[254, 254, 254, 254, 0, 100, 255]);
    let protocol = pick(rng, &[4, 4, 4, 16, 0]);
    let tos = pick(rng, &[0, 0, 0, 0, 0, 8, 16]);
    let (mut scope, mut kind) = (0, 1);
    let mut via = v6("fe80::7").to_vec();
    via.splice(..0, 10_u16.to_ne_bytes());
    let (number_of, payload) = match rng.u8(..20) {
        0..4 => {
            scope = 253;
            (RTA_OIF, device(rng).to_vec())
        }
        4..10 => (RTA_GATEWAY, pick(rng, &GATEWAYS).to_vec()),
        10..13 => (RTA_MULTIPATH, multipath(rng)),
        13..15 => {
            kind = pick(rng, &[6, 7, 8, 9]);
            (RTA_DST, dst.to_vec())
        }
        15 | 16 => (30, number(rng.u32(1..6)).to_vec()),
        17 => (18, via),
        _ => {
            (scope, kind) = (254, 2);
            (RTA_OIF, device(rng).to_vec())
        }
    };
    if verb == 25 {
        scope = pick(rng, &[scope, 255]);
        kind = pick(rng, &[kind, 0]);
    }
    let onlink = if one_in(rng, 8) { 4 } else { 0 };
    let fixed = [2, length, 0, tos, table, protocol, scope, kind, onlink, 0, 0, 0];
    let flags = if verb == 24 { write_flags(rng) } else { 0 };
    let mut message = Message::new(verb, flags, &fixed).with(number_of, payload);
    if length > 0 {
        message = message.with(RTA_DST, dst);
    }
    if number_of == RTA_GATEWAY || number_of == 18 {
        let device = device(rng);
        message = message.maybe(rng, 2, RTA_OIF, &[device]);
    }
    if number_of != 30 {
        let mtu = attributes([(2, &number(1400)[..])]);
        let both = attributes([(2, &number(1300)[..]), (8, &number(1000))]);
        message = message.maybe(rng, 8, 8, &[mtu, both]);
    }
    message
        .maybe(rng, 3, 6, &[10, 20, 0].map(number))
        .maybe(rng, 8, RTA_TABLE, &[1000, 254, 100].map(number))
        .maybe(rng, 8, 7, &[[10, 0, 0, 1], [10, 0, 1, 1], [10, 0, 0, 9], [127, 0, 0, 1]])
}
