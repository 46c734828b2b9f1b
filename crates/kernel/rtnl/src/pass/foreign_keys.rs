//! What is known of foreign routes on the keys of ours, from one pass to the next.

use std::collections::BTreeSet;
use std::sync::Arc;

use trueup_net::{Family, RouteKey};
use trueup_observe::DirtySet;

/// The keys of ours on which there are foreign routes, as far as is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignKeys {
    pub(super) keys: Arc<BTreeSet<RouteKey>>,
    /// The tables of which all such keys are known.
    pub(super) tables: BTreeSet<(Family, u32)>,
}

impl ForeignKeys {
    /// Returns true if no foreign route is on a key of ours.
    pub(super) fn is_alone(&self, key: &RouteKey) -> bool {
        self.covers(key) && !self.keys.contains(key)
    }

    /// Returns true if it is known whether a foreign route is on a key of ours.
    pub(super) fn covers(&self, key: &RouteKey) -> bool {
        self.tables.contains(&(key.dst.family(), key.table))
    }

    pub(super) fn extend(&mut self, other: ForeignKeys) {
        self.add_all(other.keys.iter());
        self.tables.extend(other.tables);
    }

    /// Takes note of where other writers have put routes, of the keys that matter.
    pub(super) fn note(&mut self, dirty: &DirtySet, matters: impl Fn(&RouteKey) -> bool) {
        if dirty.everything {
            *self = ForeignKeys::default();
            return;
        }
        let shared = dirty.shared_routes.iter().filter(|key| matters(key));
        self.add_all(shared);
        // Of too many keys a dirty set names the tables alone.
        let DirtySet { routes, tables, .. } = dirty;
        self.tables.retain(|table| !tables.contains(table) && !routes.contains(&table.0));
    }

    /// Takes note that another writer has put a route on a key.
    pub(super) fn add(&mut self, key: RouteKey) {
        if !self.keys.contains(&key) {
            Arc::make_mut(&mut self.keys).insert(key);
        }
    }

    /// Takes note that other writers have put routes on these keys. The keys are copied only if one
    /// of them is new: the subscription has them, too.
    pub(super) fn add_all<'k>(&mut self, keys: impl Iterator<Item = &'k RouteKey>) {
        keys.for_each(|key| self.add(*key));
    }

    /// Forgets the keys that do not matter any more.
    pub(super) fn retain(&mut self, matters: impl Fn(&RouteKey) -> bool) {
        if !self.keys.iter().all(&matters) {
            Arc::make_mut(&mut self.keys).retain(matters);
        }
    }
}
