//! What a person does with a journal: check it and export it, also while a program has it open; repair it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, ReadableTable as _};

use crate::lock::{Lock, beside};
use crate::opening::{
    NewFile, format, glance, look, look_leniently, open_file, sync_directory, view,
};
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

/// Reads the journal at `path` whole and tells how many records there are. Writes nothing, and may be done while someone has
/// it open.
///
/// # Errors
///
/// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or [`Os`](crate::ErrorKind::Os) if it cannot
/// be read, also because it is not there.
pub fn check(path: impl AsRef<Path>) -> Result<Counts, Error> {
    lines::count(&view(&read(path.as_ref())?)?)
}

/// Writes every record of the journal at `path` as a line of JSON, as [`Journal::export`](crate::Journal::export) does, and
/// reads it as [`check`] does.
///
/// # Errors
///
/// As [`check`], and [`Os`](crate::ErrorKind::Os) if `out` fails.
pub fn export(path: impl AsRef<Path>, out: &mut dyn io::Write) -> Result<(), Error> {
    lines::write(&view(&read(path.as_ref())?)?, out)
}

/// Makes the journal at `path` one that can be opened. One that is whole is left alone.
///
/// The damaged file stays, as `path.damaged` or, if there is one, `path.damaged.1` and so on. The new one takes its place at
/// once or not at all.
///
/// # Errors
///
/// What is wrong with it, if something would be lost and `loss` refuses that; [`Held`](crate::ErrorKind::Held) if anybody has
/// it open; otherwise as [`check`].
pub fn repair(path: impl AsRef<Path>, loss: Loss) -> Result<Repaired, Error> {
    let path = path.as_ref();
    // A lock beside a journal that is not there would be litter.
    open_file(path, false)?.ok_or_else(|| missing(path))?;
    let _lock = Lock::take(path)?;
    let file = open_file(path, false)?.ok_or_else(|| missing(path))?;
    let storage: Arc<dyn Storage> = Arc::new(file);
    let damage = match look(&storage).and_then(|seen| lines::count(&view(&seen)?)) {
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
    let found = earlier.as_ref().map(view).transpose()?;
    let damaged = keep(path)?;
    let new = NewFile::new(path);
    new.open()?;
    format(Arc::new(new.clone()), |records| {
        if let Some(found) = &found {
            for entry in found.iter()? {
                let (key, value) = entry?;
                records.insert(key.value(), value.value())?;
            }
        }
        Ok(())
    })?;
    new.publish()?;
    Ok(match earlier {
        Some(_) => Repaired::Shortened { damaged },
        None => Repaired::Emptied { damaged },
    })
}

fn read(path: &Path) -> Result<Database, Error> {
    glance(path)?.ok_or_else(|| missing(path))
}

fn missing(path: &Path) -> Error {
    let what = format!("cannot open {}", path.display());
    Error::os(what, io::ErrorKind::NotFound)
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
