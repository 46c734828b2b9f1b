//! What a collector knows: a state machine that is given the events and the time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::deletions::Deletions;
use super::hosts::Hosts;
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
    grace: Duration,
    is_known: bool,
    revision: Revision,
    /// The resources, with those that are deleted and kept for now.
    pub(super) held: BTreeMap<ResourceKey, Resource>,
    deletions: Deletions,
    pub(super) hosts: Hosts,
    cut_off: Option<(SystemTime, Error)>,
    /// When that was noticed, by a clock that does not jump.
    cut_off_at: Option<Instant>,
}

impl State {
    pub(super) fn new(policy: PartitionPolicy, grace: Duration) -> State {
        State {
            policy,
            grace,
            hosts: Hosts::new(grace),
            ..State::default()
        }
    }

    /// Takes an event in, and returns true if what is known may have changed.
    pub(super) fn apply(&mut self, event: Event<Id, Option<Resource>>, now: Instant) -> bool {
        match event {
            Event::Ready(view) | Event::Resync(view) => self.replace(view, now),
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
                self.delete(id, revision, now);
            }
            Event::Interrupted { since, error } => drop(self.interrupt(since, error, now)),
            Event::Restored(revision) => {
                self.revision = self.revision.max(revision);
                self.reconnect();
            }
            Event::Malformed { .. } => return false,
        }
        true
    }

    /// Returns true if it is news.
    pub(super) fn interrupt(&mut self, since: SystemTime, error: Error, now: Instant) -> bool {
        let is_new = self.cut_off.is_none();
        self.cut_off.get_or_insert((since, error));
        self.cut_off_at.get_or_insert(now);
        is_new
    }

    fn reconnect(&mut self) {
        self.cut_off = None;
        self.cut_off_at = None;
    }

    fn put(&mut self, id: Id, value: Option<Resource>, revision: Revision) {
        match id {
            Id::Resource(key) => {
                self.deletions.remove(&key);
                if let Some(value) = value {
                    self.held.insert(key, value);
                }
            }
            Id::Session(host) => self.hosts.begin(host),
            Id::Generation(host) => self.hosts.declare(host, revision),
        }
    }

    fn delete(&mut self, id: Id, revision: Revision, now: Instant) {
        match id {
            Id::Resource(key) => self.delete_resource(key, revision),
            Id::Session(host) => self.hosts.end(host, now),
            Id::Generation(host) => self.hosts.undeclare(host),
        }
    }

    fn delete_resource(&mut self, key: ResourceKey, revision: Revision) {
        if self.held.contains_key(&key) {
            let is_early = !self.grace.is_zero() && revision > self.hosts.known_to();
            self.deletions.insert(key, is_early.then_some(revision));
        }
    }

    /// Notes up to which revision all is known. It never goes back.
    pub(super) fn know_to(&mut self, revision: Revision) {
        self.hosts.know_to(revision);
        self.deletions.know_to(self.hosts.known_to());
    }

    /// The revision that has to be known to for all declarations to count, and to tell what hosts
    /// deleted from what went with their leases; none if it is.
    pub(super) fn awaited(&self) -> Option<Revision> {
        self.hosts.awaited().max(self.deletions.awaited())
    }

    fn replace(&mut self, view: View<Id, Option<Resource>>, now: Instant) {
        self.is_known = true;
        self.reconnect();
        self.revision = self.revision.max(view.revision);
        self.deletions = Deletions::default();
        let before = std::mem::take(&mut self.held);
        let (mut alive, mut declared) = (Vec::new(), Vec::new());
        for (id, (value, revision)) in view.values {
            match (id, value) {
                (Id::Resource(key), Some(value)) => drop(self.held.insert(key, value)),
                (Id::Resource(_), None) => {}
                (Id::Session(host), _) => alive.push(host),
                (Id::Generation(host), _) => declared.push((host, revision)),
            }
        }
        self.hosts.replace(alive, declared, now);
        for (key, value) in before {
            if !self.held.contains_key(&key) {
                self.held.insert(key.clone(), value);
                self.delete_resource(key, view.revision);
            }
        }
    }

    /// Drops what is deleted, unless its host is incomplete, or may have lost its lease too early.
    /// Looks only at the hosts of which something has changed. Returns true if it drops any.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        let mut changed = self.hosts.take_changed(now);
        changed.append(&mut self.deletions.take_changed());
        let before = self.held.len();
        changed.retain(|host| !self.hosts.keeps_deleted(host));
        for host in changed {
            for key in self.deletions.take(&host) {
                self.held.remove(&key);
            }
        }
        self.held.len() < before
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

    /// How long to wait for an event.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let left = self.left(now).filter(|left| !left.is_zero());
        let times = left.into_iter().chain(self.hosts.wait(now));
        times.fold(SLICE, Duration::min)
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
            incomplete: self.hosts.incomplete().clone(),
            cut_off: self.cut_off.clone(),
            is_withdrawn,
        })
    }
}
