//! The small types that every object is made of: families, prefixes, interface names,
//! hardware addresses and device references.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnetwork::IpNetwork;

/// An address family, as in `AF_INET` and `AF_INET6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Family {
    /// IPv4.
    Inet,
    /// IPv6.
    Inet6,
}

impl Family {
    /// The family that an address belongs to.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::Inet,
            IpAddr::V6(_) => Family::Inet6,
        }
    }

    /// The longest prefix length: 32 or 128.
    pub fn max_len(self) -> u8 {
        match self {
            Family::Inet => 32,
            Family::Inet6 => 128,
        }
    }

    /// `0.0.0.0` or `::`.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Family::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// iproute2's word: `inet` or `inet6`.
    pub fn name(self) -> &'static str {
        match self {
            Family::Inet => "inet",
            Family::Inet6 => "inet6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text or a number is not a prefix, a name or a hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Bits to the right of the prefix length are set: the kernel refuses that for IPv4 and
    /// silently masks it for IPv6.
    #[error("{given} has bits set behind its prefix length; write {masked}")]
    HostBits {
        /// What was given.
        given: IpNetwork,
        /// The prefix that was probably meant.
        masked: IpNetwork,
    },
    /// The prefix length exceeds 32 or 128.
    #[error("prefix length {len} is out of range for {family}: 0 to {}", .family.max_len())]
    PrefixLength {
        /// The family of the address.
        family: Family,
        /// What was given.
        len: u8,
    },
    /// Not of the form `address/length`.
    #[error("`{0}` is not a prefix: write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32")]
    Prefix(String),
    /// Not an interface name (`dev_valid_name` in the kernel's net/core/dev.c).
    #[error(
        "`{0}` is not an interface name: 1 to 15 bytes without white space, `/` and `:`, not `.` or `..`"
    )]
    IfName(String),
    /// Not the label of an address.
    #[error("`{0}` is not a label: 1 to 15 bytes, such as eth0:1")]
    Label(String),
    /// Not a hardware address.
    #[error(
        "`{0}` is not a hardware address: write 1 to 32 bytes in hex, such as 02:00:00:00:00:09"
    )]
    LinkAddr(String),
}

/// A destination or source prefix without host bits: `10.0.0.0/8`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "IpNetwork", into = "IpNetwork"))]
pub struct Prefix(IpNetwork);

impl Prefix {
    /// A prefix from its parts.
    ///
    /// # Errors
    ///
    /// When the length is out of range or host bits are set.
    pub fn new(address: IpAddr, len: u8) -> Result<Prefix, ParseError> {
        let network = IpNetwork::new(address, len).map_err(|_| ParseError::PrefixLength {
            family: Family::of(address),
            len,
        })?;
        Prefix::try_from(network)
    }

    /// The prefix that holds an address, its host bits cleared.
    pub fn containing(network: IpNetwork) -> Prefix {
        Prefix(masked(network))
    }

    /// `0.0.0.0/0` or `::/0`.
    pub fn default_route(family: Family) -> Prefix {
        Prefix::containing(host_network(family.unspecified(), 0))
    }

    /// The /32 or /128 of one address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix(IpNetwork::from(address))
    }

    /// Whether this is `0.0.0.0/0` or `::/0`.
    pub fn is_default(self) -> bool {
        self.0.prefix() == 0
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        self.0.ip()
    }

    /// The number of leading bits that count.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a prefix length, not a count of items"
    )]
    pub fn len(self) -> u8 {
        self.0.prefix()
    }

    /// The address family.
    pub fn family(self) -> Family {
        Family::of(self.0.ip())
    }

    /// Whether an address lies inside; never across families.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(address)
    }
}

/// An address with a length that is known to be in range.
fn host_network(address: IpAddr, len: u8) -> IpNetwork {
    IpNetwork::new(address, len).unwrap_or_else(|_| IpNetwork::from(address))
}

fn masked(network: IpNetwork) -> IpNetwork {
    host_network(network.network(), network.prefix())
}

impl TryFrom<IpNetwork> for Prefix {
    type Error = ParseError;

    fn try_from(network: IpNetwork) -> Result<Prefix, ParseError> {
        let masked = masked(network);
        if masked.ip() == network.ip() {
            Ok(Prefix(masked))
        } else {
            Err(ParseError::HostBits {
                given: network,
                masked,
            })
        }
    }
}

impl From<Prefix> for IpNetwork {
    fn from(prefix: Prefix) -> IpNetwork {
        prefix.0
    }
}

impl FromStr for Prefix {
    type Err = ParseError;

