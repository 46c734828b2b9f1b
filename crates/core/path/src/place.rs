//! A name in a folder held open.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags, openat, statx};
use rustix::io::Errno;

use crate::folder::same;
use crate::walk::{self, Last, look};
use crate::{Error, ErrorKind, Folder, TrustedUsers};

/// How often to look again at a name that another writer is changing.
const TRIES: u32 = 100;

/// The longest name of a file, in bytes: `NAME_MAX`.
const MAX_NAME: usize = 255;

/// A name in a folder held open. The file itself need not exist.
///
/// ```
/// use trueup_path::TrustedUsers;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let base = std::env::temp_dir().join(format!("trueup-doc-place-{}", std::process::id()));
/// let place = TrustedUsers::current()?.make_folder(&base, 0o700)?.place("conf");
/// assert!(place.metadata()?.is_none() && place.open()?.is_none());
/// let file = place.create_new(0o600)?;
/// assert!(place.is_of(&file)?);
/// place.unlink()?;
/// assert!(!place.is_of(&file)?);
/// # std::fs::remove_dir_all(&base)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Place {
    folder: Folder,
    name: OsString,
    path: PathBuf,
}

impl TrustedUsers {
    /// Walks to the folder of `path`, and holds it with the last name, without examining the name.
    ///
    /// # Errors
    ///
    /// See [`folder`](Self::folder).
    pub fn place(&self, path: &Path) -> Result<Place, Error> {
        walk::to_place(self, path, Last::Held)
    }

    /// Walks like [`place`](Self::place), and follows a symbolic link as the last name if root or
    /// we own it, in a folder where no other user can have put it.
    ///
    /// # Errors
    ///
    /// See [`folder`](Self::folder); also [`Refused`](ErrorKind::Refused) for another link.
    pub fn followed_place(&self, path: &Path) -> Result<Place, Error> {
        walk::to_place(self, path, Last::Followed)
    }
}

impl Place {
    pub(crate) fn new(folder: Folder, name: OsString) -> Place {
        let path = folder.path().join(&name);
        Place { folder, name, path }
    }

    /// Returns the folder that contains the name.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the name, without the folder's path.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the path by which the place was found, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path to this name in the held folder through `/proc`, for system calls that take
    /// no descriptor, such as `bind` and `connect`.
    #[must_use]
    pub fn path_by_descriptor(&self) -> PathBuf {
        self.folder.path_by_descriptor().join(&self.name)
    }

    /// True if it is a link of `/proc` to an object of the kernel: a namespace, or an open
    /// descriptor's file. Such a link is not followed.
    ///
    /// # Errors
    ///
    /// The link cannot be read.
    pub fn is_kernel_link(&self) -> Result<bool, Error> {
        let is_link = self.metadata()?.is_some_and(|found| found.is_symlink());
        Ok(is_link && walk::is_kernels(&self.folder)?)
    }

    /// Returns the metadata of the file, folder or link of this name; `None` if there is none. Does
    /// not follow a link.
    ///
    /// # Errors
    ///
    /// The metadata cannot be read.
    pub fn metadata(&self) -> Result<Option<Metadata>, Error> {
        Ok(look(&self.folder, &self.name)?.map(|found| found.metadata))
    }

    /// Holds the file, folder or link of this name without opening it; `None` if there is none.
    /// Does not follow a link. While it is held, no other file gets its inode number: see
    /// [`is_of`](Self::is_of).
    ///
    /// # Errors
    ///
    /// The name cannot be examined.
    pub fn hold(&self) -> Result<Option<File>, Error> {
        Ok(look(&self.folder, &self.name)?.map(|found| File::from(found.descriptor)))
    }

    /// Opens a regular file for reading, without waiting; `None` if there is none.
    ///
    /// ```
    /// use trueup_path::{ErrorKind, TrustedUsers};
    ///
    /// # fn main() -> Result<(), trueup_path::Error> {
    /// let users = TrustedUsers::current()?;
    /// let device = users.place("/dev/null".as_ref())?.open().unwrap_err();
    /// assert_eq!(device.kind(), ErrorKind::NotRegular);
    /// assert!(users.place("/proc/absent".as_ref())?.open()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotRegular`](ErrorKind::NotRegular) for a link, folder, device, FIFO or socket. Also if
    /// the file cannot be opened.
    pub fn open(&self) -> Result<Option<File>, Error> {
        self.open_existing(OFlags::RDONLY)
    }

