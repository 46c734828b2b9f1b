//! Addresses of both families on links that go up and down: few addresses, so that they meet as
//! duplicates, secondary addresses of a subnet, and replacements.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::pick;
use crate::message::{
    APPEND, CREATE, DUMP, EXCL, Message, REPLACE, again, attribute, ifinfomsg, odd_attribute,
    set_up, veth,
};

pub(crate) struct Addresses;

const IFLA_MTU: u16 = 4;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

impl Domain for Addresses {
    fn name(&self) -> &'static str {
        "address"
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Address, Kind::Link]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..40 => address4(rng, true),
            40..70 => address6(rng, true),
            70..78 => set_up(device(rng), rng.bool()),
            78..84 => mtu(rng),
            84..88 => rename(rng),
            88..90 => remade(rng),
            90..94 => get(rng),
            94..99 => dump(rng),
            _ => noise(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        let mut all = Vec::<Message>::new();
        while all.len() < length {
            let next = again(rng, &all).filter(is_of_addresses);
            all.push(next.unwrap_or_else(|| self.message(rng)));
        }
        all
    }
}

/// Not a link in disorder, which is for the comparison of links.
fn is_of_addresses(message: &Message) -> bool {
    const IFLA_LINKINFO: u16 = 18;
    let remade = veth("v0", 10, "v1", 11);
    let mut rest = message.body.get(16..).unwrap_or(&[]);
    if message.kind >= Kind::Address.new_type() || message.body == remade.body {
        return true;
    }
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b])).max(4);
        if u16::from_ne_bytes([c, d]) & 0x3fff == IFLA_LINKINFO {
            return false;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    true
}

/// Mostly one of the pair.
fn device(rng: &mut fastrand::Rng) -> u32 {
    pick(rng, &[10, 10, 10, 10, 10, 10, 11, 11, 11, 1])
}

/// Mostly one that is there.
fn index(rng: &mut fastrand::Rng) -> u32 {
    if rng.u8(..40) == 0 {
        pick(rng, &[0, 99, u32::MAX])
    } else {
        device(rng)
    }
}

fn write_flags(rng: &mut fastrand::Rng) -> u16 {
    pick(
        rng,
        &[
            CREATE | EXCL,
            CREATE | EXCL,
            CREATE | REPLACE,
            CREATE | REPLACE,
            REPLACE,
            CREATE,
            CREATE | APPEND,
            CREATE | REPLACE | EXCL,
            0,
        ],
    )
}

fn lifetimes(rng: &mut fastrand::Rng) -> Vec<u8> {
    let forever = u32::MAX;
    let (preferred, valid) = pick(
        rng,
        &[
            (forever, forever),
            (0, forever),
            (5000, forever),
            (5000, 9000),
            (0, 9000),
            (9000, 9000),
            (9000, 5000),
            (0, 0),
            (forever, 9000),
        ],
    );
    [preferred, valid, 0, 0].map(u32::to_ne_bytes).concat()
}

