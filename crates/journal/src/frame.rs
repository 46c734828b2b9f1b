//! What surrounds redb's bytes: a head of our own, counters, and the memory that a write has failed.
//!
//! redb commits with a single sync. After a crash it falls back by one commit if the last one is not whole, which is right
//! for a commit that was under way, and wrong for one that was acknowledged and damaged since. To tell them apart, the head
//! holds a mark: the number of the last commit that is known to be durable, written after its sync, without one of its own.
//! A mark that is lost with the power only makes us less strict; one that is there means what it says.
//!
//! redb shortens its file as soon as half of it is free, and makes it longer again soon after, which costs a sync of its own
//! each time. So the file keeps its length until it is compacted, and a sync with nothing to make durable is left out.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{from_io, from_redb};
use crate::{Error, Stats, Storage};

/// Length of the head. redb's bytes follow.
pub(crate) const HEAD: u64 = 4096;
/// The first of redb's bytes. They show that a file is a journal of which the head is damaged.
const BODY: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
/// Marks are written in turn to two blocks, so that one torn leaves the other.
const MARKS: [u64; 2] = [512, 1024];
/// The first bytes of a journal, then the version of all that is in it, then a checksum.
const MAGIC: &[u8; 16] = b"trueup-journal\n\0";
const VERSION: u32 = 1;

pub(crate) struct Frame {
    storage: Arc<dyn Storage>,
    failed: OnceLock<Error>,
    /// The length that redb believes in; the file may be longer. `u64::MAX` before the first look at the file.
    len: AtomicU64,
    /// redb has written something since the last sync. Marks do not count: nobody waits for them.
    dirty: AtomicBool,
    marks: AtomicU64,
    syncs: AtomicU64,
    writes: AtomicU64,
    written: AtomicU64,
}

/// What the head of a journal says.
#[derive(Debug)]
pub(crate) struct Head {
    /// The number of the last commit known to be durable, 0 if none is.
    pub(crate) marked: u64,
    next_mark: u64,
    /// That it is not as it was written.
    pub(crate) damage: Option<Error>,
}

/// What redb sees of a frame.
#[derive(Clone, Debug)]
pub(crate) struct Backend(pub(crate) Arc<Frame>);

impl Frame {
    pub(crate) fn new(storage: Arc<dyn Storage>) -> Arc<Frame> {
        Arc::new(Frame {
            storage,
            failed: OnceLock::new(),
            len: AtomicU64::new(u64::MAX),
            dirty: AtomicBool::new(true),
            marks: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            written: AtomicU64::new(0),
        })
    }

    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Writes the head of a new journal.
    pub(crate) fn create(&self) -> Result<(), Error> {
        let mut head = vec![0; HEAD as usize];
        head[..16].copy_from_slice(MAGIC);
        head[16..20].copy_from_slice(&VERSION.to_le_bytes());
        seal(&mut head[..24]);
        self.write_at(0, &head)
            .map_err(|cause| self.error(redb::StorageError::Io(cause), "cannot write the head"))
    }

    /// Reads the head, and returns the number of the last commit known to be durable, 0 if none is.
    pub(crate) fn open(&self) -> Result<u64, Error> {
        let head = read_head(&*self.storage)?;
        match head.damage {
            Some(damage) => Err(damage),
            None => {
                self.marks.store(head.next_mark, Ordering::Relaxed);
                Ok(head.marked)
            }
        }
    }

    /// Notes that `commit` is durable. A failure is remembered, and the next write tells of it: this commit stays durable.
    pub(crate) fn mark(&self, commit: u64) {
        let mut mark = [0; 12];
        mark[..8].copy_from_slice(&commit.to_le_bytes());
        seal(&mut mark);
        let slot = self.marks.fetch_add(1, Ordering::Relaxed) % MARKS.len() as u64;
        let _ = self.write_at(MARKS[slot as usize], &mark);
    }

    /// Cuts off what redb does not use. It is for the caller to see that redb uses nothing meanwhile.
    pub(crate) fn trim(&self) -> Result<(), Error> {
        let cut = self.len().and_then(|len| {
            self.unless_failed()?;
            let set = self.storage.set_len(len.saturating_add(HEAD));
            self.kept(set, "the length cannot be set")?;
            self.dirty.store(true, Ordering::Relaxed);
            self.sync()
        });
        cut.map_err(|cause| self.error(redb::StorageError::Io(cause), "cannot cut the file"))
    }

