//! The journal's file, as a disk may return it: with other bytes, or fewer.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use redb::{Builder, Database, ReadableTable as _, StorageBackend, TableDefinition};
use trueup_journal::{Backoff, ErrorKind, Journal, Keep, LedgerScope, Start, Storage};
use trueup_reconcile::{Claim, Ledger as _};

/// The first byte selects: if it is even, the rest is a journal; if it is odd, the rest changes a
/// good one. Of each four bytes, three are an offset, the most significant first. The last changes
/// the byte there; 0 cuts the journal off there.
///
/// If it opens, it is complete: a good journal has every record as written, and can be written to.
/// If it does not open, that is an error.
pub fn journal(data: &[u8]) {
    let Some((&how, rest)) = data.split_first() else {
        return;
    };
    let mut bytes = Vec::new();
    if how & 1 == 0 {
        bytes.extend_from_slice(rest);
    } else {
        bytes.extend_from_slice(&GOOD.bytes);
        for [a, b, c, by] in rest.as_chunks::<4>().0 {
            let at = u32::from_be_bytes([0, *a, *b, *c]) as usize % bytes.len().max(1);
            match bytes.get_mut(at) {
                Some(byte) if *by != 0 => *byte ^= by,
                _ => bytes.truncate(at),
            }
        }
    }
    let disk = Disk(Arc::new(Mutex::new(bytes)));
    let journal = match Journal::open_on(disk.clone()) {
        Ok(journal) => journal,
        Err(error) => {
            let kinds = [ErrorKind::Damaged, ErrorKind::Format, ErrorKind::Os];
            assert!(kinds.contains(&error.kind()), "{error}");
            return;
        }
    };
    let found = export(&journal);
    if how & 1 == 1 {
        assert_eq!(found, GOOD.records, "another record than was written");
    }
    if found.is_err() {
        return;
    }
    let mut ledger = journal.ledger("fuzz", &LedgerScope::new("1", "boot")).expect("short names");
    let (key, new) = (b"new".to_vec(), b"one".to_vec());
    let claims = [(key.clone(), Claim::Ours(new.clone()))];
    if ledger.commit_outcomes(claims.into()).is_err() {
        assert_eq!(how & 1, 0, "a good journal can be written to");
        return;
    }
    drop((ledger, journal));
    let journal = Journal::open_on(disk).expect("it was written whole");
    let ledger = journal.ledger("fuzz", &LedgerScope::new("1", "boot")).expect("short names");
    assert_eq!(ledger.last_applied(&key).expect("it opened"), Some(new));
}

/// The first byte selects a record of a good journal, except the last number used, on which all
/// others depend. The rest is its new value.
///
/// The journal opens and can be written to. All other records are as written.
pub fn record(data: &[u8]) {
    let Some((&which, value)) = data.split_first() else {
        return;
    };
    let disk = Disk(Arc::new(Mutex::new(GOOD.bytes.clone())));
    let Some(key) = KEYS.get(usize::from(which) % KEYS.len()) else {
        return;
    };
    replace(&disk, key, value);
    let journal = Journal::open_on(disk.clone()).expect("its checksums match");
    let mut out = Vec::new();
    // The readable part, and then the error for the rest.
    let exported = journal.export(&mut out);
    let out = String::from_utf8(out).expect("lines of text");
    let good = GOOD.records.as_deref().expect("it is good");
    let missing = good.lines().filter(|line| !out.contains(line)).count();
    assert!(missing <= 1, "another record is missing");
    assert!(exported.is_ok() || missing == 1);

    let (operations, _) = journal.in_flight().expect("it opened");
    for operation in operations {
        let execution = journal.resume(&operation.name).expect("it is in flight");
        let now = SystemTime::UNIX_EPOCH;
        let _ = execution.succeeded(b"answer", now);
    }
    let _ = journal.forget_nonces(SystemTime::now());
    let _ = journal.backoffs().expect("it opened");
    for forget in [Keep::Latest(1), Keep::Latest(0)] {
        journal.forget_operations(forget).expect("a good disk");
        journal.forget_keys(forget).expect("a good disk");
    }
    let begun = journal.begin(Start::new("fresh", b"").key(b"fresh"));
    assert!(matches!(begun, Ok(Ok(_))), "{begun:?}");
    assert!(journal.failure().is_none(), "one record made it read-only");
}

