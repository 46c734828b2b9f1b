//! A job and its outcome in one allocation. The queue holds it as a [`Job`], its ticket as a
//! [`Completion`].

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Instant;

use crate::panics::{catch, discard};
use crate::sync::{Condvar, Mutex, into_inner, lock, now, wait_until};
use crate::{Error, Outcome, trace};

/// A worker's counters, which only this worker writes, on their own cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    /// The number of jobs that it took.
    pub(crate) taken: AtomicU64,
    /// The number of these that were cancelled before they began.
    pub(crate) skipped: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) panicked: AtomicU64,
}

impl Counts {
    /// Adds one to a counter of the calling worker. A thread that reads the counter with
    /// [`Ordering::Acquire`] also sees the worker's earlier writes.
    pub(crate) fn add_one(counter: &AtomicU64) {
        let count = counter.load(Ordering::Relaxed);
        counter.store(count + 1, Ordering::Release);
    }
}

/// The queue's view of a job.
pub(crate) trait Job: Send + Sync {
    /// Runs the job on this thread, and ends its ticket. If the job was cancelled, does nothing.
    fn run(self: Arc<Self>, counts: &Counts);
    /// Cancels the job unless it has begun; returns true if it did. Runs no code of the caller's.
    /// [`after_cancel`](Self::after_cancel) must follow, outside of all locks.
    fn cancel(&self) -> bool;
    /// Drops a cancelled job, ends its ticket, and wakes the waiting threads and tasks.
    fn after_cancel(&self);
    /// True if the job has not begun.
    fn is_waiting(&self) -> bool;
    /// True if the ticket has its outcome.
    fn has_ended(&self) -> bool;
}

/// The ticket's view of a job.
pub(crate) trait Completion<T>: Job {
    /// Waits for the outcome, and takes it.
    fn wait(&self, until: Instant) -> Result<Outcome<T>, Error>;
    /// Takes the outcome, or wakes `waker` once there is one.
    fn poll(&self, waker: &Waker) -> Poll<Result<Outcome<T>, Error>>;
    /// Removes the waker.
    fn forget_waker(&self);
}

pub(crate) struct Task<F, T> {
    locked: Mutex<Locked<F, T>>,
    ended: Condvar,
    /// True once there is an outcome. The atomic comes from the standard library even in the model,
    /// because it is read where no other thread may run.
    has_ended: AtomicBool,
}

struct Locked<F, T> {
    stage: Stage<F, T>,
    /// The number of threads that wait for `ended`.
    waiting: usize,
    waker: Option<Waker>,
}

enum Stage<F, T> {
    Waiting(F),
    Running,
    /// The job must be dropped, once no lock is held.
    Cancelled(F),
    Ended(Outcome<T>),
    Taken,
}

impl<F, T> Task<F, T> {
    pub(crate) fn new(job: F) -> Self {
        Task {
            locked: Mutex::new(Locked { stage: Stage::Waiting(job), waiting: 0, waker: None }),
            ended: Condvar::new(),
            has_ended: AtomicBool::new(false),
        }
    }

    /// Returns the job of a task that was never queued.
    pub(crate) fn into_job(self) -> Option<F> {
        match into_inner(self.locked).stage {
            Stage::Waiting(job) => Some(job),
            _ => None,
        }
    }

    /// Takes the job to run it; `None` if it was cancelled.
    fn begin(&self) -> Option<F> {
        lock(&self.locked).stage.take_waiting(Stage::Running)
    }

    /// Ends the ticket, and wakes the waiting threads and tasks.
    fn end(&self, outcome: Outcome<T>) {
        let mut locked = lock(&self.locked);
        locked.stage = Stage::Ended(outcome);
        self.has_ended.store(true, Ordering::Release);
        let (waker, waiting) = (locked.waker.take(), locked.waiting);
        drop(locked);
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

impl<F, T> Stage<F, T> {
    /// Takes the job if it waits, and then enters the next stage.
    fn take_waiting(&mut self, next: Self) -> Option<F> {
        match mem::replace(self, next) {
            Stage::Waiting(job) => Some(job),
            former => {
                *self = former;
                None
            }
        }
    }

    fn take_outcome(&mut self) -> Option<Result<Outcome<T>, Error>> {
        match mem::replace(self, Stage::Taken) {
            Stage::Ended(outcome) => Some(Ok(outcome)),
            Stage::Taken => Some(Err(Error::Taken)),
            former => {
                *self = former;
                None
            }
        }
    }
}

/// Runs a job, and counts it.
fn execute<T>(job: impl FnOnce() -> T, counts: &Counts) -> Outcome<T> {
    let outcome = match catch(job) {
        Ok(value) => Outcome::Done(value),
        Err(message) => {
            trace::panicked(&message);
            Counts::add_one(&counts.panicked);
            Outcome::Panicked(message)
        }
    };
    // Before the outcome is visible, so that a waiting thread sees its counters.
    Counts::add_one(&counts.ended);
    outcome
}

impl<F: FnOnce() -> T + Send, T: Send> Job for Task<F, T> {
    fn run(self: Arc<Self>, counts: &Counts) {
        let (job, task) = match Arc::try_unwrap(self) {
            // The ticket was dropped: no thread waits for the outcome, and no lock is needed.
            Ok(task) => (task.into_job(), None),
            Err(task) => (task.begin(), Some(task)),
        };
        let Some(job) = job else {
            Counts::add_one(&counts.skipped);
            return;
        };
        let outcome = execute(job, counts);
        match task {
            Some(task) => {
                task.end(outcome);
                // If the ticket was dropped meanwhile, its value is dropped here.
                discard(task);
            }
            None => discard(outcome),
        }
    }

    fn cancel(&self) -> bool {
        let stage = &mut lock(&self.locked).stage;
        let Some(job) = stage.take_waiting(Stage::Running) else {
            return false;
        };
        *stage = Stage::Cancelled(job);
        true
    }

    fn after_cancel(&self) {
        let stage = mem::replace(&mut lock(&self.locked).stage, Stage::Running);
        discard(stage);
        self.end(Outcome::Cancelled);
    }

    fn is_waiting(&self) -> bool {
        matches!(lock(&self.locked).stage, Stage::Waiting(_))
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

impl<F: FnOnce() -> T + Send, T: Send> Completion<T> for Task<F, T> {
    fn wait(&self, until: Instant) -> Result<Outcome<T>, Error> {
        let mut locked = lock(&self.locked);
        loop {
            if let Some(taken) = locked.stage.take_outcome() {
                return taken;
            }
            if now() >= until {
                return Err(Error::Timeout);
            }
            locked.waiting += 1;
            locked = wait_until(&self.ended, locked, Some(until));
            locked.waiting -= 1;
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Outcome<T>, Error>> {
        // A waker's clone and drop are the caller's code.
        let clone = waker.clone();
        let mut locked = lock(&self.locked);
        if let Some(taken) = locked.stage.take_outcome() {
            return Poll::Ready(taken);
        }
        let replaced = locked.waker.replace(clone);
        drop(locked);
        drop(replaced);
        Poll::Pending
    }

    fn forget_waker(&self) {
        let waker = lock(&self.locked).waker.take();
        drop(waker);
    }
}
