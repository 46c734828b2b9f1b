//! How a journal comes to be read and written: checked by reading it whole, opened for writing by the first change, made by it
//! if it is not there. Not what is in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, ReadableDatabase as _};

use crate::error::from_redb;
use crate::frame::{Backend, Frame, HEAD, read_head};
use crate::lock::beside;
use crate::record::{Change, RECORDS, sequence};
use crate::regular::open_regular;
use crate::storage::Overlay;
use crate::{Error, Storage, lines};

/// Memory for pages that were read or are to be written, in bytes.
const CACHE: usize = 32 * 1024 * 1024;

/// How often, and how far apart, a file is read that someone else may be writing to; more often if it changed meanwhile.
const TRIES: u32 = 5;
const TRIES_MOVED: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);
/// The head of the journal, and after it that of redb: every commit changes them last.
const HEADS: u64 = 8192;

/// What redb reads of its head before it looks at a checksum: the first 64 bytes, and the version
/// in each of its two slots. It is the same in every journal, but for the flags, and for the
/// length, which redb recalculates when they say that it has to recover.
const REDB_FIXED: [Range<usize>; 3] = [0..64, 64..65, 192..193];
const REDB_FLAGS: usize = 9;
const REDB_RECOVER: u8 = 2;

/// The table for reading.
pub(crate) type View = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// What fills a new journal.
pub(crate) type Records<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// Opens what lies on `storage` for reading, checked, without a write to it.
///
/// # Errors
///
/// When anything that was acknowledged is not there any more.
pub(crate) fn look(storage: &Arc<dyn Storage>) -> Result<Database, Error> {
    let frame = Frame::new(overlay(storage)?);
    let marked = frame.open()?;
    let (database, last) = open_checked(&frame)?;
    if last < marked {
        return Err(Error::damaged(format!(
            "what was acknowledged last is missing: commit {marked} was durable, {last} is the last one that is whole"
        )));
    }
    Ok(database)
}

/// What can be read of a journal that is damaged: the state after a commit, never half of one.
pub(crate) struct Salvaged {
    pub(crate) database: Database,
    /// No commit that was acknowledged is missing.
    pub(crate) is_complete: bool,
}

/// Reads what it can of the journal on `storage`, without a write to it. Our head and the first
/// bytes of redb's are not needed: they are the same in every journal. redb's two slots have a
/// checksum each, and so has each of its pages.
///
/// # Errors
///
/// When there is no commit that is whole, or it is no journal.
pub(crate) fn salvage(storage: &Arc<dyn Storage>) -> Result<Salvaged, Error> {
    let os = |cause| Error::os("cannot read", cause);
    let overlay = overlay(storage)?;
    let frame = Frame::new(Arc::clone(&overlay));
    let head = read_head(&**storage)?;
    let new: Arc<dyn Storage> = self::overlay(&(Arc::new(Image(Vec::new())) as Arc<dyn Storage>))?;
    format(Arc::clone(&new), |_| Ok(()))?;
    let mut head_of_new = [0; 256];
    new.read(HEAD, &mut head_of_new).map_err(os)?;
    head_of_new[REDB_FLAGS] = REDB_RECOVER;
    for range in REDB_FIXED {
        let at = HEAD + range.start as u64;
        overlay.write(at, &head_of_new[range]).map_err(os)?;
    }
    let (database, last) = open_checked(&frame)?;
    lines::count(&view(&database)?)?;
    Ok(Salvaged {
        database,
        is_complete: last >= head.marked && (head.damage.is_none() || head.marked > 0),
    })
}

fn overlay(storage: &Arc<dyn Storage>) -> Result<Arc<dyn Storage>, Error> {
    match Overlay::new(Arc::clone(storage)) {
        Ok(overlay) => Ok(Arc::new(overlay)),
        Err(cause) => Err(Error::os("cannot tell the length", cause)),
    }
}

/// Opens what is behind the head, and returns with it the number of its last commit.
fn open_checked(frame: &Arc<Frame>) -> Result<(Database, u64), Error> {
    let database = builder()
        .set_check_integrity_on_open(true)
        .create_with_backend(Backend(Arc::clone(frame)))
        .map_err(|error| frame.error(error, "cannot open"))?;
    let last = sequence(&view(&database)?)?;
    Ok((database, last))
}

