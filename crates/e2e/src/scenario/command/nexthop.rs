//! `ip nexthop`, as ip/ipnexthop.c sends it.

use super::words::{family_of, octets};
use super::{Fault, INET, Message, PROTOCOLS, Value, Words, message, raw_attribute, verb};
use trueup_testkit::Kind;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_FDB: u16 = 11;
const RTNH_F_ONLINK: u8 = 4;

pub(super) fn parse(words: &mut Words<'_>) -> Result<Message, Fault> {
    let verb = verb(words)?;
    let mut message = message(Kind::Nexthop, verb, vec![0; 8]);
    while let Some(word) = words.next() {
        let attr = match word {
            "id" => (NHA_ID, words.number::<u32>(word)?.into()),
            "dev" => {
                if message.header[0] == 0 {
                    message.header[0] = INET;
                }
                (NHA_OIF, Value::Device(words.value(word)?.to_owned()))
            }
            "via" => {
                let via = words.address(word)?;
                message.header[0] = family_of(via);
                (NHA_GATEWAY, Value::Bytes(octets(via)))
            }
            "blackhole" => {
                message.header[0] = INET;
                (NHA_BLACKHOLE, Value::Bytes(Vec::new()))
            }
            "fdb" => (NHA_FDB, Value::Bytes(Vec::new())),
            "group" => (NHA_GROUP, group(words)?),
            "onlink" => {
                message.header[4] |= RTNH_F_ONLINK;
                continue;
            }
            "proto" | "protocol" => {
                message.header[2] = words.named(word, PROTOCOLS)? as u8;
                continue;
            }
            _ => match raw_attribute(words, word)? {
                Some(attr) => attr,
                None => return Err(words.unknown(word)),
            },
        };
        message.attrs.push(attr);
    }
    Ok(message)
}

/// `1,3/2`: members, with the weight of one in a hundred behind each.
fn group(words: &mut Words<'_>) -> Result<Value, Fault> {
    let text = words.value("group")?;
    let mut bytes = Vec::new();
    for member in text.split('/') {
        let (id, weight) = member.split_once(',').unwrap_or((member, "1"));
        let (Ok(id), Ok(weight @ 1..=256)) = (id.parse::<u32>(), weight.parse::<u16>()) else {
            return Err(words.fault_here("a group is written ID[,WEIGHT]/ID[,WEIGHT]"));
        };
        bytes.extend(id.to_ne_bytes());
        bytes.extend([(weight - 1) as u8, 0, 0, 0]);
    }
    Ok(Value::Bytes(bytes))
}
