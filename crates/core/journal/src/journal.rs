//! The journal: opened, counted, compacted, exported.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::store::Store;
use crate::{
    Backoffs, Error, JournalId, JournalLedger, LedgerScope, Nonces, Operations, Storage,
    json_lines, ledger,
};

/// A durable, crash-safe store.
///
/// Clones are the same journal, which is closed with the last of them. Every call that changes
/// something returns once the change is durable; calls from several threads share a sync.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Arc<Store>,
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
        Store::open(path.as_ref(), wait).map(Journal::on)
    }

    /// Checks that the journal at its path is the open one: a journal that was removed, or whose
    /// lock was, keeps nothing, and does not keep another opener out. Each change checks it first.
    ///
    /// # Errors
    ///
    /// [`Removed`](crate::ErrorKind::Removed) if it is not.
    pub fn check_in_place(&self) -> Result<(), Error> {
        self.store.check_in_place()
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
        self.store.recreate(wait).map(Journal::on)
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
        Store::open_read_only(path.as_ref()).map(Journal::on)
    }

    /// Opens the journal on `storage`. The caller makes sure that nothing else writes to it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except for the lock.
    pub fn open_on(storage: impl Storage) -> Result<Journal, Error> {
        Store::open_on(Arc::new(storage)).map(Journal::on)
    }

    /// Creates a journal on `storage`, which is empty, and closes it. A crash before this returns
    /// leaves the storage unusable.
    ///
    /// # Errors
    ///
    /// [`Format`](crate::ErrorKind::Format) if `storage` is not empty,
    /// [`Os`](crate::ErrorKind::Os) if it cannot be written.
    pub fn create_on(storage: impl Storage) -> Result<(), Error> {
        Store::create_on(Arc::new(storage))
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
        self.store.id()
    }

    /// Returns the operations, their outcomes and their idempotency keys.
    pub fn operations(&self) -> Operations {
        Operations::new(Arc::clone(&self.store))
    }

    /// Returns the nonces that were spent.
    pub fn nonces(&self) -> Nonces {
        Nonces::new(Arc::clone(&self.store))
    }

    /// Returns the backoffs of objects.
    pub fn backoffs(&self) -> Backoffs {
        Backoffs::new(Arc::clone(&self.store))
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
        JournalLedger::new(Arc::clone(&self.store), source, scope)
    }

    /// Returns the sources and scopes that have records in the ledger, in order.
    ///
    /// # Errors
    ///
    /// When the records cannot be read.
    pub fn scopes(&self) -> Result<Vec<(String, LedgerScope)>, Error> {
        ledger::scopes(&self.store)
    }

    /// Forgets everything owned in other boots than `boot`: their kernel's state is gone. A scope
    /// whose boot is empty outlives boots, and stays. Returns the number of records removed.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget_other_boots(&self, boot: &str) -> Result<u64, Error> {
        ledger::forget_other_boots(&self.store, boot)
    }

    /// Returns the counters since the journal was opened. They start at the first change, which
    /// opens it for writing, and leave out its closing.
    pub fn stats(&self) -> Stats {
        self.store.stats()
    }

    /// Returns the reason why the journal does not write, if a write failed or it was opened
    /// read-only. Opened again, it may write again.
    pub fn failure(&self) -> Option<Error> {
        self.store.failure()
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
        self.store.compact()
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
        self.store.read(|records| json_lines::write(records, out))
    }

    fn on(store: Store) -> Journal {
        Journal { store: Arc::new(store) }
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
