//! `ip neigh` and `bridge fdb`, as ip/ipneigh.c and bridge/fdb.c send them.

use super::words::{family_of, octets};
use super::{BRIDGE, Fault, Message, Value, Words, fault, message, raw_attribute, verb};
use trueup_testkit::Kind;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_PORT: u16 = 6;
const NDA_PROTOCOL: u16 = 12;

const NTF_USE: u8 = 0x01;
const NTF_SELF: u8 = 0x02;
const NTF_MASTER: u8 = 0x04;
const NTF_PROXY: u8 = 0x08;
const NTF_EXT_LEARNED: u8 = 0x10;
const NTF_ROUTER: u8 = 0x80;

const REACHABLE: u16 = 0x02;
const NOARP: u16 = 0x40;
const PERMANENT: u16 = 0x80;

const STATES: &[(&str, u32)] = &[
    ("none", 0),
    ("incomplete", 0x01),
    ("reachable", 0x02),
    ("stale", 0x04),
    ("delay", 0x08),
    ("probe", 0x10),
    ("failed", 0x20),
    ("noarp", 0x40),
    ("permanent", 0x80),
];

fn neighbour(verb: (bool, u16), family: u8, state: u16, flags: u8, dev: String) -> Message {
    let mut header = vec![family, 0, 0, 0, 0, 0, 0, 0];
    header.extend(state.to_ne_bytes());
    header.extend([flags, 0]);
    let mut message = message(Kind::Neighbour, verb, header);
    message.device = Some((4, dev));
    message
}

pub(super) fn parse(words: &mut Words<'_>) -> Result<Message, Fault> {
    let verb = verb(words)?;
    let mut dst = None;
    let mut dev = None;
    let mut state = PERMANENT;
    let mut flags = 0;
    let mut attrs = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "dev" => dev = Some(words.value(word)?.to_owned()),
            "lladdr" => attrs.push((NDA_LLADDR, Value::Bytes(words.lladdr(word)?))),
            "nud" => state = words.named(word, STATES)? as u16,
            "proxy" => {
                flags |= NTF_PROXY;
                dst = Some(words.address(word)?);
            }
            "router" => flags |= NTF_ROUTER,
            "extern_learn" => flags |= NTF_EXT_LEARNED,
            "use" => flags |= NTF_USE,
            "protocol" | "proto" => {
                let protocol = words.named(word, super::PROTOCOLS)? as u8;
                attrs.push((NDA_PROTOCOL, protocol.into()));
            }
            "to" => dst = Some(words.address(word)?),
            _ => match raw_attribute(words, word)? {
                Some(attr) => attrs.push(attr),
                None if dst.is_none() => {
                    dst = Some(word.parse().map_err(|_| words.unknown(word))?);
                }
                None => return Err(words.unknown(word)),
            },
        }
    }
    let (Some(dst), Some(dev)) = (dst, dev) else {
        return Err(words.fault("a neighbour needs an address and dev NAME"));
    };
    let mut message = neighbour(verb, family_of(dst), state, flags, dev);
    message.attrs.push((NDA_DST, Value::Bytes(octets(dst))));
    message.attrs.extend(attrs);
    Ok(message)
}

pub(super) fn forwarding(words: &mut Words<'_>) -> Result<Message, Fault> {
    let verb = verb(words)?;
    let lladdr = words.lladdr("fdb")?;
    let mut dev = None;
    let mut state = 0;
    let mut flags = 0;
    let mut attrs = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "dev" => dev = Some(words.value(word)?.to_owned()),
            "dst" => {
                let dst = words.address(word)?;
                attrs.push((NDA_DST, Value::Bytes(octets(dst))));
            }
            "port" => {
                let port = words.number::<u16>(word)?.to_be_bytes();
                attrs.push((NDA_PORT, Value::Bytes(port.to_vec())));
            }
            "self" => flags |= NTF_SELF,
            "master" => flags |= NTF_MASTER,
            "extern_learn" => flags |= NTF_EXT_LEARNED,
            "local" | "permanent" => state |= PERMANENT,
            "static" | "temp" => state |= NOARP | REACHABLE,
            "dynamic" => state |= REACHABLE,
            "protocol" | "proto" => {
                attrs.push((NDA_PROTOCOL, words.number::<u8>(word)?.into()));
            }
            _ => match raw_attribute(words, word)? {
                Some(attr) => attrs.push(attr),
                None => return Err(words.unknown(word)),
            },
        }
    }
    words.end()?;
    let Some(dev) = dev else {
        return Err(fault(0, "a forwarding entry needs dev NAME"));
    };
    if flags & (NTF_SELF | NTF_MASTER) == 0 {
        flags |= NTF_SELF;
    }
    if state & (PERMANENT | REACHABLE) == 0 {
        state |= PERMANENT;
    }
    let mut message = neighbour(verb, BRIDGE, state, flags, dev);
    message.attrs.push((NDA_LLADDR, Value::Bytes(lladdr)));
    message.attrs.extend(attrs);
    Ok(message)
}
