//! Jobs of several steps.

use std::collections::BTreeMap;

use trueup_control::{Action, ErrorKind, Operation, StepsState, Verb, Verdict, Wait};
use trueup_journal::Journal;
use trueup_reconcile::{MemoryLedger, PassInput, Source as _};
use trueup_testkit::is_long;

use crate::world::{Mode, Says, Sim, fixed, snapshot};

fn steps() -> Vec<(Action, Option<Action>)> {
    let verb = |verb: &str, key: &str, label: &str| {
        Action::new(key, Verb::Other(verb.into())).with("label", label)
    };
    vec![
        (verb("allocate", "disk", "one"), Some(verb("free", "disk", "undo one"))),
        (verb("note", "log", "two"), None),
        (verb("start", "vm", "three"), Some(verb("stop", "vm", "undo three"))),
    ]
}

/// Submits the job until it has ended, for at most 200 s, or until the power fails. `None` if it
/// has not ended.
fn run(sim: &Sim) -> Option<StepsState> {
    let Ok(journal) = Journal::open_on(sim.clone()) else {
        return None;
    };
    let (mut engine, mut ledger) = (sim.engine_on(&journal, fixed([])), MemoryLedger::default());
    let mut last = None;
    for _ in 0..40 {
        let _ = engine.reconcile(PassInput::new(&(), &(), &mut ledger, &()));
        if let Ok(state) = engine.handle().submit_steps("k", &steps()) {
            last = Some(state);
        }
        if last.as_ref().is_some_and(StepsState::is_ended) || sim.world().is_off {
            break;
        }
        sim.advance(5);
    }
    if last.as_ref().is_some_and(StepsState::is_ended) && !sim.world().is_off {
        assert_eq!(engine.handle().unfinished_steps().unwrap(), [""; 0]);
    }
    last
}

fn world(mode: Mode, fails: Option<&'static str>) -> Sim {
    let sim = Sim::new();
    sim.world().mode = mode;
    sim.world().says = Says::Truth;
    sim.world().fails = fails;
    sim
}

#[test]
fn steps_are_done_once_or_undone_whenever_the_power_fails() {
    let once = |labels: &[&str]| -> BTreeMap<String, u32> {
        labels.iter().map(|label| ((*label).to_owned(), 1)).collect()
    };
    let cases = [
        (None, once(&["one", "two", "three"])),
        (Some("three"), once(&["one", "two", "undo one"])),
        (Some("one"), once(&[])),
    ];
    for (mode, says) in [
        (Mode::Done, Says::Truth),
        (Mode::Task(10), Says::Truth),
        (Mode::Done, Says::Nothing),
        (Mode::Task(10), Says::Nothing),
    ] {
        for (fails, expected) in &cases {
            let world = || {
                let sim = world(mode, *fails);
                sim.world().says = says;
                sim
            };
            let whole = world();
            let state = run(&whole).unwrap();
            match fails {
                None => assert_eq!(state, StepsState::Succeeded),
                Some(_) => assert!(matches!(&state, StepsState::Compensated(_)), "{state:?}"),
            }
            assert_eq!(whole.world().effects, *expected);
            let count = whole.world().steps.len();
            let mut doubts = 0;
            // At each step the power fails, or the process ends: both with `TRUEUP_LONG=1`.
            let stops = (1..=count).flat_map(|at| [(at, true), (at, false)]);
            let stops = stops.filter(|(at, is_power)| is_long() || (at % 2 == 0) == *is_power);
            for (at, is_power) in stops {
                let sim = world();
                sim.world().fails_at = Some(at);
                let before = run(&sim);
                match is_power {
                    true => sim.reboot(),
                    false => sim.restart(),
                }
                let mut after = run(&sim);
                if resolve(&sim) {
                    assert_eq!(says, Says::Nothing);
                    doubts += 1;
                    after = run(&sim);
                }
                let what = format!("{mode:?} {fails:?} {says:?}, at step {at} of {count}");
                assert_eq!(after.as_ref(), Some(&state), "{what}");
                if before.as_ref().is_some_and(StepsState::is_ended) {
                    assert_eq!(before, after, "{what}");
                }
                assert_eq!(sim.world().effects, *expected, "{what}");
            }
            println!("{mode:?} {fails:?} {says:?}: {count} steps, {doubts} stops end in doubt");
            assert_eq!(doubts > 0, says == Says::Nothing);
        }
    }
}

/// Decides the step in doubt, if there is one, by the true result.
fn resolve(sim: &Sim) -> bool {
    let journal = sim.journal();
    let engine = sim.engine_on(&journal, fixed([]));
    let handle = engine.handle();
    let operations = handle.operations().unwrap();
    let in_doubt = |it: &&Operation| matches!(it.state, Wait::InDoubt { .. });
    let Some(doubt) = operations.iter().find(in_doubt) else {
        return false;
    };
    let label = doubt.action.as_ref().unwrap().new_value("label").unwrap();
    let verdict = match sim.world().effects.get(label.expose()) {
        Some(_) => Verdict::Happened,
        None => Verdict::NeverHappened,
    };
    handle.resolve(&doubt.key, verdict).unwrap();
    true
}

#[test]
fn a_job_that_is_being_undone_never_goes_forward_again() {
    let whole = world(Mode::Done, Some("three"));
    run(&whole).unwrap();
    let count = whole.world().steps.len();
    let mut ends = BTreeMap::new();
    for at in 1..=count {
        let sim = world(Mode::Done, Some("three"));
        sim.world().fails_at = Some(at);
        run(&sim);
        sim.reboot();
        // The backend no longer refuses the step.
        sim.world().fails = None;
        let state = run(&sim).unwrap();
        let world = sim.world();
        let is_done = world.effects.contains_key("three");
        assert_ne!(is_done, world.effects.contains_key("undo one"), "at step {at}");
        assert_eq!(is_done, state == StepsState::Succeeded, "at step {at}");
        *ends.entry(is_done).or_insert(0) += 1;
    }
    assert_eq!(ends.len(), 2, "{ends:?}");
}

#[test]
fn a_step_that_cannot_be_undone_is_said_and_other_steps_need_another_key() {
    let sim = world(Mode::Task(10), Some("three"));
    let engine = sim.engine(fixed([]));
    let handle = engine.handle();
    let submit = || handle.submit_steps("k", &steps()).unwrap();
    for _ in 0..3 {
        let StepsState::Pending { is_compensation, .. } = submit() else { panic!() };
        assert!(!is_compensation);
        sim.advance(10);
    }
    assert!(matches!(submit(), StepsState::Pending { step: 0, is_compensation: true, .. }));
    assert_eq!(handle.unfinished_steps().unwrap(), ["k"]);
    sim.world().mode = Mode::TaskFails(10);
    sim.advance(10);
    let expected = "step 2: no space; step 0 is not undone: no space";
    assert_eq!(submit(), StepsState::Failed(expected.to_owned()));
    assert_eq!(submit(), StepsState::Failed(expected.to_owned()));

    let handle = &handle;
    let kind = |key: &str, steps: &[(Action, Option<Action>)]| {
        handle.submit_steps(key, steps).unwrap_err().kind()
    };
    assert!(handle.submit_steps("k2", &steps()).is_ok());
    assert_eq!(kind("k2", &steps()[..2]), ErrorKind::Invalid);
    assert_eq!(kind("k\0", &steps()), ErrorKind::Invalid);
    let error = handle.submit_job("k2", snapshot("a", "x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
