//! [`ChangeLog`]: the changes of a collection, so that a reader who knew an earlier state need not
//! compare everything.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// A state of a collection. Different states have different revisions, across all collections of
/// the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    fn next() -> Revision {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Revision(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// The latest changes of a collection.
///
/// The verdict on a key depends only on that key. So a diff of the changed keys equals that part of
/// the full diff, and its cost depends only on the changes.
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
    /// The revision before the first kept change.
    since: Revision,
    now: Revision,
    changes: VecDeque<(Revision, C)>,
}

impl<C> ChangeLog<C> {
    /// Creates the log of a new collection, with a revision of its own.
    pub fn new() -> ChangeLog<C> {
        let now = Revision::next();
        ChangeLog { since: now, now, changes: VecDeque::new() }
    }

    /// Returns the collection's current revision, for a later [`since`](Self::since).
    ///
    /// ```
    /// let log = trueup_diff::ChangeLog::<u8>::new();
    /// let other = trueup_diff::ChangeLog::<u8>::new();
    /// assert_eq!(log.now(), log.now());
    /// assert_ne!(log.now(), other.now());
    /// ```
    pub fn now(&self) -> Revision {
        self.now
    }

    /// Adds a change, and drops all but the last `kept` changes.
    pub fn add(&mut self, change: C, kept: usize) {
        self.now = Revision::next();
        self.changes.push_back((self.now, change));
        if self.changes.len() > kept
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.since = gone;
        }
    }

    /// Returns the changes after a revision; `None` if they are no longer kept, or if the revision
    /// belongs to another collection.
    ///
    /// ```
    /// use trueup_diff::ChangeLog;
    ///
    /// let mut log = ChangeLog::new();
    /// let before = log.now();
    /// log.add("a", 2);
    /// log.add("b", 2);
    /// assert!(log.since(before).is_some_and(|changes| changes.eq(&["a", "b"])));
    /// log.add("c", 2); // only the last two are kept
    /// assert!(log.since(before).is_none());
    /// ```
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
