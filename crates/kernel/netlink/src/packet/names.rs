//! The names of attributes in the kernel's headers, as of Linux 6.18.

use trueup_net::Kind;

use crate::wire::NLA_TYPE_MASK;

/// Returns the name of an attribute of a kind's messages by its type, whose flags are ignored. A
/// number without a name here becomes `attribute 99`.
pub(super) fn attribute(kind: Kind, number: u16) -> String {
    let number = number & NLA_TYPE_MASK;
    let (prefix, names): (_, &[&str]) = match kind {
        Kind::Link => ("IFLA_", &LINK),
        Kind::Address => ("IFA_", &ADDRESS),
        Kind::Neighbour => ("NDA_", &NEIGHBOUR),
        Kind::Route => ("RTA_", &ROUTE),
        Kind::Rule => ("FRA_", &RULE),
        Kind::Nexthop => ("NHA_", &NEXTHOP),
        _ => ("", &[]),
    };
    match names.get(usize::from(number)) {
        Some(name) => format!("{prefix}{name}"),
        None => format!("attribute {number}"),
    }
}

/// `IFLA_*`, by number.
#[rustfmt::skip]
const LINK: [&str; 70] = [
    "UNSPEC", "ADDRESS", "BROADCAST", "IFNAME", "MTU", "LINK", "QDISC", "STATS", "COST", "PRIORITY",
    "MASTER", "WIRELESS", "PROTINFO", "TXQLEN", "MAP", "WEIGHT", "OPERSTATE", "LINKMODE",
    "LINKINFO", "NET_NS_PID", "IFALIAS", "NUM_VF", "VFINFO_LIST", "STATS64", "VF_PORTS",
    "PORT_SELF", "AF_SPEC", "GROUP", "NET_NS_FD", "EXT_MASK", "PROMISCUITY", "NUM_TX_QUEUES",
    "NUM_RX_QUEUES", "CARRIER", "PHYS_PORT_ID", "CARRIER_CHANGES", "PHYS_SWITCH_ID", "LINK_NETNSID",
    "PHYS_PORT_NAME", "PROTO_DOWN", "GSO_MAX_SEGS", "GSO_MAX_SIZE", "PAD", "XDP", "EVENT",
    "NEW_NETNSID", "TARGET_NETNSID", "CARRIER_UP_COUNT", "CARRIER_DOWN_COUNT", "NEW_IFINDEX",
    "MIN_MTU", "MAX_MTU", "PROP_LIST", "ALT_IFNAME", "PERM_ADDRESS", "PROTO_DOWN_REASON",
    "PARENT_DEV_NAME", "PARENT_DEV_BUS_NAME", "GRO_MAX_SIZE", "TSO_MAX_SIZE", "TSO_MAX_SEGS",
    "ALLMULTI", "DEVLINK_PORT", "GSO_IPV4_MAX_SIZE", "GRO_IPV4_MAX_SIZE", "DPLL_PIN",
    "MAX_PACING_OFFLOAD_HORIZON", "NETNS_IMMUTABLE", "HEADROOM", "TAILROOM",
];

/// `IFA_*`, by number.
#[rustfmt::skip]
const ADDRESS: [&str; 12] = [
    "UNSPEC", "ADDRESS", "LOCAL", "LABEL", "BROADCAST", "ANYCAST", "CACHEINFO", "MULTICAST",
    "FLAGS", "RT_PRIORITY", "TARGET_NETNSID", "PROTO",
];

/// `NDA_*`, by number.
#[rustfmt::skip]
const NEIGHBOUR: [&str; 18] = [
    "UNSPEC", "DST", "LLADDR", "CACHEINFO", "PROBES", "VLAN", "PORT", "VNI", "IFINDEX", "MASTER",
    "LINK_NETNSID", "SRC_VNI", "PROTOCOL", "NH_ID", "FDB_EXT_ATTRS", "FLAGS_EXT", "NDM_STATE_MASK",
    "NDM_FLAGS_MASK",
];

/// `RTA_*`, by number.
#[rustfmt::skip]
const ROUTE: [&str; 32] = [
    "UNSPEC", "DST", "SRC", "IIF", "OIF", "GATEWAY", "PRIORITY", "PREFSRC", "METRICS", "MULTIPATH",
    "PROTOINFO", "FLOW", "CACHEINFO", "SESSION", "MP_ALGO", "TABLE", "MARK", "MFC_STATS", "VIA",
    "NEWDST", "PREF", "ENCAP_TYPE", "ENCAP", "EXPIRES", "PAD", "UID", "TTL_PROPAGATE", "IP_PROTO",
    "SPORT", "DPORT", "NH_ID", "FLOWLABEL",
];

/// `FRA_*`, by number.
#[rustfmt::skip]
const RULE: [&str; 31] = [
    "UNSPEC", "DST", "SRC", "IIFNAME", "GOTO", "UNUSED2", "PRIORITY", "UNUSED3", "UNUSED4",
    "UNUSED5", "FWMARK", "FLOW", "TUN_ID", "SUPPRESS_IFGROUP", "SUPPRESS_PREFIXLEN", "TABLE",
    "FWMASK", "OIFNAME", "PAD", "L3MDEV", "UID_RANGE", "PROTOCOL", "IP_PROTO", "SPORT_RANGE",
    "DPORT_RANGE", "DSCP", "FLOWLABEL", "FLOWLABEL_MASK", "SPORT_MASK", "DPORT_MASK", "DSCP_MASK",
];

/// `NHA_*`, by number.
#[rustfmt::skip]
const NEXTHOP: [&str; 18] = [
    "UNSPEC", "ID", "GROUP", "GROUP_TYPE", "BLACKHOLE", "OIF", "GATEWAY", "ENCAP_TYPE", "ENCAP",
    "GROUPS", "MASTER", "FDB", "RES_GROUP", "RES_BUCKET", "OP_FLAGS", "GROUP_STATS",
    "HW_STATS_ENABLE", "HW_STATS_USED",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels_and_ignore_flags() {
        for (kind, number, name) in [
            (Kind::Link, 3, "IFLA_IFNAME"),
            (Kind::Link, 52, "IFLA_PROP_LIST"),
            (Kind::Address, 11, "IFA_PROTO"),
            (Kind::Neighbour, 15, "NDA_FLAGS_EXT"),
            (Kind::Route, 30, "RTA_NH_ID"),
            (Kind::Route, 9 | 0x8000, "RTA_MULTIPATH"),
            (Kind::Rule, 25, "FRA_DSCP"),
            (Kind::Nexthop, 14, "NHA_OP_FLAGS"),
            (Kind::Rule, 99, "attribute 99"),
        ] {
            assert_eq!(attribute(kind, number), name);
        }
    }
}
