//! [`Collector`]: what other hosts export, kept up to date, with hints when it changes.

mod damping;
mod deletions;
mod hosts;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use trueup_reconcile::Hints;

pub use damping::DampingConfig;
use state::{Id, State, Value};

use crate::resources::{resource, session_lease};
use crate::watch::{Content, Decoded};
use crate::{
    Entry, Error, ErrorKind, Filter, Resource, ResourceKey, Revision, Watch, WatchConfig, World,
};

/// What becomes of what was collected while the store is not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionPolicy {
    /// It is kept.
    #[default]
    Keep,
    /// It is kept for a time, and then withdrawn.
    KeepFor(Duration),
    /// It is withdrawn at once.
    Drop,
}

/// How a [`Collector`] behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectorConfig {
    /// What becomes of what was collected while the store is not reached.
    pub partition: PartitionPolicy,
    /// How long the exports of a host are kept whose lease has ended, if the host does not come
    /// back before: for leases that end too early, as all of them may at once when a leader stalls
    /// ([etcd#15247](https://github.com/etcd-io/etcd/issues/15247)). What a live host deletes is
    /// withdrawn once it is known that the host lives. 0, the default: at once.
    pub grace: Duration,
    /// How often exports may change before their changes wait.
    pub damping: DampingConfig,
    /// How its watch behaves.
    pub watch: WatchConfig,
}

/// What a [`Collector`] knows. Not to know is something else than to know that there is nothing.
#[derive(Clone, Debug)]
pub enum Knowledge {
    /// There was no complete view yet: withdraw nothing.
    Unknown {
        /// Since when the store is not reached; none if it was not tried for long yet.
        cut_off_since: Option<SystemTime>,
        /// Why.
        error: Option<Error>,
    },
    /// What there is, or was when the store was last reached.
    Known(Holdings),
}

/// What was collected.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Holdings {
    /// The revision that it is of.
    pub revision: Revision,
    /// The resources that match. What is deleted of a host that is alive, and has not declared all
    /// of its exports, stays until it has; that of a host whose lease has ended stays for the
    /// [grace](CollectorConfig::grace).
    pub resources: BTreeMap<ResourceKey, Resource>,
    /// The hosts that have a session and have not declared all of their exports yet, with that
    /// session's lease; so also those whose session is malformed, or has no lease.
    pub incomplete: BTreeSet<String>,
    /// How many deleted resources stay of each of these hosts: it is not known whether they are to
    /// be there.
    pub kept: BTreeMap<String, usize>,
    /// The hosts whose exports change too often, with the number of those that are not as they are
    /// in the store: the [damping](CollectorConfig::damping) has the changes wait.
    pub damped: BTreeMap<String, usize>,
    /// Since when the store is not reached, and why.
    pub cut_off: Option<(SystemTime, Error)>,
    /// True if all is withdrawn because of the [policy](PartitionPolicy).
    pub is_withdrawn: bool,
}

impl Holdings {
    /// True if what is not in it is not there: only then withdraw what an earlier process took.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty() && self.cut_off.is_none()
    }
}

/// Collects what matches filters, on a thread of its own, until it is dropped.
pub struct Collector {
    state: Arc<Mutex<State>>,
    is_stopped: Arc<AtomicBool>,
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
        let mut watch = watch(world, filters, config.watch)?;
        let state = State::new(config);
        let collector =
            Collector { state: Arc::new(Mutex::new(state)), is_stopped: Arc::default() };
        let (state, is_stopped) = (Arc::clone(&collector.state), Arc::clone(&collector.is_stopped));
        let run = move || {
            let mut before = None;
            while !is_stopped.load(Ordering::SeqCst) {
                let wait = lock(&state).wait(Instant::now());
                let event = watch.next(wait);
                let is_ended = event.is_err();
                let mut state = lock(&state);
                state.know_to(watch.revision());
                let now = Instant::now();
                let mut is_changed = match event {
                    Ok(Some(event)) => state.apply(event, now),
                    Ok(None) => false,
                    Err(error) => state.interrupt(SystemTime::now(), error, now),
                };
                is_changed |= state.settle(now);
                let after = (
                    state.is_withdrawn(now),
                    state.hosts.incomplete_changes(),
                    state.deletions.changes(),
                    state.damped_hosts(),
                );
                if let Some(revision) = state.awaited() {
                    watch.want(revision);
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
        };
        let thread = thread::Builder::new().name("world-collect".into());
        thread.spawn(run).map_err(|error| {
            let message = format!("a collector's thread does not start: {error}");
            Error::new(ErrorKind::Store, message).with_source(error)
        })?;
        Ok(collector)
    }

    /// Returns what it knows.
    pub fn knowledge(&self) -> Knowledge {
        lock(&self.state).knowledge(Instant::now())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector(..)")
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(
    world: &World,
    filters: &[Filter],
    config: WatchConfig,
) -> Result<Watch<Id, Value>, Error> {
    let (keys, filters) = (world.keys.clone(), filters.to_vec());
    let hosts = keys.hosts();
    let decode = move |key: &[u8], entry: Option<&Entry>| {
        let id = if key.starts_with(&hosts) {
            match keys.parse_host(key) {
                Ok((host, word, None)) if word == "session" => Id::Session(host),
                Ok((host, word, None)) if word == "generation" => Id::Generation(host),
                Ok(_) => return Decoded::Other,
                Err(error) => return Decoded::Malformed(None, error),
            }
        } else {
            match keys.parse_resource(key) {
                Ok(key) if filters.iter().any(|it| it.matches(&key)) => Id::Resource(key),
                Ok(_) => return Decoded::Other,
                Err(error) => return Decoded::Malformed(None, error),
            }
        };
        match (entry, &id) {
            (None, _) => Decoded::Gone(id),
            (Some(entry), Id::Resource(_)) => Decoded::Value(id, Value::Resource(resource(entry))),
            (Some(entry), Id::Session(_)) => Decoded::Value(id, Value::Lease(session_lease(entry))),
            (Some(entry), Id::Generation(_)) => Decoded::Value(id, Value::Lease(entry.lease)),
        }
    };
    // A session that loses its lease without its value is none any longer.
    let content = Content::ValueAndLease;
    Watch::of_content(world, world.collected_prefixes(), config, content, decode)
}
