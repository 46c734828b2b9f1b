//! Reads a journal's file beside a process that may be writing to it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use redb::Database;

use crate::database::open_database;
use crate::error::from_io;
use crate::files::Files;
use crate::header::read_header;
use crate::storage::{ReadOnly, Readable};
use crate::{Error, JournalId, Storage};

/// The number of tries to read a file that looks damaged.
const TRIES: u32 = 5;
/// The number of tries to read a file that another process is writing to.
const TRIES_CHANGING: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);
/// The length in bytes of the journal's header and redb's, which follows it. Each commit writes
/// them last.
const HEADERS_LEN: u64 = 8192;

/// A journal as it was at one moment.
pub(crate) struct Snapshot {
    pub(crate) database: Database,
    pub(crate) id: Option<JournalId>,
}

/// Opens the journal for reading, as it was at one moment. `None` if there is none.
///
/// If a commit is written while the file is read, the file may look damaged, or show the previous
/// commit. Each commit ends with a change of the headers. So a file whose headers changed meanwhile
/// is read again. A file that looks damaged is also read again before the damage is reported.
pub(crate) fn read_snapshot(files: &Files) -> Result<Option<Snapshot>, Error> {
    let mut tries = 1;
    loop {
        let Some(image) = open_image(files)? else {
            return Ok(None);
        };
        // Opening checks each page in use, so nothing else is read later.
        let opened = open_database(&image);
        let has_changed = read_headers(files)? != Some(headers_of(&*image)?);
        let tries_allowed = if has_changed { TRIES_CHANGING } else { TRIES };
        let should_retry = match &opened {
            Ok(_) => has_changed && tries < TRIES_CHANGING,
            Err(error) => error.is_damaged() && tries < tries_allowed,
        };
        if !should_retry {
            return opened.map(|database| {
                let id = read_header(&*image).ok().and_then(|header| header.id);
                Some(Snapshot { database, id })
            });
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
}

/// Opens the journal's file, to be read in its current state. `None` if there is none.
pub(crate) fn open_image(files: &Files) -> Result<Option<Arc<dyn Storage>>, Error> {
    let Some(file) = open_journal(files)? else {
        return Ok(None);
    };
    let image = Image::new(file)
        .map(ReadOnly)
        .map_err(|cause| Error::os(format!("cannot read {}", files.path().display()), cause))?;
    // Read the headers first: if they are equal afterwards, no commit ended meanwhile.
    headers_of(&image)?;
    Ok(Some(Arc::new(image)))
}

/// Opens a journal's file for reading, even a damaged one. Refuses a file that does not begin like
/// a journal before it reads any more of it.
pub(crate) fn open_journal(files: &Files) -> Result<Option<File>, Error> {
    let Some(file) = files.open()? else {
        return Ok(None);
    };
    match read_header(&file) {
        Err(error) if !error.is_damaged() => Err(error),
        _ => Ok(Some(file)),
    }
}

fn read_headers(files: &Files) -> Result<Option<Vec<u8>>, Error> {
    let file = open_journal(files)?;
    file.map(|file| headers_of(&file)).transpose()
}

fn headers_of(storage: &dyn Storage) -> Result<Vec<u8>, Error> {
    let read = storage.len().and_then(|len| {
        let mut bytes = vec![0; len.min(HEADERS_LEN) as usize];
        storage.read(0, &mut bytes)?;
        Ok(bytes)
    });
    read.map_err(|cause| from_io("cannot read the headers", cause))
}

/// The size of each read in bytes, equal to redb's page.
const PIECE: u64 = 4096;

/// The most bytes that an image holds; no journal has more in use.
const MAX_HELD: usize = 1 << 30;

/// A file that is read once and held in memory. So another process may write to it, and a second
/// read of the same bytes gives the same result. Unread parts, such as holes, cost nothing.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    len: u64,
    pieces: Mutex<BTreeMap<u64, Box<[u8]>>>,
}

impl Image {
    pub(crate) fn new(file: File) -> io::Result<Image> {
        let len = file.metadata()?.len();
        let pieces = Mutex::default();
        Ok(Image { file, len, pieces })
    }

    fn read_piece(&self, number: u64) -> io::Result<Box<[u8]>> {
        let at = number * PIECE;
        let len = PIECE.min(self.len.saturating_sub(at)) as usize;
        let mut bytes = vec![0; len].into_boxed_slice();
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

impl Readable for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(out.len() as u64) > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (number, within) = (at / PIECE, (at % PIECE) as usize);
            if !pieces.contains_key(&number) {
                if pieces.len() >= MAX_HELD / PIECE as usize {
                    let message =
                        "more than 1 GiB of it is in use, the most that is held in memory";
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
                }
                pieces.insert(number, self.read_piece(number)?);
            }
            let piece = pieces
                .get(&number)
                .and_then(|piece| piece.get(within..))
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let count = piece.len().min(out.len() - done);
            out[done..done + count].copy_from_slice(&piece[..count]);
            done += count;
        }
        Ok(())
    }
}
