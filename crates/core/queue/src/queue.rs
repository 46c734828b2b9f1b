//! The queue's handle.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use crate::shared::Shared;
use crate::submission::Terms;
use crate::sync::{after, now};
use crate::{Config, Error, Rejected, Stats, Ticket, Unfinished, deadlock, worker};

/// A keyed serial queue: jobs of one key run one at a time, in order, and keys run in parallel.
///
/// Clones are handles of the same queue. When the last one is dropped, the queue
/// [closes](Self::close).
///
/// ```
/// use std::{num::NonZeroUsize, time::Duration};
/// use trueup_queue::{Config, Queue};
///
/// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
/// let clone = queue.clone(); // the same queue
/// let ticket = clone.submit("eth0", || 7)?;
/// assert_eq!(ticket.wait(Duration::from_secs(10))?.done(), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Queue<K> {
    owner: Arc<Owner<K>>,
}

/// The shared owner behind all handles of a queue; dropping it closes the queue.
struct Owner<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Drop for Owner<K> {
    fn drop(&mut self) {
        close(&self.shared);
    }
}

fn close<K>(shared: &Shared<K>) {
    shared.refuse();
    shared.cancel_delayed();
}

impl<K: Hash + Eq + Send + 'static> Queue<K> {
    /// Creates a queue, and starts its workers.
    ///
    /// # Errors
    ///
    /// [`Os`](Error::Os) if a thread cannot be started.
    pub fn new(config: Config) -> Result<Self, Error> {
        let workers = config.workers.get();
        let queue = Queue { owner: Arc::new(Owner { shared: Arc::new(Shared::new(config)) }) };
        // If one cannot start, dropping the queue ends the others.
        for number in 0..workers {
            worker::start(&queue.owner.shared, number)
                .map_err(|error| Error::Os(Arc::new(error)))?;
        }
        Ok(queue)
    }

    /// Submits a job, without blocking. It runs once, after all jobs of `key` that are already due.
    ///
    /// A job may submit others, even to its own key.
    ///
    /// ```
    /// # use std::{num::NonZeroUsize, time::Duration};
    /// # use trueup_queue::{Config, Queue};
    /// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
    /// let first = queue.submit("eth0", || "up")?;
    /// let second = queue.submit("eth0", || "has an address")?; // begins after the first has ended
    /// assert_eq!(second.wait(Duration::from_secs(10))?.done(), Some("has an address"));
    /// assert_eq!(first.wait(Duration::ZERO)?.done(), Some("up"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Rejected`], with the job: the queue is closed, or too many jobs wait.
    pub fn submit<F, T>(&self, key: K, job: F) -> Result<Ticket<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_untagged(key, None, job)
    }

    /// Submits a job that is due after `delay`. Until then, it does not hold back other jobs of its
    /// key; then it joins the end of its lane. A delay beyond the clock's range counts as a hundred
    /// years.
    ///
    /// ```
    /// # use std::{num::NonZeroUsize, time::Duration};
    /// # use trueup_queue::{Config, Outcome, Queue};
    /// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
    /// let later = queue.submit_after("eth0", Duration::from_secs(3_600), || "tried again")?;
    /// let now = queue.submit("eth0", || "tried")?; // does not wait for the hour
    /// assert_eq!(now.wait(Duration::from_secs(10))?.done(), Some("tried"));
    /// queue.close(); // cancels the delayed job
    /// assert_eq!(later.wait(Duration::from_secs(10))?, Outcome::Cancelled);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`submit`](Self::submit).
    pub fn submit_after<F, T>(
        &self,
        key: K,
        delay: Duration,
        job: F,
    ) -> Result<Ticket<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_untagged(key, Some(delay), job)
    }

    /// Submits a job unless a job of the same tag and key already waits. The waiting job begins
    /// after this call, so it sees everything that the caller did before; then the result is
    /// `None`, and `job` is dropped. While a job of the tag runs, the first call queues one more
    /// run.
    ///
    /// If the waiting job is [delayed](Self::submit_once_after), it becomes due now.
    ///
    /// ```
    /// # use std::{num::NonZeroUsize, sync::mpsc::channel};
    /// # use trueup_queue::{Config, Queue};
    /// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
    /// let (go, wait) = channel();
    /// queue.submit("eth0", move || wait.recv())?; // keeps the lane busy
    /// assert!(queue.submit_once("eth0", "reconcile", || ())?.is_some());
    /// assert!(queue.submit_once("eth0", "reconcile", || ())?.is_none()); // the first serves both
    /// go.send(())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`submit`](Self::submit).
    pub fn submit_once<F, T>(
        &self,
        key: K,
        tag: &'static str,
        job: F,
    ) -> Result<Option<Ticket<T>>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let tag = Some(tag);
        self.owner.shared.submit(key, Terms { delay: None, tag }, job)
    }

    /// Submits a job like [`submit_once`](Self::submit_once), with a delay. If a job already waits,
    /// the earlier of the two times holds. So a job that always resubmits itself, such as a resync,
    /// has only one timer.
    ///
    /// # Errors
    ///
    /// See [`submit`](Self::submit).
    pub fn submit_once_after<F, T>(
        &self,
        key: K,
        tag: &'static str,
        delay: Duration,
        job: F,
    ) -> Result<Option<Ticket<T>>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (delay, tag) = (Some(delay), Some(tag));
        self.owner.shared.submit(key, Terms { delay, tag }, job)
    }

    fn submit_untagged<F, T>(
        &self,
        key: K,
        delay: Option<Duration>,
        job: F,
    ) -> Result<Ticket<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let terms = Terms { delay, tag: None };
        let submitted = self.owner.shared.submit(key, terms, job)?;
        #[expect(clippy::expect_used, reason = "an invariant of `Shared::submit`")]
        Ok(submitted.expect("only a job with a tag is coalesced"))
    }
}

