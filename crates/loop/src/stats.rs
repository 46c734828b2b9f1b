//! What the loop counts. Not how it is shown.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use trueup_reconcile::Outcome;

use crate::passed::fails;

/// The number of a desired state, in the order in which they were declared to one loop. The default is the one that the loop was
/// made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub(crate) u64);

impl Revision {
    /// How many were declared before it: 0 for the one that the loop was made with.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The one declared after it.
    #[must_use]
    pub(crate) fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a loop has done so far, and how it stands. All counts are since the loop was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Passes over all that is managed, those that failed among them.
    pub whole: u64,
    /// Passes over what was doubtful, those that failed among them.
    pub doubtful: u64,
    /// Passes that could not run.
    pub failed: u64,
    /// Passes that were ended before all was done: by the budget, the deadline, a pause or a stop.
    pub cut: u64,
    /// Ops by the kind of their objects, in the source's words.
    pub ops: BTreeMap<&'static str, Ops>,
    /// Hints taken in, whether they led to a pass of their own or shared one: those of the subscription and those of handles.
    pub hints: u64,
    /// How often the subscription lost something on the way.
    pub overruns: u64,
    /// How often the subscription failed, at first or later.
    pub subscription_failures: u64,
    /// Objects whose ops are not tried for the time being because they failed.
    pub backed_off: usize,
    /// How long the last pass took, with its callbacks; none before the first is over.
    pub last_pass: Option<Duration>,
    /// How long ago the last pass that said converged was over; zero while that still stands, which is until something is heard,
    /// asked for or found; none if there was none.
    pub since_converged: Option<Duration>,
    /// The desired state that was declared last.
    pub desired: Revision,
    /// The one that the last converged pass was over.
    pub converged: Option<Revision>,
    /// No pass starts until a resume.
    pub paused: bool,
    /// Hints come from a subscription.
    pub subscribed: bool,
}

/// What became of ops. One that is pending, or fails, in many passes counts in each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ops {
    /// Carried out.
    pub applied: u64,
    /// Refused, or their answer was lost.
    pub failed: u64,
    /// Not tried.
    pub pending: u64,
}

impl Ops {
    pub(crate) fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Pending => &mut self.pending,
            _ if fails(outcome) => &mut self.failed,
            _ => &mut self.applied,
        } += 1;
    }
}

impl AddAssign for Ops {
    fn add_assign(&mut self, other: Ops) {
        self.applied += other.applied;
        self.failed += other.failed;
        self.pending += other.pending;
    }
}
