//! A queue's counters.

use std::time::Duration;

use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::sync::{lock, now};

/// A queue's counters and current state. The size is the same for any number of keys, and no key is
/// named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of jobs that are due and have not begun.
    pub depth: usize,
    /// The number of jobs whose delay has not passed.
    pub delayed: usize,
    /// The time since when the longest-waiting job is due; zero if none waits.
    pub oldest_wait: Duration,
    /// The number of jobs in progress, at most the number of workers.
    pub running: usize,
    /// The number of jobs that have ended, including panics.
    pub executed: u64,
    /// The number of jobs that panicked, also counted in `executed`.
    pub panicked: u64,
    /// The number of jobs taken out before they began: cancelled, or returned by a closed queue.
    pub removed: u64,
    /// The number of keys with a job that is running, due or delayed.
    pub lanes: usize,
    /// The largest number of jobs of one key, including its running one.
    pub longest_lane: usize,
}

impl<K> Shared<K> {
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        let now = now();
        let mut oldest = now;
        for shard in &self.shards {
            let shard = lock(shard);
            for lane in shard.iter() {
                let len = lane.len() + usize::from(lane.current.is_some());
                stats.lanes += usize::from(len > 0);
                stats.longest_lane = stats.longest_lane.max(len);
                let delayed = lane.delayed_len();
                stats.delayed += delayed;
                stats.depth += lane.len() - delayed;
                oldest = oldest.min(lane.oldest().unwrap_or(now));
            }
        }
        let ready = lock(&self.ready);
        for turn in ready.turns.iter().filter(|turn| turn.job.is_waiting()) {
            stats.depth += 1;
            oldest = oldest.min(turn.since);
        }
        drop(ready);
        stats.oldest_wait = now.saturating_duration_since(oldest);
        stats.running = self.admitted.running();
        for counts in &self.admitted.workers {
            stats.executed += counts.ended.load(Ordering::Relaxed);
            stats.panicked += counts.panicked.load(Ordering::Relaxed);
        }
        stats.removed = self.admitted.removed.load(Ordering::Relaxed);
        stats
    }
}