    /// Reads `ADDRESS/LENGTH`, or a bare address as its host prefix, as iproute2 does.
    fn from_str(text: &str) -> Result<Prefix, ParseError> {
        let network: IpNetwork = text
            .parse()
            .map_err(|_| ParseError::Prefix(text.to_owned()))?;
        Prefix::try_from(network)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
        Some(Short {
            bytes,
            len: text.len() as u8,
        })
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

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
        let bad = |b: &u8| matches!(b, b'/' | b':' | 0x0b) || b.is_ascii_whitespace();
        let reserved = name == b"." || name == b"..";
        Short::new(name)
            .filter(|_| !reserved && !name.iter().any(bad))
            .map(IfName)
            .ok_or_else(|| ParseError::IfName(String::from_utf8_lossy(name).into_owned()))
    }

    /// The bytes, without a NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
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

#[cfg(feature = "serde")]
impl serde::Serialize for IfName {
    /// As text; a name that is not UTF-8 as its bytes.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.as_bytes()),
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for IfName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<IfName, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = IfName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an interface name")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<IfName, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<IfName, A::Error> {
                let mut bytes = Vec::with_capacity(15);
                while let Some(byte) = seq.next_element::<u8>()? {
                    bytes.push(byte);
                }
                IfName::from_bytes(&bytes).map_err(serde::de::Error::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
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
        let wrong = || ParseError::Label(String::from_utf8_lossy(label).into_owned());
        Short::new(label).map(Label).ok_or_else(wrong)
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
        Ok(LinkAddr {
            bytes,
            len: address.len() as u8,
        })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl FromStr for LinkAddr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<LinkAddr, ParseError> {
        let wrong = || ParseError::LinkAddr(text.to_owned());
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| {
                let digits =
                    matches!(part.len(), 1 | 2) && part.bytes().all(|b| b.is_ascii_hexdigit());
                digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
            })
            .collect();
        LinkAddr::from_bytes(&bytes.ok_or_else(wrong)?).map_err(|_| wrong())
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

/// A device in the space in which desired and observed objects are compared: an interface that
/// exists, by its index, or one that the plan at hand creates, by its place among those.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev(u32);

impl Dev {
    /// Interface indexes are positive `int`s, so the top bit is free to tell the two apart.
    const PLANNED: u32 = 1 << 31;

    /// An interface that exists.
    pub fn index(index: u32) -> Dev {
        Dev(index & !Dev::PLANNED)
    }

    /// The `n`th interface that the plan creates, from 0.
    pub fn planned(n: u32) -> Dev {
        Dev(n | Dev::PLANNED)
    }

    /// The interface index, unless the device is still to be created.
    pub fn as_index(self) -> Option<u32> {
        (self.0 & Dev::PLANNED == 0).then_some(self.0)
    }

    /// Whether the device is still to be created.
    pub fn is_planned(self) -> bool {
        self.0 & Dev::PLANNED != 0
    }
}

impl fmt::Debug for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_index() {
            Some(index) => write!(f, "if{index}"),
            None => write!(f, "planned{}", self.0 & !Dev::PLANNED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_no_host_bits() {
        let error = "10.0.0.1/8".parse::<Prefix>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "10.0.0.1/8 has bits set behind its prefix length; write 10.0.0.0/8"
        );
        assert!("2001:db8::1/32".parse::<Prefix>().is_err());
        assert_eq!("10.0.0.1".parse::<Prefix>().unwrap().len(), 32);
        assert!("10.0.0.0/33".parse::<Prefix>().is_err());
        assert!("0.0.0.0/0".parse::<Prefix>().unwrap().is_default());
    }

    #[test]
    fn interface_names_are_what_the_kernel_takes() {
        for good in ["lo", "eth0.100", "fifteen-bytes-x", "ä"] {
            assert_eq!(good.parse::<IfName>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a b",
            "a/b",
            "a:b",
            "sixteen-bytes-xx",
            "a\u{b}",
        ] {
            assert!(bad.parse::<IfName>().is_err(), "{bad:?}");
        }
        assert!(
            IfName::from_bytes(&[0xff, 0xfe])
                .unwrap()
                .as_str()
                .is_none()
        );
    }

    #[test]
    fn hardware_addresses_parse_as_hex_bytes() {
        assert_eq!(
            "2:0:0:0:0:9".parse::<LinkAddr>().unwrap().to_string(),
            "02:00:00:00:00:09"
        );
        for bad in ["", "02:", "02:zz", "002:00", "+2:00"] {
            assert!(bad.parse::<LinkAddr>().is_err(), "{bad:?}");
        }
    }
}
