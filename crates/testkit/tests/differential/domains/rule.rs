//! Rules of both families: all selectors, few values of each, so that equality, deletes and
//! priorities collide; devices that come, go and change their names meanwhile.

use trueup_testkit::Kind;

use crate::case::{Domain, with_repeats};
use crate::chance::{one_in, pick};
use crate::message::{
    APPEND, CREATE, DUMP, EXCL, Message, REPLACE, ifinfomsg, odd_attribute, set_up, veth,
};

pub(crate) struct Rules;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_FLOW: u16 = 11;
const FRA_TUN_ID: u16 = 12;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
const FRA_DSCP: u16 = 25;
const FRA_FLOWLABEL: u16 = 26;
const FRA_FLOWLABEL_MASK: u16 = 27;
const FRA_SPORT_MASK: u16 = 28;
const FRA_DPORT_MASK: u16 = 29;
const FRA_DSCP_MASK: u16 = 30;
const FRA_MAX: u16 = 30;

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

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..40) {
            0 => set_up(10, rng.bool()),
            1 | 2 => rename(rng),
            3 => Message::new(Kind::Link.new_type() + 1, 0, &ifinfomsg(10, 0, 0)),
            4 => veth(pick(rng, &["v0", "v1", "w0"]), 12, "v2", 13),
            5 => dump(rng),
            6 => garbage(rng),
            _ => rule(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        with_repeats(self, rng, length, Kind::Rule, names_mapped_users)
    }
}

/// The test runs in a user namespace in which user 0 alone is mapped; -1 is no user anywhere.
pub(crate) fn names_mapped_users(message: &Message) -> bool {
    let mut rest = message.body.get(12..).unwrap_or(&[]);
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(payload) = rest.get(4..length) else {
            break;
        };
        let ids = payload.chunks_exact(4).take(2);
        if u16::from_ne_bytes([c, d]) & 0x3fff == FRA_UID_RANGE
            && !ids.into_iter().all(|id| id == [0; 4] || id == [0xff; 4])
        {
            return false;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    true
}

fn rename(rng: &mut fastrand::Rng) -> Message {
    const IFLA_IFNAME: u16 = 3;
    let name = pick(rng, &["v0", "v1", "v2", "w0"]);
    let fixed = ifinfomsg(pick(rng, &[10, 11]), 0, 0);
    Message::new(Kind::Link.new_type(), 0, &fixed)
        .with(IFLA_IFNAME, [name.as_bytes(), &[0]].concat())
}

fn dump(rng: &mut fastrand::Rng) -> Message {
    let mut fixed = vec![0; pick(rng, &[12, 12, 12, 12, 4, 1])];
    fixed[0] = pick(rng, &[2, 10, 2, 10, 77]);
    if one_in(rng, 3) {
        let at = rng.usize(..fixed.len());
        fixed[at] = rng.u8(..);
        if matches!(fixed[0], 0 | 128 | 129) {
            fixed[0] = 2;
        }
    }
    let message = Message::new(34, pick(rng, &[DUMP, DUMP, 0x100, 0]), &fixed);
    let extra = one_in(rng, 4).then(|| 254_u32.to_ne_bytes());
    message.maybe(FRA_TABLE, extra)
}

fn garbage(rng: &mut fastrand::Rng) -> Message {
    let mut body: Vec<u8> = (0..rng.usize(..60))
        .map(|_| rng.u8(..) & rng.u8(..))
        .collect();
    if let Some(family) = body.first_mut() {
        *family = pick(rng, &[2, 10, 2, 10, 0, 7, 77, 255]);
    }
    Message::new(pick(rng, &[32, 33]), rng.u16(..) & 0xd00, &body)
}

fn rule(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[2, 10]);
    let delete = one_in(rng, 3);
    let flags = match (delete, rng.u8(..8)) {
        (true, 0) => EXCL,
        (true, _) => 0,
        (false, 0) => 0,
        (false, 1) => REPLACE,
        (false, 2) => CREATE | REPLACE,
        (false, 3) => CREATE | APPEND,
        (false, 4) => EXCL,
        _ => CREATE | EXCL,
    };
    // Few selectors at once, so that rules are equal and deletes fit.
    let rare = pick(rng, &[4, 12, 30]);
    let length = |rng: &mut fastrand::Rng| {
        let usual = pick(rng, &[8, 16, 24, 32, 0]);
        let odd = pick(rng, &[33, 64, 128, 129, 255]);
        match (one_in(rng, rare), one_in(rng, 4)) {
            (false, _) => 0,
            (true, false) => usual,
            (true, true) => odd,
        }
    };
    let (dst_len, src_len) = (length(rng), length(rng));
    let action = pick(rng, &[1, 1, 1, 1, 1, 1, 2, 2, 3, 6, 7, 8, 0, 4, 200]);
    let tos = if one_in(rng, rare) {
        pick(rng, &[0x10, 0x08, 0x04, 0x20, 0xfc, 0x01, 0x1e])
    } else {
        0
    };
    let table = pick(rng, &[0, 0, 254, 254, 100, 252]);
    let mut fixed = vec![family, dst_len, src_len, tos, table, 0, 0, action];
    let rule_flags: u32 = if one_in(rng, rare) {
        pick(rng, &[1, 2, 4, 8, 0x10, 0x1_0000, 0x100, !1])
    } else {
        0
    };
    fixed.extend(rule_flags.to_ne_bytes());
    let mut message = Message::new(if delete { 33 } else { 32 }, flags, &fixed);

    let priority = pick(rng, &[5_u32, 5, 6, 7, 0, 100, 32766, 40000, u32::MAX]);
    if !one_in(rng, 5) {
        message = message.with(FRA_PRIORITY, priority.to_ne_bytes());
    }
    if action == 2 && !one_in(rng, 8) || one_in(rng, 40) {
        let target = pick(rng, &[6_u32, 7, 100, 100, 32766, 0]);
        message = message.with(FRA_GOTO, target.to_ne_bytes());
    }
    for (number, length) in [(FRA_DST, dst_len), (FRA_SRC, src_len)] {
        if length != 0 && !one_in(rng, 12) || one_in(rng, 40) {
            message = message.with(number, address(rng, family));
        }
    }
    let mut order = SELECTORS.to_vec();
    rng.shuffle(&mut order);
    for (number, values) in order {
        if one_in(rng, rare) {
            message = message.with(number, values[rng.usize(..values.len())]);
        }
    }
    if one_in(rng, 25) {
        let (number, payload) = odd_attribute(rng, FRA_MAX + 4);
        message = message.with(number, payload);
    }
    if one_in(rng, 60) {
        message.body.extend([1, 2, 3]);
    }
    message
}

