//! [`ChangeLog`]: what changed of a collection, so that whoever knew it before need not compare it
//! all.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// A state of a collection. No two different states have the same revision, of whatever collection
/// of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    fn next() -> Revision {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Revision(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The changes of a collection, within a bound.
///
/// The verdict on a key depends on that key alone. So a diff of the keys that changed is that part
/// of the diff of all, and costs what it changes.
///
/// ```
/// use trueup_diff::ChangeLog;
///
/// let mut log = ChangeLog::new();
/// let before = log.now();
/// log.add("a", 16);
/// log.add("b", 16);
/// assert_eq!(log.since(before).map(|it| it.copied().collect()), Some(vec!["a", "b"]));
/// assert!(log.since(log.now()).is_some_and(|mut it| it.next().is_none()));
/// ```
#[derive(Clone, Debug)]
pub struct ChangeLog<C> {
    /// The revision before the first change that is kept.
    since: Revision,
    now: Revision,
    changes: VecDeque<(Revision, C)>,
}

impl<C> ChangeLog<C> {
    /// Makes the log of a new collection.
    pub fn new() -> ChangeLog<C> {
        let now = Revision::next();
        ChangeLog { since: now, now, changes: VecDeque::new() }
    }

    /// Returns the revision of the collection.
    pub fn now(&self) -> Revision {
        self.now
    }

    /// Adds a change. The log keeps the last `kept` changes.
    pub fn add(&mut self, change: C, kept: usize) {
        self.now = Revision::next();
        self.changes.push_back((self.now, change));
        if self.changes.len() > kept
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.since = gone;
        }
    }

    /// Returns the changes after a revision, or `None` if they are no longer kept, or if the
    /// revision is not one of this collection.
    pub fn since(&self, revision: Revision) -> Option<impl Iterator<Item = &C>> {
        let at = if revision == self.since {
            0
        } else {
            self.changes.binary_search_by_key(&revision, |(at, _)| *at).ok()? + 1
        };
        Some(self.changes.range(at..).map(|(_, change)| change))
    }
}

impl<C> Default for ChangeLog<C> {
    fn default() -> ChangeLog<C> {
        ChangeLog::new()
    }
}

#[cfg(test)]
mod tests;
