//! Forwarding entries of a bridge, its ports, a VXLAN and a plain link; ports that leave, come
//! back, go down and change their addresses meanwhile. The ports are links that nothing ever comes
//! in at, so that the bridge learns nothing.
//!
//! Left out, as the fake does not know it: VLANs that exist, nexthop objects, deletes in bulk,
//! `NDA_SRC_VNI` and `NDA_FDB_EXT_ATTRS`.

use trueup_testkit::Kind;

use crate::case::{Domain, with_repeats};
use crate::chance::{one_in, pick};
use crate::message::{
    APPEND, CREATE, DUMP, EXCL, Message, REPLACE, attributes, ifinfomsg, odd_attribute, set_up,
};

pub(crate) struct Forwarding;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_VLAN: u16 = 5;
const NDA_PORT: u16 = 6;
const NDA_VNI: u16 = 7;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;
const NDA_SRC_VNI: u16 = 11;
const NDA_PROTOCOL: u16 = 12;
const NDA_NH_ID: u16 = 13;
const NDA_FDB_EXT_ATTRS: u16 = 14;
const NDA_FLAGS_EXT: u16 = 15;
const NDA_MAX: u16 = 17;

const BRIDGE: u32 = 20;
const PORTS: [u32; 2] = [21, 22];
const PLAIN: u32 = 23;
/// Down, so that nothing is sent there and no neighbour comes of it.
const DOWN: u32 = 24;
const VXLAN: u32 = 30;

