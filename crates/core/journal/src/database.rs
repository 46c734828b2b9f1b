//! The redb database in a journal's file: open and check it, open it for writing, create it,
//! salvage it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, ReadableDatabase as _, ReadableTable as _};

use crate::error::from_redb;
use crate::files::NewFile;
use crate::header::{HEADER_LEN, REDB_FLAGS, REDB_RECOVER, read_header};
use crate::journal_file::{Backend, JournalFile};
use crate::record::{Change, RECORDS, last_sequence};
use crate::storage::{Overlay, ReadOnly};
use crate::{Error, JournalId, Storage};

/// The cache for pages that were read or will be written, in bytes.
const CACHE: usize = 32 * 1024 * 1024;

/// The part of redb's header that it reads before it checks a checksum: the first 64 bytes, and the
/// version in each of its two slots. It is equal in every journal except for the flags and the
/// length. redb recomputes the length if the flags ask for recovery.
const REDB_FIXED: [Range<usize>; 3] = [0..64, 64..65, 192..193];

/// All records, for reading.
pub(crate) type ReadTable = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// All records, for writing.
pub(crate) type WriteTable<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// Opens the database on `storage` for reading and checks all of it. Does not write to `storage`.
///
/// # Errors
///
/// [`Damaged`](crate::ErrorKind::Damaged) if an acknowledged commit is missing.
pub(crate) fn open_database(storage: &Arc<dyn Storage>) -> Result<Database, Error> {
    let file = JournalFile::new(overlay(storage)?);
    let marked = file.open()?;
    let (database, last) = open_checked(&file)?;
    if last < marked {
        return Err(Error::damaged(format!(
            "what was acknowledged last is missing: commit {marked} was durable, {last} is the last one that is whole"
        )));
    }
    Ok(database)
}

/// The readable part of a damaged journal: its state after a commit, never half of a commit.
pub(crate) struct Salvaged {
    pub(crate) database: Database,
    /// True if no acknowledged commit is missing.
    pub(crate) is_complete: bool,
}

/// Reads as much as possible of the journal on `storage`, without a write to it.
///
/// It does not need the journal's header and the first bytes of redb's, which are equal in every
/// journal. redb's two slots and each of its pages have their own checksums.
///
/// # Errors
///
/// [`Damaged`](crate::ErrorKind::Damaged) if no commit is whole, and
/// [`Format`](crate::ErrorKind::Format) if it is not a journal.
pub(crate) fn salvage(storage: &Arc<dyn Storage>) -> Result<Salvaged, Error> {
    let overlay = overlay(storage)?;
    let file = JournalFile::new(Arc::clone(&overlay));
    let header = read_header(&**storage)?;
    let empty: Arc<dyn Storage> = self::overlay(&(Arc::new(ReadOnly(Vec::new())) as _))?;
    create_database(Arc::clone(&empty), None, |_| Ok(()))?;
    let mut redb_header = [0; 256];
    empty.read(HEADER_LEN, &mut redb_header).map_err(unread)?;
    redb_header[REDB_FLAGS as usize] = REDB_RECOVER;
    for range in REDB_FIXED {
        let at = HEADER_LEN + range.start as u64;
        overlay.write(at, &redb_header[range]).map_err(unread)?;
    }
    let (database, last) = open_checked(&file)?;
    Ok(Salvaged {
        database,
        is_complete: last >= header.marked && (header.damage.is_none() || header.marked > 0),
    })
}

fn unread(cause: io::Error) -> Error {
    Error::os("cannot read", cause)
}

fn overlay(storage: &Arc<dyn Storage>) -> Result<Arc<dyn Storage>, Error> {
    match Overlay::new(Arc::clone(storage)) {
        Ok(overlay) => Ok(Arc::new(overlay)),
        Err(cause) => Err(Error::os("cannot tell the length", cause)),
    }
}

/// Opens and checks the database behind the header, and returns its last commit's number.
fn open_checked(file: &Arc<JournalFile>) -> Result<(Database, u64), Error> {
    let database = builder()
        .set_check_integrity_on_open(true)
        .create_with_backend(Backend(Arc::clone(file)))
        .map_err(|error| file.error(error, "cannot open"))?;
    let last = last_sequence(&read_table(&database)?)?;
    Ok((database, last))
}

/// Creates an empty journal in memory.
pub(crate) fn create_in_memory() -> Result<Database, Error> {
    let during = "cannot make an empty journal in memory";
    let database = builder()
        .create_with_backend(InMemoryBackend::new())
        .map_err(|error| from_redb(error, during))?;
    write_records(&database, |_| Ok(())).map_err(|error| from_redb(error, during))?;
    Ok(database)
}

/// Opens the records for reading, as the last commit left them.
pub(crate) fn read_table(database: &Database) -> Result<ReadTable, Error> {
    let during = "cannot read";
    let transaction = database.begin_read().map_err(|error| from_redb(error, during))?;
    transaction.open_table(RECORDS).map_err(|error| from_redb(error, during))
}

/// Opens a checked database for writing, and makes the first changes in one commit. A `new` file is
/// created with these changes.
pub(crate) fn open_for_writing(
    file: &Arc<JournalFile>,
    new: Option<&NewFile>,
    changes: &[Change],
) -> Result<Database, Error> {
    if let Some(new) = new {
        new.create()?;
        file.create()?;
    }
    file.take_over()?;
    let database = file.open_database(&builder())?;
    if new.is_some() || !changes.is_empty() {
        let written = write_records(&database, |records| {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(records.insert(key.as_slice(), value.as_slice())?),
                    None => drop(records.remove(key.as_slice())?),
                }
            }
            Ok(())
        });
        written.map_err(|error| file.error(error, "cannot open for writing"))?;
    }
    if let Some(new) = new {
        new.publish()?;
    }
    Ok(database)
}

/// Creates a journal with some records on an empty storage, and closes it. Without an `id`, it gets
/// a new one.
pub(crate) fn create_database(
    storage: Arc<dyn Storage>,
    id: Option<JournalId>,
    fill: impl FnOnce(&mut WriteTable<'_>) -> Result<(), redb::Error>,
) -> Result<(), Error> {
    if !storage.is_empty().map_err(|cause| Error::os("cannot tell the length", cause))? {
        return Err(Error::format("there is something in the storage already"));
    }
    let file = JournalFile::new(storage);
    id.into_iter().for_each(|id| file.set_id(id));
    file.create()?;
    let database = file.open_database(&builder())?;
    write_records(&database, fill)
        .and_then(|()| {
            file.before_close();
            Ok(database.close()?)
        })
        .map_err(|error| file.error(error, "cannot make a journal"))
}

/// Copies the records to keep into an empty table.
pub(crate) fn copy(
    records: &ReadTable,
    table: &mut WriteTable<'_>,
    should_keep: impl Fn(&[u8], &[u8]) -> bool,
) -> Result<(), redb::Error> {
    for entry in records.iter()? {
        let (key, value) = entry?;
        if should_keep(key.value(), value.value()) {
            table.insert(key.value(), value.value())?;
        }
    }
    Ok(())
}

fn write_records(
    database: &Database,
    fill: impl FnOnce(&mut WriteTable<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    fill(&mut transaction.open_table(RECORDS)?)?;
    Ok(transaction.commit()?)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}