/// `RTM_NEWADDR`, or sometimes `RTM_DELADDR`, of an IPv4 address.
pub(crate) fn address4(rng: &mut fastrand::Rng, odd: bool) -> Message {
    const LOCALS: [[u8; 4]; 9] = [
        [10, 0, 0, 1],
        [10, 0, 0, 2],
        [10, 0, 0, 3],
        [10, 0, 1, 1],
        [192, 0, 2, 1],
        [169, 254, 3, 4],
        [127, 0, 0, 1],
        [224, 0, 0, 9],
        [0, 0, 0, 0],
    ];
    let delete = rng.u8(..10) < 3;
    let rare = if odd { 12 } else { u8::MAX };
    let locals = if odd { &LOCALS[..] } else { &LOCALS[..6] };
    let length = match rng.u8(..rare) {
        0 => pick(rng, &[0, 33, 255]),
        _ => pick(rng, &[24, 24, 24, 16, 32, 31, 8]),
    };
    let flags = match rng.u8(..rare) {
        0 => rng.u8(..),
        _ => 0,
    };
    let scope = pick(rng, &[0, 0, 0, 0, 0, 253, 254, 200]);
    let mut fixed = vec![2, length, flags, scope];
    fixed.extend(index(rng).to_ne_bytes());
    let kind = Kind::Address.new_type() + u16::from(delete);
    let mut message = Message::new(kind, if delete { 0 } else { write_flags(rng) }, &fixed);
    if rng.u8(..30) > 0 && !(delete && rng.u8(..4) == 0) {
        message = message.with(IFA_LOCAL, pick(rng, locals));
    }
    if rng.u8(..3) == 0 {
        message = message.with(IFA_ADDRESS, pick(rng, locals));
    }
    if rng.u8(..4) == 0 {
        message = message.with(
            IFA_BROADCAST,
            pick(rng, &[[10, 0, 0, 255], [255; 4], [0; 4]]),
        );
    }
    if rng.u8(..5) == 0 {
        let labels: &[&[u8]] = &[
            b"v0\0",
            b"v0:a\0",
            b"v0:123456789012\0",
            b"other\0",
            b"\0",
            b"v1:b",
        ];
        message = message.with(IFA_LABEL, pick(rng, labels));
    }
    extras(rng, message, odd)
}

/// `RTM_NEWADDR`, or sometimes `RTM_DELADDR`, of an IPv6 address.
pub(crate) fn address6(rng: &mut fastrand::Rng, odd: bool) -> Message {
    let delete = rng.u8(..10) < 3;
    let rare = if odd { 12 } else { u8::MAX };
    let any = if odd { 11 } else { 7 };
    let length = match rng.u8(..rare) {
        0 => pick(rng, &[0, 129, 255]),
        _ => pick(rng, &[64, 64, 64, 128, 48]),
    };
    let flags = match rng.u8(..rare) {
        0 => rng.u8(..),
        _ => pick(rng, &[0, 0, 2]),
    };
    let mut fixed = vec![10, length, flags, pick(rng, &[0, 0, 253])];
    fixed.extend(index(rng).to_ne_bytes());
    let kind = Kind::Address.new_type() + u16::from(delete);
    let mut message = Message::new(kind, if delete { 0 } else { write_flags(rng) }, &fixed);
    let (has_local, has_address) = pick(
        rng,
        &[(false, true), (false, true), (true, false), (true, true)],
    );
    if has_local && rng.u8(..30) > 0 {
        message = message.with(IFA_LOCAL, ipv6(rng.u8(..any)));
    }
    if has_address && rng.u8(..30) > 0 {
        message = message.with(IFA_ADDRESS, ipv6(rng.u8(..any)));
    }
    extras(rng, message, odd)
}

fn ipv6(which: u8) -> [u8; 16] {
    let of = |head: [u8; 2], last: u8| {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&head);
        address[15] = last;
        address
    };
    match which {
        0 => of([0xfd, 1], 1),
        1 => of([0xfd, 1], 2),
        2 => of([0xfd, 2], 1),
        3 => of([0x20, 1], 1),
        4 => of([0xfe, 0x80], 1),
        // What the kernel makes of the hardware address.
        5 => [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 10],
        6 => of([0xfe, 0xc0], 1),
        7 => of([0, 0], 1),
        8 => of([0xff, 2], 9),
        9 => of([0, 0], 0),
        _ => of([0, 0], 9),
    }
}

