//! What proves that an object is ours, for each kind.

use serde::Serialize;
use trueup_net::Kind;
use trueup_netlink::{Error, Socket, marker};

/// The default proof that objects of a kind are ours.
#[derive(Serialize)]
pub(super) struct Proof {
    pub(super) kind: &'static str,
    pub(super) proof: &'static str,
    pub(super) reason: &'static str,
}

/// Returns the proof of each kind: the marker, unless the kernel is known to drop it.
pub(super) fn ownership(socket: &mut Socket) -> Result<Vec<Proof>, Error> {
    Kind::ALL
        .into_iter()
        .map(|kind| {
            let (kept, dropped, unknown) = match kind {
                Kind::Link => ("", "", "a link bears no marker"),
                Kind::Nexthop => {
                    ("every kernel that has nexthop objects keeps nhm_protocol", "", "")
                }
                Kind::Route => ("every kernel keeps rtm_protocol", "", ""),
                Kind::Address => (
                    "this kernel keeps IFA_PROTO",
                    "this kernel drops IFA_PROTO, as do those before 5.18",
                    "",
                ),
                Kind::Neighbour => (
                    "this kernel keeps NDA_PROTOCOL",
                    "this kernel drops NDA_PROTOCOL, as do those before 5.0",
                    "",
                ),
                Kind::Rule => (
                    "this kernel keeps FRA_PROTOCOL",
                    "this kernel drops FRA_PROTOCOL, as do those before 4.17",
                    "there is no rule on which FRA_PROTOCOL could be seen; kernels since 4.17 \
                     keep it",
                ),
                _ => ("", "", "not known of this kind of object"),
            };
            let (proof, reason) = match marker(socket, kind)? {
                Some(true) => ("marker", kept),
                Some(false) => ("ledger", dropped),
                None if kind == Kind::Link => ("ledger", unknown),
                None => ("marker", unknown),
            };
            Ok(Proof { kind: kind.name(), proof, reason })
        })
        .collect()
}
