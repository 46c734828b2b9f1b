//! The names of a kind's messages and attributes in the kernel's headers.

use trueup_net::{Kind, ObjectKind as _, each_kind};

use super::kind_codec::KindCodec;
use crate::wire::NLA_TYPE_MASK;

/// The names of a kind's messages and attributes in the kernel's headers, as of Linux 6.18.
#[derive(Clone, Copy, Debug)]
pub struct WireNames {
    /// The fixed struct with which a message begins, such as `rtmsg`.
    pub(crate) fixed: &'static str,
    /// The field of the fixed struct with the address family, such as `rtm_family`.
    pub(crate) family: &'static str,
    /// The beginning of each attribute's name, such as `RTA_`.
    pub(crate) prefix: &'static str,
    /// The rest of each attribute's name, by number.
    pub(crate) attributes: &'static [&'static str],
}

impl WireNames {
    /// Returns the names of a kind. A kind without a codec has those of a netlink message.
    pub(crate) fn of(kind: Kind) -> WireNames {
        let mut names =
            WireNames { fixed: "nlmsghdr", family: "nlmsg_type", prefix: "", attributes: &[] };
        each_kind!(K => if K::KIND == kind {
            names = <K as KindCodec>::NAMES;
        });
        names
    }

    /// Returns the name of an attribute by its type, whose flags are ignored. A number without a
    /// name here becomes `attribute 99`.
    pub(crate) fn attribute(&self, number: u16) -> String {
        let number = number & NLA_TYPE_MASK;
        match self.attributes.get(usize::from(number)) {
            Some(name) => format!("{}{name}", self.prefix),
            None => format!("attribute {number}"),
        }
    }
}

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
            assert_eq!(WireNames::of(kind).attribute(number), name);
        }
    }
}
