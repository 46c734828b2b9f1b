//! [`Collector`]: what other hosts export, kept up to date, with hints when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use trueup_reconcile::Hints;

use crate::resources::resource;
use crate::watch::Decoded;
use crate::{
    Entry, Error, ErrorKind, Event, Filter, Resource, ResourceKey, Revision, View, Watch,
    WatchConfig, World,
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
    /// of its exports, stays until it has.
    pub resources: BTreeMap<ResourceKey, Resource>,
    /// The hosts that are alive and have not declared all of their exports yet.
    pub incomplete: BTreeSet<String>,
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Resource(ResourceKey),
    /// A host's `session`: it is alive.
    Session(String),
    /// A host's `generation`: it has declared all.
    Generation(String),
}

#[derive(Default)]
struct State {
    policy: PartitionPolicy,
    is_known: bool,
    revision: Revision,
    held: BTreeMap<ResourceKey, Resource>,
    /// Deleted, of a host that has not declared all.
    doubtful: BTreeSet<ResourceKey>,
    alive: BTreeSet<String>,
    /// The hosts that have declared all, and the revisions that said so.
    declared: BTreeMap<String, Revision>,
    /// The revision up to which all is known: of the resources, and of the hosts.
    known_to: Revision,
    cut_off: Option<(SystemTime, Error)>,
    /// When that was noticed, by a clock that does not jump.
    cut_off_at: Option<Instant>,
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
        let state = State {
            policy: config.partition,
            ..State::default()
        };
        let collector = Collector {
            state: Arc::new(Mutex::new(state)),
            is_stopped: Arc::default(),
        };
        let (state, is_stopped) = (
            Arc::clone(&collector.state),
            Arc::clone(&collector.is_stopped),
        );
        let run = move || {
            let mut before = None;
            while !is_stopped.load(Ordering::SeqCst) {
                let wait = lock(&state).wait(Instant::now());
                let event = watch.next(wait);
                let is_ended = event.is_err();
                let mut state = lock(&state);
                state.known_to = watch.revision();
                let is_changed = match event {
                    Ok(Some(event)) => state.apply(event),
                    Ok(None) => state.settle(),
                    Err(error) => state.interrupt(SystemTime::now(), error),
                };
                let now = (state.is_withdrawn(Instant::now()), state.incomplete());
                drop(state);
                // Also when time alone has changed something.
                if is_changed || before.as_ref() != Some(&now) {
                    hints.request_pass();
                }
                before = Some(now);
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
) -> Result<Watch<Id, Option<Resource>>, Error> {
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
            (Some(entry), Id::Resource(_)) => Decoded::Value(id, Some(resource(entry))),
            (Some(_), _) => Decoded::Value(id, None),
        }
    };
    Watch::new(world, world.collected_prefixes(), config, decode)
}

impl State {
    /// Takes an event in, and returns true if what is known may have changed.
    fn apply(&mut self, event: Event<Id, Option<Resource>>) -> bool {
        match event {
            Event::Ready(view) | Event::Resync(view) => self.replace(view),
            Event::Changed {
                id,
                value,
                revision,
            } => {
                self.revision = self.revision.max(revision);
                self.put(id, value, revision);
            }
            Event::Deleted { id, revision } => {
                self.revision = self.revision.max(revision);
                self.delete(id);
            }
            Event::Interrupted { since, error } => drop(self.interrupt(since, error)),
            Event::Restored(revision) => {
                self.revision = self.revision.max(revision);
                self.reconnect();
            }
            Event::Malformed { .. } => return false,
        }
        self.settle();
        true
    }

    /// Returns true if it is news.
    fn interrupt(&mut self, since: SystemTime, error: Error) -> bool {
        let is_new = self.cut_off.is_none();
        self.cut_off.get_or_insert((since, error));
        self.cut_off_at.get_or_insert_with(Instant::now);
        is_new
    }

    fn reconnect(&mut self) {
        self.cut_off = None;
        self.cut_off_at = None;
    }

    fn put(&mut self, id: Id, value: Option<Resource>, revision: Revision) {
        match id {
            Id::Resource(key) => {
                self.doubtful.remove(&key);
                if let Some(value) = value {
                    self.held.insert(key, value);
                }
            }
            Id::Session(host) => drop(self.alive.insert(host)),
            Id::Generation(host) => drop(self.declared.insert(host, revision)),
        }
    }

    fn delete(&mut self, id: Id) {
        match id {
            Id::Resource(key) => drop(self.doubtful.insert(key)),
            Id::Session(host) => drop(self.alive.remove(&host)),
            Id::Generation(host) => drop(self.declared.remove(&host)),
        }
    }

    fn replace(&mut self, view: View<Id, Option<Resource>>) {
        self.is_known = true;
        self.reconnect();
        self.revision = self.revision.max(view.revision);
        self.alive.clear();
        self.declared.clear();
        self.doubtful = self.held.keys().cloned().collect();
        for (id, (value, revision)) in view.values {
            self.put(id, value, revision);
        }
    }

    /// The hosts that are alive and have not declared all; or have, and not all of it is here yet.
    fn incomplete(&self) -> BTreeSet<String> {
        let is_declared = |host: &String| {
            let at = self.declared.get(host);
            at.is_some_and(|at| *at <= self.known_to)
        };
        let alive = self.alive.iter();
        alive.filter(|host| !is_declared(host)).cloned().collect()
    }

    /// Drops what is deleted, unless its host is incomplete. Returns true if there was any.
    fn settle(&mut self) -> bool {
        let incomplete = self.incomplete();
        let (doubtful, held) = (&mut self.doubtful, &mut self.held);
        let before = held.len();
        doubtful.retain(|key| {
            let is_kept = held.contains_key(key) && incomplete.contains(&key.exporter);
            if !is_kept {
                held.remove(key);
            }
            is_kept
        });
        held.len() < before
    }

    /// How long it is until the policy withdraws what is held.
    fn left(&self, now: Instant) -> Option<Duration> {
        let cut_off = now.saturating_duration_since(self.cut_off_at?);
        match self.policy {
            PartitionPolicy::Keep => None,
            PartitionPolicy::KeepFor(time) => Some(time.saturating_sub(cut_off)),
            PartitionPolicy::Drop => Some(Duration::ZERO),
        }
    }

    fn is_withdrawn(&self, now: Instant) -> bool {
        self.left(now).is_some_and(|left| left.is_zero())
    }

    fn wait(&self, now: Instant) -> Duration {
        let left = self.left(now).filter(|left| !left.is_zero());
        left.unwrap_or(SLICE).min(SLICE)
    }

    fn knowledge(&self, now: Instant) -> Knowledge {
        if !self.is_known {
            let (since, error) = self.cut_off.clone().unzip();
            return Knowledge::Unknown {
                cut_off_since: since,
                error,
            };
        }
        let is_withdrawn = self.is_withdrawn(now);
        Knowledge::Known(Holdings {
            revision: self.revision,
            resources: match is_withdrawn {
                true => BTreeMap::new(),
                false => self.held.clone(),
            },
            incomplete: self.incomplete(),
            cut_off: self.cut_off.clone(),
            is_withdrawn,
        })
    }
}
