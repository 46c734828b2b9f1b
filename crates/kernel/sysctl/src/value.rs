//! Values as text, and the comparison of two texts as the kernel reads them.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::{Error, Key};

/// The longest value in bytes. With its newline it is one byte less than a page, the most that the
/// kernel accepts in one write (`PAGE_SIZE - 1` in `kernel/sysctl.c`). A second write would be a
/// second value.
pub(crate) const MAX_LEN: usize = 4094;

/// A value to write: one line of text, trimmed, with single spaces between words.
///
/// ```
/// use trueup_sysctl::Value;
///
/// assert_eq!("  40000\t50000 ".parse::<Value>()?.as_str(), "40000 50000");
/// assert_eq!(Value::from(true).as_str(), "1");
/// assert!("1\n2".parse::<Value>().is_err());
/// # Ok::<(), trueup_sysctl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(String);

impl Value {
    /// Returns the text, without a newline.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Value, Error> {
        if text.contains('\n') {
            let message = "a value has no newline in it: the kernel takes one line";
            return Err(Error::value(message.to_owned()));
        }
        if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(Error::value(format!(
                "a value has no control character in it, such as {c:?}"
            )));
        }
        let value = normalize_space(text);
        if value.len() > MAX_LEN {
            let length = value.len();
            let message = format!("a value has {MAX_LEN} bytes at most, this one {length}");
            return Err(Error::value(message));
        }
        Ok(Value(value))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value(number.to_string())
    }
}

/// Converts true to 1 and false to 0.
impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value(u8::from(flag).to_string())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Trims a text, and replaces white space by single spaces.
pub(crate) fn normalize_space(text: &str) -> String {
    joined(text.split_ascii_whitespace())
}

fn joined(words: impl Iterator<Item: Borrow<str>>) -> String {
    Vec::from_iter(words).join(" ")
}

/// Returns true if two texts are the same value of a key.
pub(crate) fn is_same_value(key: &Key, one: &str, other: &str) -> bool {
    one == other || canonical(key, one) == canonical(key, other)
}

/// Compares two optional texts in the same way.
pub(crate) fn are_same(key: &Key, one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same_value(key, one, other),
        (one, other) => one == other,
    }
}

/// Returns the text that the kernel would read back, as far as known without asking it.
fn canonical(key: &Key, text: &str) -> String {
    match key.name() {
        // A bitmap, written as a list: `1,2,3` is read as `1-3` (`proc_do_large_bitmap`).
        "ip_local_reserved_ports" => ports(text).unwrap_or_else(|| normalize_space(text)),
        // Hex masks without a prefix: both 010 and 10 are sixteen.
        "rps_default_mask" | "flow_limit_cpu_bitmap" => normalize_space(text),
        // A set: it reads back in the kernel's order.
        "tcp_allowed_congestion_control" => {
            joined(BTreeSet::from_iter(text.split_ascii_whitespace()).into_iter())
        }
        // An IPv6 address: it reads back in full length.
        "stable_secret" => {
            let trimmed = text.trim_ascii();
            let address: Result<Ipv6Addr, _> = trimmed.parse();
            address.map_or_else(|_| trimmed.to_owned(), |address| address.to_string())
        }
        _ => joined(
            text.split_ascii_whitespace()
                .map(|word| number(word).unwrap_or_else(|| word.to_owned())),
        ),
    }
}

/// Parses a number like the kernel: hex after `0x`, octal after `0`, else decimal (`proc_get_long`
/// in `kernel/sysctl.c`).
fn number(word: &str) -> Option<String> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word),
    };
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match (hex, digits.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    // Rust's parser accepts a plus sign, but the kernel does not.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let number = u64::from_str_radix(digits, radix).ok()?;
    let sign = if number == 0 { "" } else { sign };
    Some(format!("{sign}{number}"))
}

/// Returns a list of ports and ranges in its shortest form.
fn ports(text: &str) -> Option<String> {
    let mut ranges = Vec::new();
    for part in text.split(',').map(str::trim_ascii) {
        if part.is_empty() {
            continue;
        }
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (number(first)?.parse().ok()?, number(last)?.parse().ok()?);
        if first > last {
            return None;
        }
        ranges.push((first, last));
    }
    ranges.sort_unstable();
    let mut merged: Vec<(u16, u16)> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if u32::from(first) <= u32::from(before.1) + 1 => {
                before.1 = before.1.max(last);
            }
            _ => merged.push((first, last)),
        }
    }
    let parts: Vec<_> = merged
        .into_iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    Some(parts.join(","))
}

#[cfg(test)]
mod tests;
