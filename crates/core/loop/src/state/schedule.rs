//! The times at which passes are due: one for each kind of request, and the timer's. A request can
//! only bring a time forward, so no event delays a pass.

use std::time::{Duration, Instant};

use trueup_reconcile::EventCoverage;

use super::{State, SubscriptionState};
use crate::stats::MAX_TRACKED;
use crate::{Config, PassSummary};

/// The times at which passes are due; `None` if no request of that kind is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// A full pass: the first one, a forced one, or the one after a resume.
    pub(crate) immediate: Option<Instant>,
    /// A full pass by the timer.
    pub(crate) interval: Option<Instant>,
    /// True if the timer waits longer than one interval.
    pub(crate) is_rare: bool,
    /// A dirty pass by the timer, for objects that the subscription does not cover.
    pub(crate) uncovered: Option<Instant>,
    /// A full pass for a handle's hint, a new desired state, or a loss of the subscription. It
    /// waits with the hints.
    pub(crate) requested: Option<Instant>,
    /// A full pass that continues one which left ops pending.
    pub(crate) follow_up: Option<Instant>,
    /// A dirty pass for a hint of the subscription. It waits with the hints.
    pub(crate) dirty: Option<Instant>,
    /// A dirty pass for a change of the desired state. If a full pass is requested too, the full
    /// pass is due instead, and waits with the hints.
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

/// Returns the later of the two instants.
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

impl State {
    /// Schedules the timer's passes after a pass that took `lasted`.
    ///
    /// While the subscription covers all that the source manages, full passes are a safety net, and
    /// take a limited share of the time.
    pub(super) fn set_timer(
        &mut self,
        now: Instant,
        lasted: Duration,
        is_full: bool,
        summary: Option<&PassSummary>,
    ) {
        let coverage = self.coverage(summary);
        let interval = self.config.interval();
        if is_full {
            let is_changed = summary.is_some_and(PassSummary::has_applied);
            let rest = match coverage {
                EventCoverage::Part | EventCoverage::Everything if !is_changed => {
                    lasted.saturating_mul(self.config.interval_factor())
                }
                _ => Duration::ZERO,
            };
            self.schedule.is_rare = rest > interval;
            let after = self.varied(interval.max(rest));
            bring_forward(&mut self.schedule.interval, now, after);
            if self.subscription != SubscriptionState::Polled {
                // No drain follows that would find another loss.
                self.overrun = self.overrun.filter(|lost| *lost);
            }
        } else if coverage == EventCoverage::Nothing && self.schedule.is_rare {
            self.schedule.is_rare = false;
            let after = self.varied(interval);
            bring_forward(&mut self.schedule.interval, now, after);
        }
        if coverage == EventCoverage::Part && self.schedule.is_rare {
            let after = self.varied(interval);
            self.schedule.uncovered = now.checked_add(after);
        }
    }

    /// Returns the part that events cover from now on, after a pass. Nothing counts as covered if
    /// something may be lost or left undone to which neither an event nor a backoff returns.
    fn coverage(&self, summary: Option<&PassSummary>) -> EventCoverage {
        let is_sound = self.is_subscribed() && self.overrun.is_none();
        let is_followed = self.backoff.len() < MAX_TRACKED;
        match summary.filter(|_| is_sound && is_followed) {
            Some(it) if !it.truncated && !it.incomplete && !it.has_untracked_pending() => {
                it.coverage
            }
            _ => EventCoverage::Nothing,
        }
    }

    fn varied(&mut self, interval: Duration) -> Duration {
        let varied = self.jitter.apply(interval, self.config.jitter());
        varied.max(Config::MIN_INTERVAL)
    }
}

/// A source of jitter. The same seed gives the same sequence.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(fastrand::Rng);

impl Jitter {
    pub(crate) fn with_seed(seed: u64) -> Jitter {
        Jitter(fastrand::Rng::with_seed(seed))
    }

    /// Returns `time`, longer or shorter by up to `percent` of it. If `percent` is 0, draws no
    /// random number.
    pub(crate) fn apply(&mut self, time: Duration, percent: u8) -> Duration {
        if percent == 0 {
            return time;
        }
        let reach = time.as_nanos() / 100 * u128::from(percent);
        let nanos = time.as_nanos() - reach + self.0.u128(0..=2 * reach);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        Duration::new(seconds, (nanos % 1_000_000_000) as u32)
    }
}