    /// Opens a regular file for reading and writing, like [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open).
    pub fn open_to_write(&self) -> Result<Option<File>, Error> {
        self.open_existing(OFlags::RDWR)
    }

    /// Creates a file with this mode, open for reading and writing.
    ///
    /// # Errors
    ///
    /// The name is taken, or the file cannot be created.
    pub fn create_new(&self, mode: u32) -> Result<File, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | WITHOUT_WAIT;
        openat(self.folder.as_fd(), &self.name, flags, Mode::from_raw_mode(mode))
            .map(File::from)
            .map_err(|error| Error::os(&self.path, "create", error))
    }

    /// Opens a regular file for reading and writing, or creates it with this mode.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open) and [`create_new`](Self::create_new).
    pub fn open_or_create(&self, mode: u32) -> Result<File, Error> {
        for _ in 0..TRIES {
            if let Some(file) = self.open_to_write()? {
                return Ok(file);
            }
            match self.create_new(mode) {
                // Another process was faster.
                Err(error) if error.io_kind() == std::io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        Err(self.changed())
    }

    /// True if the name still belongs to this open or held file. If a file is neither open nor
    /// held, another file may get its inode number.
    ///
    /// # Errors
    ///
    /// One of them cannot be read.
    pub fn is_of(&self, file: &File) -> Result<bool, Error> {
        let held = file.metadata().map_err(|error| Error::os(&self.path, "read", error))?;
        Ok(self.metadata()?.is_some_and(|found| same(&held, &found)))
    }

    /// True if the name is a mount point and this is the mounted open file: it can be written, but
    /// not replaced or removed.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn is_mount_point(&self, file: &File) -> Result<bool, Error> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
            .map_err(|error| Error::os(&self.path, "read", error))?;
        Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    /// Returns the place of another name in the same folder: `.NAME.HASH.SUFFIX`, where the hash is
    /// the name's. No other program uses such a name. A long name is shortened to its beginning, to
    /// fit into the limit.
    pub(crate) fn beside(&self, suffix: &str) -> Place {
        let end = format!(".{:016x}{suffix}", hash(self.name.as_bytes()));
        let begin = self.name.as_bytes().iter().take(MAX_NAME - 1 - end.len());
        let name = [b'.'].iter().chain(begin).chain(end.as_bytes());
        let name = OsString::from_vec(name.copied().collect());
        Place::new(self.folder.clone(), name)
    }

    fn open_existing(&self, access: OFlags) -> Result<Option<File>, Error> {
        for _ in 0..TRIES {
            let Some(found) = look(&self.folder, &self.name)? else {
                return Ok(None);
            };
            need_regular(&self.path, &found.metadata)?;
            let flags = access | OFlags::NOFOLLOW | WITHOUT_WAIT;
            let file = match openat(self.folder.as_fd(), &self.name, flags, Mode::empty()) {
                // It was just removed, or replaced by a link.
                Err(Errno::NOENT | Errno::LOOP) => continue,
                opened => opened.map_err(|error| Error::os(&self.path, "open", error))?,
            };
            let file = File::from(file);
            let metadata = file.metadata().map_err(|error| Error::os(&self.path, "read", error))?;
            if same(&metadata, &found.metadata) {
                return Ok(Some(file));
            }
        }
        Err(self.changed())
    }

    pub(crate) fn changed(&self) -> Error {
        let message = "another writer changes it at the same time; it is tried again";
        Error::of_kind(ErrorKind::Changed, &self.path, message)
    }
}

/// Does not wait for the other end of a FIFO, and gets no controlling terminal.
const WITHOUT_WAIT: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Refuses everything but a regular file.
pub(crate) fn need_regular(path: &Path, found: &Metadata) -> Result<(), Error> {
    let kind = found.file_type();
    let name = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "of another kind",
    };
    let message = format!("it is {name}, and not a regular file");
    let error = Error::of_kind(ErrorKind::NotRegular, path, message);
    Err(if kind.is_dir() {
        error.with_source(std::io::ErrorKind::IsADirectory.into())
    } else {
        error
    })
}

/// Returns a name's hash: 64 bits of FNV-1a, the same in every version of this crate.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
