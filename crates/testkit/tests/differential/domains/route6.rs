//! IPv6 routes: few prefixes, metrics, tables, gateways and devices, so that they collide; between
//! them links go up and down, and addresses come and go.

use crate::case::Domain;
use crate::chance::pick;
use crate::message::{
    APPEND, CREATE, DUMP, EXCL, Message, REPLACE, again, attribute, ifinfomsg, odd_attribute,
    set_up, veth,
};

pub(crate) struct Routes6;

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const NEWROUTE: u16 = 24;
const DELROUTE: u16 = 25;
const GETROUTE: u16 = 26;

const NEWRULE: u16 = 32;
const DELRULE: u16 = 33;
const NEWNEXTHOP: u16 = 104;
const DELNEXTHOP: u16 = 105;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_PREF: u16 = 20;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;

impl Domain for Routes6 {
    fn name(&self) -> &'static str {
        "route6"
    }

    fn prelude(&self) -> Vec<Message> {
        vec![
            veth("v0", 10, "v1", 11),
            veth("v2", 12, "v3", 13),
            set_up(10, true),
            set_up(11, true),
            set_up(12, true),
            set_up(13, true),
            address_message(NEWADDR, CREATE, 10, "2001:db8:1::1", 64),
            address_message(NEWADDR, CREATE, 12, "2001:db8:2::1", 64),
        ]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..55 => route(rng, NEWROUTE),
            55..72 => route(rng, DELROUTE),
            72..82 => {
                let kind = [NEWADDR, DELADDR][usize::from(rng.bool())];
                let length = pick(rng, &[64, 64, 64, 128, 48]);
                let address = pick(
                    rng,
                    &["2001:db8:1::1", "2001:db8:1::5", "2001:db8:2::1", "fe80::9"],
                );
                let device = pick(rng, &[10, 10, 11, 12, 13]);
                let flags = pick(rng, &[CREATE, CREATE, CREATE | EXCL, CREATE | REPLACE, 0]);
                let message = address_message(kind, flags, device, address, length);
                with_options(rng, message)
            }
            82..88 => set_up(pick(rng, &[10, 11, 12, 13]), rng.u8(..3) > 0),
            88 => mtu(rng),
            89 if rng.u8(..3) == 0 => Message::new(DELLINK, 0, &ifinfomsg(12, 0, 0)),
            90..94 => object(rng),
            94 | 95 => rule(rng),
            _ => dump(rng),
        }
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        let mut sent: Vec<Message> = Vec::new();
        for _ in 0..length {
            let repeated = (rng.u8(..6) == 0)
                .then(|| again(rng, &sent))
                .flatten()
                .filter(is_modelled);
            let message = repeated.unwrap_or_else(|| self.message(rng));
            sent.push(message);
        }
        sent
    }
}

