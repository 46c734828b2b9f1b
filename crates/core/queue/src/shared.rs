//! The state that a queue, its workers and its tickets share.
//!
//! The order of the locks is: a shard, then the ready jobs, or then a task. A job is in exactly one
//! place: delayed or waiting in its lane, or its lane's current job. The current job is in
//! [`Ready::turns`], or a worker has it. No code of the caller's runs under a lock, except a key's
//! `Eq`.

use std::hash::RandomState;
use std::sync::atomic::{AtomicBool as Flag, AtomicU64 as Counter};
use std::time::Instant;

use crate::Config;
use crate::admission::Admitted;
use crate::lane::{Lane, LaneId, Waiting};
use crate::panics::discard;
use crate::ready::{Ready, Signals, Timer, Turn, Wake};
use crate::shard::Shard;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, hasher, lock, now};
use crate::task::Job;
use crate::ticket::Cancel;

pub(crate) struct Shared<K> {
    pub(crate) id: u64,
    pub(crate) config: Config,
    pub(crate) hasher: RandomState,
    pub(crate) shards: Box<[Mutex<Shard<K>>]>,
    pub(crate) ready: Mutex<Ready>,
    pub(crate) signals: Signals,
    /// Read under a shard's lock: once this is set, no job is added to a shard that is then locked.
    pub(crate) is_closed: AtomicBool,
    pub(crate) admitted: Admitted,
    /// True if a shard keeps memory that it may not need.
    has_unused: Flag,
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
            is_closed: AtomicBool::new(false),
            admitted: Admitted::new(config.limit, workers),
            has_unused: Flag::new(false),
            config,
        }
    }

    pub(crate) fn shard(&self, hash: u64) -> MutexGuard<'_, Shard<K>> {
        // Uses other bits than a shard's map uses first.
        let at = (hash >> 24) as usize & (self.shards.len() - 1);
        lock(&self.shards[at])
    }

    /// Removes a lane without jobs.
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

    /// Frees the memory of removed lanes.
    pub(crate) fn free_unused(&self) {
        self.has_unused.store(false, Ordering::Relaxed);
        self.shards.iter().for_each(|it| lock(it).free_unused());
    }

    /// Makes a job ready whose turn it is.
    pub(crate) fn make_ready(&self, lane: LaneId, next: Option<Waiting>) -> Wake {
        match next {
            Some(next) => lock(&self.ready).push(turn(lane, next)),
            None => Wake::None,
        }
    }
}

/// Returns the turn of a lane's job.
pub(crate) fn turn(lane: LaneId, next: Waiting) -> Turn {
    Turn { lane, job: next.job, since: next.since }
}

impl<K> Shared<K> {
    /// Moves a lane's due jobs from the delayed to the waiting ones. A closed queue moves none.
    pub(crate) fn release(&self, lane: &mut Lane<K>, now: Instant) -> Wake {
        if !lane.has_delayed() || self.is_closed.load(Ordering::SeqCst) {
            return Wake::None;
        }
        let next = lane.release(now);
        self.make_ready(lane.id, next)
    }

    /// Takes the job that a worker has run out of its lane. Returns the ready jobs, which now
    /// include the lane's next job.
    pub(crate) fn finish(&self, id: LaneId) -> MutexGuard<'_, Ready> {
        let mut shard = self.shard(id.hash);
        let mut removed = None;
        if let Some(lane) = shard.get(id) {
            // Jobs that became due meanwhile come behind the waiting ones.
            if lane.has_delayed() && !self.is_closed.load(Ordering::SeqCst) {
                // The lane still has a current job, so none is returned.
                lane.release(now());
            }
            match lane.advance() {
                Some(next) => {
                    let mut ready = lock(&self.ready);
                    // Without a wake-up, because the caller takes a turn.
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

    /// Makes the due jobs of these lanes ready.
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
        // Under the shard's lock, the job stays where it is.
        let mut shard = self.shard(id.hash);
        if !job.cancel() {
            return false;
        }
        let Some(lane) = shard.get(id) else {
            // The queue has closed and returned the job.
            return true;
        };
        self.admitted.note_removed(1);
        let removed = lane.note_cancelled(number);
        let lane = if lane.is_empty() { self.remove(&mut shard, id) } else { None };
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
