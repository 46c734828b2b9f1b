//! What the state machine keeps from event to event is what a scan of all that happened says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;

use super::state::{Id, State};
use super::{PartitionPolicy, SLICE};
use crate::{Error, ErrorKind, Event, Recipient, Resource, ResourceKey, Revision, View};

/// All of it, looked through at each question.
struct Scan {
    grace: Duration,
    /// The resources that are kept, and the revision of the deletion of those that are deleted.
    held: BTreeMap<ResourceKey, Option<Revision>>,
    alive: BTreeSet<String>,
    ended: BTreeMap<String, Instant>,
    declared: BTreeMap<String, Revision>,
    known_to: Revision,
}

impl Scan {
    fn incomplete(&self) -> BTreeSet<String> {
        let is_declared = |host: &&String| {
            let declared = self.declared.get(*host);
            declared.is_some_and(|at| *at <= self.known_to)
        };
        let alive = self.alive.iter();
        alive.filter(|host| !is_declared(host)).cloned().collect()
    }

    fn awaited(&self) -> Option<Revision> {
        let deleted = self.held.values().flatten();
        let deleted = deleted.filter(|_| !self.grace.is_zero());
        let revisions = self.declared.values().chain(deleted);
        revisions.copied().filter(|it| *it > self.known_to).max()
    }

    fn end(&mut self, host: &str, now: Instant) {
        if self.alive.remove(host) && !self.grace.is_zero() {
            self.ended.entry(host.to_owned()).or_insert(now);
        }
    }

