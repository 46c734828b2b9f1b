//! The file of the embedded store: the newest value of each key, and the leases.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::mvcc::{Batch, Mvcc};
use crate::{Entry, Error, ErrorKind, KeyChange, LeaseId, Revision};

type Row<'a> = (&'a [u8], u64, u64, i64);

/// By key: value, revision of creation, of the value, and lease; 0: none.
const ENTRIES: TableDefinition<'_, &[u8], Row<'_>> = TableDefinition::new("world entries 1");
/// Milliseconds to live, by lease.
const LEASES: TableDefinition<'_, i64, u64> = TableDefinition::new("world leases 1");
/// `revision`, and `lease`: the last one granted.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("world numbers 1");

pub(crate) struct Durable {
    database: Database,
    path: Option<PathBuf>,
}

impl Durable {
    pub(crate) fn open(path: &Path) -> Result<(Durable, Mvcc), Error> {
        let database = Database::create(path).map_err(|error| {
            let message = format!("{}: the store cannot be opened: {error}", path.display());
            Error::new(ErrorKind::Store, message).with_source(error)
        })?;
        let path = Some(path.to_owned());
        Durable { database, path }.loaded()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn open_on(backend: impl redb::StorageBackend) -> Result<(Durable, Mvcc), Error> {
        let database = redb::Builder::new().create_with_backend(backend);
        let database = database.map_err(|error| failed(error.into()))?;
        let path = None;
        Durable { database, path }.loaded()
    }

    fn loaded(self) -> Result<(Durable, Mvcc), Error> {
        let mvcc = self.load().map_err(failed)?;
        Ok((self, mvcc))
    }

    fn load(&self) -> Result<Mvcc, redb::Error> {
        let write = self.database.begin_write()?;
        write.open_table(ENTRIES)?;
        write.open_table(LEASES)?;
        write.open_table(NUMBERS)?;
        write.commit()?;
        let read = self.database.begin_read()?;
        let numbers = read.open_table(NUMBERS)?;
        let number = |name| -> Result<u64, redb::Error> {
            Ok(numbers.get(name)?.map_or(0, |number| number.value()))
        };
        let mut leases = Vec::new();
        for row in read.open_table(LEASES)?.iter()? {
            let (lease, ttl) = row?;
            leases.push((LeaseId(lease.value()), Duration::from_millis(ttl.value())));
        }
        let mut entries = Vec::new();
        for row in read.open_table(ENTRIES)?.iter()? {
            let (key, row) = row?;
            let (value, created, modified, lease) = row.value();
            entries.push(Entry {
                key: key.value().to_vec(),
                value: value.to_vec(),
                created: Revision(created),
                modified: Revision(modified),
                lease: (lease != 0).then_some(LeaseId(lease)),
            });
        }
        let last_lease = number("lease")?.cast_signed();
        Ok(Mvcc::load(
            Revision(number("revision")?),
            last_lease,
            entries,
            leases,
        ))
    }

    /// Writes a batch, and returns when it is on the disk.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<(), Error> {
        self.write(batch).map_err(failed)
    }

    fn write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        {
            let mut numbers = write.open_table(NUMBERS)?;
            numbers.insert("revision", batch.revision.0)?;
            let mut leases = write.open_table(LEASES)?;
            if let Some((lease, ttl)) = batch.granted {
                numbers.insert("lease", lease.0.cast_unsigned())?;
                leases.insert(lease.0, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))?;
            }
            if let Some(lease) = batch.ended {
                leases.remove(lease.0)?;
            }
            let mut entries = write.open_table(ENTRIES)?;
            for change in &batch.changes {
                match change {
                    KeyChange::Put(entry) => {
                        let lease = entry.lease.map_or(0, |lease| lease.0);
                        let row = (&*entry.value, entry.created.0, entry.modified.0, lease);
                        entries.insert(&*entry.key, row)?;
                    }
                    KeyChange::Deleted(key) => drop(entries.remove(&**key)?),
                }
            }
        }
        write.commit()?;
        Ok(())
    }

    /// Bytes of the file.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(fs::metadata(self.path.as_ref()?).ok()?.len())
    }
}

/// What a failed write left in the file is not known.
fn failed(error: redb::Error) -> Error {
    let message = format!("the file of the embedded store failed: {error}; open it anew");
    Error::new(ErrorKind::Store, message).with_source(error)
}
