//! `ip addr`, as ip/ipaddress.c of iproute2 sends it.

use super::words::{family_of, octets};
use super::{Command, Fault, INET, SCOPES, Value, Words, message, raw_attribute, verb};
use trueup_testkit::Kind;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

/// The flags that `ip` has words for.
const FLAGS: [(&str, u32); 6] = [
    ("nodad", 0x02),
    ("optimistic", 0x04),
    ("home", 0x10),
    ("mngtmpaddr", 0x100),
    ("noprefixroute", 0x200),
    ("autojoin", 0x400),
];

pub(super) fn parse(words: &mut Words<'_>, family: u8) -> Result<Command, Fault> {
    if words.take("flush") {
        words.expect("dev")?;
        let dev = words.value("dev")?.to_owned();
        return Ok(Command::FlushAddresses { dev, family });
    }
    let verb = verb(words)?;
    let mut address = None;
    let mut peer = None;
    let mut scope = None;
    let mut dev = None;
    let mut flags = 0;
    let mut lifetimes = None;
    let mut attrs = Vec::new();
    let lifetime = |words: &mut Words<'_>, of| match words.peek() {
        Some("forever") => {
            words.next();
            Ok(u32::MAX)
        }
        _ => words.number(of),
    };
    while let Some(word) = words.next() {
        match word {
            "dev" => dev = Some(words.value(word)?.to_owned()),
            "peer" | "remote" => peer = words.prefix(word)?,
            "scope" => scope = Some(words.named(word, SCOPES)? as u8),
            "label" => attrs.push((IFA_LABEL, Value::text(words.value(word)?))),
            "broadcast" | "brd" => {
                let broadcast = words.address(word)?;
                attrs.push((IFA_BROADCAST, Value::Bytes(octets(broadcast))));
            }
            "metric" => attrs.push((IFA_RT_PRIORITY, words.number::<u32>(word)?.into())),
            "proto" => attrs.push((IFA_PROTO, words.number::<u8>(word)?.into())),
            "valid_lft" => {
                lifetimes.get_or_insert([u32::MAX; 2])[1] = lifetime(words, word)?;
            }
            "preferred_lft" => {
                lifetimes.get_or_insert([u32::MAX; 2])[0] = lifetime(words, word)?;
            }
            "local" => address = words.prefix(word)?,
            _ if FLAGS.iter().any(|(name, _)| *name == word) => {
                flags |= FLAGS
                    .iter()
                    .filter(|(name, _)| *name == word)
                    .fold(0, |_, (_, bit)| *bit);
            }
            _ => match raw_attribute(words, word)? {
                Some(attr) => attrs.push(attr),
                None if address.is_none() => {
                    let mut one = Words::new(word)?;
                    address = one.prefix("addr").map_err(|_| words.unknown(word))?;
                }
                None => return Err(words.unknown(word)),
            },
        }
    }
    let Some(local) = address else {
        return Err(words.fault("which address?"));
    };
    let Some(dev) = dev else {
        return Err(words.fault("on which device? write dev NAME"));
    };
    let loopback = family_of(local.address) == INET && local.address.is_loopback();
    let default = if loopback && !verb.0 { 254 } else { 0 };
    let len = peer.map_or(local.len, |peer| peer.len);
    let header = [
        family_of(local.address),
        len,
        flags as u8,
        scope.unwrap_or(default),
        0,
        0,
        0,
        0,
    ];
    let mut message = message(Kind::Address, verb, header.to_vec());
    message.device = Some((4, dev));
    message
        .attrs
        .push((IFA_LOCAL, Value::Bytes(octets(local.address))));
    let far = peer.unwrap_or(local).address;
    message.attrs.push((IFA_ADDRESS, Value::Bytes(octets(far))));
    if flags > 0xff {
        message.header[2] = 0;
        message.attrs.push((IFA_FLAGS, flags.into()));
    }
    if let Some([preferred, valid]) = lifetimes {
        let info = [preferred, valid, 0, 0].map(u32::to_ne_bytes);
        message
            .attrs
            .push((IFA_CACHEINFO, Value::Bytes(info.as_flattened().to_vec())));
    }
    message.attrs.extend(attrs);
    Ok(Command::Message(message))
}