    fn apply(&mut self, event: &Event<Id, Option<Resource>>, now: Instant) {
        match event.clone() {
            Event::Changed { id, revision, .. } => match id {
                Id::Resource(key) => drop(self.held.insert(key, None)),
                Id::Session(host) => {
                    self.ended.remove(&host);
                    self.alive.insert(host);
                }
                Id::Generation(host) => drop(self.declared.insert(host, revision)),
            },
            Event::Deleted { id, revision } => match id {
                Id::Resource(key) => {
                    if let Some(deleted) = self.held.get_mut(&key) {
                        *deleted = Some(revision);
                    }
                }
                Id::Session(host) => self.end(&host, now),
                Id::Generation(host) => drop(self.declared.remove(&host)),
            },
            Event::Resync(view) => {
                let is_there = |id: &Id| view.values.contains_key(id);
                for (key, deleted) in &mut self.held {
                    *deleted =
                        Some(view.revision).filter(|_| !is_there(&Id::Resource(key.clone())));
                }
                for host in self.alive.clone() {
                    if !is_there(&Id::Session(host.clone())) {
                        self.end(&host, now);
                    }
                }
                self.declared.clear();
                for (id, (value, revision)) in view.values {
                    let event = Event::Changed {
                        id,
                        value,
                        revision,
                    };
                    self.apply(&event, now);
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, now: Instant) -> bool {
        let (incomplete, grace, known_to) = (self.incomplete(), self.grace, self.known_to);
        self.ended.retain(|_, at| now - *at < grace);
        let (ended, before) = (&self.ended, self.held.len());
        self.held.retain(|key, deleted| {
            deleted.is_none_or(|revision| {
                let is_graced = ended.contains_key(&key.exporter) || revision > known_to;
                incomplete.contains(&key.exporter) || is_graced && !grace.is_zero()
            })
        });
        self.held.len() < before
    }

    fn wait(&self, now: Instant) -> Duration {
        let graces = self.ended.values();
        let graces = graces.map(|at| self.grace.saturating_sub(now - *at));
        graces.fold(SLICE, Duration::min)
    }
}

fn id((kind, host, name): (u8, u8, u8)) -> Id {
    let host = host.to_string();
    match kind {
        0 => Id::Session(host),
        1 => Id::Generation(host),
        _ => Id::Resource(ResourceKey {
            exporter: host,
            recipient: Recipient::Any,
            kind: "route".to_owned(),
            name: vec![name],
        }),
    }
}

fn value(id: &Id) -> Option<Resource> {
    matches!(id, Id::Resource(_)).then(|| Resource {
        data: Vec::new(),
        created: Revision(1),
        revision: Revision(1),
        lease: None,
    })
}

#[derive(Clone, Debug)]
enum Step {
    Put(Id),
    Delete(Id),
    Resync(BTreeSet<Id>),
    /// All is known, but the last so many revisions.
    KnowTo(u64),
    Pass(Duration),
}

fn step() -> impl Strategy<Value = Step> {
    let ids = || (0..5_u8, 0..3_u8, 0..3_u8).prop_map(id);
    prop_oneof![
        4 => ids().prop_map(Step::Put),
        4 => ids().prop_map(Step::Delete),
        1 => proptest::collection::btree_set(ids(), 0..12).prop_map(Step::Resync),
        2 => (0..4_u64).prop_map(Step::KnowTo),
        2 => (0..400_u64).prop_map(|time| Step::Pass(Duration::from_millis(time))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_kept_is_what_a_scan_of_all_says(
        grace in prop_oneof![Just(0_u64), Just(300), Just(1_000)],
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let grace = Duration::from_millis(grace);
        let mut state = State::new(PartitionPolicy::Keep, grace);
        let mut scan = Scan {
            grace,
            held: BTreeMap::new(),
            alive: BTreeSet::new(),
            ended: BTreeMap::new(),
            declared: BTreeMap::new(),
            known_to: Revision(0),
        };
        let mut now = Instant::now();
        let mut newest = 1;
        for step in steps {
            newest += 1;
            let revision = Revision(newest);
            let event = match step {
                Step::Put(id) => Some(Event::Changed { value: value(&id), id, revision }),
                Step::Delete(id) => Some(Event::Deleted { id, revision }),
                Step::Resync(ids) => {
                    let values = ids.into_iter().map(|id| (id.clone(), (value(&id), revision)));
                    let view = View {
                        revision,
                        values: values.collect(),
                        malformed: BTreeMap::new(),
                        malformed_keys: 0,
                    };
                    Some(Event::Resync(view))
                }
                Step::KnowTo(but) => {
                    let revision = Revision(newest.saturating_sub(but));
                    state.know_to(revision);
                    scan.known_to = scan.known_to.max(revision);
                    None
                }
                Step::Pass(time) => {
                    now += time;
                    None
                }
            };
            if let Some(event) = event {
                scan.apply(&event, now);
                prop_assert!(state.apply(event, now));
            }
            prop_assert_eq!(state.settle(now), scan.settle(now));
            prop_assert!(state.held.keys().eq(scan.held.keys()));
            prop_assert_eq!(state.hosts.incomplete(), &scan.incomplete());
            prop_assert_eq!(state.awaited(), scan.awaited());
            prop_assert_eq!(state.wait(now), scan.wait(now));
        }
    }
}

#[test]
fn a_partition_is_counted_from_the_time_that_the_event_came_with() {
    let limit = Duration::from_secs(10);
    let mut state = State::new(PartitionPolicy::KeepFor(limit), Duration::ZERO);
    let begun = Instant::now() + Duration::from_secs(1_000);
    let error = Error::new(ErrorKind::Unavailable, "cut off");
    let event = Event::Interrupted {
        since: SystemTime::UNIX_EPOCH,
        error,
    };
    state.apply(event.clone(), begun);
    let last = begun + limit - Duration::from_millis(100);
    // A repeated one begins no time anew.
    state.apply(event, last);
    assert!(!state.is_withdrawn(last));
    assert_eq!(state.wait(last), Duration::from_millis(100));
    assert!(state.is_withdrawn(begun + limit));
    state.apply(Event::Restored(Revision(1)), begun + limit);
    assert!(!state.is_withdrawn(begun + limit));
}
