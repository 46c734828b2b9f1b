//! The journal itself: opened, made, counted, made smaller. What is kept in it has a file for each face.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use redb::{Builder, Database, ReadableDatabase as _, TableError};

use crate::commit::{Commits, View};
use crate::error::from_redb;
use crate::frame::{Backend, Frame};
use crate::keys::Live;
use crate::lock::{Lock, beside};
use crate::record::{RECORDS, sequence};
use crate::storage::Overlay;
use crate::{Error, JournalLedger, Keys, Operations, Scope, Storage};

/// A durable, crash-safe store.
///
/// Clones are the same journal, which is closed with the last of them. Every call that changes something returns once the
/// change is durable; calls from several threads share a sync.
#[derive(Clone, Debug)]
pub struct Journal {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// Goes before the lock: the file is closed by then.
    pub(crate) commits: Commits,
    pub(crate) live: Arc<Live>,
    _lock: Option<Lock>,
}

/// What the journal did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Syncs of the storage.
    pub syncs: u64,
    /// Writes to the storage.
    pub writes: u64,
    /// Bytes of these writes.
    pub written: u64,
    /// Commits that became durable. Each costs one sync.
    pub commits: u64,
    /// Records that were put or removed by them.
    pub changes: u64,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Length of the file before, in bytes.
    pub before: u64,
    /// And after.
    pub after: u64,
}

/// Memory for pages that were read or are to be written, in bytes.
const CACHE: usize = 32 * 1024 * 1024;

impl Journal {
    /// Opens the journal at `path`, or makes it if there is none.
    ///
    /// The file is read whole and checked first; the holder's name goes into the lock file `path.lock`, which stays. A new
    /// journal is written beside and renamed, so that a file that is there is either whole or damaged, also when it is empty.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if anybody has it open; [`Damaged`](crate::ErrorKind::Damaged),
    /// [`Format`](crate::ErrorKind::Format) or [`Os`](crate::ErrorKind::Os) if it cannot be read, or not be made. A file that
    /// is refused is not written to.
    pub fn open(path: impl AsRef<Path>) -> Result<Journal, Error> {
        let path = path.as_ref();
        let lock = Lock::take(path)?;
        if !exists(path)? {
            create(path)?;
        }
        let file = open_file(path, true)?;
        Journal::start(Arc::new(file), Some(lock))
    }

    /// Opens a journal that lies on `storage`. That nobody else writes to it is for the caller to see to.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), but for the lock.
    pub fn open_on(storage: impl Storage) -> Result<Journal, Error> {
        Journal::start(Arc::new(storage), None)
    }

    /// Makes a journal on `storage`, which is empty, and leaves it closed. A crash before this returns leaves the storage
    /// unusable.
    ///
    /// # Errors
    ///
    /// [`Format`](crate::ErrorKind::Format) if it is not empty, [`Os`](crate::ErrorKind::Os) if it cannot be written.
    pub fn create_on(storage: impl Storage) -> Result<(), Error> {
        format(Arc::new(storage), |_| Ok(()))
    }

    /// Operations and what became of them.
    pub fn operations(&self) -> Operations {
        Operations::new(Arc::clone(&self.inner))
    }

    /// Idempotency keys.
    pub fn keys(&self) -> Keys {
        Keys::new(Arc::clone(&self.inner))
    }

    /// What `source` owns in `scope`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a name is longer than 65536 bytes.
    pub fn ledger(&self, source: &str, scope: &Scope) -> Result<JournalLedger, Error> {
        JournalLedger::new(Arc::clone(&self.inner), source, scope)
    }

    /// What was done since it was opened. Of the time before, opening alone is in it.
    pub fn stats(&self) -> Stats {
        self.inner.commits.stats()
    }

    /// Gives free pages back to the file system. What was forgotten is reused without it; this is for a file that has become
    /// much longer than its content. Writes wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly), as every write.
    pub fn compact(&self) -> Result<Compacted, Error> {
        let frame = Arc::clone(self.inner.commits.frame());
        self.inner.commits.alone(|database| {
            let os = |cause| Error::os("cannot tell the length", cause);
            let before = frame.storage().len().map_err(os)?;
            database
                .compact()
                .map_err(|error| frame.error(error, "cannot compact"))?;
            frame.trim()?;
            let after = frame.storage().len().map_err(os)?;
            Ok(Compacted { before, after })
        })
    }

