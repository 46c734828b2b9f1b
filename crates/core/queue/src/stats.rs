//! The counters of a queue.

use std::time::Duration;

use crate::shared::Shared;
use crate::sync::atomic::Ordering;
use crate::sync::{lock, now};

/// The counters and the present state of a queue. It has the same size for any number of keys, and
/// names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that are due and have not begun.
    pub depth: usize,
    /// Jobs whose delay is not over.
    pub delayed: usize,
    /// How long the job that has waited longest is due; zero if none waits.
    pub oldest_wait: Duration,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended, those that panicked with them.
    pub executed: u64,
    /// Jobs that panicked.
    pub panicked: u64,
    /// Jobs that were taken out before they began: cancelled, or returned by a closed queue.
    pub removed: u64,
    /// Keys that have jobs: running, due or delayed.
    pub lanes: usize,
    /// The most jobs that one key has, with its running one.
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
