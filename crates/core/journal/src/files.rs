//! A journal's files: opened, created, renamed and removed in an open folder in which no other user
//! can change anything.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use trueup_path::{Place, Readers, TrustedUsers};

use crate::{Error, Storage};

/// A journal's folder, and the journal's name in it.
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
    /// [`Os`](crate::ErrorKind::Os), also if another user can change the folder's content, or
    /// redirect the path.
    pub(crate) fn at(path: &Path) -> Result<Files, Error> {
        Files::walk(path).map_err(|error| cannot_open(path, error))
    }

    /// Walks like [`at`](Files::at). `None` if the folder does not exist, and so no journal.
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

    /// Returns the journal's path, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.journal.path()
    }

    /// Returns the place of a file that belongs to the journal: [`sibling`].
    pub(crate) fn sibling(&self, extension: &str) -> Place {
        let name = with_extension(self.journal.name().to_owned(), extension);
        self.journal.folder().place(name)
    }

    /// Opens the journal for reading. `None` if there is none.
    pub(crate) fn open(&self) -> Result<Option<File>, Error> {
        self.checked(self.journal.open())
    }

    /// Opens the journal for reading and writing. `None` if there is none.
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

    /// Refuses the open journal if it has another name, under which it could be written too.
    pub(crate) fn check_sole(&self, file: &File) -> Result<(), Error> {
        self.users
            .check_sole(&self.journal, file, Readers::Everybody)
            .map_err(|error| cannot_open(self.path(), error))
    }

    /// Refuses an open lock file if another user could lock it for ever: reading a file suffices to
    /// lock it.
    pub(crate) fn check_lock(&self, place: &Place, lock: &File) -> Result<(), trueup_path::Error> {
        self.users.check_sole(place, lock, Readers::Us)
    }
}

fn cannot_open(path: &Path, error: trueup_path::Error) -> Error {
    Error::os(format!("cannot open {}", path.display()), error)
}

/// Returns the path of the lock file of the journal at `path`: `path.lock`.
///
/// ```
/// assert_eq!(trueup_journal::lock_file("/var/lib/app/journal").to_str(), Some("/var/lib/app/journal.lock"));
/// ```
pub fn lock_file(path: impl AsRef<Path>) -> PathBuf {
    sibling(path.as_ref(), LOCK)
}

/// Returns `path` with `.extension` added: the name of a file that belongs to the journal.
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

/// A file that is written as `path.new` and renamed to `path` once it is complete.
#[derive(Clone, Debug)]
pub(crate) struct NewFile {
    place: Place,
    new: Place,
    file: Arc<OnceLock<File>>,
    is_published: Arc<AtomicBool>,
}

impl NewFile {
    pub(crate) fn new(files: &Files) -> NewFile {
        NewFile {
            place: files.journal().clone(),
            new: files.sibling("new"),
            file: Arc::default(),
            is_published: Arc::default(),
        }
    }

    /// Creates `path.new`. Removes one that an earlier attempt left, because that may have another
    /// name.
    pub(crate) fn create(&self) -> Result<(), Error> {
        let created = self.new.open().and_then(|left| {
            if left.is_some() {
                self.new.unlink()?;
            }
            self.new.create_new(0o600)
        });
        let _ = self.file.set(created.map_err(|error| self.error(error))?);
        Ok(())
    }

    /// Renames the file to `path`, and makes the name durable.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        self.new
            .rename_over(&self.place)
            .and_then(|()| self.place.folder().sync())
            .map_err(|error| self.error(error))?;
        self.is_published.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the file once it has its name; `None` before.
    pub(crate) fn published(&self) -> Option<&File> {
        let file = self.file.get();
        file.filter(|_| self.is_published.load(Ordering::Relaxed))
    }

    fn error(&self, cause: trueup_path::Error) -> Error {
        Error::os(format!("cannot make {}", self.place.path().display()), cause)
    }

    fn created(&self) -> io::Result<&File> {
        self.file.get().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for NewFile {
    fn len(&self) -> io::Result<u64> {
        Storage::len(self.created()?)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(self.created()?, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Storage::write(self.created()?, offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Storage::set_len(self.created()?, len)
    }

    fn sync(&self) -> io::Result<()> {
        Storage::sync(self.created()?)
    }
}

/// A journal's open files, and the path at which they were opened.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    /// The absolute path.
    path: PathBuf,
    lock: Arc<File>,
    journal: OpenJournal,
}

#[derive(Debug)]
pub(crate) enum OpenJournal {
    Existing(Arc<File>),
    /// The first change creates the journal.
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

    /// Returns the journal's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the names still belong to the open files. If they cannot be examined, as after a
    /// change of the user, they count as unchanged.
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
