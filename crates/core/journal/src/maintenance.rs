//! Maintenance by an operator: check and export a journal, even while a program has it open, and
//! repair it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redb::Database;

use crate::database::{Salvaged, copy, create_database, open_database, read_table, salvage};
use crate::files::{Files, NewFile, sibling};
use crate::lock::Lock;
use crate::snapshot::{open_image, open_journal, read_snapshot};
use crate::{Counts, Error, Storage, json_lines};

/// The result of a [`repair`]: the records that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// The journal was not damaged, and is unchanged.
    Whole,
    /// Every record is in the new journal. Only the header was damaged.
    Restored {
        /// The path of the damaged file.
        damaged: PathBuf,
    },
    /// The last commits are missing, and all earlier ones are there.
    Shortened {
        /// The path of the damaged file.
        damaged: PathBuf,
    },
    /// Single unreadable records are missing, and all others are there.
    Reduced {
        /// The path of the damaged file.
        damaged: PathBuf,
    },
    /// No record could be read: the journal is empty.
    Emptied {
        /// The path of the damaged file.
        damaged: PathBuf,
    },
}

/// Reads every record of the journal at `path` and counts them. Writes nothing, and works while a
/// process has the journal open.
///
/// ```
/// use trueup_journal::{Journal, Start, check};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-check-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let path = folder.join("journal");
/// Journal::open(&path)?.begin(Start::new("migrate vm7", b""))?;
/// assert_eq!(check(&path)?.operations, 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Damaged`](crate::ErrorKind::Damaged), [`Format`](crate::ErrorKind::Format) or
/// [`Os`](crate::ErrorKind::Os) if it cannot be read, or does not exist.
pub fn check(path: impl AsRef<Path>) -> Result<Counts, Error> {
    json_lines::count(&read_table(&read(&Files::at(path.as_ref())?)?)?)
}

/// Writes every record of the journal at `path` as a line of JSON, like
/// [`Journal::export`](crate::Journal::export). For a damaged journal, it writes the records that a
/// [`repair`] would keep. It works while a process has the journal open.
///
/// # Errors
///
/// See [`check`], even if some records could be read and were written; and
/// [`Os`](crate::ErrorKind::Os) if `out` fails.
pub fn export(path: impl AsRef<Path>, out: &mut dyn io::Write) -> Result<(), Error> {
    let files = Files::at(path.as_ref())?;
    let damage = match read(&files) {
        Ok(database) => return json_lines::write(&read_table(&database)?, out),
        Err(error) if error.is_damaged() => error,
        Err(error) => return Err(error),
    };
    // Read the current content, because another process may have it open.
    let image = open_image(&files)?.ok_or_else(|| missing(&files))?;
    let Some((salvaged, _)) = salvage_readable(&image)? else {
        return Err(damage.and("nothing of it can be read"));
    };
    match json_lines::write(&read_table(&salvaged.database)?, out) {
        Err(error) if !error.is_of_record() => return Err(error),
        _ => {}
    }
    Err(damage.and(if salvaged.is_complete {
        "every record could be read"
    } else {
        "the last commits are missing, the records before them could be read"
    }))
}

