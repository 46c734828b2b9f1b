//! The report of a completed pass, as far as a driver needs it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{OpKey, Outcome, Status};

/// The report of a completed pass, even if the pass did only a part of its work.
///
/// The trait has the parts that a driver needs; all but [`converged`](Self::converged) have
/// defaults. By convention, a concrete report also lists the applied, failed and pending ops, so
/// that every op has exactly one outcome.
pub trait Report {
    /// Returns true if the system, as read back, is in the desired state.
    ///
    /// It is computed from the last observation, never from acknowledgements, and is false if that
    /// observation is incomplete. After a pass over dirty objects, true means that these are right
    /// and no other object is known to be wrong. An object that another host only offers, and the
    /// system refuses, is not part of the desired state.
    fn converged(&self) -> bool;

    /// Calls `visit` once for every op of the pass. A driver counts the ops, and delays failed
    /// ones.
    ///
    /// A driver asks for few keys, mostly of failed ops, so each key is computed only on request.
    fn outcomes(&self, _visit: &mut dyn FnMut(ReportedOp<'_>)) {}

    /// Calls `visit` for every object whose status changed in this pass; with `None` if the object
    /// no longer has one. An object that the pass did not look at keeps its status.
    fn statuses(&self, _visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {}

    /// Returns true if ops are pending only because the driver's limits ended the pass before them.
    fn is_truncated(&self) -> bool {
        false
    }

    /// Returns true if the pass's last observation shows all of its objects. If false, an object
    /// without an op and without a status need not be in place.
    fn is_seen_whole(&self) -> bool {
        true
    }

    /// Returns the longest time from the end of the pass to the next one, because the source itself
    /// has delayed an object; `None` if it has not.
    fn requeue_after(&self) -> Option<Duration> {
        None
    }

    /// Returns the part of the pass's objects that the subscription covers: see [`EventCoverage`].
    /// The default is nothing.
    fn coverage(&self) -> EventCoverage {
        EventCoverage::Nothing
    }

    /// Returns the number of contended objects: another writer removes or changes them repeatedly.
    fn contended(&self) -> usize {
        0
    }
}

/// The part of a pass's objects that the subscription covers: it reports each of their later
/// changes, or that events were lost. A driver needs its timer only for the rest. A driver must
/// handle every case, so the list is exhaustive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventCoverage {
    /// Nothing, or it is not known. A full pass is needed at each interval.
    #[default]
    Nothing,
    /// A part. The other objects always count as dirty: a dirty pass looks at them too. A dirty
    /// pass is needed at each interval.
    Part,
    /// Everything. A full pass by the timer only finds changes that the subscription should have
    /// reported.
    Everything,
}

/// A driver's view of an op in a report.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ReportedOp<'a> {
    /// The object's kind, as the source names it, such as `route` or `sysctl`.
    pub kind: &'static str,
    /// The op's outcome, without its details.
    pub outcome: Outcome,
    /// Computes the object's key: the same at each call.
    pub key: &'a dyn Fn() -> OpKey,
}

impl<'a> ReportedOp<'a> {
    /// Creates an op. `key` computes the object's key, the same at each call.
    pub fn new(kind: &'static str, outcome: Outcome, key: &'a dyn Fn() -> OpKey) -> ReportedOp<'a> {
        ReportedOp { kind, outcome, key }
    }
}

impl ReportedOp<'_> {
    /// Computes the object's key.
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
