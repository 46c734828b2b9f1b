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
/// Clones are handles of the same queue. When the last one is dropped the queue
/// [closes](Self::close).
pub struct Queue<K> {
    owner: Arc<Owner<K>>,
}

/// The handles of a queue, as one.
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
    /// Makes a queue, and starts its workers.
    ///
    /// # Errors
    ///
    /// [`Os`](Error::Os) if a thread cannot be started.
    pub fn new(config: Config) -> Result<Self, Error> {
        let workers = config.workers.get();
        let queue = Queue { owner: Arc::new(Owner { shared: Arc::new(Shared::new(config)) }) };
        // Where one fails, dropping the queue ends the others.
        for number in 0..workers {
            worker::start(&queue.owner.shared, number)
                .map_err(|error| Error::Os(Arc::new(error)))?;
        }
        Ok(queue)
    }

    /// Submits a job. It runs once, after all jobs of `key` that are due already. It never blocks.
    ///
    /// A job may submit others, also to its own key.
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

    /// Submits a job that is due after `delay`. Until then it holds back no job of its key; then it
    /// joins the end of its lane. A delay beyond the range of the clock is a hundred years.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
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

    /// Submits a job unless one of the same tag and key waits already. That one begins after this
    /// call, so it sees all that the caller did before: then the result is `None`, and `job` is
    /// dropped. While a job of the tag runs, the first call queues one more run.
    ///
    /// If the job that waits is [delayed](Self::submit_once_after), it is due now.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
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

    /// As [`submit_once`](Self::submit_once), with a delay: of the two times the earlier one holds.
    /// So a job that always submits itself again, such as a resync, has one timer and not many.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
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
    /// Closes the queue: it refuses jobs from now on. Jobs that are due still run; then the workers
    /// end. Delayed jobs are cancelled. It does not wait, so it may be called from any thread.
    /// Closing a closed queue is no error.
    pub fn close(&self) {
        close(&self.owner.shared);
    }

    /// Closes the queue, and waits until the jobs that are due have run, at the longest for
    /// `timeout`. Returns what did not run: delayed jobs, and those that did not begin in time.
    /// No worker takes a job after the call.
    ///
    /// # Errors
    ///
    /// [`Deadlock`](Error::Deadlock) if the call is from a job of this queue, which it would
    /// wait for. Nothing was closed.
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

    /// Closes the queue, and cancels all jobs that have not begun. Jobs that run go on and end
    /// their tickets; no worker takes one after the call. It does not wait: call it from any
    /// thread.
    pub fn abort(&self) {
        self.owner.shared.refuse();
        drop(self.owner.shared.take_out());
    }

    /// Returns the counters and the present state of the queue. It walks over the lanes that have
    /// jobs, a part of them under a lock at a time: meant for once a second, not for each job.
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
