//! The names of links and addresses: interface names, patterns of them, labels, and hardware
//! addresses. Names are bytes of bounded length, stored in place so that objects are cheap to copy
//! and compare.

use std::fmt;
use std::str::FromStr;

use super::ParseError;

/// An interface name: 1 to 15 bytes, not necessarily UTF-8 (`IFNAMSIZ` less the NUL).
///
/// ```
/// use trueup_net::IfName;
///
/// let name: IfName = "eth0".parse()?;
/// assert_eq!(name.to_string(), "eth0");
/// assert!("an-interface-name".parse::<IfName>().is_err()); // 17 bytes
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IfName(Short);

impl IfName {
    /// Makes a name from the kernel's bytes, without the closing NUL.
    ///
    /// # Errors
    ///
    /// If the kernel's `dev_valid_name` would refuse it.
    pub fn from_bytes(name: &[u8]) -> Result<IfName, ParseError> {
        let reserved = name == b"." || name == b"..";
        Short::new(name)
            .filter(|_| {
                !reserved
                    && !name
                        .iter()
                        .any(|b| matches!(b, b'/' | b':' | 0x0b) || b.is_ascii_whitespace())
            })
            .map(IfName)
            .ok_or_else(|| ParseError::IfName(String::from_utf8_lossy(name).into_owned()))
    }

    /// Returns the bytes, without a NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns true if the kernel would take the name for a template and replace `%d` by a number.
    /// No link has such a name, and none can be desired.
    pub fn is_template(&self) -> bool {
        self.as_bytes().contains(&b'%')
    }

    /// Returns the name as text, or `None` if it is not UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }
}

impl FromStr for IfName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<IfName, ParseError> {
        IfName::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for IfName {
    /// Shows bytes that are not UTF-8 as U+FFFD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// An IPv4 address's label, such as `eth0:1`: 1 to 15 bytes other than NUL. By custom it begins
/// with the device's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Short);

impl Label {
    /// Makes a label from the kernel's bytes, without the closing NUL.
    ///
    /// # Errors
    ///
    /// If there are none, more than 15, or a NUL among them.
    pub fn from_bytes(label: &[u8]) -> Result<Label, ParseError> {
        Short::new(label)
            .map(Label)
            .ok_or_else(|| ParseError::Label(String::from_utf8_lossy(label).into_owned()))
    }

    /// Returns the bytes, without a NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl FromStr for Label {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Label, ParseError> {
        Label::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for Label {
    /// Shows bytes that are not UTF-8 as U+FFFD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// A hardware (link-layer) address: 1 to 32 bytes (`MAX_ADDR_LEN`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddr {
    bytes: [u8; 32],
    len: u8,
}

impl LinkAddr {
    /// Makes an address from its bytes.
    ///
    /// # Errors
    ///
    /// If there are none, or more than 32.
    pub fn from_bytes(address: &[u8]) -> Result<LinkAddr, ParseError> {
        if address.is_empty() || address.len() > 32 {
            return Err(ParseError::LinkAddr(format!("{} bytes", address.len())));
        }
        let mut bytes = [0; 32];
        bytes[..address.len()].copy_from_slice(address);
        Ok(LinkAddr { bytes, len: address.len() as u8 })
    }

    /// Returns the 1 to 32 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns true if an Ethernet device can have it: 6 bytes, neither a group's nor all zero
    /// (`is_valid_ether_addr`).
    pub fn is_ethernet(&self) -> bool {
        let bytes = self.as_bytes();
        bytes.len() == 6 && bytes[0] & 1 == 0 && bytes.iter().any(|byte| *byte != 0)
    }
}

impl FromStr for LinkAddr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<LinkAddr, ParseError> {
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| {
                let digits =
                    matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_hexdigit());
                digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
            })
            .collect();
        bytes
            .and_then(|bytes| LinkAddr::from_bytes(&bytes).ok())
            .ok_or_else(|| ParseError::LinkAddr(text.to_owned()))
    }
}

impl fmt::Display for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.as_bytes().iter().enumerate() {
            if i > 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LinkAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// 1 to 15 bytes, stored in place (`IFNAMSIZ` less the NUL), not necessarily UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Short {
    bytes: [u8; 15],
    len: u8,
}

impl Short {
    fn new(text: &[u8]) -> Option<Short> {
        if text.is_empty() || text.len() > 15 || text.contains(&0) {
            return None;
        }
        let mut bytes = [0; 15];
        bytes[..text.len()].copy_from_slice(text);
        Some(Short { bytes, len: text.len() as u8 })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// An interface name, or a pattern of names in which `*` matches any bytes, or none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfacePattern(Vec<u8>);

impl InterfacePattern {
    /// Makes a pattern from its bytes, not necessarily UTF-8.
    ///
    /// # Errors
    ///
    /// If no name can match: without `*` it has more than 15 bytes, or it has a byte that no name
    /// has.
    pub fn from_bytes(pattern: &[u8]) -> Result<InterfacePattern, ParseError> {
        let rest: Vec<u8> = pattern.iter().copied().filter(|byte| *byte != ANY).collect();
        if pattern.is_empty() || !rest.is_empty() {
            IfName::from_bytes(&rest)
                .map_err(|_| ParseError::IfName(String::from_utf8_lossy(pattern).into_owned()))?;
        }
        Ok(InterfacePattern(pattern.to_vec()))
    }

    /// Returns the bytes, in which `*` stands for any number of any bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the whole name matches. Letters match only in the same case.
    pub fn matches(&self, name: &IfName) -> bool {
        let mut parts = self.0.split(|byte| *byte == ANY);
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.as_bytes().strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// Returns true if one name can match both patterns.
    pub(crate) fn meets(&self, other: &InterfacePattern) -> bool {
        let (one, other) = (self.as_bytes(), other.as_bytes());
        // By the lengths read of both: true if one name can match both beginnings.
        let mut fits = vec![vec![false; other.len() + 1]; one.len() + 1];
        fits[0][0] = true;
        for at in 0..=one.len() {
            for of in 0..=other.len() {
                let is_same = at > 0 && of > 0 && one[at - 1] == other[of - 1];
                // A `*` in one ends here, or matches the other's next byte.
                let is_any = at > 0 && one[at - 1] == ANY || of > 0 && other[of - 1] == ANY;
                fits[at][of] |= is_same && fits[at - 1][of - 1]
                    || is_any && (at > 0 && fits[at - 1][of] || of > 0 && fits[at][of - 1]);
            }
        }
        fits[one.len()][other.len()]
    }
}

/// The byte that matches any bytes.
const ANY: u8 = b'*';

impl FromStr for InterfacePattern {
    type Err = ParseError;

    /// Parses a pattern from text.
    ///
    /// # Errors
    ///
    /// The same as [`from_bytes`](Self::from_bytes).
    fn from_str(text: &str) -> Result<InterfacePattern, ParseError> {
        InterfacePattern::from_bytes(text.as_bytes())
    }
}

impl From<IfName> for InterfacePattern {
    fn from(name: IfName) -> InterfacePattern {
        InterfacePattern(name.as_bytes().to_vec())
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}
