//! Neighbours and proxies of both families: few addresses, all states and flags, with links that
//! lose their carrier and addresses that go meanwhile.
//!
//! Left out is what moves within milliseconds: a row in state `NUD_DELAY` is probed at once.

use trueup_testkit::Kind;

use crate::case::{Domain, with_repeats};
use crate::chance::{one_in, pick};
use crate::message::{
    CREATE, DUMP, EXCL, Message, REPLACE, ifinfomsg, odd_attribute, set_up, veth,
};

pub(crate) struct Neighbours;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;
const NDA_PROTOCOL: u16 = 12;
const NDA_FLAGS_EXT: u16 = 15;
const NDA_MAX: u16 = 17;
const NUD_DELAY: u8 = 0x08;

impl Domain for Neighbours {
    fn name(&self) -> &'static str {
        "neighbour"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Neighbour]
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..40) {
            0 => set_up(10, rng.bool()),
            1 => set_up(11, rng.bool()),
            2 => new_hardware_address(rng),
            3 => Message::new(Kind::Link.new_type() + 1, 0, &ifinfomsg(10, 0, 0)),
            4 => veth("v0", 10, "v1", 11),
            5..=7 => address(rng),
            8 | 9 => get(rng),
            10 => garbage(rng),
            _ => neighbour(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        with_repeats(self, rng, length, Kind::Neighbour, holds_still)
    }
}

/// No row that is probed at once. No row, on the other end of the cable, for one of the host's own
/// addresses, as the requests that the host sends there would change it. No proxy for all devices:
/// it outlives its namespace, and is met again in the next one that the kernel gives the same
/// memory.
fn holds_still(message: &Message) -> bool {
    const NTF_PROXY: u8 = 0x08;
    let byte = |at: usize| message.body.get(at).copied().unwrap_or(0);
    let own = message.body.windows(4).any(|bytes| bytes == [10, 0, 0, 1]);
    let everywhere =
        message.kind == 28 && byte(10) & NTF_PROXY != 0 && message.body.get(4..8) == Some(&[0; 4]);
    let moves = byte(8) & NUD_DELAY != 0 || (own && byte(4) == 11) || everywhere;
    message.kind & !3 != 28 || !moves
}

fn new_hardware_address(rng: &mut fastrand::Rng) -> Message {
    const IFLA_ADDRESS: u16 = 1;
    let lladdr = [2, 0, 0, 0, 1, rng.u8(..2)];
    Message::new(Kind::Link.new_type(), 0, &ifinfomsg(10, 0, 0)).with(IFLA_ADDRESS, lladdr)
}

/// An IPv4 address comes or goes: the last one takes the neighbours along.
fn address(rng: &mut fastrand::Rng) -> Message {
    const IFA_LOCAL: u16 = 2;
    let local = pick(rng, &[[10, 0, 0, 1], [10, 1, 0, 1]]);
    let kind = Kind::Address.new_type() + u16::from(rng.bool());
    Message::new(kind, CREATE, &[2, 24, 0, 0, 10, 0, 0, 0]).with(IFA_LOCAL, local)
}

fn header(rng: &mut fastrand::Rng, family: u8) -> Vec<u8> {
    let device: u32 = pick(rng, &[10, 10, 10, 10, 10, 11, 11, 1, 1, 0, 99]);
    let state = pick(
        rng,
        &[
            0x80, 0x80, 0x80, 0x80, 0x40, 0x40, 0x04, 0x04, 0x04, 0x02, 0x02, 0x10, 0x01, 0x20, 0,
            0x84, 0x06, 0xc0, 0x21, 0x14,
        ],
    );
    let flags = pick(
        rng,
        &[
            0, 0, 0, 0, 0, 0, 0x80, 0x80, 0x10, 0x10, 0x08, 0x08, 0x01, 0x01, 0x02, 0x04, 0x20,
            0x40, 0x90,
        ],
    );
    let mut fixed = vec![family, 0, 0, 0];
    fixed.extend(device.to_ne_bytes());
    fixed.extend([state, 0, flags, pick(rng, &[0, 0, 0, 1, 5])]);
    fixed
}

