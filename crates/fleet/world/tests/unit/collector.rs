//! The state machine, updated with each event, agrees with a scan of the whole history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;

use super::state::{Changed, Event, Lease, State, Told, View};
use super::{CollectorConfig, Holdings, SLICE, Seen};
use crate::{Entry, Error, ErrorKind, Hosts, LeaseId, ResourceKey, Revision};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Resource(ResourceKey),
    Session(String),
    Generation(String),
}

/// The value of an id.
#[derive(Clone, Debug)]
enum Value {
    Resource(Arc<Entry>),
    Lease(Lease),
}

/// A change of the store.
#[derive(Clone, Debug)]
enum Step {
    Put(Id, Value),
    Delete(Id),
    Resync(BTreeMap<Id, Value>),
}

/// The copy that a watch has.
#[derive(Default)]
struct Copied(BTreeMap<ResourceKey, Arc<Entry>>);

impl Told for Copied {
    fn export(&self, key: &ResourceKey) -> Option<Arc<Entry>> {
        self.0.get(key).cloned()
    }

    fn exports(&self) -> BTreeMap<ResourceKey, Arc<Entry>> {
        self.0.clone()
    }
}

impl Copied {
    fn set(&mut self, key: ResourceKey, now: Option<Arc<Entry>>) -> Changed {
        let before = match &now {
            Some(now) => self.0.insert(key.clone(), now.clone()),
            None => self.0.remove(&key),
        };
        Changed { key, before, now }
    }

    /// Takes in a step, and returns its event. `None` if there was nothing to delete.
    fn event(&mut self, step: Step, revision: Revision) -> Option<Event> {
        Some(match step {
            Step::Put(Id::Resource(key), Value::Resource(value)) => {
                Event::Export(self.set(key, Some(value)), revision)
            }
            Step::Put(Id::Session(host), Value::Lease(lease)) => {
                Event::Session(host, Some(lease), revision)
            }
            Step::Put(Id::Generation(host), Value::Lease(lease)) => {
                Event::Generation(host, Some(lease), revision)
            }
            Step::Put(id, value) => unreachable!("{id:?} is no {value:?}"),
            Step::Delete(Id::Resource(key)) => {
                let changed = self.set(key, None);
                changed.before.as_ref()?;
                Event::Export(changed, revision)
            }
            Step::Delete(Id::Session(host)) => Event::Session(host, None, revision),
            Step::Delete(Id::Generation(host)) => Event::Generation(host, None, revision),
            Step::Resync(values) => {
                let mut view = View { revision, ..View::default() };
                let mut gone: BTreeSet<ResourceKey> = self.0.keys().cloned().collect();
                for (id, value) in values {
                    match (id, value) {
                        (Id::Resource(key), Value::Resource(value)) => {
                            gone.remove(&key);
                            if self.0.get(&key) != Some(&value) {
                                view.exports.push(self.set(key, Some(value)));
                            }
                        }
                        (Id::Session(host), Value::Lease(lease)) => view.alive.push((host, lease)),
                        (Id::Generation(host), Value::Lease(lease)) => {
                            view.declared.push((host, lease, revision));
                        }
                        (id, value) => unreachable!("{id:?} is no {value:?}"),
                    }
                }
                view.exports.extend(gone.into_iter().map(|key| self.set(key, None)));
                Event::View(view)
            }
        })
    }
}

/// The whole history, searched for each question.
struct Scan {
    grace: Duration,
    /// The kept resources. A deleted one has the revision of its deletion.
    held: BTreeMap<ResourceKey, Option<Revision>>,
    alive: BTreeMap<String, Option<LeaseId>>,
    ended: BTreeMap<String, Instant>,
    declared: BTreeMap<String, (Option<LeaseId>, Revision)>,
    known_to: Revision,
}