impl Domain for Forwarding {
    fn name(&self) -> &'static str {
        "fdb"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Neighbour]
    }

    fn prelude(&self) -> Vec<Message> {
        let mut all = vec![
            link(BRIDGE, "b0", "bridge", None),
            link(PORTS[0], "i0", "ifb", None),
            link(PORTS[1], "i1", "ifb", None),
            link(PLAIN, "i2", "ifb", None),
            link(DOWN, "i3", "ifb", None),
            vxlan(None),
        ];
        all.extend(PORTS.map(|port| master(port, BRIDGE)));
        all.extend([BRIDGE, PORTS[0], PORTS[1], PLAIN, VXLAN].map(|index| set_up(index, true)));
        all
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        let port = pick(rng, &PORTS);
        match rng.u8(..40) {
            0 => set_up(port, rng.bool()),
            1 => set_up(pick(rng, &[BRIDGE, VXLAN]), rng.bool()),
            2 => master(pick(rng, &[port, VXLAN]), pick(rng, &[BRIDGE, 0])),
            3 => address(rng),
            4 => Message::new(
                Kind::Link.new_type() + 1,
                0,
                &ifinfomsg(pick(rng, &[VXLAN, VXLAN, BRIDGE, port]), 0, 0),
            ),
            5 => vxlan(rng.bool().then_some([192, 0, 2, 9])),
            6 => link(BRIDGE, "b0", "bridge", None),
            7..=9 => get(rng),
            _ => entry(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        with_repeats(self, rng, length, Kind::Neighbour, is_known)
    }
}

/// Returns true if the fake claims to know what the message is about.
fn is_known(message: &Message) -> bool {
    if message.kind & !3 != Kind::Neighbour.new_type() {
        return true;
    }
    if message.kind & 3 == 1 && message.flags & EXCL != 0 || message.body.first() != Some(&7) {
        return false;
    }
    let mut rest = message.body.get(12..).unwrap_or(&[]);
    while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let number = u16::from_ne_bytes([c, d]) & 0x3fff;
        let numeric = [NDA_MASTER, NDA_FLAGS_EXT].contains(&number) && length < 8;
        let left_out = [NDA_SRC_VNI, NDA_NH_ID, NDA_FDB_EXT_ATTRS].contains(&number);
        if rest.get(4..length).is_none() || numeric || left_out {
            return false;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    true
}

fn link(index: u32, name: &str, kind: &str, data: Option<&[u8]>) -> Message {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_LINKINFO: u16 = 18;
    let info = [(1, kind.as_bytes())].into_iter();
    let info = attributes(info.chain(data.map(|data| (2, data))));
    Message::new(
        Kind::Link.new_type(),
        CREATE | EXCL,
        &ifinfomsg(index, 0, 0),
    )
    .with(IFLA_IFNAME, [name.as_bytes(), &[0]].concat())
    .with(IFLA_ADDRESS, [2, 0, 0, 0, 0, index as u8])
    .with(IFLA_LINKINFO, info)
}

fn vxlan(group: Option<[u8; 4]>) -> Message {
    const IFLA_VXLAN_ID: u16 = 1;
    const IFLA_VXLAN_GROUP: u16 = 2;
    const IFLA_VXLAN_PORT: u16 = 15;
    let (id, port) = (7_u32.to_ne_bytes(), 4789_u16.to_be_bytes());
    let mut data = attributes([(IFLA_VXLAN_ID, &id[..]), (IFLA_VXLAN_PORT, &port)]);
    if let Some(group) = group {
        data.extend(attributes([(IFLA_VXLAN_GROUP, &group[..])]));
    }
    link(VXLAN, "x0", "vxlan", Some(&data))
}

fn master(port: u32, master: u32) -> Message {
    const IFLA_MASTER: u16 = 10;
    Message::new(Kind::Link.new_type(), 0, &ifinfomsg(port, 0, 0))
        .with(IFLA_MASTER, master.to_ne_bytes())
}

/// Few addresses, among them those of links.
fn mac(rng: &mut fastrand::Rng) -> [u8; 6] {
    pick(
        rng,
        &[
            [2, 0, 0, 0, 9, 1],
            [2, 0, 0, 0, 9, 1],
            [2, 0, 0, 0, 9, 2],
            [2, 0, 0, 0, 0, 21],
            [2, 0, 0, 0, 0, 22],
            [2, 0, 0, 0, 0, 20],
            [0; 6],
            [1, 0, 0x5e, 0, 0, 0x63],
        ],
    )
}

fn address(rng: &mut fastrand::Rng) -> Message {
    const IFLA_ADDRESS: u16 = 1;
    let mut new = mac(rng);
    new[0] = 2;
    let index = pick(rng, &[BRIDGE, VXLAN]);
    Message::new(Kind::Link.new_type(), 0, &ifinfomsg(index, 0, 0)).with(IFLA_ADDRESS, new)
}

fn entry(rng: &mut fastrand::Rng) -> Message {
    let delete = one_in(rng, 3);
    let flags = match (delete, rng.u8(..10)) {
        (true, _) => 0,
        (false, 0) => 0,
        (false, 1) => REPLACE,
        (false, 2) => CREATE | EXCL,
        (false, 3 | 4) => CREATE | REPLACE,
        (false, 5..=7) => CREATE | APPEND,
        _ => CREATE,
    };
    let device = pick(
        rng,
        &[
            21, 21, 21, 22, 22, 20, 20, 23, 23, 30, 30, 30, 30, 30, 0, 1, 99,
        ],
    );
    let usual = if device == VXLAN || one_in(rng, 4) {
        2
    } else {
        4
    };
    let how = pick(
        rng,
        &[
            usual, usual, usual, usual, usual, 0, 2, 4, 6, 5, 3, 0x14, 0x12, 0x44, 0x42, 0x24,
        ],
    );
    let state: u16 = pick(
        rng,
        &[
            0x80, 0x80, 0x80, 0x40, 0x40, 0x02, 0x02, 0x82, 0x04, 0, 0x84,
        ],
    );
    // Where to flood to: the only entries that have several destinations.
    let flood = device == VXLAN && !delete && one_in(rng, 3);
    let (flags, how, state) = if flood {
        (CREATE | APPEND, 2, 0x80)
    } else {
        (flags, how, state)
    };
    let mut fixed = vec![7, 0, 0, 0];
    fixed.extend(u32::to_ne_bytes(device));
    fixed.extend(state.to_ne_bytes());
    fixed.extend([how, 0]);
    let mut message = Message::new(if delete { 29 } else { 28 }, flags, &fixed);
    let mut address = if flood { [0; 6] } else { mac(rng) }.to_vec();
    if one_in(rng, 40) {
        address.pop();
    }
    if !one_in(rng, 40) {
        message = message.with(NDA_LLADDR, address);
    }
    if device == VXLAN && !one_in(rng, 6) {
        message = message.with(NDA_DST, destination(rng));
    }
    let rare = pick(rng, &[6, 30]);
    for (number, values) in ATTRIBUTES {
        if one_in(rng, rare) {
            message = message.with(number, values[rng.usize(..values.len())]);
        }
    }
    if one_in(rng, 25) {
        let (number, payload) = odd_attribute(rng, NDA_MAX + 4);
        message = message.with(number, payload);
    }
    message
}

const ATTRIBUTES: [(u16, &[&[u8]]); 7] = [
    (NDA_PROTOCOL, &[&[4], &[99]]),
    (NDA_VLAN, &[&[1, 0], &[0, 0], &[1], &[0xff, 0x0f]]),
    (NDA_PORT, &[&[0x12, 0xb5], &[0, 9], &[0, 0], &[1]]),
    (NDA_VNI, &[&[7, 0, 0, 0], &[8, 0, 0, 0], &[1, 2]]),
    (
        NDA_IFINDEX,
        &[&[24, 0, 0, 0], &[0, 0, 0, 0], &[99, 0, 0, 0]],
    ),
    (NDA_FLAGS_EXT, &[&[0; 4], &[2, 0, 0, 0]]),
    (NDA_MASTER, &[&[20, 0, 0, 0]]),
];

fn destination(rng: &mut fastrand::Rng) -> Vec<u8> {
    match rng.u8(..30) {
        0 => vec![0xfd; 16],
        1 => vec![192, 0],
        2 => vec![0; 4],
        _ => vec![192, 0, 2, rng.u8(1..3)],
    }
}

/// A dump, or one row.
fn get(rng: &mut fastrand::Rng) -> Message {
    let all = rng.bool();
    let mut fixed = vec![0; 12];
    fixed[0] = 7;
    fixed[4] = pick(rng, &[0, 0, 20, 21, 22, 23, 30, 30, 99]);
    if !all {
        fixed[10] = pick(rng, &[0, 0, 2, 2, 4, 6, 1]);
    }
    if one_in(rng, 10) {
        let at = rng.usize(1..12);
        fixed[at] = rng.u8(..);
    }
    if one_in(rng, 20) {
        fixed.truncate(rng.usize(1..12));
    }
    let mut message = Message::new(30, if all { DUMP } else { 0 }, &fixed);
    if !all && !one_in(rng, 10) {
        message = message.with(NDA_LLADDR, mac(rng));
    }
    let number = pick(rng, &[NDA_IFINDEX, NDA_MASTER, NDA_MASTER]);
    let filter: u32 = pick(rng, &[20, 20, 21, 30, 23, 0, 99]);
    if one_in(rng, 2) {
        message = message.with(number, filter.to_ne_bytes());
    }
    if one_in(rng, 12) {
        let (number, payload) = odd_attribute(rng, NDA_MAX + 4);
        message = message.with(number, payload);
    }
    message
}
