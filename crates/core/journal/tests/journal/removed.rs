//! A journal removed while it is open: it writes nothing more, and is recreated from memory and the
//! removed file.

use std::fs;
use std::time::Duration;

use trueup_journal::{ErrorKind, Journal, Start, lock_file};
use trueup_testkit::Scratch;

use crate::common::{at, execute, export};

fn run(journal: &Journal, name: &str) {
    execute(journal, Start::new(name, b"")).succeeded(b"", at(1)).unwrap();
}

/// Removes a part of the journal, and returns true if a change is then refused.
fn is_noticed(name: &str, remove: impl FnOnce(&Scratch)) -> bool {
    let directory = Scratch::make(name).unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    run(&journal, "first");
    journal.check_in_place().unwrap();
    let known = export(&journal);
    remove(&directory);
    let started = journal.begin(Start::new("second", b""));
    let Err(error) = started else { return false };
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    assert!(error.to_string().contains("was removed or replaced"), "{error}");
    assert!(journal.failure().unwrap().is_removed());
    assert_eq!(export(&journal), known, "what it has can be read");
    true
}

#[test]
fn a_removed_journal_refuses_each_change() {
    assert!(is_noticed("folder", |directory| fs::remove_dir_all(directory).unwrap()));
    assert!(is_noticed("file", |directory| fs::remove_file(directory.join("journal")).unwrap()));
    assert!(is_noticed("lock", |directory| {
        fs::remove_file(lock_file(directory.join("journal"))).unwrap();
    }));
    assert!(is_noticed("exchanged", |directory| {
        let away = directory.with_extension("away");
        fs::rename(directory, &away).unwrap();
        fs::create_dir(directory).unwrap();
        fs::remove_dir_all(away).unwrap();
    }));
    assert!(!is_noticed("nothing", |_| {}));
}

#[test]
fn a_removed_journal_is_made_anew_with_all_records() {
    let directory = Scratch::make("anew").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    run(&journal, "first");
    let known = export(&journal);
    fs::remove_dir_all(&directory).unwrap();
    assert!(journal.check_in_place().unwrap_err().is_removed());
    fs::create_dir(&directory).unwrap();
    let again = journal.recreate(Duration::ZERO).unwrap();
    again.check_in_place().unwrap();
    assert_eq!(export(&again), known);
    run(&again, "second");
    assert!(Journal::open(&path).unwrap_err().is_held());
    drop((journal, again));
    let opened = Journal::open(&path).unwrap();
    assert!(opened.operation("second").unwrap().is_some());
}

/// No record was written to it yet.
#[test]
fn a_removed_journal_without_records_is_made_anew() {
    let directory = Scratch::make("empty").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert!(journal.check_in_place().unwrap_err().is_removed());
    fs::create_dir(&directory).unwrap();
    run(&journal.recreate(Duration::ZERO).unwrap(), "first");
}

#[test]
fn a_removed_journal_takes_the_place_of_no_other() {
    let directory = Scratch::make("other").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    run(&journal, "first");
    fs::remove_dir_all(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    let other = Journal::open(&path).unwrap();
    assert!(journal.recreate(Duration::ZERO).unwrap_err().is_held());
    run(&other, "of the other");
    drop(other);
    let error = journal.recreate(Duration::ZERO).unwrap_err();
    assert!(error.is_held(), "{error}");
    let other = Journal::open(&path).unwrap();
    assert!(other.operation("first").unwrap().is_none());
}
