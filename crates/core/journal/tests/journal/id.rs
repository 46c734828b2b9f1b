//! A journal's id: it stays with the file, and no other journal has it.

use std::fs;

use trueup_journal::{Journal, JournalId, Start, repair};
use trueup_testkit::Scratch;

use crate::common::{Disk, at, execute};

/// The offsets of the id and its checksum in the header.
const AT: std::ops::Range<usize> = 2048..2068;

fn id(journal: &Journal) -> JournalId {
    journal.id().unwrap()
}

#[test]
fn a_journal_keeps_its_id_and_one_that_is_made_again_has_another() {
    let directory = Scratch::make("id").unwrap();
    let path = directory.join("journal");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let journal = Journal::open(&path).unwrap();
        let made = id(&journal);
        assert_eq!(id(&journal), made, "before it exists");
        drop(execute(&journal, Start::new("a", b"")));
        assert_eq!(id(&journal), made);
        assert_eq!(id(&Journal::open_read_only(&path).unwrap()), made);
        drop(journal);
        assert_eq!(id(&Journal::open(&path).unwrap()), made);
        assert!(seen.insert(made), "{made}");
        fs::remove_file(&path).unwrap();
    }
    let error = Journal::open_read_only(&path).unwrap().id().unwrap_err();
    assert!(error.is_read_only(), "{error}");
}

/// The lost records may include spent nonces.
#[test]
fn a_repaired_journal_has_another_id() {
    let directory = Scratch::make("id-repaired").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    drop(execute(&journal, Start::new("a", b"")));
    let before = id(&journal);
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    bytes[17] ^= 1;
    fs::write(&path, bytes).unwrap();
    repair(&path, true).unwrap();
    assert_ne!(id(&Journal::open(&path).unwrap()), before);
}

/// The id is missing in a journal of an earlier version, or damaged.
#[test]
fn a_journal_without_an_id_gets_one_with_the_first_write() {
    let disk = Disk::formatted();
    let mut bytes = disk.bytes();
    bytes[AT].fill(0);
    let old = Disk::of(bytes.clone());
    let journal = Journal::open_on(old.clone()).unwrap();
    let made = id(&journal);
    assert!(old.log().is_empty(), "nothing is written to learn it");
    drop(execute(&journal, Start::new("a", b"")));
    assert_eq!(id(&journal), made);
    drop(journal);
    assert_eq!(id(&Journal::open_on(old).unwrap()), made);

    let damaged = Disk::formatted();
    let before = id(&Journal::open_on(damaged.clone()).unwrap());
    let mut bytes = damaged.bytes();
    bytes[AT.start] ^= 1;
    let journal = Journal::open_on(Disk::of(bytes)).unwrap();
    assert_ne!(id(&journal), before);
    journal.spend_nonce(b"n", at(10), at(1)).unwrap();
}
