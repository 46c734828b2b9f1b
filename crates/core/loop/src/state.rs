//! The loop as a state machine that is given the time. It has no clock, thread or descriptor.
//!
//! [`schedule`] holds the times at which passes are due. Within a pass, ops are limited by their
//! failures ([`backoff`]), by their number ([`budget`]), and by the deadline.

pub(crate) mod backoff;
pub(crate) mod budget;
mod inputs;
pub(crate) mod pass_done;
pub(crate) mod schedule;

use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, Extent, OpKey};

use self::backoff::Backoff;
pub use self::budget::Budget;
use self::budget::{Bucket, StateBudget};
use self::schedule::{Jitter, Schedule, bring_forward, not_before};
use crate::{Config, Revision, Stats};

/// The pause in polling a descriptor after it was drained: a flood of events wakes the driver at
/// most a hundred times a second.
pub(crate) const EVENT_COOLDOWN: Duration = Duration::from_millis(10);

/// The driver's next action. The driver answers each with an input: see the variants. A driver must
/// handle every action, so the list is exhaustive. An op's own action is `trueup_net::Action`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Drop the subscription, if there is one, and subscribe for hints. Then call
    /// [`State::handle_subscribed`], whatever the result.
    Subscribe,
    /// Drain the subscription's descriptor, then call [`State::handle_drained`].
    Drain,
    /// Run a pass that asks [`State::should_continue`] and [`State::backoff`] on the way. Then call
    /// [`State::handle_pass_done`], whatever the result.
    Pass {
        /// The part of the system that the pass observes.
        extent: Extent,
        /// The number of ops that it may apply; `None` for any number; 0 if it only observes.
        ops: Option<u64>,
        /// The revision of the latest desired state. If it was changed since the last pass, call
        /// [`State::handle_changed_keys`] before the pass.
        revision: Revision,
    },
    /// End the loop. No action follows.
    End,
}

/// The way in which hints come, as the driver reports it after [`Action::Subscribe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionState {
    /// The source gives no hints.
    Unsupported,
    /// The subscription failed. The loop subscribes again before a later full pass, after half an
    /// interval at the earliest.
    Failed,
    /// A thread of the subscription sends hints: [`State::handle_notification`].
    Pushed,
    /// The subscription has a descriptor, polled while [`State::is_listening`].
    Polled,
}

/// The loop's decisions as a state machine.
///
/// A driver calls [`poll_action`](Self::poll_action) until it returns `None`. Then it sleeps until
/// [`poll_timeout`](Self::poll_timeout), until the next input or, while
/// [`is_listening`](Self::is_listening), until the descriptor is readable; then it begins again. An
/// input that changes `poll_timeout` must wake a sleeping driver.
///
/// Passes are numbered from 1 in the order of their starts. A *full* pass observes everything, a
/// *dirty* pass only the objects that the source knows to be dirty.
///
/// ```
/// use std::time::Instant;
/// use trueup_loop::{Action, Config, State, SubscriptionState};
///
/// let now = Instant::now();
/// let mut state = State::new(Config::default());
/// assert_eq!(state.poll_action(now), Some(Action::Subscribe));
/// state.handle_subscribed(now, SubscriptionState::Unsupported);
/// assert!(matches!(state.poll_action(now), Some(Action::Pass { .. })));
/// ```
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) config: Config,
    pub(crate) jitter: Jitter,
    pub(crate) phase: Phase,
    pub(crate) paused: bool,
    /// The time at which a stop was requested.
    pub(crate) stopping: Option<Instant>,
    pub(crate) subscription: SubscriptionState,
    /// The time of the next attempt after a failed subscription.
    pub(crate) resubscribe: Option<Instant>,
    /// The reason to drain the descriptor next; `None` if there is none.
    pub(crate) drain: Option<DrainCause>,
    /// The end of the pause in polling the descriptor.
    pub(crate) cooldown: Option<Instant>,
    pub(crate) schedule: Schedule,
    /// The end of the hints' wait: as long after the last pass as that pass took.
    pub(crate) hints_wait_until: Option<Instant>,
    pub(crate) backoff: Backoff,
    pub(crate) budget: Option<StateBudget>,
    /// The number of the last pass that started.
    pub(crate) started: u64,
    /// The number of the last pass that is done.
    pub(crate) done: u64,
    /// Set from a loss of events until a full pass has ended without another loss: true if events
    /// were lost since the last full pass began.
    pub(crate) overrun: Option<bool>,
    /// The desired state of the last pass that began.
    pub(crate) revision: Revision,
    /// True if a new desired state was declared since then, and not only a change.
    pub(crate) replaced: bool,
    pub(crate) converged: Option<Converged>,
    /// The desired state of the last pass, if that pass could not run.
    pub(crate) failed: Option<Revision>,
    /// The desired state of the last pass that was not cut short and read all its objects.
    pub(crate) tried: Option<Revision>,
    /// The revisions of passes that were cut short or read only a part, until a full pass covers
    /// them: after the first one, up to the second one.
    pub(crate) left_out: Option<(Option<Revision>, Revision)>,
    /// The counters, and the latest declared revision.
    pub(crate) stats: Stats,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    New,
    Subscribing,
    Draining(DrainCause),
    Idle,
    InPass(RunningPass),
    Ended,
}

