//! The state machine behind a lock, with the means to wake the driver and to wait for it.
//!
//! It has none of the source's types, and no code of a source or a caller runs under the lock. So
//! no thread waits long for it. The lock of the source's types, the mailbox, is taken under this
//! one, never before it.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, OpKey};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{self, WakerId, after, thread};
use crate::watched::Watched;
use crate::{
    Action, Config, Error, ErrorKind, PassSummary, Rest, Revision, State, Stats, SubscriptionState,
};

#[derive(Debug)]
pub(crate) struct Control {
    /// Notifies when a pass is done, and at every input that may end a wait.
    locked: Watched<Locked>,
}

#[derive(Debug)]
struct Locked {
    state: State,
    /// Wakes the driver, which then polls the state again; `None` before the driver runs. It is
    /// shared, because cloning a waker runs foreign code.
    driver: Option<Arc<Waker>>,
    /// The thread that is carrying out an action; `None` between actions.
    thread: Option<thread::ThreadId>,
    /// True while the source runs a pass. Only callbacks follow, which write nothing.
    in_source: bool,
    /// True from the start of the source's pass to its end, unless the desired state was changed:
    /// then a pass that has only looked does not go on.
    goes_on: bool,
    /// The start of the source's pass or its callbacks; `None` while neither runs.
    busy_since: Option<Instant>,
    /// True once all parts of the loop are dropped. The state has ended before.
    dropped: bool,
}

/// The driver's next step: an action, or a rest.
#[derive(Debug)]
pub(crate) enum Next {
    Do(Action),
    Rest(Rest),
}

/// The result of draining the descriptor; `None` if the subscription failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events(pub(crate) Option<Drained>);

/// The passes that may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayPass {
    No,
    Due,
    /// A requested one too, without the rest of its debounce.
    Requested,
    /// A full one, requested or not.
    Forced,
}

/// The driver's calls.
impl Control {
    pub(crate) fn new(config: Config) -> Self {
        Control {
            locked: Watched::new(Locked {
                state: State::new(config).with_seed(sync::seed()),
                driver: None,
                thread: None,
                in_source: false,
                goes_on: false,
                busy_since: None,
                dropped: false,
            }),
        }
    }

    pub(crate) fn share_budget(&self, budget: &crate::Budget) {
        self.locked.with(|it| it.state.share_budget(budget));
    }

    /// Sets the waker of the driver.
    pub(crate) fn set_waker(&self, driver: Waker) {
        let mut driver = Some(Arc::new(driver));
        self.locked.with(|it| mem::swap(&mut it.driver, &mut driver));
    }

    /// Takes the driver's drained events, and returns its next step, on the calling thread. A due
    /// pass that may not run is skipped. Calls `begin` under the lock if a pass begins.
    ///
    /// # Errors
    ///
    /// The number of overruns, if there is a new one: the driver calls back, and asks again.
    pub(crate) fn next<T>(
        &self,
        drained: Option<Events>,
        may_pass: MayPass,
        mut begin: impl FnMut() -> T,
    ) -> Result<(Next, Option<T>), u64> {
        self.locked.with(|inner| {
            let now = sync::now();
            if let Some(drained) = drained
                && let Some(overruns) = inner.drained(now, drained)
            {
                return Err(overruns);
            }
            if matches!(may_pass, MayPass::Requested | MayPass::Forced) {
                inner.state.handle_hurry(now);
            }
            if may_pass == MayPass::Forced {
                inner.state.handle_force(now);
            }
            let is_pass_due = may_pass == MayPass::No && inner.state.is_pass_due(now);
            let action = if is_pass_due { None } else { inner.state.poll_action(now) };
            inner.thread = action.map(|_| thread::current().id());
            Ok(match action {
                Some(action @ Action::Pass { .. }) => {
                    (inner.in_source, inner.goes_on) = (true, true);
                    (Next::Do(action), Some(begin()))
                }
                Some(action) => {
                    inner.in_source = false;
                    (Next::Do(action), None)
                }
                None => {
                    let rest = Rest {
                        until: inner.state.poll_timeout().filter(|_| !is_pass_due),
                        is_listening: inner.state.is_listening(),
                        pass_at: inner.state.next_pass(),
                        is_pass_due,
                    };
                    (Next::Rest(rest), None)
                }
            })
        })
    }

