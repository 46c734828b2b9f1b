//! The journal: opened, counted, compacted, exported.

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
/// Clones are the same journal, which is closed with the last of them. Every call that changes
/// something returns once the change is durable; calls from several threads share a sync.
#[derive(Clone, Debug)]
pub struct Journal(pub(crate) Arc<Open>);

/// What is open, until the last clone of the journal is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    // Dropped in this order: the file is closed before the lock is released.
    commits: GroupCommit,
    pub(crate) held: Arc<Held>,
    _lock: Option<Lock>,
}

/// The operations in flight whose execution a caller in this process has.
///
/// A name is added before the record of its start is durable and removed after its outcome is. So a
/// thread that holds this lock while it opens a read table knows of each operation in flight in
/// that table whether it is in progress.
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
    /// The whole file is read and checked, and nothing is written to it: the first change opens it
    /// for writing, and creates it if it does not exist. The lock file `path.lock` names the
    /// holder; it stays, unless this call created it and fails. A new journal is written to
    /// `path.new` and renamed, so that an existing file is either whole or damaged, also when it
    /// is empty.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if the journal is open, in this process or another;
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or
    /// [`Os`](crate::ErrorKind::Os) if it cannot be read, or not be opened for writing, also because
    /// another user could change it, its lock, or its folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Journal, Error> {
        Self::open_within(path, Duration::ZERO)
    }

    /// Opens the journal at `path` as [`open`](Self::open) does, and waits for another holder, at
    /// most so long: for short runs that share a journal. They get it in the order in which they
    /// ask. Drop it as soon as the run is done with it.
    ///
    /// Callers in one process share a thread that waits, for each lock file. It may stay when the
    /// time is over, until the other holder closes the journal.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`Held`](crate::ErrorKind::Held) once the time is over.
    pub fn open_within(path: impl AsRef<Path>, wait: Duration) -> Result<Journal, Error> {
        let files = Files::at(path.as_ref())?;
        let lock = Lock::acquire(&files, wait)?;
        Journal::open_locked(&files, lock)
    }

    /// Checks that the journal at its path is the open one: a journal that was removed, or whose
    /// lock was, keeps nothing, and does not keep another opener out. Each change checks it first.
    ///
    /// # Errors
    ///
    /// [`Removed`](crate::ErrorKind::Removed) if it is not.
    pub fn check_in_place(&self) -> Result<(), Error> {
        self.file().check_in_place()
    }

    /// Makes a journal that was removed anew, at the same path and with all records, and opens it.
    /// Its folder must exist. It waits for another holder, at most so long. This one stays as it
    /// is, and does not write any more.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if another journal is at the path by now, also if no process
    /// has it open: what its records say of the present is not known here. Otherwise as
    /// [`open`](Self::open), and [`Invalid`](crate::ErrorKind::Invalid) for one on other storage.
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

    /// Reads the journal at `path` as it is at this moment, also while a process has it open. A
    /// journal that does not exist is empty.
    ///
    /// It takes no lock and writes nothing: a change is refused. The pages in use are held in memory, at
    /// most 1 GiB.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or
    /// [`Os`](crate::ErrorKind::Os) if it cannot be read. A file that looks damaged is read again a
    /// few times before that is reported, because a process may be writing to it.
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

    /// Opens the journal on `storage`. The caller makes sure that nothing else writes to it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except for the lock.
    pub fn open_on(storage: impl Storage) -> Result<Journal, Error> {
        Journal::open_storage(Arc::new(storage), None)
    }

    /// Creates a journal on `storage`, which is empty, and closes it. A crash before this returns
    /// leaves the storage unusable.
    ///
    /// # Errors
    ///
    /// [`Format`](crate::ErrorKind::Format) if `storage` is not empty,
    /// [`Os`](crate::ErrorKind::Os) if it cannot be written.
    pub fn create_on(storage: impl Storage) -> Result<(), Error> {
        create_database(Arc::new(storage), None, |_| Ok(()))
    }

    /// Returns the journal's id. One that does not exist yet has the id with which the first change
    /// makes it.
    ///
    /// # Errors
    ///
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) if it has none and is not written to: it does not
    /// exist, or an earlier version made it. [`Os`](crate::ErrorKind::Os) if the system has no
    /// random bytes for it.
    pub fn id(&self) -> Result<JournalId, Error> {
        self.file().id()
    }

    /// Opens the ledger of `source` in `scope`: a [`JournalLedger`], which is a
    /// [`trueup_reconcile::Ledger`].
    ///
    /// For a network namespace, `trueup_rtnl::ledger_scope` makes the scope. The caller chooses
    /// the name: agents that share a namespace and a journal have a name each.
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

    /// Returns the reason why the journal does not write, if a write failed or it was opened
    /// read-only. Opened again, it may write again.
    pub fn failure(&self) -> Option<Error> {
        self.file().failed().cloned()
    }

    /// Gives free pages back to the file system, for a file that has become much longer than its
    /// content, and returns its length before and after, in bytes. The space of forgotten records
    /// is reused without it. Writes wait meanwhile. A journal that does not exist is created.
    ///
    /// # Errors
    ///
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// as every write.
    pub fn compact(&self) -> Result<(u64, u64), Error> {
        self.0.commits.exclusively(|database| {
            let file = self.file();
            let before = file.len()?;
            database.compact().map_err(|error| file.error(error, "cannot compact"))?;
            file.truncate()?;
            Ok((before, file.len()?))
        })
    }

    /// Writes every record as a line of JSON, in an order that depends on nothing but the records.
    ///
    /// Each line is an object whose `record` is `operation`, `key`, `nonce`, `backoff`, `owned` or
    /// `intent`. Bytes that are UTF-8 are strings, others `{"hex": "00ff"}`. Times are milliseconds
    /// since 1970, UTC. Values are written as they are, also if they are secret.
    ///
    /// # Errors
    ///
    /// [`Os`](crate::ErrorKind::Os) if `out` fails, [`Damaged`](crate::ErrorKind::Damaged) if a
    /// record cannot be read: all others are written.
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
                // After its damage is reported: a repair that a crash ended leaves a second name.
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
        // Before the records: what another opener writes meanwhile shows in the header later.
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

    /// Reads the durable records. After a failed write also those of that write, if the storage
    /// has them.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&ReadTable) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.0.commits.read(|database| work(&read_table(database)?))
    }
}

/// Counts the work of a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Syncs of the storage.
    pub syncs: u64,
    /// Writes to the storage.
    pub writes: u64,
    /// Bytes of these writes.
    pub written: u64,
    /// Commits that became durable.
    pub commits: u64,
    /// Records that these commits put or removed.
    pub changes: u64,
}
