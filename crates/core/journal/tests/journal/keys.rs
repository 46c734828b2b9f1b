//! Idempotency keys: one execution, a permanent outcome, and reported doubts.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use trueup_journal::{Execution, Journal, Keep, KeyState, OperationState, Outcome, Refusal, Start};

use crate::common::{Disk, at, execute};

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

/// Begins an operation named like its key.
fn begin(journal: &Journal, key: &str) -> Execution {
    execute(journal, Start::new(key, b"").key(key.as_bytes()))
}

/// Returns the answer to another operation with a key, under its own name.
fn again(journal: &Journal, key: &str) -> KeyState {
    let start = Start::new("again", b"").key(key.as_bytes());
    match journal.begin(start).unwrap() {
        Ok(execution) => panic!("{execution:?}"),
        Err(state) => state,
    }
}

fn in_doubt(operation: &str) -> KeyState {
    KeyState::InDoubt { operation: operation.into() }
}

#[test]
fn the_first_outcome_stays_across_restarts() {
    let (disk, journal) = opened();
    let (made, failed) = (begin(&journal, "made"), begin(&journal, "failed"));
    let undone = begin(&journal, "undone");
    let executing = KeyState::InProgress { operation: "made".into() };
    assert_eq!(again(&journal, "made"), executing);
    assert_eq!(journal.key(b"made").unwrap(), Some(executing));
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
        assert_eq!(journal.operation("again").unwrap(), None);
    }
    assert_eq!(journal.stats().syncs, syncs, "to learn it costs no sync");

    // Operations are forgotten, keys stay.
    assert_eq!(journal.forget_operations(Keep::Latest(0)).unwrap(), 3);
    drop(journal);
    let journal = Journal::open_on(disk).unwrap();
    assert!(matches!(again(&journal, "made"), KeyState::Ended { .. }));
}

#[test]
fn a_key_is_refused_for_another_request_also_after_its_end_and_a_restart() {
    let (disk, journal) = opened();
    let ask = |journal: &Journal, what: &[u8], object: &[u8]| {
        let start = Start::new("name", what).object(object).key(b"k");
        journal.begin(start).map(Result::ok)
    };
    let is_refused = |journal: &Journal| {
        for (what, object) in [(&b"delete"[..], &b"a"[..]), (b"create", b"b"), (b"createa", b"")] {
            let error = ask(journal, what, object).unwrap_err();
            assert_eq!(error.refusal(), Some(Refusal::KeyUsed), "{error}");
        }
    };
    let execution = ask(&journal, b"create", b"a").unwrap().unwrap();
    is_refused(&journal);
    execution.succeeded(b"", at(1)).unwrap();
    is_refused(&journal);
    drop(journal);
    let journal = Journal::open_on(disk).unwrap();
    is_refused(&journal);
    assert!(ask(&journal, b"create", b"a").unwrap().is_none());
    // The request can differ from the description.
    let start = |what| Start::new("name", what).key(b"l").request(b"create");
    let Ok(execution) = journal.begin(start(b"at 1")).unwrap() else { panic!() };
    execution.succeeded(b"", at(1)).unwrap();
    assert!(matches!(journal.begin(start(b"at 2")), Ok(Err(_))));
}

#[test]
fn a_crash_between_start_and_outcome_leaves_it_in_doubt() {
    let (disk, journal) = opened();
    let execution = begin(&journal, "k");
    // The process ends here: only the device's content is left.
    let crashed = Disk::of(disk.bytes());
    drop(execution);
    let journal = Journal::open_on(crashed).unwrap();
    for _ in 0..2 {
        assert_eq!(again(&journal, "k"), in_doubt("k"));
    }
    let all = Keep::Latest(0);
    assert_eq!(journal.forget_keys(all).unwrap(), 0, "doubt stays");
    let resumed = journal.resume("k").unwrap();
    assert!(matches!(again(&journal, "k"), KeyState::InProgress { .. }));
    resumed.succeeded(b"found", at(1)).unwrap();
    assert!(matches!(again(&journal, "k"), KeyState::Ended { .. }));
}

/// However an executor ends, it leaves no lock behind: the key has its operation's state.
#[test]
fn an_execution_dropped_is_in_doubt_and_one_without_effect_frees_the_key() {
    let (_, journal) = opened();
    drop(begin(&journal, "dropped"));
    assert_eq!(again(&journal, "dropped"), in_doubt("dropped"));
    begin(&journal, "k").in_doubt("no answer").unwrap();
    assert_eq!(again(&journal, "k"), in_doubt("k"));
    let resumed = journal.resume("k").unwrap();
    resumed.not_executed("never sent", None, at(1)).unwrap();
    let found = journal.operation("k").unwrap().unwrap();
    assert_eq!(found.state, OperationState::Failed("never sent".into()));
    assert_eq!(journal.key(b"k").unwrap(), None);
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
    let younger = Keep::Younger { than: Duration::from_secs(5), now: at(9) };
    assert_eq!(journal.forget_keys(younger).unwrap(), 4);
    assert_eq!(journal.forget_keys(Keep::Latest(2)).unwrap(), 4);
    assert_eq!(journal.key(b"7").unwrap(), None);
    assert!(matches!(again(&journal, "8"), KeyState::Ended { .. }));
    open.succeeded(b"", at(0)).unwrap();
}

