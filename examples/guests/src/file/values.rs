//! The values in a file; each is checked when it is parsed.

use std::fmt;

use serde::Deserialize;
use toml::Value;

use crate::host::MAX_NAME;

/// QEMU's largest bound of a throttle.
const MAX_BOUND: u64 = 1_000_000_000_000_000;

/// The name of a guest, a disk, a network interface or a backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

/// A number, usually of bytes: `1073741824`, `"1GiB"` or `"1GB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Size(u64);

/// A disk's bound in bytes or requests a second; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Bound(u64);

/// A MAC address, as written in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Mac(String);

impl Name {
    /// Returns the text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Name, String> {
        let is_letter = |c: char| c.is_ascii_lowercase();
        let is_known = |c: char| is_letter(c) || c.is_ascii_digit() || c == '-';
        match name.starts_with(is_letter) && name.chars().all(is_known) && name.len() <= MAX_NAME {
            true => Ok(Name(name)),
            false => Err(format!(
                "{name:?} is no name: use at most {MAX_NAME} of a to z, 0 to 9 and '-', \
                 a letter first"
            )),
        }
    }
}

impl Size {
    /// Returns the number, in bytes for a size.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<Value> for Size {
    type Error = String;

    fn try_from(value: Value) -> Result<Size, String> {
        let bytes = match &value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            Value::String(text) => bytes(text),
            _ => None,
        };
        // QEMU's sizes are signed.
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
        bytes.map(Size).ok_or_else(|| {
            format!(
                "{value} is no size: write bytes, such as 1048576, or \"1MiB\", \"1MB\", \"2GiB\""
            )
        })
    }
}

impl Bound {
    /// Returns the number, 0 for no bound.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<Value> for Bound {
    type Error = String;

    fn try_from(value: Value) -> Result<Bound, String> {
        match Size::try_from(value)?.0 {
            bound @ 0..=MAX_BOUND => Ok(Bound(bound)),
            bound => Err(format!(
                "{bound} is above {MAX_BOUND}, the most that QEMU takes: write 0 for no bound"
            )),
        }
    }
}

fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("kB", 1000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = UNITS.into_iter().find(|(known, _)| *known == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl Mac {
    /// Returns the address, as written in the file.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address as QEMU reports it.
    pub(super) fn canonical(&self) -> String {
        self.0.to_ascii_lowercase().replace('-', ":")
    }
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Mac, String> {
        let octets: Vec<_> = text.split([':', '-']).collect();
        let is_digits = |octet: &&str| octet.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_octet = |octet: &&str| octet.len() == 2 && is_digits(octet);
        let first = u8::from_str_radix(octets[0], 16).unwrap_or(1);
        match octets.len() == 6 && octets.iter().all(is_octet) && first & 1 == 0 {
            true => Ok(Mac(text)),
            false => Err(format!(
                "{text:?} is no address of one interface: write six pairs of digits, \
                 the first one even, such as 52:54:00:12:34:56"
            )),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
