//! A collector's state machine. The caller passes the events and the time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::damping::Damping;
use super::deletions::Deletions;
use super::liveness::Liveness;
use super::{CollectorConfig, Holdings, SLICE};
use crate::{Entry, Error, LeaseId, ResourceKey, Revision};

/// The lease of a session or a declaration. `None` if it has none, or is malformed.
pub(super) type Lease = Option<LeaseId>;

/// An event of the store.
pub(super) enum Event {
    View(View),
    /// An export has changed or is gone.
    Export(Changed, Revision),
    /// A host's `session` has changed or is gone. With a session, the host is alive.
    Session(String, Option<Lease>, Revision),
    /// A host's `generation` has changed or is gone. With one, the host has declared all exports.
    Generation(String, Option<Lease>, Revision),
    Interrupted(SystemTime, Error),
    Restored(Revision),
}

/// An export before and after an event.
pub(super) struct Changed {
    pub(super) key: ResourceKey,
    pub(super) before: Option<Arc<Entry>>,
    pub(super) now: Option<Arc<Entry>>,
}

/// The whole state: the exports that have changed, and all hosts.
#[derive(Default)]
pub(super) struct View {
    pub(super) revision: Revision,
    pub(super) exports: Vec<Changed>,
    pub(super) alive: Vec<(String, Lease)>,
    pub(super) declared: Vec<(String, Lease, Revision)>,
}

/// The exports that were reported in events, as the watch's copy has them.
pub(super) trait Told {
    fn export(&self, key: &ResourceKey) -> Option<Arc<Entry>>;

    fn exports(&self) -> BTreeMap<ResourceKey, Arc<Entry>>;
}

#[derive(Default)]
pub(super) struct State {
    keep_for: Option<Duration>,
    is_known: bool,
    revision: Revision,
    /// The exports that are deleted in the store, but kept for now.
    pub(super) deletions: Deletions,
    damping: Damping,
    pub(super) liveness: Liveness,
    /// The changes of shown exports.
    changes: Changes,
    cut_off: Option<(SystemTime, Error)>,
    /// The time when the outage was noticed, by a clock that does not jump.
    cut_off_at: Option<Instant>,
}

impl State {
    pub(super) fn new(config: CollectorConfig) -> State {
        State {
            keep_for: config.keep_for,
            damping: Damping::new(config),
            liveness: Liveness::new(config.grace),
            ..State::default()
        }
    }

    /// Takes in an event. Returns true if the holdings may have changed.
    pub(super) fn apply(&mut self, event: Event, now: Instant) -> bool {
        match event {
            Event::View(view) => self.replace(view, now),
            Event::Export(changed, revision) => {
                self.revision = self.revision.max(revision);
                return self.change(changed, revision, now);
            }
            Event::Session(host, lease, revision) => {
                self.revision = self.revision.max(revision);
                match lease {
                    Some(lease) => self.liveness.begin(host, lease),
                    None => self.liveness.end(host, now),
                }
            }
            Event::Generation(host, lease, revision) => {
                self.revision = self.revision.max(revision);
                match lease {
                    Some(lease) => self.liveness.declare(host, lease, revision),
                    None => self.liveness.undeclare(host),
                }
            }
            Event::Interrupted(since, error) => drop(self.interrupt(since, error, now)),
            Event::Restored(revision) => {
                self.revision = self.revision.max(revision);
                self.reconnect();
            }
        }
        true
    }

    /// Records an outage. Returns true if it is new. The newest error is kept.
    pub(super) fn interrupt(&mut self, since: SystemTime, error: Error, now: Instant) -> bool {
        let before = self.cut_off.take();
        let is_new = before.as_ref().is_none_or(|(_, it)| it.kind() != error.kind());
        self.cut_off = Some((before.map_or(since, |(since, _)| since), error));
        self.cut_off_at.get_or_insert(now);
        is_new
    }

    fn reconnect(&mut self) {
        self.cut_off = None;
        self.cut_off_at = None;
    }