fn bytes(address: &str) -> [u8; 16] {
    address.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

fn address_message(kind: u16, flags: u16, device: u8, address: &str, length: u8) -> Message {
    const IFA_ADDRESS: u16 = 1;
    let fixed = [10, length, 0, 0, device, 0, 0, 0];
    Message::new(kind, flags, &fixed).with(IFA_ADDRESS, bytes(address))
}

/// What of an address says something about its prefix route.
fn with_options(rng: &mut fastrand::Rng, mut message: Message) -> Message {
    const IFA_CACHEINFO: u16 = 6;
    const IFA_FLAGS: u16 = 8;
    const IFA_RT_PRIORITY: u16 = 9;
    if message.kind != NEWADDR {
        return message;
    }
    if rng.u8(..5) == 0 {
        message = message.maybe(IFA_FLAGS, number(pick(rng, &[0x200, 0])));
    }
    if rng.u8(..5) == 0 {
        message = message.maybe(IFA_RT_PRIORITY, number(pick(rng, &[0, 256, 1024, 7])));
    }
    if rng.u8(..4) == 0 {
        let lifetime = pick(rng, &[u32::MAX, 5000, 9000]).to_ne_bytes();
        let lifetimes = [lifetime, lifetime, [0; 4], [0; 4]];
        message = message.with(IFA_CACHEINFO, lifetimes.concat());
    }
    message
}

/// Links that are too small for IPv6 among them.
fn mtu(rng: &mut fastrand::Rng) -> Message {
    const IFLA_MTU: u16 = 4;
    let index = pick(rng, &[10, 10, 12, 13]);
    let mtu = pick(rng, &[1500, 1400, 1300, 1280, 1000]);
    Message::new(NEWLINK, 0, &ifinfomsg(index, 0, 0)).maybe(IFLA_MTU, number(mtu))
}

const DESTINATIONS: &[(&str, u8)] = &[
    ("::", 0),
    ("2001:db8:a::", 48),
    ("2001:db8:a::", 48),
    ("2001:db8:a::", 64),
    ("2001:db8:a:0:7::", 64),
    ("2001:db8:a::1", 128),
    ("2001:db8:1::", 64),
    ("2001:db8:1::1", 128),
    ("2001:db8:1::2", 128),
    ("fe80::", 64),
    ("ff00::", 8),
    ("::1", 128),
];

const GATEWAYS: &[&str] = &[
    "fe80::1",
    "fe80::1",
    "fe80::2",
    "fe80::2",
    "2001:db8:1::2",
    "2001:db8:1::2",
    "2001:db8:1::3",
    "2001:db8:2::2",
    "2001:db8:1::1",
    "2001:db8:a::9",
    "fe80::ff:fe00:a",
    "::",
    "::1",
    "ff02::1",
    "::ffff:10.0.0.1",
];

fn gateway(rng: &mut fastrand::Rng) -> [u8; 16] {
    bytes(pick(rng, GATEWAYS))
}

fn device(rng: &mut fastrand::Rng) -> u32 {
    pick(rng, &[10, 10, 10, 11, 12, 12, 13, 1, 99])
}

fn number(value: u32) -> Option<[u8; 4]> {
    Some(value.to_ne_bytes())
}

/// `RTM_NEWROUTE` or `RTM_DELROUTE`; what is there to be deleted is less exact.
fn route(rng: &mut fastrand::Rng, kind: u16) -> Message {
    let new = kind == NEWROUTE;
    let (destination, mut length) = pick(rng, DESTINATIONS);
    if rng.u8(..40) == 0 {
        length = pick(rng, &[129, 255, 1, 127]);
    }
    let source = match rng.u8(..12) {
        0 => Some(pick(
            rng,
            &[("2001:db8:f::", 48), ("2001:db8:1::", 64), ("::", 64)],
        )),
        _ => None,
    };
    let table = pick(rng, &[254, 254, 254, 254, 254, 0, 255, 100]);
    let protocol = pick(rng, &[3, 3, 4, 186, 0, 2]);
    let route_type = match rng.u8(..8) {
        0 => rng.u8(..14),
        1 => pick(rng, &[6, 7, 8, 9]),
        2 => 0,
        _ => 1,
    };
    let mut header_flags = 0_u32;
    if rng.u8(..10) == 0 {
        header_flags |= 4; // RTNH_F_ONLINK
    }
    if rng.u8(..60) == 0 {
        header_flags = 1 << rng.u8(..32);
    }
    if rng.u8(..60) == 0 {
        header_flags |= 0x200; // RTM_F_CLONED
    }
    let mut fixed = vec![
        10,
        length,
        source.map_or(0, |(_, length)| length),
        u8::from(rng.u8(..50) == 0),
        table,
        protocol,
        rng.u8(..),
        route_type,
    ];
    fixed.extend(header_flags.to_ne_bytes());

    let flags = match (new, rng.u8(..10)) {
        (true, 0..5) => CREATE,
        (true, 5) => CREATE | EXCL,
        (true, 6) => CREATE | REPLACE,
        (true, 7) => REPLACE,
        (true, 8) => CREATE | APPEND,
        (true, _) => pick(rng, &[0, APPEND, EXCL, REPLACE | EXCL, 0xf00]),
        (false, 0) => pick(rng, &[EXCL, CREATE, 0xd00]),
        (false, _) => 0,
    };
    let mut message = Message::new(kind, flags, &fixed);
    if length > 0 || rng.u8(..8) == 0 {
        let bytes = bytes(destination);
        message = match rng.u8(..30) {
            0 => message,
            1 => message.with(RTA_DST, &bytes[..rng.usize(..16)]),
            2 => message.with(RTA_DST, [bytes, bytes].concat()),
            _ => message.with(RTA_DST, bytes),
        };
    }
    if let Some((address, _)) = source {
        message = message.with(RTA_SRC, bytes(address));
    }
    if rng.u8(..10) == 0 {
        message = message.maybe(RTA_TABLE, number(pick(rng, &[1000, 254, 100, 0, 256])));
    }
    if rng.bool() {
        let metric = pick(rng, &[0, 1, 1024, 1024, 256, 1025, u32::MAX]);
        message = message.maybe(RTA_PRIORITY, number(metric));
    }
    message = way(rng, message, new);
    if !new {
        return odd(rng, message);
    }
    if rng.u8(..8) == 0 {
        let address = pick(
            rng,
            &[
                "2001:db8:1::1",
                "2001:db8:2::1",
                "2001:db8:1::7",
                "::",
                "fe80::ff:fe00:a",
                "::1",
            ],
        );
        message = message.with(RTA_PREFSRC, bytes(address));
    }
    if rng.u8(..8) == 0 {
        message = message.with(RTA_METRICS, metrics(rng));
    }
    if rng.u8(..8) == 0 {
        message = message.with(RTA_PREF, [rng.u8(..5)]);
    }
    if rng.u8(..8) == 0 {
        message = message.maybe(
            RTA_EXPIRES,
            number(pick(rng, &[300, 1000, u32::MAX, 0x7fff_ffff])),
        );
    }
    odd(rng, message)
}

/// A device, a gateway, both, or several of them.
fn way(rng: &mut fastrand::Rng, mut message: Message, new: bool) -> Message {
    match rng.u8(..if new { 11 } else { 20 }) {
        0..3 => {
            let device = device(rng);
            message.maybe(RTA_OIF, number(device))
        }
        3..7 => {
            let (device, gateway) = (device(rng), gateway(rng));
            message
                .maybe(RTA_OIF, number(device))
                .with(RTA_GATEWAY, gateway)
        }
        7 => {
            let gateway = gateway(rng);
            message.with(RTA_GATEWAY, gateway)
        }
        8 | 9 => {
            if rng.u8(..8) == 0 {
                let gateway = gateway(rng);
                message = message.with(RTA_GATEWAY, gateway);
            }
            if rng.u8(..8) == 0 {
                let device = device(rng);
                message = message.maybe(RTA_OIF, number(device));
            }
            let hops = hops(rng);
            message.with(RTA_MULTIPATH, hops)
        }
        10 => message.maybe(RTA_NH_ID, number(rng.u32(..6))),
        _ => message,
    }
}

/// `struct rtnexthop`, several times; now and then malformed.
fn hops(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut hops = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let mut inner = Vec::new();
        if rng.u8(..15) > 0 {
            let gateway = match rng.u8(..4) {
                0 => gateway(rng),
                _ => bytes(pick(rng, &["fe80::1", "fe80::2", "2001:db8:1::2"])),
            };
            let length = if rng.u8(..30) == 0 { 15 } else { 16 };
            attribute(&mut inner, RTA_GATEWAY, &gateway[..length]);
        }
        let mut length = 8 + inner.len() as u16;
        if rng.u8(..40) == 0 {
            length = rng.u16(..40);
        }
        hops.extend(length.to_ne_bytes());
        hops.push(if rng.u8(..8) == 0 { 4 } else { 0 });
        hops.push(pick(rng, &[0, 0, 1, 255]));
        let device = if rng.u8(..5) == 0 {
            0
        } else {
            pick(rng, &[10, 10, 12, 12, 11, 99])
        };
        hops.extend(u32::to_ne_bytes(device));
        hops.extend(inner);
    }
    hops
}

