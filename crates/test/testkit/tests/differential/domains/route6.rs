//! IPv6 routes with few prefixes, metrics, tables, gateways and devices, so that they interact;
//! meanwhile links go up and down, and addresses come and go.

use trueup_testkit::Kind;

use super::route4::{dump, rule};
use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{
    CREATE, Message, address, attributes, ifinfomsg, number, set_up, v6, veth, write_flags,
};

pub(crate) struct Routes6;

const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const GATEWAYS: [&str; 8] =
    ["fe80::1", "fe80::1", "fe80::2", "fd01::2", "fd01::3", "fd02::2", "fd01::1", "fd0a::9"];

impl Domain for Routes6 {
    fn name(&self) -> &'static str {
        "route6"
    }

    fn prelude(&self) -> Vec<Message> {
        let mut all = vec![veth("v0", 10, "v1", 11), veth("v2", 12, "v3", 13)];
        all.extend([10, 11, 12, 13].map(|index| set_up(index, true)));
        all.push(address(20, CREATE, 10, &v6("fd01::1"), 64));
        all.push(address(20, CREATE, 12, &v6("fd02::1"), 64));
        all
    }

    fn repeated(&self) -> Kind {
        Kind::Route
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..72 => route(rng),
            72..82 => any_address(rng),
            82..88 => set_up(pick(rng, &[10, 11, 12, 13]), rng.u8(..3) > 0),
            88 => Message::new(16, 0, &ifinfomsg(pick(rng, &[10, 12]), 0, 0))
                .with(4, number(pick(rng, &[1500, 1400, 1280, 1000]))),
            89 if one_in(rng, 3) => Message::new(17, 0, &ifinfomsg(12, 0, 0)),
            90..94 => object(rng),
            94 | 95 => rule(rng, 10),
            _ => dump(rng, 10),
        }
    }
}

fn any_address(rng: &mut fastrand::Rng) -> Message {
    let kind = pick(rng, &[20, 21]);
    let flags = if kind == 20 { write_flags(rng) } else { 0 };
    let ip = v6(pick(rng, &["fd01::1", "fd01::5", "fd02::1", "fe80::9"]));
    let index = pick(rng, &[10, 10, 11, 12, 13]);
    let message = address(kind, flags, index, &ip, pick(rng, &[64, 64, 64, 128]));
    let message = message.maybe(rng, 5, 8, &[0x200, 0].map(number));
    message.maybe(rng, 5, 9, &[256, 1024, 7].map(number))
}

fn device(rng: &mut fastrand::Rng) -> [u8; 4] {
    number(pick(rng, &[10, 10, 10, 11, 12, 12, 13, 1, 99]))
}

fn route(rng: &mut fastrand::Rng) -> Message {
    let is_new = rng.u8(..4) > 0;
    let (dst, length) = pick(
        rng,
        &[
            ("::", 0),
            ("fd0a::", 48),
            ("fd0a::", 48),
            ("fd0a::", 64),
            ("fd0a::1", 128),
            ("fd01::", 64),
            ("fd01::2", 128),
        ],
    );
    // A route with a source hides the destination when the kernel looks up gateways in its prefix.
    let has_source = dst == "fd0a::" && one_in(rng, 6);
    let table = pick(rng, &[254, 254, 254, 254, 0, 100]);
    let protocol = pick(rng, &[3, 3, 4, 186, 0]);
    let kind = pick(rng, &[1, 1, 1, 1, 1, 6, 7, 8, 9]);
    let onlink = if one_in(rng, 10) { 4 } else { 0 };
    let src_len = if has_source { 48 } else { 0 };
    let fixed = [10, length, src_len, 0, table, protocol, 0, kind, onlink, 0, 0, 0];
    let flags = if is_new { write_flags(rng) } else { 0 };
    let mut message = Message::new(if is_new { 24 } else { 25 }, flags, &fixed);
    if length > 0 {
        message = message.with(1, v6(dst));
    }
    if has_source {
        message = message.with(2, v6("fd0f::"));
    }
    message = message.maybe(rng, 10, 15, &[1000, 254, 100].map(number)).maybe(
        rng,
        2,
        RTA_PRIORITY,
        &[1, 1024, 1024, 256].map(number),
    );
    let gateway = v6(pick(rng, &GATEWAYS));
    message = match rng.u8(..if is_new { 11 } else { 20 }) {
        0..3 => message.with(RTA_OIF, device(rng)),
        3..7 => message.with(RTA_OIF, device(rng)).with(RTA_GATEWAY, gateway),
        7 => message.with(RTA_GATEWAY, gateway),
        8 | 9 => message.with(RTA_MULTIPATH, hops(rng)),
        10 if !has_source => message.with(30, number(rng.u32(1..5))),
        _ => message,
    };
    if !is_new {
        return message;
    }
    let metrics = attributes([(2, &number(pick(rng, &[1300, 1400, 1500]))[..])]);
    message
        .maybe(rng, 8, 7, &["fd01::1", "fd02::1", "fd01::7", "fe80::ff:fe00:a"].map(v6))
        .maybe(rng, 8, 8, &[metrics])
        .maybe(rng, 8, 20, &[[0], [1], [3]])
}

fn hops(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut hops = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let gateway = v6(pick(rng, &["fe80::1", "fe80::2", "fd01::2", "fd01::3"]));
        let inner = attributes([(RTA_GATEWAY, &gateway[..])]);
        hops.extend((8 + inner.len() as u16).to_ne_bytes());
        hops.extend([0, pick(rng, &[0, 0, 1, 255])]);
        hops.extend(number(pick(rng, &[10, 10, 12, 12, 11])));
        hops.extend(inner);
    }
    hops
}

/// Returns a request for a nexthop object: a gateway, a device, a blackhole, or a group of others.
fn object(rng: &mut fastrand::Rng) -> Message {
    let id = number(rng.u32(1..5));
    let flags = CREATE | pick(rng, &[0, 0x100]);
    let single = Message::new(104, flags, &[10, 0, 3, 0, 0, 0, 0, 0]).with(1, id);
    match rng.u8(..6) {
        0 => Message::new(105, 0, &[0; 8]).with(1, id),
        1 => single.with(4, []),
        2 => {
            let member = number(rng.u32(1..5));
            let group = Message::new(104, flags, &[0, 0, 3, 0, 0, 0, 0, 0]).with(1, id);
            group.with(2, [&member[..], &[0; 4]].concat())
        }
        _ => {
            let gateway = v6(pick(rng, &GATEWAYS));
            let one = single.with(5, number(pick(rng, &[10, 12, 11])));
            one.maybe(rng, 2, 6, &[gateway])
        }
    }
}