    /// The first failure, once there was one. From then on nothing is written.
    pub(crate) fn failed(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// Remembers a failure that has another cause than the storage.
    pub(crate) fn fail(&self, error: Error) {
        let _ = self.failed.set(error);
    }

    /// What redb says, or, where it only passes on a failure, that failure.
    pub(crate) fn error(&self, error: impl Into<redb::Error>, during: &str) -> Error {
        match self.failed() {
            Some(failed) => failed.clone(),
            None => from_redb(error, during),
        }
    }

    /// The part of the counters that is counted here.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            syncs: self.syncs.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            written: self.written.load(Ordering::Relaxed),
            ..Stats::default()
        }
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.unless_failed()?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.kept(self.storage.write(offset, data), "a write failed")
    }

    fn len(&self) -> io::Result<u64> {
        let known = self.len.load(Ordering::Relaxed);
        if known != u64::MAX {
            return Ok(known);
        }
        let len = self.kept(self.storage.len(), "cannot tell the length")?;
        let len = len.saturating_sub(HEAD);
        self.len.store(len, Ordering::Relaxed);
        Ok(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.unless_failed()?;
        let there = self.kept(self.storage.len(), "cannot tell the length")?;
        if len.saturating_add(HEAD) > there {
            self.dirty.store(true, Ordering::Relaxed);
            let set = self.storage.set_len(len.saturating_add(HEAD));
            self.kept(set, "the length cannot be set")?;
        }
        self.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.unless_failed()?;
        // Before the sync: what is written while it lasts is not covered by it.
        if !self.dirty.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.kept(self.storage.sync(), "a sync failed")
    }

    fn unless_failed(&self) -> io::Result<()> {
        match self.failed() {
            Some(failed) => Err(io::Error::other(failed.clone())),
            None => Ok(()),
        }
    }

    /// Passes a result on, and remembers the first failure.
    fn kept<T>(&self, result: io::Result<T>, what: &str) -> io::Result<T> {
        result.or_else(|cause| {
            self.fail(from_io(what, cause));
            self.unless_failed().and(Err(io::ErrorKind::Other.into()))
        })
    }
}

/// Reads the head, also if it is damaged. The error is for what is no journal, or has not even
/// a whole head.
pub(crate) fn read_head(storage: &dyn Storage) -> Result<Head, Error> {
    let os = |cause| Error::os("cannot read the head", cause);
    let len = storage.len().map_err(os)?;
    let mut bytes = vec![0; len.min(HEAD + BODY.len() as u64) as usize];
    storage.read(0, &mut bytes).map_err(os)?;
    let begins = bytes.starts_with(MAGIC) || MAGIC.starts_with(&bytes);
    let body = bytes.get(HEAD as usize..);
    if !begins && body != Some(BODY) {
        return Err(Error::format("the file does not begin as a journal does"));
    }
    if len < HEAD {
        return Err(Error::damaged(format!(
            "the file has {len} bytes, less than its head alone"
        )));
    }
    let is_whole = begins && is_sealed(&bytes[..24]);
    let version = u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
    if is_whole && version != VERSION {
        return Err(Error::format(format!(
            "the journal is of version {version}, not {VERSION}"
        )));
    }
    let mut head = Head {
        marked: 0,
        next_mark: 0,
        damage: (!is_whole).then(|| Error::damaged("the head's checksum does not agree")),
    };
    for (slot, at) in MARKS.into_iter().enumerate() {
        let at = at as usize;
        let mark = &bytes[at..at + 12];
        let commit = u64::from_le_bytes(mark[..8].try_into().unwrap_or_default());
        if is_sealed(mark) && commit > head.marked {
            head.marked = commit;
            head.next_mark = slot as u64 + 1;
        }
    }
    Ok(head)
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        let len = self
            .0
            .kept(self.0.storage.len(), "cannot tell the length")?;
        Ok(len.saturating_sub(HEAD))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.0.storage.read(offset.saturating_add(HEAD), out);
        self.0.kept(read, "a read failed")
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.dirty.store(true, Ordering::Relaxed);
        self.0.write_at(offset.saturating_add(HEAD), data)
    }
}

/// Puts the checksum of all bytes before into the last four.
fn seal(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_at_mut(bytes.len() - 4);
    sum.copy_from_slice(&crc32(content).to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let (content, sum) = bytes.split_at(bytes.len() - 4);
    sum == crc32(content).to_le_bytes()
}

/// CRC-32 as in IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_standard_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert!(!is_sealed(&[0; 12]), "zeros are no mark");
    }
}
