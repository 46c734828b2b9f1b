//! A name in a folder that is held.

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

/// How often a name is looked at again that another writer changes meanwhile.
const TRIES: u32 = 100;

/// The longest name of a file, in bytes: `NAME_MAX`.
const MAX_NAME: usize = 255;

/// A name in a folder that is held, whether or not there is such a file.
#[derive(Clone, Debug)]
pub struct Place {
    folder: Folder,
    name: OsString,
    path: PathBuf,
}

impl TrustedUsers {
    /// Walks to the folder of `path`, and holds the last name without looking at it.
    ///
    /// # Errors
    ///
    /// As [`folder`](Self::folder).
    pub fn place(&self, path: &Path) -> Result<Place, Error> {
        walk::to_place(self, path, Last::Held)
    }

    /// As [`place`](Self::place), but a last name that is a symbolic link is followed, if root or
    /// we own it in a folder where nobody else can have put it.
    ///
    /// # Errors
    ///
    /// As [`folder`](Self::folder); [`Refused`](ErrorKind::Refused) for another link.
    pub fn followed_place(&self, path: &Path) -> Result<Place, Error> {
        walk::to_place(self, path, Last::Followed)
    }
}

impl Place {
    pub(crate) fn new(folder: Folder, name: OsString) -> Place {
        let path = folder.path().join(&name);
        Place { folder, name, path }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the name in the folder.
    #[must_use]
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the path by which it was found, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path that leads to this name in the held folder through `/proc`, for system calls
    /// that take no descriptor, such as `bind` and `connect`.
    #[must_use]
    pub fn path_by_descriptor(&self) -> PathBuf {
        self.folder.path_by_descriptor().join(&self.name)
    }

    /// True if it is a link of `/proc`, which leads to an object of the kernel: a namespace, or what
    /// a descriptor has open. Such a link is not followed.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn is_kernel_link(&self) -> Result<bool, Error> {
        let is_link = self.metadata()?.is_some_and(|found| found.is_symlink());
        Ok(is_link && walk::is_kernels(&self.folder)?)
    }

    /// Returns the metadata of what has this name, and `None` if nothing has. A link is not
    /// followed.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn metadata(&self) -> Result<Option<Metadata>, Error> {
        Ok(look(&self.folder, &self.name)?.map(|found| found.metadata))
    }

    /// Holds what has this name, of any kind, without opening it; `None` if nothing has. A link is
    /// not followed. While it is held, no other file gets its number: see [`is_of`](Self::is_of).
    ///
    /// # Errors
    ///
    /// When it cannot be looked at.
    pub fn hold(&self) -> Result<Option<File>, Error> {
        Ok(look(&self.folder, &self.name)?.map(|found| File::from(found.descriptor)))
    }

    /// Opens a regular file to read it, without waiting; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`NotRegular`](ErrorKind::NotRegular) for a link, folder, device, FIFO or socket, and when
    /// it cannot be opened.
    pub fn open(&self) -> Result<Option<File>, Error> {
        self.open_existing(OFlags::RDONLY)
    }

    /// As [`open`](Self::open), to read and write.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_to_write(&self) -> Result<Option<File>, Error> {
        self.open_existing(OFlags::RDWR)
    }

    /// Creates a file with this mode to read and write it.
    ///
    /// # Errors
    ///
    /// When the name is taken, or it cannot be created.
    pub fn create_new(&self, mode: u32) -> Result<File, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | WITHOUT_WAIT;
        openat(self.folder.as_fd(), &self.name, flags, Mode::from_raw_mode(mode))
            .map(File::from)
            .map_err(|error| Error::os(&self.path, "create", error))
    }

    /// Opens a regular file to read and write, or creates it with this mode.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open) and [`create_new`](Self::create_new).
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

    /// True if the name is still that of this open or held file. The number of a file that is
    /// neither may be used again by another one.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read.
    pub fn is_of(&self, file: &File) -> Result<bool, Error> {
        let held = file.metadata().map_err(|error| Error::os(&self.path, "read", error))?;
        Ok(self.metadata()?.is_some_and(|found| same(&held, &found)))
    }

    /// True if something is mounted on the name, of which this is the open file: it can be written,
    /// and not replaced or removed.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn is_mount_point(&self, file: &File) -> Result<bool, Error> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
            .map_err(|error| Error::os(&self.path, "read", error))?;
        Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    /// Returns the place of another name in the same folder: `.NAME.HASH.SUFFIX`, where the hash is
    /// one of the name. No other program uses such a name. Of a long name only the beginning is in
    /// it, so that it is no longer than a name may be.
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
                // It was removed, or replaced by a link, at this moment.
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

/// Without waiting for the other end of a FIFO, and without a terminal of our own.
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

/// Returns the hash of a name: 64 bits of FNV-1a, which is the same in each version of this crate.
fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
