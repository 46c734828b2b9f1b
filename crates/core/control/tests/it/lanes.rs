//! Objects that share a lane.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use trueup_control::{
    Action, Backend, Config, Engine, Error, Fixed, Found, Object, Objects, Observed, Started, Task,
    Verb,
};
use trueup_journal::Journal;
use trueup_reconcile::{MemoryLedger, Report as _, Source as _};

use crate::engine::pass;
use crate::world::{Mode, Sim, fixed, hints, objects};

/// A backend that fails if two calls for one lane overlap. Each start waits until both lanes have
/// begun one.
#[derive(Clone, Default)]
struct Lanes(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    objects: Objects,
    /// The lanes with a call in progress.
    inside: BTreeSet<String>,
    begun: BTreeSet<String>,
    order: Vec<String>,
    overlaps: usize,
    tasks: usize,
}

fn lane_of(key: &str) -> String {
    key.split('/').next().unwrap().to_owned()
}

impl Lanes {
    fn within<T>(&self, lane: &str, call: impl FnOnce(&Self) -> T) -> T {
        let is_new = self.0.0.lock().unwrap().inside.insert(lane.to_owned());
        if !is_new {
            self.0.0.lock().unwrap().overlaps += 1;
        }
        // Gives another call of the lane a chance.
        for _ in 0..100 {
            std::thread::yield_now();
        }
        let result = call(self);
        self.0.0.lock().unwrap().inside.remove(lane);
        result
    }
}

impl Backend for Lanes {
    fn observe(&self) -> Result<Observed, Error> {
        Ok(self.0.0.lock().unwrap().objects.clone().into())
    }

    fn lane(&self, key: &str) -> String {
        lane_of(key)
    }

    fn is_benign(&self, _: &Action, _: Option<&Object>) -> bool {
        true
    }

    fn start(&self, action: &Action, _: &str) -> Started {
        self.within(&lane_of(&action.key), |lanes| {
            let (state, all_begun) = &*lanes.0;
            let mut state = state.lock().unwrap();
            state.begun.insert(lane_of(&action.key));
            all_begun.notify_all();
            let wait = Duration::from_secs(60);
            let waited = all_begun.wait_timeout_while(state, wait, |it| it.begun.len() < 2);
            let (mut state, timeout) = waited.unwrap();
            assert!(!timeout.timed_out(), "the lanes do not run in parallel");
            state.order.push(action.key.clone());
            // A job leaves its object unchanged.
            let made = action.apply_to(None);
            let made = made.map(|object| (action.key.clone(), object));
            state.objects.extend(made);
        });
        Started::Task(action.key.clone())
    }

    fn task(&self, task: &str) -> Result<Task, Error> {
        self.within(&lane_of(task), |lanes| {
            lanes.0.0.lock().unwrap().tasks += 1;
            Ok(Task::Succeeded)
        })
    }

    fn find(&self, _: &str) -> Result<Found, Error> {
        Ok(Found::NotSaid)
    }
}

#[test]
fn a_lane_is_served_one_call_at_a_time_in_the_order_of_keys_and_lanes_in_parallel() {
    let backend = Lanes::default();
    let keys = ["vm1", "vm1/a", "vm1/b", "vm1/c", "vm2", "vm2/a", "vm2/b"];
    let desired = Fixed::new(objects(keys.map(|key| (key, "1"))));
    let config = Config::default().with_create().with_lanes(NonZeroUsize::new(4).unwrap());
    let journal: Journal = Sim::new().journal();
    let mut engine = Engine::new(backend.clone(), desired, &journal, config).unwrap();
    let handle = engine.handle();
    let mut ledger = MemoryLedger::default();
    // Jobs on the same lanes meanwhile.
    let jobs: Vec<_> = ["vm1/a", "vm2/x"]
        .into_iter()
        .map(|key| {
            let handle = handle.clone();
            std::thread::spawn(move || {
                let action = Action::new(key, Verb::Other("snapshot".into()));
                handle.wait_job(key, &action, Duration::from_secs(60))
            })
        })
        .collect();
    let end = Instant::now() + Duration::from_secs(60);
    while !pass(&mut engine, &mut ledger).converged() {
        assert!(Instant::now() < end, "it does not converge");
        std::thread::sleep(Duration::from_millis(1));
    }
    for job in jobs {
        assert!(job.join().unwrap().unwrap().is_ended());
    }
    let state = backend.0.0.lock().unwrap();
    assert_eq!(state.overlaps, 0);
    assert_eq!((state.order.len(), state.tasks), (9, 9));
    let planned = |lane: &str| -> Vec<&String> {
        let mut seen = BTreeSet::new();
        let of_lane = state.order.iter().filter(|key| lane_of(key) == lane);
        // The job's object occurs twice, and its job at any time.
        of_lane
            .filter(|key| !["vm1/a", "vm2/x"].contains(&key.as_str()) && seen.insert(*key))
            .collect()
    };
    assert_eq!(planned("vm1"), ["vm1", "vm1/b", "vm1/c"]);
    assert_eq!(planned("vm2"), ["vm2", "vm2/a", "vm2/b"]);
}

