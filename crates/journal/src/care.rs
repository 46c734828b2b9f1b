//! What a person does with a journal: check it and export it, also while a program has it open; repair it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, ReadableTable as _};

use crate::lock::{Lock, beside};
use crate::opening::{
    Image, NewFile, Salvaged, format, glance, look, open_file, open_journal, read_file, salvage,
    sync_directory, view,
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
    /// Every record is in the new journal. The head alone was damaged.
    Restored {
        /// The file as it was.
        damaged: PathBuf,
    },
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
/// reads it as [`check`] does. Of one that is damaged it writes what a [`repair`] would keep.
///
/// # Errors
///
/// As [`check`], also when something could be read and was written; and
/// [`Os`](crate::ErrorKind::Os) if `out` fails.
pub fn export(path: impl AsRef<Path>, out: &mut dyn io::Write) -> Result<(), Error> {
    let path = path.as_ref();
    let damage = match read(path) {
        Ok(seen) => return lines::write(&view(&seen)?, out),
        Err(error) if error.is_damaged() => error,
        Err(error) => return Err(error),
    };
    // As it is at this moment: another process may have it open.
    let image = read_file(path)?.ok_or_else(|| missing(path))?;
    let image: Arc<dyn Storage> = Arc::new(Image(image));
    let Some(found) = salvage_readable(&image)? else {
        return Err(damage.and("nothing of it can be read"));
    };
    lines::write(&view(&found.database)?, out)?;
    Err(damage.and(match found.is_complete {
        true => "every record could be read",
        false => "the last commits are missing, the records before them could be read",
    }))
}

/// Makes the journal at `path` one that can be opened. One that is whole is left alone.
///
/// The damaged file stays, as `path.damaged` or, if there is one, `path.damaged.1` and so on. The new one takes its place at
/// once or not at all. The lock file `path.lock` stays only if it was there before.
///
/// # Errors
///
/// What is wrong with it, if something would be lost and `loss` refuses that;
/// [`Format`](crate::ErrorKind::Format) if it does not begin as a journal, whatever `loss` says;
/// [`Held`](crate::ErrorKind::Held) if anybody has it open; otherwise as [`check`].
pub fn repair(path: impl AsRef<Path>, loss: Loss) -> Result<Repaired, Error> {
    let path = path.as_ref();
    // Beside what is no journal nothing is made, not even for a moment.
    open_journal(path)?.ok_or_else(|| missing(path))?;
    let _lock = Lock::take(path)?;
    let file = open_file(path, false)?.ok_or_else(|| missing(path))?;
    let storage: Arc<dyn Storage> = Arc::new(file);
    let damage = match look(&storage).and_then(|seen| lines::count(&view(&seen)?)) {
        Ok(_) => return Ok(Repaired::Whole),
        Err(error) => error,
    };
    if !damage.is_damaged() {
        return Err(damage);
    }
    let found = salvage_readable(&storage)?;
    let lost = match &found {
        Some(found) if found.is_complete => None,
        Some(_) => Some("a repair would lose the last commits"),
        None => Some("a repair would lose everything"),
    };
    if let Some(lost) = lost
        && loss == Loss::Refuse
    {
        return Err(damage.and(lost));
    }
    let records = found.as_ref().map(|found| view(&found.database));
    let records = records.transpose()?;
    let damaged = keep(path)?;
    let new = NewFile::new(path);
    new.open()?;
    format(Arc::new(new.clone()), |table| {
        if let Some(records) = &records {
            for entry in records.iter()? {
                let (key, value) = entry?;
                table.insert(key.value(), value.value())?;
            }
        }
        Ok(())
    })?;
    new.publish()?;
    Ok(match found {
        Some(found) if found.is_complete => Repaired::Restored { damaged },
        Some(_) => Repaired::Shortened { damaged },
        None => Repaired::Emptied { damaged },
    })
}

/// Salvages what can be read; `None` where nothing can. An error of another kind, such as of a
/// device that does not answer, says nothing of what is in the file.
fn salvage_readable(storage: &Arc<dyn Storage>) -> Result<Option<Salvaged>, Error> {
    match salvage(storage) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_damaged() => Ok(None),
        Err(error) => Err(error),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[derive(Debug)]
    struct Unanswering;

    impl Storage for Unanswering {
        fn len(&self) -> io::Result<u64> {
            Ok(1 << 20)
        }

        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Err(rustix::io::Errno::IO.into())
        }

        fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A repair would otherwise put an empty journal in its place.
    #[test]
    fn what_cannot_be_read_now_is_not_taken_for_nothing() {
        let unanswering: Arc<dyn Storage> = Arc::new(Unanswering);
        let error = salvage_readable(&unanswering).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Os);
        let nothing: Arc<dyn Storage> = Arc::new(Image(vec![0; 9000]));
        assert!(!matches!(salvage_readable(&nothing), Ok(Some(_))));
    }
}
