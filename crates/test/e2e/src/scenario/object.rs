//! The kernel's rows in iproute2's words, read from raw bytes, apart from the codecs under test.
//! This module selects the rows that a scenario means, and has the common words; the modules below
//! have each object's own.

mod device;
mod route;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Selection;
use super::numbers::{BRIDGE, INET, INET6};
use super::text::Phrase;
use trueup_testkit::{Action, Kind, RawMessage, u16_at, u32_at};

/// Names of interfaces by index.
pub(super) type Names = BTreeMap<u32, String>;

/// Returns a row as a phrase. With `details` it includes status, and values that vary by chance.
pub(super) fn phrase(row: &RawMessage, names: &Names, details: bool) -> Phrase {
    let mut words = String::new();
    let mut say = Say { row, names, details, out: &mut words };
    match row.kind {
        Kind::Link => say.link(),
        Kind::Address => say.address(),
        Kind::Neighbour if row.family() == BRIDGE => say.forwarding(),
        Kind::Neighbour => say.neighbour(),
        Kind::Route => say.route(),
        Kind::Rule => say.rule(),
        Kind::Nexthop => say.nexthop(),
    }
    Phrase::new(&words)
}

/// Returns an expected row, completed with the defaults.
pub(super) fn expected(kind: Kind, text: &str) -> Phrase {
    let phrase = Phrase::new(text);
    match kind {
        Kind::Route => phrase.or("proto", "boot").or("table", "main"),
        Kind::Neighbour if !text.contains("proxy") => phrase.or("nud", "permanent"),
        _ => phrase,
    }
}

/// Formats an announcement: `deleted` if so, the kind's word, then the row.
pub(super) fn event(row: &RawMessage, names: &Names) -> String {
    let gone = if row.action == Action::Del { "deleted " } else { "" };
    format!("{gone}{} {}", row.kind.word(), phrase(row, names, false))
}

/// Formats an expected announcement as [`event`] does.
pub(super) fn expected_event(text: &str) -> String {
    let (gone, object) = match text.strip_prefix("deleted ") {
        Some(object) => ("deleted ", object),
        None => ("", text),
    };
    let (word, rest) = object.split_once(' ').unwrap_or((object, ""));
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    let phrase = kind.map_or_else(|| Phrase::new(rest), |kind| expected(kind, rest));
    format!("{gone}{word} {phrase}")
}

impl Selection {
    pub(super) fn takes(&self, row: &RawMessage, phrase: &Phrase, names: &Names) -> bool {
        let family = self.family == 0 || row.family() == self.family;
        let with = self.with.iter().all(|(word, value)| {
            phrase.value(word) == Some(value)
                || (word == "dev" && names.get(&row.device()).is_some_and(|name| name == value))
                || (word == "to" && phrase.says(&Phrase::new(value)))
        });
        family && with && (self.all || !is_the_kernels_own(row))
    }
}

/// Returns true for rows that exist without any writer, or follow from another object.
pub(super) fn is_the_kernels_own(row: &RawMessage) -> bool {
    const KERNEL: u8 = 2;
    const TABLE_LOCAL: u32 = 255;
    const LOOPBACK: u32 = 1;
    let head = row.header.as_slice();
    match row.kind {
        Kind::Route => {
            row.protocol() == Some(KERNEL)
                || (row.table() == Some(TABLE_LOCAL) && row.header[7] == 5)
        }
        Kind::Rule => row.protocol() == Some(KERNEL),
        Kind::Address if row.family() == INET6 => match row.attrs.get(&1).map(Vec::as_slice) {
            Some([0xfe, second, ..]) => {
                second & 0xc0 == 0x80 && row.protocol().is_none_or(|p| (1..=3).contains(&p))
            }
            Some(address) => row.device() == LOOPBACK && address == Ipv6Addr::LOCALHOST.octets(),
            None => false,
        },
        Kind::Address => {
            row.device() == LOOPBACK
                && row.attrs.get(&2).is_some_and(|local| local == &[127, 0, 0, 1])
        }
        Kind::Neighbour if row.family() == BRIDGE => {
            // The ports' own addresses, and multicast groups.
            let multicast =
                row.attrs.get(&2).is_some_and(|lladdr| lladdr.first().is_some_and(|b| b & 1 != 0));
            multicast || u16_at(head, 8) & 0x80 != 0 && head[10] & 0x02 == 0
        }
        Kind::Link => row.device() == LOOPBACK,
        Kind::Neighbour | Kind::Nexthop => false,
    }
}

struct Say<'a> {
    row: &'a RawMessage,
    names: &'a Names,
    details: bool,
    out: &'a mut String,
}

fn ip(bytes: &[u8]) -> String {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(four).to_string();
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(sixteen) => Ipv6Addr::from(sixteen).to_string(),
        Err(_) => format!("?{bytes:02x?}").replace(' ', ""),
    }
}

fn lladdr(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).replace(' ', "_")
}

fn number(bytes: &[u8]) -> u32 {
    match bytes {
        [byte] => u32::from(*byte),
        [_, _] => u32::from(u16_at(bytes, 0)),
        [_, _, _, _, ..] => u32_at(bytes, 0),
        _ => 0,
    }
}

fn by_number(names: &[(&'static str, u32)], number: u32) -> String {
    let known = names.iter().find(|(_, n)| *n == number);
    known.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

impl<'a> Say<'a> {
    fn word(&mut self, word: impl AsRef<str>) {
        if !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(word.as_ref());
    }

    fn pair(&mut self, word: &str, value: impl ToString) {
        self.word(word);
        self.word(value.to_string());
    }

    fn attr(&self, number: u16) -> Option<&'a [u8]> {
        self.row.attrs.get(&number).map(Vec::as_slice)
    }

    fn dev(&self, index: u32) -> String {
        self.names.get(&index).cloned().unwrap_or_else(|| format!("if{index}"))
    }

    /// Adds the names of the bits in `set`.
    fn flags(&mut self, set: u32, flags: &[(u32, &str)]) {
        for (bit, name) in flags {
            if set & bit != 0 {
                self.word(name);
            }
        }
    }

    fn prefix(&mut self, attr: u16, len: u8) -> String {
        match self.attr(attr) {
            None if len == 0 => "default".to_owned(),
            None if self.row.family() == INET => format!("0.0.0.0/{len}"),
            None => format!("::/{len}"),
            Some(address) => format!("{}/{len}", ip(address)),
        }
    }
}
