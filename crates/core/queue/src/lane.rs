//! A lane: the jobs of one key.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::task::Job;

/// A lane, identified within one queue. If a key's lane was removed, its next lane gets another
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    /// The hash of the lane's key.
    pub(crate) hash: u64,
    /// The lane's number in its shard.
    pub(crate) number: u64,
}

/// A job that waits.
pub(crate) struct Waiting {
    pub(crate) job: Arc<dyn Job>,
    /// The job's number in its shard.
    pub(crate) number: u64,
    /// The time at which it became due.
    pub(crate) since: Instant,
}

/// The jobs of a key that have not ended. A lane exists only while there are some.
pub(crate) struct Lane<K> {
    pub(crate) key: K,
    pub(crate) id: LaneId,
    /// The number of the job whose turn it is: it is ready, or runs.
    pub(crate) current: Option<u64>,
    /// The due jobs in order, some of them cancelled.
    pub(crate) waiting: VecDeque<Waiting>,
    /// The number of cancelled jobs among the waiting and the delayed ones.
    cancelled: usize,
    /// State only for keys with delays or tags, to keep other keys' lanes small.
    extras: Option<Box<Extras>>,
}

#[derive(Default)]
struct Extras {
    /// The jobs that are not due yet, by due time and number, some of them cancelled.
    delayed: Delayed,
    /// The last job of each tag, which may have begun.
    tagged: Vec<Tagged>,
}

type Delayed = BTreeMap<(Instant, u64), Arc<dyn Job>>;

struct Tagged {
    tag: &'static str,
    /// Weak, so that it does not keep the job's result.
    job: Weak<dyn Job>,
    /// The place at which it was delayed first.
    delayed: Option<(Instant, u64)>,
}

/// The state of a tag's last job.
pub(crate) enum Found {
    /// No job that waits.
    Nothing,
    /// A job that is due by the requested time.
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

    /// Returns the number of jobs that wait behind the one whose turn it is.
    pub(crate) fn len(&self) -> usize {
        self.kept() - self.cancelled
    }

    /// Returns the number of jobs kept behind the current one, including cancelled ones.
    fn kept(&self) -> usize {
        let delayed = self.extras.as_ref().map_or(0, |it| it.delayed.len());
        self.waiting.len() + delayed
    }

    /// True if the lane keeps delayed jobs, including cancelled ones.
    pub(crate) fn has_delayed(&self) -> bool {
        self.extras.as_ref().is_some_and(|it| !it.delayed.is_empty())
    }

    /// True if the lane has no job.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.waiting.is_empty() && !self.has_delayed()
    }

    /// Takes the next due job, which becomes the current one.
    pub(crate) fn advance(&mut self) -> Option<Waiting> {
        self.current = None;
        let mut next = self.waiting.pop_front()?;
        // Checks the jobs only if it must, because each check takes a lock.
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

    /// Adds a due job. If it is its turn, it becomes the current one and is returned.
    pub(crate) fn push(&mut self, job: Waiting) -> Option<Waiting> {
        match self.current {
            Some(_) => {
                self.waiting.push_back(job);
                None
            }
            // Earlier due jobs became current before.
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

    /// Moves the due jobs from the delayed to the waiting ones, in the order in which they became
    /// due. If it is the turn of one of them, returns it.
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

    /// Takes out the first delayed job that is due.
    fn pop_due(&mut self, now: Instant) -> Option<((Instant, u64), Arc<dyn Job>)> {
        let first = self.extras.as_mut()?.delayed.first_entry()?;
        (first.key().0 <= now).then(|| first.remove_entry())
    }

    /// Returns the number of delayed jobs, without cancelled ones.
    pub(crate) fn delayed_len(&self) -> usize {
        let Some(Extras { delayed, .. }) = self.extras.as_deref() else {
            return 0;
        };
        match self.cancelled {
            0 => delayed.len(),
            _ => delayed.values().filter(|it| it.is_waiting()).count(),
        }
    }

    /// Returns the time since when the first job behind the current one is due.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let first = self.waiting.iter().find(|it| it.job.is_waiting());
        first.map(|it| it.since)
    }

    /// Cancels the delayed jobs, and takes out the ones that were not cancelled before.
    pub(crate) fn cancel_delayed(&mut self) -> Vec<Arc<dyn Job>> {
        let extras = self.extras.as_mut();
        let delayed = extras.map(|it| mem::take(&mut it.delayed)).unwrap_or_default();
        let all = delayed.len();
        let jobs: Vec<_> = delayed.into_values().filter(|it| it.cancel()).collect();
        self.cancelled -= all - jobs.len();
        jobs
    }

    /// Returns a tag's last job. It may have ended meanwhile, so drop it without a lock.
    pub(crate) fn tagged(&self, tag: &str) -> Option<Arc<dyn Job>> {
        let tagged = &self.extras.as_ref()?.tagged;
        tagged.iter().find(|it| it.tag == tag)?.job.upgrade()
    }

    /// Checks if a tag's last job waits; `due` is the time at which another one should run.
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

    /// Stores a tag's last job, and the place at which it is delayed.
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

    /// Notes that a job was cancelled. Returns the places of the delayed jobs that are no longer
    /// kept.
    pub(crate) fn note_cancelled(&mut self, number: u64) -> Vec<(Instant, u64)> {
        if self.current == Some(number) {
            return Vec::new();
        }
        self.cancelled += 1;
        // Keep cancelled jobs until they are half of all, so that the cost of each is constant.
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

    /// Returns the key, and the jobs behind the current one: the due ones, then the delayed ones,
    /// each in order, some of them cancelled.
    pub(crate) fn into_jobs(self) -> (K, impl Iterator<Item = Arc<dyn Job>>) {
        let due = self.waiting.into_iter().map(|it| it.job);
        let delayed = self.extras.map(|it| it.delayed).unwrap_or_default();
        (self.key, due.chain(delayed.into_values()))
    }
}
