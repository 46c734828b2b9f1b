//! Operations: the possible steps, the lists, and forgetting.

use std::time::Duration;

use proptest::prelude::*;
use trueup_journal::{Backoff, ErrorKind, Journal, Keep, OperationState, Refusal, Start};

use crate::common::{Disk, at, execute};

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

fn names(journal: &Journal) -> Vec<String> {
    let (operations, unreadable) = journal.in_flight().unwrap();
    assert!(unreadable.is_empty());
    operations.into_iter().map(|found| found.name).collect()
}

#[test]
fn in_flight_is_listed_in_order_with_all_that_was_recorded_after_reopening() {
    let (disk, journal) = opened();
    drop(execute(&journal, Start::new("c", b"")));
    let a = execute(&journal, Start::new("a", b""));
    let start = Start::new("b", b"resize").object(b"vm7").key(b"request 1");
    let mut b = execute(&journal, start);
    let d = execute(&journal, Start::new("d", b""));
    b.running("task 1").unwrap();
    b.step(b"power on").unwrap();
    assert_eq!(b.operation().state, OperationState::Started);
    assert_eq!(b.operation().task, None, "that of another step");
    b.running("task 2").unwrap();
    b.running("task 3").unwrap();
    a.succeeded(b"", at(1)).unwrap();
    d.failed("refused", None, at(1)).unwrap();
    let a = execute(&journal, Start::new("a", b"again"));
    a.in_doubt("no answer").unwrap();
    let known = b.operation().clone();
    drop((b, journal));

    let journal = Journal::open_on(disk).unwrap();
    assert_eq!(names(&journal), ["c", "b", "a"]);
    let found = journal.in_flight().unwrap().0;
    assert_eq!(found[1], known);
    assert_eq!(found[1].state, OperationState::Running);
    assert_eq!(found[1].task.as_deref(), Some("task 3"));
    assert_eq!((&found[1].object[..], &found[1].what[..]), (&b"vm7"[..], &b"resize"[..]));
    assert_eq!((&found[1].step[..], &found[1].key[..]), (&b"power on"[..], &b"request 1"[..]));
    assert_eq!(found[2].state, OperationState::InDoubt("no answer".into()));
    assert_eq!(found[2].what, b"again");
    let d = journal.operation("d").unwrap().unwrap();
    assert_eq!(d.state, OperationState::Failed("refused".into()));
    assert_eq!(journal.operation("e").unwrap(), None);

    // The new executor continues from there.
    let mut b = journal.resume("b").unwrap();
    assert_eq!(*b.operation(), known);
    b.running("task 4").unwrap();
    assert_eq!(journal.operation("b").unwrap().unwrap().step, b"power on");
}

#[test]
fn one_caller_at_a_time_executes_an_operation() {
    let (_, journal) = opened();
    let first = execute(&journal, Start::new("x", b""));
    let beside = journal.resume("x").unwrap_err();
    assert_eq!(beside.refusal(), Some(Refusal::InProgress));
    drop(first);
    let second = journal.resume("x").unwrap();
    assert!(journal.resume("x").is_err());
    second.in_doubt("why").unwrap();
    journal.resume("x").unwrap().succeeded(b"", at(1)).unwrap();
    let ended = journal.resume("x").unwrap_err();
    assert_eq!(ended.refusal(), Some(Refusal::Ended));
    let missing = journal.resume("y").unwrap_err();
    assert_eq!(missing.refusal(), Some(Refusal::NoOperation));
}

#[test]
fn what_ended_is_forgotten_by_choice_alone() {
    let (_, journal) = opened();
    for (second, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let execution = execute(&journal, Start::new(name, b""));
        execution.succeeded(b"", at(second as u64 * 10)).unwrap();
    }
    let _open = execute(&journal, Start::new("open", b""));
    let _anew = execute(&journal, Start::new("b", b"anew"));

    let younger = Keep::Younger { than: Duration::from_secs(10), now: at(30) };
    assert_eq!(journal.forget_operations(younger).unwrap(), 1, "a, but not b");
    assert_eq!(journal.operation("a").unwrap(), None);
    assert_eq!(journal.forget_operations(Keep::Latest(1)).unwrap(), 1, "c");
    assert_eq!(journal.operation("c").unwrap(), None);
    assert!(journal.operation("d").unwrap().is_some());
    let past = Keep::Younger { than: Duration::ZERO, now: at(0) };
    assert_eq!(journal.forget_operations(past).unwrap(), 0, "a clock set back forgets nothing");
    assert_eq!(names(&journal), ["open", "b"]);
}