    /// Notes that the calling thread continues the running pass.
    pub(crate) fn pass_goes_on(&self) {
        self.locked.with(|inner| {
            inner.thread = Some(thread::current().id());
            inner.in_source = true;
        });
    }

    pub(crate) fn subscribed(&self, hearing: SubscriptionState) {
        self.input(|inner, now| inner.state.handle_subscribed(now, hearing));
    }

    /// Notes the objects changed since the last pass; `None` if they are not known.
    pub(crate) fn changed(&self, keys: Option<&[OpKey]>) {
        self.locked.with(|it| it.state.handle_changed_keys(keys));
    }

    /// Returns true if a pass that has only looked should go on.
    pub(crate) fn should_go_on(&self) -> bool {
        self.locked.with(|it| it.goes_on && it.state.should_continue(sync::now()))
    }

    pub(crate) fn should_continue(&self) -> bool {
        self.locked.with(|it| it.state.should_continue(sync::now()))
    }

    pub(crate) fn backoff(&self, key: OpKey) -> Option<Duration> {
        self.locked.with(|it| it.state.backoff(sync::now(), key))
    }

    pub(crate) fn due(&self) -> Vec<OpKey> {
        self.locked.with(|it| it.state.due().to_vec())
    }

    pub(crate) fn is_tracked(&self, key: OpKey) -> bool {
        self.locked.with(|it| it.state.is_tracked(key))
    }

    pub(crate) fn has_backoff(&self) -> bool {
        self.locked.with(|it| it.state.has_backoff())
    }

    /// Notes that the source has run its pass; callbacks follow. Returns true if the pass's ops are
    /// drift.
    pub(crate) fn source_done(&self) -> bool {
        self.locked.with(|inner| {
            (inner.in_source, inner.goes_on) = (false, false);
            inner.state.would_be_drift()
        })
    }

    /// Takes the outcomes of the running pass. Callbacks follow.
    pub(crate) fn outcomes(&self, summary: &PassSummary) {
        self.locked.with(|it| it.state.handle_outcomes(sync::now(), summary));
    }

    /// Ends a pass, and ends the loop if the scope is gone.
    pub(crate) fn pass_done(&self, summary: Option<&PassSummary>, is_scope_gone: bool) {
        self.input(|inner, now| {
            inner.state.handle_pass_done(now, summary);
            if is_scope_gone {
                inner.state.handle_stop(now);
            }
        });
        self.locked.notify();
    }

    /// Notes that the loop is dropped. Ends every wait.
    pub(crate) fn dropped(&self) {
        let driver = self.locked.with(|inner| {
            inner.state.handle_gone();
            inner.dropped = true;
            inner.driver.take()
        });
        self.locked.notify();
        drop(driver);
    }
}

/// Calls of handles and of the subscription.
impl Control {
    /// Handles a hint from a subscription with its own thread.
    pub(crate) fn notified(&self) {
        self.input(|inner, now| inner.state.handle_notification(now, Drained::Hint));
    }

