//! Damping: limits the number of changes taken from an export that changes all the time, and from a
//! host with such exports. The caller passes the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::CollectorConfig;
use crate::{Entry, ResourceKey};

/// The number of one export's changes that are taken at once.
const OF_AN_EXPORT: u32 = 10;
/// The number of a host's changes in the interval of one change of an export.
const OF_A_HOST: u32 = 100;

/// A bucket of tokens, stored as the time when it is full again.
#[derive(Clone, Copy)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn full(now: Instant) -> Bucket {
        Bucket { full_at: now }
    }

    /// Returns the time of the next token. The bucket holds `burst` tokens, and gets one in each
    /// interval.
    fn ready(self, burst: u32, interval: Duration) -> Instant {
        let missing = interval * burst.saturating_sub(1);
        self.full_at.checked_sub(missing).unwrap_or(self.full_at)
    }

    fn take(&mut self, now: Instant, interval: Duration) {
        self.full_at = self.full_at.max(now) + interval;
    }
}

/// A waiting change.
struct Waiting {
    /// The time when its export may change.
    ready: Instant,
    /// The entry shown until then. `None` shows nothing.
    shown: Option<Arc<Entry>>,
}

struct Exporter {
    bucket: Bucket,
    /// The current number of exports, and the largest so far.
    held: usize,
    most: usize,
    /// The buckets of its exports, without the full ones.
    exports: BTreeMap<ResourceKey, Bucket>,
    waiting: BTreeMap<ResourceKey, Waiting>,
    /// The waiting changes by time.
    queue: BTreeSet<(Instant, ResourceKey)>,
}

#[derive(Default)]
pub(super) struct Damping {
    config: CollectorConfig,
    exporters: BTreeMap<String, Exporter>,
    /// The hosts with waiting changes.
    damped: BTreeSet<String>,
    /// The time when full buckets were last forgotten.
    forgotten: Option<Instant>,
}

impl Damping {
    pub(super) fn new(config: CollectorConfig) -> Damping {
        Damping { config, ..Damping::default() }
    }

    /// Takes in an export's change from `before` to `now_is`. Returns true if it is shown at once.
    pub(super) fn put(
        &mut self,
        key: &ResourceKey,
        before: Option<&Arc<Entry>>,
        now_is: &Arc<Entry>,
        now: Instant,
    ) -> bool {
        if self.config.damping_interval.is_zero() {
            return true;
        }
        let config = self.config;
        let exporter = self.exporter(key, now);
        let is_more = before.is_none() && exporter.add();
        if let Some(waiting) = exporter.waiting.get(key) {
            // Back to the shown entry, so nothing waits.
            if waiting.shown.as_ref().is_some_and(|it| is_same(it, now_is)) {
                exporter.remove(key);
                self.note(&key.exporter);
            }
            return false;
        }
        if before.is_some_and(|before| is_same(before, now_is)) {
            return true;
        }
        let ready = exporter.ready(key, config, now);
        let host_ready = if is_more { now } else { exporter.host_ready(config) };
        if ready.max(host_ready) <= now {
            if !is_more {
                exporter.take(config, now);
            }
            exporter.take_of(key, config, now);
            return true;
        }
        exporter.waiting.insert(key.clone(), Waiting { ready, shown: before.cloned() });
        exporter.queue.insert((ready, key.clone()));
        self.damped.insert(key.exporter.clone());
        false
    }

    /// Removes a host from `damped` if it has no waiting changes.
    fn note(&mut self, host: &str) {
        if self.exporters.get(host).is_none_or(|it| it.waiting.is_empty()) {
            self.damped.remove(host);
        }
    }

    /// Counts an export of the first complete view.
    pub(super) fn begin(&mut self, key: &ResourceKey, now: Instant) {
        if !self.config.damping_interval.is_zero() {
            self.exporter(key, now).add();
        }
    }

    /// Forgets a deleted export, without delay.
    pub(super) fn remove(&mut self, key: &ResourceKey) {
        if let Some(exporter) = self.exporters.get_mut(&key.exporter) {
            exporter.held = exporter.held.saturating_sub(1);
            exporter.remove(key);
            self.note(&key.exporter);
        }
    }

    fn exporter(&mut self, key: &ResourceKey, now: Instant) -> &mut Exporter {
        self.exporters.entry(key.exporter.clone()).or_insert_with(|| Exporter::new(now))
    }