/// What both families have, and something broken now and then.
fn extras(rng: &mut fastrand::Rng, mut message: Message, odd: bool) -> Message {
    if rng.u8(..4) == 0 {
        message = message.with(IFA_CACHEINFO, lifetimes(rng));
    }
    if rng.u8(..4) == 0 {
        let flags = pick(
            rng,
            &[0_u32, 0x200, 0x200, 0x80, 0x20, 0x2, 0x202, 0x10, 0x1],
        );
        message = message.with(IFA_FLAGS, flags.to_ne_bytes());
    }
    if odd && rng.u8(..30) == 0 {
        let flags = pick(
            rng,
            &[0x100_u32, 0x400, 0x4, 0x6, 0xf000, 0xffff_f000, 0x840],
        );
        message = message.with(IFA_FLAGS, flags.to_ne_bytes());
    }
    if rng.u8(..5) == 0 {
        message = message.with(IFA_RT_PRIORITY, pick(rng, &[0_u32, 7, 256]).to_ne_bytes());
    }
    if rng.u8(..4) == 0 {
        message = message.with(IFA_PROTO, [pick(rng, &[0, 1, 3, 0xba])]);
    }
    if odd && rng.u8(..15) == 0 {
        let (number, payload) = odd_attribute(rng, 13);
        message = message.with(number, payload);
    }
    message
}

fn mtu(rng: &mut fastrand::Rng) -> Message {
    let mtu = pick(rng, &[1500_u32, 1500, 1280, 1279, 576, 68]);
    Message::new(
        Kind::Link.new_type(),
        0,
        &ifinfomsg(pick(rng, &[10, 10, 11]), 0, 0),
    )
    .with(IFLA_MTU, mtu.to_ne_bytes())
}

fn rename(rng: &mut fastrand::Rng) -> Message {
    const IFLA_IFNAME: u16 = 3;
    let name = pick(rng, &["v0", "w0", "quite-long-name"]);
    Message::new(Kind::Link.new_type(), 0, &ifinfomsg(10, 0, 0))
        .with(IFLA_IFNAME, [name.as_bytes(), &[0]].concat())
}

/// The pair goes, or comes anew.
fn remade(rng: &mut fastrand::Rng) -> Message {
    if rng.bool() {
        Message::new(Kind::Link.new_type() + 1, 0, &ifinfomsg(10, 0, 0))
    } else {
        veth("v0", 10, "v1", 11)
    }
}

/// `RTM_GETADDR` of one address, which only IPv6 answers.
fn get(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[10, 10, 10, 2]);
    let mut fixed = vec![family, pick(rng, &[0, 0, 0, 64]), 0, 0];
    fixed.extend(index(rng).to_ne_bytes());
    let kind = Kind::Address.new_type() + 2;
    let address = ipv6(rng.u8(..11));
    let mut message = Message::new(kind, 0, &fixed)
        .with(pick(rng, &[IFA_ADDRESS, IFA_ADDRESS, IFA_LOCAL]), address);
    if rng.u8(..10) == 0 {
        let (number, payload) = odd_attribute(rng, 13);
        message = message.with(number, payload);
    }
    message
}

fn dump(rng: &mut fastrand::Rng) -> Message {
    let mut fixed = vec![pick(rng, &[0, 2, 2, 10, 10, 7]), 0, 0, 0];
    if rng.u8(..6) == 0 {
        fixed[rng.usize(1..4)] = rng.u8(..);
    }
    fixed.extend(if rng.bool() { index(rng) } else { 0 }.to_ne_bytes());
    fixed.truncate(pick(rng, &[8, 8, 8, 8, 8, 5]));
    let mut message = Message::new(Kind::Address.new_type() + 2, DUMP, &fixed);
    if fixed.len() == 8 && rng.u8(..6) == 0 {
        attribute(
            &mut message.body,
            pick(rng, &[IFA_LOCAL, IFA_FLAGS, IFA_PROTO, 77]),
            &[0; 4],
        );
    }
    message
}

fn noise(rng: &mut fastrand::Rng) -> Message {
    let length = rng.usize(..40);
    let mut body: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
    if let Some(family) = body.first_mut() {
        *family = pick(rng, &[2, 10]);
    }
    Message::new(Kind::Address.new_type() + u16::from(rng.bool()), 0, &body)
}
