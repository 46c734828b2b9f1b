//! Undamaged records that cannot be decoded: each affects only the calls about it, is reported, and
//! can be removed.

use std::fs;
use std::io;

use redb::{Builder, Database, ReadableTable as _, StorageBackend, TableDefinition};
use trueup_journal::{
    ErrorKind, Journal, Keep, KeyState, LedgerScope, Repaired, Start, Storage, check, repair,
};
use trueup_reconcile::Ledger as _;
use trueup_testkit::{Scratch, is_long};

use crate::common::{Disk, at, execute, export, workload};

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// The length of the journal's header before the database, in bytes.
const HEADER: u64 = 4096;
/// The key of the only record on which all others depend: the last number used.
const SEQUENCE: &[u8] = b"s";

/// The database in a journal.
#[derive(Debug)]
struct Behind(Disk);

impl StorageBackend for Behind {
    fn len(&self) -> io::Result<u64> {
        Ok(Storage::len(&self.0)?.saturating_sub(HEADER))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(&self.0, offset + HEADER, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Storage::set_len(&self.0, len + HEADER)
    }

    fn sync_data(&self) -> io::Result<()> {
        Storage::sync(&self.0)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Storage::write(&self.0, offset + HEADER, data)
    }
}

fn database(disk: &Disk) -> Database {
    let backend = Behind(disk.clone());
    Builder::new().create_with_backend(backend).unwrap()
}

/// Returns the keys and values of all records.
fn records(disk: &Disk) -> Vec<(Vec<u8>, Vec<u8>)> {
    let transaction = database(disk).begin_write().unwrap();
    let table = transaction.open_table(RECORDS).unwrap();
    let entries = table.iter().unwrap().map(|entry| entry.unwrap());
    entries.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())).collect()
}

fn replace(disk: &Disk, key: &[u8], value: &[u8]) {
    let database = database(disk);
    let transaction = database.begin_write().unwrap();
    let mut table = transaction.open_table(RECORDS).unwrap();
    table.insert(key, value).unwrap();
    drop(table);
    transaction.commit().unwrap();
}

/// Returns a journal with an unreadable record of the operation `b`.
fn damaged() -> Disk {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    for name in ["a", "b", "c"] {
        drop(execute(&journal, Start::new(name, b"").key(name.as_bytes())));
    }
    drop(journal);
    replace(&disk, b"ob", b"not a record");
    disk
}

