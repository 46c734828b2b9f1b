//! Where the threads meet: the state machine behind a lock, the way to wake the driver, and the way to wait for it.
//!
//! Nothing of the source's types is here, and no code of a source or a caller runs under the lock, so that whoever takes
//! it has it at once.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, OpKey};

use crate::sync::{self, Condvar, Mutex, MutexGuard, PoisonError, Wakeup, thread};
use crate::{Action, Config, Error, ErrorKind, Hearing, Passed, Revision, State, Stats};

#[derive(Debug)]
pub(crate) struct Control {
    inner: Mutex<Inner>,
    /// Told when a pass is over, and at every input that may decide what a waiter waits for.
    changed: Condvar,
    /// Used when the driver is to look at the state again.
    wakeup: Wakeup,
}

#[derive(Debug)]
struct Inner {
    state: State,
    /// The thread that runs the loop, once it runs.
    thread: Option<thread::ThreadId>,
    /// The source's own part of a pass is running: after it only the callback is left, which writes nothing.
    in_source: bool,
    /// All that the loop had is dropped. The state has ended before.
    gone: bool,
}

/// What the driver does next.
#[derive(Debug)]
pub(crate) enum Step {
    Do(Action),
    Sleep {
        until: Option<Instant>,
        /// The subscription's descriptor ends the sleep too.
        listening: bool,
    },
}

/// The driver's side.
impl Control {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        Ok(Control {
            inner: Mutex::new(Inner {
                state: State::new(config).with_seed(sync::seed()),
                thread: None,
                in_source: false,
                gone: false,
            }),
            changed: Condvar::new(),
            wakeup: Wakeup::new()?,
        })
    }

    /// The calling thread is the loop's from now on.
    pub(crate) fn begin(&self) {
        self.lock().thread = Some(thread::current().id());
    }

    pub(crate) fn step(&self) -> Step {
        let mut inner = self.lock();
        match inner.state.poll_action(sync::now()) {
            Some(action) => {
                inner.in_source = matches!(action, Action::Pass { .. });
                Step::Do(action)
            }
            None => Step::Sleep {
                until: inner.state.poll_timeout(),
                listening: inner.state.is_listening(),
            },
        }
    }

    /// Waits until then, until an input changes what there is to do, or for the descriptor. May return early.
    pub(crate) fn sleep(
        &self,
        until: Option<Instant>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), Error> {
        if self.wakeup.wait(until, descriptor)? {
            self.lock().state.handle_readable();
        }
        Ok(())
    }

    pub(crate) fn subscribed(&self, hearing: Hearing) {
        self.input(|inner, now| inner.state.handle_subscribed(now, hearing));
    }

    /// The subscription has attended to its descriptor, or failed. Gives how often there was an overrun by now, if this is another.
    pub(crate) fn attended(&self, heard: Option<Drained>) -> Option<u64> {
        self.input(|inner, now| {
            let before = inner.state.overruns();
            inner.state.handle_attended(now, heard);
            Some(inner.state.overruns()).filter(|count| *count > before)
        })
    }

    pub(crate) fn go_on(&self) -> bool {
        self.lock().state.go_on(sync::now())
    }

    pub(crate) fn held(&self, key: OpKey) -> Option<Duration> {
        self.lock().state.held(sync::now(), key)
    }

    pub(crate) fn is_tracked(&self, key: OpKey) -> bool {
        self.lock().state.is_tracked(key)
    }

    pub(crate) fn may_hold(&self) -> bool {
        self.lock().state.may_hold()
    }

    /// The source's part of a pass is over; the callbacks come. Says whether ops in it mean drift.
    pub(crate) fn source_over(&self) -> bool {
        let mut inner = self.lock();
        inner.in_source = false;
        inner.state.would_be_drift()
    }

    /// The pass is over; `end`: and so is the scope.
    pub(crate) fn pass_over(&self, passed: Option<&Passed>, end: bool) {
        self.input(|inner, now| {
            inner.state.handle_pass_over(now, passed);
            if end {
                inner.state.handle_stop(now);
            }
        });
        self.changed.notify_all();
    }

    /// The driver is gone: whoever waits is told so.
    pub(crate) fn gone(&self) {
        let mut inner = self.lock();
        inner.state.handle_gone();
        inner.gone = true;
        drop(inner);
        self.changed.notify_all();
    }
}

/// The handle's side.
impl Control {
    /// A hint of a subscription that has a thread of its own.
    pub(crate) fn heard(&self) {
        self.input(|inner, now| inner.state.handle_heard(now, Drained::Hint));
    }