    /// Shows the changes whose time has come. Returns their exports.
    pub(super) fn release(&mut self, now: Instant) -> Vec<ResourceKey> {
        let config = self.config;
        let mut released = Vec::new();
        for host in self.damped.clone() {
            if let Some(exporter) = self.exporters.get_mut(&host) {
                while exporter.next(config).is_some_and(|next| next <= now)
                    && let Some((_, key)) = exporter.queue.pop_first()
                {
                    exporter.waiting.remove(&key);
                    exporter.take(config, now);
                    exporter.take_of(&key, config, now);
                    released.push(key);
                }
            }
            self.note(&host);
        }
        let since = self.forgotten.map(|at| now.saturating_duration_since(at));
        if since.is_none_or(|since| since >= config.damping_interval) {
            self.forgotten = Some(now);
            self.exporters.retain(|_, exporter| {
                exporter.exports.retain(|_, bucket| bucket.full_at > now);
                let is_full = exporter.bucket.full_at <= now;
                !(is_full && exporter.exports.is_empty() && exporter.held == 0)
            });
        }
        released
    }

    /// Returns the time until a waiting change can be shown. `None` if none waits.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let next = self.damped().filter_map(|(_, it)| it.next(self.config)).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Returns the shown entry of an export with a waiting change: a resource, or `Some(None)` for
    /// none.
    pub(super) fn shown(&self, key: &ResourceKey) -> Option<Option<&Arc<Entry>>> {
        let waiting = self.exporters.get(&key.exporter)?.waiting.get(key)?;
        Some(waiting.shown.as_ref())
    }

    /// Returns the shown entries of all exports with waiting changes.
    pub(super) fn all_shown(&self) -> impl Iterator<Item = (&ResourceKey, Option<&Arc<Entry>>)> {
        self.damped().flat_map(|(_, it)| &it.waiting).map(|(key, it)| (key, it.shown.as_ref()))
    }

    /// Returns the hosts with exports that differ from their shown entries.
    pub(super) fn hosts(&self) -> &BTreeSet<String> {
        &self.damped
    }

    /// Returns for each host the number of exports that differ from their shown entries.
    pub(super) fn waiting(&self) -> BTreeMap<String, usize> {
        self.damped().map(|(host, exporter)| (host.clone(), exporter.waiting.len())).collect()
    }

    fn damped(&self) -> impl Iterator<Item = (&String, &Exporter)> {
        self.damped.iter().filter_map(|host| self.exporters.get_key_value(host))
    }
}

impl Exporter {
    fn new(now: Instant) -> Exporter {
        Exporter {
            bucket: Bucket::full(now),
            held: 0,
            most: 0,
            exports: BTreeMap::new(),
            waiting: BTreeMap::new(),
            queue: BTreeSet::new(),
        }
    }

    /// Returns the time when an export may change.
    fn ready(&self, key: &ResourceKey, config: CollectorConfig, now: Instant) -> Instant {
        self.exports
            .get(key)
            .map_or(now, |it| it.ready(OF_AN_EXPORT, config.damping_interval).max(now))
    }

    /// Returns the time when any export of the host may change.
    fn host_ready(&self, config: CollectorConfig) -> Instant {
        self.bucket.ready(config.damping_burst, config.damping_interval / OF_A_HOST)
    }

    /// Counts a new export. Returns true if there are now more than ever before.
    fn add(&mut self) -> bool {
        self.held += 1;
        let is_more = self.held > self.most;
        self.most = self.most.max(self.held);
        is_more
    }

    fn take(&mut self, config: CollectorConfig, now: Instant) {
        self.bucket.take(now, config.damping_interval / OF_A_HOST);
    }

    fn take_of(&mut self, key: &ResourceKey, config: CollectorConfig, now: Instant) {
        self.exports
            .entry(key.clone())
            .or_insert(Bucket::full(now))
            .take(now, config.damping_interval);
    }

    fn remove(&mut self, key: &ResourceKey) {
        if let Some((key, Waiting { ready, .. })) = self.waiting.remove_entry(key) {
            self.queue.remove(&(ready, key));
        }
    }

    /// Returns the time when the next waiting change is shown.
    fn next(&self, config: CollectorConfig) -> Option<Instant> {
        let (ready, _) = self.queue.first()?;
        Some((*ready).max(self.host_ready(config)))
    }
}

/// True if both have the same content. The lease and the modified revision do not matter.
fn is_same(one: &Entry, other: &Entry) -> bool {
    (one.created, &one.value) == (other.created, &other.value)
}
