//! The end of a queue.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::lane::LaneId;
use crate::panics::discard;
use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::sync::{lock, wait_while};
use crate::task::{Counts, Job};

/// The jobs that a closed queue left undone.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished<K> {
    /// The jobs that did not run, by key. Each key's jobs are in order: the due ones, then the
    /// delayed ones.
    pub unrun: Vec<(K, Vec<UnrunJob>)>,
    /// The number of jobs still running when the time was over. They continue, and end their
    /// tickets.
    pub running: usize,
}

impl<K> Unfinished<K> {
    /// True if all jobs ran.
    pub fn is_empty(&self) -> bool {
        self.unrun.is_empty() && self.running == 0
    }
}

/// A job that a closed queue gave back. Its ticket waits until the job is [run](Self::run), or
/// dropped, which cancels it.
pub struct UnrunJob(Option<Arc<dyn Job>>);

impl UnrunJob {
    /// Runs the job on this thread, and ends its ticket. A panic of the job ends the ticket, as in
    /// the queue. If the ticket was cancelled meanwhile, does nothing.
    pub fn run(mut self) {
        if let Some(job) = self.0.take() {
            job.run(&Counts::default());
        }
    }
}

impl Drop for UnrunJob {
    fn drop(&mut self) {
        if let Some(job) = self.0.take() {
            if job.cancel() {
                job.after_cancel();
            }
            discard(job);
        }
    }
}

impl fmt::Debug for UnrunJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnrunJob")
    }
}

impl<K> Shared<K> {
    /// Refuses jobs from now on. Workers end once the due jobs have run.
    pub(crate) fn refuse(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // A submission that saw the queue open holds its shard's lock until its job is there.
        for shard in &self.shards {
            drop(lock(shard));
        }
        lock(&self.ready).close(&self.signals);
    }

    /// Cancels the delayed jobs of a queue that refuses jobs.
    pub(crate) fn cancel_delayed(&self) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            let mut delayed = Vec::new();
            let mut empty = Vec::new();
            for lane in shard.iter_mut() {
                delayed.extend(lane.cancel_delayed());
                if lane.is_empty() {
                    empty.push(lane.id);
                }
            }
            let removed: Vec<_> = empty.iter().map(|id| self.remove(&mut shard, *id)).collect();
            drop(shard);
            self.admitted.note_removed(delayed.len());
            for job in delayed {
                job.after_cancel();
                discard(job);
            }
            removed.into_iter().for_each(discard);
        }
    }

    /// Waits until all workers have ended, or until `until`.
    pub(crate) fn wait_ended(&self, until: Instant) {
        let ready = lock(&self.ready);
        drop(wait_while(&self.signals.ended, ready, until, |ready| ready.workers > 0));
    }

    /// Takes out all jobs that no worker has taken.
    pub(crate) fn take_out(&self) -> Unfinished<K> {
        let mut lanes = Vec::new();
        for shard in &self.shards {
            // No worker finds a lane from now on, so none adds a turn.
            lanes.extend(lock(shard).drain());
        }
        let turns = std::mem::take(&mut lock(&self.ready).turns);
        let mut turns: Vec<(LaneId, Arc<dyn Job>)> =
            turns.into_iter().map(|turn| (turn.lane, turn.job)).collect();
        turns.sort_unstable_by_key(|(lane, _)| *lane);
        let mut unrun = Vec::new();
        let mut count = 0;
        for lane in lanes {
            let current = turns
                .binary_search_by_key(&lane.id, |(lane, _)| *lane)
                .ok()
                .map(|at| Arc::clone(&turns[at].1));
            let (key, behind) = lane.into_jobs();
            let jobs = current.into_iter().chain(behind);
            let jobs: Vec<_> =
                jobs.filter(|job| job.is_waiting()).map(|job| UnrunJob(Some(job))).collect();
            count += jobs.len();
            if jobs.is_empty() { discard(key) } else { unrun.push((key, jobs)) }
        }
        self.admitted.note_removed(count);
        Unfinished { unrun, running: self.admitted.running() }
    }
}
