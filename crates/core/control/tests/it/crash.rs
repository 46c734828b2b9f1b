//! The power fails, or the agent is killed, at each step of the disk and of the backend in turn.

use std::num::NonZeroUsize;
use std::time::Duration;

use trueup_control::{
    Action, Approval, Engine, Gate, JobState, Object, Objects, Provider, Terms, Verdict,
};
use trueup_journal::LedgerScope;
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_testkit::is_long;

use crate::world::{Mode, Says, Sim, fixed, snapshot};

/// The agent's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// A job that its object does not show.
    Job,
    /// A job that needs an approval.
    Approved,
    /// A job that configures its object.
    Visible,
    /// A desired state: one object to create, and one to configure and to start.
    Desired,
}

/// The way in which the agent stops, and the state for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The power fails: data that was not synced is lost.
    Power,
    /// The process is killed: the data that it has written stays.
    Kill,
    /// The process is killed, and then the backend's objects cannot be read for a while.
    KillThenUnread,
}

/// The agent's answers before it stopped.
#[derive(Debug, Default)]
struct Known {
    job: Option<JobState>,
    converged: bool,
    tokens: u8,
}

fn provider(script: Script) -> impl Provider {
    let (desired, b) = (fixed([("new", "1")]), Object::new().with("memory", "2"));
    let mut objects = Objects::new();
    if script == Script::Desired {
        objects = [("new".to_owned(), Object::new().with("memory", "1"))].into();
        objects.insert("b".to_owned(), b.with_run_state("running"));
    }
    desired.set(Some(objects));
    desired
}

fn action(script: Script) -> Option<Action> {
    match script {
        Script::Job | Script::Approved => Some(snapshot("a", "k")),
        Script::Visible => {
            let action = Action::new("a", trueup_control::Verb::Configure);
            Some(action.with("memory", "2").with("label", "k"))
        }
        Script::Desired => None,
    }
}

/// Runs an agent until it has completed the script, for at most 200 s, or until the power fails.
/// Each token has its own nonce.
fn run(sim: &Sim, script: Script, nonce: u8) -> Known {
    let mut known = Known::default();
    let Ok(journal) = trueup_journal::Journal::open_on(sim.clone()) else {
        assert!(sim.world().is_off, "the journal is damaged");
        return known;
    };
    let scope = LedgerScope::new("host", "boot");
    let Ok(mut ledger) = journal.ledger("control", &scope) else {
        return known;
    };
    // One lane at a time: parallel lanes may share syncs, and then the steps would differ between
    // runs.
    let config = sim.config().with_lanes(NonZeroUsize::MIN);
    let config = config.with_gate(Gate::new("host", |_, signature| signature == b"signed"));
    let mut engine = Engine::new(sim.clone(), provider(script), &journal, config).unwrap();
    let handle = engine.handle();
    for _ in 0..40 {
        let pass = engine.reconcile(PassInput::new(&(), &(), &mut ledger, &()));
        known.converged = pass.is_ok_and(|report| report.converged());
        if let Some(action) = action(script) {
            match handle.submit_job("k", action.clone()) {
                Ok(JobState::NeedsApproval(request)) => {
                    known.tokens += 1;
                    let nonce = [nonce + known.tokens; 16];
                    let expires = sim.now() + Duration::from_secs(100);
                    let terms =
                        Terms::new(request.hash, request.journal, nonce, sim.now(), expires);
                    let token = Approval::sign(terms, |_| b"signed".to_vec());
                    handle.approve(&token.to_string()).unwrap();
                    let state = handle.submit_job("k", action).ok();
                    known.job = state.or(known.job);
                }
                Ok(state) => known.job = Some(state),
                Err(_) => {}
            }
        }
        let is_done = match script {
            Script::Desired => known.converged,
            _ => known.job.as_ref().is_some_and(JobState::is_ended) && known.converged,
        };
        if is_done || sim.world().is_off {
            break;
        }
        sim.advance(5);
    }
    known
}

fn world(script: Script, mode: Mode, says: Says) -> Sim {
    let sim = Sim::new();
    let object = || Object::new().with("memory", "1").with("label", "none");
    let mut world = sim.world();
    world.objects.insert("a".to_owned(), object());
    world.objects.insert("b".to_owned(), object().with_run_state("stopped"));
    world.mode = mode;
    world.says = says;
    world.is_benign = script != Script::Approved;
    drop(world);
    sim
}

