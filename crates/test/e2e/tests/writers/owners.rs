//! The owners of objects, derived from the acts of both sides, not from their reports.
//!
//! If the kernel keeps no trace, the owner cannot be known. These are all such cases:
//! - An object that the other writer made with our marker is ours by the marker. If the ledger is
//!   the proof, and the other writer recreated it on our key between two passes, it looks like the
//!   object that was deleted.
//! - A neighbour that the other writer replaced without a protocol keeps our marker, so it stays
//!   ours.
//! - A link of ours that the other writer renamed is neither the writer's nor known to be ours.
//! - The kernel may delete the other writer's proxy entry on our link by itself. It does so once it
//!   finds that the link, which was just set up, has no carrier, up to a second later
//!   (`neigh_carrier_down`).

use std::collections::BTreeSet;

use trueup_e2e::world::{Id, World, derived};
use trueup_testkit::fields::OURS;
use trueup_testkit::{Kind, RawMessage};

/// The first index of our links; the kernel's own count from 1.
pub(crate) const OUR_INDEXES: u32 = 1 << 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    His,
    /// Unknown, as the kernel keeps no trace.
    Open,
    /// The kernel's own, derived from another object.
    Derived,
}

/// Returns true for another writer's proxy entry that the kernel may delete by itself.
fn is_proxy_on_our_link(id: &Id, row: &RawMessage) -> bool {
    const NTF_PROXY: u8 = 8;
    row.kind == Kind::Neighbour
        && row.header[10] & NTF_PROXY != 0
        && id.protocol != OURS
        && id.device >= OUR_INDEXES
}

pub(crate) struct Owners {
    /// True if our marker is proof.
    pub(crate) by_marker: bool,
    ours: BTreeSet<Id>,
    open: BTreeSet<Id>,
}

impl Owners {
    pub(crate) fn new(by_marker: bool) -> Owners {
        Owners { by_marker, ours: BTreeSet::new(), open: BTreeSet::new() }
    }

    /// Derives the owners from the present rows. Our links have indexes that no other links have,
    /// unless the other writer touched them. Our other rows have our marker, which the other writer
    /// did not use.
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

    /// Returns all of one owner's objects.
    pub(crate) fn of<'a>(
        &'a self,
        world: &'a World,
        whose: Whose,
    ) -> impl Iterator<Item = (&'a Id, &'a RawMessage)> {
        let rows = world.rows.iter();
        let rows = rows.flat_map(|(id, rows)| rows.iter().map(move |row| (id, row)));
        rows.filter(move |(id, row)| self.whose(id, row) == whose)
    }

    /// Attributes the changes between the two states to a pass of ours: new objects are ours.
    pub(crate) fn passed(&mut self, before: &World, after: &World) {
        let came = after.declared().filter(|(id, _)| {
            !before.rows.contains_key(id) && (id.kind == Kind::Link || id.protocol == OURS)
        });
        self.ours.extend(came.map(|(id, _)| id.clone()));
        self.ours.retain(|id| after.rows.contains_key(id));
        self.open.retain(|id| after.rows.contains_key(id));
    }

    /// Attributes the changes between the two states to the other writer; `renamed` are the links
    /// that it renamed.
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