fn key(rng: &mut fastrand::Rng, family: u8) -> Vec<u8> {
    let mut key = if family == 2 {
        pick(
            rng,
            &[
                [10, 0, 0, 9],
                [10, 0, 0, 9],
                [10, 0, 0, 9],
                [10, 0, 0, 8],
                [10, 0, 0, 8],
                [10, 0, 0, 1],
                [10, 0, 0, 255],
                [224, 0, 0, 99],
                [255; 4],
                [0; 4],
                [127, 0, 0, 1],
            ],
        )
        .to_vec()
    } else {
        let (first, second, last) = pick(
            rng,
            &[
                (0xfd, 0, 9),
                (0xfd, 0, 9),
                (0xfd, 0, 8),
                (0xfe, 0x80, 9),
                (0xff, 2, 0x99),
                (0, 0, 1),
                (0, 0, 0),
            ],
        );
        let mut key = vec![0; 16];
        (key[0], key[1], key[15]) = (first, second, last);
        key
    };
    match rng.u8(..60) {
        0 => key.truncate(rng.usize(..key.len())),
        1 => key.extend(vec![0; rng.usize(1..20)]),
        _ => {}
    }
    key
}

fn neighbour(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[2, 2, 2, 2, 10, 10, 10, 10, 0, 77]);
    let delete = one_in(rng, 4);
    let flags = match (delete, rng.u8(..10)) {
        (true, 0) => EXCL,
        (true, _) => 0,
        (false, 0) => 0,
        (false, 1) => REPLACE,
        (false, 2..=4) => CREATE,
        (false, 5) => CREATE | EXCL,
        _ => CREATE | REPLACE,
    };
    let fixed = header(rng, family);
    let mut message = Message::new(if delete { 29 } else { 28 }, flags, &fixed);
    if !one_in(rng, 30) {
        message = message.with(NDA_DST, key(rng, family));
    }
    if one_in(rng, 30) {
        message = message.with(NDA_DST, key(rng, family));
    }
    if !one_in(rng, 4) {
        let length = pick(rng, &[6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 8, 32, 33, 0]);
        let mut lladdr = vec![0; length];
        lladdr
            .iter_mut()
            .zip([2, 0, 0, 0, 9])
            .for_each(|(byte, value)| *byte = value);
        if let Some(last) = lladdr.get_mut(5) {
            *last = rng.u8(1..3);
        }
        message = message.with(NDA_LLADDR, lladdr);
    }
    if one_in(rng, 3) {
        message = message.with(NDA_PROTOCOL, [pick(rng, &[4, 99, 0])]);
    }
    if one_in(rng, 8) {
        let extended = pick(rng, &[1_u32, 1, 4, 4, 5, 0, 2, 8, 0x100]);
        message = message.with(NDA_FLAGS_EXT, extended.to_ne_bytes());
    }
    if one_in(rng, 25) {
        let (number, payload) = odd_attribute(rng, NDA_MAX + 4);
        message = message.with(number, payload);
    }
    message
}

/// A dump, or one row.
fn get(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[2, 10, 2, 10, 0, 77]);
    let mut fixed = vec![0; 12];
    fixed[0] = family;
    let all = rng.bool();
    fixed[4] = if all && !one_in(rng, 6) {
        0
    } else {
        pick(rng, &[10, 10, 11, 1, 0, 99])
    };
    fixed[10] = pick(rng, &[0, 0, 0, 8, 8, 2]);
    if one_in(rng, 10) {
        let at = rng.usize(1..12);
        fixed[at] = rng.u8(..);
    }
    if one_in(rng, 20) {
        fixed.truncate(rng.usize(1..12));
    }
    let mut message = Message::new(30, if all { DUMP } else { 0 }, &fixed);
    if all {
        let filter = pick(rng, &[10_u32, 11, 0, 99, u32::MAX]);
        let number = pick(rng, &[NDA_IFINDEX, NDA_MASTER]);
        message = message.maybe(number, rng.bool().then(|| filter.to_ne_bytes()));
    } else {
        message = message.with(NDA_DST, key(rng, family));
    }
    if one_in(rng, 12) {
        let (number, payload) = odd_attribute(rng, NDA_MAX + 4);
        message = message.with(number, payload);
    }
    message
}

fn garbage(rng: &mut fastrand::Rng) -> Message {
    let mut body: Vec<u8> = (0..rng.usize(..60))
        .map(|_| rng.u8(..) & rng.u8(..))
        .collect();
    if let Some(family) = body.first_mut() {
        *family = pick(rng, &[2, 10, 2, 10, 0, 77, 255]);
    }
    Message::new(pick(rng, &[28, 29]), rng.u16(..) & 0xf00, &body)
}
