//! What changed of desired routes, so that whoever knew them before need not compare them all.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::values::{Id, Value};
use crate::kinds::RouteKey;

/// The least number of changes that are kept. Of many routes a sixteenth of their number is kept.
const KEPT: usize = 4096;

/// A state of desired routes. No two different states have the same revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutesRevision(u64);

impl RoutesRevision {
    fn next() -> RoutesRevision {
        static LAST: AtomicU64 = AtomicU64::new(0);
        RoutesRevision(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// One change.
#[derive(Clone, Debug)]
pub(in crate::routes) enum Change<D> {
    /// The route of a key changed; the value is what it had before.
    Route(RouteKey, Option<Arc<Value<D>>>),
    /// All routes of a value got other next hops; the value is what they had before.
    Nexthops(Id, Arc<Value<D>>),
}

#[derive(Clone, Debug)]
pub(in crate::routes) struct ChangeLog<D> {
    /// The revision before the first change that is kept.
    since: RoutesRevision,
    now: RoutesRevision,
    changes: VecDeque<(RoutesRevision, Change<D>)>,
}

impl<D> Default for ChangeLog<D> {
    fn default() -> ChangeLog<D> {
        let now = RoutesRevision::next();
        ChangeLog { since: now, now, changes: VecDeque::new() }
    }
}

impl<D> ChangeLog<D> {
    pub(in crate::routes) fn now(&self) -> RoutesRevision {
        self.now
    }

    /// Adds a change. `routes` is the number of all routes.
    pub(in crate::routes) fn add(&mut self, change: Change<D>, routes: usize) {
        self.now = RoutesRevision::next();
        self.changes.push_back((self.now, change));
        if self.changes.len() > KEPT.max(routes / 16)
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.since = gone;
        }
    }

    /// Returns the changes after a revision, or `None` if they are not kept any more.
    pub(in crate::routes) fn since(
        &self,
        revision: RoutesRevision,
    ) -> Option<impl Iterator<Item = &Change<D>>> {
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
