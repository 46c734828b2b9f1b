//! Which exports have changed, for readers that look now and then.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ResourceKey;

/// What a reader of a [`Collector`](crate::Collector) has seen. Unless it has seen something, it gets
/// all that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of the collector; 0, it has seen nothing.
    collector: u64,
    /// How many changes it has seen.
    changes: u64,
    /// It was told that all is withdrawn.
    is_withdrawn: bool,
}

/// The last changes. A reader that is farther behind gets all that there is.
pub(super) struct Changes {
    collector: u64,
    keys: VecDeque<ResourceKey>,
    /// How many there were before the first key.
    forgotten: u64,
}

/// How many changes are remembered.
const REMEMBERED: usize = 16_384;

impl Default for Changes {
    fn default() -> Changes {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let collector = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Changes { collector, keys: VecDeque::new(), forgotten: 0 }
    }
}

impl Changes {
    /// Adds a change.
    pub(super) fn push(&mut self, key: ResourceKey) {
        if self.keys.len() == REMEMBERED {
            self.keys.pop_front();
            self.forgotten += 1;
        }
        self.keys.push_back(key);
    }

    /// Has each reader get all that there is.
    pub(super) fn forget(&mut self) {
        self.forgotten += self.keys.len() as u64 + 1;
        self.keys.clear();
    }

    /// Returns what a reader has seen who has seen all.
    pub(super) fn seen(&self, is_withdrawn: bool) -> Seen {
        let changes = self.forgotten + self.keys.len() as u64;
        Seen { collector: self.collector, changes, is_withdrawn }
    }

    /// Returns the exports that have changed since a reader looked; none: any may have.
    pub(super) fn since(&self, seen: Seen, is_withdrawn: bool) -> Option<BTreeSet<&ResourceKey>> {
        if seen.collector != self.collector || seen.is_withdrawn != is_withdrawn {
            return None;
        }
        let skipped = usize::try_from(seen.changes.checked_sub(self.forgotten)?).ok()?;
        Some(self.keys.iter().skip(skipped).collect())
    }
}
