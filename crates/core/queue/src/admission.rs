//! Counts the waiting and the running jobs, and decides if one more may wait.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::task::Counts;

/// Counts the waiting jobs against the limit. Each thread has its own frequent counters: a worker
/// counts the jobs that it begins, a caller its submitted jobs.
pub(crate) struct Admitted {
    /// The largest number of waiting jobs.
    limit: u64,
    /// Each worker's counters.
    pub(crate) workers: Box<[Counts]>,
    submitted: AtomicU64,
    /// The number of jobs that may be submitted in all, as of the last count.
    bound: AtomicU64,
    /// The number of jobs taken out before they began.
    pub(crate) removed: AtomicU64,
}

impl Admitted {
    pub(crate) fn new(limit: usize, workers: usize) -> Self {
        Admitted {
            limit: limit as u64,
            workers: (0..workers).map(|_| Counts::default()).collect(),
            submitted: AtomicU64::new(0),
            bound: AtomicU64::new(limit as u64),
            removed: AtomicU64::new(0),
        }
    }

    /// Counts a submitted job; returns false if too many wait.
    pub(crate) fn admit(&self) -> bool {
        let Admitted { submitted, bound, .. } = self;
        let mut so_far = submitted.load(Ordering::Relaxed);
        loop {
            if so_far >= bound.load(Ordering::Relaxed) {
                let left = self.no_longer_waiting();
                let new_bound = left.saturating_add(self.limit);
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

    /// Returns the number of jobs that workers have taken or callers have taken out. It only grows,
    /// so a value read too early admits too few.
    fn no_longer_waiting(&self) -> u64 {
        let taken = self.workers.iter().map(|it| {
            // A cancelled job that a worker then takes counts only as taken out.
            let skipped = it.skipped.load(Ordering::Acquire);
            it.taken.load(Ordering::Relaxed).saturating_sub(skipped)
        });
        taken.sum::<u64>() + self.removed.load(Ordering::Relaxed)
    }

    /// Returns the number of jobs that workers have taken and not ended.
    pub(crate) fn running(&self) -> usize {
        let running = self.workers.iter().map(|it| {
            // Read the ends first: a job that ends meanwhile counts as running.
            let over = it.ended.load(Ordering::Acquire) + it.skipped.load(Ordering::Acquire);
            it.taken.load(Ordering::Relaxed).saturating_sub(over)
        });
        usize::try_from(running.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Notes that `count` jobs were taken out.
    pub(crate) fn note_removed(&self, count: usize) {
        self.removed.fetch_add(count as u64, Ordering::Relaxed);
    }
}
