//! The journal: open, count, compact, export.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::database::{
    ReadTable, copy, create_database, create_in_memory, open_database, read_table,
};
use crate::files::{Files, NewFile, OpenFiles, OpenJournal};
use crate::group_commit::GroupCommit;
use crate::journal_file::JournalFile;
use crate::lock::Lock;
use crate::record::Transaction;
use crate::snapshot::read_snapshot;
use crate::storage::ReadOnly;
use crate::{Error, JournalId, JournalLedger, LedgerScope, Storage, json_lines};

/// A durable, crash-safe store.
///
/// Clones share the journal, which is closed when the last of them is dropped. Every call that
/// changes something returns once the change is durable; calls from several threads share a sync.
///
/// ```
/// use trueup_journal::{Journal, Start};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-journal-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let journal = Journal::open(folder.join("journal"))?;
/// journal.begin(Start::new("migrate vm7", b"to host b"))?;
/// drop(journal); // as a crash does
///
/// let journal = Journal::open(folder.join("journal"))?;
/// let (operations, _) = journal.in_flight()?;
/// assert_eq!(operations[0].name, "migrate vm7");
/// # drop(journal);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Journal(pub(crate) Arc<Open>);

/// The open files, until the journal's last clone is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    // Dropped in this order: the file is closed before the lock is released.
    commits: GroupCommit,
    pub(crate) held: Arc<Held>,
    _lock: Option<Lock>,
}

/// The operations in flight that a caller in this process executes.
///
/// A name is added before the record of its start is durable, and removed after its outcome is. So
/// a thread that holds this lock while it opens a read table knows which of the table's operations
/// in flight are in progress.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<HashSet<String>>);