/// A start without an answer delays one pass, and its lane is skipped meanwhile.
#[test]
fn a_lane_that_hangs_holds_up_no_other() {
    let sim = Sim::new();
    let wait = Duration::from_secs(1);
    let config = sim.config().with_start_wait(wait);
    let desired = fixed([("vm1/a", "1"), ("vm1/b", "1"), ("vm2", "1")]);
    let mut engine = Engine::new(sim.clone(), desired.clone(), &sim.journal(), config).unwrap();
    let mut ledger = MemoryLedger::default();
    // One operation of each lane is in flight.
    sim.world().mode = Mode::Task(10);
    desired.set(Some(objects([("vm1/b", "1")])));
    pass(&mut engine, &mut ledger);
    let release = sim.hold(|world| &mut world.start_waits);
    let all = [("vm1/a", "1"), ("vm1/b", "1")];
    desired.set(Some(objects(all)));
    pass(&mut engine, &mut ledger);
    let asked = |sim: &Sim| {
        let world = sim.world();
        world.steps.iter().filter(|step| **step == "task").count()
    };
    let before = asked(&sim);
    let all = [("vm1/a", "1"), ("vm1/b", "1"), ("vm2", "1")];
    desired.set(Some(objects(all)));
    let begun = Instant::now();
    pass(&mut engine, &mut ledger);
    assert!(begun.elapsed() < wait);
    // The engine asked for vm2's task, after its start, and not for vm1/b's.
    assert_eq!(asked(&sim), before + 1);
    sim.advance(10);
    pass(&mut engine, &mut ledger);
    assert!(sim.world().objects.contains_key("vm2"));
    release.send(()).unwrap();
    drop(release);
    while !pass(&mut engine, &mut ledger).converged() {
        sim.advance(1);
    }
    assert_eq!(sim.world().starts, 3);
}

/// A question without an answer delays one pass.
#[test]
fn a_task_that_cannot_be_asked_about_holds_up_no_other_object() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let wait = Duration::from_secs(2);
    let config = sim.config().with_start_wait(wait);
    let desired = fixed([("a", "1")]);
    let mut engine = Engine::new(sim.clone(), desired.clone(), &sim.journal(), config).unwrap();
    let mut ledger = MemoryLedger::default();
    let (hints, hinted) = hints();
    let _subscription = engine.subscribe(&(), hints);
    let release = sim.hold(|world| &mut world.task_waits);
    pass(&mut engine, &mut ledger);
    desired.set(Some(objects([("a", "1"), ("b", "1")])));
    let begun = Instant::now();
    for _ in 0..3 {
        pass(&mut engine, &mut ledger);
        sim.advance(10);
    }
    assert!(begun.elapsed() < wait);
    assert!(sim.world().objects.contains_key("b"));
    // The answer starts a pass. The earlier hint came from the desired state.
    assert_eq!(hinted.try_iter().count(), 1);
    release.send(()).unwrap();
    hinted.recv_timeout(Duration::from_secs(60)).unwrap();
    while !pass(&mut engine, &mut ledger).converged() {
        std::thread::yield_now();
    }
    assert_eq!(sim.world().starts, 2);
}
