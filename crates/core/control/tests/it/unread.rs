//! Objects that could not be read.

use trueup_control::{
    Config, Engine, Error, ErrorKind, JobState, Object, Objects, Outcome, Pending, Report, Wait,
};
use trueup_reconcile::{Ledger, MemoryLedger, PassInput, Report as _, Source as _, utc};

use crate::engine::{pass, texts};
use crate::world::{Mode, Says, Sim, fixed, objects, snapshot};

fn unread(sim: &Sim, key: &str) {
    sim.world().unread.insert(key.to_owned(), "no answer within 5 s".to_owned());
}

fn read_again(sim: &Sim) {
    sim.world().unread.clear();
}

fn statuses(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    report.statuses(&mut |_, status| all.push(status.map_or("none".into(), |it| it.to_string())));
    all
}

#[test]
fn nothing_is_done_to_what_is_not_read_and_everything_else_goes_on() {
    let sim = Sim::new();
    sim.world().objects = objects([("b", "1"), ("c", "1")]);
    // The backend also returns it as an object, which must not count.
    sim.world().objects.insert("a".to_owned(), Object::new());
    unread(&sim, "a");
    let desired = fixed([("a", "2"), ("b", "2"), ("c", "1"), ("d", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired), MemoryLedger::default());
    let since = utc(sim.now());
    let report = pass(&mut engine, &mut ledger);
    let expected = ["b: configure (memory: 1 -> 2): applied", "d: create (memory: 1): applied"];
    assert_eq!(texts(&report), expected);
    assert!(!report.converged() && report.missing().is_empty());
    let said = format!("a: not read since {since}: no answer within 5 s");
    assert_eq!(report.unread()[0].to_string(), said);
    let status =
        format!("object a: pending: it could not be read since {since}: no answer within 5 s");
    assert_eq!(statuses(&report), [status]);
    assert_eq!(report.requeue_after(), Some(std::time::Duration::from_secs(2)));

    // The time stays the first pass's, and the status is reported once.
    sim.advance(100);
    let report = pass(&mut engine, &mut ledger);
    assert_eq!(report.unread()[0].to_string(), said);
    assert!(report.ops().is_empty() && statuses(&report).is_empty() && !report.converged());
    assert_eq!(sim.world().starts, 2);

    read_again(&sim);
    let report = pass(&mut engine, &mut ledger);
    assert!(report.converged() && report.unread().is_empty());
    assert_eq!(statuses(&report), ["none"]);
    assert_eq!(sim.world().starts, 3);
    // After a successful read, the time starts anew.
    unread(&sim, "a");
    assert_ne!(pass(&mut engine, &mut ledger).unread()[0].to_string(), said);
}

#[test]
fn what_is_not_read_is_neither_missing_nor_undesired() {
    let sim = Sim::new();
    sim.world().objects = objects([("foreign", "1")]);
    unread(&sim, "a");
    unread(&sim, "foreign");
    let clock = sim.clone();
    let config = Config::default().with_clock(move || clock.now());
    let desired = fixed([("a", "1"), ("b", "1")]);
    let mut engine = Engine::new(sim.clone(), desired, &sim.journal(), config).unwrap();
    let report = pass(&mut engine, &mut MemoryLedger::default());
    assert_eq!(report.missing(), ["b"]);
    assert!(report.undesired().is_empty() && report.ops().is_empty());
    assert_eq!(statuses(&report).len(), 2);
}

#[test]
fn what_cannot_be_read_back_at_all_has_no_outcome_yet() {
    let sim = Sim::new();
    sim.world().start_hides_all = true;
    let (mut engine, mut ledger) = (sim.engine(fixed([("a", "1")])), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    assert!(!report.converged() && !report.is_seen_whole());
    assert!(report.trouble().unwrap().contains("could not be read back"));
    let expected = "a: create (memory: 1): pending, it is found out whether it took effect: it is \
                    done, and its object is not read yet";
    assert_eq!(texts(&report), [expected]);
    sim.world().hides_all = false;
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!((sim.world().starts, ledger.owned().unwrap().len()), (1, 1));
}

#[test]
fn what_a_backend_did_not_say_it_is_asked_again() {
    let sim = Sim::new();
    sim.world().says = Says::Nothing;
    sim.world().mode = Mode::LosesAnswer;
    let (mut engine, mut ledger) = (sim.engine(fixed([])), MemoryLedger::default());
    engine.handle().submit_job("k", snapshot("a", "k")).unwrap();
    pass(&mut engine, &mut ledger);
    // Long before the doubt.
    sim.world().says = Says::Truth;
    pass(&mut engine, &mut ledger);
    assert_eq!(engine.handle().job("k").unwrap(), Some(JobState::Succeeded));
}

#[test]
fn an_unread_lane_stands_for_all_of_its_objects() {
    let sim = Sim::new();
    unread(&sim, "vm1");
    let desired = fixed([("vm1", "1"), ("vm1/disk", "1"), ("vm10", "1"), ("vm2/disk", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    let created: Vec<_> = report.ops().iter().map(|op| &op.action.key).collect();
    assert_eq!(created, ["vm10", "vm2/disk"]);
    assert_eq!(statuses(&report).len(), 2);
    assert_eq!(report.unread().len(), 1);
}

#[test]
fn what_is_neither_desired_nor_ours_does_not_hold_up_convergence() {
    let sim = Sim::new();
    unread(&sim, "foreign");
    let desired = fixed([("a", "1")]);
    let (mut engine, mut ledger) = (sim.engine(desired.clone()), MemoryLedger::default());
    let report = pass(&mut engine, &mut ledger);
    assert!(report.converged());
    assert_eq!(report.unread().len(), 1);

    // An unread object of ours that must be destroyed prevents convergence, and stays ours.
    desired.set(Some(Objects::new()));
    unread(&sim, "a");
    let report = pass(&mut engine, &mut ledger);
    assert!(!report.converged() && report.ops().is_empty() && report.undesired().is_empty());
    assert_eq!(ledger.owned().unwrap().len(), 1);
    read_again(&sim);
    assert_eq!(texts(&pass(&mut engine, &mut ledger)), ["a: destroy: applied"]);
}

#[test]
fn an_operation_is_not_ended_while_its_object_is_not_read() {
    for (mode, ends) in
        [(Mode::Task(10), "applied"), (Mode::TaskFails(10), "failed, no space (unknown)")]
    {
        let sim = Sim::new();
        sim.world().objects = objects([("a", "1")]);
        sim.world().mode = mode;
        let (mut engine, mut ledger) = (sim.engine(fixed([("a", "2")])), MemoryLedger::default());
        pass(&mut engine, &mut ledger);
        sim.advance(10);
        unread(&sim, "a");
        for _ in 0..3 {
            let report = pass(&mut engine, &mut ledger);
            let outcome = &report.ops()[0].outcome;
            assert!(
                matches!(outcome, Outcome::Pending(Pending::Own(Wait::Lost { .. }))),
                "{outcome:?}"
            );
            // The status is the operation's.
            assert!(statuses(&report).iter().all(|it| !it.contains("could not be read")));
        }
        // The same holds after a restart.
        drop(engine);
        let mut engine = sim.engine(fixed([("a", "2")]));
        assert!(!pass(&mut engine, &mut ledger).converged());
        assert_eq!(engine.handle().operations().unwrap().len(), 1);
        // The engine keeps the backend's answer, even if the backend forgets the task.
        sim.world().forgets_tasks = true;
        read_again(&sim);
        let report = pass(&mut engine, &mut ledger);
        assert!(report.ops()[0].to_string().ends_with(ends), "{report:?}");
        assert_eq!(sim.world().starts, 1);
    }
}

#[test]
fn a_request_whose_answer_was_lost_is_asked_again_until_its_object_is_read() {
    for says in [Says::Truth, Says::Nothing, Says::Repeatable] {
        for (mode, starts) in [(Mode::LosesAnswer, 1), (Mode::LosesRequest, 2)] {
            let sim = Sim::new();
            sim.world().objects = objects([("a", "1")]);
            sim.world().mode = mode;
            sim.world().says = says;
            let mut ledger = MemoryLedger::default();
            let mut engine = sim.engine(fixed([("a", "2")]));
            // It cannot be read back.
            sim.world().start_hides = Some("a".to_owned());
            pass(&mut engine, &mut ledger);
            sim.world().mode = Mode::Done;
            // Long after any request could still take effect, and after a restart.
            sim.advance(1000);
            for _ in 0..2 {
                pass(&mut engine, &mut ledger);
                let operations = engine.handle().operations().unwrap();
                assert!(!matches!(operations[0].state, Wait::InDoubt { .. }));
                drop(engine);
                engine = sim.engine(fixed([("a", "2")]));
            }
            assert_eq!(sim.world().starts, 1);
            read_again(&sim);
            for _ in 0..2 {
                pass(&mut engine, &mut ledger);
                sim.advance(1);
            }
            assert!(pass(&mut engine, &mut ledger).converged());
            assert_eq!(sim.world().starts, starts, "{says:?} {mode:?}");
        }
    }
}

#[test]
fn a_doubt_is_not_resolved_by_an_object_that_is_not_read() {
    let sim = Sim::new();
    sim.world().says = Says::Nothing;
    sim.world().mode = Mode::LosesAnswer;
    let (mut engine, mut ledger) = (sim.engine(fixed([])), MemoryLedger::default());
    engine.handle().submit_job("k", snapshot("a", "k")).unwrap();
    sim.advance(60);
    pass(&mut engine, &mut ledger);
    let state = |it: Option<JobState>| matches!(it, Some(JobState::InDoubt(_)));
    assert!(state(engine.handle().job("k").unwrap()));
    unread(&sim, "a");
    sim.world().says = Says::Truth;
    let running = JobState::Running { task: None, progress: None };
    assert_eq!(engine.handle().job("k").unwrap(), Some(running));
    read_again(&sim);
    assert_eq!(engine.handle().job("k").unwrap(), Some(JobState::Succeeded));
}

#[test]
fn a_job_on_an_object_that_is_not_read_does_not_begin() {
    let sim = Sim::new();
    unread(&sim, "vm1");
    let engine = sim.engine(fixed([]));
    let submit = |key: &str| engine.handle().submit_job("k", snapshot(key, "k"));
    let error: Error = submit("vm1/disk").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(error.is_retryable() && error.to_string().contains("vm1/disk could not be read"));
    assert_eq!(sim.world().starts, 0);
    read_again(&sim);
    assert_eq!(submit("vm1/disk").unwrap(), JobState::Succeeded);
}

/// If the whole observation fails, no operation is judged, as for an unread object.
#[test]
fn an_observation_that_fails_ends_nothing() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let (mut engine, mut ledger) = (sim.engine(fixed([("a", "1")])), MemoryLedger::default());
    pass(&mut engine, &mut ledger);
    sim.advance(10);
    sim.world().hides_all = true;
    assert!(engine.reconcile(PassInput::new(&(), &(), &mut ledger, &())).is_err());
    assert_eq!(engine.handle().operations().unwrap().len(), 1);
    sim.world().hides_all = false;
    assert!(pass(&mut engine, &mut ledger).converged());
    assert_eq!((sim.world().starts, ledger.owned().unwrap().len()), (1, 1));
}

#[test]
fn a_text_of_the_backend_that_is_cut_ends_with_an_ellipsis() {
    let sim = Sim::new();
    let said = |why: String| {
        sim.world().unread.insert("a".to_owned(), why);
        let report = pass(&mut sim.engine(fixed([])), &mut MemoryLedger::default());
        report.unread()[0].why.clone()
    };
    let longest = "a".repeat(4096);
    assert_eq!(said(longest.clone()), longest);
    // It is cut between two characters.
    let cut = said(format!("a{}", "ä".repeat(2048)));
    assert_eq!(cut, format!("a{}…", "ä".repeat(2047)));
}
