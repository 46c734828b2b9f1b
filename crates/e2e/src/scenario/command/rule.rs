//! `ip rule`, as ip/iprule.c sends it.

use super::words::{Prefix, bits, family_of, octets};
use super::{Fault, INET, Message, PROTOCOLS, TABLES, Value, Words, message, raw_attribute, verb};
use trueup_testkit::Kind;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_IFGROUP: u16 = 13;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_L3MDEV: u16 = 19;
const FRA_UID_RANGE: u16 = 20;
const FRA_PROTOCOL: u16 = 21;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;

const FR_ACT_TO_TBL: u8 = 1;
const FR_ACT_GOTO: u8 = 2;
const ACTIONS: [(&str, u8); 4] = [
    ("nop", 3),
    ("blackhole", 6),
    ("unreachable", 7),
    ("prohibit", 8),
];
const FIB_RULE_INVERT: u8 = 2;
const MAIN: u8 = 254;

pub(super) fn parse(words: &mut Words<'_>, family: u8) -> Result<Message, Fault> {
    let verb = verb(words)?;
    // family, dst_len, src_len, tos, table, two reserved, action, flags
    let mut header = vec![family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if !verb.0 {
        header[7] = FR_ACT_TO_TBL;
    }
    let mut attrs = Vec::new();
    let mut table_named = false;
    while let Some(word) = words.next() {
        match word {
            "not" => header[8] |= FIB_RULE_INVERT,
            "from" | "to" => {
                let Some(Prefix { address, len }) = words.prefix(word)? else {
                    continue;
                };
                if family != 0 && family_of(address) != family {
                    return Err(words.fault_here("an address of the other family"));
                }
                header[0] = family_of(address);
                let (at, number) = if word == "from" {
                    (2, FRA_SRC)
                } else {
                    (1, FRA_DST)
                };
                header[at] = len;
                attrs.push((number, Value::Bytes(octets(address))));
            }
            "pref" | "preference" | "priority" | "order" => {
                attrs.push((FRA_PRIORITY, words.number::<u32>(word)?.into()));
            }
            "tos" | "dsfield" => {
                let text = words.value(word)?;
                let tos = u8::from_str_radix(text.trim_start_matches("0x"), 16);
                header[3] = tos.map_err(|_| words.fault_here("a TOS is two hex digits"))?;
            }
            "fwmark" => {
                let text = words.value(word)?;
                let (mark, mask) = text.split_once('/').unwrap_or((text, ""));
                let number = |text| {
                    bits(text).ok_or_else(|| words.fault_here("a mark is written MARK[/MASK]"))
                };
                attrs.push((FRA_FWMARK, number(mark)?.into()));
                if !mask.is_empty() {
                    attrs.push((FRA_FWMASK, number(mask)?.into()));
                }
            }
            "iif" | "dev" => attrs.push((FRA_IIFNAME, Value::text(words.value(word)?))),
            "oif" => attrs.push((FRA_OIFNAME, Value::text(words.value(word)?))),
            "l3mdev" => {
                table_named = true;
                attrs.push((FRA_L3MDEV, 1_u8.into()));
            }
            "ipproto" => {
                let names = &[("icmp", 1), ("tcp", 6), ("udp", 17), ("ipv6-icmp", 58)];
                attrs.push((FRA_IP_PROTO, (words.named(word, names)? as u8).into()));
            }
            "sport" => attrs.push((
                FRA_SPORT_RANGE,
                range::<u16>(words, word, |n| n.to_ne_bytes().to_vec())?,
            )),
            "dport" => attrs.push((
                FRA_DPORT_RANGE,
                range::<u16>(words, word, |n| n.to_ne_bytes().to_vec())?,
            )),
            "uidrange" => attrs.push((
                FRA_UID_RANGE,
                range::<u32>(words, word, |n| n.to_ne_bytes().to_vec())?,
            )),
            "suppress_prefixlength" => {
                attrs.push((FRA_SUPPRESS_PREFIXLEN, words.number::<u32>(word)?.into()));
            }
            "suppress_ifgroup" => {
                attrs.push((FRA_SUPPRESS_IFGROUP, words.number::<u32>(word)?.into()));
            }
            "protocol" | "proto" => {
                attrs.push((FRA_PROTOCOL, (words.named(word, PROTOCOLS)? as u8).into()));
            }
            "table" | "lookup" => {
                table_named = true;
                let table = words.named(word, TABLES)?;
                match u8::try_from(table) {
                    Ok(table) => header[4] = table,
                    Err(_) => attrs.push((FRA_TABLE, table.into())),
                }
            }
            "goto" => {
                header[7] = FR_ACT_GOTO;
                attrs.push((FRA_GOTO, words.number::<u32>(word)?.into()));
            }
            // For rules that `ip` never sends: without an action, or a table.
            "action" if words.raw => header[7] = words.number(word)?,
            _ => match (
                ACTIONS.iter().find(|(name, _)| *name == word),
                raw_attribute(words, word)?,
            ) {
                (Some((_, action)), _) => header[7] = *action,
                (None, Some(attr)) => attrs.push(attr),
                (None, None) => return Err(words.unknown(word)),
            },
        }
    }
    if header[0] == 0 {
        header[0] = INET;
    }
    if !table_named && !verb.0 {
        header[4] = MAIN;
    }
    let mut message = message(Kind::Rule, verb, header);
    message.attrs = attrs;
    Ok(message)
}

/// `N` or `N-M`.
fn range<T: std::str::FromStr>(
    words: &mut Words<'_>,
    of: &str,
    bytes: impl Fn(T) -> Vec<u8>,
) -> Result<Value, Fault> {
    let text = words.value(of)?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) => Ok(Value::Bytes([bytes(first), bytes(last)].concat())),
        _ => Err(words.fault_here(format!("{of:?} takes N or N-M"))),
    }
}