/// The reason to drain the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainCause {
    Readable,
    /// A pass is done: its events are echoes of its own writes, or a hint that need not wait.
    PassDone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningPass {
    pub(crate) since: Instant,
    pub(crate) extent: Extent,
    pub(crate) ops: Option<u64>,
    /// True if it answers a hint or a request.
    pub(crate) answers_request: bool,
    /// True if its outcomes were taken.
    pub(crate) has_outcomes: bool,
}

/// The last pass that converged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Converged {
    pub(crate) pass: u64,
    pub(crate) revision: Revision,
    pub(crate) at: Instant,
}

/// The driver's inputs and questions.
impl State {
    /// Creates the initial state; its first action is [`Action::Subscribe`].
    pub fn new(config: Config) -> Self {
        State {
            config,
            jitter: Jitter::with_seed(0),
            phase: Phase::New,
            paused: false,
            stopping: None,
            subscription: SubscriptionState::Unsupported,
            resubscribe: None,
            drain: None,
            cooldown: None,
            schedule: Schedule::default(),
            hints_wait_until: None,
            backoff: Backoff::default(),
            budget: config
                .budget()
                .map(|(limit, burst)| StateBudget::Own(Bucket::new(limit, burst))),
            started: 0,
            done: 0,
            overrun: None,
            revision: Revision::default(),
            replaced: false,
            converged: None,
            failed: None,
            tried: None,
            left_out: None,
            stats: Stats::default(),
        }
    }

    /// Shares a budget with other loops, in place of the settings' own budget. Clones of the state
    /// share it, too.
    pub fn share_budget(&mut self, budget: &Budget) {
        self.budget = Some(StateBudget::Shared(budget.clone()));
    }

    /// Sets the seed for jitter; the default is 0. Equal seeds and inputs give equal decisions.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        State { jitter: Jitter::with_seed(seed), ..self }
    }

    /// Returns the next action; `None` if nothing is to be done now.
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
        self.cooldown = self.cooldown.filter(|at| *at > now);
        if let Some(cause) = self.drain.take() {
            self.phase = Phase::Draining(cause);
            return Some(Action::Drain);
        }
        if self.paused {
            return None;
        }
        if is_due(self.schedule.next_full(self.hints_wait_until), now) {
            if self.subscription == SubscriptionState::Failed && is_due(self.resubscribe, now) {
                self.phase = Phase::Subscribing;
                return Some(Action::Subscribe);
            }
            return Some(self.begin(now, Extent::Everything));
        }
        is_due(self.next_dirty_pass(), now).then(|| self.begin(now, Extent::Dirty))
    }

    /// True if the next action is a pass, or a new subscription before one.
    pub fn is_pass_due(&self, now: Instant) -> bool {
        self.phase == Phase::Idle
            && self.stopping.is_none()
            && self.drain.is_none()
            && is_due(self.next_pass(), now)
    }

    /// Returns when the next pass is due if no input comes before; `None` if none is.
    pub fn next_pass(&self) -> Option<Instant> {
        let passes = [self.schedule.next_full(self.hints_wait_until), self.next_dirty_pass()];
        passes.into_iter().flatten().min().filter(|_| !self.paused)
    }

    /// Returns when to call [`poll_action`](Self::poll_action) again if there is no input before.
    /// At this time, and not earlier, it returns an action, or [`is_listening`](Self::is_listening)
    /// becomes true again. Returns `None` during an action, and at the end.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase != Phase::Idle {
            return None;
        }
        if self.stopping.is_some() {
            return self.stopping;
        }
        self.next_pass().into_iter().chain(self.cooldown).min()
    }

    /// True if the driver should poll the subscription's descriptor while it sleeps. False for 10
    /// ms after the descriptor was drained, or until a pass is done, so that a flood of events does
    /// not wake the driver for each one.
    pub fn is_listening(&self) -> bool {
        self.subscription == SubscriptionState::Polled
            && self.phase == Phase::Idle
            && self.cooldown.is_none()
    }

    /// Handles the result of subscribing. A full pass is due at once, because earlier events were
    /// missed.
    pub fn handle_subscribed(&mut self, now: Instant, subscription: SubscriptionState) {
        if self.phase == Phase::Subscribing {
            self.phase = Phase::Idle;
            bring_forward(&mut self.schedule.immediate, now, Duration::ZERO);
            self.set_subscription(now, subscription);
        }
    }

    /// Notes that the descriptor is readable or has failed: [`Action::Drain`] follows.
    pub fn handle_readable(&mut self) {
        if self.is_listening() {
            self.drain = Some(DrainCause::Readable);
        }
    }

    /// Handles the result of draining the descriptor; `None` if the subscription failed and the
    /// driver has dropped it.
    pub fn handle_drained(&mut self, now: Instant, drained: Option<Drained>) {
        let Phase::Draining(cause) = self.phase else {
            return;
        };
        self.phase = Phase::Idle;
        self.cooldown = match cause {
            DrainCause::Readable => now.checked_add(EVENT_COOLDOWN),
            DrainCause::PassDone => None,
        };
        match drained {
            Some(drained) => {
                self.handle_notification(now, drained);
                self.overrun = self.overrun.filter(|lost| *lost);
            }
            None => {
                self.set_subscription(now, SubscriptionState::Failed);
                // Covers the events that it had not reported yet.
                self.request_full_pass(now);
            }
        }
    }

    /// Returns true if the running pass may begin another step: not after its deadline, nor once a
    /// pause or a stop was requested.
    pub fn should_continue(&self, now: Instant) -> bool {
        let Phase::InPass(running) = self.phase else {
            return false;
        };
        let lasted = now.saturating_duration_since(running.since);
        lasted < self.config.deadline() && !self.paused && self.stopping.is_none()
    }

    /// Returns how long from `now` the running pass must not try an op that failed before; `None`
    /// if it may try it.
    pub fn backoff(&self, now: Instant, key: OpKey) -> Option<Duration> {
        self.backoff.remaining(now, key)
    }

    /// Returns the objects whose op failed before, and which the running pass should try again. A
    /// dirty pass looks at these too.
    pub fn due(&self) -> &[OpKey] {
        self.backoff.due()
    }

    /// Returns how often the op on an object has failed since it last succeeded, and the latest
    /// time of its next try; `None` if it has not failed.
    pub fn retry(&self, key: OpKey) -> Option<(u32, Instant)> {
        self.backoff.retry(key)
    }

    /// Returns true if the object's op failed before.
    /// [`PassSummary::objects`](crate::PassSummary::objects) must then name it, whatever its
    /// outcome.
    pub fn is_tracked(&self, key: OpKey) -> bool {
        self.backoff.is_tracked(key)
    }

    /// True if [`backoff`](Self::backoff) may return a time, or [`is_tracked`](Self::is_tracked)
    /// true.
    pub fn has_backoff(&self) -> bool {
        self.backoff.len() > 0
    }

    /// True if ops in the running pass are drift: its desired state was reached before, so another
    /// writer has changed the system since.
    pub fn would_be_drift(&self) -> bool {
        self.converged.is_some_and(|converged| converged.revision == self.revision)
    }

    /// Notes that the driver has ended, for whatever reason: no action follows.
    pub fn handle_gone(&mut self) {
        self.phase = Phase::Ended;
    }
}