#[test]
fn recovery_lists_all_others_and_names_the_one() {
    let journal = Journal::open_on(damaged()).unwrap();
    let (found, unreadable) = journal.in_flight().unwrap();
    let names: Vec<_> = found.iter().map(|found| &*found.name).collect();
    assert_eq!(names, ["a", "c"]);
    let [(name, error)] = &unreadable[..] else {
        panic!("{unreadable:?}");
    };
    assert_eq!(name, "b");
    assert!(error.is_damaged() && error.remedy().is_some());

    // The operation is not executed again, by its name or its key, and does not affect others.
    for error in [
        journal.begin(Start::new("b", b"")).unwrap_err(),
        journal.resume("b").unwrap_err(),
        journal.operation("b").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    }
    let repeated = journal.begin(Start::new("d", b"").key(b"b")).unwrap();
    let in_doubt = KeyState::InDoubt { operation: "b".into() };
    assert!(matches!(repeated, Err(state) if state == in_doubt));
    journal.resume("a").unwrap().succeeded(b"", at(1)).unwrap();
    assert_eq!(journal.forget_operations(Keep::Latest(0)).unwrap(), 1);
    assert!(journal.failure().is_none());
    let mut out = Vec::new();
    let error = journal.export(&mut out).unwrap_err();
    assert!(error.is_damaged() && error.to_string().contains("record of b"), "{error}");
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(r#""name":"c""#) && !out.contains(r#""name":"b""#), "{out}");
}

#[test]
fn a_repair_that_may_lose_it_keeps_all_others() {
    let directory = Scratch::make("unreadable").unwrap();
    let path = directory.join("journal");
    let damaged = damaged().bytes();
    fs::write(&path, &damaged).unwrap();
    assert!(check(&path).unwrap_err().is_damaged());
    let mut out = Vec::new();
    let error = trueup_journal::export(&path, &mut out).unwrap_err();
    assert!(error.is_damaged() && !out.is_empty());
    let refused = repair(&path, false).unwrap_err();
    assert!(refused.to_string().contains("cannot be read"), "{refused}");
    assert!(fs::read(&path).unwrap() == damaged);
    let kept = directory.join("journal.damaged");
    let repaired = repair(&path, true).unwrap();
    assert_eq!(repaired, Repaired::Reduced { damaged: kept });
    let counts = check(&path).unwrap();
    assert_eq!((counts.operations, counts.keys), (2, 2), "its key is free");
    let journal = Journal::open(&path).unwrap();
    assert!(journal.in_flight().unwrap().1.is_empty());
    let _b = execute(&journal, Start::new("b", b"").key(b"b"));
}

/// Each record in turn is cut, emptied, changed and extended. No call panics or makes the journal
/// read-only, every other record is there, and a repair makes the journal whole.
#[test]
fn no_record_affects_another() {
    let disk = Disk::formatted();
    let journal = Journal::open_on(disk.clone()).unwrap();
    workload().into_iter().for_each(|step| step(&journal));
    let mut open = execute(&journal, Start::new("open", b"w").object(b"o").key(b"open"));
    open.running("t").unwrap();
    drop(execute(&journal, Start::new("beside", b"")));
    let known = export(&journal);
    drop((open, journal));
    let whole = disk.bytes();
    let directory = Scratch::make("each-record").unwrap();
    let path = directory.join("journal");
    let mut unreadable = 0;
    for (key, value) in records(&disk) {
        if key == SEQUENCE {
            continue;
        }
        let mut flipped = value.clone();
        if let Some(byte) = flipped.get_mut(8.min(value.len().saturating_sub(1))) {
            *byte ^= 0x40;
        }
        let cut = value[..value.len() / 2].to_vec();
        let longer = [&value[..], b"x"].concat();
        for changed in [Vec::new(), cut, longer, flipped] {
            let disk = Disk::of(whole.clone());
            replace(&disk, &key, &changed);
            let image = disk.bytes();
            let journal = Journal::open_on(disk).unwrap();
            let mut out = Vec::new();
            let exported = journal.export(&mut out);
            let out = String::from_utf8(out).unwrap();
            let missing = known.lines().filter(|line| !out.contains(line)).count();
            assert!(missing <= 1, "{missing} lines for {}", key.escape_ascii());
            touch_everything(&journal);
            assert!(journal.failure().is_none(), "{:?}", journal.failure());
            drop(journal);
            if exported.is_err() && (is_long() || unreadable % 8 == 0) {
                fs::write(&path, &image).unwrap();
                repair(&path, true).unwrap();
                check(&path).unwrap();
                assert_eq!(repair(&path, false).unwrap(), Repaired::Whole);
            }
            unreadable += u32::from(exported.is_err());
        }
    }
    println!("{unreadable} records could not be read");
    assert!(unreadable > 20, "{unreadable}");
}

/// Makes every call, with arguments that reach every record.
fn touch_everything(journal: &Journal) {
    for name in ["one", "keyed", "two", "three", "open", "beside"] {
        let _ = journal.operation(name);
        let _ = journal.key(name.as_bytes());
        let _ = journal.resume(name).map(|it| it.in_doubt("why"));
        let _ = journal.begin(Start::new(name, b"").key(b"key").object(b"vm3"));
        let _ = journal.resume(name).map(|it| it.succeeded(b"", at(1)));
    }
    let _ = journal.begin(Start::new("x", b"").nonce(b"approved", at(20), at(4)));
    let _ = journal.forget_nonces(at(50));
    let _ = journal.backoffs();
    let _ = journal.backoff(b"vm3");
    let _ = journal.scopes();
    let mut ledger = journal.ledger("rtnl", &LedgerScope::new("cookie 1", "boot 1")).unwrap();
    if let Ok(open) = ledger.open_intents() {
        let _ = ledger.commit_outcomes(open);
    }
    let _ = ledger.owned();
    for keep in [Keep::Latest(1), Keep::Latest(0)] {
        journal.forget_operations(keep).unwrap();
        journal.forget_keys(keep).unwrap();
    }
    journal.in_flight().unwrap();
    let _fresh = execute(journal, Start::new("fresh", b"").key(b"fresh"));
}
