//! `ip link`, as ip/iplink.c and its kinds send it.

use super::words::octets;
use super::{Fault, Message, Value, Words, message, raw_attribute, verb};
use trueup_testkit::Kind;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_GROUP: u16 = 27;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;

const IFF_UP: u32 = 1;
const IFF_NOARP: u32 = 0x80;

type Attrs = Vec<(u16, Value)>;

pub(super) fn parse(words: &mut Words<'_>) -> Result<Message, Fault> {
    let (delete, flags) = match words.peek() {
        Some("set") => {
            words.next();
            (false, 0)
        }
        _ => verb(words)?,
    };
    let create = flags != 0;
    let mut name = None;
    let mut index = 0;
    let (mut set, mut mask) = (0, 0);
    let mut attrs = Attrs::new();
    let mut info = Attrs::new();
    while let Some(word) = words.next() {
        let mut flag = |bit: u32, on: bool| {
            mask |= bit;
            set = if on { set | bit } else { set & !bit };
        };
        match word {
            "dev" if name.is_none() => name = Some(words.value(word)?.to_owned()),
            // Another name: `link set v0 name v9`.
            "name" if name.is_some() => attrs.push((IFLA_IFNAME, Value::text(words.value(word)?))),
            "name" => name = Some(words.value(word)?.to_owned()),
            "up" => flag(IFF_UP, true),
            "down" => flag(IFF_UP, false),
            "arp" => {
                let off = words.value(word)? == "off";
                flag(IFF_NOARP, off);
            }
            "index" => index = words.number(word)?,
            "link" => attrs.push((IFLA_LINK, Value::Device(words.value(word)?.to_owned()))),
            "master" => attrs.push((IFLA_MASTER, Value::Device(words.value(word)?.to_owned()))),
            "nomaster" => attrs.push((IFLA_MASTER, 0_u32.into())),
            "mtu" => attrs.push((IFLA_MTU, words.number::<u32>(word)?.into())),
            "txqueuelen" => attrs.push((IFLA_TXQLEN, words.number::<u32>(word)?.into())),
            "address" => attrs.push((IFLA_ADDRESS, Value::Bytes(words.lladdr(word)?))),
            "alias" => {
                let alias = words.value(word)?.as_bytes().to_vec();
                attrs.push((IFLA_IFALIAS, Value::Bytes(alias)));
            }
            "group" => attrs.push((IFLA_GROUP, words.named(word, &[("default", 0)])?.into())),
            "addrgenmode" => {
                let mode = words.named(word, &[("eui64", 0), ("none", 1)])? as u8;
                let inet6 = Value::Nest(vec![(8, mode.into())]);
                attrs.push((IFLA_AF_SPEC, Value::Nest(vec![(10, inet6)])));
            }
            "type" => {
                let kind = words.value(word)?.to_owned();
                let data = kind_data(words, &kind)?;
                // Without the NUL, as iproute2 sends it.
                info.push((INFO_KIND, Value::Bytes(kind.into_bytes())));
                if !data.is_empty() {
                    info.push((INFO_DATA, Value::Nest(data)));
                }
            }
            _ => match raw_attribute(words, word)? {
                Some(attr) => attrs.push(attr),
                None if name.is_none() => name = Some(word.to_owned()),
                None => return Err(words.unknown(word)),
            },
        }
    }
    let Some(name) = name else {
        return Err(words.fault("which link?"));
    };
    let mut header = vec![0; 4];
    header.extend(u32::to_ne_bytes(index));
    header.extend(u32::to_ne_bytes(set));
    header.extend(u32::to_ne_bytes(mask));
    let mut message = message(Kind::Link, (delete, flags), header);
    if create {
        message.attrs.push((IFLA_IFNAME, Value::text(&name)));
    } else {
        message.device = Some((4, name));
    }
    message.attrs.extend(attrs);
    if !info.is_empty() {
        message.attrs.push((IFLA_LINKINFO, Value::Nest(info)));
    }
    Ok(message)
}

