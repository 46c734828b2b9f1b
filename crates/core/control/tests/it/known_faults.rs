//! Faults that comparable systems have or had.

use std::time::Duration;

use trueup_control::{ErrorClass, JobState, Outcome, Pending, Verdict, Wait};
use trueup_journal::Start;
use trueup_reconcile::{MemoryLedger, Report as _};

use crate::engine::pass;
use crate::world::{Mode, Says, Sim, fixed, objects, snapshot};

/// kube-rs#1322: after a panic, reconciliations were skipped and the key was never processed again.
#[test]
fn kube_rs_1322_a_panic_concerns_one_call_and_no_later_one() {
    let sim = Sim::new();
    sim.world().mode = Mode::Panics;
    let (mut engine, mut ledger) = (sim.engine(fixed([("a", "1")])), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    assert!(!report.converged());
    let job = engine.handle().submit_job("k", snapshot("b", "k")).unwrap();
    assert!(!job.is_ended(), "{job:?}");
    sim.world().mode = Mode::Done;
    for _ in 0..2 {
        pass(&mut engine, &mut ledger);
    }
    assert!(pass(&mut engine, &mut ledger).converged());
    let job = engine.handle().submit_job("k", snapshot("b", "k")).unwrap();
    assert_eq!(job, JobState::Succeeded);
    assert_eq!(sim.world().effects.values().copied().collect::<Vec<_>>(), [1, 1]);
}

/// sidekiq-unique-jobs#293: a crash left a uniqueness lock behind, and the job never ran again.
#[test]
fn sidekiq_unique_jobs_293_a_crash_leaves_no_lock() {
    let sim = Sim::new();
    let engine = sim.engine(fixed([]));
    // The power fails after the start was recorded, and before the request is made.
    let before = sim.world().steps.len();
    sim.world().fails_at = Some(before + 4);
    let _ = engine.handle().submit_job("k", snapshot("a", "k"));
    drop(engine);
    assert_eq!(sim.world().starts, 0);
    sim.reboot();
    let engine = sim.engine(fixed([]));
    let job = engine.handle().submit_job("k", snapshot("a", "k")).unwrap();
    assert_eq!(job, JobState::Succeeded);
    assert_eq!(sim.world().starts, 1);
}

/// Proxmox 596: a time-out of the API was called a failure, though the guest was started.
#[test]
fn proxmox_596_a_lost_answer_is_no_failure() {
    for says in [Says::Truth, Says::Nothing] {
        let sim = Sim::new();
        sim.world().objects = objects([("a", "1")]);
        sim.world().mode = Mode::LosesAnswer;
        sim.world().says = says;
        let (mut engine, mut ledger) = (sim.engine(fixed([("a", "2")])), MemoryLedger::default());
        let report = pass(&mut engine, &mut ledger);
        let outcomes: Vec<_> = report.ops().iter().map(|op| &op.outcome).collect();
        assert_eq!(outcomes, [&Outcome::Applied], "{says:?}");
        assert!(report.converged());
        // A lost request is repeated once it can no longer take effect.
        let sim = Sim::new();
        sim.world().objects = objects([("a", "1")]);
        sim.world().mode = Mode::LosesRequest;
        sim.world().says = says;
        let (mut engine, mut ledger) = (sim.engine(fixed([("a", "2")])), MemoryLedger::default());
        let report = pass(&mut engine, &mut ledger);
        assert!(!report.converged());
        assert!(report.ops().iter().all(|op| !matches!(op.outcome, Outcome::Failed(_))));
        sim.world().mode = Mode::Done;
        if says == Says::Nothing {
            sim.advance(59);
            pass(&mut engine, &mut ledger);
            assert_eq!(sim.world().starts, 1);
            sim.advance(1);
        }
        assert!(pass(&mut engine, &mut ledger).converged());
        assert_eq!(sim.world().starts, 2);
    }
}

/// dbos-py#716: one record that could not be recovered stopped the recovery of all others.
#[test]
fn dbos_py_716_a_record_that_cannot_be_read_stops_no_other() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let (mut engine, mut ledger) = (sim.engine(fixed([("m", "1")])), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    drop(engine);
    let journal = sim.journal();
    for name in ["control/a", "control/z", "another engine/m"] {
        drop(journal.begin(Start::new(name, b"no record")).unwrap());
    }
    drop(journal);
    sim.advance(10);
    let desired = fixed([("a", "1"), ("m", "1"), ("n", "1")]);
    let mut engine = sim.engine(desired);
    let report = pass(&mut engine, &mut ledger);
    let in_doubt = |op: &&trueup_control::ControlOp| {
        matches!(op.outcome, Outcome::Pending(Pending::Own(Wait::InDoubt { .. })))
    };
    let keys: Vec<_> = report.ops().iter().filter(in_doubt).map(|op| &op.action.key).collect();
    assert_eq!(keys, ["a", "z"]);
    assert!(sim.world().objects.contains_key("m"));
    sim.advance(10);
    pass(&mut engine, &mut ledger);
    assert!(sim.world().objects.contains_key("n"));
    for key in ["a", "z"] {
        engine.handle().resolve(key, Verdict::NeverHappened).unwrap();
    }
    pass(&mut engine, &mut ledger);
    sim.advance(10);
    assert!(pass(&mut engine, &mut ledger).converged());
}

/// kubernetes#112325, controller-runtime#1594: other events skipped a backoff, a restart lost it,
/// and a success did not clear it.
#[test]
fn kubernetes_112325_a_backoff_holds_survives_a_restart_and_is_cleared() {
    let sim = Sim::new();
    sim.world().mode = Mode::Refuses(ErrorClass::Busy);
    let desired = fixed([("a", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    let mut starts = 0;
    for delay in [1, 2, 4, 8] {
        starts += 1;
        for _ in 0..5 {
            pass(&mut engine, &mut ledger);
            assert_eq!(sim.world().starts, starts);
        }
        drop(engine);
        engine = sim.engine(desired.clone());
        sim.advance(delay - 1);
        let report = pass(&mut engine, &mut ledger);
        assert_eq!(sim.world().starts, starts, "before {delay} s");
        assert_eq!(report.requeue_after(), Some(Duration::from_secs(1)));
        sim.advance(1);
    }
    sim.world().mode = Mode::Done;
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!(sim.journal().backoffs().unwrap().len(), 0);
    // The next failure starts with the first delay again.
    sim.world().mode = Mode::Refuses(ErrorClass::Busy);
    sim.world().objects.clear();
    pass(&mut engine, &mut ledger);
    sim.advance(1);
    sim.world().mode = Mode::Done;
    assert!(pass(&mut engine, &mut ledger).converged());
}

/// A permanent refusal is retried only after a long time, but at once if the desired object
/// changes.
#[test]
fn another_desired_object_ends_the_backoff() {
    let sim = Sim::new();
    sim.world().mode = Mode::Refuses(ErrorClass::Invalid);
    let desired = fixed([("a", "1"), ("b", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    sim.advance(599);
    pass(&mut engine, &mut ledger);
    assert_eq!(sim.world().starts, 2);
    desired.set(Some(objects([("a", "2"), ("b", "1")])));
    pass(&mut engine, &mut ledger);
    assert_eq!(sim.world().starts, 3);
    sim.advance(1);
    pass(&mut engine, &mut ledger);
    assert_eq!(sim.world().starts, 4);
}
