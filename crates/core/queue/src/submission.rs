//! The submission of a job to its lane.

use std::hash::{BuildHasher as _, Hash};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::Rejected;
use crate::deadlock::Place;
use crate::lane::{Found, LaneId, Waiting};
use crate::ready::{Timer, Wake};
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::sync::{after, lock, now};
use crate::task::{Job, Task};
use crate::ticket::Ticket;

/// The conditions of a submission, besides the key and the job.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) delay: Option<Duration>,
    pub(crate) tag: Option<&'static str>,
}

/// The result of a submission.
enum Added {
    /// The job is queued: its lane and its number.
    Queued(LaneId, u64),
    /// A job of the tag already waits.
    Coalesced,
    Closed,
    Full,
}

impl<K: Hash + Eq + Send + 'static> Shared<K> {
    /// Submits a job. `None` if a job of the tag already waits; `job` was then dropped.
    pub(crate) fn submit<F, T>(
        self: &Arc<Self>,
        key: K,
        terms: Terms,
        job: F,
    ) -> Result<Option<Ticket<T>>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let hash = self.hasher.hash_one(&key);
        let task = Arc::new(Task::new(job));
        let mut last = None;
        let job = Arc::<Task<F, T>>::clone(&task);
        let (added, wake, key) = self.add(hash, key, terms, job, &mut last);
        wake.send(&self.signals);
        drop((key, last));
        let reject: fn(F) -> Rejected<F> = match added {
            Added::Queued(lane, number) => {
                let place = Place { queue: self.id, lane };
                let queue: Weak<Self> = Arc::downgrade(self);
                return Ok(Some(Ticket::new(task, place, number, queue)));
            }
            Added::Coalesced => return Ok(None),
            Added::Closed => Rejected::Closed,
            Added::Full => Rejected::Full,
        };
        match Arc::into_inner(task).and_then(Task::into_job) {
            Some(job) => Err(reject(job)),
            // It was in no lane, so no other thread can have taken it.
            None => Ok(None),
        }
    }

    /// Adds a job to its lane. The caller must drop the returned key, and the value of `last`,
    /// without a lock.
    fn add(
        &self,
        hash: u64,
        key: K,
        terms: Terms,
        job: Arc<dyn Job>,
        last: &mut Option<Arc<dyn Job>>,
    ) -> (Added, Wake, Option<K>) {
        let mut shard = self.shard(hash);
        if self.is_closed.load(Ordering::SeqCst) {
            return (Added::Closed, Wake::None, Some(key));
        }
        // Under the lock, so that later jobs of a lane are due later.
        let now = now();
        let due = terms.delay.map_or(now, |delay| after(now, delay));
        let number = shard.next_number();
        let (lane, key) = shard.lane(hash, key);
        let id = lane.id;
        let released = self.release(lane, now);
        let mut found = Found::Nothing;
        if let Some(tag) = terms.tag {
            *last = lane.tagged(tag);
            if let Some(last) = last {
                found = lane.find_tagged(tag, &**last, due);
            }
        }
        let (at, added, job) = match found {
            Found::InTime => return (Added::Coalesced, released, key),
            Found::Later(found) => {
                let timer = Timer { due: found.since, lane: id, number: found.number };
                lock(&self.ready).timers.remove(&timer);
                (found.number, Added::Coalesced, found.job)
            }
            Found::Nothing => {
                // A job whose turn comes at once does not wait.
                let waits = lane.current.is_some() || due > now;
                let is_full = waits && lane.len() >= self.config.lane_limit;
                if is_full || !self.admitted.admit() {
                    let unused = if lane.is_empty() {
                        self.remove(&mut shard, id).map(|lane| lane.key)
                    } else {
                        key
                    };
                    return (Added::Full, released, unused);
                }
                (number, Added::Queued(id, number), job)
            }
        };
        let delayed = (due > now).then_some((due, at));
        if let Some(tag) = terms.tag {
            lane.set_tagged(tag, &job, delayed);
        }
        let wake = match delayed {
            Some(_) => {
                lane.delay(due, at, job);
                let timer = Timer { due, lane: id, number: at };
                lock(&self.ready).add_timer(timer)
            }
            None => {
                let since = now;
                let waiting = Waiting { job, number: at, since };
                let next = lane.push(waiting);
                self.make_ready(id, next)
            }
        };
        // The released job is the current one, so the new job is not, and one wake-up is enough.
        let wake = match wake {
            Wake::None => released,
            wake => {
                released.send(&self.signals);
                wake
            }
        };
        (added, wake, key)
    }
}
