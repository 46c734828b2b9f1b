//! [`Group`]: the multicast groups of rtnetlink.

/// An rtnetlink multicast group (`RTNLGRP_*` in `linux/rtnetlink.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group(pub u32);

impl Group {
    /// Links.
    pub const LINK: Self = Self(1);
    /// Neighbours and forwarding entries.
    pub const NEIGHBOUR: Self = Self(3);
    /// IPv4 addresses.
    pub const IPV4_ADDRESS: Self = Self(5);
    /// IPv4 routes.
    pub const IPV4_ROUTE: Self = Self(7);
    /// IPv4 rules.
    pub const IPV4_RULE: Self = Self(8);
    /// IPv6 addresses.
    pub const IPV6_ADDRESS: Self = Self(9);
    /// IPv6 routes.
    pub const IPV6_ROUTE: Self = Self(11);
    /// IPv6 rules.
    pub const IPV6_RULE: Self = Self(19);
    /// Settings of IPv4, of links and of all.
    pub const IPV4_NETCONF: Self = Self(24);
    /// Settings of IPv6, of links and of all.
    pub const IPV6_NETCONF: Self = Self(25);
    /// Nexthop objects (Linux 5.3).
    pub const NEXTHOP: Self = Self(32);

    /// All groups of the objects of trueup except [`NEXTHOP`](Self::NEXTHOP).
    pub const OBJECTS: [Self; 8] = [
        Self::LINK,
        Self::NEIGHBOUR,
        Self::IPV4_ADDRESS,
        Self::IPV4_ROUTE,
        Self::IPV4_RULE,
        Self::IPV6_ADDRESS,
        Self::IPV6_ROUTE,
        Self::IPV6_RULE,
    ];
}
