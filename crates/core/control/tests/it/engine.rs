//! Passes of an engine.

use std::time::Duration;

use trueup_control::{
    Backend, Engine, ErrorClass, ErrorKind, Fixed, Object, Objects, Outcome, Pending, Provider,
    Report, Value, Wait,
};
use trueup_reconcile::{Ledger, MemoryLedger, PassInput, Report as _, Source as _};

use crate::world::{Mode, Sim, fixed, hints, objects};

pub(crate) fn pass<B: Backend, P: Provider>(
    engine: &mut Engine<B, P>,
    ledger: &mut MemoryLedger,
) -> Report {
    engine.reconcile(PassInput::new(&(), &(), ledger, &())).unwrap()
}

pub(crate) fn texts(report: &Report) -> Vec<String> {
    report.ops().iter().map(ToString::to_string).collect()
}

#[test]
fn an_engine_creates_configures_and_destroys_what_is_its_own() {
    let sim = Sim::new();
    sim.world().objects = objects([("foreign", "1"), ("old", "1")]);
    let desired = fixed([("new", "1"), ("old", "2")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    let expected = ["new: create (memory: 1): applied", "old: configure (memory: 1 -> 2): applied"];
    assert_eq!(texts(&report), expected);
    assert!(report.converged());
    assert_eq!(report.undesired(), ["foreign"]);
    assert_eq!(sim.world().objects, objects([("foreign", "1"), ("new", "1"), ("old", "2")]));

    // A second pass does nothing to the backend or the disk.
    sim.world().steps.clear();
    let report = pass(&mut engine, &mut ledger);
    assert_eq!((report.converged(), report.ops().len()), (true, 0));
    assert_eq!(sim.world().steps, ["observe"]);

    // An object that is no longer desired is destroyed if this agent created it.
    desired.set(Some(Objects::new()));
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(texts(&report), ["new: destroy: applied"]);
    assert!(report.converged());
    assert_eq!(sim.world().objects, objects([("foreign", "1"), ("old", "2")]));
    assert!(ledger.owned().unwrap().is_empty());
    assert!(ledger.open_intents().unwrap().is_empty());
}

#[test]
fn a_pass_does_not_wait_for_a_task_and_a_key_has_one_at_a_time() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(100);
    sim.world().objects = objects([("a", "1"), ("b", "1")]);
    let desired = fixed([("a", "2"), ("b", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    let [op] = report.ops() else { panic!("{report:?}") };
    let Outcome::Pending(Pending::Own(Wait::Running { progress, is_overdue, .. })) = &op.outcome
    else {
        panic!("{op}")
    };
    assert_eq!((progress.as_deref(), *is_overdue), (Some("10 %"), false));
    assert!(!report.converged());
    assert_eq!(report.requeue_after(), Some(Duration::from_secs(2)));

    // Another desired value for the key waits; the other key continues.
    desired.set(Some(objects([("a", "3"), ("b", "2")])));
    pass(&mut engine, &mut ledger);
    assert_eq!(sim.world().starts, 2);
    sim.advance(100);
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(sim.world().starts, 3);
    assert!(texts(&report).contains(&"a: configure (memory: 1 -> 2): applied".to_owned()));
    sim.advance(100);
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!(sim.world().objects, objects([("a", "3"), ("b", "2")]));
}

#[test]
fn a_task_that_never_ends_is_reported_and_left_to_cancel() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(1_000_000);
    let (mut engine, mut ledger) = (sim.engine(fixed([("a", "2")])), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    sim.advance(3601);
    let report = pass(&mut engine, &mut ledger);
    let op = &report.ops()[0];
    let overdue = |op: &trueup_control::ControlOp| {
        matches!(op.outcome, Outcome::Pending(Pending::Own(Wait::Running { is_overdue: true, .. })))
    };
    assert!(overdue(op), "{op}");
    assert_eq!(sim.world().starts, 1);
    let handle = engine.handle();
    assert_eq!(handle.cancel("b").unwrap_err().kind(), ErrorKind::NoOperation);
    handle.cancel("a").unwrap();
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(texts(&report), ["a: create (memory: 2): failed, cancelled (unknown)"]);
    assert!(ledger.open_intents().unwrap().is_empty());
}

#[test]
fn secrets_are_in_no_report_and_not_on_the_disk() {
    let sim = Sim::new();
    sim.world().mode = Mode::Refuses(ErrorClass::Invalid);
    let object = Object::new().with("password", Value::secret("hunter2"));
    let desired = Fixed::new(Objects::from([("a".to_owned(), object)]));
    let (mut engine, mut ledger) = (sim.engine(desired), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(report.ops().len(), 1);
    let mut said = format!("{report:?} {}", report.ops()[0]);
    report.statuses(&mut |_, status| said += &format!("{status:?}"));
    assert!(said.contains("<secret>") && !said.contains("hunter2"), "{said}");
    let mut exported = Vec::new();
    drop(engine);
    sim.journal().export(&mut exported).unwrap();
    let exported = String::from_utf8_lossy(&exported).into_owned();
    assert!(exported.contains("control/a"), "{exported}");
    let mut bytes = vec![0; trueup_journal::Storage::len(&sim).unwrap() as usize];
    trueup_journal::Storage::read(&sim, 0, &mut bytes).unwrap();
    assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
}

#[test]
fn a_driver_s_limits_are_kept() {
    use trueup_reconcile::PassLimits;
    let sim = Sim::new();
    let desired = fixed([("a", "1"), ("b", "1"), ("c", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired), MemoryLedger::default());
    for (ops, starts, truncated) in [(0, 0, true), (2, 2, true), (9, 3, false), (9, 3, false)] {
        let limits = PassLimits::default().with_ops(ops);
        let report = engine
            .reconcile(PassInput::new(&(), &(), &mut ledger, &()).with_limits(limits))
            .unwrap();
        assert_eq!((sim.world().starts, report.is_truncated()), (starts, truncated));
        assert_eq!(report.converged(), !truncated);
    }
    assert!(sim.world().is_benign);
}

#[test]
fn an_object_whose_key_is_too_long_stops_no_other() {
    let sim = Sim::new();
    let long = "x".repeat(65_536);
    let desired = fixed([("a", "1"), (&long, "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    for memory in ["1", "2"] {
        desired.set(Some(objects([("a", memory), (&long, memory)])));
        let report = pass(&mut engine, &mut ledger);
        let [of_a, of_long] = report.ops() else { panic!("{report:?}") };
        assert_eq!((&*of_a.action.key, &of_a.outcome), ("a", &Outcome::Applied));
        let Outcome::Failed(failure) = &of_long.outcome else { panic!("{of_long:?}") };
        assert_eq!(failure.class, ErrorClass::Invalid);
        assert!(!report.converged());
        assert_eq!(sim.world().objects, objects([("a", memory)]));
    }
    // Once it is no longer declared, nothing is left of it.
    desired.set(Some(objects([("a", "2")])));
    assert!(pass(&mut engine, &mut ledger).converged());
}

#[test]
fn an_object_that_another_writer_removed_and_made_again_is_foreign() {
    let sim = Sim::new();
    let desired = fixed([("a", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    assert_eq!(ledger.owned().unwrap().len(), 1);
    desired.set(Some(Objects::new()));
    sim.world().objects.clear();
    pass(&mut engine, &mut ledger);
    sim.world().objects = objects([("a", "1")]);
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(report.undesired(), ["a"]);
    assert_eq!(sim.world().starts, 1);
}

#[test]
fn statuses_are_said_once_and_kept_while_nothing_is_known() {
    let sim = Sim::new();
    sim.world().mode = Mode::Refuses(ErrorClass::Busy);
    let desired = fixed([("a", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    let statuses = |report: &Report| {
        let mut all = Vec::new();
        report.statuses(&mut |_, status| all.push(status.map(|status| status.condition.name())));
        all
    };
    assert_eq!(statuses(&pass(&mut engine, &mut ledger)), [Some("failed")]);
    assert_eq!(statuses(&pass(&mut engine, &mut ledger)), []);
    desired.set(None);
    let report = pass(&mut engine, &mut ledger);
    assert_eq!((statuses(&report), report.is_seen_whole()), (vec![], false));
    sim.world().mode = Mode::Done;
    sim.advance(1);
    desired.set(Some(objects([("a", "1")])));
    assert_eq!(statuses(&pass(&mut engine, &mut ledger)), [None]);
}

#[test]
fn a_task_that_failed_and_took_effect_is_no_failure() {
    let sim = Sim::new();
    sim.world().objects = objects([("a", "1")]);
    sim.world().mode = Mode::TaskFails(10);
    let (mut engine, mut ledger) = (sim.engine(fixed([("a", "2")])), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    sim.advance(10);
    sim.world().objects = objects([("a", "2")]);
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(texts(&report), ["a: configure (memory: 1 -> 2): applied"]);
}

#[test]
fn a_start_that_takes_long_is_pending_and_requests_a_pass_at_its_end() {
    let sim = Sim::new();
    let config = sim.config().with_start_wait(Duration::from_millis(1));
    let desired = fixed([("a", "1")]);
    let mut engine = Engine::new(sim.clone(), desired, &sim.journal(), config).unwrap();
    let mut ledger = MemoryLedger::default();
    let (hints, hinted) = hints();
    let _subscription = engine.subscribe(&(), hints);
    let release = sim.hold(|world| &mut world.start_waits);
    // If a pass ends before the lane's turn, a later pass starts the action.
    let starting = Outcome::Pending(Pending::Own(Wait::Starting));
    while pass(&mut engine, &mut ledger).ops()[0].outcome != starting {}
    // Meanwhile no other action begins on it, and the engine answers.
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(report.ops()[0].outcome, starting);
    assert_eq!(engine.handle().operations().unwrap().len(), 1);
    release.send(()).unwrap();
    hinted.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!(sim.world().starts, 1);
}
