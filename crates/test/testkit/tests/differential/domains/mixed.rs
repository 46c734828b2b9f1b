//! All domains together in one namespace, so that their objects interact.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::pick;
use crate::domains::address::Addresses;
use crate::domains::link::Links;
use crate::domains::neighbour::Neighbours;
use crate::domains::route4::Routes4;
use crate::domains::route6::Routes6;
use crate::domains::rule::Rules;
use crate::message::{Message, set_up, v6, veth};

pub(crate) struct Mixed;

/// The domains, each as often as its share of the messages.
const SHARES: [&dyn Domain; 9] =
    [&Addresses, &Addresses, &Links, &Routes4, &Routes4, &Routes6, &Routes6, &Rules, &Neighbours];

impl Domain for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn repeated(&self) -> Kind {
        Kind::Route
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        if rng.u8(..8) == 0 {
            return set_up(if rng.bool() { 10 } else { 11 }, rng.bool());
        }
        let message = pick(rng, &SHARES).message(rng);
        match has_entries(&message) {
            true => set_up(10, true),
            false => message,
        }
    }

    fn is_modelled(&self, message: &Message) -> bool {
        Neighbours.is_modelled(message) && !is_link_local_with_a_lifetime(message)
    }
}

/// Returns true if a message gives the kernel's own address of `v0` a lifetime. The model does not
/// know when the kernel then collects the route to its subnet.
fn is_link_local_with_a_lifetime(message: &Message) -> bool {
    const IFA_CACHEINFO: [u8; 4] = [20, 0, 6, 0];
    let has = |part: &[u8]| message.body.windows(part.len()).any(|at| at == part);
    message.kind == 20 && has(&v6("fe80::ff:fe00:a")) && has(&IFA_CACHEINFO)
}

/// Returns true if a message makes a link of a kind whose own forwarding entries the model lacks.
fn has_entries(message: &Message) -> bool {
    let kinds: [&[u8]; 3] = [b"macvlan", b"vxlan", b"bridge"];
    kinds.iter().any(|kind| {
        let mut parts = message.body.windows(kind.len());
        parts.any(|part| part == *kind)
    })
}