    /// Returns the hosts whose exports change too often.
    pub(super) fn damped_hosts(&self) -> Vec<String> {
        self.damping.hosts().iter().cloned().collect()
    }

    /// Takes in a change of an export. Returns false if it waits.
    fn change(&mut self, changed: Changed, revision: Revision, now: Instant) -> bool {
        let Changed { key, before, now: now_is } = changed;
        match (now_is, before) {
            (Some(now_is), before) => {
                let before = self.deletions.remove(&key).or(before);
                let is_shown = self.damping.put(&key, before.as_ref(), &now_is, now);
                if is_shown {
                    self.changes.push(key);
                }
                is_shown
            }
            (None, Some(before)) => {
                let is_early = revision > self.liveness.known_to();
                self.deletions.insert(key, before, is_early.then_some(revision));
                true
            }
            (None, None) => true,
        }
    }

    /// Records the revision up to which everything is known. It never goes back.
    pub(super) fn know_to(&mut self, revision: Revision) {
        self.liveness.know_to(revision);
        self.deletions.know_to(self.liveness.known_to());
    }

    /// Returns the revision that must be known to count all declarations, and to distinguish
    /// deletions by hosts from ends of leases. `None` if it is known.
    pub(super) fn awaited(&self) -> Option<Revision> {
        self.liveness.awaited().max(self.deletions.awaited())
    }

    fn replace(&mut self, view: View, now: Instant) {
        let is_first = !std::mem::replace(&mut self.is_known, true);
        self.reconnect();
        self.revision = self.revision.max(view.revision);
        // Which hosts are alive must be found out again.
        let mut deleted = self.deletions.take_all();
        for Changed { key, before, now: now_is } in view.exports {
            match (now_is, before) {
                (Some(_), _) if is_first => self.damping.begin(&key, now),
                (Some(now_is), before) => {
                    let before = deleted.remove(&key).or(before);
                    self.damping.put(&key, before.as_ref(), &now_is, now);
                }
                (None, Some(before)) => drop(deleted.insert(key, before)),
                (None, None) => {}
            }
        }
        self.liveness.replace(view.alive, view.declared, now);
        let is_early = view.revision > self.liveness.known_to();
        for (key, resource) in deleted {
            self.deletions.insert(key, resource, is_early.then_some(view.revision));
        }
        self.changes.forget();
    }

