//! [`Collector`]: other hosts' exports, kept up to date, with hints when they change.

mod copy;
mod damping;
mod deletions;
mod liveness;
mod state;
#[cfg(test)]
#[path = "../tests/unit/collector.rs"]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use trueup_reconcile::Hints;

use copy::Copy;
pub use state::Seen;
use state::State;

use crate::threads::{self, Running, Stopped};
use crate::watch::{Content, Feeds};
use crate::{Entry, Error, Filter, ResourceKey, Revision, WatchConfig, World};

/// The settings of a [`Collector`]: how long it keeps what it no longer sees, and how often an
/// export may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorConfig {
    /// The time that holdings are kept while the store is unreachable, before they are withdrawn.
    /// `None`, the default, keeps them until the store is reachable again.
    pub keep_for: Option<Duration>,
    /// The time that a host's exports are kept after its lease has ended, unless the host comes
    /// back before. This is for leases that end too early, as all of them may at once when a leader
    /// stalls ([etcd#15247](https://github.com/etcd-io/etcd/issues/15247)). If a live host deletes
    /// an export, it is withdrawn once the host is known to be alive. The default is 0, which
    /// withdraws at once.
    pub grace: Duration,
    /// The time after which an export may change again, once it has come and changed ten times. 10
    /// seconds by default. With 0, each change is taken at once.
    ///
    /// All of a host's exports together may change [`damping_burst`](Self::damping_burst) times,
    /// and then a hundred times in each interval. A new export does not count if the host then has
    /// more exports than ever before. A waiting change is taken as soon as these limits allow, with
    /// the export's newest value. A deletion never waits.
    pub damping_interval: Duration,
    /// The number of one host's changes that are taken at once. 1,000 by default.
    pub damping_burst: u32,
    /// The configuration of the collector's watch.
    pub watch: WatchConfig,
}

impl Default for CollectorConfig {
    fn default() -> CollectorConfig {
        CollectorConfig {
            keep_for: None,
            grace: Duration::ZERO,
            damping_interval: Duration::from_secs(10),
            damping_burst: 1_000,
            watch: WatchConfig::default(),
        }
    }
}

/// The collected resources, or their changes since a reader's last look.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Holdings {
    /// The store's revision of these holdings.
    pub revision: Revision,
    /// The resources that have changed since the reader's last look, with their current entries.
    /// `None` if the resource is gone. If a live host has not declared all of its exports, its
    /// deleted exports stay until it has. A deleted export of a host whose lease has ended stays
    /// for the [grace](CollectorConfig::grace).
    pub changes: BTreeMap<ResourceKey, Option<Arc<Entry>>>,
    /// True if the changes are the whole state, so that any other resource is gone.
    pub is_all: bool,
    /// The reader's position after these changes, for the next look.
    pub seen: Seen,
    /// The hosts that have a session and have not declared all of their exports yet with this
    /// session's lease. Includes hosts whose session is malformed or has no lease.
    pub incomplete: BTreeSet<String>,
    /// The number of deleted resources that stay, for each of these hosts. It is not known whether
    /// they should exist.
    pub kept: BTreeMap<String, usize>,
    /// The hosts whose exports change too often, each with the number of exports that differ from
    /// the store, because their changes [wait](CollectorConfig::damping_interval).
    pub damped: BTreeMap<String, usize>,
    /// The time since when the store is unreachable, and why. `None` if it is reachable.
    pub cut_off: Option<(SystemTime, Error)>,
    /// True if all resources are withdrawn because of the [limit](CollectorConfig::keep_for).
    pub is_withdrawn: bool,
}

impl Holdings {
    /// Returns true if no resource can be missing. Withdraw an earlier process's resources only
    /// then.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty() && self.cut_off.is_none()
    }

    /// Returns the resources among the changes, without those that are gone.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceKey, &Arc<Entry>)> {
        self.changes.iter().filter_map(|(key, now)| Some((key, now.as_ref()?)))
    }
}

/// Collects resources that match filters, on a thread of its own, until it is dropped.
pub struct Collector {
    shared: Arc<Shared>,
    _running: Running,
}

struct Shared {
    /// The copy reports its changes only under this lock, so that both have the same state.
    state: Mutex<State>,
    copy: Copy,
}

/// The longest time that the thread waits for an event.
const SLICE: Duration = Duration::from_millis(500);

impl Collector {
    /// Starts to collect. `hints` are sent when the holdings have changed.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread.
    pub fn start(
        world: &World,
        filters: &[Filter],
        config: CollectorConfig,
        hints: Hints,
    ) -> Result<Collector, Error> {
        // A session that loses its lease without a change of its value is no longer one.
        let content = Content::ValueAndLease;
        let feeds = Feeds::start(world, world.collected_prefixes(), config.watch, content)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(config)),
            copy: Copy::new(world, filters, &feeds),
        });
        let running = Running::default();
        let (followed, stopped) = (Arc::clone(&shared), running.stopped());
        drop(threads::start("world-collect", move || followed.follow(&feeds, &stopped, &hints))?);
        Ok(Collector { shared, _running: running })
    }

    /// Returns the current holdings, or those from when the store was last reachable. Includes only
    /// changes since the reader's position `seen`.
    ///
    /// # Errors
    ///
    /// Fails if there was no complete view yet. The error says since when the store is unreachable,
    /// and why; it is `None` if the collector has not tried for long. Unknown holdings are not
    /// empty holdings: withdraw nothing.
    pub fn holdings(&self, seen: Seen) -> Result<Holdings, Option<(SystemTime, Error)>> {
        self.shared.lock().holdings(seen, &self.shared.copy, Instant::now())
    }
}

impl Shared {
    /// Takes in the feeds' events until it is stopped, and sends hints of changes.
    fn follow(&self, feeds: &Feeds, stopped: &Stopped, hints: &Hints) {
        let (mirror, mut before) = (feeds.mirror(), None);
        while !stopped.get() {
            let wait = self.lock().wait(Instant::now());
            mirror.wait(wait);
            let mut state = self.lock();
            let event = mirror.next(Duration::ZERO);
            let is_ended = event.is_err();
            state.know_to(mirror.delivered());
            let now = Instant::now();
            let mut is_changed = match event {
                Ok(Some(event)) => {
                    self.copy.event(event).is_some_and(|event| state.apply(event, now))
                }
                Ok(None) => false,
                Err(error) => state.interrupt(SystemTime::now(), error, now),
            };
            is_changed |= state.settle(now);
            let after = (
                state.is_withdrawn(now),
                state.liveness.incomplete_changes(),
                state.deletions.changes(),
                state.damped_hosts(),
            );
            if let Some(revision) = state.awaited() {
                mirror.want(revision);
            }
            drop(state);
            // Includes changes that come from time alone.
            if is_changed || before.as_ref() != Some(&after) {
                hints.request_pass();
            }
            before = Some(after);
            if is_ended {
                // No more events come, but the limits by time still apply.
                thread::sleep(wait);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector(..)")
    }
}
