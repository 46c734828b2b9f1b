//! Links of all kinds that the running kernel has: created, changed, renamed, stacked, put into
//! bridges, and deleted with everything that depends on them.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{CREATE, DUMP, EXCL, Message, attributes, ifinfomsg, number, set_up, veth};

pub(crate) struct Links;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const NAMES: [&[u8]; 8] =
    [b"v0\0", b"v1\0", b"br0\0", b"br1\0", b"vx0\0", b"mv0\0", b"ifb7\0", b"v%d\0"];

impl Domain for Links {
    fn name(&self) -> &'static str {
        "link"
    }

    fn prelude(&self) -> Vec<Message> {
        let bridge = link(b"bridge", 12, None).with(IFLA_IFNAME, b"br0\0");
        vec![veth("v0", 10, "v1", 11), bridge, set_up(10, true)]
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Link, Kind::Address]
    }

    fn repeated(&self) -> Kind {
        Kind::Rule // None.
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..25 => make(rng),
            25..45 => set_up(index(rng), rng.u8(..3) > 0),
            45..60 => set(rng),
            60..72 => Message::new(16, 0, &ifinfomsg(index(rng), 0, 0))
                .with(IFLA_MASTER, number(pick(rng, &[12, 12, 13, 0, 0, 10, 99]))),
            72..80 => change_kind(rng),
            80..92 => delete(rng),
            92..96 => Message::new(18, 0, &ifinfomsg(index(rng), 0, 0)),
            _ => Message::new(18, DUMP, &ifinfomsg(0, 0, 0)).maybe(
                rng,
                2,
                IFLA_MASTER,
                &[12, 13, 99].map(number),
            ),
        }
    }
}

fn index(rng: &mut fastrand::Rng) -> u32 {
    pick(rng, &[1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 10, 11, 12, 99])
}

fn mtu(rng: &mut fastrand::Rng) -> [u8; 4] {
    number(pick(rng, &[1500, 1500, 1400, 9000, 1280, 1279, 68, 67, 65535, 65536]))
}

/// Returns a request for a link with a kind and a unique hardware address.
pub(crate) fn link(kind: &[u8], index: u32, data: Option<&[u8]>) -> Message {
    let info = [(1, kind)].into_iter().chain(data.map(|data| (2, data)));
    Message::new(16, CREATE | EXCL, &ifinfomsg(index, 0, 0))
        .with(IFLA_ADDRESS, [2, 0, 0, 0, 0, index as u8])
        .with(IFLA_LINKINFO, attributes(info))
}

/// Returns a bridge's attributes. The kernel counts in jiffies: these times suit all its clock
/// rates.
fn bridge_data(rng: &mut fastrand::Rng) -> Vec<u8> {
    let any = Message::new(0, 0, &[]);
    let any = any.maybe(rng, 2, 1, &[1500, 0, 200, 198, 3002].map(number));
    let any = any.maybe(rng, 2, 4, &[30000, 0, 100].map(number));
    any.maybe(rng, 3, 5, &[0, 1, 2].map(number)).body
}

fn vxlan_data(rng: &mut fastrand::Rng, is_new: bool) -> Vec<u8> {
    let mut any = Message::new(0, 0, &[]);
    if is_new {
        any = any.with(1, number(pick(rng, &[5, 5, 6])));
        any = any.maybe(rng, 2, 15, &[4789_u16.to_be_bytes(), 8472_u16.to_be_bytes()]);
    }
    let any = any.maybe(rng, 3, 2, &[[10, 0, 0, 9], [239, 1, 1, 1]]);
    let any = any.maybe(rng, 3, 4, &[[10, 0, 0, 9], [10, 0, 0, 8]]);
    // Never remove a lower device again: the kernel is inconsistent about that.
    let any = any.maybe(rng, 3, 3, &[10, 11, 12, 99].map(number));
    let any = any.maybe(rng, 3, 5, &[[0], [1], [255]]);
    any.maybe(rng, 3, 7, &[[0], [1], [2]]).body
}