    /// Gives the state a request, under the lock. Fails if the loop is about to end.
    pub(crate) fn request<T>(
        &self,
        mut request: impl FnMut(&mut State, Instant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            request(&mut inner.state, now)
        })
    }

    /// Gives the state a new or a changed desired state, like [`request`](Self::request).
    pub(crate) fn declare<T>(
        &self,
        mut declare: impl FnMut(&mut State, Instant) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            let declared = declare(&mut inner.state, now)?;
            inner.goes_on = false;
            Ok(declared)
        })
    }

    /// Returns the condition that a pass over the revision, or a later one, has converged: from now
    /// on, unless the last one did and nothing came since.
    ///
    /// Fails if the loop is about to end before that.
    pub(crate) fn until_converged(&self, revision: Revision) -> Result<Until, Error> {
        let after = self.locked.with(|it| it.state.last_started());
        self.accept(Until::Converged { revision, after })
    }

    /// Returns the condition that a pass over the revision, or a later one, has tried all of it.
    /// Fails if the loop is about to end before that.
    pub(crate) fn until_tried(&self, revision: Revision) -> Result<Until, Error> {
        self.accept(Until::Tried { revision })
    }

    fn accept(&self, until: Until) -> Result<Until, Error> {
        self.locked.with(|inner| match until.answer(inner) {
            Some(_) => Ok(()),
            None => inner.refuse_if_stopping(),
        })?;
        Ok(until)
    }

    /// Waits until a condition holds, at most for `timeout`. Fails at once if the calling thread
    /// would wait for itself.
    pub(crate) fn wait(&self, until: &Until, timeout: Duration) -> Result<(), Error> {
        let end = after(sync::now(), timeout);
        let answer = self.locked.wait(end, |inner| {
            let own_thread = || inner.is_own_thread().then_some(Err(ErrorKind::OwnThread));
            until.answer(inner).or_else(own_thread)
        });
        answer.unwrap_or(Err(ErrorKind::Timeout)).map_err(Error::new)
    }

    /// Returns a condition's answer, or wakes the task when there may be one.
    pub(crate) fn poll(
        &self,
        until: &Until,
        id: &mut WakerId,
        context: &Context<'_>,
    ) -> Poll<Result<(), Error>> {
        let polled = self.locked.poll(id, context, |inner| until.answer(inner));
        polled.map_err(Error::new)
    }

    /// Removes the waker of a task that no longer waits.
    pub(crate) fn forget(&self, id: &WakerId) {
        self.locked.forget(id);
    }

    /// Returns for each object how often its ops have failed, and when they are tried again.
    pub(crate) fn retries(&self, keys: &[OpKey]) -> Vec<Option<(u32, Instant)>> {
        self.locked.with(|it| keys.iter().map(|key| it.state.retry(*key)).collect())
    }

    /// Returns the longest time until the op on an object is tried again; `None` without a backoff.
    pub(crate) fn time_to_retry(&self, key: OpKey) -> Option<Duration> {
        let (_, at) = self.locked.with(|it| it.state.retry(key))?;
        let left = at.saturating_duration_since(sync::now());
        (!left.is_zero()).then_some(left)
    }

    /// Fails if the loop is about to end, or if the calling thread would wait for itself.
    pub(crate) fn refuse_wait(&self) -> Result<(), Error> {
        self.locked.with(|inner| {
            inner.refuse_if_stopping()?;
            match inner.is_own_thread() {
                true => Err(Error::new(ErrorKind::OwnThread)),
                false => Ok(()),
            }
        })
    }

    /// Wakes the driver, which answers the questions.
    pub(crate) fn wake(&self) {
        let driver = self.locked.with(|it| it.driver.clone());
        driver.iter().for_each(|it| it.wake_by_ref());
    }

    /// Notes that the calling thread answers questions or calls back.
    pub(crate) fn begin_calls(&self) {
        self.locked.with(|it| it.thread = Some(thread::current().id()));
    }

    /// Wakes the callers that wait for an answer.
    pub(crate) fn answered(&self) {
        self.locked.notify();
    }

    /// Notes the start or the end of the source's pass with its callbacks.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.locked.with(|it| it.busy_since = is_busy.then(sync::now));
    }

    pub(crate) fn busy(&self) -> Option<Duration> {
        let since = self.locked.with(|it| it.busy_since)?;
        Some(sync::now().saturating_duration_since(since))
    }

    pub(crate) fn stats(&self) -> Stats {
        self.locked.with(|it| it.state.stats(sync::now()))
    }

    pub(crate) fn hint(&self) -> Result<(), Error> {
        self.request(|state, now| {
            state.handle_hint(now);
            Ok(())
        })
    }

    /// Requests a pass that starts after this call. Returns the condition that it is done.
    pub(crate) fn force(&self) -> Result<Until, Error> {
        self.request(|state, now| match state.is_paused() {
            true => Err(Error::new(ErrorKind::Paused)),
            false => Ok(Until::Done { pass: state.handle_force(now) }),
        })
    }

    /// Pauses. Returns the condition that no pass is running.
    pub(crate) fn pause(&self) -> Result<Until, Error> {
        let last = self.input(|inner, _| {
            inner.refuse_if_stopping()?;
            let last = inner.state.handle_pause();
            // In a callback after a pass, the source no longer writes.
            let is_in_callback = inner.is_own_thread() && !inner.in_source;
            Ok(Until::Quiet { last: if is_in_callback { 0 } else { last } })
        });
        // Ends waits for a pass that cannot start now.
        self.locked.notify();
        last
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.request(|state, now| {
            state.handle_resume(now);
            Ok(())
        })
    }

    pub(crate) fn stop(&self) {
        self.input(|inner, now| inner.state.handle_stop(now));
        self.locked.notify();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.locked.with(|it| it.dropped)
    }

    /// Gives the state an input, and wakes the driver if it now waits for something else.
    fn input<T>(&self, mut input: impl FnMut(&mut Locked, Instant) -> T) -> T {
        let (answer, driver) = self.locked.with(|inner| {
            let before = inner.awaited();
            // Read the time under the lock, so that inputs arrive in its order.
            let answer = input(inner, sync::now());
            let is_changed = inner.awaited() != before;
            (answer, inner.driver.clone().filter(|_| is_changed))
        });
        driver.iter().for_each(|it| it.wake_by_ref());
        answer
    }
}