    /// Writes every record as a line of JSON, in an order that depends on nothing but the records.
    ///
    /// Each line is an object whose `record` is `operation`, `key`, `owned` or `intent`. Bytes that are UTF-8 are strings,
    /// others `{"hex": "00ff"}`. Times are milliseconds since 1970, UTC.
    ///
    /// # Errors
    ///
    /// [`Os`](crate::ErrorKind::Os) if `out` fails, [`Damaged`](crate::ErrorKind::Damaged) if a record cannot be read.
    pub fn export(&self, out: &mut dyn io::Write) -> Result<(), Error> {
        self.inner
            .commits
            .read(|view| crate::lines::write(view, out))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn start(storage: Arc<dyn Storage>, lock: Option<Lock>) -> Result<Journal, Error> {
        look(&storage)?;
        let frame = Frame::new(storage);
        frame.open()?;
        // It has been checked, and nobody else writes to it.
        let database = builder()
            .create_with_backend(Backend(Arc::clone(&frame)))
            .map_err(|error| frame.error(error, "cannot open"))?;
        let inner = Inner {
            commits: Commits::new(frame, database),
            live: Arc::default(),
            _lock: lock,
        };
        Ok(Journal {
            inner: Arc::new(inner),
        })
    }
}

/// Opens what lies on `storage` for reading, checked, without a write to it; and the number of its last commit.
///
/// # Errors
///
/// When anything that was acknowledged is not there any more.
pub(crate) fn look(storage: &Arc<dyn Storage>) -> Result<(Database, u64), Error> {
    let (database, marked, last) = look_leniently(storage)?;
    if last < marked {
        return Err(Error::damaged(format!(
            "what was acknowledged last is missing: commit {marked} was durable, {last} is the last one that is whole"
        )));
    }
    Ok((database, last))
}

/// The same, also if the last commits are missing: the number that is known to have been durable, and that of the last one.
pub(crate) fn look_leniently(storage: &Arc<dyn Storage>) -> Result<(Database, u64, u64), Error> {
    let overlay = Overlay::new(Arc::clone(storage))
        .map_err(|cause| Error::os("cannot tell the length", cause))?;
    let frame = Frame::new(Arc::new(overlay));
    let marked = frame.open()?;
    let database = builder()
        .set_check_integrity_on_open(true)
        .create_with_backend(Backend(Arc::clone(&frame)))
        .map_err(|error| frame.error(error, "cannot open"))?;
    let last = sequence(&view(&database)?)?;
    Ok((database, marked, last))
}

/// The table, for reading.
pub(crate) fn view(database: &Database) -> Result<View, Error> {
    let during = "cannot read";
    let transaction = database
        .begin_read()
        .map_err(|error| from_redb(error, during))?;
    transaction
        .open_table(RECORDS)
        .map_err(|error: TableError| from_redb(error, during))
}

pub(crate) fn open_file(path: &Path, write: bool) -> Result<File, Error> {
    let file = OpenOptions::new().read(true).write(write).open(path);
    file.map_err(|cause| Error::os(format!("cannot open {}", path.display()), cause))
}

fn exists(path: &Path) -> Result<bool, Error> {
    path.try_exists()
        .map_err(|cause| Error::os(format!("cannot look for {}", path.display()), cause))
}

/// Makes a journal that appears whole or not at all. What an earlier attempt left is overwritten.
fn create(path: &Path) -> Result<(), Error> {
    create_with(path, |_| Ok(()))
}

/// What fills a new journal.
type Records<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// The same, with records. It takes the place of what is there.
pub(crate) fn create_with(
    path: &Path,
    fill: impl FnOnce(&mut Records<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let new = beside(path, "new");
    let os = |cause| Error::os(format!("cannot make {}", path.display()), cause);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(os)?;
    format(Arc::new(file), fill)?;
    fs::rename(&new, path).map_err(os)?;
    sync_directory(path).map_err(os)
}

/// Makes durable that a name in the directory of `path` has come or gone.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn format(
    storage: Arc<dyn Storage>,
    fill: impl FnOnce(&mut Records<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let os = |cause| Error::os("cannot tell the length", cause);
    if !storage.is_empty().map_err(os)? {
        return Err(Error::format("there is something in the storage already"));
    }
    let frame = Frame::new(storage);
    frame.create()?;
    let broken = |error: redb::Error| frame.error(error, "cannot make a journal");
    let database = builder()
        .create_with_backend(Backend(Arc::clone(&frame)))
        .map_err(|error| broken(error.into()))?;
    let transaction = database
        .begin_write()
        .map_err(|error| broken(error.into()))?;
    let mut table = transaction
        .open_table(RECORDS)
        .map_err(|error| broken(error.into()))?;
    fill(&mut table)?;
    drop(table);
    transaction.commit().map_err(|error| broken(error.into()))?;
    database.close().map_err(|error| broken(error.into()))
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}