impl Scan {
    fn incomplete(&self) -> BTreeSet<String> {
        let is_declared = |(host, lease): &(&String, &Option<LeaseId>)| {
            let declared = self.declared.get(*host);
            let is_of = |of: &Option<LeaseId>| of.is_some() && of == *lease;
            declared.is_some_and(|(of, at)| is_of(of) && *at <= self.known_to)
        };
        let alive = self.alive.iter().filter(|it| !is_declared(it));
        alive.map(|(host, _)| host.clone()).collect()
    }

    fn awaited(&self) -> Option<Revision> {
        let deleted = self.held.values().flatten();
        let declared = self.declared.values().map(|(_, at)| at);
        let revisions = declared.chain(deleted);
        revisions.copied().filter(|it| *it > self.known_to).max()
    }

    fn end(&mut self, host: &str, now: Instant) {
        if self.alive.remove(host).is_some() && !self.grace.is_zero() {
            self.ended.entry(host.to_owned()).or_insert(now);
        }
    }

    fn apply(&mut self, step: &Step, revision: Revision, now: Instant) {
        match step.clone() {
            Step::Put(id, value) => match (id, value) {
                (Id::Resource(key), _) => drop(self.held.insert(key, None)),
                (Id::Session(host), Value::Lease(lease)) => {
                    self.ended.remove(&host);
                    self.alive.insert(host, lease);
                }
                (Id::Generation(host), Value::Lease(lease)) => {
                    self.declared.insert(host, (lease, revision));
                }
                (id, value) => unreachable!("{id:?} is no {value:?}"),
            },
            Step::Delete(id) => match id {
                Id::Resource(key) => {
                    // A second deletion changes nothing.
                    if let Some(deleted @ None) = self.held.get_mut(&key) {
                        *deleted = Some(revision);
                    }
                }
                Id::Session(host) => self.end(&host, now),
                Id::Generation(host) => drop(self.declared.remove(&host)),
            },
            Step::Resync(values) => {
                let is_there = |id: &Id| values.contains_key(id);
                for (key, deleted) in &mut self.held {
                    *deleted = Some(revision).filter(|_| !is_there(&Id::Resource(key.clone())));
                }
                for host in self.alive.clone().into_keys() {
                    if !is_there(&Id::Session(host.clone())) {
                        self.end(&host, now);
                    }
                }
                self.declared.clear();
                for (id, value) in values {
                    self.apply(&Step::Put(id, value), revision, now);
                }
            }
        }
    }

