//! What is asked of the loop from outside, and what it says of itself.

use std::time::{Duration, Instant};

use trueup_reconcile::Drained;

use super::due::nearer;
use super::{Phase, State};
use crate::{Revision, Stats};

/// What is asked of the loop.
impl State {
    /// The subscription heard something. A hint: a pass over what is doubtful is due one debounce from now, unless one is due sooner.
    /// A loss: a whole one is, likewise; those that follow until such a pass has ended without another are of the same overrun.
    ///
    /// With hints all the time, a pass for them begins no sooner after the last than that one took.
    pub fn handle_heard(&mut self, now: Instant, heard: Drained) {
        match heard {
            Drained::Nothing => {}
            Drained::Hint => {
                self.stats.hints += 1;
                nearer(&mut self.due.doubtful, now, self.config.debounce());
            }
            Drained::Lost => {
                self.stats.overruns += u64::from(self.losing.is_none());
                self.losing = Some(true);
                self.ask(now);
            }
        }
    }

    /// A hint of a handle: a whole pass is due one debounce from now, unless one is due sooner.
    pub fn handle_hint(&mut self, now: Instant) {
        self.stats.hints += 1;
        self.ask(now);
    }

    /// Another desired state was declared: as a hint. Returns its revision.
    pub fn handle_desired(&mut self, now: Instant) -> Revision {
        self.ask(now);
        self.replaced = true;
        self.stats.desired = self.stats.desired.next();
        self.stats.desired
    }

    /// The desired state is changed in part: a pass is due at once. Over what is doubtful, unless a whole one is asked for anyway, which
    /// is then due as soon as the rest is over. Returns the revision that it makes.
    pub fn handle_change(&mut self, now: Instant) -> Revision {
        nearer(&mut self.due.changed, now, Duration::ZERO);
        self.stats.desired = self.stats.desired.next();
        self.stats.desired
    }

    /// A whole pass is asked for at once. Returns the number of the first pass that starts after this request.
    pub fn handle_force(&mut self, now: Instant) -> u64 {
        nearer(&mut self.due.at_once, now, Duration::ZERO);
        self.started + 1
    }

    /// No pass starts from now on, and a running one begins no further step. Returns the number of the last pass that started: once
    /// it [`is_over`](Self::is_over), nothing is written any more.
    ///
    /// Pausing what is paused changes nothing; one resume ends any number of pauses.
    pub fn handle_pause(&mut self) -> u64 {
        self.paused = true;
        self.started
    }

    /// Passes may start again, and a whole one is due at once, since hints may have been missed. No effect unless paused.
    pub fn handle_resume(&mut self, now: Instant) {
        if self.paused {
            self.paused = false;
            nearer(&mut self.due.at_once, now, Duration::ZERO);
        }
    }

    /// The loop ends: at once, or as soon as what it is doing is over. Pausing does not hold that up.
    pub fn handle_stop(&mut self, now: Instant) {
        self.stopping.get_or_insert(now);
    }

    /// No pass starts until a resume.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// A stop was asked for, or the end has come: no further pass will start.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_some() || self.is_ended()
    }

    /// The end has come.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether pass number `pass` is over. Pass 0, before the first, always is.
    pub fn is_over(&self, pass: u64) -> bool {
        self.over >= pass
    }

    /// Whether pass number `pass` has started.
    pub fn is_started(&self, pass: u64) -> bool {
        self.started >= pass
    }

    /// The number of the last pass that has started; 0 before the first.
    pub fn last_started(&self) -> u64 {
        self.started
    }

    /// Whether a pass over `revision` or a later one, among those numbered above `after`, said converged; or the last pass over did,
    /// and nothing was heard or asked for since it began.
    pub fn is_converged(&self, revision: Revision, after: u64) -> bool {
        self.converged.is_some_and(|converged| {
            converged.revision >= revision && (converged.pass > after || self.stands(&converged))
        })
    }

    /// How often the subscription has lost something.
    pub fn overruns(&self) -> u64 {
        self.stats.overruns
    }

    /// What was done so far, and how things stand.
    pub fn stats(&self, now: Instant) -> Stats {
        Stats {
            backed_off: self.backoff.len(),
            since_converged: self
                .converged
                .map(|converged| match self.stands(&converged) {
                    true => Duration::ZERO,
                    false => now.saturating_duration_since(converged.at),
                }),
            converged: self.converged.map(|converged| converged.revision),
            paused: self.paused,
            subscribed: self.is_subscribed(),
            ..self.stats.clone()
        }
    }
}