#[test]
fn too_long_is_refused_before_anything_is_written() {
    let (_, journal) = opened();
    let mut execution = execute(&journal, Start::new("a", b""));
    let before = journal.stats();
    let long = "x".repeat(65_537);
    let bytes = long.as_bytes();
    let fine = || Start::new("b", b"");
    for start in [
        Start::new(&long, b""),
        fine().object(bytes),
        fine().key(bytes),
        fine().nonce(bytes, at(2), at(1)),
        fine().nonce(b"", at(2), at(1)),
    ] {
        let error = journal.begin(start).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    for task in ["", &long] {
        let error = execution.running(task).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let backoff = Backoff { tries: 1, next: at(1) };
    let error = journal.set_backoff(bytes, backoff).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(journal.stats(), before);
    drop(execute(&journal, Start::new(&long[1..], b"")));
}

#[test]
fn debug_shows_no_value() {
    let (_, journal) = opened();
    let start = Start::new("name", b"SECRET what").object(b"vm7").key(b"SECRET key").nonce(
        b"SECRET nonce",
        at(2),
        at(1),
    );
    let mut shown = format!("{start:?}");
    let mut execution = execute(&journal, start);
    execution.step(b"SECRET step").unwrap();
    execution.running("task 1").unwrap();
    shown += &format!("{execution:?}");
    execution.succeeded(b"SECRET answer", at(1)).unwrap();
    let again = journal.begin(start).unwrap();
    shown += &format!("{again:?} {:?}", journal.operation("name"));
    assert!(!shown.contains("SECRET"), "{shown}");
    for plain in ["name", "vm7", "task 1", "(13 bytes)"] {
        assert!(shown.contains(plain), "{shown}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Next,
    Running,
    InDoubt,
    Succeeded,
    Failed,
    NotExecuted,
    Reopen,
}

fn step() -> impl Strategy<Value = (Step, usize)> {
    use Step::{Begin, Failed, InDoubt, Next, NotExecuted, Reopen, Running, Succeeded};
    let step = prop::sample::select(vec![
        Begin,
        Begin,
        Next,
        Running,
        Running,
        InDoubt,
        Succeeded,
        Failed,
        NotExecuted,
        Reopen,
    ]);
    (step, 0..3usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a model, with reopening: each step succeeds or is refused as the table says, and a
    /// refused one writes nothing. A failure sets a backoff, and a success clears it.
    #[test]
    fn impossible_steps_are_refused(steps in prop::collection::vec(step(), 1..24)) {
        let names = ["x", "y", "z"];
        let (disk, mut journal) = opened();
        let mut model: [Option<OperationState>; 3] = [None, None, None];
        let mut backoffs = [None; 3];
        for (number, (step, which)) in steps.into_iter().enumerate() {
            let (name, known) = (names[which], &mut model[which]);
            let commits = journal.stats().commits;
            let resume = || journal.resume(name);
            let backoff = Backoff { tries: number as u32, next: at(number as u64) };
            let (result, next) = match step {
                Step::Begin => {
                    let start = Start::new(name, b"").object(name.as_bytes());
                    (journal.begin(start).map(drop), OperationState::Started)
                }
                Step::Next => (resume().and_then(|mut it| it.step(b"s")), OperationState::Started),
                Step::Running => {
                    (resume().and_then(|mut it| it.running("t")), OperationState::Running)
                }
                Step::InDoubt => {
                    let state = OperationState::InDoubt("d".into());
                    (resume().and_then(|it| it.in_doubt("d")), state)
                }
                Step::Succeeded => {
                    (resume().and_then(|it| it.succeeded(b"", at(0))), OperationState::Succeeded)
                }
                Step::Failed => (
                    resume().and_then(|it| it.failed("w", Some(backoff), at(0))),
                    OperationState::Failed("w".into()),
                ),
                Step::NotExecuted => (
                    resume().and_then(|it| it.not_executed("n", None, at(0))),
                    OperationState::Failed("n".into()),
                ),
                Step::Reopen => {
                    drop(journal);
                    journal = Journal::open_on(disk.clone()).unwrap();
                    continue;
                }
            };
            let ended = known.as_ref().map(OperationState::is_ended);
            let refusal = match (step, ended) {
                (Step::Begin, Some(false)) => Some(Refusal::InFlight),
                (Step::Begin, _) | (_, Some(false)) => None,
                (_, None) => Some(Refusal::NoOperation),
                (_, Some(true)) => Some(Refusal::Ended),
            };
            prop_assert_eq!(result.as_ref().err().and_then(|error| error.refusal()), refusal);
            prop_assert_eq!(result.is_ok(), refusal.is_none());
            prop_assert_eq!(journal.stats().commits - commits, u64::from(refusal.is_none()));
            if refusal.is_none() {
                *known = Some(next);
                match step {
                    Step::Succeeded => backoffs[which] = None,
                    Step::Failed => backoffs[which] = Some(backoff),
                    _ => {}
                }
            }
            let found = journal.operation(name).unwrap().map(|found| found.state);
            prop_assert_eq!(&found, known);
            prop_assert_eq!(journal.backoff(name.as_bytes()).unwrap(), backoffs[which]);
        }
    }
}
