//! The state machine's inputs from handles and the subscription, and the handles' questions.

use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, OpKey};

use super::schedule::bring_forward;
use super::{Phase, State};
use crate::{Revision, Stats};

/// Inputs from handles and the subscription.
impl State {
    /// Handles a notification of the subscription. A hint requests a dirty pass within one
    /// debounce; a loss requests a full one. Losses until such a pass has ended without another
    /// loss count as one overrun.
    ///
    /// If hints come constantly, a pass for them begins at the earliest as long after the last pass
    /// as that pass took.
    pub fn handle_notification(&mut self, now: Instant, notification: Drained) {
        match notification {
            Drained::Nothing => {}
            Drained::Hint => {
                self.stats.hints += 1;
                bring_forward(&mut self.schedule.dirty, now, self.config.debounce());
            }
            Drained::Lost => {
                self.stats.overruns += u64::from(self.overrun.is_none());
                self.overrun = Some(true);
                self.request_full_pass(now);
            }
        }
    }

    /// Handles a handle's hint: a full pass is due within one debounce.
    pub fn handle_hint(&mut self, now: Instant) {
        self.stats.hints += 1;
        self.request_full_pass(now);
    }

    /// Handles a new desired state, which counts as a hint. Returns its revision.
    pub fn handle_desired(&mut self, now: Instant) -> Revision {
        self.request_full_pass(now);
        self.replaced = true;
        self.stats.desired = self.stats.desired.next();
        self.stats.desired
    }

    /// Handles a change of the desired state: a dirty pass is due at once. If a full pass is
    /// requested too, the full pass is due instead, as soon as hints need no longer wait. Returns
    /// the revision after the change.
    pub fn handle_change(&mut self, now: Instant) -> Revision {
        bring_forward(&mut self.schedule.change, now, Duration::ZERO);
        self.stats.desired = self.stats.desired.next();
        self.stats.desired
    }

    /// Sets the objects that the running pass's changes affect; `None` if they are not known. Their
    /// failed ops may be tried at once.
    pub fn handle_changed_keys(&mut self, keys: Option<&[OpKey]>) {
        self.backoff.desired_changed(keys);
    }

    /// Requests a full pass at once. Returns the number of the first pass that starts after this
    /// request.
    pub fn handle_force(&mut self, now: Instant) -> u64 {
        bring_forward(&mut self.schedule.immediate, now, Duration::ZERO);
        self.started + 1
    }

    /// Lets a pass requested by hints or a new desired state begin at once, without its debounce.
    pub fn handle_hurry(&mut self, now: Instant) {
        for due in [&mut self.schedule.requested, &mut self.schedule.dirty] {
            *due = due.map(|at| at.min(now));
        }
        self.hints_wait_until = self.hints_wait_until.filter(|_| !self.schedule.has_requests());
    }

    /// Pauses: no pass starts from now on, and a running one begins no further step. Returns the
    /// number of the last pass that started: once it [`is_done`](Self::is_done), nothing is
    /// written.
    ///
    /// Pausing a paused loop changes nothing, and one resume ends any number of pauses.
    pub fn handle_pause(&mut self) -> u64 {
        self.paused = true;
        self.started
    }

    /// Ends the pause. A full pass is due at once, because hints may have been missed. If the loop
    /// is not paused, this has no effect.
    pub fn handle_resume(&mut self, now: Instant) {
        if self.paused {
            self.paused = false;
            bring_forward(&mut self.schedule.immediate, now, Duration::ZERO);
        }
    }

    /// Ends the loop, even while it is paused: at once, or as soon as the current action is done.
    pub fn handle_stop(&mut self, now: Instant) {
        self.stopping.get_or_insert(now);
    }

    /// True if no pass starts until a resume.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// True if a stop was requested or the loop has ended: no further pass starts.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some() || self.is_ended()
    }

    /// True once no action follows: after [`End`](crate::Action::End), or without a driver.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns true if pass number `pass` is done. Pass 0, before the first, always is.
    pub fn is_done(&self, pass: u64) -> bool {
        self.done >= pass
    }

    /// Returns true if pass number `pass` has started.
    pub fn is_started(&self, pass: u64) -> bool {
        self.started >= pass
    }

    /// Returns the number of the last pass that started; 0 before the first.
    pub fn last_started(&self) -> u64 {
        self.started
    }

    /// Returns true if a pass over `revision` or a later one, numbered above `after`, has
    /// converged. Also true if the last pass over such a revision has, and no hint or request came
    /// since it began.
    pub fn is_converged(&self, revision: Revision, after: u64) -> bool {
        self.converged.is_some_and(|converged| {
            converged.revision >= revision
                && (converged.pass > after || self.still_holds(&converged))
        })
    }

    /// Returns true if the last pass could not run, was over `revision` or a later one, and no hint
    /// or request came since it began: only the timer brings another pass.
    pub fn has_failed(&self, revision: Revision) -> bool {
        self.failed >= Some(revision) && self.done == self.started && !self.schedule.has_requests()
    }

    /// Returns true if a pass over `revision` or a later one has tried all objects that `revision`
    /// changed: it was not cut short, and [read](trueup_reconcile::Report::is_seen_whole) all its
    /// objects.
    pub fn is_tried(&self, revision: Revision) -> bool {
        let is_left_out =
            self.left_out.is_some_and(|(after, last)| after < Some(revision) && revision <= last);
        self.tried >= Some(revision) && !is_left_out
    }

    /// Returns how often the subscription has lost events.
    pub fn overruns(&self) -> u64 {
        self.stats.overruns
    }

    /// Returns the loop's counters and current state.
    pub fn stats(&self, now: Instant) -> Stats {
        Stats {
            backed_off: self.backoff.len(),
            since_converged: self.converged.map(|converged| {
                if self.still_holds(&converged) {
                    Duration::ZERO
                } else {
                    now.saturating_duration_since(converged.at)
                }
            }),
            converged: self.converged.map(|converged| converged.revision),
            next_full_pass: self.next_full_pass(now),
            paused: self.paused,
            subscribed: self.is_subscribed(),
            ..self.stats.clone()
        }
    }

    /// Returns the time until the next full pass that is already scheduled; `None` if none is.
    fn next_full_pass(&self, now: Instant) -> Option<Duration> {
        let is_over = self.paused || self.is_stopping() || self.phase == Phase::New;
        let due = self.schedule.next_full(self.hints_wait_until).filter(|_| !is_over)?;
        Some(due.saturating_duration_since(now))
    }
}
