//! The counters of the loop.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use trueup_reconcile::Ops;

/// The number of a desired state, in the order of declaration to one loop. The default is the one
/// that the loop was made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub(crate) u64);

impl Revision {
    /// Returns the number of desired states declared before it: 0 for the one that the loop was
    /// made with.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the next revision.
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

/// The counters and the present state of a loop. Counters start when the loop is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Passes that observed everything, including those that could not run.
    pub full_passes: u64,
    /// Passes over dirty objects, including those that could not run.
    pub dirty_passes: u64,
    /// Passes that could not run.
    pub failed_passes: u64,
    /// Passes that ended before all ops were tried: by the budget, the deadline, a pause or a stop.
    pub truncated_passes: u64,
    /// Ops by the kind of their objects, in the source's words.
    pub ops: BTreeMap<&'static str, Ops>,
    /// Hints of the subscription and of handles, also those that shared a pass.
    pub hints: u64,
    /// How often the subscription lost events.
    pub overruns: u64,
    /// How often the subscription failed, at first or later.
    pub subscription_failures: u64,
    /// Objects whose ops are in backoff because they failed.
    pub backed_off: usize,
    /// How long the last pass took, with its callbacks; `None` before the first is done.
    pub last_pass: Option<Duration>,
    /// The time until the next full pass, if no request comes before: by the timer, or for a
    /// request that is open. `None` while one runs or the loop is paused, and if none is due.
    pub next_full_pass: Option<Duration>,
    /// The time since the last converged pass ended; zero until a later hint, request or pass puts
    /// its result in doubt; `None` if no pass has converged.
    pub since_converged: Option<Duration>,
    /// The desired state declared last.
    pub desired: Revision,
    /// The desired state of the last converged pass.
    pub converged: Option<Revision>,
    /// True if no pass starts until a resume.
    pub paused: bool,
    /// True if a subscription gives hints.
    pub subscribed: bool,
}
