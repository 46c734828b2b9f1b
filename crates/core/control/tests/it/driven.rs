//! An engine that a loop drives.

use std::time::Duration;

use trueup_control::Engine;
use trueup_loop::{Config, ErrorKind, Event, Loop};
use trueup_reconcile::{Condition, MemoryLedger, OpKey, Report as _};

use crate::world::{Mode, Sim, fixed, objects};

#[test]
fn a_loop_drives_an_engine_and_tells_what_became_of_objects() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let desired = fixed([("a", "1"), ("b", "1")]);
    let config = sim.config().with_poll(Duration::from_millis(5));
    let engine = Engine::new(sim.clone(), desired.clone(), &sim.journal(), config).unwrap();
    let config = Config::default().with_debounce(Duration::from_millis(1));
    let ledger = MemoryLedger::default();
    let running = Loop::new(engine, (), (), ledger, (), config).spawn("control").unwrap();
    let handle = running.handle();
    let wait = Duration::from_secs(60);
    let report = handle.force(wait).unwrap();
    assert!(!report.converged());
    let exceptions = handle.exceptions();
    assert_eq!(exceptions.len(), 2);
    for exception in &exceptions {
        let Condition::Pending { why } = &exception.status.condition else {
            panic!("{exception:?}")
        };
        assert!(why.starts_with("running (task "), "{why}");
    }
    sim.advance(10);
    let revision = handle.set_desired(()).unwrap();
    handle.wait_converged(revision, wait).unwrap();
    assert!(handle.exceptions().is_empty());

    // The provider's hint begins a pass.
    sim.world().mode = Mode::Done;
    desired.set(Some(objects([("a", "2"), ("b", "1")])));
    let revision = handle.change(|()| ()).unwrap();
    let tried = handle.wait_tried(revision, wait).unwrap();
    assert!(tried.objects.as_ref().is_some_and(|it| it.len() == 1));
    assert!(tried.is_in_place(), "{tried:?}");
    assert_eq!(sim.world().objects, objects([("a", "2"), ("b", "1")]));
    running.stop(wait).unwrap();
}

/// A caller who reads only statuses must not mistake it for a converged state.
#[test]
fn an_api_that_is_not_reached_is_an_exception_and_an_event() {
    let sim = Sim::new();
    let desired = fixed([("a", "1")]);
    let engine = Engine::new(sim.clone(), desired, &sim.journal(), sim.config()).unwrap();
    let ledger = MemoryLedger::default();
    let running = Loop::new(engine, (), (), ledger, (), Config::default());
    let running = running.spawn("control").unwrap();
    let (handle, wait) = (running.handle(), Duration::from_secs(60));
    handle.force(wait).unwrap();
    let mut events = handle.events();
    sim.world().is_reachable = false;
    let error = handle.force(wait).unwrap_err();
    assert!(handle.status(OpKey::SCOPE).is_some(), "{error}");
    let event = events.next_timeout(wait).unwrap();
    assert!(matches!(event, Event::Changed { key: OpKey::SCOPE, .. }), "{event:?}");
    let revision = handle.set_desired(()).unwrap();
    let waited = handle.wait_tried(revision, wait).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::PassFailed);
    sim.world().is_reachable = true;
    handle.force(wait).unwrap();
    assert!(handle.status(OpKey::SCOPE).is_none());
    running.stop(wait).unwrap();
}

#[test]
fn a_loop_without_a_desired_state_rests() {
    let sim = Sim::new();
    let engine = sim.engine(None);
    let ledger = MemoryLedger::default();
    let running = Loop::new(engine, (), (), ledger, (), Config::default());
    let running = running.spawn("control").unwrap();
    let report = running.handle().force(Duration::from_secs(60)).unwrap();
    assert!(!report.is_known());
    running.stop(Duration::from_secs(60)).unwrap();
}
