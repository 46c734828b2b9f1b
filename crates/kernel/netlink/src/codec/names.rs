//! The names of a kind's messages and attributes in the kernel's headers.

use trueup_net::{Kind, ObjectKind as _, each_kind};

use super::kind_codec::KindCodec;
use crate::wire::NLA_TYPE_MASK;

/// The names of a kind's messages and attributes in the kernel's headers, as of Linux 6.18.
///
/// ```
/// use trueup_net::Kind;
/// use trueup_netlink::codec::WireNames;
///
/// let names = WireNames::of(Kind::Route);
/// assert_eq!((names.fixed, names.attribute(1)), ("rtmsg", "RTA_DST".to_owned()));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WireNames {
    /// The fixed struct with which a message begins, such as `rtmsg`.
    pub fixed: &'static str,
    /// The field of the fixed struct with the address family, such as `rtm_family`.
    pub family: &'static str,
    /// The beginning of each attribute's name, such as `RTA_`.
    pub prefix: &'static str,
    /// The rest of each attribute's name, by number.
    pub attributes: &'static [&'static str],
}

impl WireNames {
    /// Returns the names of a kind. A kind without a codec has those of a netlink message.
    #[must_use]
    pub fn of(kind: Kind) -> WireNames {
        let mut names =
            WireNames { fixed: "nlmsghdr", family: "nlmsg_type", prefix: "", attributes: &[] };
        each_kind!(K => if K::KIND == kind {
            names = <K as KindCodec>::NAMES;
        });
        names
    }

    /// Returns the name of an attribute by its type, whose flags are ignored. A number without a
    /// name here becomes `attribute 99`.
    #[must_use]
    pub fn attribute(&self, number: u16) -> String {
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
