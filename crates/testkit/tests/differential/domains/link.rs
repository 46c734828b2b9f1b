//! Links of all kinds that the running kernel has, few names and indexes: made, changed, renamed,
//! put on each other and into bridges, and deleted with what hangs on them.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::pick;
use crate::message::{
    CREATE, DUMP, EXCL, Message, REPLACE, attribute, attributes, ifinfomsg, odd_attribute, set_up,
    veth,
};

pub(crate) struct Links;

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const SETLINK: u16 = 19;

const IFLA_ADDRESS: u16 = 1;
const IFLA_BROADCAST: u16 = 2;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const IFLA_EXT_MASK: u16 = 29;

const LINKS: [u32; 9] = [10, 11, 12, 13, 14, 15, 16, 17, 18];
const NAMES: [&[u8]; 16] = [
    b"v0\0",
    b"v1\0",
    b"br0\0",
    b"br1\0",
    b"vx0\0",
    b"mv0\0",
    b"ifb7\0",
    b"a-long-name-15c\0",
    b"v%d\0",
    b"\xff\xfe\0",
    b"lo\0",
    b"..\0",
    b"a/b\0",
    b"a b\0",
    b"\0",
    b"a-name-of-16-cha\0",
];

impl Domain for Links {
    fn name(&self) -> &'static str {
        "link"
    }

    fn prelude(&self) -> Vec<Message> {
        vec![
            veth("v0", 10, "v1", 11),
            made("bridge", b"br0\0", 12, &[]),
            set_up(10, true),
        ]
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Link, Kind::Address]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..25 => make(rng),
            25..45 => set_up(index(rng), rng.u8(..3) > 0),
            45..58 => set(rng),
            58..72 => enslave(rng),
            72..80 => change_kind(rng),
            80..90 => delete(rng),
            90..95 => get(rng),
            _ => dump(rng),
        }
    }
}

fn index(rng: &mut fastrand::Rng) -> u32 {
    match rng.u8(..60) {
        0..2 => pick(rng, &[0, 99, 1 << 24, i32::MAX as u32, u32::MAX, 1 << 31]),
        2..4 => 1,
        _ => pick(rng, &LINKS),
    }
}

/// Mostly a good one.
fn name(rng: &mut fastrand::Rng) -> &'static [u8] {
    let few = if rng.u8(..6) == 0 { NAMES.len() } else { 10 };
    NAMES[rng.usize(..few)]
}

fn mac(rng: &mut fastrand::Rng, index: u32) -> Vec<u8> {
    match rng.u8(..30) {
        0 => vec![1, 0, 0, 0, 0, 1],
        1 => vec![0; 6],
        2 => vec![2, 0, 0],
        3 => vec![2; 8],
        4..8 => vec![2, 0, 0, 0, 0, 10],
        _ => vec![2, 0, 0, 0, 1, index as u8],
    }
}

fn mtu(rng: &mut fastrand::Rng) -> [u8; 4] {
    pick(
        rng,
        &[
            1500_u32,
            1500,
            1400,
            9000,
            1280,
            1279,
            68,
            67,
            0,
            65535,
            65536,
            u32::MAX,
        ],
    )
    .to_ne_bytes()
}

fn number(rng: &mut fastrand::Rng, of: &[u32]) -> Vec<u8> {
    pick(rng, of).to_ne_bytes().to_vec()
}

/// A link of a kind that needs no more, with a hardware address of its own.
pub(crate) fn made(kind: &str, name: &[u8], index: u32, data: &[u8]) -> Message {
    let mut info = Vec::new();
    attribute(&mut info, 1, kind.as_bytes());
    if !data.is_empty() {
        attribute(&mut info, 2, data);
    }
    Message::new(NEWLINK, CREATE | EXCL, &ifinfomsg(index, 0, 0))
        .with(IFLA_IFNAME, name)
        .with(IFLA_ADDRESS, [2, 0, 0, 0, 0, index as u8])
        .with(IFLA_LINKINFO, info)
}

/// The kernel counts in jiffies and rounds times down to them: even hundredths of a second suit all
/// of its clocks.
fn bridge_data(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut data = Vec::new();
    if rng.bool() {
        attribute(&mut data, 1, &number(rng, &[1500, 0, 200, 198, 3002]));
    }
    if rng.bool() {
        attribute(&mut data, 4, &number(rng, &[30000, 0, 100]));
    }
    if rng.u8(..3) == 0 {
        attribute(&mut data, 5, &number(rng, &[0, 1, 2]));
    }
    data
}

