//! `ip route`, as ip/iproute.c sends it.

use std::net::IpAddr;

use super::encode::Hop;
use super::words::{Prefix, family_of, named, octets};
use super::{
    Command, Fault, INET, INET6, PROTOCOLS, RTAX, SCOPES, TABLES, TYPES, Value, Words, message,
    raw_attribute, verb,
};
use trueup_testkit::Kind;

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
const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;

const RTNH_F_ONLINK: u8 = 4;
const RTAX_LOCK: u16 = 1;
const RTAX_FEATURES: u32 = 12;

const MAIN: u32 = 254;
const LOCAL_TABLE: u32 = 255;
const BOOT: u8 = 3;
const UNICAST: u8 = 1;
const LOCAL: u8 = 2;
const NOWHERE: u8 = 255;

pub(super) fn parse(words: &mut Words<'_>, family: u8) -> Result<Command, Fault> {
    if words.take("flush") {
        return flush(words, family);
    }
    let verb = verb(words)?;
    let delete = verb.0;
    let (mut dst, mut dst_said) = (None, false);
    let (mut tos, mut table, mut protocol, mut scope, mut kind) = (0, None, None, None, None);
    let (mut flags, mut dev, mut via) = (0, None, None);
    let mut from: Option<Prefix> = None;
    let mut metrics = Vec::new();
    let mut lock = 0_u32;
    let mut hops = Vec::new();
    let mut attrs = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "via" => via = Some(gateway(words)?),
            "dev" | "oif" => dev = Some(words.value(word)?.to_owned()),
            "from" => from = words.prefix(word)?,
            "src" => attrs.push((RTA_PREFSRC, Value::Bytes(octets(words.address(word)?)))),
            "metric" | "priority" | "preference" => {
                attrs.push((RTA_PRIORITY, words.number::<u32>(word)?.into()));
            }
            "tos" | "dsfield" => {
                let text = words.value(word)?;
                let hex = u8::from_str_radix(text.trim_start_matches("0x"), 16);
                tos = hex.map_err(|_| words.fault_here("a TOS is two hex digits"))?;
            }
            "table" => table = Some(words.named(word, TABLES)?),
            "proto" | "protocol" => protocol = Some(words.named(word, PROTOCOLS)? as u8),
            "scope" => scope = Some(words.named(word, SCOPES)? as u8),
            "onlink" => flags |= RTNH_F_ONLINK,
            "nhid" => attrs.push((RTA_NH_ID, words.number::<u32>(word)?.into())),
            "expires" => attrs.push((RTA_EXPIRES, words.number::<u32>(word)?.into())),
            "pref" => {
                let pref = words.named(word, &[("medium", 0), ("high", 1), ("low", 3)])? as u8;
                attrs.push((RTA_PREF, pref.into()));
            }
            "nexthop" => hops.push(hop(words)?),
            "type" => kind = Some(words.named(word, TYPES)? as u8),
            "to" => (dst, dst_said) = (words.prefix(word)?, true),
            _ => {
                if let Some((_, number)) = RTAX.iter().find(|(name, n)| *name == word && *n != 1) {
                    if words.take("lock") {
                        lock |= 1 << number;
                    }
                    let value = match (*number, words.peek()) {
                        (RTAX_FEATURES, Some("ecn")) => {
                            words.next();
                            1_u32
                        }
                        _ => words.number(word)?,
                    };
                    metrics.push((*number as u16, value.into()));
                } else if let Some((_, number)) = TYPES.iter().find(|(name, _)| *name == word) {
                    kind = Some(*number as u8);
                } else if let Some(attr) = raw_attribute(words, word)? {
                    attrs.push(attr);
                } else if !dst_said {
                    dst = Words::new(word)?
                        .prefix("route")
                        .map_err(|_| words.unknown(word))?;
                    dst_said = true;
                } else {
                    return Err(words.unknown(word));
                }
            }
        }
    }
    if !dst_said && !words.raw {
        return Err(words.fault("to which destination? write a prefix or default"));
    }
    let families = [dst, from]
        .into_iter()
        .flatten()
        .map(|p| family_of(p.address));
    let by_gateway = via
        .filter(|(other, _)| !other)
        .map(|(_, via)| family_of(via));
    let family = Some(family)
        .filter(|family| *family != 0)
        .or_else(|| families.into_iter().next())
        .or(by_gateway)
        .unwrap_or(INET);

    let indirect = attrs.iter().any(|(number, _)| *number == RTA_NH_ID);
    let reached_directly = via.is_none() && hops.is_empty() && !indirect;
    let own = kind.unwrap_or(if delete { 0 } else { UNICAST });
    if table.is_none() && matches!(own, LOCAL | 3 | 4 | 10) {
        table = Some(LOCAL_TABLE);
    }
    let scope = scope.unwrap_or(match own {
        _ if family == INET6 => 0,
        LOCAL | 10 => 254,
        3..=5 => 253,
        0 | UNICAST if delete => NOWHERE,
        0 | UNICAST if reached_directly => 253,
        _ if delete => NOWHERE,
        _ => 0,
    });
    let table = table.unwrap_or(MAIN);
    let protocol = protocol.unwrap_or(if delete { 0 } else { BOOT });
    let dst_len = dst.map_or(0, |dst| dst.len);
    let src_len = from.map_or(0, |from| from.len);
    let byte = u8::try_from(table).unwrap_or(0);
    let header = vec![
        family, dst_len, src_len, tos, byte, protocol, scope, own, flags, 0, 0, 0,
    ];
    let mut message = message(Kind::Route, verb, header);
    for (number, prefix) in [(RTA_DST, dst), (RTA_SRC, from)] {
        let bytes = prefix.map(|prefix| Value::Bytes(octets(prefix.address)));
        message.attrs.extend(bytes.map(|bytes| (number, bytes)));
    }
    if byte == 0 {
        message.attrs.push((RTA_TABLE, table.into()));
    }
    message
        .attrs
        .extend(via.map(|(_, via)| via_attribute(via, family)));
    message
        .attrs
        .extend(dev.map(|dev| (RTA_OIF, Value::Device(dev))));
    message.attrs.extend(attrs);
    if lock != 0 {
        metrics.insert(0, (RTAX_LOCK, lock.into()));
    }
    if !metrics.is_empty() {
        message.attrs.push((RTA_METRICS, Value::Nest(metrics)));
    }
    if !hops.is_empty() {
        let leg = |(mut hop, via): (Hop, Option<(bool, IpAddr)>)| {
            hop.attrs
                .extend(via.map(|(_, via)| via_attribute(via, family)));
            hop
        };
        message.attrs.push((
            RTA_MULTIPATH,
            Value::Hops(hops.into_iter().map(leg).collect()),
        ));
    }
    Ok(Command::Message(message))
}

