//! Everything at once in one namespace: the messages of all domains, so that the objects meet.

use crate::case::Domain;
use crate::domains::address::Addresses;
use crate::domains::link::Links;
use crate::domains::neighbour::Neighbours;
use crate::domains::route4::{self, Routes4};
use crate::domains::route6::Routes6;
use crate::domains::rule::{self, Rules};
use crate::message::{Message, set_up, veth};

pub(crate) struct Mixed;

const NEWRULE: u16 = 32;

/// How often each one's messages come, of a hundred.
const SHARES: [(u8, &dyn Domain); 6] = [
    (20, &Addresses),
    (15, &Links),
    (25, &Routes4),
    (20, &Routes6),
    (10, &Rules),
    (10, &Neighbours),
];

impl Domain for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        if rng.u8(..8) == 0 {
            return set_up(if rng.bool() { 10 } else { 11 }, rng.bool());
        }
        let mut lot = rng.u8(..100);
        for (share, domain) in SHARES {
            if lot < share {
                let message = domain.message(rng);
                return if has_entries(&message) {
                    set_up(10, true)
                } else {
                    message
                };
            }
            lot -= share;
        }
        Addresses.message(rng)
    }

    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        let mut all = Vec::<Message>::new();
        while all.len() < length {
            let message = self.message(rng);
            let inet = message.body.first() == Some(&2);
            let modelled = !inet || route4::is_modelled(&message);
            let mapped = message.kind & !3 != NEWRULE || rule::names_mapped_users(&message);
            if modelled && mapped && !route4::is_by_chance(&message, &all) {
                all.push(message);
            }
        }
        all
    }
}

/// Returns true if a message makes a link of a kind that adds forwarding entries by itself, which
/// the fake does not.
fn has_entries(message: &Message) -> bool {
    let kinds: [&[u8]; 3] = [b"macvlan", b"vxlan", b"bridge"];
    kinds.iter().any(|kind| {
        let mut parts = message.body.windows(kind.len());
        parts.any(|part| part == *kind)
    })
}
