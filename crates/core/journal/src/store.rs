//! The store below operations, keys and ledgers: it opens the database, commits writes to it, and
//! keeps the lock and the executions as long as a journal is open.

use std::collections::HashSet;
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
use crate::{Error, JournalId, Stats, Storage};

#[derive(Debug)]
pub(crate) struct Store {
    // Dropped in this order: the file is closed before the lock is released.
    commits: GroupCommit,
    held: Arc<Held>,
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

impl Store {
    /// Opens the journal at `path` under its lock. A journal that does not exist is empty, and is
    /// created by the first change.
    pub(crate) fn open(path: &Path, wait: Duration) -> Result<Store, Error> {
        let files = Files::at(path)?;
        let lock = Lock::acquire(&files, wait)?;
        Store::open_locked(&files, lock)
    }

    fn open_locked(files: &Files, lock: Lock) -> Result<Store, Error> {
        let locked = Arc::clone(lock.file());
        let (store, journal) = match files.open_to_write()? {
            Some(file) => {
                let file = Arc::new(file);
                let store = Store::open_storage(Arc::clone(&file) as _, Some(lock))?;
                // After its damage is reported: a repair that a crash ended leaves a second name.
                files.check_sole(&file)?;
                (store, OpenJournal::Existing(file))
            }
            None => {
                let new = NewFile::new(files);
                let file = JournalFile::new(Arc::new(new.clone()));
                let commits = GroupCommit::new(file, create_in_memory()?, Some(new.clone()));
                (Store::with(commits, Some(lock)), OpenJournal::New(new))
            }
        };
        let open = OpenFiles::new(files.path(), locked, journal)?;
        store.commits.file().set_files(open);
        Ok(store)
    }

    /// Checks that the files at the path of the journal are the open ones.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        self.commits.file().check_in_place()
    }

    /// Writes all records, those of a journal that was removed, to a new one at its path, and opens
    /// that.
    pub(crate) fn recreate(&self, wait: Duration) -> Result<Store, Error> {
        let open =
            self.commits.file().files().ok_or_else(|| Error::invalid("the journal has no path"))?;
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
        Store::open_locked(&files, lock)
    }

    /// Reads the journal at `path` without its lock. Every write to the store is refused.
    pub(crate) fn open_read_only(path: &Path) -> Result<Store, Error> {
        let files = Files::existing_at(path)?;
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
        Ok(Store::with(GroupCommit::read_only(file, database), None))
    }

    /// Opens the journal on `storage`, without a lock.
    pub(crate) fn open_on(storage: Arc<dyn Storage>) -> Result<Store, Error> {
        Store::open_storage(storage, None)
    }

    /// Creates an empty journal on `storage`, which is empty, and closes it.
    pub(crate) fn create_on(storage: Arc<dyn Storage>) -> Result<(), Error> {
        create_database(storage, None, |_| Ok(()))
    }

    fn open_storage(storage: Arc<dyn Storage>, lock: Option<Lock>) -> Result<Store, Error> {
        let file = JournalFile::new(storage);
        // Before the records: what another opener writes meanwhile shows in the header later.
        file.open()?;
        let database = open_database(&(Arc::new(ReadOnly(Arc::clone(&file))) as _))?;
        Ok(Store::with(GroupCommit::new(file, database, None), lock))
    }

    fn with(commits: GroupCommit, lock: Option<Lock>) -> Store {
        Store { commits, held: Arc::default(), _lock: lock.map(Lock::keep_file) }
    }

    /// Runs `work` and returns its result once its changes are durable. A refusal writes nothing.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.commits.write(work)
    }

    /// Reads the durable records. After a failed write also those of that write, if the storage
    /// has them.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&ReadTable) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.commits.read(|database| work(&read_table(database)?))
    }

    pub(crate) fn id(&self) -> Result<JournalId, Error> {
        self.commits.file().id()
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    pub(crate) fn stats(&self) -> Stats {
        self.commits.stats()
    }

    /// Returns the first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.commits.file().failed().cloned()
    }

    /// Returns the file's free pages to the file system.
    pub(crate) fn compact(&self) -> Result<(u64, u64), Error> {
        let file = Arc::clone(self.commits.file());
        self.commits.exclusively(|database| {
            let os = |cause| Error::os("cannot tell the length", cause);
            let before = file.storage().len().map_err(os)?;
            database.compact().map_err(|error| file.error(error, "cannot compact"))?;
            file.truncate()?;
            let after = file.storage().len().map_err(os)?;
            Ok((before, after))
        })
    }
}
