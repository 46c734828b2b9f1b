//! Opening and reading cost nothing; the first change opens for writing. A caller that only reads
//! needs no permission to write.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use trueup_journal::{ErrorKind, Journal, JournalLedger, LedgerScope, Start};
use trueup_reconcile::{Claim, Ledger as _};
use trueup_testkit::Scratch;

use crate::common::{Disk, Event, cause, claims, export, ours};

fn ledger(journal: &Journal) -> JournalLedger {
    journal.ledger("rtnl", &LedgerScope::new("n", "b")).unwrap()
}

/// Makes every call that changes nothing in a journal with one owned key `k`.
fn change_nothing(journal: &Journal) {
    let mut ledger = ledger(journal);
    assert_eq!(ledger.owned().unwrap().len(), 1);
    assert!(ledger.open_intents().unwrap().is_empty());
    ledger.begin(BTreeMap::new()).unwrap();
    ledger.commit_outcomes(BTreeMap::new()).unwrap();
    let so_already = claims([("k", ours("v")), ("other", Claim::NotOurs)]);
    ledger.commit_outcomes(so_already).unwrap();
    assert_eq!(journal.forget_other_boots("b").unwrap(), 0);
    assert!(journal.resume("none").is_err());
    assert!(journal.in_flight().unwrap().0.is_empty());
}

#[test]
fn to_open_and_to_change_nothing_writes_nothing() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    ledger(&journal).commit_outcomes(claims([("k", ours("v"))])).unwrap();
    // The state after a crash, and after closing.
    let crashed = Disk::of(disk.bytes());
    drop(journal);
    for disk in [crashed, Disk::of(disk.bytes())] {
        let journal = Journal::open_on(disk.clone()).unwrap();
        change_nothing(&journal);
        assert_eq!(journal.stats(), Default::default());
        drop(journal);
        assert!(disk.log().is_empty(), "{:?}", disk.log());
    }
}

#[test]
fn what_is_not_there_is_made_by_the_first_change() {
    let directory = Scratch::make("first").unwrap();
    let path = directory.join("journal");
    for _ in 0..2 {
        let journal = Journal::open(&path).unwrap();
        assert_eq!(export(&journal), "");
        ledger(&journal).commit_outcomes(BTreeMap::new()).unwrap();
        drop(journal);
        assert_eq!(directory.names(), ["journal.lock"]);
    }
    let journal = Journal::open(&path).unwrap();
    ledger(&journal).commit_outcomes(claims([("k", ours("v"))])).unwrap();
    assert_eq!(directory.names(), ["journal", "journal.lock"]);
    // The disk has the same state at this moment.
    let seen = ledger(&Journal::open_read_only(&path).unwrap()).owned().unwrap();
    assert_eq!(seen, ledger(&journal).owned().unwrap());
    drop(journal);
    let journal = Journal::open(&path).unwrap();
    change_nothing(&journal);
}

/// Checks the numbers in the contract's page.
#[test]
fn the_syncs_of_a_life() {
    let commit = |journal: &Journal, value: &str| {
        let before = journal.stats();
        ledger(journal).commit_outcomes(claims([("k", ours(value))])).unwrap();
        let after = journal.stats();
        assert_eq!(after.commits, before.commits + 1);
        after.syncs - before.syncs
    };
    let directory = Scratch::make("syncs").unwrap();
    let journal = Journal::open(directory.join("journal")).unwrap();
    let made = commit(&journal, "1");
    assert_eq!((made, commit(&journal, "2"), commit(&journal, "3")), (1, 1, 1));
    let crashed = Disk::of(fs::read(directory.join("journal")).unwrap());
    drop(journal);
    let closed = Disk::of(fs::read(directory.join("journal")).unwrap());
    for (disk, first, at_the_end) in [(closed, 1, 1), (crashed, 6, 1)] {
        let journal = Journal::open_on(disk.clone()).unwrap();
        let opened = commit(&journal, "4");
        assert_eq!((opened, commit(&journal, "5")), (first, 1));
        let syncs = || disk.log().iter().filter(|event| matches!(event, Event::Sync)).count();
        let before = syncs();
        drop(journal);
        assert_eq!(syncs() - before, at_the_end);
    }
}

