//! A loop that takes its steps when a caller says so, beside other work of that caller.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use trueup_reconcile::{BeforeChange, Source};

use crate::control::{Control, Sleep};
use crate::driver::{Asked, Drive as _, Turn};
use crate::sync::{Alarm, Mutex, MutexGuard, PoisonError, Poller, now};
use crate::{Error, ErrorKind, Handle, Loop};

/// After so long a pass that was asked for without changes is due again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How long a descriptor is not polled that the kernel refuses to poll.
const POLL_RETRY: Duration = Duration::from_millis(100);

/// The numbers of the descriptors.
const EVENTS: u64 = 0;
const ALARM: u64 = 1;

/// A loop whose passes run when a caller says so: by [`run`](Self::run), on the caller's thread.
///
/// Its descriptor ([`AsFd`]) is readable when the loop has something to do, at the instant for it.
/// Then call [`poll`](Self::poll), which says whether that is a pass. Passes come due as in
/// [`Loop::run`], and the [`Handle`] works as there. Clones are the same loop. Calls of several
/// threads are allowed.
pub struct Stepped<S: Source> {
    inner: Arc<Inner<S>>,
}

struct Inner<S: Source> {
    /// `None` once it has ended.
    member: Mutex<Option<Loop<'static, S>>>,
    ended: Mutex<Option<Result<(), Error>>>,
    control: Arc<Control>,
    handle: Handle<S>,
    bell: Arc<Bell>,
    alarm: Alarm,
    /// A poll came while another thread had the loop.
    is_missed: AtomicBool,
}

/// Wakes the caller of a loop.
struct Bell(Poller);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

/// What [`Stepped::poll`] and [`Stepped::run`] have found or done.
#[derive(Clone, Debug)]
pub enum Step {
    /// Nothing is due: no pass was run.
    Idle,
    /// A pass is due, for [`Stepped::run`].
    Due,
    /// A pass ran to its end: see [`Handle::last_report`] and [`Handle::last_error`].
    Passed,
    /// A pass that may change nothing would change something. It goes on in the next
    /// [`Stepped::run`], and then looks at everything.
    Looked,
    /// The loop has ended, with the result of [`Loop::run`].
    Ended(Result<(), Error>),
}

impl<S: Source> Loop<'static, S> {
    /// Has a caller run the loop in steps.
    ///
    /// # Errors
    ///
    /// [`Os`](ErrorKind::Os) if the operating system refuses a descriptor.
    pub fn stepped(mut self) -> Result<Stepped<S>, Error> {
        let bell = Arc::new(Bell(Poller::new()?));
        let alarm = Alarm::new()?;
        self.begin(Waker::from(Arc::clone(&bell)));
        bell.0.wake();
        Ok(Stepped {
            inner: Arc::new(Inner {
                control: self.control(),
                handle: self.handle(),
                member: Mutex::new(Some(self)),
                ended: Mutex::new(None),
                bell,
                alarm,
                is_missed: AtomicBool::new(false),
            }),
        })
    }
}

impl<S: Source> Stepped<S> {
    /// Returns the loop's controls.
    pub fn handle(&self) -> &Handle<S> {
        &self.inner.handle
    }

    /// Does what is due but for passes: subscribes, reads events, answers questions. Returns
    /// [`Due`](Step::Due) if a pass is due, and else [`Idle`](Step::Idle), also while another
    /// thread has the loop. It does not wait for that thread.
    ///
    /// A panic of the source or of a callback goes on to the caller, and the loop has ended.
    pub fn poll(&self) -> Step {
        let inner = &*self.inner;
        if inner.bell.0.wait(Some(now())).contains(&EVENTS) {
            inner.control.readable();
        }
        // The thread that has the loop looks at it afterwards.
        inner.is_missed.store(true, Ordering::SeqCst);
        let Ok(mut member) = inner.member.try_lock() else {
            return match inner.member.is_poisoned() {
                true => Step::Ended(inner.result()),
                false => Step::Idle,
            };
        };
        inner.is_missed.store(false, Ordering::SeqCst);
        let step = inner.rest(&mut member);
        inner.release(member);
        step
    }

