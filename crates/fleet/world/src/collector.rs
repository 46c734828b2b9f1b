//! [`Collector`]: what other hosts export, kept up to date, with hints when it changes.

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

/// How a [`Collector`] behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorConfig {
    /// How long what was collected is kept while the store is not reached, before it is withdrawn.
    /// None, the default: until the store is reached again.
    pub keep_for: Option<Duration>,
    /// How long the exports of a host are kept whose lease has ended, if the host does not come
    /// back before: for leases that end too early, as all of them may at once when a leader stalls
    /// ([etcd#15247](https://github.com/etcd-io/etcd/issues/15247)). What a live host deletes is
    /// withdrawn once it is known that the host lives. 0, the default: at once.
    pub grace: Duration,
    /// The time after which an export may change once more, once it has come and changed ten times.
    /// 10 seconds unless said otherwise; 0 takes each change at once.
    ///
    /// All exports of a host together may change as often as
    /// [`damping_burst`](Self::damping_burst) says, and then a hundred times in each interval; one
    /// by which the host has more exports than ever before does not count. A change that waits is
    /// taken as soon as that allows it, as the newest of its export. A deletion never waits.
    pub damping_interval: Duration,
    /// How many changes of one host are taken at once. 1,000 unless said otherwise.
    pub damping_burst: u32,
    /// How its watch behaves.
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

/// What was collected.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Holdings {
    /// The revision that it is of.
    pub revision: Revision,
    /// The resources that have changed since the reader looked, with what each is now; none, it is
    /// gone. What is deleted of a host that is alive, and has not declared all of its exports, stays
    /// until it has; that of a host whose lease has ended stays for the
    /// [grace](CollectorConfig::grace).
    pub changes: BTreeMap<ResourceKey, Option<Arc<Entry>>>,
    /// True if the changes are all that there is: what is not among them is gone.
    pub is_all: bool,
    /// What a reader has seen who takes the changes.
    pub seen: Seen,
    /// The hosts that have a session and have not declared all of their exports yet, with that
    /// session's lease; so also those whose session is malformed, or has no lease.
    pub incomplete: BTreeSet<String>,
    /// How many deleted resources stay of each of these hosts: it is not known whether they are to
    /// be there.
    pub kept: BTreeMap<String, usize>,
    /// The hosts whose exports change too often, with the number of those that are not as they are
    /// in the store: their changes [wait](CollectorConfig::damping_interval).
    pub damped: BTreeMap<String, usize>,
    /// Since when the store is not reached, and why.
    pub cut_off: Option<(SystemTime, Error)>,
    /// True if all is withdrawn because of the [limit](CollectorConfig::keep_for).
    pub is_withdrawn: bool,
}

impl Holdings {
    /// True if what is not in it is not there: only then withdraw what an earlier process took.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty() && self.cut_off.is_none()
    }

    /// Returns the resources among the changes.
    pub fn resources(&self) -> impl Iterator<Item = (&ResourceKey, &Arc<Entry>)> {
        self.changes.iter().filter_map(|(key, now)| Some((key, now.as_ref()?)))
    }
}

/// Collects what matches filters, on a thread of its own, until it is dropped.
pub struct Collector {
    shared: Arc<Shared>,
    _running: Running,
}

struct Shared {
    /// The copy tells of its changes only under the lock, so that both are of the same moment.
    state: Mutex<State>,
    copy: Copy,
}

/// How long the thread waits for an event.
const SLICE: Duration = Duration::from_millis(500);

impl Collector {
    /// Starts to collect. `hints` are sent when what it knows has changed.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
    pub fn start(
        world: &World,
        filters: &[Filter],
        config: CollectorConfig,
        hints: Hints,
    ) -> Result<Collector, Error> {
        // A session that loses its lease without its value is none any longer.
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

    /// Returns what there is, or was when the store was last reached, with what has changed since a
    /// reader looked.
    ///
    /// # Errors
    ///
    /// While there was no complete view yet: since when the store is not reached, and why; none if
    /// it was not tried for long yet. Not to know is something else than to know that there is
    /// nothing: withdraw nothing.
    pub fn holdings(&self, seen: Seen) -> Result<Holdings, Option<(SystemTime, Error)>> {
        self.shared.lock().holdings(seen, &self.shared.copy, Instant::now())
    }
}

impl Shared {
    /// Takes the events of the feeds in until it is stopped, and sends hints of what they change.
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
            // Also when time alone has changed something.
            if is_changed || before.as_ref() != Some(&after) {
                hints.request_pass();
            }
            before = Some(after);
            if is_ended {
                // No event comes any more; the policy goes on.
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