fn vxlan_data(rng: &mut fastrand::Rng, new: bool) -> Vec<u8> {
    let mut data = Vec::new();
    if new || rng.u8(..4) == 0 {
        attribute(&mut data, 1, &number(rng, &[5, 5, 6, 1 << 24]));
    }
    let groups = [[10, 0, 0, 9], [239, 1, 1, 1], [0; 4]];
    let mut six = [0_u8; 16];
    six[0] = pick(rng, &[0xfd, 0xff, 0]);
    six[15] = 1;
    match rng.u8(..8) {
        0..3 => attribute(&mut data, 2, &pick(rng, &groups)),
        3 => attribute(&mut data, 16, &six),
        _ => {}
    }
    match rng.u8(..8) {
        0..2 => attribute(&mut data, 4, &pick(rng, &groups)),
        2 => attribute(&mut data, 17, &six),
        _ => {}
    }
    if rng.u8(..3) == 0 {
        // A lower device is not taken away again: the kernel is of two minds about it then.
        let none = if new { 0 } else { 10 };
        attribute(&mut data, 3, &number(rng, &[10, 11, 12, none, 99]));
    }
    if rng.u8(..3) == 0 {
        attribute(&mut data, 5, &[pick(rng, &[0, 1, 255])]);
    }
    if rng.u8(..3) == 0 {
        attribute(&mut data, 7, &[pick(rng, &[0, 1, 2])]);
    }
    if (new && rng.bool()) || rng.u8(..8) == 0 {
        let port = pick(rng, &[4789_u16, 4789, 8472]);
        attribute(&mut data, 15, &port.to_be_bytes());
    }
    data
}

fn veth_data(rng: &mut fastrand::Rng) -> Vec<u8> {
    let index = if rng.u8(..6) == 0 { index(rng) } else { 16 };
    let flags = u32::from(rng.u8(..5) == 0);
    let mut peer = ifinfomsg(index, flags, flags);
    if rng.u8(..8) > 0 {
        attribute(&mut peer, IFLA_IFNAME, name(rng));
    }
    attribute(&mut peer, IFLA_ADDRESS, &mac(rng, 16));
    if rng.u8(..5) == 0 {
        attribute(&mut peer, IFLA_MTU, &mtu(rng));
    }
    if rng.u8(..20) == 0 {
        peer.truncate(12);
    }
    attributes([(1, peer.as_slice())])
}

fn make(rng: &mut fastrand::Rng) -> Message {
    let kind = pick(
        rng,
        &[
            "veth", "veth", "bridge", "bridge", "vxlan", "vxlan", "macvlan", "macvlan", "macvlan",
            "ifb", "nosuch",
        ],
    );
    let data = match kind {
        "veth" => veth_data(rng),
        "bridge" => bridge_data(rng),
        "vxlan" => vxlan_data(rng, true),
        "macvlan" if rng.bool() => attributes([(1, number(rng, &[1, 2, 4, 3]).as_slice())]),
        _ => Vec::new(),
    };
    let index = if rng.u8(..6) == 0 {
        index(rng)
    } else {
        pick(rng, &[13, 14, 15, 17, 18])
    };
    let mut info = Vec::new();
    attribute(&mut info, 1, kind.as_bytes());
    if !data.is_empty() {
        attribute(&mut info, 2, &data);
    }
    let flags = pick(
        rng,
        &[
            CREATE | EXCL,
            CREATE | EXCL,
            CREATE | EXCL,
            CREATE,
            0,
            CREATE | REPLACE,
        ],
    );
    let up = u32::from(rng.u8(..4) == 0);
    let mut message = Message::new(NEWLINK, flags, &ifinfomsg(index, up, up));
    message = message.with(IFLA_ADDRESS, mac(rng, index));
    if rng.u8(..10) > 0 {
        message = message.with(IFLA_IFNAME, name(rng));
    }
    if kind == "macvlan" || rng.u8(..20) == 0 {
        message = message.with(IFLA_LINK, number(rng, &[10, 10, 10, 11, 12, 13, 14, 1, 99]));
    }
    if rng.u8(..5) == 0 {
        message = message.with(IFLA_MTU, mtu(rng));
    }
    // Not both: should the master refuse it, its addresses go before anybody was told of them.
    if up == 0 && rng.u8(..8) == 0 {
        message = message.with(IFLA_MASTER, number(rng, &[12, 12, 13, 0, 99]));
    }
    if rng.u8(..8) == 0 {
        message = message.with(IFLA_GROUP, number(rng, &[0, 5]));
    }
    if rng.u8(..12) == 0 {
        message = message.with(IFLA_IFALIAS, b"dropped");
    }
    message.with(IFLA_LINKINFO, info)
}

