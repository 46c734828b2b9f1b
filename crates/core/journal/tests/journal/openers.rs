//! Two openers of one journal without a lock between them: the later one continues, and the earlier
//! one writes no more.

use std::error::Error as _;
use std::fs;

use trueup_journal::{Error, ErrorKind, Journal, Start, check, lock_file};
use trueup_testkit::Scratch;

use crate::common::{Disk, execute, export};

fn begin(journal: &Journal, name: &str) -> Result<(), Error> {
    journal.begin(Start::new(name, b"")).map(drop)
}

fn assert_taken_over(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    let cause = error.source().unwrap().downcast_ref::<Error>().unwrap();
    assert!(cause.is_held(), "{cause}");
    assert!(error.to_string().contains("took it over"), "{error}");
}

#[test]
fn an_earlier_opener_writes_nothing_after_a_later_one_did() {
    for compact in [false, true] {
        let disk = Disk::formatted();
        let earlier = Journal::open_on(disk.clone()).unwrap();
        begin(&earlier, "of both").unwrap();
        let later = Journal::open_on(disk.clone()).unwrap();
        begin(&later, "of the later").unwrap();
        let known = export(&later);
        let log = disk.log().len();
        for _ in 0..2 {
            let result = match compact {
                true => earlier.compact().map(drop),
                false => begin(&earlier, "of the earlier"),
            };
            assert_taken_over(&result.unwrap_err());
        }
        assert_taken_over(&begin(&earlier, "more").unwrap_err());
        assert!(earlier.failure().unwrap().is_held());
        drop(earlier);
        assert_eq!(disk.log().len(), log, "nothing reaches the device");
        begin(&later, "next").unwrap();
        drop(later);
        let journal = Journal::open_on(disk).unwrap();
        assert!(export(&journal).contains(known.trim_end()));
        assert!(journal.operation("next").unwrap().is_some());
    }
}

/// Closing writes, too.
#[test]
fn an_earlier_opener_closes_without_a_write() {
    let disk = Disk::formatted();
    let earlier = Journal::open_on(disk.clone()).unwrap();
    begin(&earlier, "first").unwrap();
    let later = Journal::open_on(disk.clone()).unwrap();
    begin(&later, "second").unwrap();
    let log = disk.log().len();
    drop(earlier);
    assert_eq!(disk.log().len(), log);
}

/// It opened earlier, and has read outdated records.
#[test]
fn a_first_write_is_refused_if_another_opener_wrote_since() {
    for is_open in [true, false] {
        let disk = Disk::formatted();
        let writer = Journal::open_on(disk.clone()).unwrap();
        if is_open {
            begin(&writer, "before").unwrap();
        }
        let reader = Journal::open_on(disk.clone()).unwrap();
        begin(&writer, "since").unwrap();
        let bytes = disk.bytes();
        assert_taken_over(&begin(&reader, "since").unwrap_err());
        drop(reader);
        assert!(disk.bytes() == bytes, "nothing was written");
        begin(&writer, "next").unwrap();
    }
}

#[test]
fn a_lock_file_that_a_person_deletes_costs_no_record() {
    let directory = Scratch::make("unlocked").unwrap();
    let path = directory.join("journal");
    let earlier = Journal::open(&path).unwrap();
    let _first = execute(&earlier, Start::new("first", b""));
    fs::remove_file(lock_file(&path)).unwrap();
    let later = Journal::open(&path).unwrap();
    let _second = execute(&later, Start::new("second", b""));
    assert_taken_over(&begin(&earlier, "third").unwrap_err());
    drop(earlier);
    let _fourth = execute(&later, Start::new("fourth", b""));
    drop(later);
    assert_eq!(check(&path).unwrap().operations, 3);
}