fn address(rng: &mut fastrand::Rng, family: u8) -> Vec<u8> {
    let v4 = [10, pick(rng, &[0, 1]), 0, pick(rng, &[0, 9])];
    let mut v6 = [0; 16];
    v6[..2].copy_from_slice(&[0xfd, pick(rng, &[0, 1])]);
    v6[15] = pick(rng, &[0, 9]);
    let mut address = if family == 2 {
        v4.to_vec()
    } else {
        v6.to_vec()
    };
    if one_in(rng, 20) {
        address.truncate(rng.usize(..4));
    }
    if one_in(rng, 20) {
        address.push(0);
    }
    address
}

/// Each selector with the values it may take, in the machine's order of a little-endian machine.
const SELECTORS: [(u16, &[&[u8]]); 22] = [
    (
        FRA_IIFNAME,
        &[
            b"v0\0",
            b"v1\0",
            b"w0",
            b"lo\0",
            b"nosuch\0",
            b"\0",
            b"v0\0x\0",
        ],
    ),
    (
        FRA_OIFNAME,
        &[
            b"v0\0",
            b"v2\0",
            b"w0",
            b"a-name-of-15-ch\0",
            b"a-name-of-16-cha\0",
        ],
    ),
    (FRA_FWMARK, &[&[1, 0, 0, 0], &[2, 0, 0, 0], &[0, 0, 0, 0]]),
    (FRA_FWMASK, &[&[0xff, 0, 0, 0], &[0xff; 4], &[0; 4]]),
    (FRA_FLOW, &[&[1, 0, 0, 0], &[2, 0, 0, 0], &[0; 4]]),
    (FRA_TUN_ID, &[&[0, 0, 0, 0, 0, 0, 0, 7], &[0; 8]]),
    (FRA_SUPPRESS_IFGROUP, &[&[1, 0, 0, 0], &[0xff; 4], &[0; 4]]),
    (
        FRA_SUPPRESS_PREFIXLEN,
        &[&[0; 4], &[8, 0, 0, 0], &[0xff; 4]],
    ),
    (
        FRA_TABLE,
        &[&[0; 4], &[100, 0, 0, 0], &[0xe8, 3, 0, 0], &[255, 0, 0, 0]],
    ),
    (FRA_L3MDEV, &[&[1], &[0], &[2]]),
    (
        FRA_UID_RANGE,
        &[&[0; 8], &[0xff; 8], &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]],
    ),
    (FRA_PROTOCOL, &[&[4], &[99], &[0], &[2]]),
    (FRA_IP_PROTO, &[&[6], &[17], &[0]]),
    (
        FRA_SPORT_RANGE,
        &[
            &[80, 0, 80, 0],
            &[80, 0, 90, 0],
            &[90, 0, 80, 0],
            &[0; 4],
            &[1, 0, 0xff, 0xff],
        ],
    ),
    (
        FRA_DPORT_RANGE,
        &[
            &[80, 0, 80, 0],
            &[80, 0, 90, 0],
            &[0, 0, 5, 0],
            &[0xff, 0xff, 0xff, 0xff],
        ],
    ),
    (FRA_SPORT_MASK, &[&[0xff, 0xff], &[0xf0, 0], &[0, 0]]),
    (FRA_DPORT_MASK, &[&[0xff, 0xff], &[0x50, 0], &[0, 0]]),
    (FRA_DSCP, &[&[1], &[2], &[0], &[63], &[64]]),
    (FRA_DSCP_MASK, &[&[63], &[1], &[0], &[64]]),
    (
        FRA_FLOWLABEL,
        &[&[0, 0, 0, 1], &[0; 4], &[0, 0xf, 0xff, 0xff]],
    ),
    (
        FRA_FLOWLABEL_MASK,
        &[&[0, 0xf, 0xff, 0xff], &[0, 0, 0, 1], &[0; 4], &[0xff; 4]],
    ),
    (FRA_PRIORITY, &[&[5, 0, 0, 0], &[6, 0, 0, 0]]),
];
