//! A job, and what becomes of it, in one allocation: the queue has it as a [`Job`], its ticket as a
//! [`Completion`].

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::panics::{catch, discard};
use crate::sync::{Condvar, Mutex, lock, now, wait_until};
use crate::{Error, ErrorKind, Outcome, trace};

/// The counters of a worker, which nothing else writes, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    /// Jobs that it took.
    pub(crate) taken: AtomicU64,
    /// Those that were cancelled before they began.
    pub(crate) skipped: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) panicked: AtomicU64,
}

/// A job, as the queue sees it.
pub(crate) trait Job: Send + Sync {
    /// Runs the job on this thread, and ends its ticket. It does nothing if the job was cancelled.
    fn run(&self, counts: &Counts);
    /// Cancels the job unless it has begun, and returns whether. No code of the caller's runs.
    /// [`after_cancel`](Self::after_cancel) must follow, outside of all locks.
    fn cancel(&self) -> bool;
    /// Drops a cancelled job, and wakes what waits for it.
    fn after_cancel(&self);
    /// True if the job has not begun.
    fn is_waiting(&self) -> bool;
    /// True if the ticket has its outcome.
    fn has_ended(&self) -> bool;
}

/// A job, as its ticket sees it.
pub(crate) trait Completion<T>: Job {
    /// Waits for the outcome, and takes it.
    fn wait(&self, until: Instant) -> Result<Outcome<T>, Error>;
    /// Takes the outcome, or has `waker` woken once it is there.
    fn poll(&self, waker: &Waker) -> Poll<Result<Outcome<T>, Error>>;
    /// Forgets the waker.
    fn forget_waker(&self);
}

pub(crate) struct Task<F, T> {
    locked: Mutex<Locked<F, T>>,
    ended: Condvar,
    /// True once the outcome is there. Of the standard library also in the model: it is read where
    /// no other thread may go on.
    has_ended: AtomicBool,
}

struct Locked<F, T> {
    /// The job; `None` once it runs or was dropped.
    job: Option<F>,
    stage: Stage<T>,
    /// Threads that wait for `ended`.
    waiting: usize,
    waker: Option<Waker>,
}

enum Stage<T> {
    Waiting,
    Running,
    Ended(Outcome<T>),
    Taken,
}

impl<F, T> Task<F, T> {
    pub(crate) fn new(job: F) -> Self {
        Task {
            locked: Mutex::new(Locked {
                job: Some(job),
                stage: Stage::Waiting,
                waiting: 0,
                waker: None,
            }),
            ended: Condvar::new(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Returns the job of a task that was never queued.
    pub(crate) fn take_job(&self) -> Option<F> {
        lock(&self.locked).job.take()
    }

    /// Takes the job to run it; `None` if it was cancelled.
    fn begin(&self) -> Option<F> {
        let mut locked = lock(&self.locked);
        let Stage::Waiting = locked.stage else {
            return None;
        };
        locked.stage = Stage::Running;
        locked.job.take()
    }

    /// Wakes what waits for the outcome, which is there.
    fn wake(&self) {
        let mut locked = lock(&self.locked);
        let (waker, waiting) = (locked.waker.take(), locked.waiting);
        drop(locked);
        self.notify(waker, waiting);
    }

    fn notify(&self, waker: Option<Waker>, waiting: usize) {
        if waiting > 0 {
            self.ended.notify_all();
        }
        if let Some(waker) = waker
            && let Err(message) = catch(|| waker.wake())
        {
            trace::panicked(&message);
        }
    }
}

impl<F, T> Locked<F, T> {
    fn take(&mut self) -> Option<Result<Outcome<T>, Error>> {
        match &self.stage {
            Stage::Waiting | Stage::Running => None,
            Stage::Taken => Some(Err(Error::new(ErrorKind::Taken))),
            Stage::Ended(_) => match mem::replace(&mut self.stage, Stage::Taken) {
                Stage::Ended(outcome) => Some(Ok(outcome)),
                _ => None,
            },
        }
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Job for Task<F, T> {
    fn run(&self, counts: &Counts) {
        let Some(job) = self.begin() else {
            counts.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let outcome = match catch(job) {
            Ok(value) => Outcome::Done(value),
            Err(message) => {
                trace::panicked(&message);
                counts.panicked.fetch_add(1, Ordering::Relaxed);
                Outcome::Panicked(message)
            }
        };
        // Before the outcome is there: what waits for it sees the counts that belong to it.
        counts.ended.fetch_add(1, Ordering::Relaxed);
        let mut locked = lock(&self.locked);
        locked.stage = Stage::Ended(outcome);
        self.has_ended.store(true, Ordering::Release);
        let (waker, waiting) = (locked.waker.take(), locked.waiting);
        drop(locked);
        self.notify(waker, waiting);
    }

    fn cancel(&self) -> bool {
        let mut locked = lock(&self.locked);
        let is_waiting = matches!(locked.stage, Stage::Waiting);
        if is_waiting {
            locked.stage = Stage::Ended(Outcome::Cancelled);
            self.has_ended.store(true, Ordering::Release);
        }
        is_waiting
    }

    fn after_cancel(&self) {
        let job = lock(&self.locked).job.take();
        discard(job);
        self.wake();
    }

    fn is_waiting(&self) -> bool {
        matches!(lock(&self.locked).stage, Stage::Waiting)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Completion<T> for Task<F, T> {
    fn wait(&self, until: Instant) -> Result<Outcome<T>, Error> {
        let mut locked = lock(&self.locked);
        loop {
            if let Some(taken) = locked.take() {
                return taken;
            }
            if now() >= until {
                return Err(Error::new(ErrorKind::Timeout));
            }
            locked.waiting += 1;
            locked = wait_until(&self.ended, locked, until);
            locked.waiting -= 1;
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Outcome<T>, Error>> {
        // A waker's clone and drop are code of the caller's.
        let waker = waker.clone();
        let mut locked = lock(&self.locked);
        if let Some(taken) = locked.take() {
            return Poll::Ready(taken);
        }
        let replaced = locked.waker.replace(waker);
        drop(locked);
        drop(replaced);
        Poll::Pending
    }

    fn forget_waker(&self) {
        let waker = lock(&self.locked).waker.take();
        drop(waker);
    }
}
