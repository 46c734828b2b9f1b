//! Idempotency keys: one execution, success for ever, doubt told.

use std::time::Duration;

use trueup_journal::{
    Ending, Journal, Keep, KeyState, OperationState, Refusal, Reservation, Reserved, Resolution,
};

use crate::common::{Disk, at};

fn opened() -> (Disk, Journal) {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    (disk, journal)
}

fn execute(journal: &Journal, key: &[u8]) -> Reservation {
    match journal.keys().reserve(key).unwrap() {
        Reserved::Execute(reservation) => reservation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn success_stays_across_restarts() {
    let (disk, journal) = opened();
    let reservation = execute(&journal, b"k");
    assert_eq!(reservation.key(), b"k");
    assert!(matches!(
        journal.keys().reserve(b"k").unwrap(),
        Reserved::InProgress
    ));
    assert_eq!(
        journal.keys().state(b"k").unwrap(),
        Some(KeyState::InProgress)
    );
    assert!(journal.keys().in_doubt().unwrap().is_empty());
    reservation.succeeded(b"answer", at(5)).unwrap();
    drop(journal);

    let journal = Journal::open_on(disk).unwrap();
    let syncs = journal.stats().syncs;
    let Reserved::Succeeded(answer) = journal.keys().reserve(b"k").unwrap() else {
        panic!("not succeeded");
    };
    assert_eq!(answer, b"answer");
    assert_eq!(journal.stats().syncs, syncs, "to be told so costs no sync");
}

#[test]
fn a_crash_between_reservation_and_success_leaves_it_in_doubt() {
    let (disk, journal) = opened();
    let reservation = execute(&journal, b"k");
    // The process is gone here: what is on the device is all that is left.
    let crashed = Disk::of(disk.bytes());
    drop(reservation);
    let journal = Journal::open_on(crashed).unwrap();
    let keys = journal.keys();
    for _ in 0..2 {
        assert!(matches!(keys.reserve(b"k").unwrap(), Reserved::InDoubt));
    }
    assert_eq!(keys.in_doubt().unwrap(), [b"k".to_vec()]);
    assert_eq!(keys.state(b"k").unwrap(), Some(KeyState::InDoubt));
    let all = Keep::Latest(0);
    assert_eq!(keys.forget(all).unwrap(), 0, "doubt is not forgotten");

    keys.resolve(b"k", Resolution::Succeeded(b"found".to_vec()), at(1))
        .unwrap();
    assert!(matches!(
        keys.reserve(b"k").unwrap(),
        Reserved::Succeeded(_)
    ));
    let again = keys
        .resolve(b"k", Resolution::NotExecuted, at(1))
        .unwrap_err();
    assert_eq!(again.refusal(), Some(Refusal::Succeeded));
}

#[test]
fn a_reservation_dropped_is_in_doubt_and_one_given_back_is_free() {
    let (_, journal) = opened();
    drop(execute(&journal, b"dropped"));
    assert!(matches!(
        journal.keys().reserve(b"dropped").unwrap(),
        Reserved::InDoubt
    ));
    execute(&journal, b"back").not_executed().unwrap();
    let held = execute(&journal, b"back");
    let resolved = journal
        .keys()
        .resolve(b"back", Resolution::NotExecuted, at(0));
    assert_eq!(resolved.unwrap_err().refusal(), Some(Refusal::InProgress));
    let missing = journal
        .keys()
        .resolve(b"none", Resolution::NotExecuted, at(0));
    assert_eq!(missing.unwrap_err().refusal(), Some(Refusal::NotReserved));
    drop(held);
    journal
        .keys()
        .resolve(b"back", Resolution::NotExecuted, at(0))
        .unwrap();
    let _ = execute(&journal, b"back");
}

#[test]
fn success_is_forgotten_by_choice_alone() {
    let (_, journal) = opened();
    for second in 0..10u8 {
        let reservation = execute(&journal, &[second]);
        reservation.succeeded(b"", at(second.into())).unwrap();
    }
    let reserved = execute(&journal, b"reserved");
    let keys = journal.keys();
    let younger = Keep::Younger {
        than: Duration::from_secs(5),
        now: at(9),
    };
    assert_eq!(keys.forget(younger).unwrap(), 4);
    assert_eq!(keys.forget(Keep::Latest(2)).unwrap(), 4);
    assert_eq!(keys.state(&[7]).unwrap(), None);
    assert!(matches!(
        keys.reserve(&[8]).unwrap(),
        Reserved::Succeeded(_)
    ));
    reserved.succeeded(b"", at(0)).unwrap();
}

/// An empty key is no key: what has none may run again, as often as it is asked for.
#[test]
fn an_empty_key_is_no_key_and_is_never_already_applied() {
    let (disk, journal) = opened();
    let writes = journal.stats().writes;
    for second in 0..3 {
        let first = execute(&journal, b"");
        let beside = execute(&journal, b"");
        first.succeeded(b"answer", at(second)).unwrap();
        beside.not_executed().unwrap();
        drop(execute(&journal, b""));
    }
    assert_eq!(journal.keys().state(b"").unwrap(), None);
    assert!(journal.keys().in_doubt().unwrap().is_empty());
    assert_eq!(journal.stats().writes, writes, "nothing is recorded");
    drop(journal);
    let journal = Journal::open_on(disk).unwrap();
    drop(execute(&journal, b""));
    // An operation without a key ends by itself, whoever ends it.
    for name in ["reserved", "resolved"] {
        journal.operations().begin(name, b"").unwrap();
        let ending = Ending::Succeeded(Vec::new());
        match name {
            "reserved" => execute(&journal, b"").end(name, ending, at(1)),
            _ => journal.keys().end(b"", name, ending, at(1)),
        }
        .unwrap();
        let again = journal
            .keys()
            .end(b"", name, Ending::Succeeded(Vec::new()), at(1));
        assert_eq!(again.unwrap_err().refusal(), Some(Refusal::Ended));
    }
    let resolved = journal
        .keys()
        .resolve(b"", Resolution::NotExecuted, at(0))
        .unwrap_err();
    assert_eq!(resolved.refusal(), Some(Refusal::NotReserved));
}

#[test]
fn an_operation_and_its_key_end_in_one_commit() {
    let (disk, journal) = opened();
    let (operations, keys) = (journal.operations(), journal.keys());
    for name in ["a", "b", "c", "without"] {
        operations.begin(name, b"").unwrap();
    }
    let answer = || Ending::Succeeded(b"answer".to_vec());
    let commits = journal.stats().commits;
    execute(&journal, b"a").end("a", answer(), at(5)).unwrap();
    assert_eq!(
        journal.stats().commits - commits,
        2,
        "of the reservation, and of the end"
    );
    let failed = Ending::Failed("refused".into());
    execute(&journal, b"b").end("b", failed, at(6)).unwrap();
    execute(&journal, b"")
        .end("without", answer(), at(7))
        .unwrap();
    // Refused for the operation's sake or for the key's, nothing has ended.
    for operation in ["a", "none"] {
        execute(&journal, b"refused")
            .end(operation, answer(), at(8))
            .unwrap_err();
        assert_eq!(keys.state(b"refused").unwrap(), Some(KeyState::InDoubt));
        keys.resolve(b"refused", Resolution::NotExecuted, at(8))
            .unwrap();
    }
    let refused = keys.end(b"a", "c", answer(), at(9)).unwrap_err();
    assert_eq!(refused.refusal(), Some(Refusal::Succeeded));
    drop((operations, keys, journal));

    let journal = Journal::open_on(disk).unwrap();
    let (operations, keys) = (journal.operations(), journal.keys());
    let found = |name| operations.find(name).unwrap().unwrap();
    assert_eq!(
        (found("a").state, found("a").ended),
        (OperationState::Succeeded, Some(at(5)))
    );
    let succeeded = KeyState::Succeeded {
        answer: b"answer".to_vec(),
        at: at(5),
    };
    assert_eq!(keys.state(b"a").unwrap(), Some(succeeded));
    let failed = OperationState::Failed("refused".into());
    assert_eq!((found("b").state, found("b").ended), (failed, Some(at(6))));
    assert_eq!(keys.state(b"b").unwrap(), None, "free again");
    assert_eq!(found("without").ended, Some(at(7)));
    assert_eq!(
        (found("c").state, found("c").ended),
        (OperationState::Started, None)
    );
}
