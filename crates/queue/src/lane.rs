//! The lanes: what waits, by key.

use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::task::Job;

/// A lane among those of one queue. A key whose lane was removed gets one of another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    /// The hash of its key.
    pub(crate) hash: u64,
    /// Its number in its shard.
    pub(crate) number: u64,
}

/// A job that waits.
pub(crate) struct Waiting {
    pub(crate) job: Arc<dyn Job>,
    /// Its number in its shard.
    pub(crate) number: u64,
    /// When it became due.
    pub(crate) since: Instant,
}

/// The jobs of a key that have not ended. There is a lane only while there are some.
pub(crate) struct Lane<K> {
    pub(crate) key: K,
    pub(crate) id: LaneId,
    /// The number of the job whose turn it is: it is among the ready ones, or runs.
    pub(crate) current: Option<u64>,
    /// The jobs that are due, in their order, some of them cancelled.
    pub(crate) waiting: VecDeque<Waiting>,
    /// The jobs that are not due yet, by when they are and by number, some of them cancelled.
    pub(crate) delayed: BTreeMap<(Instant, u64), Arc<dyn Job>>,
    /// How many of both are cancelled.
    cancelled: usize,
    /// The last job of each tag; it may have begun.
    tagged: Vec<Tagged>,
}

struct Tagged {
    tag: &'static str,
    /// Not to keep what the job returned.
    job: Weak<dyn Job>,
    /// Where it was delayed at first.
    delayed: Option<(Instant, u64)>,
}

/// What is there of a tag already.
pub(crate) enum Found {
    /// No job that waits.
    Nothing,
    /// A job that is due, or is so at the time that was asked for.
    InTime,
    /// A job that is due later. It was taken out.
    Later(Waiting),
}

impl<K> Lane<K> {
    fn new(key: K, id: LaneId) -> Self {
        Lane {
            key,
            id,
            current: None,
            waiting: VecDeque::new(),
            delayed: BTreeMap::new(),
            cancelled: 0,
            tagged: Vec::new(),
        }
    }

    /// Returns how many jobs wait behind the one whose turn it is.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.delayed.len() - self.cancelled
    }

    /// True if the lane has no job.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty() && self.delayed.is_empty()
    }

    /// Takes the next job that is due. It is the current one from now on.
    pub(crate) fn advance(&mut self) -> Option<Waiting> {
        self.current = None;
        let mut next = self.waiting.pop_front()?;
        // Looks at the jobs only if it must: that is a lock each.
        while self.cancelled > 0 && !next.job.is_waiting() {
            self.cancelled -= 1;
            next = self.waiting.pop_front()?;
        }
        if self.waiting.capacity() > 64 && self.waiting.len() * 8 < self.waiting.capacity() {
            self.waiting.shrink_to(self.waiting.len() * 2);
        }
        self.current = Some(next.number);
        Some(next)
    }

    /// Adds a job that is due. Returns it if it is its turn: it is the current one then.
    pub(crate) fn push(&mut self, job: Waiting) -> Option<Waiting> {
        match self.current {
            Some(_) => {
                self.waiting.push_back(job);
                None
            }
            // What is due became current before.
            None => {
                self.current = Some(job.number);
                Some(job)
            }
        }
    }

    /// Moves the delayed jobs that are due to the others, in the order in which they became so.
    /// Returns one if it is its turn.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Waiting> {
        let mut next = None;
        while let Some(first) = self.delayed.first_entry()
            && first.key().0 <= now
        {
            let ((since, number), job) = first.remove_entry();
            if self.cancelled > 0 && !job.is_waiting() {
                self.cancelled -= 1;
                continue;
            }
            next = next.or(self.push(Waiting { job, number, since }));
        }
        next
    }

    /// Returns how many of the delayed jobs are not cancelled.
    pub(crate) fn delayed_len(&self) -> usize {
        match self.cancelled {
            0 => self.delayed.len(),
            _ => self.delayed.values().filter(|it| it.is_waiting()).count(),
        }
    }

    /// Returns since when the first job that waits behind the current one is due.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let first = self.waiting.iter().find(|it| it.job.is_waiting());
        first.map(|it| it.since)
    }

    /// Cancels the delayed jobs, and takes those out that were not cancelled before.
    pub(crate) fn cancel_delayed(&mut self) -> Vec<Arc<dyn Job>> {
        let delayed = mem::take(&mut self.delayed);
        let all = delayed.len();
        let jobs: Vec<_> = delayed.into_values().filter(|it| it.cancel()).collect();
        self.cancelled -= all - jobs.len();
        jobs
    }

    /// Returns the last job of a tag. It may have ended meanwhile: drop it without a lock.
    pub(crate) fn tagged(&self, tag: &str) -> Option<Arc<dyn Job>> {
        let found = self.tagged.iter().find(|it| it.tag == tag);
        found.and_then(|it| it.job.upgrade())
    }

    /// Looks whether the last job of a tag waits; `due` is when another one is to run.
    pub(crate) fn find_tagged(&mut self, tag: &str, last: &dyn Job, due: Instant) -> Found {
        let found = self.tagged.iter().find(|it| it.tag == tag);
        let Some(found) = found.filter(|_| last.is_waiting()) else {
            return Found::Nothing;
        };
        match found.delayed {
            Some(at) if at.0 > due => match self.delayed.remove(&at) {
                Some(job) => Found::Later(Waiting {
                    job,
                    number: at.1,
                    since: at.0,
                }),
                None => Found::InTime,
            },
            _ => Found::InTime,
        }
    }

    /// Takes note of the last job of a tag, and where it is delayed.
    pub(crate) fn set_tagged(
        &mut self,
        tag: &'static str,
        job: &Arc<dyn Job>,
        delayed: Option<(Instant, u64)>,
    ) {
        let job = Arc::downgrade(job);
        let new = Tagged { tag, job, delayed };
        match self.tagged.iter_mut().find(|it| it.tag == tag) {
            Some(found) => *found = new,
            None => self.tagged.push(new),
        }
    }

    /// Takes note that a job was cancelled. Returns the delayed jobs that are not kept any more.
    pub(crate) fn note_cancelled(&mut self, number: u64) -> Vec<(Instant, u64)> {
        if self.current == Some(number) {
            return Vec::new();
        }
        self.cancelled += 1;
        // What is cancelled stays until it is half of all, so that each costs the same.
        if self.cancelled * 2 < self.waiting.len() + self.delayed.len() {
            return Vec::new();
        }
        self.cancelled = 0;
        self.waiting.retain(|it| it.job.is_waiting());
        let mut removed = Vec::new();
        self.delayed.retain(|at, job| {
            let is_waiting = job.is_waiting();
            if !is_waiting {
                removed.push(*at);
            }
            is_waiting
        });
        removed
    }
}

