//! The small types of which every object is made: families, prefixes and device references. Names
//! and hardware addresses have their own file.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnetwork::IpNetwork;

/// An address family, as in `AF_INET` and `AF_INET6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Family {
    /// IPv4 (`AF_INET`, 2).
    Inet,
    /// IPv6 (`AF_INET6`, 10).
    Inet6,
}

impl Family {
    /// Returns an address's family.
    pub fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::Inet,
            IpAddr::V6(_) => Family::Inet6,
        }
    }

    /// Returns the longest prefix length: 32 or 128.
    pub fn max_len(self) -> u8 {
        match self {
            Family::Inet => 32,
            Family::Inet6 => 128,
        }
    }

    /// Returns the least MTU in bytes at which a device keeps the family's addresses and routes
    /// (`IPV4_MIN_MTU`, `IPV6_MIN_MTU`). With a smaller one they go, as if the device went down
    /// (`inetdev_event`, `addrconf_notify`).
    pub fn min_mtu(self) -> u32 {
        match self {
            Family::Inet => 68,
            Family::Inet6 => 1280,
        }
    }

    /// Returns `0.0.0.0` or `::`.
    pub fn unspecified(self) -> IpAddr {
        match self {
            Family::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// Returns iproute2's word, `inet` or `inet6`.
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

/// The reason why a text or number is not a prefix, a name or a hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Bits to the right of the prefix length are set. The kernel refuses them for IPv4 and
    /// silently clears them for IPv6.
    #[error("{given} has bits set behind its prefix length; write {masked}")]
    HostBits {
        /// The address and prefix length as given.
        given: IpNetwork,
        /// The prefix that was probably meant.
        masked: IpNetwork,
    },
    /// The prefix length exceeds the family's maximum, 32 or 128.
    #[error("prefix length {len} is out of range for {family}: 0 to {}", .family.max_len())]
    PrefixLength {
        /// The family of the address.
        family: Family,
        /// The length as given, in bits.
        len: u8,
    },
    /// The text is not of the form `address/length`.
    #[error("`{0}` is not a prefix: write ADDRESS/LENGTH, such as 10.0.0.0/8 or 2001:db8::/32")]
    Prefix(String),
    /// The text is not an interface name (`dev_valid_name` in the kernel's net/core/dev.c).
    #[error(
        "`{0}` is not an interface name: 1 to 15 bytes without white space, `/` and `:`, not `.` or `..`"
    )]
    IfName(String),
    /// The text is not an address's label.
    #[error("`{0}` is not a label: 1 to 15 bytes, such as eth0:1")]
    Label(String),
    /// The text is not a hardware address.
    #[error(
        "`{0}` is not a hardware address: write 1 to 32 bytes in hex, such as 02:00:00:00:00:09"
    )]
    LinkAddr(String),
}

/// A destination or source prefix without host bits: `10.0.0.0/8`, `2001:db8::/32`.
///
/// ```
/// use trueup_net::Prefix;
///
/// let prefix: Prefix = "10.2.0.0/16".parse()?;
/// assert_eq!(prefix, Prefix::new("10.2.0.0".parse()?, 16)?);
/// assert!("10.2.0.1/16".parse::<Prefix>().is_err()); // it has host bits
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "IpNetwork", into = "IpNetwork"))]
pub struct Prefix(IpNetwork);

impl Prefix {
    /// Makes a prefix from its parts.
    ///
    /// # Errors
    ///
    /// If the length is out of range, or host bits are set.
    pub fn new(address: IpAddr, len: u8) -> Result<Prefix, ParseError> {
        let network = IpNetwork::new(address, len)
            .map_err(|_| ParseError::PrefixLength { family: Family::of(address), len })?;
        Prefix::try_from(network)
    }

    /// Makes a prefix from parts known to be valid.
    pub(crate) fn of_parts(address: IpAddr, len: u8) -> Prefix {
        Prefix(host_network(address, len))
    }

    /// Returns the prefix of a network, with its host bits cleared.
    pub fn containing(network: IpNetwork) -> Prefix {
        Prefix(masked(network))
    }

    /// Returns `0.0.0.0/0` or `::/0`.
    pub fn default_route(family: Family) -> Prefix {
        Prefix::containing(host_network(family.unspecified(), 0))
    }

    /// Returns the /32 or /128 of one address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix(IpNetwork::from(address))
    }

    /// Returns true if this is `0.0.0.0/0` or `::/0`.
    pub fn is_default(self) -> bool {
        self.0.prefix() == 0
    }

    /// Returns the lowest address, whose host bits are 0.
    pub fn address(self) -> IpAddr {
        self.0.ip()
    }

    /// Returns the prefix length in bits.
    #[expect(clippy::len_without_is_empty, reason = "a prefix length, not a count of items")]
    pub fn len(self) -> u8 {
        self.0.prefix()
    }

    /// Returns the family of all addresses in the prefix.
    pub fn family(self) -> Family {
        Family::of(self.0.ip())
    }

    /// Returns true if an address of the same family lies inside.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(address)
    }

    /// Returns true if all addresses of another prefix of the same family lie inside.
    pub fn covers(self, other: Prefix) -> bool {
        self.len() <= other.len() && self.contains(other.address())
    }
}

/// Makes a network from a length known to be in range.
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
            Err(ParseError::HostBits { given: network, masked })
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

    /// Parses `ADDRESS/LENGTH`, or a bare address as its host prefix, as iproute2 does.
    fn from_str(text: &str) -> Result<Prefix, ParseError> {
        let network: IpNetwork = text.parse().map_err(|_| ParseError::Prefix(text.to_owned()))?;
        Prefix::try_from(network)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A reference to a device, the same for desired and observed objects. An existing interface has
/// its index. One that the plan creates, or a missing one, has its position among those.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dev(u32);

impl Dev {
    /// Interface indexes are positive `int`s, so the top bit can mark a planned device.
    const PLANNED: u32 = 1 << 31;

    /// With this bit as well, the device is missing.
    const MISSING: u32 = Dev::PLANNED | 1 << 30;

    /// Refers to an existing interface.
    pub fn index(index: u32) -> Dev {
        Dev(index & !Dev::PLANNED)
    }

    /// Refers to the `n`th interface that the plan creates, from 0.
    pub fn planned(n: u32) -> Dev {
        Dev(n & !Dev::MISSING | Dev::PLANNED)
    }

    /// Refers to the `n`th interface that is named but neither exists nor is created, from 0.
    pub fn missing(n: u32) -> Dev {
        Dev(n | Dev::MISSING)
    }

    /// Returns the interface index, or `None` if the device does not exist.
    pub fn as_index(self) -> Option<u32> {
        (self.0 & Dev::PLANNED == 0).then_some(self.0)
    }

    /// Returns true if the plan creates the device.
    pub fn is_planned(self) -> bool {
        self.0 & Dev::MISSING == Dev::PLANNED
    }

    /// Returns true if the device does not exist, and the plan does not create it.
    pub fn is_missing(self) -> bool {
        self.0 & Dev::MISSING == Dev::MISSING
    }
}

impl fmt::Debug for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_index() {
            Some(index) => write!(f, "if{index}"),
            None if self.is_missing() => write!(f, "missing{}", self.0 & !Dev::MISSING),
            None => write!(f, "planned{}", self.0 & !Dev::PLANNED),
        }
    }
}