    fn settle(&mut self, now: Instant) -> bool {
        let (incomplete, grace, known_to) = (self.incomplete(), self.grace, self.known_to);
        self.ended.retain(|_, at| now - *at < grace);
        let (ended, before) = (&self.ended, self.held.len());
        self.held.retain(|key, deleted| {
            deleted.is_none_or(|revision| {
                let is_graced = ended.contains_key(&key.exporter) || revision > known_to;
                incomplete.contains(&key.exporter) || is_graced
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
            recipient: Hosts::Any,
            kind: "route".to_owned(),
            name: vec![name],
        }),
    }
}

/// Returns a value for an id: data for a resource, and a lease or none for a host.
fn value(id: &Id, number: u8) -> Value {
    match id {
        Id::Resource(_) => Value::Resource(Arc::new(Entry {
            key: Vec::new(),
            value: vec![number],
            created: Revision(1),
            modified: Revision(1),
            lease: None,
        })),
        _ => Value::Lease((number > 0).then_some(LeaseId(number.into()))),
    }
}

/// Turns damping off, for tests of other parts.
fn config(keep_for: Option<Duration>, grace: Duration) -> CollectorConfig {
    CollectorConfig {
        keep_for,
        grace,
        damping_interval: Duration::ZERO,
        ..CollectorConfig::default()
    }
}

/// A step of the store, or a lapse of time.
#[derive(Clone, Debug)]
enum Happening {
    Step(Step),
    /// Everything is known, except the last revisions in this number.
    KnowTo(u64),
    Pass(Duration),
}

fn happening() -> impl Strategy<Value = Happening> {
    let ids = || (0..5_u8, 0..3_u8, 0..3_u8).prop_map(id);
    let valued = move || {
        (ids(), 0..3_u8).prop_map(|(id, number)| {
            let value = value(&id, number);
            (id, value)
        })
    };
    let all = proptest::collection::vec(valued(), 0..12);
    prop_oneof![
        4 => valued().prop_map(|(id, value)| Happening::Step(Step::Put(id, value))),
        4 => ids().prop_map(|id| Happening::Step(Step::Delete(id))),
        1 => all.prop_map(|all| Happening::Step(Step::Resync(all.into_iter().collect()))),
        2 => (0..4_u64).prop_map(Happening::KnowTo),
        2 => (0..400_u64).prop_map(|time| Happening::Pass(Duration::from_millis(time))),
    ]
}

/// Takes in the changes since a reader's last look.
fn read(shown: &mut BTreeMap<ResourceKey, Arc<Entry>>, holdings: &Holdings) {
    if holdings.is_all {
        shown.clear();
    }
    for (key, now) in &holdings.changes {
        match now {
            Some(now) => drop(shown.insert(key.clone(), now.clone())),
            None => drop(shown.remove(key)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_kept_is_what_a_scan_of_all_says(
        grace in prop_oneof![Just(0_u64), Just(300), Just(1_000)],
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let grace = Duration::from_millis(grace);
        let mut state = State::new(config(None, grace));
        let mut copied = Copied::default();
        let mut scan = Scan {
            grace,
            held: BTreeMap::new(),
            alive: BTreeMap::new(),
            ended: BTreeMap::new(),
            declared: BTreeMap::new(),
            known_to: Revision(0),
        };
        let mut now = Instant::now();
        state.apply(Event::View(View::default()), now);
        state.settle(now);
        let (mut newest, mut seen, mut shown) = (1, Seen::default(), BTreeMap::new());
        for happening in happenings {
            newest += 1;
            let revision = Revision(newest);
            match happening {
                Happening::Step(step) => {
                    scan.apply(&step, revision, now);
                    if let Some(event) = copied.event(step, revision) {
                        prop_assert!(state.apply(event, now));
                    }
                }
                Happening::KnowTo(but) => {
                    let revision = Revision(newest.saturating_sub(but));
                    state.know_to(revision);
                    scan.known_to = scan.known_to.max(revision);
                }
                Happening::Pass(time) => now += time,
            }
            prop_assert_eq!(state.settle(now), scan.settle(now));
            let holdings = state.holdings(seen, &copied, now).unwrap();
            read(&mut shown, &holdings);
            seen = holdings.seen;
            prop_assert!(shown.keys().eq(scan.held.keys()));
            let all = state.holdings(Seen::default(), &copied, now).unwrap();
            prop_assert!(all.is_all && all.resources().eq(&shown));
            prop_assert_eq!(state.liveness.incomplete(), &scan.incomplete());
            prop_assert_eq!(state.awaited(), scan.awaited());
            prop_assert_eq!(state.wait(now), scan.wait(now));
        }
    }
}

#[test]
fn a_partition_is_counted_from_the_time_that_the_event_came_with() {
    let limit = Duration::from_secs(10);
    let mut state = State::new(config(Some(limit), Duration::ZERO));
    let begun = Instant::now() + Duration::from_secs(1_000);
    let error = Error::new(ErrorKind::Unavailable, "cut off");
    let event = || Event::Interrupted(SystemTime::UNIX_EPOCH, error.clone());
    state.apply(event(), begun);
    let last = begun + limit - Duration::from_millis(100);
    // A repeated event does not restart the time.
    state.apply(event(), last);
    assert!(!state.is_withdrawn(last));
    assert_eq!(state.wait(last), Duration::from_millis(100));
    assert!(state.is_withdrawn(begun + limit));
    state.apply(Event::Restored(Revision(1)), begun + limit);
    assert!(!state.is_withdrawn(begun + limit));
}

/// A collector that has seen an empty store, and its further events.
struct Followed {
    state: State,
    copied: Copied,
    seen: Seen,
    now: Instant,
    revision: u64,
    /// The number of changes shown for each export, by name.
    changes: BTreeMap<Vec<u8>, usize>,
    shown: BTreeMap<ResourceKey, Arc<Entry>>,
}

impl Followed {
    fn new(config: CollectorConfig) -> Followed {
        let mut state = State::new(config);
        let now = Instant::now() + Duration::from_secs(1_000);
        state.apply(Event::View(View { revision: Revision(1), ..View::default() }), now);
        Followed {
            state,
            copied: Copied::default(),
            seen: Seen::default(),
            now,
            revision: 1,
            changes: BTreeMap::new(),
            shown: BTreeMap::new(),
        }
    }

    fn event(&mut self, id: Id, value: Option<Value>) {
        self.revision += 1;
        let revision = Revision(self.revision);
        self.state.know_to(revision);
        let step = match value {
            Some(value) => Step::Put(id, value),
            None => Step::Delete(id),
        };
        let event = self.copied.event(step, revision);
        let is_changed = event.is_some_and(|event| self.state.apply(event, self.now));
        self.look(is_changed);
    }

    /// Reads the shown state, as a reader does after a hint of a change.
    fn look(&mut self, is_changed: bool) {
        let is_changed = self.state.settle(self.now) || is_changed;
        let holdings = self.state.holdings(self.seen, &self.copied, self.now).unwrap();
        let mut shown = self.shown.clone();
        read(&mut shown, &holdings);
        self.seen = holdings.seen;
        let keys: BTreeSet<&ResourceKey> = shown.keys().chain(self.shown.keys()).collect();
        for key in keys {
            if shown.get(key) != self.shown.get(key) {
                assert!(is_changed, "{key} has changed, and nothing says so");
                *self.changes.entry(key.name.clone()).or_default() += 1;
            }
        }
        self.shown = shown;
    }

    fn put(&mut self, host: u8, name: u8, data: u8) {
        let id = id((2, host, name));
        let value = value(&id, data);
        self.event(id, Some(value));
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.look(false);
    }

    fn holdings(&self) -> Holdings {
        self.state.holdings(Seen::default(), &self.copied, self.now).unwrap()
    }
}

#[test]
fn an_export_that_changes_all_the_time_costs_a_bounded_number_of_changes() {
    let mut of = Followed::new(CollectorConfig::default());
    // Two hosts: one changes its export 8,700 times in 5 seconds, the other ten times.
    for turn in 0..8_700_u32 {
        of.put(1, 7, (turn % 250) as u8);
        if turn % 870 == 0 {
            of.put(2, 8, (turn / 870) as u8);
            let data = &of.shown[&match id((2, 2, 8)) {
                Id::Resource(key) => key,
                other => panic!("{other:?}"),
            }];
            assert_eq!(data.value, [(turn / 870) as u8], "it is taken at once");
        }
        of.pass(Duration::from_micros(575));
    }
    assert_eq!(of.changes[&vec![7]], 10);
    assert_eq!(of.holdings().damped, [("1".to_owned(), 1)].into());
    // The last state is reached in the end, and nothing waits then.
    of.pass(Duration::from_secs(10));
    assert_eq!(of.changes[&vec![7]], 11);
    assert_eq!(of.holdings().resources().count(), 2);
    let last = of.shown.values().map(|it| it.value[0]).collect::<Vec<_>>();
    assert_eq!(last, [(8_699_u32 % 250) as u8, 9]);
    assert!(of.holdings().damped.is_empty());
    assert_eq!(of.state.wait(of.now), SLICE);
}

/// Each export has a new name.
#[test]
fn a_host_that_exports_and_deletes_all_the_time_costs_a_bounded_number_of_changes() {
    let mut of = Followed::new(CollectorConfig { damping_burst: 20, ..CollectorConfig::default() });
    for turn in 0..4_350_u32 {
        let name = (turn % 256) as u8;
        of.put(1, name, 0);
        of.event(id((2, 1, name)), None);
        of.pass(Duration::from_micros(1_150));
    }
    let changes: usize = of.changes.values().sum();
    // 1 and 20 at once, and one more in each tenth of a second, each with its deletion.
    assert!((42..=2 * (21 + 52)).contains(&changes), "{changes}");
    assert!(of.shown.is_empty() && of.holdings().damped.is_empty());
}

/// A reader gets each of them once, whatever their number.
#[test]
fn the_first_exports_of_a_host_do_not_wait() {
    let mut of = Followed::new(CollectorConfig { damping_burst: 20, ..CollectorConfig::default() });
    (0..200).for_each(|name| of.put(1, name, 0));
    assert_eq!(of.shown.len(), 200);
    // A returning export counts.
    for name in 0..200 {
        of.event(id((2, 1, name)), None);
        of.put(1, name, 0);
    }
    assert_eq!(of.holdings().damped, [("1".to_owned(), 180)].into());
    (0..180).for_each(|_| of.pass(Duration::from_millis(100)));
    assert_eq!(of.shown.len(), 200);
}

#[test]
fn a_deletion_does_not_wait() {
    let mut of = Followed::new(CollectorConfig::default());
    for data in 0..12 {
        of.put(1, 7, data);
    }
    assert_eq!(of.holdings().damped, [("1".to_owned(), 1)].into());
    of.event(id((2, 1, 7)), None);
    assert!(of.shown.is_empty());
    of.put(1, 7, 1);
    assert!(of.shown.is_empty(), "what comes again waits");
    of.pass(Duration::from_secs(10));
    assert_eq!(of.shown.len(), 1);
}

/// A session that a host wrote by hand for a dead host: without a lease, or without a generation.
#[test]
fn what_a_host_deleted_whose_session_says_nothing_stays_and_is_said_to() {
    for (session, generation) in [(0, None), (0, Some(0)), (1, None), (1, Some(0)), (1, Some(2))] {
        let mut of = Followed::new(CollectorConfig::default());
        of.put(1, 7, 1);
        let mut lease = |kind: u8, number: u8| {
            let id = id((kind, 1, 0));
            let value = value(&id, number);
            of.event(id, Some(value));
        };
        lease(0, session);
        if let Some(number) = generation {
            lease(1, number);
        }
        of.event(id((2, 1, 7)), None);
        let kept = of.holdings();
        assert_eq!(kept.resources().count(), 1, "{session}, {generation:?}");
        assert_eq!(kept.kept, [("1".to_owned(), 1)].into());
        assert!(!kept.is_complete());
        // Once the session is gone, or has declared, the state is known.
        match session {
            0 => of.event(id((0, 1, 0)), None),
            number => {
                let id = id((1, 1, 0));
                let value = value(&id, number);
                of.event(id, Some(value));
            }
        }
        let known = of.holdings();
        assert!(known.changes.is_empty() && known.kept.is_empty());
        assert!(known.is_complete());
    }
}

proptest! {
    /// For any changes, the buckets limit the number shown, and the last state is shown in the end.
    #[test]
    fn damping_is_bounded_and_loses_nothing(
        steps in proptest::collection::vec((0..3_u8, 0..3_u8, 0..4_u8, 0..700_u64), 0..300),
    ) {
        let mut of = Followed::new(CollectorConfig {
            damping_interval: Duration::from_secs(1),
            damping_burst: 12,
            ..CollectorConfig::default()
        });
        let begun = of.now;
        for (host, name, data, millis) in steps {
            match data {
                0 => of.event(id((2, host, name)), None),
                data => of.put(host, name, data),
            }
            of.pass(Duration::from_millis(millis / 10));
        }
        let seconds = (of.now - begun).as_secs() as usize + 1;
        for (name, changes) in &of.changes {
            // Three hosts, each change with a deletion.
            prop_assert!(*changes <= 3 * 2 * (11 + seconds), "{name:?}: {changes}");
        }
        for _ in 0..4 {
            of.pass(Duration::from_secs(1));
        }
        prop_assert_eq!(&of.shown, &of.copied.0);
        prop_assert!(of.holdings().damped.is_empty());
    }
}