/// A part of the keys' lanes.
pub(crate) struct Shard<K> {
    /// By the hash of the key. `Eq` of a key is called when a job is submitted, and never by a
    /// worker.
    lanes: HashMap<u64, Lane<K>, BuildHasherDefault<Identity>>,
    /// Lanes of keys whose hash another key had first.
    collided: Vec<Lane<K>>,
    lane_numbers: u64,
    job_numbers: u64,
}

/// Leaves a hash as it is.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<K> Shard<K> {
    pub(crate) fn new() -> Self {
        Shard {
            lanes: HashMap::default(),
            collided: Vec::new(),
            lane_numbers: 0,
            job_numbers: 0,
        }
    }

    /// Returns the number of the next job.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.job_numbers += 1;
        self.job_numbers
    }

    /// Returns the lane of a key. If there is none it is made.
    pub(crate) fn lane(&mut self, hash: u64, key: K) -> (&mut Lane<K>, Option<K>)
    where
        K: Eq,
    {
        let is_it = |lane: &Lane<K>| lane.id.hash == hash && lane.key == key;
        if let Some(at) = self.collided.iter().position(is_it) {
            return (&mut self.collided[at], Some(key));
        }
        let number = self.lane_numbers + 1;
        let id = LaneId { hash, number };
        match self.lanes.entry(hash) {
            Place::Occupied(place) if is_it(place.get()) => (place.into_mut(), Some(key)),
            Place::Vacant(place) => {
                self.lane_numbers = number;
                (place.insert(Lane::new(key, id)), None)
            }
            Place::Occupied(_) => {
                self.lane_numbers = number;
                let at = self.collided.len();
                self.collided.push(Lane::new(key, id));
                (&mut self.collided[at], None)
            }
        }
    }

    pub(crate) fn get(&mut self, id: LaneId) -> Option<&mut Lane<K>> {
        match self.lanes.get_mut(&id.hash) {
            Some(lane) if lane.id == id => Some(lane),
            _ => self.collided.iter_mut().find(|lane| lane.id == id),
        }
    }

    /// Removes a lane, and frees its memory.
    pub(crate) fn remove(&mut self, id: LaneId) -> Option<Lane<K>> {
        if let Some(at) = self.collided.iter().position(|lane| lane.id == id) {
            return Some(self.collided.swap_remove(at));
        }
        self.lanes.get(&id.hash).filter(|lane| lane.id == id)?;
        let removed = self.lanes.remove(&id.hash);
        if self.lanes.capacity() > 64 && self.lanes.len() * 8 < self.lanes.capacity() {
            self.lanes.shrink_to(self.lanes.len() * 2);
        }
        removed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane<K>> {
        self.lanes.values().chain(&self.collided)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane<K>> {
        self.lanes.values_mut().chain(&mut self.collided)
    }

    /// Takes all lanes.
    pub(crate) fn drain(&mut self) -> Vec<Lane<K>> {
        let lanes = mem::take(&mut self.lanes).into_values();
        lanes.chain(mem::take(&mut self.collided)).collect()
    }
}
