//! A journal's file: a header, and redb's database behind it. It counts reads and writes, and
//! refuses every write after a failed one.
//!
//! redb commits with a single sync. If the last commit is not whole after a crash, redb falls back
//! by one commit. This is right for an unacknowledged commit, and wrong for one that was
//! acknowledged and then damaged. To distinguish them, the header holds a mark: the number of the
//! last commit known to be durable. It is written after that commit's sync, without its own sync.
//! If a mark is lost in a power failure, the check is only less strict.
//!
//! The lock beside the file keeps two processes apart. It does not help if a person deletes it, and
//! other storage has none. So each opener for writing takes the next number in the header, and each
//! commit first checks that the number is still its own.
//!
//! redb shortens its file as soon as half of it is free, and extends it again soon after, which
//! costs a sync each time. So the file keeps its length until it is compacted, and a sync with
//! nothing to make durable is left out.
//!
//! redb also syncs changes that affect only its own header. It does so once when it opens a closed
//! file, to mark it as in use. It does so twice when it closes the file: to point to the pages of
//! its last commit, which are durable by then, and to mark it as closed. These syncs are left to
//! the next commit, perhaps by another process. Until then, the device has any of these headers.
//! Each names commits whose pages are durable, because redb reuses no page of the last commit
//! before the next one is durable.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use redb::{Builder, Database};

use crate::error::{from_io, from_redb};
use crate::files::OpenFiles;
use crate::header::{
    HEADER_LEN, Header, ID_OFFSET, MARK_OFFSETS, MAX_LEN, NUMBER_LEN, OPENER_OFFSET, REDB_FLAGS,
    REDB_HEADER_LEN, REDB_RECOVER, new_header, parse_number, read_header, sealed_id, sealed_number,
    unread,
};
use crate::storage::Readable;
use crate::{Error, JournalId, Stats, Storage};

pub(crate) struct JournalFile {
    storage: Arc<dyn Storage>,
    failed: OnceLock<Error>,
    /// The length that redb works with; the file may be longer. `u64::MAX` until it is first read.
    redb_len: AtomicU64,
    /// True if redb has written a page or set the length since the last sync. Marks do not count:
    /// no caller waits for them.
    is_dirty: AtomicBool,
    /// True if redb has written its own header since the last sync.
    is_header_dirty: AtomicBool,
    /// True while syncs for only redb's header are left out.
    header_waits: AtomicBool,
    marks: AtomicU64,
    /// The open files at its path; unset without a path.
    files: OnceLock<OpenFiles>,
    /// The number of the last commit in the header when it was opened.
    marked: AtomicU64,
    /// The opener's number in the header: an earlier opener's until this one writes.
    opener: AtomicU64,
    /// The id in the header. Until the header was read or written, the id for the new journal.
    id: OnceLock<JournalId>,
    syncs: AtomicU64,
    writes: AtomicU64,
    written: AtomicU64,
}

/// redb's view of the file: the bytes behind the header.
#[derive(Clone, Debug)]
pub(crate) struct Backend(pub(crate) Arc<JournalFile>);

