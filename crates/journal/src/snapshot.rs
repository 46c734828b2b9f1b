//! Reads a journal's file beside a process that may be writing to it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redb::Database;

use crate::database::{open_database, open_file};
use crate::header::read_header;
use crate::storage::ReadOnly;
use crate::{Error, Storage};

/// How often a file is read that looks damaged.
const TRIES: u32 = 5;
/// How often a file is read that another process writes to meanwhile.
const TRIES_CHANGING: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);
/// The length of the journal's header and of redb's, which follows it: each commit writes them
/// last.
const HEADERS_LEN: u64 = 8192;

/// Opens the file at `path` for reading, as it was at one moment. Returns `None` if there is none.
///
/// A commit that is written while the file is read shows as damage, or as the commit before it.
/// Each commit ends with a change of the headers. So a file whose headers changed meanwhile is
/// read again, and so is one that looks damaged, before the damage is reported.
pub(crate) fn read_snapshot(path: &Path) -> Result<Option<Database>, Error> {
    let mut tries = 1;
    loop {
        let Some(bytes) = read_file(path)? else {
            return Ok(None);
        };
        let headers = read_start(path, HEADERS_LEN)?.unwrap_or_default();
        let has_changed = !bytes.starts_with(&headers);
        let image: Arc<dyn Storage> = Arc::new(ReadOnly(bytes));
        let tries_allowed = if has_changed { TRIES_CHANGING } else { TRIES };
        let should_retry = match open_database(&image) {
            Ok(database) if !has_changed => return Ok(Some(database)),
            Ok(_) => tries < TRIES_CHANGING,
            Err(error) => error.is_damaged() && tries < tries_allowed,
        };
        if !should_retry {
            return open_database(&image).map(Some);
        }
        tries += 1;
        thread::sleep(PAUSE);
    }
}

/// Opens a journal's file for reading, also a damaged one. Refuses a file that does not begin as a
/// journal before it reads any more of it.
pub(crate) fn open_journal(path: &Path) -> Result<Option<File>, Error> {
    let Some(file) = open_file(path, false)? else {
        return Ok(None);
    };
    match read_header(&file) {
        Err(error) if !error.is_damaged() => Err(error),
        _ => Ok(Some(file)),
    }
}

/// Reads the whole file of the journal at `path`. Returns `None` if there is none.
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
