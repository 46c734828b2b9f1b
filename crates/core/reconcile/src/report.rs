//! The report of a completed pass: the part that a driver needs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{OpKey, Outcome, Status};

/// The report of a completed pass, also of one that did only a part of its work.
///
/// The trait has what a driver needs; everything but [`converged`](Self::converged) has a default.
/// By convention a concrete report also lists the ops that were applied, failed or are pending, so
/// that every op has exactly one outcome.
pub trait Report {
    /// Returns true if the system, as read back, is in the desired state.
    ///
    /// It is computed from the last observation, never from acknowledgements, and false if that
    /// observation is incomplete. After a pass over dirty objects it means that these are right,
    /// and that no other object is known to be wrong. What another host only offers, and the
    /// system refuses, is not part of the desired state.
    fn converged(&self) -> bool;

    /// Calls `visit` once for every op of the pass. A driver counts ops, and delays those that
    /// fail.
    ///
    /// A driver asks for the keys of few ops, mostly of those that failed, so a key is computed
    /// only then.
    fn outcomes(&self, _visit: &mut dyn FnMut(ReportedOp<'_>)) {}

    /// Calls `visit` for every object whose status this pass has found changed; with `None` if the
    /// object has none any more. Of an object that the pass did not look at the status stays.
    fn statuses(&self, _visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {}

    /// Returns true if ops are pending only because the driver's limits ended the pass before them.
    fn is_truncated(&self) -> bool {
        false
    }

    /// Returns true if the last observation of the pass shows all that the pass is about. If false,
    /// an object without an op and without a status need not be in place.
    fn is_seen_whole(&self) -> bool {
        true
    }

    /// Returns after which time from the end of the pass the source needs another one at the
    /// latest, because it has put off an object itself.
    fn requeue_after(&self) -> Option<Duration> {
        None
    }

    /// Returns how much of what the pass was about is covered by the subscription: see
    /// [`EventCoverage`]. Nothing by default.
    fn coverage(&self) -> EventCoverage {
        EventCoverage::Nothing
    }

    /// Returns the number of contended objects: another writer removes or changes them repeatedly.
    fn contended(&self) -> usize {
        0
    }
}

/// How much of what a pass was about is covered by the subscription: it reports every later change
/// of that, or that events were lost. A driver's timer is needed for the rest alone. A driver has
/// to know every case, so the list is exhaustive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventCoverage {
    /// Nothing, or that is not known. Each interval a full pass is needed.
    #[default]
    Nothing,
    /// A part. The rest counts as dirty at all times: a dirty pass looks at it, too. Each interval
    /// a dirty pass is needed.
    Part,
    /// Everything. A full pass by the timer only finds what the subscription should have reported.
    Everything,
}

/// An op in a report, as a driver sees it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ReportedOp<'a> {
    /// The kind of the object, as the source names it: `route`, `sysctl`.
    pub kind: &'static str,
    /// Its outcome.
    pub outcome: Outcome,
    /// Returns the key of its object: the same at each call.
    pub key: &'a dyn Fn() -> OpKey,
}

impl<'a> ReportedOp<'a> {
    /// Makes an op. `key` returns the key of its object, the same at each call.
    pub fn new(kind: &'static str, outcome: Outcome, key: &'a dyn Fn() -> OpKey) -> ReportedOp<'a> {
        ReportedOp { kind, outcome, key }
    }
}

impl ReportedOp<'_> {
    /// Returns the key of its object.
    pub fn key(&self) -> OpKey {
        (self.key)()
    }
}

impl fmt::Debug for ReportedOp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReportedOp")
            .field("kind", &self.kind)
            .field("outcome", &self.outcome)
            .field("key", &self.key())
            .finish()
    }
}
