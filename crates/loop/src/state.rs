//! The loop's decisions, given the time. No clock, no sleep, no thread, no descriptor.
//!
//! What asks for a pass comes down to instants at which one is due ([`due`]); what holds back within a pass is how often an op
//! failed ([`backoff`]), how many were carried out ([`budget`]), and the deadline.

mod asked;
mod backoff;
mod budget;
mod due;
mod over;
mod random;

#[cfg(test)]
mod explored;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, Extent, OpKey};

use self::backoff::Backoff;
pub(crate) use self::backoff::MOST;
use self::budget::Budget;
use self::due::{Due, nearer};
use self::random::Random;
use crate::{Config, Revision, Stats};

/// For how long a descriptor is left alone after it was attended to: noise wakes the driver no more than a hundred times a second.
const DEAF: Duration = Duration::from_millis(10);

/// What the driver is to do next. Each is answered by an input: see the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Drop the subscription, if there is one, and subscribe for hints; then call [`State::handle_subscribed`], whatever came of it.
    Subscribe,
    /// Have the subscription attend to its descriptor, then call [`State::handle_attended`].
    Attend,
    /// Run a pass, asking [`State::go_on`] and [`State::held`] on the way, then call [`State::handle_pass_over`], whatever came
    /// of it.
    Pass {
        /// How much to look at.
        extent: Extent,
        /// How many ops may be carried out; none: any number; 0: a look.
        ops: Option<u64>,
        /// The desired state that was declared last.
        revision: Revision,
    },
    /// End the loop. Nothing follows.
    End,
}

/// How hints come, if they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// Not at all: the source has none to give.
    Unsupported,
    /// Not at all: the subscription failed. It is asked for again before a later whole pass, after half an interval at the soonest.
    Failed,
    /// From a thread of the subscription: [`State::handle_heard`].
    Pushed,
    /// From a descriptor, to be polled while [`State::is_listening`].
    Polled,
}

/// The loop's decisions as a state machine.
///
/// Call [`poll_action`](Self::poll_action) until it gives nothing, sleep until [`poll_timeout`](Self::poll_timeout), the next input,
/// or, while [`is_listening`](Self::is_listening), until the descriptor is readable; and begin again. After an input that changed
/// `poll_timeout`, a driver that sleeps must be woken.
///
/// Passes are counted from 1 in the order of their start.
#[derive(Clone, Debug)]
pub struct State {
    config: Config,
    random: Random,
    phase: Phase,
    paused: bool,
    /// When a stop was asked for.
    stopping: Option<Instant>,
    hearing: Hearing,
    /// When a failed subscription may be asked for again.
    resubscribe: Option<Instant>,
    attend: Option<Cause>,
    /// Until when the descriptor is left alone.
    deaf: Option<Instant>,
    due: Due,
    /// What hints ask for has to wait until then: as long after the last pass as that pass took.
    rest: Option<Instant>,
    backoff: Backoff,
    budget: Option<Budget>,
    started: u64,
    over: u64,
    /// Something was lost, and no whole pass has ended since without more being lost; whether any was since the last one began.
    losing: Option<bool>,
    /// When the last whole pass began.
    last_whole: Option<Instant>,
    /// The desired state of the last pass that began.
    in_force: Revision,
    /// Another one was declared since, not just a change.
    replaced: bool,
    converged: Option<Converged>,
    /// What only grows, and the revision declared last.
    stats: Stats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Subscribing,
    Attending(Cause),
    Idle,
    Passing(Running),
    Ended,
}

/// Why the descriptor is attended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Readable,
    /// A pass is over: what is there is the echo of what it wrote, or a hint that need not wait.
    PassOver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Running {
    since: Instant,
    extent: Extent,
    ops: Option<u64>,
    /// Something was heard or asked for that it answers.
    answering: bool,
}

/// The last pass that said converged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Converged {
    pass: u64,
    revision: Revision,
    at: Instant,
}

/// What the driver does.
impl State {
    /// The state before anything was done: [`Action::Subscribe`] comes first.
    pub fn new(config: Config) -> Self {
        State {
            config,
            random: Random(0),
            phase: Phase::New,
            paused: false,
            stopping: None,
            hearing: Hearing::Unsupported,
            resubscribe: None,
            attend: None,
            deaf: None,
            due: Due::default(),
            rest: None,
            backoff: Backoff::default(),
            budget: config.budget().map(Budget::new),
            started: 0,
            over: 0,
            losing: None,
            last_whole: None,
            in_force: Revision::default(),
            replaced: false,
            converged: None,
            stats: Stats::default(),
        }
    }

