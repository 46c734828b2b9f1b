//! Numbers of the kernel with iproute2's names for them, as far as scenarios use them.

/// `AF_INET`.
pub(super) const INET: u8 = 2;
/// `AF_INET6`.
pub(super) const INET6: u8 = 10;
/// `AF_BRIDGE`, the family of forwarding entries.
pub(super) const BRIDGE: u8 = 7;

/// `rtm_protocol`, from `/etc/iproute2/rt_protos`.
pub(super) const PROTOCOLS: &[(&str, u32)] = &[
    ("unspec", 0),
    ("redirect", 1),
    ("kernel", 2),
    ("boot", 3),
    ("static", 4),
    ("ra", 9),
    ("zebra", 11),
    ("bird", 12),
    ("dhcp", 16),
    ("keepalived", 18),
    ("babel", 42),
    ("bgp", 186),
    ("isis", 187),
    ("ospf", 188),
    ("rip", 189),
    ("eigrp", 192),
];

/// `rtm_scope`.
pub(super) const SCOPES: &[(&str, u32)] = &[
    ("global", 0),
    ("universe", 0),
    ("site", 200),
    ("link", 253),
    ("host", 254),
    ("nowhere", 255),
];

/// `rtm_table`.
pub(super) const TABLES: &[(&str, u32)] = &[("default", 253), ("main", 254), ("local", 255)];

/// `rtm_type`.
pub(super) const TYPES: &[(&str, u32)] = &[
    ("unicast", 1),
    ("local", 2),
    ("broadcast", 3),
    ("anycast", 4),
    ("multicast", 5),
    ("blackhole", 6),
    ("unreachable", 7),
    ("prohibit", 8),
    ("throw", 9),
    ("nat", 10),
];

/// Route metrics, `RTAX_*`.
pub(super) const RTAX: &[(&str, u32)] = &[
    ("lock", 1),
    ("mtu", 2),
    ("window", 3),
    ("rtt", 4),
    ("rttvar", 5),
    ("ssthresh", 6),
    ("cwnd", 7),
    ("advmss", 8),
    ("reordering", 9),
    ("hoplimit", 10),
    ("initcwnd", 11),
    ("features", 12),
    ("rto_min", 13),
    ("initrwnd", 14),
    ("quickack", 15),
];
