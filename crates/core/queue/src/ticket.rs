//! The ticket of a job.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::Error;
use crate::deadlock::{self, Place};
use crate::lane::LaneId;
use crate::sync::{after, now};
use crate::task::{Completion, Job};

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// The job ran, and returned this.
    Done(T),
    /// The job panicked with this message.
    Panicked(String),
    /// The job was cancelled before it began, and never runs.
    Cancelled,
}

impl<T> Outcome<T> {
    /// Returns what the job returned; `None` if it panicked or was cancelled.
    pub fn done(self) -> Option<T> {
        match self {
            Outcome::Done(value) => Some(value),
            Outcome::Panicked(_) | Outcome::Cancelled => None,
        }
    }
}

/// A submitted job: to wait for its [`Outcome`], or to cancel it.
///
/// A ticket is a future as well, on the wakers of the standard library, for any runtime. Dropping a
/// ticket cancels nothing: the job runs, and its outcome is dropped.
pub struct Ticket<T> {
    task: Arc<dyn Completion<T>>,
    place: Place,
    /// The number of the job in its lane's shard.
    number: u64,
    queue: Weak<dyn Cancel>,
    was_polled: bool,
}

/// A queue, as a ticket sees it.
pub(crate) trait Cancel: Send + Sync {
    /// Cancels a job unless it has begun, and returns whether.
    fn cancel(&self, lane: LaneId, number: u64, job: &dyn Job) -> bool;
}

impl<T> Ticket<T> {
    pub(crate) fn new(
        task: Arc<dyn Completion<T>>,
        place: Place,
        number: u64,
        queue: Weak<dyn Cancel>,
    ) -> Self {
        Ticket { task, place, number, queue, was_polled: false }
    }

    /// Waits until the job has ended, and returns its outcome. An outcome is returned once.
    ///
    /// # Errors
    ///
    /// [`Timeout`](Error::Timeout): the job goes on, and the ticket stays good.
    /// [`Deadlock`](Error::Deadlock), at once, if the call is from a job of a queue and could
    /// not end: the ticket's job is of the same lane, or its lane waits for this one, or all
    /// workers would wait. [`Taken`](Error::Taken).
    pub fn wait(&self, timeout: Duration) -> Result<Outcome<T>, Error> {
        let until = after(now(), timeout);
        let _waiting = if self.task.has_ended() {
            None
        } else {
            deadlock::enter(self.place, Arc::clone(&self.task) as _)?
        };
        self.task.wait(until)
    }

    /// Cancels the job if it has not begun, and returns whether. A cancelled job is dropped before
    /// the call returns, never runs, and gives its place to another; its outcome is
    /// [`Cancelled`](Outcome::Cancelled). A job that has begun is not interrupted.
    pub fn cancel(&self) -> bool {
        let cancelled = match self.queue.upgrade() {
            Some(queue) => queue.cancel(self.place.lane, self.number, &*self.task),
            None => self.task.cancel(),
        };
        if cancelled {
            self.task.after_cancel();
        }
        cancelled
    }
}

impl<T> Future for Ticket<T> {
    /// The errors are those of [`wait`](Ticket::wait) but a timeout. Of the deadlocks only a wait
    /// for a job of the own lane is found.
    type Output = Result<Outcome<T>, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if deadlock::is_within(this.place) && !this.task.has_ended() {
            return Poll::Ready(Err(Error::Deadlock));
        }
        this.was_polled = true;
        this.task.poll(context.waker())
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        if self.was_polled {
            self.task.forget_waker();
        }
    }
}

impl<T> fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("has_ended", &self.task.has_ended()).finish_non_exhaustive()
    }
}
