//! Addresses of both families on links that go up and down, change their MTU and their name.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::pick;
use crate::message::{Message, address, ifinfomsg, number, set_up, v6, veth, write_flags};

pub(crate) struct Addresses;

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

    fn repeated(&self) -> Kind {
        Kind::Address
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        let index = pick(rng, &[10, 10, 10, 11, 1]);
        match rng.u8(..100) {
            0..42 => address4(rng),
            42..76 => address6(rng),
            76..84 => set_up(index, rng.bool()),
            84..90 => mtu(rng),
            90..93 => rename(rng),
            93 => Message::new(17, 0, &ifinfomsg(10, 0, 0)),
            94 => veth("v0", 10, "v1", 11),
            _ => {
                let mut fixed = vec![pick(rng, &[0, 2, 10]), 0, 0, 0];
                fixed.extend(pick(rng, &[0, index, 99]).to_ne_bytes());
                Message::new(22, 0x300, &fixed)
            }
        }
    }
}

fn mtu(rng: &mut fastrand::Rng) -> Message {
    let mtu = pick(rng, &[1500, 1280, 1279, 68]);
    Message::new(16, 0, &ifinfomsg(pick(rng, &[10, 11]), 0, 0)).with(4, number(mtu))
}

fn rename(rng: &mut fastrand::Rng) -> Message {
    let name: &[u8] = pick(rng, &[b"v0\0", b"w0\0", b"quite-long-name\0"]);
    Message::new(16, 0, &ifinfomsg(10, 0, 0)).with(3, name)
}

/// Adds attributes common to both families.
fn extras(rng: &mut fastrand::Rng, message: Message) -> Message {
    const ENDLESS: u32 = u32::MAX;
    let lifetimes = [(ENDLESS, ENDLESS), (0, ENDLESS), (5000, ENDLESS), (5000, 9000), (9000, 5000)];
    let lifetimes = lifetimes.map(|(a, b)| [a, b, 0, 0].map(u32::to_ne_bytes).concat());
    let flags = [0, 0x200, 0x80, 0x20, 0x2, 0x202, 0x1].map(number);
    message
        .maybe(rng, 4, 6, &lifetimes)
        .maybe(rng, 4, 8, &flags)
        .maybe(rng, 5, 9, &[0, 7, 256].map(number))
        .maybe(rng, 4, 11, &[[0], [3], [0xba]])
}

/// Returns an `RTM_NEWADDR`, or sometimes an `RTM_DELADDR`, for IPv4.
pub(crate) fn address4(rng: &mut fastrand::Rng) -> Message {
    let locals = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 1, 1], [127, 0, 0, 1]];
    let kind = 20 + u16::from(rng.u8(..10) < 3);
    let flags = if kind == 20 { write_flags(rng) } else { 0 };
    let index = pick(rng, &[10, 10, 10, 11, 1, 99]);
    let length = pick(rng, &[24, 24, 24, 16, 32, 31, 8]);
    let mut message = address(kind, flags, index, &pick(rng, &locals), length);
    message.body[3] = pick(rng, &[0, 0, 0, 0, 253, 254]);
    let message = message
        .maybe(rng, 4, 1, &locals)
        .maybe(rng, 4, 4, &[[10, 0, 0, 255], [255; 4]])
        .maybe(rng, 6, 3, &[&b"v0\0"[..], b"v0:a\0", b"other\0"]);
    extras(rng, message)
}

/// Returns an `RTM_NEWADDR`, or sometimes an `RTM_DELADDR`, for IPv6.
fn address6(rng: &mut fastrand::Rng) -> Message {
    let locals = ["fd01::1", "fd01::2", "fd02::1", "fe80::1", "fe80::ff:fe00:a", "::1"].map(v6);
    let kind = 20 + u16::from(rng.u8(..10) < 3);
    let flags = if kind == 20 { write_flags(rng) } else { 0 };
    let index = pick(rng, &[10, 10, 10, 11, 1, 99]);
    let length = pick(rng, &[64, 64, 64, 128, 48]);
    let message = address(kind, flags, index, &pick(rng, &locals), length);
    let message = message.maybe(rng, 4, 1, &locals);
    extras(rng, message)
}