fn metrics(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut nest = Vec::new();
    for _ in 0..rng.usize(..3) {
        let (number, payload): (u16, Vec<u8>) = match rng.u8(..12) {
            0 => (16, b"reno\0".to_vec()),
            1 => (16, b"nosuch".to_vec()),
            2 => (rng.u16(..20), vec![0; rng.usize(..6)]),
            3 => (12, rng.u32(..64).to_ne_bytes().to_vec()),
            4 => (1, 4_u32.to_ne_bytes().to_vec()),
            5..9 => (
                2,
                pick(rng, &[1300_u32, 1400, 1500, 70000])
                    .to_ne_bytes()
                    .to_vec(),
            ),
            _ => (rng.u16(3..18), rng.u32(..400).to_ne_bytes().to_vec()),
        };
        attribute(&mut nest, number, &payload);
    }
    nest
}

/// A rule that leads to another table, or nowhere.
fn rule(rng: &mut fastrand::Rng) -> Message {
    const FRA_PRIORITY: u16 = 6;
    let kind = pick(rng, &[NEWRULE, NEWRULE, DELRULE]);
    let action = pick(rng, &[1, 1, 1, 7]);
    let table = pick(rng, &[100, 101, 254]);
    let fixed = [10, 0, 0, 0, table, 0, 0, action, 0, 0, 0, 0];
    let priority = pick(rng, &[10, 40000]);
    Message::new(kind, CREATE | EXCL, &fixed).maybe(FRA_PRIORITY, number(priority))
}

