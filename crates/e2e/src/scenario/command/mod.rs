//! The lines with which a scenario acts: the part of iproute2's language that it may use, read
//! apart from the crates under test and encoded as iproute2 encodes it, with its defaults and
//! flags.
//!
//! On the real kernel the same lines are given to `ip` itself, so each scenario also checks this
//! reading of them.

mod address;
mod encode;
mod link;
mod neighbour;
mod nexthop;
mod route;
mod rule;
mod values;
mod words;

pub(crate) use encode::{Message, Value};
pub(crate) use values::{PROTOCOLS, RTAX, SCOPES, TABLES, TYPES};
pub(crate) use words::{Fault, Words, fault};

use trueup_testkit::Kind;

/// The request of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// One message.
    Message(Message),
    /// `addr flush dev DEV`: all addresses of a device, of one family or both.
    FlushAddresses {
        /// The device.
        dev: String,
        /// `AF_INET`, `AF_INET6`, or 0 for both.
        family: u8,
    },
    /// `route flush`: all routes of a family that have all that is named.
    FlushRoutes {
        /// `AF_INET` or `AF_INET6`.
        family: u8,
        /// Of this table.
        table: u32,
        /// Of this protocol.
        protocol: Option<u8>,
        /// Through this device.
        dev: Option<String>,
    },
    /// `sysctl NAME=VALUE`, below `net.`.
    Sysctl {
        /// Such as `net.ipv6.conf.v0.disable_ipv6`.
        name: String,
        /// The value to write.
        value: String,
    },
}

pub(crate) const INET: u8 = 2;
pub(crate) const INET6: u8 = 10;
pub(crate) const BRIDGE: u8 = 7;

const REPLACE: u16 = 0x100;
const EXCL: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// Reads a line. `raw` lines are never given to `ip`, and may say what it has no words for: flags
/// by name (`route create+append ...`) and attributes by number (`attr 99 00ff`).
pub(crate) fn parse(text: &str, raw: bool) -> Result<Command, Fault> {
    let mut words = Words::new(text)?;
    words.raw = raw;
    if words.take("sysctl") {
        return sysctl(&mut words);
    }
    if words.take("bridge") {
        words.expect("fdb")?;
        return neighbour::forwarding(&mut words).map(Command::Message);
    }
    words.take("ip");
    let family = match words.peek() {
        Some("-4") => INET,
        Some("-6") => INET6,
        _ => 0,
    };
    if family != 0 {
        words.next();
    }
    let Some(object) = words.next() else {
        return Err(words.fault("name an object: link, addr, route, neigh, rule or nexthop"));
    };
    let command = match object {
        "link" => link::parse(&mut words).map(Command::Message),
        "addr" | "address" => address::parse(&mut words, family),
        "route" => route::parse(&mut words, family),
        "neigh" | "neighbour" => neighbour::parse(&mut words).map(Command::Message),
        "rule" => rule::parse(&mut words, family).map(Command::Message),
        "nexthop" => nexthop::parse(&mut words).map(Command::Message),
        other => Err(words.fault_here(format!(
            "{other:?} is no object: write link, addr, route, neigh, rule, nexthop, bridge fdb or sysctl"
        ))),
    }?;
    words.end()?;
    Ok(command)
}

/// Takes the verb: whether it deletes, and the flags of the message.
fn verb(words: &mut Words<'_>) -> Result<(bool, u16), Fault> {
    let Some(verb) = words.next() else {
        return Err(words.fault("name a verb: add, replace, change, append, prepend or del"));
    };
    let flags = match verb {
        "add" => CREATE | EXCL,
        "replace" => CREATE | REPLACE,
        "change" => REPLACE,
        "append" => CREATE | APPEND,
        "prepend" => CREATE,
        "del" | "delete" => return Ok((true, 0)),
        _ if words.raw => {
            let mut flags = 0;
            for flag in verb.split('+') {
                flags |= match flag {
                    "new" => 0,
                    "create" => CREATE,
                    "excl" => EXCL,
                    "replace" => REPLACE,
                    "append" => APPEND,
                    _ => {
                        return Err(words.fault_here(format!(
                            "{flag:?} is no flag: join new, create, excl, replace and append by +"
                        )));
                    }
                };
            }
            flags
        }
        _ => {
            return Err(words.fault_here(format!(
                "{verb:?} is no verb: write add, replace, change, append, prepend or del"
            )));
        }
    };
    Ok((false, flags))
}

/// `attr NUMBER HEX` of a raw line.
fn raw_attribute(words: &mut Words<'_>, word: &str) -> Result<Option<(u16, Value)>, Fault> {
    if !words.raw || word != "attr" {
        return Ok(None);
    }
    let number = words.number::<u16>("attr")?;
    let text = words.value("attr")?;
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
        .collect();
    match bytes {
        Some(bytes) if text.len() % 2 == 0 => Ok(Some((number, Value::Bytes(bytes)))),
        _ => Err(words.fault_here("an attribute's content is written in hex, two digits a byte")),
    }
}

fn message(kind: Kind, (delete, flags): (bool, u16), header: Vec<u8>) -> Message {
    Message {
        message_type: kind.new_type() + u16::from(delete),
        flags,
        header,
        device: None,
        attrs: Vec::new(),
    }
}

fn sysctl(words: &mut Words<'_>) -> Result<Command, Fault> {
    words.take("-w");
    let setting = words.value("sysctl")?;
    let Some((name, value)) = setting.split_once('=') else {
        return Err(words.fault_here("write sysctl NAME=VALUE, without spaces around the ="));
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !name.starts_with("net.") || name.contains("..") || !name.chars().all(plain) {
        return Err(
            words.fault_here("a setting's name begins with net., as net.ipv6.conf.v0.disable_ipv6")
        );
    }
    let (name, value) = (name.to_owned(), value.to_owned());
    words.end()?;
    Ok(Command::Sysctl { name, value })
}