/// The condition that a call or a task waits for.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    /// A pass over the revision, or a later one, has converged. It started after the pass `after`,
    /// or no hint or request came since it started.
    Converged { revision: Revision, after: u64 },
    /// A pass over the revision, or a later one, has tried all of it.
    Tried { revision: Revision },
    /// A requested pass is done.
    Done { pass: u64 },
    /// The last pass before a pause is done.
    Quiet { last: u64 },
    /// A question is answered.
    Answered(Arc<AtomicBool>),
    /// The loop is dropped.
    Ended,
}

impl Until {
    /// Returns the result of the wait; `None` while it goes on.
    fn answer(&self, Locked { state, dropped, .. }: &Locked) -> Option<Result<(), ErrorKind>> {
        let is_reached = match self {
            Until::Converged { revision, after } => state.is_converged(*revision, *after),
            Until::Tried { revision } => state.is_tried(*revision),
            Until::Done { pass } => state.is_done(*pass),
            Until::Quiet { last } => state.is_done(*last),
            Until::Answered(is_answered) => is_answered.load(Ordering::Acquire),
            Until::Ended => *dropped,
        };
        if is_reached {
            return Some(Ok(()));
        }
        // True if the wait goes on though no pass starts.
        let is_running = match self {
            Until::Converged { .. } | Until::Tried { .. } => !state.is_done(state.last_started()),
            Until::Done { pass } => state.is_started(*pass),
            Until::Quiet { .. } | Until::Answered(_) => true,
            Until::Ended => return None,
        };
        if state.is_ended() || state.is_stopping() && !is_running {
            return Some(Err(ErrorKind::Ended));
        }
        if let Until::Converged { revision, .. } | Until::Tried { revision } = self
            && state.has_failed(*revision)
        {
            return Some(Err(ErrorKind::PassFailed));
        }
        (state.is_paused() && !is_running).then_some(Err(ErrorKind::Paused))
    }
}

impl Locked {
    /// Takes the result of draining the descriptor, at the state's request or because the
    /// descriptor was readable. Returns the number of overruns if there is a new one.
    fn drained(&mut self, now: Instant, Events(drained): Events) -> Option<u64> {
        let before = self.state.overruns();
        if self.state.is_listening() && !self.state.is_stopping() {
            self.state.handle_readable();
            self.state.poll_action(now);
        }
        self.state.handle_drained(now, drained);
        let is_new = self.state.overruns() > before;
        self.thread = is_new.then(|| thread::current().id());
        is_new.then(|| self.state.overruns())
    }

    /// Returns when the driver acts next, and whether the running pass may begin further steps.
    fn awaited(&self) -> (Option<Instant>, bool) {
        let is_held = self.state.is_paused() || self.state.is_stopping();
        (self.state.poll_timeout(), self.goes_on && !is_held)
    }

    fn is_own_thread(&self) -> bool {
        self.thread == Some(thread::current().id())
    }

    fn refuse_if_stopping(&self) -> Result<(), Error> {
        if self.state.is_stopping() { Err(Error::new(ErrorKind::Ended)) } else { Ok(()) }
    }
}