impl<K> Queue<K> {
    /// Closes the queue: it refuses jobs from now on. Due jobs still run; then the workers end.
    /// Delayed jobs are cancelled. It does not wait, so any thread may call it. Closing a closed
    /// queue is no error.
    pub fn close(&self) {
        close(&self.owner.shared);
    }

    /// Closes the queue, and waits for at most `timeout` until the due jobs have run. Returns the
    /// jobs that did not run: delayed ones, and ones that did not begin in time. No worker takes a
    /// job after the call.
    ///
    /// ```
    /// # use std::{num::NonZeroUsize, time::Duration};
    /// # use trueup_queue::{Config, Queue};
    /// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
    /// queue.submit_after("eth0", Duration::from_secs(3_600), || ())?;
    /// let unfinished = queue.close_within(Duration::from_secs(10))?;
    /// assert_eq!((unfinished.unrun.len(), unfinished.running), (1, 0));
    /// assert!(queue.submit("eth0", || ()).unwrap_err().is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Deadlock`](Error::Deadlock) if a job of this queue makes the call, which would wait for
    /// the job. Nothing was closed.
    pub fn close_within(&self, timeout: Duration) -> Result<Unfinished<K>, Error> {
        let shared = &self.owner.shared;
        if deadlock::is_within_queue(shared.id) {
            return Err(Error::Deadlock);
        }
        let until = after(now(), timeout);
        shared.refuse();
        shared.wait_ended(until);
        Ok(shared.take_out())
    }

    /// Closes the queue, and cancels all jobs that have not begun. Running jobs continue and end
    /// their tickets; no worker takes a job after the call. It does not wait, so any thread may
    /// call it.
    pub fn abort(&self) {
        self.owner.shared.refuse();
        drop(self.owner.shared.take_out());
    }

    /// Returns the queue's counters and current state. It walks over the lanes with jobs, a part of
    /// them under a lock at a time: meant for once a second, not for each job.
    ///
    /// ```
    /// # use std::{num::NonZeroUsize, time::Duration};
    /// # use trueup_queue::{Config, Queue};
    /// let queue = Queue::new(Config::new(NonZeroUsize::MIN))?;
    /// queue.submit_after("eth0", Duration::from_secs(3_600), || ())?;
    /// let stats = queue.stats();
    /// assert_eq!((stats.delayed, stats.depth, stats.lanes), (1, 0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.owner.shared.stats()
    }
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue { owner: Arc::clone(&self.owner) }
    }
}

impl<K> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("config", &self.owner.shared.config).finish_non_exhaustive()
    }
}