fn make(rng: &mut fastrand::Rng) -> Message {
    let index = pick(rng, &[13, 14, 15, 17, 18, 10]);
    let peer = [
        &ifinfomsg(16, 0, 0)[..],
        &attributes([(IFLA_IFNAME, pick(rng, &NAMES)), (IFLA_ADDRESS, &[2, 0, 0, 0, 0, 16])]),
    ]
    .concat();
    let kinds: [&[u8]; 5] = [b"veth", b"bridge", b"vxlan", b"macvlan", b"ifb"];
    let kind = pick(rng, &kinds);
    let data = match kind {
        b"veth" => attributes([(1, &peer[..])]),
        b"bridge" => bridge_data(rng),
        b"vxlan" => vxlan_data(rng, true),
        b"macvlan" => attributes([(1, &number(pick(rng, &[1, 2, 4]))[..])]),
        _ => Vec::new(),
    };
    let mut message = link(kind, index, Some(data.as_slice()));
    if !one_in(rng, 8) {
        message = message.with(IFLA_IFNAME, pick(rng, &NAMES));
    }
    if kind == b"macvlan" {
        message = message.with(IFLA_LINK, number(pick(rng, &[10, 10, 11, 12, 13, 14, 1, 99])));
    }
    let message = message.maybe(rng, 5, IFLA_MTU, &[1500, 1400, 9000, 1280, 68].map(number));
    let message = message.maybe(rng, 8, IFLA_GROUP, &[0, 5].map(number));
    match rng.u8(..4) {
        // Not both: if the master refuses the link, its addresses go before they were announced.
        0 => message.with(IFLA_MASTER, number(pick(rng, &[12, 13, 0, 99]))),
        1 => {
            let mut message = message;
            (message.body[8], message.body[12]) = (1, 1);
            message
        }
        _ => message,
    }
}

fn set(rng: &mut fastrand::Rng) -> Message {
    let index = index(rng);
    let bits = [(0, 0), (0, 0), (0, 0), (1, 1), (0, 0x1000), (0x1000, 0x1000), (0x100, 0x100)];
    let (bits, mask) = pick(rng, &bits);
    let message = Message::new(pick(rng, &[16, 16, 19]), 0, &ifinfomsg(index, bits, mask));
    match rng.u8(..12) {
        0..3 => message.with(IFLA_IFNAME, pick(rng, &NAMES)),
        3..7 => message.with(IFLA_MTU, mtu(rng)),
        7 | 8 => message.with(IFLA_ADDRESS, [2, 0, 0, 0, pick(rng, &[1, 2]), index as u8]),
        9 => message.with(IFLA_GROUP, number(pick(rng, &[0, 5, 6]))),
        _ => message.with(IFLA_IFALIAS, pick(rng, &[&b"alias"[..], b"", b"other"])),
    }
}

fn change_kind(rng: &mut fastrand::Rng) -> Message {
    let kinds: [&[u8]; 5] = [b"bridge", b"bridge", b"vxlan", b"vxlan", b"veth"];
    let kind = pick(rng, &kinds);
    let data = match kind {
        b"bridge" => bridge_data(rng),
        b"vxlan" => vxlan_data(rng, false),
        _ => Vec::new(),
    };
    let info = attributes([(1, kind), (2, &data)]);
    Message::new(16, 0, &ifinfomsg(index(rng), 0, 0)).with(IFLA_LINKINFO, info)
}

fn delete(rng: &mut fastrand::Rng) -> Message {
    match rng.u8(..4) {
        0 => Message::new(17, 0, &ifinfomsg(0, 0, 0)).with(IFLA_IFNAME, pick(rng, &NAMES)),
        1 => {
            Message::new(17, 0, &ifinfomsg(0, 0, 0)).with(IFLA_GROUP, number(pick(rng, &[0, 5, 6])))
        }
        _ => Message::new(17, 0, &ifinfomsg(index(rng), 0, 0)),
    }
}
