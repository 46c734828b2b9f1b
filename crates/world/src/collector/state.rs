//! What a collector knows: a state machine that is given the events and the time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use super::{Holdings, Knowledge, PartitionPolicy, SLICE};
use crate::{Error, Event, Resource, ResourceKey, Revision, View};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    Resource(ResourceKey),
    /// A host's `session`: it is alive.
    Session(String),
    /// A host's `generation`: it has declared all.
    Generation(String),
}

#[derive(Default)]
pub(super) struct State {
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
    pub(super) known_to: Revision,
    cut_off: Option<(SystemTime, Error)>,
    /// When that was noticed, by a clock that does not jump.
    cut_off_at: Option<Instant>,
}

impl State {
    pub(super) fn new(policy: PartitionPolicy) -> State {
        State {
            policy,
            ..State::default()
        }
    }

    /// Takes an event in, and returns true if what is known may have changed.
    pub(super) fn apply(&mut self, event: Event<Id, Option<Resource>>) -> bool {
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
    pub(super) fn interrupt(&mut self, since: SystemTime, error: Error) -> bool {
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
    pub(super) fn incomplete(&self) -> BTreeSet<String> {
        let is_declared = |host: &String| {
            let at = self.declared.get(host);
            at.is_some_and(|at| *at <= self.known_to)
        };
        let alive = self.alive.iter();
        alive.filter(|host| !is_declared(host)).cloned().collect()
    }

    /// Drops what is deleted, unless its host is incomplete. Returns true if there was any.
    pub(super) fn settle(&mut self) -> bool {
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

    pub(super) fn is_withdrawn(&self, now: Instant) -> bool {
        self.left(now).is_some_and(|left| left.is_zero())
    }

    pub(super) fn wait(&self, now: Instant) -> Duration {
        let left = self.left(now).filter(|left| !left.is_zero());
        left.unwrap_or(SLICE).min(SLICE)
    }

    pub(super) fn knowledge(&self, now: Instant) -> Knowledge {
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