/// Opens the file at `path` for reading, beside one who may be writing to it: as it was at one moment. `None` if there is none.
///
/// A commit that is written while the file is read shows as damage, or as the commit before it. Each ends with a change of the
/// head, so what was read while the head changed is read again, and damage is looked at again before it is told.
pub(crate) fn glance(path: &Path) -> Result<Option<Database>, Error> {
    let mut tries = 1;
    loop {
        let Some(bytes) = read_file(path)? else {
            return Ok(None);
        };
        let head = read_start(path, HEADS)?.unwrap_or_default();
        let moved = !bytes.starts_with(&head);
        let image: Arc<dyn Storage> = Arc::new(Image(bytes));
        let again = match look(&image) {
            Ok(database) if !moved => return Ok(Some(database)),
            Ok(_) => tries < TRIES_MOVED,
            Err(error) => error.is_damaged() && tries < if moved { TRIES_MOVED } else { TRIES },
        };
        if !again {
            return look(&image).map(Some);
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
}

/// Opens a journal's file for reading. Refuses one that does not begin as a journal, before any more of
/// it is read; one that is damaged it opens.
pub(crate) fn open_journal(path: &Path) -> Result<Option<File>, Error> {
    let Some(file) = open_file(path, false)? else {
        return Ok(None);
    };
    match read_head(&file) {
        Err(error) if !error.is_damaged() => Err(error),
        _ => Ok(Some(file)),
    }
}

/// Reads the journal's file at `path` whole. `None` if there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    read_start(path, u64::MAX)
}

fn read_start(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = open_journal(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    match file.take(limit).read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(cause) => Err(Error::os(format!("cannot read {}", path.display()), cause)),
    }
}

/// A journal without records, in memory.
pub(crate) fn empty() -> Result<Database, Error> {
    let during = "cannot make an empty journal in memory";
    let database = builder()
        .create_with_backend(InMemoryBackend::new())
        .map_err(|error| from_redb(error, during))?;
    fill(&database, |_| Ok(())).map_err(|error| from_redb(error, during))?;
    Ok(database)
}

/// The table, for reading.
pub(crate) fn view(database: &Database) -> Result<View, Error> {
    let during = "cannot read";
    let transaction = database
        .begin_read()
        .map_err(|error| from_redb(error, during))?;
    transaction
        .open_table(RECORDS)
        .map_err(|error| from_redb(error, during))
}

/// Opens what was looked at for writing, and makes the first changes, in one commit. A file that is `new` is made of them.
pub(crate) fn write(
    frame: &Arc<Frame>,
    new: Option<&NewFile>,
    changes: &[Change],
) -> Result<Database, Error> {
    if let Some(new) = new {
        new.open()?;
        frame.create()?;
    }
    let during = "cannot open for writing";
    let database = builder()
        .create_with_backend(Backend(Arc::clone(frame)))
        .map_err(|error| frame.error(error, during))?;
    if new.is_some() || !changes.is_empty() {
        let filled = fill(&database, |records| {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(records.insert(key.as_slice(), value.as_slice())?),
                    None => drop(records.remove(key.as_slice())?),
                }
            }
            Ok(())
        });
        filled.map_err(|error| frame.error(error, during))?;
    }
    if let Some(new) = new {
        new.publish()?;
    }
    Ok(database)
}

/// Makes a journal on a storage that is empty.
pub(crate) fn format(
    storage: Arc<dyn Storage>,
    with: impl FnOnce(&mut Records<'_>) -> Result<(), redb::Error>,
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
    fill(&database, with).map_err(broken)?;
    database.close().map_err(|error| broken(error.into()))
}

fn fill(
    database: &Database,
    with: impl FnOnce(&mut Records<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    with(&mut transaction.open_table(RECORDS)?)?;
    Ok(transaction.commit()?)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Opens a journal's file. `None` if there is none.
pub(crate) fn open_file(path: &Path, write: bool) -> Result<Option<File>, Error> {
    match open_regular(path, OpenOptions::new().read(true).write(write)) {
        Ok(file) => Ok(Some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::os(format!("cannot open {}", path.display()), cause)),
    }
}

/// A file that is not there, and appears whole or not at all: it is written beside its place first.
#[derive(Clone, Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    file: Arc<OnceLock<File>>,
}

impl NewFile {
    pub(crate) fn new(path: &Path) -> NewFile {
        NewFile {
            path: path.to_owned(),
            file: Arc::default(),
        }
    }

    /// Begins beside. What an earlier attempt left is overwritten.
    pub(crate) fn open(&self) -> Result<(), Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = open_regular(&self.beside(), options.mode(0o600));
        let file = file.map_err(|cause| self.error(cause))?;
        let _ = self.file.set(file);
        Ok(())
    }

    /// Puts it in its place, for good.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        fs::rename(self.beside(), &self.path)
            .and_then(|()| sync_directory(&self.path))
            .map_err(|cause| self.error(cause))
    }

    fn beside(&self) -> PathBuf {
        beside(&self.path, "new")
    }

    fn error(&self, cause: io::Error) -> Error {
        Error::os(format!("cannot make {}", self.path.display()), cause)
    }

    fn there(&self) -> io::Result<&File> {
        self.file
            .get()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Makes durable that a name in the directory of `path` has come or gone.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

impl Storage for NewFile {
    fn len(&self) -> io::Result<u64> {
        Storage::len(self.there()?)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(self.there()?, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Storage::write(self.there()?, offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Storage::set_len(self.there()?, len)
    }

    fn sync(&self) -> io::Result<()> {
        Storage::sync(self.there()?)
    }
}

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Image(pub(crate) Vec<u8>);

impl Storage for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let there = self.0.get(from..from.saturating_add(out.len()));
        out.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}
