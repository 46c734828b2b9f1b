//! What became doubtful since the last look: names, and nothing of what is there. A hint can be wrong in either direction, so
//! nothing is ever concluded from one but that a look is due.

use std::collections::BTreeSet;

use trueup_diff::{Family, ObjectKey, RouteKey};

/// So many single names are kept of each sort; beyond that the whole of it is doubtful.
const NAMES: usize = 256;

/// What became doubtful.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirtySet {
    /// Everything: events were lost.
    pub everything: bool,
    /// The links.
    pub links: bool,
    /// The addresses of these devices, by interface index.
    pub addresses: BTreeSet<u32>,
    /// The neighbours of these devices, by interface index.
    pub neighbours: BTreeSet<u32>,
    /// The rules of these families.
    pub rules: BTreeSet<Family>,
    /// All routes of these families.
    pub routes: BTreeSet<Family>,
    /// The routes of these tables.
    pub tables: BTreeSet<(Family, u32)>,
    /// Single routes that were said to be gone. Their tables are in [`tables`](Self::tables) as well.
    pub deleted_routes: BTreeSet<RouteKey>,
    /// Objects that another writer removed, where the kernel's own removals can be told from that: see
    /// [`removed_by_another_writer`](Self::removed_by_another_writer).
    pub removed: BTreeSet<ObjectKey>,
    /// More were removed than [`removed`](Self::removed) names.
    pub more_removed: bool,
}

impl DirtySet {
    /// Everything.
    pub fn everything() -> DirtySet {
        DirtySet {
            everything: true,
            more_removed: true,
            ..DirtySet::default()
        }
    }

    /// Whether another writer removed an object, or may have. What the kernel takes along as a side effect, with a link,
    /// an address or a nexthop object, is not named: of what is missing and not named here, the kernel is the cause.
    ///
    /// Routes and nexthop objects are named if the removal was a request, and others if their device was up. Of links and
    /// rules it is not told apart.
    pub fn removed_by_another_writer(&self, key: &ObjectKey) -> bool {
        let told_apart = !matches!(key, ObjectKey::Link(_) | ObjectKey::Rule(_));
        self.more_removed || !told_apart || self.removed.contains(key)
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        *self == DirtySet::default()
    }

    /// Adds what became doubtful besides.
    pub fn extend(&mut self, more: DirtySet) {
        self.everything |= more.everything;
        self.links |= more.links;
        self.addresses.extend(more.addresses);
        self.neighbours.extend(more.neighbours);
        self.rules.extend(more.rules);
        self.routes.extend(more.routes);
        self.tables.extend(more.tables);
        self.deleted_routes.extend(more.deleted_routes);
        self.removed.extend(more.removed);
        self.more_removed |= more.more_removed;
        self.limit();
    }

    /// Keeps the list of names short.
    pub(crate) fn limit(&mut self) {
        if self.deleted_routes.len() > NAMES {
            // Their tables are named.
            self.deleted_routes.clear();
        }
        if self.removed.len() > NAMES {
            self.removed.clear();
            self.more_removed = true;
        }
        if self.tables.len() > NAMES {
            let families = self.tables.iter().map(|(family, _)| *family);
            self.routes.extend(families);
            self.tables.clear();
        }
        if self.addresses.len().max(self.neighbours.len()) > NAMES {
            self.everything = true;
        }
        if self.everything {
            *self = DirtySet::everything();
        }
    }
}
