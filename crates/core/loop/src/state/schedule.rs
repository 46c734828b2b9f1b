//! The instants at which passes are due, one for each kind of request. A request can only bring an
//! instant forward, so no event delays a pass.

use std::time::{Duration, Instant};

/// The instants at which passes are due. `None`: no request of that kind is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// A full pass: the first one, a forced one, or the one after a resume.
    pub(crate) immediate: Option<Instant>,
    /// A full pass by the timer.
    pub(crate) interval: Option<Instant>,
    /// True if that comes later than after an interval.
    pub(crate) is_rare: bool,
    /// A dirty pass by the timer, for what the subscription does not cover.
    pub(crate) uncovered: Option<Instant>,
    /// A full pass for a handle's hint, a new desired state, or a loss of the subscription. Waits
    /// with the hints.
    pub(crate) requested: Option<Instant>,
    /// A full pass that continues one which left ops pending.
    pub(crate) follow_up: Option<Instant>,
    /// A dirty pass for a hint of the subscription. Waits with the hints.
    pub(crate) dirty: Option<Instant>,
    /// A dirty pass for a change of the desired state. If a full pass is requested as well, that
    /// one is due instead, and waits with the hints.
    pub(crate) change: Option<Instant>,
}

impl Schedule {
    /// Returns when a full pass is due. Hints wait until `hints_wait_until`.
    pub(crate) fn next_full(&self, hints_wait_until: Option<Instant>) -> Option<Instant> {
        let requested = self.requested.map(|at| {
            let at = self.change.map_or(at, |change| at.min(change));
            not_before(at, hints_wait_until)
        });
        [self.immediate, self.interval, requested, self.follow_up].into_iter().flatten().min()
    }

    /// Returns when a dirty pass is due. Hints wait until `hints_wait_until`.
    pub(crate) fn next_dirty(&self, hints_wait_until: Option<Instant>) -> Option<Instant> {
        let hinted = self.dirty.map(|at| not_before(at, hints_wait_until));
        let change = self.change.filter(|_| self.requested.is_none());
        let all = hinted.into_iter().chain(change);
        all.chain(self.uncovered).min()
    }

    /// Returns true if a hint or a request is open that no pass has begun to answer.
    pub(crate) fn has_requests(&self) -> bool {
        let all = [self.immediate, self.requested, self.dirty, self.change];
        all.iter().any(Option::is_some)
    }
}

/// Returns the later one of the two.
pub(crate) fn not_before(at: Instant, earliest: Option<Instant>) -> Instant {
    earliest.map_or(at, |earliest| at.max(earliest))
}

/// Sets `due` to `after` from `now`, unless it is earlier already. An instant beyond the clock's
/// range is never reached.
pub(crate) fn bring_forward(due: &mut Option<Instant>, now: Instant, after: Duration) {
    if let Some(at) = now.checked_add(after) {
        *due = Some(due.map_or(at, |due| due.min(at)));
    }
}
