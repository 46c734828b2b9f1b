//! The files of a journal: they are opened, created, renamed and removed in a folder that is held,
//! and in which no other user can change anything.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use trueup_path::{Place, Readers, TrustedUsers};

use crate::Error;

/// The folder of a journal, and the journal's name in it.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    users: TrustedUsers,
    journal: Place,
}

impl Files {
    /// Walks to the folder of the journal at `path`.
    ///
    /// # Errors
    ///
    /// [`Os`](crate::ErrorKind::Os), also if another user can change what is in the folder, or lead
    /// to another one.
    pub(crate) fn at(path: &Path) -> Result<Files, Error> {
        Files::walk(path).map_err(|error| cannot_open(path, error))
    }

    /// As [`at`](Files::at). Returns `None` if the folder does not exist: then no journal does.
    pub(crate) fn existing_at(path: &Path) -> Result<Option<Files>, Error> {
        match Files::walk(path) {
            Err(error) if error.is_not_found() => Ok(None),
            walked => walked.map(Some).map_err(|error| cannot_open(path, error)),
        }
    }

    fn walk(path: &Path) -> Result<Files, trueup_path::Error> {
        let users = TrustedUsers::current()?;
        let journal = users.place(path)?;
        journal.folder().clone().ours()?;
        Ok(Files { users, journal })
    }

    pub(crate) fn journal(&self) -> &Place {
        &self.journal
    }

    /// Returns the path of the journal, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.journal.path()
    }

    /// Returns the place of a file that goes with the journal: [`sibling`].
    pub(crate) fn sibling(&self, extension: &str) -> Place {
        let name = with_extension(self.journal.name().to_owned(), extension);
        self.journal.folder().place(name)
    }

    /// Opens the journal for reading. Returns `None` if there is none.
    pub(crate) fn open(&self) -> Result<Option<File>, Error> {
        self.checked(self.journal.open())
    }

    /// Opens the journal for reading and writing. Returns `None` if there is none.
    pub(crate) fn open_to_write(&self) -> Result<Option<File>, Error> {
        self.checked(self.journal.open_to_write())
    }

    fn checked(
        &self,
        opened: Result<Option<File>, trueup_path::Error>,
    ) -> Result<Option<File>, Error> {
        let checked = opened.and_then(|file| {
            if let Some(file) = &file {
                self.users.check_ours(&self.journal, file, Readers::Everybody)?;
            }
            Ok(file)
        });
        checked.map_err(|error| cannot_open(self.path(), error))
    }

    /// Refuses the open journal if it has another name, under which it would be written as well.
    pub(crate) fn check_sole(&self, file: &File) -> Result<(), Error> {
        self.users
            .check_sole(&self.journal, file, Readers::Everybody)
            .map_err(|error| cannot_open(self.path(), error))
    }

    /// Refuses an open lock if another user can hold it for ever: who can read a file can lock it.
    pub(crate) fn check_lock(&self, place: &Place, lock: &File) -> Result<(), trueup_path::Error> {
        self.users.check_sole(place, lock, Readers::Us)
    }
}

fn cannot_open(path: &Path, error: trueup_path::Error) -> Error {
    Error::os(format!("cannot open {}", path.display()), error)
}

/// Returns the path of the lock file of the journal at `path`.
pub fn lock_file(path: impl AsRef<Path>) -> PathBuf {
    sibling(path.as_ref(), LOCK)
}

/// Returns `path` with `.extension` added: the name of a file that goes with the journal.
pub(crate) fn sibling(path: &Path, extension: &str) -> PathBuf {
    with_extension(path.as_os_str().to_owned(), extension).into()
}

/// The extension of the lock file.
pub(crate) const LOCK: &str = "lock";

fn with_extension(mut name: OsString, extension: &str) -> OsString {
    name.push(".");
    name.push(extension);
    name
}