impl State {
    fn next_dirty_pass(&self) -> Option<Instant> {
        let due = self.schedule.next_dirty(self.hints_wait_until);
        due.into_iter().chain(self.next_retry()).min()
    }

    /// Returns when failed ops are tried again. Ops that come due within a debounce share a pass.
    fn next_retry(&self) -> Option<Instant> {
        let due = self.backoff.next()?.checked_add(self.config.debounce())?;
        Some(not_before(due, self.hints_wait_until))
    }

    fn begin(&mut self, now: Instant, extent: Extent) -> Action {
        let (hint, change) = (self.schedule.dirty.take(), self.schedule.change.take());
        let mut answers_request = hint.is_some() || change.is_some();
        self.schedule.uncovered = None;
        // This pass answers every earlier request, because it observes from here on.
        if extent == Extent::Everything {
            answers_request |=
                self.schedule.requested.is_some() || self.schedule.immediate.is_some();
            self.schedule = Schedule::default();
            self.overrun = self.overrun.map(|_| false);
        }
        if std::mem::take(&mut self.replaced) {
            self.backoff.desired_replaced();
        }
        self.revision = self.stats.desired;
        self.backoff.pass_begins(answers_request);
        let is_retry_due = self.next_retry().is_some_and(|retry| retry <= now);
        if extent == Extent::Dirty && is_retry_due {
            self.backoff.take_due(now);
        }
        let ops = self.budget.as_mut().map(|budget| budget.with(|it| it.available(now)));
        self.started += 1;
        self.phase = Phase::InPass(RunningPass {
            since: now,
            extent,
            ops,
            answers_request,
            has_outcomes: false,
        });
        Action::Pass { extent, ops, revision: self.revision }
    }

    /// Requests a full pass within one debounce.
    fn request_full_pass(&mut self, now: Instant) {
        bring_forward(&mut self.schedule.requested, now, self.config.debounce());
    }

    fn set_subscription(&mut self, now: Instant, subscription: SubscriptionState) {
        self.subscription = subscription;
        self.cooldown = None;
        if subscription == SubscriptionState::Failed {
            self.stats.subscription_failures += 1;
            self.resubscribe = now.checked_add(self.config.interval() / 2);
        }
    }

    fn is_subscribed(&self) -> bool {
        matches!(self.subscription, SubscriptionState::Pushed | SubscriptionState::Polled)
    }

    /// Returns true if no hint or request came since `converged` that could have changed its
    /// result.
    fn still_holds(&self, converged: &Converged) -> bool {
        let answers_request =
            matches!(self.phase, Phase::InPass(running) if running.answers_request);
        converged.pass == self.done && !self.schedule.has_requests() && !answers_request
    }
}

fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}