/// Replaces the damaged journal at `path` by a journal with all readable records. A whole journal
/// stays unchanged. If `may_lose` is true, unreadable records are dropped: a lost operation or key
/// can be executed again, and an object that only the ledger marked as ours is no longer ours.
///
/// The damaged file stays as `path.damaged` or, if that exists, `path.damaged.1` and so on. The new
/// file replaces it whole or not at all. The lock file `path.lock` stays only if it existed before.
///
/// ```
/// use trueup_journal::{Journal, Repaired, Start, repair};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-repair-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let path = folder.join("journal");
/// Journal::open(&path)?.begin(Start::new("migrate vm7", b""))?;
/// std::fs::write(&path, b"")?; // all records are lost
/// assert!(matches!(repair(&path, true)?, Repaired::Emptied { .. }));
/// assert!(path.with_extension("damaged").exists());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The damage, if records would be lost and `may_lose` is false;
/// [`Format`](crate::ErrorKind::Format) if the file does not begin like a journal;
/// [`Held`](crate::ErrorKind::Held) if a process has it open; otherwise as for [`check`].
pub fn repair(path: impl AsRef<Path>, may_lose: bool) -> Result<Repaired, Error> {
    // Beside a file that is not a journal, do not even create a lock file.
    let files = Files::at(path.as_ref())?;
    open_journal(&files)?.ok_or_else(|| missing(&files))?;
    let _lock = Lock::acquire(&files, Duration::ZERO)?;
    let file = files.open()?.ok_or_else(|| missing(&files))?;
    let storage: Arc<dyn Storage> = Arc::new(file);
    let whole =
        open_database(&storage).and_then(|database| json_lines::count(&read_table(&database)?));
    let damage = match whole {
        Ok(_) => return Ok(Repaired::Whole),
        Err(error) => error,
    };
    if !damage.is_damaged() {
        return Err(damage);
    }
    let salvaged = salvage_readable(&storage)?;
    let lost = match &salvaged {
        Some((salvaged, None)) if salvaged.is_complete => None,
        Some((salvaged, Some(_))) if salvaged.is_complete => {
            Some("a repair would lose the records that cannot be read")
        }
        Some(_) => Some("a repair would lose the last commits"),
        None => Some("a repair would lose everything"),
    };
    if let Some(lost) = lost
        && !may_lose
    {
        return Err(damage.and(lost));
    }
    let records =
        salvaged.as_ref().map(|(salvaged, _)| read_table(&salvaged.database)).transpose()?;
    let damaged = keep_damaged(&files, path.as_ref())?;
    let new = NewFile::new(&files);
    new.create()?;
    create_database(Arc::new(new.clone()), None, |table| {
        records.as_ref().map_or(Ok(()), |records| {
            copy(records, table, |key, value| json_lines::is_readable(records, key, value))
        })
    })?;
    new.publish()?;
    Ok(match salvaged {
        Some((salvaged, None)) if salvaged.is_complete => Repaired::Restored { damaged },
        Some((salvaged, Some(_))) if salvaged.is_complete => Repaired::Reduced { damaged },
        Some(_) => Repaired::Shortened { damaged },
        None => Repaired::Emptied { damaged },
    })
}

/// Salvages a journal. Also returns the error of its single unreadable records. `None` if nothing
/// can be salvaged. Any other error, such as from a device that does not answer, says nothing about
/// the file's content.
fn salvage_readable(
    storage: &Arc<dyn Storage>,
) -> Result<Option<(Salvaged, Option<Error>)>, Error> {
    let readable = salvage(storage).and_then(|salvaged| {
        match json_lines::count(&read_table(&salvaged.database)?) {
            Ok(_) => Ok((salvaged, None)),
            Err(error) if error.is_of_record() => Ok((salvaged, Some(error))),
            Err(error) => Err(error),
        }
    });
    match readable {
        Ok(salvaged) => Ok(Some(salvaged)),
        Err(error) if error.is_damaged() => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(files: &Files) -> Result<Database, Error> {
    let snapshot = read_snapshot(files)?.ok_or_else(|| missing(files))?;
    Ok(snapshot.database)
}

fn missing(files: &Files) -> Error {
    let what = format!("cannot open {}", files.path().display());
    Error::os(what, rustix::io::Errno::NOENT)
}

/// Links the journal at `path` to a free name, and returns that name.
fn keep_damaged(files: &Files, path: &Path) -> Result<PathBuf, Error> {
    let mut extension = "damaged".to_owned();
    for attempt in 1..u32::MAX {
        let kept = files.journal().link_to(&files.sibling(&extension));
        if kept.map_err(|error| not_kept(path, error))? {
            files.journal().folder().sync().map_err(|error| not_kept(path, error))?;
            return Ok(sibling(path, &extension));
        }
        extension = format!("damaged.{attempt}");
    }
    Err(not_kept(path, rustix::io::Errno::EXIST))
}

fn not_kept(path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::os(format!("cannot keep {}", path.display()), cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::storage::ReadOnly;

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

    /// Otherwise a repair would replace it by an empty journal.
    #[test]
    fn what_cannot_be_read_now_is_not_taken_for_nothing() {
        let unanswering: Arc<dyn Storage> = Arc::new(Unanswering);
        let error = salvage_readable(&unanswering).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Os);
        let nothing: Arc<dyn Storage> = Arc::new(ReadOnly(vec![0; 9000]));
        assert!(!matches!(salvage_readable(&nothing), Ok(Some(_))));
    }
}