    /// With another seed for jitter than 0. The same seed and inputs give the same decisions.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        State {
            random: Random(seed),
            ..self
        }
    }

    /// What to do now, if anything.
    pub fn poll_action(&mut self, now: Instant) -> Option<Action> {
        match self.phase {
            Phase::New | Phase::Idle if self.stopping.is_some() => {
                self.phase = Phase::Ended;
                return Some(Action::End);
            }
            Phase::New => {
                self.phase = Phase::Subscribing;
                return Some(Action::Subscribe);
            }
            Phase::Idle => {}
            _ => return None,
        }
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.deaf) {
            self.deaf = None;
        }
        if let Some(cause) = self.attend.take() {
            self.phase = Phase::Attending(cause);
            return Some(Action::Attend);
        }
        if self.paused {
            return None;
        }
        if is_due(self.whole_due()) {
            if self.hearing == Hearing::Failed && is_due(self.resubscribe) {
                self.phase = Phase::Subscribing;
                return Some(Action::Subscribe);
            }
            return Some(self.begin(now, Extent::Everything));
        }
        is_due(self.due.doubtful(self.rest)).then(|| self.begin(now, Extent::Dirty))
    }

    /// When to call [`poll_action`](Self::poll_action) again if there is no input before; then it gives something, or
    /// [`is_listening`](Self::is_listening) is true again, and neither earlier. None while an action is carried out, and at the end.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase != Phase::Idle {
            return None;
        }
        if self.stopping.is_some() {
            return self.stopping;
        }
        let passes = [self.whole_due(), self.due.doubtful(self.rest)];
        let passes = passes.into_iter().filter(|_| !self.paused);
        passes.chain([self.deaf]).flatten().min()
    }

    /// Whether to poll the subscription's descriptor while asleep. Not for 10 ms after it was attended to, or until a pass is over:
    /// a flood of events does not wake the driver for each.
    pub fn is_listening(&self) -> bool {
        self.hearing == Hearing::Polled && self.phase == Phase::Idle && self.deaf.is_none()
    }

    /// Subscribing is over: a whole pass is due at once, since what happened before it was not heard.
    pub fn handle_subscribed(&mut self, now: Instant, hearing: Hearing) {
        if self.phase == Phase::Subscribing {
            self.phase = Phase::Idle;
            nearer(&mut self.due.at_once, now, Duration::ZERO);
            self.hear(now, hearing);
        }
    }

    /// The descriptor is readable, or has failed: [`Action::Attend`] follows.
    pub fn handle_readable(&mut self) {
        if self.is_listening() {
            self.attend = Some(Cause::Readable);
        }
    }

    /// The subscription has attended to its descriptor. None: it failed, and the driver has dropped it.
    pub fn handle_attended(&mut self, now: Instant, heard: Option<Drained>) {
        let Phase::Attending(cause) = self.phase else {
            return;
        };
        self.phase = Phase::Idle;
        self.deaf = match cause {
            Cause::Readable => now.checked_add(DEAF),
            Cause::PassOver => None,
        };
        match heard {
            Some(heard) => {
                self.handle_heard(now, heard);
                self.losing = self.losing.filter(|lost| *lost);
            }
            None => {
                self.hear(now, Hearing::Failed);
                // Whatever it had yet to tell.
                self.ask(now);
            }
        }
    }

    /// Whether the running pass is to begin another step: not after its deadline, nor once a pause or a stop was asked for.
    pub fn go_on(&self, now: Instant) -> bool {
        let Phase::Passing(running) = self.phase else {
            return false;
        };
        let lasted = now.saturating_duration_since(running.since);
        lasted < self.config.deadline() && !self.paused && self.stopping.is_none()
    }

    /// For how long from now the running pass is not to try an op, because it failed before; [`Duration::MAX`] until something
    /// changes.
    pub fn held(&self, now: Instant, key: OpKey) -> Option<Duration> {
        self.backoff.held(now, key)
    }

    /// Whether [`Passed::objects`](crate::Passed::objects) is to tell of the object whatever became of it: its op failed before.
    pub fn is_tracked(&self, key: OpKey) -> bool {
        self.backoff.is_tracked(key)
    }

    /// Whether [`held`](Self::held) may answer anything, or [`is_tracked`](Self::is_tracked) yes.
    pub fn may_hold(&self) -> bool {
        self.backoff.len() > 0
    }

    /// Whether ops in the running pass mean that something else changed the world: its desired state was reached before.
    pub fn would_be_drift(&self) -> bool {
        self.converged
            .is_some_and(|converged| converged.revision == self.in_force)
    }

    /// The driver is gone, for whatever reason: nothing follows.
    pub fn handle_gone(&mut self) {
        self.phase = Phase::Ended;
    }
}

impl State {
    fn whole_due(&self) -> Option<Instant> {
        let due = self.due.whole(self.rest);
        due.into_iter().chain(self.backoff.next()).min()
    }

    fn begin(&mut self, now: Instant, extent: Extent) -> Action {
        let (heard, changed) = (self.due.doubtful.take(), self.due.changed.take());
        let mut answering = heard.is_some() || changed.is_some();
        // Whatever asked for a pass until now is answered by this one, which looks from here on.
        if extent == Extent::Everything {
            answering |= self.due.asked.is_some() || self.due.at_once.is_some();
            self.due = Due::default();
            self.last_whole = Some(now);
            self.losing = self.losing.map(|_| false);
        }
        if std::mem::take(&mut self.replaced) {
            self.backoff.replaced();
        } else if self.in_force != self.stats.desired {
            self.backoff.changed();
        }
        self.in_force = self.stats.desired;
        self.backoff.begin(answering);
        let ops = self.budget.as_mut().map(|budget| budget.available(now));
        self.started += 1;
        self.phase = Phase::Passing(Running {
            since: now,
            extent,
            ops,
            answering,
        });
        Action::Pass {
            extent,
            ops,
            revision: self.in_force,
        }
    }

    /// A whole pass is to look, as for a hint.
    fn ask(&mut self, now: Instant) {
        nearer(&mut self.due.asked, now, self.config.debounce());
    }

    fn hear(&mut self, now: Instant, hearing: Hearing) {
        self.hearing = hearing;
        self.deaf = None;
        if hearing == Hearing::Failed {
            self.stats.subscription_failures += 1;
            self.resubscribe = now.checked_add(self.config.interval() / 2);
        }
        self.backoff
            .set_subscribed(self.is_subscribed(), self.last_whole);
    }

    fn is_subscribed(&self) -> bool {
        matches!(self.hearing, Hearing::Pushed | Hearing::Polled)
    }

    /// Nothing has happened since that makes it doubtful that the world is still as it was then.
    fn stands(&self, converged: &Converged) -> bool {
        let answering = matches!(self.phase, Phase::Passing(running) if running.answering);
        converged.pass == self.over && !self.due.is_outstanding() && !answering
    }
}
