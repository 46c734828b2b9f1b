//! The walk over desired routes, side by side with the rows of a dump.

use std::collections::btree_map::Range;
use std::collections::{BTreeMap, BTreeSet};

use crate::routes::index::{DumpKey, Id, tables};

/// A family's desired routes, walked in the order of a dump.
pub(super) struct Walk<'a, K> {
    desired: &'a BTreeMap<K, Id>,
    /// The current table.
    table: Option<u32>,
    /// The next desired route in that table.
    next: Option<(K, Id)>,
    /// The routes after it.
    rest: Range<'a, K, Id>,
    /// All tables so far.
    tables: BTreeSet<u32>,
    /// The last row's key, and true if a route is desired on it.
    last: Option<(K, bool)>,
    pub(super) mismatches: Vec<K>,
}

/// The desired route with a row's key.
pub(super) enum OnKey {
    /// A route with this value.
    Desired(Id),
    Undesired,
    /// The row before has the same key.
    Repeated {
        /// True if a route with the key is desired.
        is_desired: bool,
    },
    /// The row follows one with a greater key, or its table came before.
    OutOfOrder,
}

impl<'a, K: DumpKey> Walk<'a, K> {
    pub(super) fn new(desired: &'a BTreeMap<K, Id>) -> Walk<'a, K> {
        Walk {
            desired,
            table: None,
            next: None,
            rest: Range::default(),
            tables: BTreeSet::new(),
            last: None,
            mismatches: Vec::new(),
        }
    }

    /// Starts a new dump.
    pub(super) fn begin(&mut self) {
        *self = Walk::new(self.desired);
    }

    /// Advances to the next row's key. Desired routes passed on the way are mismatches.
    #[inline]
    pub(super) fn find(&mut self, key: K) -> OnKey {
        let table = key.table();
        if self.table != Some(table) {
            self.leave_table();
            if !self.tables.insert(table) {
                return OnKey::OutOfOrder;
            }
            self.table = Some(table);
            self.last = None;
            self.rest = self.desired.range(K::all_of(table));
            self.step();
        }
        match self.last {
            Some((last, is_desired)) if last == key => return OnKey::Repeated { is_desired },
            Some((last, _)) if last > key => return OnKey::OutOfOrder,
            _ => self.last = Some((key, false)),
        }
        while let Some((desired, id)) = self.next {
            if desired > key {
                break;
            }
            self.step();
            if desired == key {
                self.last = Some((key, true));
                return OnKey::Desired(id);
            }
            self.mismatches.push(desired);
        }
        OnKey::Undesired
    }

    #[inline]
    fn step(&mut self) {
        self.next = self.rest.next().map(|(key, id)| (*key, *id));
    }

    fn leave_table(&mut self) {
        let rest = std::mem::take(&mut self.rest).map(|(key, _)| *key);
        let next = self.next.take().map(|(key, _)| key);
        self.mismatches.extend(next.into_iter().chain(rest));
        self.table = None;
    }

    /// Ends the walk of one table or of all, and returns the mismatches in order. They include all
    /// desired routes in tables without rows.
    pub(super) fn end(&mut self, only: Option<u32>) -> Vec<K> {
        self.leave_table();
        for table in tables(self.desired) {
            if only.is_none_or(|only| only == table) && self.tables.insert(table) {
                let missing = self.desired.range(K::all_of(table));
                self.mismatches.extend(missing.map(|(key, _)| *key));
            }
        }
        let mut mismatches = std::mem::take(&mut self.mismatches);
        mismatches.sort_unstable();
        mismatches
    }
}
