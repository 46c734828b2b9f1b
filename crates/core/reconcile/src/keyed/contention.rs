//! Objects that another writer undoes repeatedly. They are restored with growing delays.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time in which losses count.
const WINDOW: Duration = Duration::from_secs(60);
/// The number of losses in the window from which an object is contended.
const LOSSES: usize = 3;
/// The first and the longest delay before the next restoration. It doubles each time.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(60);
/// The number of objects tracked at a time. Others are restored without a count.
const MAX_OBJECTS: usize = 1 << 16;

/// The latest applied changes by key: a change that is due again was undone.
pub(super) struct Contention<K> {
    objects: BTreeMap<K, Applied>,
    scanned: Option<Instant>,
}

struct Applied {
    /// A digest of the value. Another declared value starts a new count.
    value: u64,
    times: VecDeque<Instant>,
    delays: u32,
    /// The end of the current delay.
    until: Instant,
}

impl<K: Ord + Clone> Contention<K> {
    pub(super) fn new() -> Contention<K> {
        Contention { objects: BTreeMap::new(), scanned: None }
    }

    /// Forgets objects that were left alone for long enough.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.scanned.is_some_and(|at| now.saturating_duration_since(at) < WINDOW) {
            return;
        }
        self.scanned = Some(now);
        self.objects.retain(|_, applied| {
            let last = applied.times.back().copied().unwrap_or(now).max(applied.until);
            now.saturating_duration_since(last) <= WINDOW
        });
    }

    /// Returns how long the change of an object to a value waits; `None` if it may be made.
    pub(super) fn hold(&self, key: &K, value: u64, now: Instant) -> Option<Duration> {
        let applied = self.objects.get(key).filter(|it| it.value == value)?;
        let left = applied.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Notes an applied change.
    pub(super) fn add(&mut self, key: &K, value: u64, now: Instant) {
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(key) {
            return;
        }
        let new = || Applied { value, times: VecDeque::new(), delays: 0, until: now };
        let applied = self.objects.entry(key.clone()).or_insert_with(new);
        if applied.value != value {
            *applied = new();
        }
        applied.times.push_back(now);
        while applied.times.front().is_some_and(|at| now.saturating_duration_since(*at) > WINDOW) {
            applied.times.pop_front();
        }
        let goes_on = applied.delays > 0 && now.saturating_duration_since(applied.until) <= WINDOW;
        if applied.times.len() > LOSSES || goes_on {
            let delay = FIRST.saturating_mul(1 << applied.delays.min(10)).min(LAST);
            applied.until = now.checked_add(delay).unwrap_or(now);
            applied.delays = applied.delays.saturating_add(1);
        } else {
            applied.delays = 0;
        }
    }
}
