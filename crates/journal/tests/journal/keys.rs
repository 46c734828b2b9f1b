//! Idempotency keys: one execution, its outcome for ever, doubt reported.

use std::time::Duration;

use trueup_journal::{Begun, Execution, Journal, Keep, KeyState, OperationState, Outcome, Start};

use crate::common::{Disk, at, execute};

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

/// Begins an operation of the name of its key.
fn begin(journal: &Journal, key: &str) -> Execution {
    execute(journal, Start::new(key, b"").key(key.as_bytes()))
}

/// The answer to one more operation with a key, under a name of its own.
fn again(journal: &Journal, key: &str) -> KeyState {
    let start = Start::new("again", b"").key(key.as_bytes());
    match journal.operations().begin(start).unwrap() {
        Begun::Execute(execution) => panic!("{execution:?}"),
        Begun::Repeated(state) => state,
    }
}

fn in_doubt(operation: &str) -> KeyState {
    KeyState::InDoubt {
        operation: operation.into(),
    }
}

#[test]
fn the_first_outcome_stays_across_restarts() {
    let (disk, journal) = opened();
    let (made, failed) = (begin(&journal, "made"), begin(&journal, "failed"));
    let undone = begin(&journal, "undone");
    let executing = KeyState::InProgress {
        operation: "made".into(),
    };
    assert_eq!(again(&journal, "made"), executing);
    assert_eq!(journal.operations().key(b"made").unwrap(), Some(executing));
    made.succeeded(b"answer", at(5)).unwrap();
    failed.failed("refused", None, at(6)).unwrap();
    undone.compensated("half done", None, at(7)).unwrap();
    drop(journal);

    let journal = Journal::open_on(disk.clone()).unwrap();
    let syncs = journal.stats().syncs;
    for (key, outcome, time) in [
        ("made", Outcome::Succeeded(b"answer".to_vec()), at(5)),
        ("failed", Outcome::Failed("refused".into()), at(6)),
        ("undone", Outcome::Compensated("half done".into()), at(7)),
    ] {
        let ended = KeyState::Ended { outcome, at: time };
        assert_eq!(again(&journal, key), ended);
        assert_eq!(journal.operations().find("again").unwrap(), None);
    }
    assert_eq!(journal.stats().syncs, syncs, "to learn it costs no sync");

    // Operations are forgotten, keys stay.
    assert_eq!(journal.operations().forget(Keep::Latest(0)).unwrap(), 3);
    drop(journal);
    let journal = Journal::open_on(disk).unwrap();
    assert!(matches!(again(&journal, "made"), KeyState::Ended { .. }));
}

#[test]
fn a_crash_between_start_and_outcome_leaves_it_in_doubt() {
    let (disk, journal) = opened();
    let execution = begin(&journal, "k");
    // The process is gone here: what is on the device is all that is left.
    let crashed = Disk::of(disk.bytes());
    drop(execution);
    let journal = Journal::open_on(crashed).unwrap();
    let operations = journal.operations();
    for _ in 0..2 {
        assert_eq!(again(&journal, "k"), in_doubt("k"));
    }
    let all = Keep::Latest(0);
    assert_eq!(operations.forget_keys(all).unwrap(), 0, "doubt stays");
    let resumed = operations.resume("k").unwrap();
    assert!(matches!(again(&journal, "k"), KeyState::InProgress { .. }));
    resumed.succeeded(b"found", at(1)).unwrap();
    assert!(matches!(again(&journal, "k"), KeyState::Ended { .. }));
}

/// No lock is left behind, whichever way an executor goes: the key is that of its operation.
#[test]
fn an_execution_dropped_is_in_doubt_and_one_without_effect_frees_the_key() {
    let (_, journal) = opened();
    drop(begin(&journal, "dropped"));
    assert_eq!(again(&journal, "dropped"), in_doubt("dropped"));
    begin(&journal, "k").in_doubt("no answer").unwrap();
    assert_eq!(again(&journal, "k"), in_doubt("k"));
    let resumed = journal.operations().resume("k").unwrap();
    resumed.not_executed("never sent", None, at(1)).unwrap();
    let found = journal.operations().find("k").unwrap().unwrap();
    assert_eq!(found.state, OperationState::Failed("never sent".into()));
    assert_eq!(journal.operations().key(b"k").unwrap(), None);
    let panicked = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _execution = begin(&journal, "k");
            panic!("on purpose");
        });
        thread.join().is_err()
    });
    assert!(panicked);
    assert_eq!(again(&journal, "k"), in_doubt("k"));
}

#[test]
fn outcomes_are_forgotten_by_choice_alone() {
    let (_, journal) = opened();
    for second in 0..10 {
        let execution = begin(&journal, &second.to_string());
        execution.succeeded(b"", at(second)).unwrap();
    }
    let open = begin(&journal, "open");
    let operations = journal.operations();
    let younger = Keep::Younger {
        than: Duration::from_secs(5),
        now: at(9),
    };
    assert_eq!(operations.forget_keys(younger).unwrap(), 4);
    assert_eq!(operations.forget_keys(Keep::Latest(2)).unwrap(), 4);
    assert_eq!(operations.key(b"7").unwrap(), None);
    assert!(matches!(again(&journal, "8"), KeyState::Ended { .. }));
    open.succeeded(b"", at(0)).unwrap();
}

/// An empty key is no key: an operation without one runs as often as it begins.
#[test]
fn an_empty_key_is_no_key() {
    let (_, journal) = opened();
    for second in 0..3 {
        let first = execute(&journal, Start::new("a", b"").key(b""));
        let beside = execute(&journal, Start::new("b", b""));
        first.succeeded(b"answer", at(second)).unwrap();
        beside.not_executed("why", None, at(second)).unwrap();
    }
    assert_eq!(journal.operations().key(b"").unwrap(), None);
    assert_eq!(
        journal.operations().forget_keys(Keep::Latest(0)).unwrap(),
        0
    );
}

#[test]
fn an_operation_and_its_key_take_one_commit_each_to_begin_and_to_end() {
    let (_, journal) = opened();
    let start = Start::new("a", b"").key(b"k").object(b"vm");
    let commits = || journal.stats().commits;
    let execution = execute(&journal, start.nonce(b"n", at(9), at(1)));
    assert_eq!(commits(), 1);
    execution.succeeded(b"", at(2)).unwrap();
    assert_eq!(commits(), 2);
}