/// Runs a script with a stop at each step, and then another agent. The stops take turns. Returns the number of steps, and
/// of stops that ended in doubt. The first start is answered as `first` says.
fn at_every_step(
    script: Script,
    (first, mode): (Option<Mode>, Mode),
    says: Says,
    stops: &[Stop],
) -> (usize, usize) {
    let world = |script, mode, says| {
        let sim = world(script, mode, says);
        sim.world().next_mode = first;
        sim
    };
    let whole = world(script, mode, says);
    let known = run(&whole, script, 0);
    let is_done = known.converged && (script == Script::Desired) == known.job.is_none();
    assert!(is_done, "{script:?} {mode:?} {says:?}: {known:?}");
    let steps = whole.world().steps.len();
    let (whole_objects, whole_effects) = {
        let world = whole.world();
        (world.objects.clone(), world.effects.clone())
    };
    let mut doubts = 0;
    for at in 1..=steps {
        let sim = world(script, mode, says);
        sim.world().fails_at = Some(at);
        let before = run(&sim, script, 0);
        assert!(sim.world().is_off);
        let stop = stops[at % stops.len()];
        match stop {
            Stop::Power => sim.reboot(),
            Stop::Kill => sim.restart(),
            Stop::KillThenUnread => {
                sim.restart();
                let mut world = sim.world();
                world.unread_until = world.now + 20;
            }
        }
        // A request stays in doubt if its start was recorded and its answer was not, and neither
        // the backend nor the object shows a result.
        let (operations, unreadable) = sim.journal().in_flight().unwrap();
        assert!(unreadable.is_empty());
        let is_lost = operations.iter().any(|operation| operation.task.is_none());
        let shows = says == Says::Truth || !matches!(script, Script::Job | Script::Approved);
        let what =
            format!("{script:?} {first:?} {mode:?} {says:?} {stop:?}, at step {at} of {steps}");

        let after = run(&sim, script, 100);
        if let Some(JobState::InDoubt(_)) = after.job {
            assert!(is_lost && !shows, "{what}: in doubt, and the truth can be known");
            doubts += 1;
            let happened = sim.world().effects.get("k").copied().unwrap_or(0);
            let verdict = match happened {
                0 => Verdict::NeverHappened,
                _ => Verdict::Happened,
            };
            let engine = sim.engine(fixed([]));
            engine.handle().resolve("a", verdict).unwrap();
            drop(engine);
            let resolved = run(&sim, script, 200);
            assert_eq!(resolved.job, Some(JobState::Succeeded), "{what}");
        } else {
            assert!(!is_lost || shows, "{what}: {after:?}");
            assert!(after.converged, "{what}: {after:?}");
            if script != Script::Desired {
                assert_eq!(after.job, Some(JobState::Succeeded), "{what}");
            }
        }
        // If a task id was acknowledged, the next agent knows it.
        if let Some(JobState::Running { task: Some(_), .. }) = before.job {
            assert_eq!(after.job, Some(JobState::Succeeded), "{what}");
        }
        // Acknowledged results stay, and nothing took effect twice.
        if before.job.as_ref().is_some_and(JobState::is_ended) {
            assert_eq!(before.job, Some(JobState::Succeeded), "{what}");
            assert_eq!(after.job, before.job, "{what}");
        }
        let world = sim.world();
        assert_eq!(world.effects, whole_effects, "{what}");
        assert_eq!(world.objects, whole_objects, "{what}");
        drop(world);
        // The agent knows that it created the object.
        if script == Script::Desired {
            let journal = sim.journal();
            let ledger = journal.ledger("control", &LedgerScope::new("host", "boot")).unwrap();
            let owned = trueup_reconcile::Ledger::owned(&ledger).unwrap();
            assert_eq!(owned.keys().collect::<Vec<_>>(), [b"new"], "{what}");
        }
    }
    (steps, doubts)
}

/// Returns the runs over all steps, each with the stops that take turns from step to step. With
/// `TRUEUP_LONG=1` each stop has a run of its own.
fn in_turn(stops: &[Stop]) -> Vec<Vec<Stop>> {
    if is_long() { stops.iter().map(|stop| vec![*stop]).collect() } else { vec![stops.to_vec()] }
}

const STOPS: [Stop; 3] = [Stop::Power, Stop::Kill, Stop::KillThenUnread];

#[test]
fn a_job_is_executed_once_whenever_the_agent_stops() {
    for stops in in_turn(&STOPS) {
        for script in [Script::Job, Script::Approved, Script::Visible] {
            for mode in [Mode::Done, Mode::Task(10)] {
                let (steps, doubts) = at_every_step(script, (None, mode), Says::Truth, &stops);
                println!("{stops:?}: {script:?} {mode:?}: {steps} steps");
                assert!(steps > 8);
                assert_eq!(doubts, 0);
                let (_, doubts) = at_every_step(script, (None, mode), Says::Nothing, &stops);
                // Exactly the stops between the record of the start and the record of the answer.
                assert_eq!(doubts > 0, script != Script::Visible, "{script:?} {mode:?}");
                println!("{stops:?}: {script:?} {mode:?}, not said: {doubts} in doubt");
            }
        }
    }
}

#[test]
fn a_desired_state_is_reached_whenever_the_agent_stops() {
    for stops in in_turn(&STOPS) {
        for mode in [Mode::Done, Mode::Task(10)] {
            for says in [Says::Truth, Says::Nothing] {
                let (steps, doubts) = at_every_step(Script::Desired, (None, mode), says, &stops);
                println!("{stops:?}: {mode:?} {says:?}: {steps} steps");
                assert!(steps > 8);
                assert_eq!(doubts, 0);
            }
        }
    }
}

/// The first request or its answer is lost, and the agent also stops.
#[test]
fn what_is_lost_takes_effect_once_whenever_the_agent_stops() {
    for stops in in_turn(&[Stop::Power, Stop::KillThenUnread]) {
        for first in [Mode::LosesAnswer, Mode::LosesRequest, Mode::Panics] {
            let modes = (Some(first), Mode::Done);
            for script in [Script::Job, Script::Approved, Script::Visible, Script::Desired] {
                let (steps, doubts) = at_every_step(script, modes, Says::Truth, &stops);
                println!("{stops:?}: {script:?} {first:?}: {steps} steps");
                assert!(steps > 8);
                assert_eq!(doubts, 0);
            }
            // If the backend cannot answer, the object shows the result.
            for script in [Script::Visible, Script::Desired] {
                let (_, doubts) = at_every_step(script, modes, Says::Nothing, &stops);
                assert_eq!(doubts, 0);
            }
        }
    }
}
