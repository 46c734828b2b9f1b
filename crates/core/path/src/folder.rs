//! A folder held open by its descriptor.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, mkdirat, openat};

use crate::walk::{self, Found, Last, look};
use crate::{Control, Error, Place, TrustedUsers};

/// A folder held open: whatever is renamed on the way to it, this stays the same folder.
///
/// ```
/// use trueup_path::TrustedUsers;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let base = std::env::temp_dir().join(format!("trueup-doc-folder-{}", std::process::id()));
/// let folder = TrustedUsers::current()?.make_folder(&base, 0o700)?;
/// std::fs::rename(&base, base.with_extension("moved"))?;
/// folder.place("conf").create_new(0o600)?; // in the folder, under its new name
/// assert!(base.with_extension("moved").join("conf").exists());
/// # std::fs::remove_dir_all(base.with_extension("moved"))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Folder {
    descriptor: Arc<OwnedFd>,
    path: PathBuf,
    control: Control,
}

impl TrustedUsers {
    /// Walks to a folder, and holds it open.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if another user could redirect the walk to a folder
    /// of a third user; [`Os`](crate::ErrorKind::Os) if there is no such folder.
    pub fn folder(&self, path: &Path) -> Result<Folder, Error> {
        walk::to_folder(self, path, Last::Folder)
    }

    /// Walks to a folder. If the folder or its parents are missing, creates them with this mode,
    /// whatever the umask. An existing folder keeps its mode. Creates nothing in another user's
    /// folder.
    ///
    /// ```
    /// use trueup_path::TrustedUsers;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let base = std::env::temp_dir().join(format!("trueup-doc-make-{}", std::process::id()));
    /// let users = TrustedUsers::current()?;
    /// let folder = users.make_folder(&base.join("a/b"), 0o700)?;
    /// assert!(folder.control().is_ours());
    /// # std::fs::remove_dir_all(&base)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`folder`](Self::folder); also if a folder cannot be created.
    pub fn make_folder(&self, path: &Path, mode: u32) -> Result<Folder, Error> {
        walk::to_folder(self, path, Last::Made(mode))
    }
}

impl Folder {
    pub(crate) fn new(descriptor: OwnedFd, path: PathBuf, control: Control) -> Folder {
        Folder { descriptor: Arc::new(descriptor), path, control }
    }

    pub(crate) fn root(users: &TrustedUsers) -> Result<Folder, Error> {
        let path = Path::new("/");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| Error::os(path, "open", error))?;
        let found = Found::of(descriptor).map_err(|error| Error::os(path, "read", error))?;
        let control = Control::of(&found.metadata, &found.descriptor, users);
        Ok(Folder::new(found.descriptor, path.to_owned(), control))
    }

    /// Returns the path by which the folder was found, without links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the users who can change the folder's content.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control
    }

    /// Returns a path to the held folder through `/proc`, for system calls that take no descriptor,
    /// such as inotify's.
    #[must_use]
    pub fn path_by_descriptor(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }

    /// Returns the folder if only root and we can change its content.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if another user can.
    pub fn ours(self) -> Result<Folder, Error> {
        match self.control {
            Control::Ours => Ok(self),
            control => {
                let other = match control {
                    Control::User(user) => format!("run this as user {user}, "),
                    _ => String::new(),
                };
                let message = format!(
                    "{control}; {other}use another folder, or let root or the user that runs this \
                     own it, with a mode such as 0755"
                );
                Err(Error::refused(&self.path, message))
            }
        }
    }

    /// Returns the place of a name in the folder.
    ///
    /// # Panics
    ///
    /// If the name cannot be a file's: it is empty, `.` or `..`, or contains a slash.
    #[must_use]
    pub fn place(&self, name: impl AsRef<OsStr>) -> Place {
        let file: &OsStr = name.as_ref();
        assert!(Path::new(file).file_name() == Some(file), "{file:?} is not the name of a file");
        Place::new(self.clone(), file.to_owned())
    }

    /// Waits until the names in the folder are durable.
    ///
    /// # Errors
    ///
    /// The folder cannot be read or synced.
    pub fn sync(&self) -> Result<(), Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(self.as_fd(), ".", flags, Mode::empty())
            .and_then(rustix::fs::fsync)
            .map_err(|error| Error::os(&self.path, "sync", error))
    }

    /// Examines a folder that has just been created.
    fn made(&self, name: &OsStr, path: &Path) -> Result<Found, Error> {
        look(self, name)?.ok_or_else(|| Error::os(path, "open", rustix::io::Errno::NOENT))
    }

    /// Creates a folder in this one, unless another process is faster.
    pub(crate) fn make(&self, name: &OsStr, mode: u32) -> Result<Found, Error> {
        let path = self.path.join(name);
        if !matches!(self.control, Control::Ours | Control::Sticky) {
            let message = format!("it is not made, as {}", self.control);
            return Err(Error::refused(&path, message));
        }
        let made = match mkdirat(self.as_fd(), name, Mode::from_raw_mode(mode)) {
            Err(rustix::io::Errno::EXIST) => false,
            made => made.map(|()| true).map_err(|it| Error::os(&path, "make", it))?,
        };
        let found = self.made(name, &path)?;
        let is_exact = found.metadata.mode() & 0o7777 == mode;
        if !made || is_exact || !found.metadata.is_dir() {
            return Ok(found);
        }
        // Restores the bits that the umask removed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(self.as_fd(), name, flags, Mode::empty())
            .map(File::from)
            .map_err(|error| Error::os(&path, "open", error))?;
        if folder.metadata().is_ok_and(|it| same(&it, &found.metadata)) {
            folder
                .set_permissions(Permissions::from_mode(mode))
                .map_err(|error| Error::os(&path, "set the mode", error))?;
        }
        self.made(name, &path)
    }
}

/// True if both belong to the same file.
pub(crate) fn same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
