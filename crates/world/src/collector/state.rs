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
    grace: Duration,
    is_known: bool,
    revision: Revision,
    held: BTreeMap<ResourceKey, Resource>,
    /// Deleted, and kept for now: with the revision that is to be known to, so that it is known
    /// whether the host lives.
    doubtful: BTreeMap<ResourceKey, Revision>,
    alive: BTreeSet<String>,
    /// When it was seen that a host's session had ended, as long as the grace lasts.
    ended: BTreeMap<String, Instant>,
    /// The hosts that have declared all, and the revisions that said so.
    declared: BTreeMap<String, Revision>,
    /// The revision up to which all is known: of the resources, and of the hosts.
    known_to: Revision,
    /// The hosts that are alive and have not declared all; or have, and not all of it is here yet.
    incomplete: BTreeSet<String>,
    /// How often that has changed.
    pub(super) incomplete_changes: u64,
    /// The hosts whose declaration is of a later revision than what is known.
    ahead: BTreeSet<(Revision, String)>,
    cut_off: Option<(SystemTime, Error)>,
    /// When that was noticed, by a clock that does not jump.
    cut_off_at: Option<Instant>,
}

impl State {
    pub(super) fn new(policy: PartitionPolicy, grace: Duration) -> State {
        State {
            policy,
            grace,
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
                self.delete(id, revision);
            }
            Event::Interrupted { since, error } => drop(self.interrupt(since, error)),
            Event::Restored(revision) => {
                self.revision = self.revision.max(revision);
                self.reconnect();
            }
            Event::Malformed { .. } => return false,
        }
        self.settle(Instant::now());
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
            Id::Session(host) => {
                self.alive.insert(host.clone());
                self.ended.remove(&host);
                self.judge(host);
            }
            Id::Generation(host) => {
                self.declared.insert(host.clone(), revision);
                if revision > self.known_to {
                    self.ahead.insert((revision, host.clone()));
                }
                self.judge(host);
            }
        }
    }

    fn delete(&mut self, id: Id, revision: Revision) {
        match id {
            Id::Resource(key) => drop(self.doubtful.insert(key, revision)),
            Id::Session(host) => {
                if self.alive.remove(&host) && !self.grace.is_zero() {
                    self.ended.insert(host.clone(), Instant::now());
                }
                self.judge(host);
            }
            Id::Generation(host) => {
                self.declared.remove(&host);
                self.judge(host);
            }
        }
    }

    /// Notes up to which revision all is known. It never goes back.
    pub(super) fn know_to(&mut self, revision: Revision) {
        self.known_to = self.known_to.max(revision);
        while let Some((of, _)) = self.ahead.first()
            && *of <= self.known_to
            && let Some((_, host)) = self.ahead.pop_first()
        {
            self.judge(host);
        }
    }

    /// The revision that has to be known to for all declarations to count, and to tell what hosts
    /// deleted from what went with their leases; none if it is.
    pub(super) fn awaited(&self) -> Option<Revision> {
        let declared = self.ahead.last().map(|(revision, _)| *revision);
        let is_graceful = !self.grace.is_zero();
        let deleted = self.doubtful.values().filter(|_| is_graceful).max();
        declared
            .max(deleted.copied())
            .filter(|it| *it > self.known_to)
    }

    /// Decides anew whether a host is incomplete.
    fn judge(&mut self, host: String) {
        let declared = self.declared.get(&host);
        let is_declared = declared.is_some_and(|at| *at <= self.known_to);
        let is_changed = match self.alive.contains(&host) && !is_declared {
            true => self.incomplete.insert(host),
            false => self.incomplete.remove(&host),
        };
        self.incomplete_changes += u64::from(is_changed);
    }

    fn replace(&mut self, view: View<Id, Option<Resource>>) {
        self.is_known = true;
        self.reconnect();
        self.revision = self.revision.max(view.revision);
        let were_alive = std::mem::take(&mut self.alive);
        self.declared.clear();
        self.ahead.clear();
        self.incomplete.clear();
        self.incomplete_changes += 1;
        let held = self.held.keys().cloned();
        self.doubtful = held.map(|key| (key, view.revision)).collect();
        for (id, (value, revision)) in view.values {
            self.put(id, value, revision);
        }
        for host in were_alive.into_iter().filter(|_| !self.grace.is_zero()) {
            if !self.alive.contains(&host) {
                self.ended.entry(host).or_insert_with(Instant::now);
            }
        }
    }

    /// Drops what is deleted, unless its host is incomplete, or may have lost its lease too early.
    /// Returns true if there was any.
    pub(super) fn settle(&mut self, now: Instant) -> bool {
        let grace = self.grace;
        self.ended
            .retain(|_, at| now.saturating_duration_since(*at) < grace);
        let (doubtful, held) = (&mut self.doubtful, &mut self.held);
        let (incomplete, ended, known_to) = (&self.incomplete, &self.ended, self.known_to);
        let before = held.len();
        doubtful.retain(|key, revision| {
            let is_graced = ended.contains_key(&key.exporter) || *revision > known_to;
            let is_kept = held.contains_key(key)
                && (incomplete.contains(&key.exporter) || is_graced && !grace.is_zero());
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
        let graces = self.ended.values();
        let graces = graces.map(|at| {
            self.grace
                .saturating_sub(now.saturating_duration_since(*at))
        });
        left.into_iter().chain(graces).fold(SLICE, Duration::min)
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
            incomplete: self.incomplete.clone(),
            cut_off: self.cut_off.clone(),
            is_withdrawn,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is kept from event to event is what all that there is says.
        #[test]
        fn incomplete_is_what_was_declared_says(
            steps in proptest::collection::vec((0..5_u8, 0..4_u8, 0..3_u64), 0..40),
        ) {
            let mut state = State::new(PartitionPolicy::Keep, Duration::ZERO);
            let mut revision = 1;
            for (step, host, later) in steps {
                let host = host.to_string();
                revision += 1;
                let at = Revision(revision);
                match step {
                    0 => state.put(Id::Session(host), None, at),
                    1 => state.put(Id::Generation(host), None, at),
                    2 => state.delete(Id::Session(host), at),
                    3 => state.delete(Id::Generation(host), at),
                    _ => state.know_to(Revision(revision.saturating_sub(later))),
                }
                let is_declared = |host: &&String| {
                    state.declared.get(*host).is_some_and(|at| *at <= state.known_to)
                };
                let alive = state.alive.iter();
                let expected: BTreeSet<String> =
                    alive.filter(|host| !is_declared(host)).cloned().collect();
                prop_assert_eq!(&state.incomplete, &expected);
            }
        }
    }
}