/// `via [inet|inet6] ADDRESS`: whether the family was named, and the gateway.
fn gateway(words: &mut Words<'_>) -> Result<(bool, IpAddr), Fault> {
    let said = words.take("inet") || words.take("inet6");
    Ok((said, words.address("via")?))
}

fn via_attribute(via: IpAddr, family: u8) -> (u16, Value) {
    if family_of(via) == family {
        return (RTA_GATEWAY, Value::Bytes(octets(via)));
    }
    let mut bytes = u16::from(family_of(via)).to_ne_bytes().to_vec();
    bytes.extend(octets(via));
    (RTA_VIA, Value::Bytes(bytes))
}

fn hop(words: &mut Words<'_>) -> Result<(Hop, Option<(bool, IpAddr)>), Fault> {
    let mut hop = Hop::default();
    let mut via = None;
    while let Some(word @ ("via" | "dev" | "weight" | "onlink")) = words.peek() {
        words.next();
        match word {
            "via" => via = Some(gateway(words)?),
            "dev" => hop.device = Some(words.value(word)?.to_owned()),
            "weight" => match words.number::<u16>(word)? {
                weight @ 1..=256 => hop.hops = (weight - 1) as u8,
                _ => return Err(words.fault_here("a weight is 1 to 256")),
            },
            _ => hop.flags |= RTNH_F_ONLINK,
        }
    }
    Ok((hop, via))
}

fn flush(words: &mut Words<'_>, family: u8) -> Result<Command, Fault> {
    let family = if family == 0 { INET } else { family };
    let (mut table, mut protocol, mut dev) = (MAIN, None, None);
    while let Some(word) = words.next() {
        match word {
            "table" => table = words.named(word, TABLES)?,
            "proto" | "protocol" => {
                let text = words.value(word)?;
                let number = named(text, PROTOCOLS).and_then(|n| u8::try_from(n).ok());
                protocol = Some(
                    number.ok_or_else(|| words.fault_here("a protocol is a number up to 255"))?,
                );
            }
            "dev" => dev = Some(words.value(word)?.to_owned()),
            _ => return Err(words.unknown(word)),
        }
    }
    Ok(Command::FlushRoutes {
        family,
        table,
        protocol,
        dev,
    })
}