impl Held {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// Opens the journal at `path`. A journal that does not exist is empty.
    ///
    /// Opening reads and checks the whole file, and writes nothing to it. The first change opens it
    /// for writing, and creates it if it does not exist. The lock file `path.lock` names the
    /// holder; it stays, unless this call created it and then fails. A new journal is written to
    /// `path.new` and renamed, so an existing file, even an empty one, is either whole or damaged.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if the journal is open, in this process or another;
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or
    /// [`Os`](crate::ErrorKind::Os) if it cannot be read or opened for writing, or if another user
    /// could change it, its lock, or its folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Journal, Error> {
        Self::open_within(path, Duration::ZERO)
    }

    /// Opens the journal at `path` like [`open`](Self::open), and waits up to `wait` for another
    /// holder: for short runs that share a journal. They get it in the order of their calls. Drop
    /// it as soon as the run no longer needs it.
    ///
    /// Callers in one process share one waiting thread for each lock file. It may outlast the time
    /// limit, until the other holder closes the journal.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open); [`Held`](crate::ErrorKind::Held) once the time is over.
    pub fn open_within(path: impl AsRef<Path>, wait: Duration) -> Result<Journal, Error> {
        let files = Files::at(path.as_ref())?;
        let lock = Lock::acquire(&files, wait)?;
        Journal::open_locked(&files, lock)
    }

    /// Checks that the journal at its path is the open one. If the journal or its lock was removed,
    /// it keeps no records, and does not keep other openers out. Each change makes this check
    /// first.
    ///
    /// # Errors
    ///
    /// [`Removed`](crate::ErrorKind::Removed) if it is not the open one.
    pub fn check_in_place(&self) -> Result<(), Error> {
        self.file().check_in_place()
    }

    /// Recreates a removed journal at the same path with all records, and opens it. Its folder must
    /// exist. Waits up to `wait` for another holder. This journal stays as it is, and no longer
    /// writes.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if there is another journal at the path by now, even if no
    /// process has it open, because its records may be newer. Otherwise the errors of
    /// [`open`](Self::open), and [`Invalid`](crate::ErrorKind::Invalid) for a journal on other
    /// storage.
    pub fn recreate(&self, wait: Duration) -> Result<Journal, Error> {
        let open = self.file().files().ok_or_else(|| Error::invalid("the journal has no path"))?;
        let files = Files::at(open.path())?;
        let lock = Lock::acquire(&files, wait)?;
        if files.open()?.is_some() {
            let what = format!("{} was replaced, and the new one", files.path().display());
            return Err(Error::held(what, None));
        }
        let (new, id) = (NewFile::new(&files), self.id().ok());
        self.read(|records| {
            new.create()?;
            create_database(Arc::new(new.clone()), id, |table| copy(records, table, |_, _| true))
        })?;
        new.publish()?;
        Journal::open_locked(&files, lock)
    }

    /// Reads the journal at `path` as it is at this moment, even while a process has it open. A
    /// journal that does not exist is empty.
    ///
    /// It takes no lock and writes nothing: changes are refused. The pages in use are held in
    /// memory, at most 1 GiB.
    ///
    /// ```
    /// use trueup_journal::{Journal, Start};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("trueup-doc-reader-{}", std::process::id()));
    /// # std::fs::create_dir(&folder)?;
    /// let writer = Journal::open(folder.join("journal"))?;
    /// writer.begin(Start::new("migrate vm7", b""))?;
    /// let reader = Journal::open_read_only(folder.join("journal"))?; // while the writer has it open
    /// assert!(reader.operation("migrate vm7")?.is_some());
    /// assert!(reader.begin(Start::new("migrate vm8", b"")).unwrap_err().is_read_only());
    /// # drop((reader, writer));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or
    /// [`Os`](crate::ErrorKind::Os) if it cannot be read. A file that looks damaged is read again a
    /// few times before the error, because a process may be writing to it.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Journal, Error> {
        let files = Files::existing_at(path.as_ref())?;
        let snapshot = files.map(|files| read_snapshot(&files)).transpose()?;
        // Its storage is never used.
        let file = JournalFile::new(Arc::new(ReadOnly(Vec::new())));
        let database = match snapshot.flatten() {
            Some(snapshot) => {
                if let Some(id) = snapshot.id {
                    file.set_id(id);
                }
                snapshot.database
            }
            None => create_in_memory()?,
        };
        Ok(Journal::with(GroupCommit::read_only(file, database), None))
    }

    /// Opens the journal on `storage`. The caller must ensure that nothing else writes to it.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open), except for the lock.
    pub fn open_on(storage: impl Storage) -> Result<Journal, Error> {
        Journal::open_storage(Arc::new(storage), None)
    }

    /// Creates a journal on an empty `storage`, and closes it. A crash before this returns leaves
    /// the storage unusable.
    ///
    /// # Errors
    ///
    /// [`Format`](crate::ErrorKind::Format) if `storage` is not empty, [`Os`](crate::ErrorKind::Os)
    /// if it cannot be written.
    pub fn create_on(storage: impl Storage) -> Result<(), Error> {
        create_database(Arc::new(storage), None, |_| Ok(()))
    }

    /// Returns the journal's id. If the journal does not exist yet, the first change creates it
    /// with this id.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) if it has no id and will get none, because it is
    /// read-only: it does not exist, or an earlier version made it. [`Os`](crate::ErrorKind::Os)
    /// if the system has no random bytes for it.
    pub fn id(&self) -> Result<JournalId, Error> {
        self.file().id()
    }

    /// Opens the ledger of `source` in `scope`: a [`JournalLedger`], which is a
    /// [`trueup_reconcile::Ledger`].
    ///
    /// For a network namespace, `trueup_rtnl::ledger_scope` returns the scope. The caller chooses
    /// the source's name: agents that share a namespace and a journal need different names.
    ///
    /// ```
    /// use trueup_journal::{Journal, LedgerScope};
    /// use trueup_reconcile::Ledger as _;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("trueup-doc-scope-{}", std::process::id()));
    /// # std::fs::create_dir(&folder)?;
    /// let journal = Journal::open(folder.join("journal"))?;
    /// let ledger = journal.ledger("sysctl", &LedgerScope::new("4026531840", "6d0f1f5c"))?;
    /// assert!(ledger.owned()?.is_empty());
    /// # drop((journal, ledger));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a name is longer than 65536 bytes.
    pub fn ledger(&self, source: &str, scope: &LedgerScope) -> Result<JournalLedger, Error> {
        JournalLedger::new(self, source, scope)
    }

    /// Returns the counters since the journal was opened. They start at the first change, which
    /// opens it for writing, and leave out its closing.
    pub fn stats(&self) -> Stats {
        self.0.commits.stats()
    }

    /// Returns the reason why the journal does not write; `None` if it does. After a failed write,
    /// or a read-only opening, a new opening may write again.
    pub fn failure(&self) -> Option<Error> {
        self.file().failed().cloned()
    }

    /// Returns free pages to the file system, for a file that has become much longer than its
    /// content. Returns its length before and after, in bytes. The space of forgotten records is
    /// reused without this. Writes wait meanwhile. A journal that does not exist is created.
    ///
    /// # Errors
    ///
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// as for any write.
    pub fn compact(&self) -> Result<(u64, u64), Error> {
        self.0.commits.exclusively(|database| {
            let file = self.file();
            let before = file.len()?;
            database.compact().map_err(|error| file.error(error, "cannot compact"))?;
            file.truncate()?;
            Ok((before, file.len()?))
        })
    }

    /// Writes every record as a line of JSON, in an order determined by the records alone.
    ///
    /// Each line is an object whose `record` is `operation`, `key`, `nonce`, `backoff`, `owned` or
    /// `intent`. Bytes that are UTF-8 are strings, others `{"hex": "00ff"}`. Times are milliseconds
    /// since 1970, UTC. Values are written unchanged, even if they are secret.
    ///
    /// # Errors
    ///
    /// [`Os`](crate::ErrorKind::Os) if `out` fails, [`Damaged`](crate::ErrorKind::Damaged) if a
    /// record cannot be read; all others are written.
    pub fn export(&self, out: &mut dyn io::Write) -> Result<(), Error> {
        self.read(|records| json_lines::write(records, out))
    }

    fn file(&self) -> &Arc<JournalFile> {
        self.0.commits.file()
    }

    fn open_locked(files: &Files, lock: Lock) -> Result<Journal, Error> {
        let locked = Arc::clone(lock.file());
        let (journal, open) = match files.open_to_write()? {
            Some(file) => {
                let file = Arc::new(file);
                let journal = Journal::open_storage(Arc::clone(&file) as _, Some(lock))?;
                // After any damage is reported: a repair that a crash ended leaves a second name.
                files.check_sole(&file)?;
                (journal, OpenJournal::Existing(file))
            }
            None => {
                let new = NewFile::new(files);
                let file = JournalFile::new(Arc::new(new.clone()));
                let commits = GroupCommit::new(file, create_in_memory()?, Some(new.clone()));
                (Journal::with(commits, Some(lock)), OpenJournal::New(new))
            }
        };
        journal.file().set_files(OpenFiles::new(files.path(), locked, open)?);
        Ok(journal)
    }

    fn open_storage(storage: Arc<dyn Storage>, lock: Option<Lock>) -> Result<Journal, Error> {
        let file = JournalFile::new(storage);
        // Before the records: a later write by another opener shows in the header.
        file.open()?;
        let database = open_database(&(Arc::new(ReadOnly(Arc::clone(&file))) as _))?;
        Ok(Journal::with(GroupCommit::new(file, database, None), lock))
    }

    fn with(commits: GroupCommit, lock: Option<Lock>) -> Journal {
        let _lock = lock.map(Lock::keep_file);
        Journal(Arc::new(Open { commits, held: Arc::default(), _lock }))
    }

    /// Runs `work` and returns its result once its changes are durable. A refusal writes nothing.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.0.commits.write(work)
    }

    /// Reads the durable records. After a failed write, its records are included if the storage has
    /// them.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&ReadTable) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.0.commits.read(|database| work(&read_table(database)?))
    }
}

/// Counters of a journal's work since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of syncs of the storage, which are the main cost of a write.
    pub syncs: u64,
    /// The number of writes to the storage.
    pub writes: u64,
    /// The number of bytes written.
    pub written: u64,
    /// The number of commits that became durable.
    pub commits: u64,
    /// The number of records that these commits put or removed.
    pub changes: u64,
}
