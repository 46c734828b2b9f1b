//! Whose an object is, known from what the two did and not from what either says.
//!
//! Where the kernel keeps no trace, no process can tell, and this is all of it:
//! - what the other writer wrote under our marker is ours by the marker; and where the ledger is
//!   the proof, what he made anew under our marker on a key of ours, between two passes, is not
//!   known from what he took away;
//! - a neighbour that he wrote over without a protocol keeps ours: there it is ours still;
//! - a link of ours that he renamed is neither his nor known to be ours;
//! - a proxy entry of his on a link of ours may go by itself: the kernel removes it once it finds
//!   that the link, which was just set up, has no carrier, up to a second later
//!   (`neigh_carrier_down`).

use std::collections::BTreeSet;

use trueup_e2e::world::{Id, World, derived};
use trueup_testkit::fields::OURS;
use trueup_testkit::{Kind, RawMessage};

/// Our links' indexes are drawn from here on; the kernel's own count from 1.
pub(crate) const OUR_INDEXES: u32 = 1 << 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    His,
    /// Cannot be known.
    Open,
    /// The kernel's own.
    Derived,
}

/// Returns true for a proxy entry of the other writer's that the kernel may remove by itself.
fn is_proxy_on_our_link(id: &Id, row: &RawMessage) -> bool {
    const NTF_PROXY: u8 = 8;
    row.kind == Kind::Neighbour
        && row.header[10] & NTF_PROXY != 0
        && id.protocol != OURS
        && id.device >= OUR_INDEXES
}

pub(crate) struct Owners {
    /// Our marker is proof.
    pub(crate) by_marker: bool,
    ours: BTreeSet<Id>,
    open: BTreeSet<Id>,
}

impl Owners {
    pub(crate) fn new(by_marker: bool) -> Owners {
        Owners { by_marker, ours: BTreeSet::new(), open: BTreeSet::new() }
    }

    /// As far as it is known from what is there: links of ours have indexes that no other links
    /// have, unless he laid hands on them, and the rest bears our marker, which he did not write.
    pub(crate) fn found(by_marker: bool, world: &World, touched: &BTreeSet<u32>) -> Owners {
        let mut owners = Owners::new(by_marker);
        for (id, _) in world.declared() {
            if touched.contains(&id.device) {
                owners.open.insert(id.clone());
            } else if id.protocol == OURS || (id.kind == Kind::Link && id.device >= OUR_INDEXES) {
                owners.ours.insert(id.clone());
            }
        }
        owners
    }

    pub(crate) fn whose(&self, id: &Id, row: &RawMessage) -> Whose {
        if self.ours.contains(id) {
            Whose::Ours
        } else if self.open.contains(id) || is_proxy_on_our_link(id, row) {
            Whose::Open
        } else if derived(row) {
            Whose::Derived
        } else if self.by_marker && id.protocol == OURS {
            Whose::Ours
        } else {
            Whose::His
        }
    }

    /// All of one owner's.
    pub(crate) fn of<'a>(
        &'a self,
        world: &'a World,
        whose: Whose,
    ) -> impl Iterator<Item = (&'a Id, &'a RawMessage)> {
        let rows = world.rows.iter();
        let rows = rows.flat_map(|(id, rows)| rows.iter().map(move |row| (id, row)));
        rows.filter(move |(id, row)| self.whose(id, row) == whose)
    }

    /// A pass of ours alone led from one to the other: what came is ours.
    pub(crate) fn passed(&mut self, before: &World, after: &World) {
        let came = after.declared().filter(|(id, _)| {
            !before.rows.contains_key(id) && (id.kind == Kind::Link || id.protocol == OURS)
        });
        self.ours.extend(came.map(|(id, _)| id.clone()));
        self.ours.retain(|id| after.rows.contains_key(id));
        self.open.retain(|id| after.rows.contains_key(id));
    }

    /// The other writer alone led from one to the other; `renamed` are the links that he gave
    /// another name.
    pub(crate) fn invaded(&mut self, before: &World, after: &World, renamed: &BTreeSet<u32>) {
        self.ours.retain(|id| after.rows.contains_key(id));
        self.open.retain(|id| after.rows.contains_key(id));
        let moved = |id: &&Id| id.device != 0 && before.link(id.device) != after.link(id.device);
        let moved: Vec<Id> = self.ours.iter().filter(moved).cloned().collect();
        for id in moved {
            self.ours.remove(&id);
            let is_made_anew = !self.by_marker && id.kind != Kind::Link && id.protocol == OURS;
            if renamed.contains(&id.device) || is_made_anew {
                self.open.insert(id);
            }
        }
    }
}