fn set(rng: &mut fastrand::Rng) -> Message {
    let index = index(rng);
    let kind = pick(rng, &[NEWLINK, NEWLINK, SETLINK]);
    let flags = pick(rng, &[0, 0, 0, 0, CREATE, EXCL, REPLACE]);
    // Without a mask the link goes down: while it is up, the loss of IFF_NOARP has each address
    // told of once more, some time within a second.
    let (bits, mask) = pick(
        rng,
        &[
            (0_u32, 0_u32),
            (0, 0),
            (0, 0),
            (1, 1),
            (0, 0x1000),
            (0x1000, 0x1000),
            (0x100, 0x100),
            (0x200, 0x300),
            (0x1002, 0),
        ],
    );
    let mut message = Message::new(kind, flags, &ifinfomsg(index, bits, mask));
    for _ in 0..rng.u8(1..3) {
        message = match rng.u8(..16) {
            0..3 => message.with(IFLA_IFNAME, name(rng)),
            3..7 => message.with(IFLA_MTU, mtu(rng)),
            7..10 => message.with(IFLA_ADDRESS, mac(rng, index)),
            10 => message.with(IFLA_BROADCAST, pick(rng, &[[0xff; 6], [3; 6]])),
            11 => message.with(IFLA_GROUP, number(rng, &[0, 5, 6])),
            12..14 => {
                let aliases: [&[u8]; 5] = [b"alias", b"", b"\0", b"with\0nul", &[0x61; 256]];
                message.with(IFLA_IFALIAS, pick(rng, &aliases))
            }
            14 => message.with(IFLA_MASTER, number(rng, &[12, 0, 99])),
            _ => {
                let (number, payload) = odd_attribute(rng, 5);
                message.with(number, payload)
            }
        };
    }
    message
}

fn enslave(rng: &mut fastrand::Rng) -> Message {
    let master = pick(rng, &[12_u32, 12, 12, 13, 13, 0, 0, 10, 99]);
    Message::new(NEWLINK, 0, &ifinfomsg(index(rng), 0, 0)).with(IFLA_MASTER, master.to_ne_bytes())
}

fn change_kind(rng: &mut fastrand::Rng) -> Message {
    let kind = pick(
        rng,
        &["bridge", "bridge", "vxlan", "vxlan", "macvlan", "veth"],
    );
    let data = match kind {
        "bridge" => bridge_data(rng),
        "vxlan" => vxlan_data(rng, false),
        "macvlan" => attributes([(1, number(rng, &[1, 2, 4, 3]).as_slice())]),
        _ => veth_data(rng),
    };
    let mut info = Vec::new();
    attribute(&mut info, 1, kind.as_bytes());
    attribute(&mut info, 2, &data);
    Message::new(NEWLINK, 0, &ifinfomsg(index(rng), 0, 0)).with(IFLA_LINKINFO, info)
}

fn delete(rng: &mut fastrand::Rng) -> Message {
    let index = if rng.u8(..4) == 0 { 0 } else { index(rng) };
    let mut message = Message::new(DELLINK, 0, &ifinfomsg(index, 0, 0));
    if index == 0 && rng.u8(..4) > 0 {
        message = message.with(IFLA_IFNAME, name(rng));
    }
    if rng.u8(..10) == 0 {
        message = message.with(IFLA_GROUP, number(rng, &[0, 5, 6]));
    }
    message
}

fn get(rng: &mut fastrand::Rng) -> Message {
    let index = if rng.bool() { 0 } else { index(rng) };
    let mut message = Message::new(GETLINK, 0, &ifinfomsg(index, 0, 0));
    if rng.bool() {
        message = message.with(IFLA_IFNAME, name(rng));
    }
    if rng.u8(..6) == 0 {
        message.body[pick(rng, &[1, 2, 8, 12])] = 1;
    }
    message
}

fn dump(rng: &mut fastrand::Rng) -> Message {
    let mut message = Message::new(GETLINK, DUMP, &ifinfomsg(0, 0, 0));
    match rng.u8(..8) {
        0..2 => message = message.with(IFLA_MASTER, number(rng, &[12, 13, 0, u32::MAX, 99])),
        2..4 => {
            let kind = pick(rng, &["veth", "bridge", "macvlan", "nosuch", ""]);
            message = message.with(IFLA_LINKINFO, attributes([(1, kind.as_bytes())]));
        }
        4 => message.body[pick(rng, &[1, 2, 4, 8, 12])] = 1,
        5 => message = message.with(pick(rng, &[IFLA_MTU, 77]), [0; 4]),
        6 => message = message.with(IFLA_EXT_MASK, [0; 4]),
        _ => {}
    }
    message
}
