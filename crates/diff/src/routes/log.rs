//! What has changed of the desired routes, so that whoever knew them before need not compare them all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::values::{Id, Value};
use crate::kinds::RouteKey;

/// So many changes are kept at the least, and of a great number of routes a sixteenth of it.
const KEPT: usize = 4096;

/// A state that desired routes were in. No two that differ share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    fn next() -> Revision {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Revision(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Of a route, and what it had before.
    Route(RouteKey, Option<Arc<Value>>),
    /// Of the way of all routes of a value.
    Nexthops(Id),
}

#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// What is kept begins after this one.
    since: Revision,
    now: Revision,
    changes: VecDeque<(Revision, Change)>,
}

impl Default for Log {
    fn default() -> Log {
        let now = Revision::next();
        Log {
            since: now,
            now,
            changes: VecDeque::new(),
        }
    }
}

impl Log {
    pub(crate) fn now(&self) -> Revision {
        self.now
    }

    /// Notes a change, of so many routes in all.
    pub(crate) fn note(&mut self, change: Change, routes: usize) {
        self.now = Revision::next();
        self.changes.push_back((self.now, change));
        if self.changes.len() > KEPT.max(routes / 16)
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.since = gone;
        }
    }

    /// The changes after a revision; none if that is not known any more, or never was.
    pub(crate) fn since(&self, revision: Revision) -> Option<impl Iterator<Item = &Change>> {
        let at = match revision == self.since {
            true => 0,
            false => {
                let found = self.changes.binary_search_by_key(&revision, |(at, _)| *at);
                found.ok()? + 1
            }
        };
        Some(self.changes.range(at..).map(|(_, change)| change))
    }
}
