//! What a person does with a journal that no program has open: check it, export it, repair it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::ReadableTable as _;

use crate::error::from_redb;
use crate::journal::{create_with, look, look_leniently, open_file, sync_directory, view};
use crate::lock::{Lock, beside};
use crate::{Counts, Error, Storage, lines};

/// Whether a repair may lose what cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No: rather fail.
    Refuse,
    /// Yes. What is lost may be done again, and what was owned by it alone is nobody's.
    Accept,
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// Nothing: every record is there.
    Whole,
    /// The last commits are missing, all before them is there.
    Shortened {
        /// The file as it was.
        damaged: PathBuf,
    },
    /// Nothing could be read: the journal is empty.
    Emptied {
        /// The file as it was.
        damaged: PathBuf,
    },
}

/// Reads the journal at `path` whole and tells how many records there are. Writes nothing to it.
///
/// # Errors
///
/// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or [`Os`](crate::ErrorKind::Os) if it cannot
/// be read, also because it is not there; [`Held`](crate::ErrorKind::Held) if anybody has it open.
pub fn check(path: impl AsRef<Path>) -> Result<Counts, Error> {
    let (storage, _lock) = open(path.as_ref())?;
    let (database, _) = look(&storage)?;
    lines::count(&view(&database)?)
}

/// Writes every record of the journal at `path` as a line of JSON, as [`Journal::export`](crate::Journal::export) does. Writes
/// nothing to the journal.
///
/// # Errors
///
/// As [`check`], and [`Os`](crate::ErrorKind::Os) if `out` fails.
pub fn export(path: impl AsRef<Path>, out: &mut dyn io::Write) -> Result<(), Error> {
    let (storage, _lock) = open(path.as_ref())?;
    let (database, _) = look(&storage)?;
    lines::write(&view(&database)?, out)
}

/// Makes the journal at `path` one that can be opened. One that is whole is left alone.
///
/// The damaged file stays, as `path.damaged` or, if there is one, `path.damaged.1` and so on. The new one takes its place at
/// once or not at all.
///
/// # Errors
///
/// What is wrong with it, if something would be lost and `loss` refuses that; otherwise as [`check`].
pub fn repair(path: impl AsRef<Path>, loss: Loss) -> Result<Repaired, Error> {
    let path = path.as_ref();
    let (storage, _lock) = open(path)?;
    let damage = match look(&storage).and_then(|(seen, _)| lines::count(&view(&seen)?)) {
        Ok(_) => return Ok(Repaired::Whole),
        Err(error) => error,
    };
    if loss == Loss::Refuse || !damage.is_damaged() {
        return Err(damage);
    }
    // Whatever can be read whole: the state of an earlier commit. Of half a state nobody could say what it means.
    let earlier = look_leniently(&storage)
        .and_then(|(seen, ..)| lines::count(&view(&seen)?).map(|_| seen))
        .ok();
    let damaged = keep(path)?;
    create_with(path, |records| {
        let Some(earlier) = &earlier else {
            return Ok(());
        };
        let broken = |error| from_redb(error, "cannot read the records");
        for entry in view(earlier)?.iter().map_err(broken)? {
            let (key, value) = entry.map_err(broken)?;
            records
                .insert(key.value(), value.value())
                .map_err(|error| from_redb(error, "cannot write a record"))?;
        }
        Ok(())
    })?;
    Ok(match earlier {
        Some(_) => Repaired::Shortened { damaged },
        None => Repaired::Emptied { damaged },
    })
}

fn open(path: &Path) -> Result<(Arc<dyn Storage>, Lock), Error> {
    let file = open_file(path, false)?;
    let lock = Lock::take(path)?;
    Ok((Arc::new(file), lock))
}

/// Gives the file a second name that is not taken.
fn keep(path: &Path) -> Result<PathBuf, Error> {
    let os = |cause| Error::os(format!("cannot keep {}", path.display()), cause);
    for attempt in 0..u32::MAX {
        let name = match attempt {
            0 => beside(path, "damaged"),
            _ => beside(path, &format!("damaged.{attempt}")),
        };
        match fs::hard_link(path, &name) {
            Ok(()) => return sync_directory(path).map(|()| name).map_err(os),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(os(cause)),
        }
    }
    Err(os(io::ErrorKind::AlreadyExists.into()))
}
