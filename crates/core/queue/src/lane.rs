//! A lane: what waits of one key.

use std::collections::{BTreeMap, VecDeque};
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
    /// How many of these and of the delayed ones are cancelled.
    cancelled: usize,
    /// For keys that use delays or tags alone, to keep the others' lanes small.
    extras: Option<Box<Extras>>,
}

#[derive(Default)]
struct Extras {
    /// The jobs that are not due yet, by when they are and by number, some of them cancelled.
    delayed: Delayed,
    /// The last job of each tag; it may have begun.
    tagged: Vec<Tagged>,
}

type Delayed = BTreeMap<(Instant, u64), Arc<dyn Job>>;

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
    pub(crate) fn new(key: K, id: LaneId) -> Self {
        Lane { key, id, current: None, waiting: VecDeque::new(), cancelled: 0, extras: None }
    }

    pub(crate) fn is_of(&self, hash: u64, key: &K) -> bool
    where
        K: Eq,
    {
        self.id.hash == hash && self.key == *key
    }

    /// Returns how many jobs wait behind the one whose turn it is.
    pub(crate) fn len(&self) -> usize {
        self.kept() - self.cancelled
    }

    /// Returns how many jobs are kept behind the current one, cancelled ones with them.
    fn kept(&self) -> usize {
        let delayed = self.extras.as_ref().map_or(0, |it| it.delayed.len());
        self.waiting.len() + delayed
    }

    /// True if the lane keeps delayed jobs, cancelled ones with them.
    pub(crate) fn has_delayed(&self) -> bool {
        self.extras.as_ref().is_some_and(|it| !it.delayed.is_empty())
    }

    /// True if the lane has no job.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty() && !self.has_delayed()
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

    /// Adds a job that is not due yet.
    pub(crate) fn delay(&mut self, due: Instant, number: u64, job: Arc<dyn Job>) {
        let extras = self.extras.get_or_insert_default();
        extras.delayed.insert((due, number), job);
    }

    /// Moves the delayed jobs that are due to the others, in the order in which they became so.
    /// Returns one if it is its turn.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Waiting> {
        let mut next = None;
        while let Some(((since, number), job)) = self.pop_due(now) {
            if self.cancelled > 0 && !job.is_waiting() {
                self.cancelled -= 1;
                continue;
            }
            next = next.or(self.push(Waiting { job, number, since }));
        }
        next
    }

    /// Takes out the first of the delayed jobs that are due.
    fn pop_due(&mut self, now: Instant) -> Option<((Instant, u64), Arc<dyn Job>)> {
        let first = self.extras.as_mut()?.delayed.first_entry()?;
        (first.key().0 <= now).then(|| first.remove_entry())
    }

    /// Returns how many of the delayed jobs are not cancelled.
    pub(crate) fn delayed_len(&self) -> usize {
        let Some(Extras { delayed, .. }) = self.extras.as_deref() else {
            return 0;
        };
        match self.cancelled {
            0 => delayed.len(),
            _ => delayed.values().filter(|it| it.is_waiting()).count(),
        }
    }

    /// Returns since when the first job that waits behind the current one is due.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let first = self.waiting.iter().find(|it| it.job.is_waiting());
        first.map(|it| it.since)
    }

    /// Cancels the delayed jobs, and takes those out that were not cancelled before.
    pub(crate) fn cancel_delayed(&mut self) -> Vec<Arc<dyn Job>> {
        let extras = self.extras.as_mut();
        let delayed = extras.map(|it| mem::take(&mut it.delayed)).unwrap_or_default();
        let all = delayed.len();
        let jobs: Vec<_> = delayed.into_values().filter(|it| it.cancel()).collect();
        self.cancelled -= all - jobs.len();
        jobs
    }

    /// Returns the last job of a tag. It may have ended meanwhile: drop it without a lock.
    pub(crate) fn tagged(&self, tag: &str) -> Option<Arc<dyn Job>> {
        let tagged = &self.extras.as_ref()?.tagged;
        tagged.iter().find(|it| it.tag == tag)?.job.upgrade()
    }

    /// Looks whether the last job of a tag waits; `due` is when another one is to run.
    pub(crate) fn find_tagged(&mut self, tag: &str, last: &dyn Job, due: Instant) -> Found {
        let Some(Extras { delayed, tagged }) = self.extras.as_deref_mut() else {
            return Found::Nothing;
        };
        let found = tagged.iter().find(|it| it.tag == tag);
        let Some(found) = found.filter(|_| last.is_waiting()) else {
            return Found::Nothing;
        };
        match found.delayed {
            Some(at) if at.0 > due => match delayed.remove(&at) {
                Some(job) => Found::Later(Waiting { job, number: at.1, since: at.0 }),
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
        let tagged = &mut self.extras.get_or_insert_default().tagged;
        match tagged.iter_mut().find(|it| it.tag == tag) {
            Some(found) => *found = new,
            None => tagged.push(new),
        }
    }

    /// Takes note that a job was cancelled. Returns the delayed jobs that are not kept any more.
    pub(crate) fn note_cancelled(&mut self, number: u64) -> Vec<(Instant, u64)> {
        if self.current == Some(number) {
            return Vec::new();
        }
        self.cancelled += 1;
        // What is cancelled stays until it is half of all, so that each costs the same.
        if self.cancelled * 2 < self.kept() {
            return Vec::new();
        }
        self.cancelled = 0;
        self.waiting.retain(|it| it.job.is_waiting());
        let mut removed = Vec::new();
        let Some(extras) = &mut self.extras else {
            return removed;
        };
        extras.delayed.retain(|at, job| {
            let is_waiting = job.is_waiting();
            if !is_waiting {
                removed.push(*at);
            }
            is_waiting
        });
        removed
    }

    /// Returns the key, and the jobs that wait behind the current one: those that are due, then the
    /// delayed ones, each in their order, some of them cancelled.
    pub(crate) fn into_jobs(self) -> (K, impl Iterator<Item = Arc<dyn Job>>) {
        let due = self.waiting.into_iter().map(|it| it.job);
        let delayed = self.extras.map(|it| it.delayed).unwrap_or_default();
        (self.key, due.chain(delayed.into_values()))
    }
}
