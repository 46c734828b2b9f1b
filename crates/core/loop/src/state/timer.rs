//! The timer: when a pass is due that nothing but time calls for.

use std::time::{Duration, Instant};

use trueup_reconcile::EventCoverage;

use super::schedule::bring_forward;
use super::{State, SubscriptionState};
use crate::pass_summary::MAX_TRACKED;
use crate::{Config, PassSummary};

impl State {
    /// Schedules what follows by the timer from a pass that is done, and `lasted` so long.
    ///
    /// While the subscription covers what the source manages, full passes are a safety net, and
    /// take a bounded share of the time.
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

    /// Returns what events report from now on, after a pass. Nothing counts as reported where
    /// something may be lost or left undone that no event and no backoff comes back to.
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
