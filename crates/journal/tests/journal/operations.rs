//! Operations: which steps are possible, what is listed, what is forgotten.

use std::time::Duration;

use proptest::prelude::*;
use trueup_journal::{ErrorKind, Journal, Keep, OperationState, Operations, Refusal};

use crate::common::{Disk, at};

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

fn names(operations: &Operations) -> Vec<String> {
    let in_flight = operations.in_flight().unwrap();
    in_flight.into_iter().map(|found| found.name).collect()
}

#[test]
fn in_flight_is_listed_in_order_after_reopening() {
    let (disk, journal) = opened();
    let operations = journal.operations();
    for name in ["c", "a", "b", "d"] {
        operations.begin(name, name.as_bytes()).unwrap();
    }
    operations.running("b", "task 1").unwrap();
    operations.running("b", "task 2").unwrap();
    operations.succeeded("a", at(1)).unwrap();
    operations.failed("d", "refused", at(1)).unwrap();
    operations.begin("a", b"again").unwrap();
    drop(operations);
    drop(journal);

    let journal = Journal::open_on(disk).unwrap();
    let operations = journal.operations();
    assert_eq!(names(&operations), ["c", "b", "a"]);
    let found = operations.in_flight().unwrap();
    assert_eq!(found[1].state, OperationState::Running("task 2".into()));
    assert_eq!(found[2].state, OperationState::Started);
    assert_eq!(found[2].what, b"again");
    let d = operations.find("d").unwrap().unwrap();
    assert_eq!(d.state, OperationState::Failed("refused".into()));
    assert_eq!(operations.find("e").unwrap(), None);
}

#[test]
fn what_ended_is_forgotten_by_choice_alone() {
    let (_, journal) = opened();
    let operations = journal.operations();
    for (second, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        operations.begin(name, b"").unwrap();
        operations.succeeded(name, at(second as u64 * 10)).unwrap();
    }
    operations.begin("open", b"").unwrap();
    operations.begin("b", b"anew").unwrap();

    let younger = Keep::Younger {
        than: Duration::from_secs(10),
        now: at(30),
    };
    assert_eq!(operations.forget(younger).unwrap(), 1, "a, but not b");
    assert_eq!(operations.find("a").unwrap(), None);
    assert_eq!(operations.forget(Keep::Latest(1)).unwrap(), 1, "c");
    assert_eq!(operations.find("c").unwrap(), None);
    assert!(operations.find("d").unwrap().is_some());
    let past = Keep::Younger {
        than: Duration::ZERO,
        now: at(0),
    };
    assert_eq!(
        operations.forget(past).unwrap(),
        0,
        "a clock set back forgets nothing"
    );
    assert_eq!(names(&operations), ["open", "b"]);
}

#[test]
fn too_long_is_refused_before_anything_is_written() {
    let (_, journal) = opened();
    let before = journal.stats();
    let long = "x".repeat(65_537);
    let error = journal.operations().begin(&long, b"").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = journal.operations().running("a", &long).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(journal.stats(), before);
    journal.operations().begin(&long[1..], b"").unwrap();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Running,
    Succeeded,
    Failed,
    Reopen,
}

fn step() -> impl Strategy<Value = (Step, usize)> {
    use Step::{Begin, Failed, Reopen, Running, Succeeded};
    let step = prop::sample::select(vec![
        Begin, Begin, Running, Running, Succeeded, Failed, Reopen,
    ]);
    (step, 0..3usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against a model of four states, through reopening: each step is done or refused as the table
    /// says, and a refused one writes nothing.
    #[test]
    fn impossible_steps_are_refused(steps in prop::collection::vec(step(), 1..24)) {
        let names = ["x", "y", "z"];
        let (disk, mut journal) = opened();
        let mut model: [Option<OperationState>; 3] = [None, None, None];
        for (step, which) in steps {
            let operations = journal.operations();
            let (name, known) = (names[which], &mut model[which]);
            let commits = journal.stats().commits;
            let (result, next) = match step {
                Step::Begin => (operations.begin(name, b""), OperationState::Started),
                Step::Running => (operations.running(name, "t"), OperationState::Running("t".into())),
                Step::Succeeded => (operations.succeeded(name, at(0)), OperationState::Succeeded),
                Step::Failed => (operations.failed(name, "w", at(0)), OperationState::Failed("w".into())),
                Step::Reopen => {
                    drop(operations);
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
            }
            let found = operations.find(name).unwrap().map(|found| found.state);
            prop_assert_eq!(&found, known);
        }
    }
}
