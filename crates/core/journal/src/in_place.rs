//! Whether a journal and its lock are still the files of their names. A journal whose folder was
//! removed keeps nothing, and its lock keeps nobody out.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::files::{Files, LOCK};
use crate::new_file::NewFile;

/// The open files of a journal, and the path at which they were opened.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    /// Absolute.
    path: PathBuf,
    lock: Arc<File>,
    journal: OpenJournal,
}

#[derive(Debug)]
pub(crate) enum OpenJournal {
    Existing(Arc<File>),
    /// It is created by the first change.
    New(NewFile),
}

impl OpenFiles {
    pub(crate) fn new(
        path: &Path,
        lock: Arc<File>,
        journal: OpenJournal,
    ) -> Result<OpenFiles, Error> {
        let path = std::path::absolute(path)
            .map_err(|cause| Error::os(format!("cannot find {}", path.display()), cause))?;
        Ok(OpenFiles { path, lock, journal })
    }

    /// Returns the path of the journal.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the names are still those of the open files. What cannot be looked at, as after a
    /// change of the user, is taken for unchanged.
    ///
    /// # Errors
    ///
    /// [`Removed`](crate::ErrorKind::Removed).
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Ok(found) = Files::existing_at(&self.path) else {
            return Ok(());
        };
        let Some(files) = found else {
            return Err(self.removed());
        };
        let lock = files.sibling(LOCK).is_of(&self.lock);
        let journal = self.journal.created().map(|file| files.journal().is_of(file));
        match (lock, journal) {
            (Ok(false), _) | (_, Some(Ok(false))) => Err(self.removed()),
            _ => Ok(()),
        }
    }

    fn removed(&self) -> Error {
        Error::removed(self.path.display().to_string())
    }
}

impl OpenJournal {
    fn created(&self) -> Option<&File> {
        match self {
            OpenJournal::Existing(file) => Some(file),
            OpenJournal::New(new) => new.published(),
        }
    }
}
