//! What a collector knows: a state machine that is given the events and the time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::damping::Damping;
use super::deletions::Deletions;
use super::hosts::Hosts;
use super::{CollectorConfig, Holdings, Knowledge, PartitionPolicy, SLICE};
use crate::{Error, Event, LeaseId, Resource, ResourceKey, Revision, View};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Id {
    Resource(ResourceKey),
    /// A host's `session`: it is alive.
    Session(String),
    /// A host's `generation`: it has declared all.
    Generation(String),
}

/// What there is under an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Resource(Resource),
    /// The lease of a session or a generation; none if it has none, or is malformed.
    Lease(Option<LeaseId>),
}

#[derive(Default)]
pub(super) struct State {
    policy: PartitionPolicy,
    is_known: bool,
    revision: Revision,
    /// The resources, with those that are deleted and kept for now.
    pub(super) held: BTreeMap<ResourceKey, Resource>,
    pub(super) deletions: Deletions,
    damping: Damping,
    pub(super) hosts: Hosts,
    cut_off: Option<(SystemTime, Error)>,
    /// When that was noticed, by a clock that does not jump.
    cut_off_at: Option<Instant>,
}

impl State {
    pub(super) fn new(config: CollectorConfig) -> State {
        State {
            policy: config.partition,
            damping: Damping::new(config.damping),
            hosts: Hosts::new(config.grace),
            ..State::default()
        }
    }

    /// Takes an event in, and returns true if what is known may have changed.
    pub(super) fn apply(&mut self, event: Event<Id, Value>, now: Instant) -> bool {
        match event {
            Event::Ready(view) | Event::Resync(view) => self.replace(view, now),
            Event::Changed { id, value, revision } => {
                self.revision = self.revision.max(revision);
                return self.put(id, value, revision, now);
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

    /// Returns true if it is news. The error that is kept is the newest one.
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
        self.damping.hosts()
    }

    /// Returns false if the change waits.
    fn put(&mut self, id: Id, value: Value, revision: Revision, now: Instant) -> bool {
        match (id, value) {
            (Id::Resource(key), Value::Resource(value)) => {
                self.deletions.remove(&key);
                let before = self.held.get(&key);
                let is_shown = self.damping.put(&key, before, &value, now);
                self.held.insert(key, value);
                return is_shown;
            }
            (Id::Session(host), Value::Lease(lease)) => self.hosts.begin(host, lease),
            (Id::Generation(host), Value::Lease(lease)) => {
                self.hosts.declare(host, lease, revision);
            }
            _ => {}
        }
        true
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
            let is_early = revision > self.hosts.known_to();
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

    fn replace(&mut self, view: View<Id, Value>, now: Instant) {
        let is_first = !std::mem::replace(&mut self.is_known, true);
        self.reconnect();
        self.revision = self.revision.max(view.revision);
        self.deletions = Deletions::default();
        let before = std::mem::take(&mut self.held);
        let (mut alive, mut declared) = (Vec::new(), Vec::new());
        for (id, (value, revision)) in view.values {
            match (id, value) {
                (Id::Resource(key), Value::Resource(value)) => {
                    match is_first {
                        true => self.damping.begin(&key, now),
                        false => drop(self.damping.put(&key, before.get(&key), &value, now)),
                    }
                    self.held.insert(key, value);
                }
                (Id::Session(host), Value::Lease(lease)) => alive.push((host, lease)),
                (Id::Generation(host), Value::Lease(lease)) => {
                    declared.push((host, lease, revision));
                }
                _ => {}
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
    /// Looks only at the hosts of which something has changed. Shows the changes that have waited
    /// for long enough. Returns true if it drops or shows any.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        let mut changed = self.hosts.take_changed(now);
        changed.append(&mut self.deletions.take_changed());
        let before = self.held.len();
        changed.retain(|host| !self.hosts.keeps_deleted(host));
        for host in changed {
            for key in self.deletions.take(&host) {
                self.held.remove(&key);
                self.damping.remove(&key);
            }
        }
        self.damping.release(now) || self.held.len() < before
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
        let times = times.chain(self.damping.wait(now));
        times.fold(SLICE, Duration::min)
    }

    /// Returns the resources as they are shown: without the changes that wait.
    pub(super) fn shown(&self) -> BTreeMap<ResourceKey, Resource> {
        let mut shown = self.held.clone();
        self.damping.show(&mut shown);
        shown
    }

    pub(super) fn knowledge(&self, now: Instant) -> Knowledge {
        if !self.is_known {
            let (since, error) = self.cut_off.clone().unzip();
            return Knowledge::Unknown { cut_off_since: since, error };
        }
        let is_withdrawn = self.is_withdrawn(now);
        let incomplete = self.hosts.incomplete();
        let kept = incomplete.iter().filter_map(|host| {
            let kept = self.deletions.of_host(host);
            (kept > 0).then(|| (host.clone(), kept))
        });
        Knowledge::Known(Holdings {
            revision: self.revision,
            resources: match is_withdrawn {
                true => BTreeMap::new(),
                false => self.shown(),
            },
            incomplete: incomplete.clone(),
            kept: kept.collect(),
            damped: self.damping.waiting(),
            cut_off: self.cut_off.clone(),
            is_withdrawn,
        })
    }
}