#[test]
fn of_many_first_changes_none_is_lost() {
    let directory = Scratch::make("many-first").unwrap();
    let journal = Journal::open(directory.join("journal")).unwrap();
    let executed = thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|thread| {
                let journal = &journal;
                scope.spawn(move || {
                    drop(journal.begin(Start::new(&thread.to_string(), b"")).unwrap());
                    let name = format!("keyed {thread}");
                    let start = Start::new(&name, b"").key(b"one");
                    match journal.begin(start).unwrap() {
                        Ok(execution) => {
                            execution.succeeded(b"", crate::common::at(0)).unwrap();
                            1
                        }
                        Err(_) => 0,
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    assert_eq!(executed, 1);
    let known = export(&journal);
    drop(journal);
    let journal = Journal::open(directory.join("journal")).unwrap();
    assert_eq!(journal.in_flight().unwrap().0.len(), 16);
    assert_eq!(export(&journal), known);
}

#[test]
fn one_that_cannot_be_made_is_read_only_and_empty() {
    let directory = Scratch::make("unmade").unwrap();
    let path = directory.join("journal");
    let obstacle = directory.join("journal.new");
    fs::create_dir(&obstacle).unwrap();
    let journal = Journal::open(&path).unwrap();
    let mut ledger = ledger(&journal);
    let error = ledger.begin(claims([("k", Claim::NotOurs)])).unwrap_err();
    assert_eq!(cause(&error).kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.to_string().contains("cannot make"), "{error}");
    fs::remove_dir(&obstacle).unwrap();
    let error = ledger.begin(claims([("k", Claim::NotOurs)])).unwrap_err();
    assert_eq!(cause(&error).kind(), ErrorKind::ReadOnly, "{error}");
    assert!(ledger.open_intents().unwrap().is_empty());
    assert!(!path.exists());
}

#[test]
fn a_peek_changes_nothing_and_needs_no_lock() {
    let directory = Scratch::make("peek").unwrap();
    let path = directory.join("journal");
    let peeked = Journal::open_read_only(&path).unwrap();
    assert_eq!(export(&peeked), "");
    assert!(directory.names().is_empty());

    let journal = Journal::open(&path).unwrap();
    let mut writer = ledger(&journal);
    writer.begin(claims([("k", ours("v"))])).unwrap();
    let peeked = Journal::open_read_only(&path).unwrap();
    let mut reader = ledger(&peeked);
    assert_eq!(reader.open_intents().unwrap(), claims([("k", ours("v"))]));
    writer.commit_outcomes(claims([("k", ours("v"))])).unwrap();
    assert!(reader.owned().unwrap().is_empty(), "as it was when looked at");

    let bytes = fs::read(&path).unwrap();
    for error in [
        reader.begin(claims([("x", ours("1"))])).unwrap_err(),
        reader.commit_outcomes(claims([("k", Claim::NotOurs)])).unwrap_err(),
    ] {
        let error = cause(&error);
        assert_eq!(error.kind(), ErrorKind::ReadOnly);
        let text = error.to_string();
        assert_eq!(text, "the journal was opened read-only");
        assert!(error.remedy().is_some());
    }
    assert!(peeked.compact().unwrap_err().is_read_only());
    drop((reader, peeked));
    assert!(fs::read(&path).unwrap() == bytes);
}

/// A reader never sees half a commit, and never less than was durable when it began.
#[test]
fn a_peek_beside_a_writer_sees_whole_commits() {
    let directory = Scratch::make("beside").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    let mut writer = ledger(&journal);
    let pair =
        |value: u32| claims([("a", ours(value.to_be_bytes())), ("b", ours(value.to_be_bytes()))]);
    writer.commit_outcomes(pair(0)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for value in 1..400 {
                writer.commit_outcomes(pair(value)).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut last = 0;
        while !done.load(Ordering::Relaxed) {
            let seen = match Journal::open_read_only(&path) {
                Ok(peeked) => ledger(&peeked).owned().unwrap(),
                // A writer that does nothing else may spoil every attempt; then the result is this
                // error.
                Err(error) => {
                    assert!(error.is_damaged(), "{error}");
                    continue;
                }
            };
            let (a, b) = (&seen[&b"a"[..]], &seen[&b"b"[..]]);
            assert_eq!(a, b);
            let value = u32::from_be_bytes(a.as_slice().try_into().unwrap());
            assert!(value >= last, "{value} after {last}");
            last = value;
        }
    });
    assert_eq!(
        ledger(&Journal::open_read_only(&path).unwrap()).owned().unwrap()[&b"a"[..]],
        399u32.to_be_bytes()
    );
}

#[test]
fn a_fifo_in_the_place_of_a_file_of_the_journal_is_refused_at_once() {
    let directory = Scratch::make("fifo").unwrap();
    let fifo = |name: &str| {
        let path = directory.join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        path
    };
    let refused = |error: trueup_journal::Error| {
        assert_eq!(error.kind(), ErrorKind::Os, "{error}");
        assert!(error.to_string().contains("it is a FIFO"), "{error}");
    };
    let journal = fifo("journal");
    refused(Journal::open(&journal).unwrap_err());
    refused(Journal::open_read_only(&journal).unwrap_err());
    refused(trueup_journal::check(&journal).unwrap_err());
    fifo("locked.lock");
    let locked = directory.join("locked");
    refused(Journal::open(&locked).unwrap_err());
    refused(trueup_journal::check_not_held(&locked).unwrap_err());
    fifo("new.new");
    let journal = Journal::open(directory.join("new")).unwrap();
    let error = ledger(&journal).commit_outcomes(claims([("k", ours("v"))]));
    let error = cause(&error.unwrap_err()).clone();
    assert!(error.to_string().contains("it is a FIFO"), "{error}");
}
