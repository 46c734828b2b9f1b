//! What a queue, its workers and its tickets share.
//!
//! The order of the locks: a shard, then what is ready, or then a task. A job is in exactly one
//! place: delayed or waiting in its lane, or the current one of its lane. The current one is in
//! [`Ready::turns`], or a worker has it. No code of the caller's runs under a lock but `Eq` of a
//! key.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::atomic::{AtomicBool as Flag, AtomicU64 as Counter};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::deadlock::Place;
use crate::lane::{Found, Lane, LaneId, Waiting};
use crate::panics::discard;
use crate::ready::{Ready, Signals, Timer, Turn, Wake};
use crate::shard::Shard;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, after, hasher, lock, now};
use crate::task::{Counts, Job, Task};
use crate::ticket::{Cancel, Ticket};
use crate::{Config, Rejected};

pub(crate) struct Shared<K> {
    pub(crate) id: u64,
    pub(crate) config: Config,
    hasher: RandomState,
    pub(crate) shards: Box<[Mutex<Shard<K>>]>,
    pub(crate) ready: Mutex<Ready>,
    pub(crate) signals: Signals,
    /// The counters of each worker.
    pub(crate) counts: Box<[Counts]>,
    /// Read under the lock of a shard: no job is added to a shard that was locked after it was set.
    pub(crate) is_closed: AtomicBool,
    pub(crate) admitted: Admitted,
    /// True if a shard keeps memory that it may not need.
    has_unused: Flag,
}

/// Counts the jobs that wait, against the limit. What each thread counts often is its own: workers
/// the jobs that begin, callers those that they submit.
pub(crate) struct Admitted {
    pub(crate) submitted: AtomicU64,
    /// So many may be submitted, as far as was counted.
    bound: AtomicU64,
    /// Jobs that were taken out before they began.
    pub(crate) removed: AtomicU64,
}

/// What is submitted, beside the key and the job.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) delay: Option<Duration>,
    pub(crate) tag: Option<&'static str>,
}

/// What came of a submission.
enum Added {
    /// The lane and the number of the job.
    Queued(LaneId, u64),
    /// A job of the tag waits already.
    Coalesced,
    Closed,
    Full,
}

impl<K> Shared<K> {
    pub(crate) fn new(config: Config) -> Self {
        static IDS: Counter = Counter::new(0);
        let workers = config.workers.get();
        let shards = workers.saturating_mul(8).clamp(8, 256).next_power_of_two();
        Shared {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            hasher: hasher(),
            shards: (0..shards).map(|_| Mutex::new(Shard::new())).collect(),
            ready: Mutex::new(Ready::default()),
            signals: Signals::default(),
            counts: (0..workers).map(|_| Counts::default()).collect(),
            is_closed: AtomicBool::new(false),
            admitted: Admitted {
                submitted: AtomicU64::new(0),
                bound: AtomicU64::new(config.limit as u64),
                removed: AtomicU64::new(0),
            },
            has_unused: Flag::new(false),
            config,
        }
    }

    pub(crate) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard<K>> {
        // Other bits than those that the map of a shard uses first.
        let at = (hash >> 24) as usize & (self.shards.len() - 1);
        lock(&self.shards[at])
    }

    /// Counts a job that is submitted, unless too many wait.
    fn admit(&self) -> bool {
        let Admitted {
            submitted, bound, ..
        } = &self.admitted;
        let mut so_far = submitted.load(Ordering::Relaxed);
        loop {
            if so_far >= bound.load(Ordering::Relaxed) {
                let left = self.no_longer_waiting();
                let new_bound = left.saturating_add(self.config.limit as u64);
                bound.fetch_max(new_bound, Ordering::Relaxed);
                if so_far >= new_bound {
                    return false;
                }
            }
            let (old, new) = (so_far, so_far + 1);
            match submitted.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => so_far = now,
            }
        }
    }

    /// Returns how many jobs were taken by workers or taken out. It only grows, so that one read
    /// too early admits too few.
    fn no_longer_waiting(&self) -> u64 {
        let count = |it: &Counts| {
            // A job that was cancelled, and then taken, counts as taken out alone.
            let skipped = it.skipped.load(Ordering::Acquire);
            it.taken.load(Ordering::Relaxed).saturating_sub(skipped)
        };
        let taken: u64 = self.counts.iter().map(count).sum();
        taken + self.admitted.removed.load(Ordering::Relaxed)
    }

    /// Returns how many jobs workers have taken and not ended.
    pub(crate) fn running(&self) -> usize {
        let count = |it: &Counts| {
            // The ends are read first: a job that ends meanwhile counts as running.
            let over = it.ended.load(Ordering::Acquire) + it.skipped.load(Ordering::Acquire);
            it.taken.load(Ordering::Relaxed).saturating_sub(over)
        };
        let running: u64 = self.counts.iter().map(count).sum();
        usize::try_from(running).unwrap_or(usize::MAX)
    }

    /// Removes a lane that has no job.
    pub(crate) fn remove(&self, shard: &mut Shard<K>, id: LaneId) -> Option<Lane<K>> {
        let removed = shard.remove(id);
        if shard.has_unused() && !self.has_unused() {
            self.has_unused.store(true, Ordering::Relaxed);
        }
        removed
    }

    /// True if there may be memory to [free](Self::free_unused).
    pub(crate) fn has_unused(&self) -> bool {
        self.has_unused.load(Ordering::Relaxed)
    }

    /// Frees the memory of lanes that were removed.
    pub(crate) fn free_unused(&self) {
        self.has_unused.store(false, Ordering::Relaxed);
        self.shards.iter().for_each(|it| lock(it).free_unused());
    }

    /// Takes note that so many jobs were taken out.
    pub(crate) fn note_removed(&self, count: usize) {
        let count = count as u64;
        self.admitted.removed.fetch_add(count, Ordering::Relaxed);
    }

    /// Makes a job ready whose turn it is.
    pub(crate) fn make_ready(&self, lane: LaneId, next: Option<Waiting>) -> Wake {
        match next {
            Some(next) => lock(&self.ready).push(turn(lane, next)),
            None => Wake::None,
        }
    }
}

