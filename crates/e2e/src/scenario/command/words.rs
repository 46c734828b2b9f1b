//! A line taken apart into words, as `ip -batch` does.

use std::net::IpAddr;
use std::str::FromStr;

/// The problem of a line: its place (bytes from the start), and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

pub(crate) fn fault(at: usize, message: impl Into<String>) -> Fault {
    Fault {
        at,
        message: message.into(),
    }
}

/// The words of a line, and how many of them have been taken.
pub(crate) struct Words<'a> {
    items: Vec<(usize, &'a str)>,
    at: usize,
    len: usize,
    pub(crate) raw: bool,
}

/// An address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) address: IpAddr,
    pub(crate) len: u8,
}

impl<'a> Words<'a> {
    /// Splits at white space; a word in quotes, single or double, may hold some.
    pub(crate) fn new(text: &'a str) -> Result<Self, Fault> {
        let mut items = Vec::new();
        let mut at = 0;
        while let Some(rest) = text.get(at..) {
            let start = at + (rest.len() - rest.trim_start().len());
            let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let quote = rest.chars().next().filter(|c| "\"'".contains(*c));
            if let Some(quote) = quote {
                let inner = rest.get(1..).unwrap_or_default();
                let Some(end) = inner.find(quote) else {
                    return Err(fault(start, "the quote is not closed"));
                };
                items.push((start, inner.get(..end).unwrap_or_default()));
                at = start + end + 2;
            } else {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                items.push((start, rest.get(..end).unwrap_or_default()));
                at = start + end;
            }
        }
        Ok(Self {
            items,
            at: 0,
            len: text.len(),
            raw: false,
        })
    }

    /// The words that have not been taken.
    pub(crate) fn rest(&self) -> Vec<&'a str> {
        self.items
            .iter()
            .skip(self.at)
            .map(|(_, word)| *word)
            .collect()
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.items.get(self.at).map(|(_, word)| *word)
    }

    pub(crate) fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word if it is this one.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.at += usize::from(is);
        is
    }

    pub(crate) fn expect(&mut self, word: &str) -> Result<(), Fault> {
        if self.take(word) {
            return Ok(());
        }
        Err(self.fault(format!("expected {word:?} here")))
    }

    /// The word that `of` has to be followed by.
    pub(crate) fn value(&mut self, of: &str) -> Result<&'a str, Fault> {
        let after = self.fault(format!("{of:?} needs a value"));
        self.next().ok_or(after)
    }

    pub(crate) fn parsed<T: FromStr>(&mut self, of: &str, what: &str) -> Result<T, Fault> {
        let text = self.value(of)?;
        text.parse()
            .map_err(|_| self.fault_here(format!("{text:?} is no {what}, which {of:?} needs")))
    }

    pub(crate) fn number<T: FromStr>(&mut self, of: &str) -> Result<T, Fault> {
        self.parsed(of, "number, or one out of range,")
    }

    pub(crate) fn address(&mut self, of: &str) -> Result<IpAddr, Fault> {
        self.parsed(of, "IP address")
    }

    /// A prefix; a bare address is its /32 or /128. `default` and `any` have no address of their
    /// own.
    pub(crate) fn prefix(&mut self, of: &str) -> Result<Option<Prefix>, Fault> {
        let text = self.value(of)?;
        if matches!(text, "default" | "any" | "all") {
            return Ok(None);
        }
        let (address, len) = text.split_once('/').unwrap_or((text, ""));
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(self.fault_here(format!("{text:?} is no prefix, which {of:?} needs")));
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            "" if !text.contains('/') => Some(most),
            len => len.parse().ok().filter(|len| *len <= most),
        };
        match len {
            Some(len) => Ok(Some(Prefix { address, len })),
            None => Err(self.fault_here(format!("{text:?}: the length is a number up to {most}"))),
        }
    }

    /// A hardware address.
    pub(crate) fn lladdr(&mut self, of: &str) -> Result<Vec<u8>, Fault> {
        let text = self.value(of)?;
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|two| u8::from_str_radix(two, 16).ok())
            .collect();
        bytes.filter(|bytes| bytes.len() == 6).ok_or_else(|| {
            self.fault_here(format!(
                "{text:?} is no hardware address, which {of:?} needs"
            ))
        })
    }

    /// A number by one of these names, or as such.
    pub(crate) fn named(&mut self, of: &str, names: &[(&str, u32)]) -> Result<u32, Fault> {
        let text = self.value(of)?;
        named(text, names).ok_or_else(|| {
            let known: Vec<_> = names.iter().map(|(name, _)| *name).collect();
            self.fault_here(format!(
                "{text:?} is not known here: write a number or one of {}",
                known.join(", ")
            ))
        })
    }

    /// A fault at the next word, or behind the last.
    pub(crate) fn fault(&self, message: impl Into<String>) -> Fault {
        let at = self.items.get(self.at).map_or(self.len, |(at, _)| *at);
        fault(at, message)
    }

    /// A fault at the word taken last.
    pub(crate) fn fault_here(&self, message: impl Into<String>) -> Fault {
        let last = self.at.checked_sub(1).and_then(|at| self.items.get(at));
        fault(last.map_or(0, |(at, _)| *at), message)
    }

    pub(crate) fn unknown(&self, word: &str) -> Fault {
        self.fault_here(format!(
            "{word:?} is not understood here: remove it, or teach it to the scenario runner (scenario/command)"
        ))
    }

    pub(crate) fn end(&self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(self.fault(format!("{word:?} is one word too many"))),
        }
    }
}

pub(crate) fn bits(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(crate) fn named(text: &str, names: &[(&str, u32)]) -> Option<u32> {
    let by_name = names.iter().find(|(name, _)| *name == text);
    by_name
        .map(|(_, number)| *number)
        .or_else(|| text.parse().ok())
}

/// The bytes of an address.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(crate) fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() {
        super::INET
    } else {
        super::INET6
    }
}
