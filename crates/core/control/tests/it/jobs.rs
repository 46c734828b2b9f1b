//! Jobs: at most one execution for an idempotency key.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use trueup_control::{
    Action, Backend, Config, Engine, Error, ErrorKind, JobState, Object, Observed, Started, Task,
    Verb,
};
use trueup_journal::Journal;
use trueup_reconcile::{MemoryLedger, Report as _};
use trueup_testkit::Scratch;

use crate::engine::pass;
use crate::world::{Mode, Sim, fixed, snapshot};

#[test]
fn sixty_four_threads_with_one_key_execute_once() {
    for mode in [Mode::Done, Mode::Task(0)] {
        let sim = Sim::new();
        sim.world().mode = mode;
        let engine = sim.engine(fixed([]));
        let begin = Barrier::new(64);
        let answers: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..64)
                .map(|number| {
                    let (handle, begin) = (engine.handle(), &begin);
                    // Some name another object: the first one has the key.
                    let object = if number % 4 == 0 { "b" } else { "a" };
                    scope.spawn(move || {
                        begin.wait();
                        let wait = Duration::from_secs(60);
                        handle.wait_job("k", &snapshot(object, "k"), wait)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (done, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        let counts = (done.len(), refused.len());
        assert!([(48, 16), (16, 48)].contains(&counts), "{counts:?} {refused:?}");
        for answer in done {
            assert_eq!(answer.unwrap(), JobState::Succeeded);
        }
        for answer in refused {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert_eq!(sim.world().effects["k"], 1);
        assert_eq!(sim.world().starts, 1);
    }
}

#[test]
fn a_task_waits_for_the_end_of_a_job() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let engine = sim.engine(fixed([]));
    let handle = engine.handle();
    // The clock stands still until the task has begun.
    let advance_after = |starts| {
        while sim.world().starts < starts {
            thread::yield_now();
        }
        sim.advance(10);
    };
    let ended = handle.job_ended("k", &snapshot("a", "k"));
    advance_after(1);
    assert_eq!(smol::block_on(ended).unwrap(), JobState::Succeeded);
    assert_eq!(sim.world().effects["k"], 1);
    // Dropped or not, the call submits the job.
    drop(handle.job_ended("d", &snapshot("d", "d")));
    advance_after(2);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let again = handle.job_ended("d", &snapshot("d", "d"));
    assert_eq!(runtime.block_on(async { again.await.unwrap() }), JobState::Succeeded);
    assert_eq!(sim.world().effects["d"], 1);
    let other = smol::block_on(handle.job_ended("k", &snapshot("b", "k"))).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Invalid);
    // The end of the engine ends the wait.
    let never = handle.job_ended("n", &snapshot("n", "n"));
    let waiting = thread::spawn(move || smol::block_on(never).unwrap_err().kind());
    while sim.world().starts < 3 {
        thread::yield_now();
    }
    drop(engine);
    assert_eq!(waiting.join().unwrap(), ErrorKind::Ended);
    let late = smol::block_on(handle.job_ended("l", &snapshot("l", "l"))).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Ended);
}

#[test]
fn a_waiting_job_is_tried_once_more_after_its_future_is_dropped() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let engine = sim.engine(fixed([]));
    let handle = engine.handle();
    let first = || handle.submit_job("first", snapshot("a", "first")).unwrap();
    assert!(matches!(first(), JobState::Running { .. }));
    let (sender, answered) = channel();
    let waker = Waker::from(Arc::new(Sends(sender)));
    let mut ended = Box::pin(handle.job_ended("k", &snapshot("a", "k")));
    let mut poll = || ended.as_mut().poll(&mut Context::from_waker(&waker));
    // The answer may come before the first poll; then that poll asks again.
    assert!(poll().is_pending());
    answered.recv_timeout(Duration::from_secs(60)).unwrap();
    sim.advance(10);
    assert_eq!(first(), JobState::Succeeded);
    assert!(poll().is_pending());
    drop(ended);
    while sim.world().starts < 2 {
        thread::yield_now();
    }
}

/// A waker that sends.
struct Sends(Sender<()>);

impl Wake for Sends {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

#[test]
fn the_first_outcome_is_the_answer_also_of_a_failure_and_after_a_restart() {
    let sim = Sim::new();
    sim.world().mode = Mode::TaskFails(10);
    let (mut engine, mut ledger) = (sim.engine(fixed([])), MemoryLedger::default());
    let submit = |engine: &Engine<Sim, _>| engine.handle().submit_job("k", snapshot("a", "k"));
    assert!(matches!(submit(&engine).unwrap(), JobState::Running { task: Some(_), .. }));
    assert!(!pass(&mut engine, &mut ledger).converged());
    sim.advance(10);
    pass(&mut engine, &mut ledger);
    let failed = JobState::Failed("no space".to_owned());
    assert_eq!(submit(&engine).unwrap(), failed);
    drop(engine);
    sim.world().mode = Mode::Done;
    let engine = sim.engine(fixed([]));
    assert_eq!(submit(&engine).unwrap(), failed);
    assert_eq!(sim.world().starts, 1);
    assert_eq!(engine.handle().job("another").unwrap(), None);
    let error = engine.handle().submit_job("", snapshot("a", "k")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_refused_job_may_be_tried_again() {
    let sim = Sim::new();
    sim.world().mode = Mode::Refuses(trueup_control::ErrorClass::Busy);
    let engine = sim.engine(fixed([]));
    let submit = || engine.handle().submit_job("k", snapshot("a", "k")).unwrap();
    assert!(matches!(submit(), JobState::Refused { .. }));
    sim.world().mode = Mode::Done;
    assert_eq!(submit(), JobState::Succeeded);
}

#[test]
fn a_task_that_the_backend_forgot_is_looked_for() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    sim.world().forgets_tasks = true;
    let engine = sim.engine(fixed([]));
    let submit = || engine.handle().submit_job("k", snapshot("a", "k")).unwrap();
    assert!(matches!(submit(), JobState::Running { .. }));
    sim.advance(10);
    assert_eq!(submit(), JobState::Succeeded);
}

/// A backend that appends a line to a file for each effect.
struct Lines(PathBuf);

impl Backend for Lines {
    fn observe(&self) -> Result<Observed, Error> {
        Ok(Observed::default())
    }

    fn is_benign(&self, _: &Action, _: Option<&Object>) -> bool {
        true
    }

    fn start(&self, _: &Action, request: &str) -> Started {
        use std::io::Write as _;
        let file = fs::OpenOptions::new().append(true).create(true).open(&self.0);
        let line = file.and_then(|mut file| writeln!(file, "{request}"));
        line.map_or_else(
            |error| Started::Indeterminate { message: error.to_string() },
            |()| Started::Done,
        )
    }

    fn task(&self, _: &str) -> Result<Task, Error> {
        Ok(Task::Unknown)
    }
}

const DIRECTORY: &str = "TRUEUP_CONTROL_DIRECTORY";

/// One of the processes of the test below; does nothing unless its variable is set.
#[test]
fn one_process() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else {
        return;
    };
    let journal = Journal::open_within(directory.join("journal"), Duration::from_secs(60));
    let lines = Lines(directory.join("lines"));
    let engine = Engine::new(lines, None, &journal.unwrap(), Config::default()).unwrap();
    let action = Action::new("a", Verb::Other("charge".into()));
    let state = engine.handle().submit_job("k", action).unwrap();
    assert_eq!(state, JobState::Succeeded);
}

#[test]
fn eight_processes_with_one_key_execute_once() {
    let directory = Scratch::make("jobs").unwrap();
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = Command::new(&program);
            command.args(["--exact", "jobs::one_process"]).env(DIRECTORY, &*directory);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let lines = fs::read_to_string(directory.join("lines")).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

/// This holds whether the first job has ended or not, without waiting for calls that hang.
#[test]
fn a_key_that_was_used_for_another_action_is_refused_at_once() {
    let sim = Sim::new();
    sim.world().mode = Mode::Task(10);
    let config = sim.config().with_start_wait(Duration::from_millis(100));
    let engine = Engine::new(sim.clone(), fixed([]), &sim.journal(), config).unwrap();
    let handle = engine.handle();
    let submit = |object: &str| handle.submit_job("k", snapshot(object, "k"));
    let is_late = |answer: &Result<_, Error>| {
        let error = answer.as_ref().err();
        error.is_some_and(|error| error.kind() == ErrorKind::Timeout)
    };
    while is_late(&submit("a")) {}
    let release = sim.hold(|world| &mut world.task_waits);
    // The question about its task hangs in its object's lane.
    while sim.world().task_waits.is_some() {
        assert!(is_late(&submit("a")));
    }
    let is_refused = || {
        let others = [snapshot("b", "k"), snapshot("a", "another")];
        others.into_iter().all(|action| {
            let error = handle.submit_job("k", action).unwrap_err();
            error.kind() == ErrorKind::Invalid && error.to_string().contains("another action")
        })
    };
    assert!(is_refused());
    release.send(()).unwrap();
    let wait = Duration::from_secs(60);
    sim.advance(10);
    let ended = handle.wait_job("k", &snapshot("a", "k"), wait).unwrap();
    assert_eq!(ended, JobState::Succeeded);
    assert!(is_refused());
    assert_eq!(sim.world().starts, 1);
}