/// Returns the turn of a lane.
pub(crate) fn turn(lane: LaneId, next: Waiting) -> Turn {
    Turn {
        lane,
        job: next.job,
        since: next.since,
    }
}

impl<K: Hash + Eq + Send + 'static> Shared<K> {
    /// Submits a job. `None`: one of the tag waits already, and `job` was dropped.
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
                let place = Place {
                    queue: self.id,
                    lane,
                };
                let queue: Weak<Self> = Arc::downgrade(self);
                return Ok(Some(Ticket::new(task, place, number, queue)));
            }
            Added::Coalesced => return Ok(None),
            Added::Closed => Rejected::Closed,
            Added::Full => Rejected::Full,
        };
        match Arc::into_inner(task).and_then(Task::into_job) {
            Some(job) => Err(reject(job)),
            // It was in no lane, so nothing else has or took it.
            None => Ok(None),
        }
    }

    /// Adds a job to its lane. What it returns of the key, and puts into `last`, is to be dropped
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
        // Under the lock: what comes later to a lane is due later.
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
                let timer = Timer {
                    due: found.since,
                    lane: id,
                    number: found.number,
                };
                lock(&self.ready).timers.remove(&timer);
                (found.number, Added::Coalesced, found.job)
            }
            Found::Nothing => {
                // A job whose turn it is at once does not wait.
                let waits = lane.current.is_some() || due > now;
                let is_full = waits && lane.len() >= self.config.lane_limit;
                if is_full || !self.admit() {
                    let unused = match lane.is_empty() {
                        true => self.remove(&mut shard, id).map(|lane| lane.key),
                        false => key,
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
                let timer = Timer {
                    due,
                    lane: id,
                    number: at,
                };
                lock(&self.ready).add_timer(timer)
            }
            None => {
                let since = now;
                let waiting = Waiting {
                    job,
                    number: at,
                    since,
                };
                let next = lane.push(waiting);
                self.make_ready(id, next)
            }
        };
        // What was released is the current job, so that the new one is not: one wake is enough.
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

impl<K> Shared<K> {
    /// Moves the delayed jobs of a lane that are due to the others. A closed queue moves none.
    pub(crate) fn release(&self, lane: &mut Lane<K>, now: Instant) -> Wake {
        if !lane.has_delayed() || self.is_closed.load(Ordering::SeqCst) {
            return Wake::None;
        }
        let next = lane.release(now);
        self.make_ready(lane.id, next)
    }

    /// Takes the job that a worker has run out of its lane, and returns what is ready, with the
    /// lane's next job among it.
    pub(crate) fn finish(&self, id: LaneId) -> MutexGuard<'_, Ready> {
        let mut shard = self.shard(id.hash);
        let mut removed = None;
        if let Some(lane) = shard.get(id) {
            // What became due meanwhile comes behind what waits since before.
            if lane.has_delayed() && !self.is_closed.load(Ordering::SeqCst) {
                // The lane has a current job still, so that none is returned.
                lane.release(now());
            }
            match lane.advance() {
                Some(next) => {
                    let mut ready = lock(&self.ready);
                    // Without a wake: the caller takes a turn.
                    ready.turns.push_back(turn(id, next));
                    return ready;
                }
                None if lane.is_empty() => removed = self.remove(&mut shard, id),
                None => {}
            }
        }
        drop(shard);
        if let Some(lane) = removed {
            discard(lane);
        }
        lock(&self.ready)
    }

    /// Makes the jobs ready that are due, of these lanes.
    pub(crate) fn release_lanes(&self, lanes: Vec<LaneId>) {
        for id in lanes {
            let mut shard = self.shard(id.hash);
            let wake = shard.get(id).map(|lane| {
                let wake = self.release(lane, now());
                (wake, lane.is_empty())
            });
            let removed = match wake {
                Some((_, true)) => self.remove(&mut shard, id),
                _ => None,
            };
            drop(shard);
            if let Some((wake, _)) = wake {
                wake.send(&self.signals);
            }
            discard(removed);
        }
    }
}

impl<K: Send> Cancel for Shared<K> {
    fn cancel(&self, id: LaneId, number: u64, job: &dyn Job) -> bool {
        // Under the lock of the shard the job stays where it is.
        let mut shard = self.shard(id.hash);
        if !job.cancel() {
            return false;
        }
        let Some(lane) = shard.get(id) else {
            // The queue has closed and returned the job.
            return true;
        };
        self.note_removed(1);
        let removed = lane.note_cancelled(number);
        let lane = match lane.is_empty() {
            true => self.remove(&mut shard, id),
            false => None,
        };
        if !removed.is_empty() {
            let mut ready = lock(&self.ready);
            for (due, number) in removed {
                let lane = id;
                ready.timers.remove(&Timer { due, lane, number });
            }
        }
        drop(shard);
        discard(lane);
        true
    }
}
