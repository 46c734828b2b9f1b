//! A job's ticket and outcome.

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

/// The outcome of a job: its value, its panic, or a cancel.
///
/// ```
/// use trueup_queue::Outcome;
///
/// assert_eq!(Outcome::Done(7).done(), Some(7));
/// assert_eq!(Outcome::<u8>::Panicked("no such device".into()).done(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<T> {
    /// The job ran and returned this value.
    Done(T),
    /// The job panicked with this message.
    Panicked(String),
    /// The job was cancelled before it began, and never runs.
    Cancelled,
}

impl<T> Outcome<T> {
    /// Returns the job's value; `None` if the job panicked or was cancelled.
    pub fn done(self) -> Option<T> {
        match self {
            Outcome::Done(value) => Some(value),
            Outcome::Panicked(_) | Outcome::Cancelled => None,
        }
    }
}

/// A handle of a submitted job: to wait for its [`Outcome`], or to cancel it.
///
/// A ticket is also a future, on the standard library's wakers, for any runtime. Dropping a ticket
/// cancels nothing: the job runs, and its outcome is dropped.
///
/// ```
/// use std::{num::NonZeroUsize, time::Duration};
/// use trueup_queue::{Config, Outcome, Queue};
///
/// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
/// let ticket = queue.submit_after("eth0", Duration::from_secs(3_600), || ())?;
/// assert!(ticket.cancel());
/// assert_eq!(ticket.wait(Duration::ZERO)?, Outcome::Cancelled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ticket<T> {
    task: Arc<dyn Completion<T>>,
    place: Place,
    /// The job's number in its lane's shard.
    number: u64,
    queue: Weak<dyn Cancel>,
    was_polled: bool,
}

/// A ticket's view of its queue.
pub(crate) trait Cancel: Send + Sync {
    /// Cancels a job unless it has begun; returns true if it did.
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
    /// [`Timeout`](Error::Timeout): the job continues, and the ticket stays valid.
    /// [`Deadlock`](Error::Deadlock), at once, if the call comes from a job of a queue and could
    /// not end: the ticket's job has the same lane, or its lane waits for this one, or all workers
    /// would wait. [`Taken`](Error::Taken).
    pub fn wait(&self, timeout: Duration) -> Result<Outcome<T>, Error> {
        let until = after(now(), timeout);
        let _waiting = if self.task.has_ended() {
            None
        } else {
            deadlock::enter(self.place, Arc::clone(&self.task) as _)?
        };
        self.task.wait(until)
    }

    /// Cancels the job if it has not begun; returns true if it did. A cancelled job is dropped
    /// before the call returns, never runs, and frees its place; its outcome is
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
    /// The errors are the same as for [`wait`](Ticket::wait), without a timeout. The only detected
    /// deadlock is a wait for a job of the own lane.
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
