//! Rules of both families: all selectors, with few values each, so that rules are equal and deletes
//! match; meanwhile devices come, go and change their names.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{DUMP, Message, ifinfomsg, number, set_up, v6, veth, write_flags};

pub(crate) struct Rules;

const FRA_PRIORITY: u16 = 6;

impl Domain for Rules {
    fn name(&self) -> &'static str {
        "rule"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Rule]
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn repeated(&self) -> Kind {
        Kind::Rule
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..40) {
            0..3 => {
                let name: &[u8] = pick(rng, &[b"v0\0", b"v1\0", b"v2\0", b"w0\0"]);
                Message::new(16, 0, &ifinfomsg(pick(rng, &[10, 11]), 0, 0)).with(3, name)
            }
            3 => Message::new(17, 0, &ifinfomsg(10, 0, 0)),
            4 => veth(pick(rng, &["v0", "v1", "w0"]), 12, "v2", 13),
            5 | 6 => {
                Message::new(34, DUMP, &[pick(rng, &[2, 10]), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
            }
            _ => rule(rng),
        }
    }
}

fn rule(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[2, 10]);
    let is_delete = one_in(rng, 3);
    let flags = if is_delete { 0 } else { write_flags(rng) };
    // Use few selectors at once, so that rules are equal and deletes match.
    let rare = pick(rng, &[4, 12, 30]);
    let mut length = || {
        if rng.u8(..rare) == 0 { pick(rng, &[8, 16, 32]) } else { 0 }
    };
    let (dst_len, src_len) = (length(), length());
    let action = pick(rng, &[1, 1, 1, 1, 2, 3, 6, 7, 8]);
    let tos = if one_in(rng, rare) { pick(rng, &[0x10, 0x08]) } else { 0 };
    let table = pick(rng, &[0, 254, 254, 100]);
    let mut fixed = vec![family, dst_len, src_len, tos, table, 0, 0, action];
    fixed.extend(if one_in(rng, rare) { number(2) } else { number(0) });
    let mut message = Message::new(32 + u16::from(is_delete), flags, &fixed);
    if !one_in(rng, 5) {
        let priority = number(pick(rng, &[5, 5, 6, 7, 0, 100, 32766, 40000]));
        message = message.with(FRA_PRIORITY, priority);
    }
    if action == 2 {
        message = message.with(4, number(pick(rng, &[6, 7, 100, 100, 32766])));
    }
    for (attribute, length) in [(1, dst_len), (2, src_len)] {
        if length != 0 {
            let ip = match family {
                2 => vec![10, pick(rng, &[0, 1]), 0, 0],
                _ => v6(pick(rng, &["fd00::", "fd01::"])).to_vec(),
            };
            message = message.with(attribute, ip);
        }
    }
    for (attribute, values) in SELECTORS {
        let is_of_other = *attribute == if family == 2 { 26 } else { 11 };
        if !is_of_other && one_in(rng, rare) {
            message = message.with(*attribute, values[rng.usize(..values.len())]);
            if *attribute == 26 {
                message = message.with(27, [0, 0xf, 0xff, 0xff]);
            }
        }
    }
    message
}

/// Each selector with its possible values, in little-endian byte order. The test's namespace maps
/// only user 0.
const SELECTORS: &[(u16, &[&[u8]])] = &[
    (3, &[b"v0\0", b"v1\0", b"lo\0", b"nosuch\0"]), // FRA_IIFNAME
    (17, &[b"v0\0", b"v2\0", b"w0\0"]),             // FRA_OIFNAME
    (10, &[&[1, 0, 0, 0], &[2, 0, 0, 0]]),          // FRA_FWMARK
    (16, &[&[0xff, 0, 0, 0], &[0xff; 4]]),          // FRA_FWMASK
    (11, &[&[1, 0, 0, 0], &[2, 0, 0, 0]]),          // FRA_FLOW
    (12, &[&[0, 0, 0, 0, 0, 0, 0, 7]]),             // FRA_TUN_ID
    (13, &[&[1, 0, 0, 0], &[0xff; 4]]),             // FRA_SUPPRESS_IFGROUP
    (14, &[&[0; 4], &[8, 0, 0, 0], &[0xff; 4]]),    // FRA_SUPPRESS_PREFIXLEN
    (15, &[&[100, 0, 0, 0], &[0xe8, 3, 0, 0]]),     // FRA_TABLE
    (20, &[&[0; 8]]),                               // FRA_UID_RANGE
    (21, &[&[4], &[99], &[0]]),                     // FRA_PROTOCOL
    (22, &[&[6], &[17]]),                           // FRA_IP_PROTO
    (23, &[&[80, 0, 80, 0], &[80, 0, 90, 0]]),      // FRA_SPORT_RANGE
    (24, &[&[80, 0, 80, 0], &[80, 0, 90, 0]]),      // FRA_DPORT_RANGE
    (26, &[&[0, 0, 0, 1], &[0, 0, 0, 2]]),          // FRA_FLOWLABEL
];