/// A number of an attribute by its word, how wide it is, and the names of values.
type Option_ = (&'static str, u16, Width, &'static [(&'static str, u32)]);

#[derive(Clone, Copy)]
enum Width {
    Byte,
    Short,
    /// In network order.
    Port,
    Word,
}

const NONE: &[(&str, u32)] = &[];

const BRIDGE: &[Option_] = &[
    ("forward_delay", 1, Width::Word, NONE),
    ("hello_time", 2, Width::Word, NONE),
    ("max_age", 3, Width::Word, NONE),
    ("ageing_time", 4, Width::Word, NONE),
    ("stp_state", 5, Width::Word, NONE),
    ("priority", 6, Width::Short, NONE),
    ("vlan_filtering", 7, Width::Byte, NONE),
];
const VXLAN: &[Option_] = &[
    ("id", 1, Width::Word, NONE),
    ("vni", 1, Width::Word, NONE),
    ("ttl", 5, Width::Byte, NONE),
    ("dstport", 15, Width::Port, NONE),
];
const VLAN: &[Option_] = &[
    ("id", 1, Width::Short, NONE),
    (
        "protocol",
        5,
        Width::Port,
        &[("802.1q", 0x8100), ("802.1Q", 0x8100), ("802.1ad", 0x88a8)],
    ),
];
const MACVLAN: &[Option_] = &[(
    "mode",
    1,
    Width::Word,
    &[
        ("private", 1),
        ("vepa", 2),
        ("bridge", 4),
        ("passthru", 8),
        ("source", 16),
    ],
)];
const BOND: &[Option_] = &[
    (
        "mode",
        1,
        Width::Byte,
        &[
            ("balance-rr", 0),
            ("active-backup", 1),
            ("balance-xor", 2),
            ("broadcast", 3),
            ("802.3ad", 4),
            ("balance-tlb", 5),
            ("balance-alb", 6),
        ],
    ),
    ("miimon", 3, Width::Word, NONE),
];
const VRF: &[Option_] = &[("table", 1, Width::Word, NONE)];

fn kind_data(words: &mut Words<'_>, kind: &str) -> Result<Attrs, Fault> {
    let options = match kind {
        "bridge" => BRIDGE,
        "vxlan" => VXLAN,
        "vlan" => VLAN,
        "macvlan" => MACVLAN,
        "bond" => BOND,
        "vrf" => VRF,
        _ => &[],
    };
    let mut data = Attrs::new();
    while let Some(word) = words.next() {
        let address = |words: &mut Words<'_>, v4: u16, v6: u16| {
            let address = words.address(word)?;
            let number = if address.is_ipv4() { v4 } else { v6 };
            Ok((number, Value::Bytes(octets(address))))
        };
        match (kind, word) {
            ("veth", "peer") => data.push((1, peer(words)?)),
            ("vxlan", "remote" | "group") => data.push(address(words, 2, 16)?),
            ("vxlan", "local") => data.push(address(words, 4, 17)?),
            ("vxlan", "dev") => data.push((3, Value::Device(words.value(word)?.to_owned()))),
            ("vxlan", "learning") => data.push((7, 1_u8.into())),
            ("vxlan", "nolearning") => data.push((7, 0_u8.into())),
            _ => {
                let known = options.iter().find(|(name, ..)| *name == word);
                let Some((_, number, width, names)) = known else {
                    return Err(words.unknown(word));
                };
                let value = words.named(word, names)?;
                let value = match width {
                    Width::Byte => vec![value as u8],
                    Width::Short => (value as u16).to_ne_bytes().to_vec(),
                    Width::Port => (value as u16).to_be_bytes().to_vec(),
                    Width::Word => value.to_ne_bytes().to_vec(),
                };
                data.push((*number, Value::Bytes(value)));
            }
        }
    }
    Ok(data)
}

/// The other end: a link of its own within the nest.
fn peer(words: &mut Words<'_>) -> Result<Value, Fault> {
    let mut attrs = Attrs::new();
    let mut header = vec![0; 16];
    while let Some(word) = words.next() {
        match word {
            "name" => attrs.push((IFLA_IFNAME, Value::text(words.value(word)?))),
            "address" => attrs.push((IFLA_ADDRESS, Value::Bytes(words.lladdr(word)?))),
            "mtu" => attrs.push((IFLA_MTU, words.number::<u32>(word)?.into())),
            "index" => {
                let index = words.number::<u32>(word)?;
                header[4..8].copy_from_slice(&index.to_ne_bytes());
            }
            _ => return Err(words.unknown(word)),
        }
    }
    Ok(Value::Behind(header, attrs))
}