impl JournalFile {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Arc<JournalFile> {
        Arc::new(JournalFile {
            storage,
            failed: OnceLock::new(),
            redb_len: AtomicU64::new(u64::MAX),
            is_dirty: AtomicBool::new(true),
            is_header_dirty: AtomicBool::new(true),
            header_waits: AtomicBool::new(false),
            marks: AtomicU64::new(0),
            files: OnceLock::new(),
            marked: AtomicU64::new(0),
            opener: AtomicU64::new(0),
            id: OnceLock::new(),
            syncs: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    /// Returns the file's length in bytes.
    pub(crate) fn len(&self) -> Result<u64, Error> {
        self.storage.len().map_err(|cause| Error::os("cannot tell the length", cause))
    }

    /// Sets the open files at its path.
    pub(crate) fn set_files(&self, files: OpenFiles) {
        let _is_set = self.files.set(files);
    }

    /// Returns the open files at its path; `None` without a path.
    pub(crate) fn files(&self) -> Option<&OpenFiles> {
        self.files.get()
    }

    /// Checks that the files at its path, if it has one, are still the open ones.
    ///
    /// # Errors
    ///
    /// [`Removed`](crate::ErrorKind::Removed) if they are not, and [`Held`](crate::ErrorKind::Held)
    /// if another opener has taken over the open file.
    pub(crate) fn check_in_place(&self) -> Result<(), Error> {
        let checked = self.files().map_or(Ok(()), OpenFiles::check);
        checked.map_err(|removed| match self.check_opener() {
            Err(error) if error.is_held() => error,
            _ => removed,
        })
    }

    /// Sets the id that was read from the header.
    pub(crate) fn set_id(&self, id: JournalId) {
        let _is_known = self.id.set(id);
    }

    /// Returns the journal's id. A journal without one gets it here, and in its header before the
    /// first write.
    ///
    /// # Errors
    ///
    /// The journal has no id and will not get one, because nothing writes to it.
    pub(crate) fn id(&self) -> Result<JournalId, Error> {
        match (self.id.get(), self.failed()) {
            (Some(id), _) => Ok(*id),
            (None, Some(failed)) => Err(Error::read_only(failed)),
            (None, None) => {
                let made = JournalId::random()?;
                Ok(*self.id.get_or_init(|| made))
            }
        }
    }

    /// Writes the header of a new journal.
    pub(crate) fn create(&self) -> Result<(), Error> {
        self.write_header(0, &new_header(self.id()?))
    }

    fn write_header(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_at(offset, bytes)
            .map_err(|cause| self.error(redb::StorageError::Io(cause), "cannot write the header"))
    }

    /// Reads the header, and returns the number of the last commit known to be durable; 0 if none
    /// is.
    pub(crate) fn open(&self) -> Result<u64, Error> {
        let header = read_header(&*self.storage)?;
        match header.damage {
            Some(damage) => Err(damage),
            None => {
                self.marks.store(header.next_mark, Ordering::Relaxed);
                self.marked.store(header.marked, Ordering::Relaxed);
                self.opener.store(header.opener, Ordering::Relaxed);
                if let Some(id) = header.id {
                    self.set_id(id);
                }
                Ok(header.marked)
            }
        }
    }

    /// Records that `commit` is durable. If this fails, the next write fails, but this commit stays
    /// durable.
    pub(crate) fn mark(&self, commit: u64) {
        let mark = sealed_number(commit);
        let slot = self.marks.fetch_add(1, Ordering::Relaxed) % MARK_OFFSETS.len() as u64;
        let _ = self.write_at(MARK_OFFSETS[slot as usize], &mark);
    }

    /// Takes the next opener's number, before the first write to an opened file, and gives a
    /// journal without an id its own.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if another opener has written since.
    pub(crate) fn take_over(&self) -> Result<(), Error> {
        let header = self.check_unchanged()?;
        let next = self.opener.load(Ordering::Relaxed).wrapping_add(1);
        self.opener.store(next, Ordering::Relaxed);
        if header.id.is_none() {
            self.write_header(ID_OFFSET, &sealed_id(self.id()?))?;
        }
        self.write_header(OPENER_OFFSET, &sealed_number(next))
    }

    /// Checks that no other opener has written since this one read the header, and returns the
    /// header.
    pub(crate) fn check_unchanged(&self) -> Result<Header, Error> {
        let header = read_header(&*self.storage)?;
        let (marked, opener) = (&self.marked, &self.opener);
        let known = (marked.load(Ordering::Relaxed), opener.load(Ordering::Relaxed));
        if (header.marked, header.opener) == known {
            Ok(header)
        } else {
            Err(Error::held("the journal", None))
        }
    }

    /// Checks that no other opener has taken over.
    pub(crate) fn check_opener(&self) -> Result<(), Error> {
        let mut bytes = [0; NUMBER_LEN];
        self.storage.read(OPENER_OFFSET, &mut bytes).map_err(unread)?;
        if parse_number(&bytes).unwrap_or_default() == self.opener.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(Error::held("the journal", None))
        }
    }

    /// Opens the database in the file for writing. If the file was closed, or is new, the syncs of
    /// redb's header wait. If not, a killed process may have written pages that are not durable.
    pub(crate) fn open_database(self: &Arc<Self>, builder: &Builder) -> Result<Database, Error> {
        let was_closed = self.was_closed().map_err(redb::StorageError::Io);
        let opened = was_closed.map_err(redb::Error::from).and_then(|was_closed| {
            self.is_dirty.store(!was_closed, Ordering::Relaxed);
            self.header_waits.store(was_closed, Ordering::Relaxed);
            Ok(builder.create_with_backend(Backend(Arc::clone(self)))?)
        });
        self.header_waits.store(false, Ordering::Relaxed);
        opened.map_err(|error| self.error(error, "cannot open for writing"))
    }

    /// Returns true if redb has nothing to repair: the file was closed, or is new.
    fn was_closed(&self) -> io::Result<bool> {
        let mut flags = [0];
        if self.database_len()? > REDB_FLAGS {
            let read = self.storage.read(HEADER_LEN.saturating_add(REDB_FLAGS), &mut flags);
            self.record_failure(read, "a read failed")?;
        }
        Ok(flags[0] & REDB_RECOVER == 0)
    }

    /// Leaves the last syncs of redb's header to the next commit, before redb closes the file.
    pub(crate) fn before_close(&self) {
        self.header_waits.store(true, Ordering::Relaxed);
    }

    /// Cuts the file to the length that redb works with. The caller must ensure that redb does not
    /// work with it meanwhile.
    pub(crate) fn truncate(&self) -> Result<(), Error> {
        let truncated = self.database_len().and_then(|len| {
            self.check_not_failed()?;
            let set = self.storage.set_len(len.saturating_add(HEADER_LEN));
            self.record_failure(set, "the length cannot be set")?;
            self.is_dirty.store(true, Ordering::Relaxed);
            self.sync()
        });
        truncated.map_err(|cause| self.error(redb::StorageError::Io(cause), "cannot cut the file"))
    }

    /// Returns the first failure. After it, nothing is written.
    pub(crate) fn failed(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// Records a failure that the storage did not cause. Only the first failure counts.
    pub(crate) fn fail(&self, error: Error) {
        let _ = self.failed.set(error);
    }

    /// Converts redb's error. If the file has failed, redb only passes that failure on, and so does
    /// this.
    pub(crate) fn error(&self, error: impl Into<redb::Error>, during: &str) -> Error {
        match self.failed() {
            Some(failed) => failed.clone(),
            None => from_redb(error, during),
        }
    }

    /// Returns this file's counters; the counters of commits are 0.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            syncs: self.syncs.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            ..Stats::default()
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_not_failed()?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.record_failure(self.storage.write(offset, data), "a write failed")
    }

    /// Returns the length that redb works with, in bytes.
    fn database_len(&self) -> io::Result<u64> {
        let known = self.redb_len.load(Ordering::Relaxed);
        if known != u64::MAX {
            return Ok(known);
        }
        let len = self
            .record_failure(self.storage.len(), "cannot tell the length")?
            .saturating_sub(HEADER_LEN);
        self.redb_len.store(len, Ordering::Relaxed);
        Ok(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_not_failed()?;
        let there = self.record_failure(self.storage.len(), "cannot tell the length")?;
        if len.saturating_add(HEADER_LEN) > MAX_LEN {
            let cause = io::ErrorKind::FileTooLarge.into();
            self.record_failure(Err(cause), "a journal has at most 16 GiB")?;
        }
        if len.saturating_add(HEADER_LEN) > there {
            // The first commit makes a new file's length durable, before the file has its name.
            if there > HEADER_LEN {
                self.is_dirty.store(true, Ordering::Relaxed);
            }
            let set = self.storage.set_len(len.saturating_add(HEADER_LEN));
            self.record_failure(set, "the length cannot be set")?;
        }
        self.redb_len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check_not_failed()?;
        let waits = self.header_waits.load(Ordering::Relaxed);
        let is_header_due = self.is_header_dirty.load(Ordering::Relaxed) && !waits;
        // Before the sync, which does not cover later writes.
        if !self.is_dirty.swap(false, Ordering::Relaxed) && !is_header_due {
            return Ok(());
        }
        self.is_header_dirty.store(false, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.record_failure(self.storage.sync(), "a sync failed")
    }

    fn check_not_failed(&self) -> io::Result<()> {
        match self.failed() {
            Some(failed) => Err(io::Error::other(failed.clone())),
            None => Ok(()),
        }
    }

    /// Returns `result`, and records its failure.
    fn record_failure<T>(&self, result: io::Result<T>, what: &str) -> io::Result<T> {
        result.or_else(|cause| {
            self.fail(from_io(what, cause));
            self.check_not_failed().and(Err(io::ErrorKind::Other.into()))
        })
    }
}

/// The file for reading. It fails once another opener has taken over, whose writes this redb does
/// not know.
impl Readable for Arc<JournalFile> {
    fn len(&self) -> io::Result<u64> {
        self.storage.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.failed() {
            Some(failed) if failed.is_held() => Err(io::Error::other(failed.clone())),
            _ => self.storage.read(offset, out),
        }
    }
}

impl fmt::Debug for JournalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        // Not the file's length: redb compares it with its requests, to know if the file shrinks.
        self.0.database_len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = Readable::read(&self.0, offset.saturating_add(HEADER_LEN), out);
        self.0.record_failure(read, "a read failed")
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let is_header = offset.saturating_add(data.len() as u64) <= REDB_HEADER_LEN;
        let dirty = if is_header { &self.0.is_header_dirty } else { &self.0.is_dirty };
        dirty.store(true, Ordering::Relaxed);
        self.0.write_at(offset.saturating_add(HEADER_LEN), data)
    }
}
