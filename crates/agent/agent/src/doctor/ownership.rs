//! What proves that an object is ours, for each kind.

use serde::Serialize;
use trueup_net::Kind;
use trueup_netlink::{Marker, Markers};

/// The default proof that objects of a kind are ours.
#[derive(Serialize)]
pub(super) struct Proof {
    pub(super) kind: &'static str,
    pub(super) proof: &'static str,
    pub(super) reason: &'static str,
}

/// Returns the proof of each kind: the marker, unless the kernel is known to drop it.
pub(super) fn ownership(markers: &Markers) -> Vec<Proof> {
    let proof = |kind: Kind| {
        let (marker, kept, dropped, unknown) = match kind {
            Kind::Link => {
                return Proof {
                    kind: kind.name(),
                    proof: "ledger",
                    reason: "a link bears no marker",
                };
            }
            Kind::Nexthop => {
                return Proof {
                    kind: kind.name(),
                    proof: "marker",
                    reason: "every kernel that has nexthop objects keeps nhm_protocol",
                };
            }
            Kind::Route => (markers.route, "every kernel keeps rtm_protocol", "", ""),
            Kind::Address => (
                markers.address,
                "this kernel keeps IFA_PROTO",
                "this kernel drops IFA_PROTO, as do those before 5.18",
                "",
            ),
            Kind::Neighbour => (
                markers.neighbour,
                "this kernel keeps NDA_PROTOCOL",
                "this kernel drops NDA_PROTOCOL, as do those before 5.0",
                "",
            ),
            Kind::Rule => (
                markers.rule,
                "this kernel keeps FRA_PROTOCOL",
                "this kernel drops FRA_PROTOCOL, as do those before 4.17",
                "there is no rule on which FRA_PROTOCOL could be seen; kernels since 4.17 keep it",
            ),
            _ => (Marker::Unknown, "", "", "not known of this kind of object"),
        };
        let (proof, reason) = match marker {
            Marker::Kept => ("marker", kept),
            Marker::NotKept => ("ledger", dropped),
            Marker::Unknown => ("marker", unknown),
        };
        Proof { kind: kind.name(), proof, reason }
    };
    Kind::ALL.map(proof).into()
}