    /// Drops deleted exports, unless their host is incomplete, or may have lost its lease too
    /// early. Looks only at hosts with changes. Shows changes that have waited long enough. Returns
    /// true if it dropped or showed any.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        let mut changed = self.liveness.take_changed(now);
        changed.append(&mut self.deletions.take_changed());
        changed.retain(|host| !self.liveness.keeps_deleted(host));
        let mut shown = Vec::new();
        for host in changed {
            for key in self.deletions.take(&host) {
                self.damping.remove(&key);
                shown.push(key);
            }
        }
        shown.append(&mut self.damping.release(now));
        let is_changed = !shown.is_empty();
        shown.into_iter().for_each(|key| self.changes.push(key));
        is_changed
    }

    /// Returns the time until the holdings are withdrawn. `None` if they are not going to be.
    fn left(&self, now: Instant) -> Option<Duration> {
        let cut_off = now.saturating_duration_since(self.cut_off_at?);
        Some(self.keep_for?.saturating_sub(cut_off))
    }

    pub(super) fn is_withdrawn(&self, now: Instant) -> bool {
        self.left(now).is_some_and(|left| left.is_zero())
    }

    /// Returns how long to wait for an event.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        (self.left(now).filter(|left| !left.is_zero()).into_iter())
            .chain(self.liveness.wait(now))
            .chain(self.damping.wait(now))
            .fold(SLICE, Duration::min)
    }

    /// Returns the shown entry of an export, without a waiting change.
    fn shown(&self, key: &ResourceKey, told: &impl Told) -> Option<Arc<Entry>> {
        match self.damping.shown(key) {
            Some(shown) => shown.cloned(),
            None => self.deletions.get(key).cloned().or_else(|| told.export(key)),
        }
    }

    /// Returns the shown entries of all exports.
    fn all_shown(&self, told: &impl Told) -> BTreeMap<ResourceKey, Option<Arc<Entry>>> {
        let mut all: BTreeMap<_, _> =
            told.exports().into_iter().map(|(key, it)| (key, Some(it))).collect();
        all.extend(self.deletions.kept().iter().map(|(key, it)| (key.clone(), Some(it.clone()))));
        for (key, shown) in self.damping.all_shown() {
            match shown {
                Some(shown) => drop(all.insert(key.clone(), Some(shown.clone()))),
                None => drop(all.remove(key)),
            }
        }
        all
    }

    /// Returns the holdings, with the changes since the reader's position.
    pub(super) fn holdings(
        &self,
        seen: Seen,
        told: &impl Told,
        now: Instant,
    ) -> Result<Holdings, Option<(SystemTime, Error)>> {
        if !self.is_known {
            return Err(self.cut_off.clone());
        }
        let is_withdrawn = self.is_withdrawn(now);
        let since = self.changes.since(seen, is_withdrawn);
        let changes = match &since {
            _ if is_withdrawn => BTreeMap::new(),
            None => self.all_shown(told),
            Some(keys) => keys.iter().map(|key| ((*key).clone(), self.shown(key, told))).collect(),
        };
        let incomplete = self.liveness.incomplete();
        let kept = incomplete.iter().filter_map(|host| {
            let kept = self.deletions.of_host(host);
            (kept > 0).then(|| (host.clone(), kept))
        });
        Ok(Holdings {
            revision: self.revision,
            changes,
            is_all: since.is_none(),
            seen: self.changes.seen(is_withdrawn),
            incomplete: incomplete.clone(),
            kept: kept.collect(),
            damped: self.damping.waiting(),
            cut_off: self.cut_off.clone(),
            is_withdrawn,
        })
    }
}

/// A reader's position in the changes of a [`Collector`](crate::Collector). The default is the
/// beginning, from which a reader gets the whole state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The number of the collector. 0 if the reader has seen nothing.
    collector: u64,
    /// The number of changes seen.
    changes: u64,
    /// True if the reader has seen that everything is withdrawn.
    is_withdrawn: bool,
}

/// The last changes. A reader that is farther behind gets the whole state.
struct Changes {
    collector: u64,
    keys: VecDeque<ResourceKey>,
    /// The number of changes before the first key.
    forgotten: u64,
}

/// The number of remembered changes.
const REMEMBERED: usize = 16_384;

impl Default for Changes {
    fn default() -> Changes {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let collector = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Changes { collector, keys: VecDeque::new(), forgotten: 0 }
    }
}

impl Changes {
    /// Adds a change.
    fn push(&mut self, key: ResourceKey) {
        if self.keys.len() == REMEMBERED {
            self.keys.pop_front();
            self.forgotten += 1;
        }
        self.keys.push_back(key);
    }

    /// Makes each reader get the whole state next.
    fn forget(&mut self) {
        self.forgotten += self.keys.len() as u64 + 1;
        self.keys.clear();
    }

    /// Returns the position of a reader that has seen everything.
    fn seen(&self, is_withdrawn: bool) -> Seen {
        let changes = self.forgotten + self.keys.len() as u64;
        Seen { collector: self.collector, changes, is_withdrawn }
    }

    /// Returns the exports that have changed since a reader's position. `None` if any may have.
    fn since(&self, seen: Seen, is_withdrawn: bool) -> Option<BTreeSet<&ResourceKey>> {
        if seen.collector != self.collector || seen.is_withdrawn != is_withdrawn {
            return None;
        }
        let skipped = usize::try_from(seen.changes.checked_sub(self.forgotten)?).ok()?;
        Some(self.keys.iter().skip(skipped).collect())
    }
}
