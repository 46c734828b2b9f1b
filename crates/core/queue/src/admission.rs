//! How many jobs wait and run, and whether one more may.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::task::Counts;

/// Counts the jobs that wait, against the limit. What each thread counts often is its own: workers
/// the jobs that begin, callers those that they submit.
pub(crate) struct Admitted {
    /// So many may wait.
    limit: u64,
    /// The counters of each worker.
    pub(crate) workers: Box<[Counts]>,
    submitted: AtomicU64,
    /// So many may be submitted, as far as was counted.
    bound: AtomicU64,
    /// Jobs that were taken out before they began.
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

    /// Counts a job that is submitted, unless too many wait.
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

    /// Returns how many jobs were taken by workers or taken out. It only grows, so that one read
    /// too early admits too few.
    fn no_longer_waiting(&self) -> u64 {
        let taken = self.workers.iter().map(|it| {
            // A job that was cancelled, and then taken, counts as taken out alone.
            let skipped = it.skipped.load(Ordering::Acquire);
            it.taken.load(Ordering::Relaxed).saturating_sub(skipped)
        });
        taken.sum::<u64>() + self.removed.load(Ordering::Relaxed)
    }

    /// Returns how many jobs workers have taken and not ended.
    pub(crate) fn running(&self) -> usize {
        let running = self.workers.iter().map(|it| {
            // The ends are read first: a job that ends meanwhile counts as running.
            let over = it.ended.load(Ordering::Acquire) + it.skipped.load(Ordering::Acquire);
            it.taken.load(Ordering::Relaxed).saturating_sub(over)
        });
        usize::try_from(running.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Takes note that so many jobs were taken out.
    pub(crate) fn note_removed(&self, count: usize) {
        self.removed.fetch_add(count as u64, Ordering::Relaxed);
    }
}
