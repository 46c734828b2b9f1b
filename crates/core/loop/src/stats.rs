//! The loop's counters, and the summary of a report: the part on which the state machine decides.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::time::Duration;

use trueup_reconcile::{EventCoverage, OpKey, Ops, Outcome, Report};

/// A desired state's number, in the order of declaration to one loop. The default is the loop's
/// initial desired state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub(crate) u64);

impl Revision {
    /// Returns the number of desired states declared before this one: 0 for the loop's initial one.
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

/// A loop's counters and current state. Counters start when the loop is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of passes over everything, including passes that could not run.
    pub full_passes: u64,
    /// The number of passes over dirty objects, including passes that could not run.
    pub dirty_passes: u64,
    /// The number of passes that could not run.
    pub failed_passes: u64,
    /// The number of passes cut short before all ops were tried: by the budget, the deadline, a
    /// pause or a stop.
    pub truncated_passes: u64,
    /// The ops, by the kind of their objects, as the source names it.
    pub ops: BTreeMap<&'static str, Ops>,
    /// The number of hints from the subscription and from handles, including ones that shared a
    /// pass.
    pub hints: u64,
    /// How often the subscription lost events.
    pub overruns: u64,
    /// How often the subscription failed, at first or later.
    pub subscription_failures: u64,
    /// The number of objects in backoff because their ops failed.
    pub backed_off: usize,
    /// The last pass's duration, with its callbacks; `None` before the first is done.
    pub last_pass: Option<Duration>,
    /// The time until the next full pass if no request comes before: by the timer, or for an open
    /// request. `None` while one runs, while the loop is paused, and if none is due.
    pub next_full_pass: Option<Duration>,
    /// The time since the last converged pass ended; zero while no later hint, request or pass
    /// puts its result in doubt; `None` if no pass has converged.
    pub since_converged: Option<Duration>,
    /// The revision of the latest declared desired state; the first one is the state given to the
    /// loop.
    pub desired: Revision,
    /// The desired state of the last converged pass; `None` if none has.
    pub converged: Option<Revision>,
    /// True if no pass starts until a resume.
    pub paused: bool,
    /// True if a subscription gives hints.
    pub subscribed: bool,
}

/// The number of failed objects that are tracked. The ops of further objects have no backoff.
pub(crate) const MAX_TRACKED: usize = 65_536;

/// The summary of a report for [`State`](crate::State).
///
/// It is a copy, so no code of a source runs under the state's lock. Its size is bounded, however
/// many ops there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassSummary {
    /// True if [`Report::converged`] is, and no op failed.
    pub converged: bool,
    /// True if the pass was cut short: [`Report::is_truncated`].
    pub truncated: bool,
    /// True if the pass did not read all its objects: [`Report::is_seen_whole`] is false.
    pub incomplete: bool,
    /// The objects that events cover: [`Report::coverage`].
    pub coverage: EventCoverage,
    /// The delay after which the source asks for a pass: [`Report::requeue_after`].
    pub requeue_after: Option<Duration>,
    /// The number of ops of each outcome, by the kind of their objects.
    pub ops: BTreeMap<&'static str, Ops>,
    /// The outcomes of objects: of [tracked](crate::State::is_tracked) ones, because an op on them
    /// failed before, and of up to 65,536 others on which an op failed. If an object has several
    /// ops, a failed one counts first, then a pending one.
    pub objects: BTreeMap<OpKey, Outcome>,
}

impl PassSummary {
    /// Summarises a report. `tracked` returns true for tracked objects; `None` if none is tracked.
    ///
    /// It iterates over the outcomes once.
    pub fn of(report: &impl Report, tracked: Option<&dyn Fn(OpKey) -> bool>) -> PassSummary {
        let mut summary = PassSummary {
            converged: report.converged(),
            truncated: report.is_truncated(),
            incomplete: !report.is_seen_whole(),
            coverage: report.coverage(),
            requeue_after: report.requeue_after(),
            ..PassSummary::default()
        };
        // Ops of one kind usually come together, so each series of them needs one look-up.
        let mut run = ("", Ops::default());
        let mut untracked = 0;
        report.outcomes(&mut |op| {
            if op.kind != run.0 {
                summary.add(std::mem::replace(&mut run, (op.kind, Ops::default())));
            }
            run.1.count(op.outcome);
            let may_be_new = op.outcome.is_failure() && untracked < MAX_TRACKED;
            if !may_be_new && tracked.is_none() {
                return;
            }
            let key = op.key();
            let is_tracked = tracked.is_some_and(|tracked| tracked(key));
            if may_be_new || is_tracked {
                let is_new = summary.merge(key, op.outcome);
                untracked += usize::from(is_new && !is_tracked);
            }
        });
        summary.add(run);
        summary.converged &= summary.ops.values().all(|ops| ops.failed == 0);
        summary
    }

    /// Returns the number of tried ops of all kinds.
    pub fn tried(&self) -> u64 {
        self.ops.values().map(Ops::tried).sum()
    }

    /// Returns the number of pending ops of all kinds, which were not tried.
    pub fn pending(&self) -> u64 {
        self.ops.values().map(|ops| ops.pending).sum()
    }

    /// Returns true if an op of any kind was applied.
    pub fn has_applied(&self) -> bool {
        self.ops.values().any(|ops| ops.applied > 0)
    }

    /// Returns true if an untracked object has an op that was not tried: no backoff will retry it.
    pub(crate) fn has_untracked_pending(&self) -> bool {
        let tracked = self.objects.values().filter(|it| **it == Outcome::Pending(())).count();
        self.pending() > u64::try_from(tracked).unwrap_or(u64::MAX)
    }

    fn add(&mut self, (kind, ops): (&'static str, Ops)) {
        if ops != Ops::default() {
            *self.ops.entry(kind).or_default() += ops;
        }
    }

    /// Adds an object's outcome. Returns true if it is the object's first.
    fn merge(&mut self, key: OpKey, outcome: Outcome) -> bool {
        match self.objects.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(outcome);
                true
            }
            Entry::Occupied(mut entry) => {
                if rank(outcome) > rank(*entry.get()) {
                    entry.insert(outcome);
                }
                false
            }
        }
    }
}

fn rank(outcome: Outcome) -> u8 {
    match outcome {
        _ if outcome.is_failure() => 2,
        Outcome::Pending(()) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