    /// Runs the pass that is due, or that hints have requested, and what follows from it. Without
    /// such a pass nothing is done, unless `is_forced` is true. With `apply` false no op is
    /// allowed. The pass begins no further step once `should_continue` is false. Of a source that
    /// [announces](Source::ANNOUNCES), `before_change` is called with the kinds of ops that are
    /// about to be carried out; if it returns false, they are not.
    ///
    /// A panic of the source or of a callback goes on to the caller, and the loop has ended.
    pub fn run(
        &self,
        apply: bool,
        is_forced: bool,
        should_continue: &(dyn Fn() -> bool + Sync),
        before_change: BeforeChange<'_>,
    ) -> Step {
        let inner = &*self.inner;
        let mut member = inner.lock();
        let asked = Asked { apply, should_continue, before_change };
        let step = inner.run(&mut member, is_forced, &asked);
        let after = match &*member {
            Some(_) => inner.rest(&mut member),
            None => Step::Idle,
        };
        if matches!(after, Step::Due) {
            inner.bell.0.wake();
        }
        inner.release(member);
        step
    }

    /// Returns the result of [`Loop::run`], if the loop has ended.
    pub fn ended(&self) -> Option<Result<(), Error>> {
        let is_ended = self.inner.handle.is_ended();
        is_ended.then(|| self.inner.result())
    }
}

impl<S: Source> Inner<S> {
    fn lock(&self) -> MutexGuard<'_, Option<Loop<'static, S>>> {
        // After a panic the loop is dropped.
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the loop back. A poll that came meanwhile is repeated.
    fn release(&self, member: MutexGuard<'_, Option<Loop<'static, S>>>) {
        drop(member);
        if self.is_missed.swap(false, Ordering::SeqCst) {
            self.bell.0.wake();
        }
    }

    fn run(
        &self,
        member: &mut Option<Loop<'static, S>>,
        is_forced: bool,
        asked: &Asked<'_>,
    ) -> Step {
        // A panic drops it.
        let Some(mut running) = member.take() else {
            return Step::Ended(self.result());
        };
        let mut has_hurried = false;
        let step = loop {
            if !has_hurried && running.open_since().is_none() {
                self.control.hurry(is_forced);
                has_hurried = true;
            }
            match running.turn_with(Some(asked)) {
                Turn::Again => {}
                Turn::Passed if running.open_since().is_some() => break Step::Looked,
                Turn::Passed => break Step::Passed,
                Turn::Sleep(_) => break Step::Idle,
                Turn::End(result) => return self.end(running, result),
            }
        };
        *member = Some(running);
        step
    }

    /// Does all that is no pass.
    fn rest(&self, member: &mut Option<Loop<'static, S>>) -> Step {
        let Some(mut resting) = member.take() else {
            return Step::Ended(self.result());
        };
        let sleep = loop {
            match resting.turn_with(None) {
                Turn::Again | Turn::Passed => {}
                Turn::Sleep(sleep) => break sleep,
                Turn::End(result) => return self.end(resting, result),
            }
        };
        let step = self.arm(&resting, sleep);
        *member = Some(resting);
        step
    }

    /// Has the descriptor readable when there is something to do.
    fn arm(&self, resting: &Loop<'static, S>, sleep: Sleep) -> Step {
        let look_again = resting.open_since().map(|at| at + LOOK_AGAIN);
        let is_due = match look_again {
            Some(at) => at <= now(),
            None => self.control.is_pass_due(),
        };
        let mut until = look_again.or(sleep.until).filter(|_| !is_due);
        if let Some(events) = resting.descriptor().filter(|_| sleep.is_listening)
            && self.bell.0.listen(events, EVENTS).is_err()
        {
            self.control.readable();
            until = Some(sooner(until, now() + POLL_RETRY));
        }
        if self.alarm.set(&self.bell.0, ALARM, until).is_err() && until.is_some() {
            // There is no other reason than a lack of memory, which may pass.
            self.bell.0.wake();
        }
        match is_due {
            true => Step::Due,
            false => Step::Idle,
        }
    }

    fn end(&self, ended: Loop<'static, S>, result: Result<(), Error>) -> Step {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(result.clone());
        drop(ended);
        // The caller sees the end in its next poll as well.
        self.bell.0.wake();
        Step::Ended(result)
    }

    fn result(&self) -> Result<(), Error> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let panicked = || Err(Error::new(ErrorKind::Panicked));
        ended.clone().unwrap_or_else(panicked)
    }
}

fn sooner(one: Option<Instant>, other: Instant) -> Instant {
    one.map_or(other, |one| one.min(other))
}

impl<S: Source> Clone for Stepped<S> {
    fn clone(&self) -> Self {
        Stepped { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Source> AsFd for Stepped<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.bell.0.as_fd()
    }
}

impl<S: Source> std::fmt::Debug for Stepped<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stepped").field("control", &self.inner.control).finish_non_exhaustive()
    }
}
