//! Recovery of another engine's operations, and doubts.

use std::time::Duration;

use trueup_control::{
    Engine, ErrorClass, ErrorKind, JobState, Objects, Outcome, Pending, Verdict, Wait,
};
use trueup_reconcile::{Ledger, MemoryLedger, Report as _};

use crate::engine::pass;
use crate::world::{Mode, Says, Sim, fixed, objects, snapshot};

#[test]
fn a_request_that_may_be_made_again_is_and_its_object_is_ours() {
    for (mode, starts) in [(Mode::LosesAnswer, 1), (Mode::LosesRequest, 2)] {
        let sim = Sim::new();
        sim.world().says = Says::Repeatable;
        sim.world().mode = mode;
        let desired = fixed([("a", "1")]);
        let mut ledger = MemoryLedger::default();
        let mut engine = sim.engine(desired.clone());
        pass(&mut engine, &mut ledger);
        drop(engine);
        sim.world().mode = Mode::Done;
        let mut engine = sim.engine(desired.clone());
        // The request ends, and the remaining actions run.
        pass(&mut engine, &mut ledger);
        sim.advance(1);
        assert!(pass(&mut engine, &mut ledger).converged());
        assert_eq!((sim.world().starts, mode), (starts, mode));
        desired.set(Some(Objects::new()));
        pass(&mut engine, &mut ledger);
        assert!(sim.world().objects.is_empty());
    }
}

#[test]
fn in_doubt_is_left_alone_until_the_operator_decides() {
    for (verdict, starts) in [(Verdict::Happened, 1), (Verdict::NeverHappened, 2)] {
        let sim = Sim::new();
        sim.world().says = Says::Nothing;
        sim.world().mode = Mode::LosesRequest;
        let (mut engine, mut ledger) = (sim.engine(fixed([])), MemoryLedger::default());
        let handle = engine.handle();
        let lost = JobState::Running { task: None, progress: None };
        assert_eq!(handle.submit_job("k", snapshot("a", "k")).unwrap(), lost);
        assert_eq!(
            handle.resolve("a", Verdict::Happened).unwrap_err().kind(),
            ErrorKind::NoOperation
        );
        sim.advance(60);
        let report = pass(&mut engine, &mut ledger);
        assert!(matches!(
            report.ops()[0].outcome,
            Outcome::Pending(Pending::Own(Wait::InDoubt { .. }))
        ));
        assert!(matches!(handle.job("k").unwrap(), Some(JobState::InDoubt(_))));
        assert!(matches!(
            handle.submit_job("k", snapshot("a", "k")).unwrap(),
            JobState::InDoubt(_)
        ));
        assert_eq!(handle.submit_job("k2", snapshot("a", "k2")).unwrap(), JobState::Waiting);

        // The doubt survives a restart.
        drop((engine, handle));
        let mut engine = sim.engine(fixed([]));
        assert!(!pass(&mut engine, &mut ledger).converged());
        let handle = engine.handle();
        assert!(matches!(handle.job("k").unwrap(), Some(JobState::InDoubt(_))));
        sim.world().mode = Mode::Done;
        handle.resolve("a", verdict).unwrap();
        assert_eq!(handle.submit_job("k", snapshot("a", "k")).unwrap(), JobState::Succeeded);
        assert_eq!(sim.world().starts, starts);
        assert!(pass(&mut engine, &mut ledger).converged());
    }
}

#[test]
fn another_engine_takes_over_while_handles_of_the_first_are_kept() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let (journal, mut ledger) = (sim.journal(), MemoryLedger::default());
    let mut first = sim.engine_on(&journal, fixed([("a", "1")]));
    pass(&mut first, &mut ledger);
    let handle = first.handle();
    drop(first);
    sim.advance(10);
    let mut second = sim.engine_on(&journal, fixed([("a", "1")]));
    assert!(pass(&mut second, &mut ledger).converged());
    assert_eq!(sim.world().starts, 1);
    let error = handle.submit_job("k", snapshot("a", "k")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ended);
    assert_eq!(handle.operations().unwrap_err().kind(), ErrorKind::Ended);
}

/// The backend answers the start of a dropped engine late.
#[test]
fn what_another_engine_still_waits_for_stops_the_recovery_of_no_other() {
    for (answer, starts) in [(Mode::Done, 2), (Mode::Refuses(ErrorClass::Busy), 3)] {
        let sim = Sim::new();
        let (journal, mut ledger) = (sim.journal(), MemoryLedger::default());
        let config = sim.config().with_start_wait(Duration::from_millis(50));
        let mut first = Engine::new(sim.clone(), fixed([("a", "1")]), &journal, config).unwrap();
        let release = sim.hold(|world| &mut world.start_waits);
        let starting = Outcome::Pending(Pending::Own(Wait::Starting));
        while pass(&mut first, &mut ledger).ops()[0].outcome != starting {}
        drop(first);
        let mut second = sim.engine_on(&journal, fixed([("a", "1"), ("b", "1")]));
        for _ in 0..2 {
            let report = pass(&mut second, &mut ledger);
            assert_eq!(report.ops()[0].outcome, starting, "{report:?}");
        }
        assert_eq!(sim.world().objects, objects([("b", "1")]));
        sim.world().next_mode = Some(answer);
        release.send(()).unwrap();
        while !pass(&mut second, &mut ledger).converged() {
            sim.advance(1);
            std::thread::yield_now();
        }
        assert_eq!(sim.world().starts, starts);
        assert_eq!(ledger.owned().unwrap().len(), 2);
    }
}

/// A dropped engine finds no result, but only after another engine has taken over.
#[test]
fn a_doubt_of_an_engine_that_was_dropped_is_left_to_the_operator_of_the_next() {
    let sim = Sim::new();
    sim.world().says = Says::Nothing;
    sim.world().mode = Mode::Task(10);
    let journal = sim.journal();
    let config = sim.config().with_start_wait(Duration::from_millis(50));
    let first = Engine::new(sim.clone(), fixed([]), &journal, config).unwrap();
    let handle = first.handle();
    while handle.submit_job("k", snapshot("a", "k")).is_err() {}
    // The backend forgets the task, and the observation that would show its effect hangs.
    sim.world().tasks.clear();
    sim.advance(60);
    let release = sim.hold(|world| &mut world.observe_waits);
    while sim.world().observe_waits.is_some() {
        assert!(handle.job("k").is_err());
    }
    drop(first);

    let (mut second, mut ledger) = (sim.engine_on(&journal, fixed([])), MemoryLedger::default());
    let starting = Outcome::Pending(Pending::Own(Wait::Starting));
    assert_eq!(pass(&mut second, &mut ledger).ops()[0].outcome, starting);
    release.send(()).unwrap();
    let is_in_doubt =
        |outcome: &Outcome| matches!(outcome, Outcome::Pending(Pending::Own(Wait::InDoubt { .. })));
    while !is_in_doubt(&pass(&mut second, &mut ledger).ops()[0].outcome) {
        std::thread::yield_now();
    }
    second.handle().resolve("a", Verdict::Happened).unwrap();
    let answer = second.handle().job("k").unwrap();
    assert_eq!(answer, Some(JobState::Succeeded));
}