/// An operation without a key runs as often as it begins.
#[test]
fn an_empty_key_is_no_key() {
    let (_, journal) = opened();
    for second in 0..3 {
        let first = execute(&journal, Start::new("a", b"").key(b""));
        let beside = execute(&journal, Start::new("b", b""));
        first.succeeded(b"answer", at(second)).unwrap();
        beside.not_executed("why", None, at(second)).unwrap();
    }
    assert_eq!(journal.key(b"").unwrap(), None);
    assert_eq!(journal.forget_keys(Keep::Latest(0)).unwrap(), 0);
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

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Succeed,
    Fail,
    NotExecuted,
    Forget,
    ForgetKeys,
    Reopen,
}

fn step() -> impl Strategy<Value = (Step, usize, usize)> {
    use Step::{Begin, Fail, Forget, ForgetKeys, NotExecuted, Reopen, Succeed};
    let step = prop::sample::select(vec![
        Begin,
        Begin,
        Begin,
        Begin,
        Succeed,
        Fail,
        NotExecuted,
        Forget,
        ForgetKeys,
        Reopen,
    ]);
    (step, 0..3usize, 0..3usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Runs operations of three names with three keys, one of them empty, against a model. An
    /// operation begins if its key is free and its name is not in flight, and otherwise changes
    /// nothing. The first outcome of a key stays until it is forgotten.
    #[test]
    fn keys_are_those_of_their_operations(steps in prop::collection::vec(step(), 1..40)) {
        let (names, keys) = (["x", "y", "z"], ["", "k", "l"]);
        let (disk, mut journal) = opened();
        let mut in_flight: BTreeMap<&str, &str> = BTreeMap::new();
        let mut ended: BTreeMap<&str, Outcome> = BTreeMap::new();
        for (number, (step, name, key)) in steps.into_iter().enumerate() {
            let (name, key) = (names[name], keys[key]);
            match step {
                Step::Begin => {
                    let begun = journal.begin(Start::new(name, b"").key(key.as_bytes()));
                    let holder = in_flight.iter().find(|(_, its)| !key.is_empty() && **its == key);
                    match begun {
                        Ok(Ok(_)) => {
                            prop_assert!(holder.is_none() && !ended.contains_key(key));
                            prop_assert!(in_flight.insert(name, key).is_none());
                        }
                        Ok(Err(KeyState::Ended { outcome, .. })) => {
                            prop_assert_eq!(ended.get(key), Some(&outcome));
                        }
                        Ok(Err(KeyState::InDoubt { operation })) => {
                            prop_assert_eq!(holder.map(|(name, _)| *name), Some(&*operation));
                        }
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => {
                            prop_assert_eq!(error.refusal(), Some(Refusal::InFlight));
                            prop_assert!(in_flight.contains_key(name));
                            prop_assert!(holder.is_none() && !ended.contains_key(key));
                        }
                    }
                }
                Step::Succeed | Step::Fail | Step::NotExecuted => {
                    let Some(key) = in_flight.remove(name) else {
                        prop_assert!(journal.resume(name).is_err());
                        continue;
                    };
                    let execution = journal.resume(name).unwrap();
                    let text = number.to_string();
                    let outcome = match step {
                        Step::Succeed => {
                            execution.succeeded(text.as_bytes(), at(1)).unwrap();
                            Some(Outcome::Succeeded(text.into_bytes()))
                        }
                        Step::Fail => {
                            execution.failed(&text, None, at(1)).unwrap();
                            Some(Outcome::Failed(text))
                        }
                        _ => {
                            execution.not_executed(&text, None, at(1)).unwrap();
                            None
                        }
                    };
                    if !key.is_empty() {
                        ended.extend(outcome.map(|outcome| (key, outcome)));
                    }
                }
                Step::Forget => drop(journal.forget_operations(Keep::Latest(0)).unwrap()),
                Step::ForgetKeys => {
                    let forgotten = journal.forget_keys(Keep::Latest(0)).unwrap();
                    prop_assert_eq!(forgotten, std::mem::take(&mut ended).len() as u64);
                }
                Step::Reopen => {
                    drop(journal);
                    journal = Journal::open_on(disk.clone()).unwrap();
                }
            }
            let found = journal.in_flight().unwrap().0;
            let mut found: Vec<&str> = found.iter().map(|found| &*found.name).collect();
            found.sort_unstable();
            prop_assert_eq!(found, in_flight.keys().copied().collect::<Vec<_>>());
        }
    }
}
