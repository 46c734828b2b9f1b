//! The end of a pass: counts it, and schedules its consequences.

use std::time::{Duration, Instant};

use trueup_reconcile::Extent;

use super::backoff::DonePass;
use super::schedule::bring_forward;
use super::{Converged, DrainCause, Phase, RunningPass, State, SubscriptionState};
use crate::PassSummary;

/// The shortest time between a pass with pending ops and the one that continues it.
pub(crate) const MIN_REST: Duration = Duration::from_millis(10);

impl State {
    /// Takes the running pass's outcomes before its end, so that [`retry`](Self::retry) knows them
    /// while callbacks run. This is optional: [`handle_pass_done`](Self::handle_pass_done) takes
    /// outcomes that were not taken.
    pub fn handle_outcomes(&mut self, now: Instant, summary: &PassSummary) {
        if let Phase::InPass(running) = self.phase
            && !running.has_outcomes
        {
            self.take_outcomes(now, running, Some(summary));
            self.phase = Phase::InPass(RunningPass { has_outcomes: true, ..running });
        }
    }

    fn take_outcomes(&mut self, now: Instant, running: RunningPass, summary: Option<&PassSummary>) {
        let lasted = now.saturating_duration_since(running.since);
        self.backoff.pass_done(
            &DonePass {
                since: running.since,
                now,
                rest: MIN_REST.max(lasted),
                summary,
                is_full: running.extent == Extent::Everything,
            },
            &self.config,
            &mut self.jitter,
        );
    }

    /// Handles the end of the running pass: a summary of its report, or `None` if it could not run.
    /// Requests that came during the pass lead to another one.
    pub fn handle_pass_done(&mut self, now: Instant, summary: Option<&PassSummary>) {
        let Phase::InPass(running) = self.phase else {
            return;
        };
        let lasted = now.saturating_duration_since(running.since);
        let is_full = running.extent == Extent::Everything;
        self.phase = Phase::Idle;
        self.done = self.started;
        self.hints_wait_until = now.checked_add(lasted);
        self.cooldown = None;
        self.drain =
            (self.subscription == SubscriptionState::Polled).then_some(DrainCause::PassDone);
        self.stats.last_pass = Some(lasted);
        self.count(running.extent, summary);
        self.failed = summary.is_none().then_some(self.revision);
        // Passes that achieve nothing take at most half of the time.
        let idle_rest = MIN_REST.max(lasted);
        if !running.has_outcomes {
            self.take_outcomes(now, running, summary);
        }
        self.note_tried(summary, is_full);
        self.set_timer(now, lasted, is_full, summary);
        let Some(summary) = summary else {
            if !is_full {
                // The dirty objects are still dirty, and the source may have lost track of them.
                self.request_full_pass(now);
            }
            return;
        };
        if summary.converged {
            self.converged = Some(Converged { pass: self.done, revision: self.revision, at: now });
        }
        let tried = summary.tried();
        if let Some(budget) = &mut self.budget {
            budget.with(|it| it.spend(now, tried));
        }
        if let Some(after) = summary.requeue_after {
            bring_forward(&mut self.schedule.follow_up, now, after.max(idle_rest));
        }
        if summary.truncated {
            let rest = if tried > 0 { MIN_REST } else { idle_rest };
            let left = summary.pending();
            let refilled = match &mut self.budget {
                Some(budget) if running.ops.is_some_and(|ops| ops <= tried) => {
                    budget.with(|it| it.refilled(now, left))
                }
                _ => None,
            };
            let refill = refilled.map_or(Duration::ZERO, |at| at - now);
            bring_forward(&mut self.schedule.follow_up, now, refill.max(rest));
        }
    }

    /// Notes the revisions that were tried. If a pass left out a part, a later dirty pass need not
    /// look at it: only a full pass does.
    fn note_tried(&mut self, summary: Option<&PassSummary>, is_full: bool) {
        let is_whole = summary.is_some_and(|it| !it.truncated && !it.incomplete);
        if is_whole {
            self.tried = Some(self.revision);
            if is_full {
                self.left_out = None;
            }
        } else if self.tried < Some(self.revision) {
            let after = self.left_out.map_or(self.tried, |(after, _)| after);
            self.left_out = Some((after, self.revision));
        }
    }

    fn count(&mut self, extent: Extent, summary: Option<&PassSummary>) {
        match extent {
            Extent::Everything => self.stats.full_passes += 1,
            Extent::Dirty => self.stats.dirty_passes += 1,
        }
        let Some(summary) = summary else {
            self.stats.failed_passes += 1;
            return;
        };
        self.stats.truncated_passes += u64::from(summary.truncated);
        for (kind, ops) in &summary.ops {
            *self.stats.ops.entry(kind).or_default() += *ops;
        }
    }
}