    /// Another desired state was declared.
    pub(crate) fn desired(&self) -> Result<Revision, Error> {
        self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            Ok(inner.state.handle_desired(now))
        })
    }

    /// The desired state is to be changed in part.
    pub(crate) fn change(&self) -> Result<Revision, Error> {
        self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            Ok(inner.state.handle_change(now))
        })
    }

    /// Returns once a pass over that revision, or a later one, has said converged.
    pub(crate) fn converged(&self, revision: Revision, timeout: Duration) -> Result<(), Error> {
        let before = {
            let inner = self.lock();
            let before = inner.state.last_started();
            if inner.state.is_converged(revision, before) {
                return Ok(());
            }
            inner.refuse_if_stopping()?;
            inner.refuse_own_thread()?;
            before
        };
        self.wait(timeout, |Inner { state, .. }| {
            if state.is_converged(revision, before) {
                return Some(Ok(()));
            }
            let comes = !state.is_over(state.last_started());
            if state.is_ended() || state.is_stopping() && !comes {
                return Some(Err(ErrorKind::Ended));
            }
            (state.is_paused() && !comes).then_some(Err(ErrorKind::Paused))
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        self.lock().state.stats(sync::now())
    }

    pub(crate) fn hint(&self) -> Result<(), Error> {
        self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            inner.state.handle_hint(now);
            Ok(())
        })
    }

    /// Returns once a pass that started after this call is over.
    pub(crate) fn force(&self, timeout: Duration) -> Result<(), Error> {
        let pass = self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            inner.refuse_own_thread()?;
            match inner.state.is_paused() {
                true => Err(Error::new(ErrorKind::Paused)),
                false => Ok(inner.state.handle_force(now)),
            }
        })?;
        self.wait(timeout, |Inner { state, .. }| {
            if state.is_over(pass) {
                return Some(Ok(()));
            }
            let never = !state.is_started(pass);
            if state.is_ended() || state.is_stopping() && never {
                return Some(Err(ErrorKind::Ended));
            }
            (state.is_paused() && never).then_some(Err(ErrorKind::Paused))
        })
    }

    /// Returns once no pass is running, and none will.
    pub(crate) fn pause(&self, timeout: Duration) -> Result<(), Error> {
        let last = self.input(|inner, _| {
            inner.refuse_if_stopping()?;
            let last = inner.state.handle_pause();
            if inner.state.is_over(last) {
                return Ok(None);
            }
            if inner.in_source {
                inner.refuse_own_thread()?;
            }
            // From the callback after a pass: what the source wrote is written.
            Ok((!inner.is_own_thread()).then_some(last))
        });
        // Whoever waits for a pass that will not start now is told so.
        self.changed.notify_all();
        let Some(last) = last? else { return Ok(()) };
        self.wait(timeout, |Inner { state, .. }| {
            if state.is_over(last) {
                return Some(Ok(()));
            }
            state.is_ended().then_some(Err(ErrorKind::Ended))
        })
    }

    pub(crate) fn resume(&self) -> Result<(), Error> {
        self.input(|inner, now| {
            inner.refuse_if_stopping()?;
            inner.state.handle_resume(now);
            Ok(())
        })
    }

    pub(crate) fn stop(&self) {
        self.input(|inner, now| inner.state.handle_stop(now));
        self.changed.notify_all();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.lock().gone
    }

    pub(crate) fn wait_ended(&self, timeout: Duration) -> Result<(), Error> {
        if !self.is_ended() {
            self.lock().refuse_own_thread()?;
        }
        self.wait(timeout, |inner| inner.gone.then_some(Ok(())))
    }
}

impl Control {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic halfway runs under the lock, so what is behind it is whole even if it is poisoned.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the state an input, and wakes the driver if that changed until when it may sleep.
    fn input<T>(&self, input: impl FnOnce(&mut Inner, Instant) -> T) -> T {
        let mut inner = self.lock();
        let before = inner.state.poll_timeout();
        // The time is taken under the lock, so that inputs arrive in its order.
        let answer = input(&mut inner, sync::now());
        let wake = inner.state.poll_timeout() != before;
        drop(inner);
        if wake {
            self.wakeup.wake();
        }
        answer
    }

    /// Waits until the state has an answer, at most for `timeout`.
    fn wait(
        &self,
        timeout: Duration,
        answer: impl Fn(&Inner) -> Option<Result<(), ErrorKind>>,
    ) -> Result<(), Error> {
        let (inner, _) = self
            .changed
            .wait_timeout_while(self.lock(), timeout, |inner| answer(inner).is_none())
            .unwrap_or_else(PoisonError::into_inner);
        answer(&inner)
            .unwrap_or(Err(ErrorKind::Timeout))
            .map_err(Error::new)
    }
}

impl Inner {
    fn is_own_thread(&self) -> bool {
        self.thread == Some(thread::current().id())
    }

    fn refuse_own_thread(&self) -> Result<(), Error> {
        match self.is_own_thread() {
            true => Err(Error::new(ErrorKind::OwnThread)),
            false => Ok(()),
        }
    }

    fn refuse_if_stopping(&self) -> Result<(), Error> {
        match self.state.is_stopping() {
            true => Err(Error::new(ErrorKind::Ended)),
            false => Ok(()),
        }
    }
}
