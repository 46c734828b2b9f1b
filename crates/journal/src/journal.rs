//! The journal itself: opened, counted, made smaller. What is kept in it has a file for each face.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::commit::Commits;
use crate::frame::Frame;
use crate::keys::Live;
use crate::lock::Lock;
use crate::opening::{NewFile, empty, format, glance, look, open_file};
use crate::{Error, JournalLedger, Keys, LedgerScope, Operations, Storage};

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
    /// Commits that became durable.
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

impl Journal {
    /// Opens the journal at `path`. One that is not there is empty.
    ///
    /// The file is read whole and checked, and nothing is written to it: the first change opens it
    /// for writing, and makes it if it is not there. The holder's name goes into the lock file
    /// `path.lock`, which stays, unless this made it and fails. A new journal is written beside and
    /// renamed, so that a file that is there is either whole or damaged, also when it is empty.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if anybody has it open; [`Damaged`](crate::ErrorKind::Damaged),
    /// [`Format`](crate::ErrorKind::Format) or [`Os`](crate::ErrorKind::Os) if it cannot be read, or not be opened for
    /// writing.
    pub fn open(path: impl AsRef<Path>) -> Result<Journal, Error> {
        let path = path.as_ref();
        let lock = Lock::take(path)?;
        match open_file(path, true)? {
            Some(file) => Journal::start(Arc::new(file), Some(lock)),
            None => {
                let new = NewFile::new(path);
                let frame = Frame::new(Arc::new(new.clone()));
                let commits = Commits::new(frame, empty()?, Some(new));
                Ok(Journal::with(commits, Some(lock)))
            }
        }
    }

    /// Reads the journal at `path` as it is at this moment, without its lock and without a write, also while someone has it
    /// open. What is asked to change it is refused. One that is not there is empty.
    ///
    /// The file is held in memory.
    ///
    /// # Errors
    ///
    /// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or [`Os`](crate::ErrorKind::Os) if it
    /// cannot be read. It is read again a few times before it is damaged: someone may be writing to it.
    pub fn peek(path: impl AsRef<Path>) -> Result<Journal, Error> {
        let path = path.as_ref();
        let seen = match glance(path)? {
            Some(database) => database,
            None => empty()?,
        };
        // Nothing reaches the file by way of it.
        let frame = Frame::new(Arc::new(NewFile::new(path)));
        Ok(Journal::with(Commits::peeked(frame, seen), None))
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

    /// Opens the ledger of what `source` owns in `scope`: a [`JournalLedger`], which is a
    /// [`trueup_reconcile::Ledger`].
    ///
    /// For a network namespace, `trueup_rtnl::ledger_scope` makes the scope. The name is the
    /// caller's: agents that share a namespace, and a journal, have a name each.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if a name is longer than 65536 bytes.
    pub fn ledger(&self, source: &str, scope: &LedgerScope) -> Result<JournalLedger, Error> {
        JournalLedger::new(Arc::clone(&self.inner), source, scope)
    }

    /// What was done since it was opened: nothing before the first change, which opens it for writing, and nothing of its closing.
    pub fn stats(&self) -> Stats {
        self.inner.commits.stats()
    }

    /// Why it does not write any more, if a write failed, or was opened to be read alone. Opened anew it may write again.
    pub fn failure(&self) -> Option<Error> {
        self.inner.commits.frame().failed().cloned()
    }

    /// Gives free pages back to the file system. What was forgotten is reused without it; this is for a file that has become
    /// much longer than its content. Writes wait meanwhile. One that is not there is made.
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
        let seen = look(&storage)?;
        let frame = Frame::new(storage);
        frame.open()?;
        Ok(Journal::with(Commits::new(frame, seen, None), lock))
    }

    fn with(commits: Commits, lock: Option<Lock>) -> Journal {
        let inner = Inner {
            commits,
            live: Arc::default(),
            _lock: lock.map(Lock::keep),
        };
        Journal {
            inner: Arc::new(inner),
        }
    }
}
