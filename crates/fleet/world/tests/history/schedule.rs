//! A schedule: random steps of three hosts and a watcher, each checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use trueup_contracts::world::Gate;
use trueup_world::{
    Embedded, Entry, Error, ErrorKind, Event, Export, Filter, ResourceKey, Revision, Session,
    Store, View, Watch, WatchConfig, World,
};

use crate::faults::Faults;
use crate::model::Model;

const TTL: Duration = Duration::from_secs(6);
const HOSTS: [&str; 3] = ["a", "b", "c"];

type Names = BTreeMap<String, String>;

/// A host, with the checker's knowledge of it.
struct Host {
    name: &'static str,
    gate: Arc<Gate>,
    faults: Arc<Faults>,
    world: World,
    session: Option<Session>,
    /// The exports that the store must have, if all calls have succeeded. `None` after a failure.
    exports: Option<Names>,
    /// The declared exports, whether or not the declaration succeeded.
    declared: Names,
    /// The last time when its lease was certainly renewed, and the time when the host died.
    renewed: Duration,
    died: Option<Duration>,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) losses: u64,
    pub(crate) faults: u64,
    pub(crate) resyncs: u64,
    pub(crate) events: u64,
    pub(crate) conflicts: u64,
    pub(crate) checked: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        self.losses += other.losses;
        self.faults += other.faults;
        self.resyncs += other.resyncs;
        self.events += other.events;
        self.conflicts += other.conflicts;
        self.checked += other.checked;
    }
}

pub(crate) struct Run {
    random: fastrand::Rng,
    store: Embedded,
    operator: Arc<dyn Store>,
    model: Model,
    now: Duration,
    hosts: Vec<Host>,
    /// The watcher's gate, its world, its watch, and its knowledge from the watch.
    gate: Arc<Gate>,
    faults: Arc<Faults>,
    world: World,
    watch: Watch<ResourceKey, Arc<Entry>>,
    view: Option<BTreeMap<(String, String), Vec<u8>>>,
    seen: BTreeMap<(String, String), Revision>,
    pub(crate) log: Vec<String>,
    pub(crate) counts: Counts,
}