/// Returns a journal's whole content as lines; the error if a part cannot be read.
fn export(journal: &Journal) -> Result<String, ErrorKind> {
    let mut out = Vec::new();
    // Every view of the journal meets it, too.
    let _ = journal.scopes();
    let _ = journal.in_flight();
    let _ = journal.key(b"key");
    let _ = journal.backoffs();
    journal.export(&mut out).map_err(|error| error.kind())?;
    Ok(String::from_utf8(out).expect("lines of text"))
}

/// A journal with some of each kind of record.
struct Good {
    bytes: Vec<u8>,
    records: Result<String, ErrorKind>,
}

static GOOD: LazyLock<Good> = LazyLock::new(|| {
    let disk = Disk::default();
    Journal::create_on(disk.clone()).expect("an empty disk");
    let journal = Journal::open_on(disk.clone()).expect("it was just made");
    let now = SystemTime::UNIX_EPOCH;
    let later = now + Duration::from_secs(9);
    let start = Start::new("one", b"what").object(b"vm").key(b"key of one");
    match journal.begin(start.nonce(b"nonce", later, now)) {
        Ok(Ok(one)) => one.succeeded(b"answer", now).expect("a good disk"),
        other => panic!("{other:?}"),
    }
    let start = Start::new("two", b"what").object(b"vm").key(b"key");
    match journal.begin(start) {
        Ok(Ok(mut two)) => two.running("task").expect("a good disk"),
        other => panic!("{other:?}"),
    }
    let backoff = Backoff { tries: 3, next: later };
    journal.set_backoff(b"vm", backoff).expect("a good disk");
    let scope = LedgerScope::new("1", "boot");
    let mut ledger = journal.ledger("fuzz", &scope).expect("short names");
    let claim = |at: u8| (vec![at; 40], Claim::Ours(vec![at; 200]));
    ledger.commit_outcomes((0..9).map(claim).collect()).expect("a good disk");
    ledger.begin((5..20).map(claim).collect()).expect("nothing is open");
    let records = export(&journal);
    drop((ledger, journal));
    let bytes = disk.bytes().clone();
    Good { bytes, records }
});

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// The keys of a good journal's records, except the last number used.
static KEYS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let disk = Disk(Arc::new(Mutex::new(GOOD.bytes.clone())));
    let transaction = database(&disk).begin_write().expect("it is good");
    let table = transaction.open_table(RECORDS).expect("it is good");
    let entries = table.iter().expect("it is good");
    let keys = entries.map(|entry| entry.expect("it is good").0.value().to_vec());
    keys.filter(|key| key != b"s").collect()
});

/// Replaces a record of a journal without the journal's knowledge.
fn replace(disk: &Disk, key: &[u8], value: &[u8]) {
    let transaction = database(disk).begin_write().expect("it is good");
    let mut table = transaction.open_table(RECORDS).expect("it is good");
    table.insert(key, value).expect("a good disk");
    drop(table);
    transaction.commit().expect("a good disk");
}

fn database(disk: &Disk) -> Database {
    let backend = Behind(disk.clone());
    let database = Builder::new().create_with_backend(backend);
    database.expect("it is good")
}

/// The database after the header of a journal.
#[derive(Debug)]
struct Behind(Disk);

const HEADER: u64 = 4096;

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
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Storage::write(&self.0, offset + HEADER, data)
    }
}

/// A disk in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// More bytes than any disk here holds.
const LIMIT: u64 = 1 << 26;

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = self.bytes();
        let there = bytes.get(from..from.saturating_add(out.len()));
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset.saturating_add(data.len() as u64);
        if end > LIMIT {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut bytes = self.bytes();
        let (from, end) = (offset as usize, end as usize);
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[from..end].copy_from_slice(data);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > LIMIT {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
