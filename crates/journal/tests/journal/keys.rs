//! Idempotency keys: one execution, success for ever, doubt told.

use std::time::Duration;

use trueup_journal::{Journal, Keep, KeyState, Refusal, Reservation, Reserved, Resolution};

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
