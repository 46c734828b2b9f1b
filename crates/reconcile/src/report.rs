//! The least that a driver needs to know of a completed pass.

use std::fmt;
use std::time::Duration;

use crate::{ErrorClass, OpKey};

/// What a completed pass tells, even one that could do only a part of its work.
///
/// The trait is what a driver needs and no more; all but [`converged`](Self::converged) has a default. By convention a concrete
/// report also shows what was applied, what failed and what is pending, so that every op has exactly one outcome.
pub trait Report {
    /// The world, as read back, is what was desired.
    ///
    /// Computed from what was read, never from acknowledgements; false whenever that could not be told. Of a pass over what was
    /// doubtful it says that this is right by now, and that nothing else was known to be wrong.
    fn converged(&self) -> bool;

    /// Tells every op of the pass, once, with its outcome. A driver counts them, and spaces out what fails.
    ///
    /// A driver asks for the keys of few of them, mostly of those that failed: what a key costs is paid where it is asked for.
    fn outcomes(&self, _tell: &mut dyn FnMut(ReportedOp<'_>)) {}

    /// Whether ops are pending only because the driver's terms ended the pass before their turn.
    fn is_truncated(&self) -> bool {
        false
    }

    /// When the source wants to look again at the latest, from the end of the pass, where it has left something alone for a
    /// time.
    fn requeue_after(&self) -> Option<Duration> {
        None
    }

    /// How many objects somebody else takes from us again and again.
    fn contended(&self) -> usize {
        0
    }
}

/// An op, as far as a driver needs to know it.
#[derive(Clone, Copy)]
pub struct ReportedOp<'a> {
    /// The kind of the object, in the source's words: `route`, `sysctl`.
    pub kind: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// Names the object that it is about, when asked: any number of times, with one answer.
    pub key: &'a dyn Fn() -> OpKey,
}

impl ReportedOp<'_> {
    /// The object that it is about.
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

/// What became of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Applied,
    /// It was refused, or its answer was lost.
    Failed(ErrorClass),
    /// It was not tried.
    Pending,
}