/// A nexthop object: a link-local gateway, a device, a blackhole, or a group of others.
fn object(rng: &mut fastrand::Rng) -> Message {
    const NHA_ID: u16 = 1;
    const NHA_GROUP: u16 = 2;
    const NHA_BLACKHOLE: u16 = 4;
    const NHA_OIF: u16 = 5;
    const NHA_GATEWAY: u16 = 6;
    let id = rng.u32(1..5);
    if rng.u8(..4) == 0 {
        return Message::new(DELNEXTHOP, 0, &[0; 8]).maybe(NHA_ID, number(id));
    }
    let flags = CREATE | pick(rng, &[0, REPLACE]);
    let fixed = |family| [family, 0, 3, 0, 0, 0, 0, 0];
    let single = Message::new(NEWNEXTHOP, flags, &fixed(10)).maybe(NHA_ID, number(id));
    match rng.u8(..6) {
        0 => single.with(NHA_BLACKHOLE, []),
        1 => single.maybe(NHA_OIF, number(pick(rng, &[10, 12]))),
        2 | 3 => {
            let group = Message::new(NEWNEXTHOP, flags, &fixed(0)).maybe(NHA_ID, number(id));
            let mut entries = Vec::new();
            for _ in 0..rng.usize(1..3) {
                entries.extend(rng.u32(1..5).to_ne_bytes());
                entries.extend([rng.u8(..3), 0, 0, 0]);
            }
            group.with(NHA_GROUP, entries)
        }
        _ => single
            .maybe(NHA_OIF, number(pick(rng, &[10, 10, 12, 11])))
            .with(NHA_GATEWAY, gateway(rng)),
    }
}

/// Now and then with an attribute that does not belong, comes again or is cut.
fn odd(rng: &mut fastrand::Rng, message: Message) -> Message {
    let message = match rng.u8(..60) {
        0 | 1 => {
            let (number, payload) = odd_attribute(rng, 40);
            message.with(number, payload)
        }
        2 => message.with(RTA_VIA, [10; 18]),
        3 => message.with(RTA_PRIORITY, [1; 4]),
        4 => {
            let mut cut = message;
            let keep = cut.body.len() - rng.usize(..cut.body.len().min(8));
            cut.body.truncate(keep);
            cut
        }
        _ => message,
    };
    if is_modelled(&message) {
        message
    } else {
        Message::new(GETROUTE, DUMP, &[10; 12])
    }
}

/// What the fake says it does not have is kept out: encapsulation, lookups of one route, lifetimes
/// that end at once, and all that belongs to other domains.
fn is_modelled(message: &Message) -> bool {
    match message.kind {
        NEWROUTE | DELROUTE => {}
        GETROUTE if message.flags & DUMP != 0 => {}
        NEWNEXTHOP | DELNEXTHOP => return message.flags & !(CREATE | REPLACE) == 0,
        _ => return false,
    }
    let mut rest = message.body.get(12..).unwrap_or(&[]);
    while let Some([a, b, c, d, ..]) = rest.get(..4) {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        let number = u16::from_ne_bytes([*c, *d]) & 0x3fff;
        let Some(payload) = rest.get(4..length) else {
            break;
        };
        let ends = number == RTA_EXPIRES
            && payload
                .first_chunk::<4>()
                .is_some_and(|seconds| u32::from_ne_bytes(*seconds) < 300);
        if ends || matches!(number, RTA_ENCAP | RTA_ENCAP_TYPE) {
            return false;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    !message.body.is_empty() && message.body[0] == 10
}

/// A dump, perhaps limited.
fn dump(rng: &mut fastrand::Rng) -> Message {
    let mut fixed = vec![0; 12];
    fixed[0] = 10;
    for (at, values) in [
        (4, [254, 255, 100, 77]),
        (5, [2, 3, 4, 186]),
        (7, [1, 2, 6, 5]),
    ] {
        if rng.u8(..4) == 0 {
            fixed[at] = pick(rng, &values);
        }
    }
    if rng.u8(..10) == 0 {
        fixed[rng.usize(1..12)] = 1 << rng.u8(..8);
    }
    let mut message = Message::new(GETROUTE, DUMP, &fixed);
    if rng.u8(..3) == 0 {
        let device = device(rng);
        message = message.maybe(RTA_OIF, number(device));
    }
    if rng.u8(..3) == 0 {
        message = message.maybe(RTA_TABLE, number(pick(rng, &[254, 1000, 5000, 0])));
    }
    if rng.u8(..10) == 0 {
        let (number, payload) = odd_attribute(rng, 34);
        message = message.with(number, payload);
    }
    message
}
