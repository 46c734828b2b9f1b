//! What a link and an address are called: interface names and patterns of them, labels, hardware
//! addresses. Names are bytes of bounded length, held in place, so that objects stay cheap to copy
//! and compare.

use std::fmt;
use std::str::FromStr;

use super::ParseError;

/// An interface name: 1 to 15 bytes, which need not be UTF-8 (`IFNAMSIZ` less the NUL).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IfName(Short);

impl IfName {
    /// A name from the bytes that the kernel keeps, without the closing NUL.
    ///
    /// # Errors
    ///
    /// When the kernel's `dev_valid_name` would refuse it.
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

    /// The bytes, without a NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns true if the kernel takes it for a template when a link gets it, and replaces `%d` by
    /// a number. No link has such a name, and none can be desired.
    pub fn is_template(&self) -> bool {
        self.as_bytes().contains(&b'%')
    }

    /// The name as text, where it is UTF-8.
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
    /// Bytes that are not UTF-8 are shown as U+FFFD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for IfName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// The label of an IPv4 address, such as `eth0:1`: 1 to 15 bytes of any kind but NUL. By custom it
/// begins with the device's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Short);

impl Label {
    /// A label from the bytes that the kernel keeps, without the closing NUL.
    ///
    /// # Errors
    ///
    /// When there are none, more than 15, or a NUL among them.
    pub fn from_bytes(label: &[u8]) -> Result<Label, ParseError> {
        Short::new(label)
            .map(Label)
            .ok_or_else(|| ParseError::Label(String::from_utf8_lossy(label).into_owned()))
    }

    /// The bytes, without a NUL.
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
    /// Bytes that are not UTF-8 are shown as U+FFFD.
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
    /// An address from its bytes.
    ///
    /// # Errors
    ///
    /// When there are none, or more than 32.
    pub fn from_bytes(address: &[u8]) -> Result<LinkAddr, ParseError> {
        if address.is_empty() || address.len() > 32 {
            return Err(ParseError::LinkAddr(format!("{} bytes", address.len())));
        }
        let mut bytes = [0; 32];
        bytes[..address.len()].copy_from_slice(address);
        Ok(LinkAddr { bytes, len: address.len() as u8 })
    }

    /// The bytes.
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

/// 1 to 15 bytes, held in place (`IFNAMSIZ` less the NUL). They need not be UTF-8.
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

/// The name of an interface, or a pattern of names: `*` stands for any bytes, or none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfacePattern(Vec<u8>);

impl InterfacePattern {
    /// A pattern from its bytes, which need not be UTF-8.
    ///
    /// # Errors
    ///
    /// When no name fits: what is beside `*` is more than 15 bytes, or has one that no name has.
    pub fn from_bytes(pattern: &[u8]) -> Result<InterfacePattern, ParseError> {
        let rest: Vec<u8> = pattern.iter().copied().filter(|byte| *byte != ANY).collect();
        if pattern.is_empty() || !rest.is_empty() {
            IfName::from_bytes(&rest)
                .map_err(|_| ParseError::IfName(String::from_utf8_lossy(pattern).into_owned()))?;
        }
        Ok(InterfacePattern(pattern.to_vec()))
    }

    /// The bytes of the pattern.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the name fits the pattern.
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

    /// Returns true if a name can fit both patterns.
    pub(crate) fn meets(&self, other: &InterfacePattern) -> bool {
        let (one, other) = (self.as_bytes(), other.as_bytes());
        // By how much of either is read: whether a name can have fitted both so far.
        let mut fits = vec![vec![false; other.len() + 1]; one.len() + 1];
        fits[0][0] = true;
        for at in 0..=one.len() {
            for of in 0..=other.len() {
                let is_same = at > 0 && of > 0 && one[at - 1] == other[of - 1];
                // Where one has `*`, that ends here, or takes what the other has here.
                let is_any = at > 0 && one[at - 1] == ANY || of > 0 && other[of - 1] == ANY;
                fits[at][of] |= is_same && fits[at - 1][of - 1]
                    || is_any && (at > 0 && fits[at - 1][of] || of > 0 && fits[at][of - 1]);
            }
        }
        fits[one.len()][other.len()]
    }
}

/// What stands for any bytes in a pattern.
const ANY: u8 = b'*';

impl FromStr for InterfacePattern {
    type Err = ParseError;

    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes).
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