impl Run {
    pub(crate) fn new(seed: u64) -> Run {
        let store = Embedded::with_manual_clock();
        let host = |name: &'static str, at: u64| {
            let (gate, faults) = (Arc::<Gate>::default(), Faults::new(seed * 10 + at));
            let world = faults.around(gate.around(store.connect()));
            let world = World::new(world, "/t", name).unwrap();
            (gate, faults, world)
        };
        let hosts = HOSTS.into_iter().zip(1..).map(|(name, at)| {
            let (gate, faults, world) = host(name, at);
            Host {
                name,
                gate,
                faults,
                world,
                session: None,
                exports: None,
                declared: Names::new(),
                renewed: Duration::ZERO,
                died: None,
            }
        });
        let hosts = hosts.collect();
        let (gate, faults, world) = host("w", 0);
        let mut config = WatchConfig::default();
        config.max_backoff = Duration::from_millis(1);
        let watch = world.watch_resources(&[Filter::all()], config).unwrap();
        let operator = store.connect();
        Run {
            random: fastrand::Rng::with_seed(seed),
            model: Model::new(&operator),
            store: store.clone(),
            operator,
            now: Duration::ZERO,
            hosts,
            gate,
            faults,
            world,
            watch,
            view: None,
            seen: BTreeMap::new(),
            log: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn run(&mut self, steps: usize) {
        (0..self.hosts.len()).for_each(|at| self.begin(at));
        // In half of the runs, every call may fail.
        if self.random.bool() {
            let rate = self.random.u32(1..12);
            let hosts = self.hosts.iter().map(|host| &host.faults);
            hosts.chain([&self.faults]).for_each(|it| it.rate.store(rate, Ordering::SeqCst));
        }
        self.model.catch_up();
        for _ in 0..steps {
            self.step();
            self.model.catch_up();
            self.check_hosts();
            self.read_events(Duration::ZERO);
        }
        self.settle();
    }

    fn step(&mut self) {
        let at = self.random.usize(0..self.hosts.len());
        let choice = self.random.u8(0..20);
        let name = self.hosts[at].name;
        self.log.push(format!("{:?} {name}: step {choice}", self.now));
        match choice {
            0..=2 => self.export(at),
            3 => self.delete(at),
            4..=6 => self.declare(at),
            7..=9 => self.renew(at),
            10 | 11 => self.pass(),
            12 => self.crash(at),
            13 => self.begin(at),
            14 => self.impostor(at),
            15 => match self.random.bool() {
                true => self.hosts[at].gate.close(),
                false => self.hosts[at].gate.open(),
            },
            16 => match self.random.bool() {
                true => self.gate.close(),
                false => self.gate.open(),
            },
            17 => {
                let newest = self.operator.read(b"/t", None).unwrap().0;
                let back = self.random.u64(0..4).min(newest.0 - 1);
                self.store.compact(Revision(newest.0 - back));
            }
            18 => {
                let rate = self.random.u32(0..30);
                self.hosts[at].faults.rate.store(rate, Ordering::SeqCst);
                let rate = self.random.u32(0..10);
                self.faults.rate.store(rate, Ordering::SeqCst);
            }
            _ => self.collect(),
        }
    }

    fn names(&mut self) -> Names {
        let count = self.random.usize(0..9);
        let mut names = Names::new();
        for _ in 0..count {
            let name = format!("n{}", self.random.u8(0..12));
            names.insert(name, self.random.u8(0..3).to_string());
        }
        names
    }

    fn export(&mut self, at: usize) {
        let names = self.names();
        let host = &mut self.hosts[at];
        let Some(session) = &host.session else { return };
        let batch = exports(&names);
        let losses = session.status().losses;
        let result = session.export(&batch).and_then(trueup_world::Exported::into_result);
        host.declared.extend(names.clone());
        let is_same_lease = session.status().losses == losses;
        host.outcome(result.map(drop), is_same_lease, |known| known.extend(names), self.now);
    }

    fn delete(&mut self, at: usize) {
        let name = format!("n{}", self.random.u8(0..12));
        let host = &mut self.hosts[at];
        let Some(session) = &host.session else { return };
        let key = Export::new("k", name.clone(), "").key(host.name);
        let losses = session.status().losses;
        let result = session.delete(&[key]).and_then(trueup_world::Exported::into_result);
        host.declared.remove(&name);
        let is_same_lease = session.status().losses == losses;
        let forget = |known: &mut Names| drop(known.remove(&name));
        host.outcome(result.map(drop), is_same_lease, forget, self.now);
    }

    fn declare(&mut self, at: usize) {
        let names = self.names();
        let host = &mut self.hosts[at];
        let Some(session) = &host.session else { return };
        let losses = session.status().losses;
        let result =
            session.declare(&exports(&names)).and_then(trueup_world::Exported::into_result);
        host.declared = names.clone();
        let is_same_lease = session.status().losses == losses;
        match result {
            Ok(_) => {
                if !is_same_lease {
                    host.renewed = self.now;
                }
                // Otherwise the lease may end at any time.
                let is_fresh = self.now < host.renewed + TTL;
                host.exports = is_fresh.then_some(names);
            }
            Err(error) => host.failed(&error),
        }
    }

    fn renew(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let Some(session) = &host.session else { return };
        match session.renew() {
            Ok(None) => host.renewed = self.now,
            Ok(Some(restored)) if restored.failed() == 0 => {
                self.counts.losses += 1;
                host.exports = Some(host.declared.clone());
                // Exports of an earlier process that this one has not declared may exist.
                host.renewed = self.now;
                if !session.world().exports().is_ok_and(|own| own.len() == host.declared.len()) {
                    host.exports = None;
                }
            }
            Ok(Some(_)) => host.exports = None,
            Err(error) => host.failed(&error),
        }
    }

    fn pass(&mut self) {
        let time = TTL.mul_f64(self.random.f64());
        self.now += time;
        self.store.advance(time);
        for host in &mut self.hosts {
            if self.now >= host.renewed + TTL {
                host.exports = None;
            }
        }
    }

    fn crash(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.session.take().is_some() {
            host.exports = None;
            host.died = Some(self.now);
        }
    }

    fn begin(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.session.is_some() {
            return;
        }
        if let Ok(session) = Session::begin(host.world.clone(), host.name, TTL) {
            host.session = Some(session);
            host.died = None;
            host.renewed = self.now;
            host.declared.clear();
        } else {
            // Its lease may have been renewed although the call failed.
            host.died = host.died.map(|_| self.now);
        }
    }

    /// Another machine tries to take the name.
    fn impostor(&mut self, at: usize) {
        let name = self.hosts[at].name;
        let key = format!("/t/hosts/{name}/session");
        let is_taken = self.model.newest().contains_key(key.as_bytes());
        let world = World::new(self.operator.clone(), "/t", name).unwrap();
        match Session::begin(world, "impostor", TTL) {
            Ok(session) => {
                assert!(!is_taken, "{name}: taken from a session that lives");
                session.end().unwrap();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(is_taken);
                self.counts.conflicts += 1;
            }
        }
    }

    /// Checks a host's collected resources against the model at their revision.
    fn collect(&mut self) {
        let Ok(collected) = self.world.collect(&[Filter::all()]) else {
            return;
        };
        let read = collected.resources.into_iter();
        let read = read.map(|(key, it)| (id(&key), it.value.clone())).collect();
        let model = Model::resources(self.model.at(collected.revision));
        assert_eq!(model, read, "collected at {}", collected.revision);
        self.counts.checked += 1;
    }

    fn check_hosts(&mut self) {
        let resources = Model::resources(self.model.newest());
        for host in &self.hosts {
            let stored = resources.iter().filter(|((exporter, _), _)| exporter == host.name);
            let stored: Names = stored
                .map(|((_, name), data)| (name.clone(), String::from_utf8(data.clone()).unwrap()))
                .collect();
            if let Some(exports) = &host.exports {
                assert_eq!(stored, *exports, "{}: of the living", host.name);
                self.counts.checked += 1;
            }
            if host.died.is_some_and(|died| self.now >= died + TTL * 2) {
                assert_eq!(stored, Names::new(), "{}: of the dead", host.name);
                self.counts.checked += 1;
            }
        }
    }

    fn read_events(&mut self, timeout: Duration) {
        while let Some(event) = self.watch.next(timeout).unwrap() {
            self.model.catch_up();
            self.counts.events += 1;
            match event {
                Event::Ready(view) => self.replace(&view),
                Event::Resync(view) => {
                    self.counts.resyncs += 1;
                    self.replace(&view);
                }
                Event::Changed { id: key, value, revision } => {
                    self.log.push(format!("  {key} = {:?} at {revision}", value.value));
                    let model = Model::resources(self.model.at(revision));
                    assert_eq!(model.get(&id(&key)), Some(&value.value), "{key}: invented");
                    self.advance(id(&key), revision);
                    self.known().insert(id(&key), value.value.clone());
                }
                Event::Deleted { id: key, revision } => {
                    self.log.push(format!("  {key} deleted at {revision}"));
                    let model = Model::resources(self.model.at(revision));
                    assert_eq!(model.get(&id(&key)), None, "{key}: deleted by invention");
                    self.advance(id(&key), revision);
                    assert!(self.known().remove(&id(&key)).is_some(), "{key}: was not known");
                }
                Event::Malformed { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
    }

    fn known(&mut self) -> &mut BTreeMap<(String, String), Vec<u8>> {
        self.view.as_mut().unwrap()
    }

    fn advance(&mut self, id: (String, String), revision: Revision) {
        if let Some(before) = self.seen.insert(id, revision) {
            assert!(before < revision, "{revision} after {before}");
        }
    }

    fn replace(&mut self, view: &View<ResourceKey, Arc<Entry>>) {
        let values = view.values.iter();
        let values = values.map(|(key, (it, _))| (id(key), it.value.clone()));
        self.view = Some(values.collect());
    }

    /// Ends all faults. The watch must then know the whole state, and all sessions must live.
    fn settle(&mut self) {
        self.gate.open();
        self.faults.rate.store(0, Ordering::SeqCst);
        for host in &mut self.hosts {
            host.gate.open();
            host.faults.rate.store(0, Ordering::SeqCst);
            self.counts.faults += host.faults.count.load(Ordering::SeqCst);
        }
        self.counts.faults += self.faults.count.load(Ordering::SeqCst);
        for at in 0..self.hosts.len() {
            self.log.push(format!("settling {}", self.hosts[at].name));
            self.begin(at);
            self.renew(at);
            self.declare(at);
            let host = &self.hosts[at];
            let is_ended = host.session.as_ref().is_some_and(|it| it.status().ended.is_some());
            assert!(host.exports.is_some() || is_ended, "{}: not settled", host.name);
        }
        self.model.catch_up();
        self.check_hosts();
        self.collect();
        let expected = Model::resources(self.model.newest());
        let end = Instant::now() + Duration::from_secs(20);
        while self.view.as_ref() != Some(&expected) {
            assert!(Instant::now() < end, "lost: {:?}, not {expected:?}", self.view);
            self.read_events(Duration::from_millis(2));
        }
    }
}

impl Host {
    /// Records the outcome of a call. After a success, the known exports hold, unless the call had
    /// to take another lease.
    fn outcome(
        &mut self,
        result: Result<(), Error>,
        is_same_lease: bool,
        change: impl FnOnce(&mut Names),
        now: Duration,
    ) {
        match result {
            Ok(()) if is_same_lease => {
                if let Some(exports) = &mut self.exports {
                    change(exports);
                }
            }
            Ok(()) => {
                self.exports = None;
                self.renewed = now;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &Error) {
        assert!(error.is_retryable(), "{}: {error}", self.name);
        self.exports = None;
    }
}

fn exports(names: &Names) -> Vec<Export> {
    let exports = names.iter().map(|(name, data)| Export::new("k", name.clone(), data.clone()));
    exports.collect()
}

fn id(key: &ResourceKey) -> (String, String) {
    let name = String::from_utf8(key.name.clone()).unwrap();
    (key.exporter.clone(), name)
}
