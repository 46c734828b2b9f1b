//! Files and programs that no other user can change, and reading them up to a limit.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::place::need_regular;
use crate::users::{Control, others_can_read, others_can_write};
use crate::walk::{is_firm, look};
use crate::{Error, ErrorKind, Place, TrustedUsers};

/// The users who may read a file, besides root.
///
/// ```
/// use trueup_path::{Readers, TrustedUsers};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let base = std::env::temp_dir().join(format!("trueup-doc-readers-{}", std::process::id()));
/// let users = TrustedUsers::current()?;
/// users.make_folder(&base, 0o700)?.place("key").create_new(0o644)?;
/// let key = base.join("key"); // every user may read it
/// assert!(users.open_ours(&key, Readers::Us).unwrap_err().is_refused());
/// assert!(users.open_ours(&key, Readers::Everybody).is_ok());
/// # std::fs::remove_dir_all(&base)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Only its owner. Its mode is 0600 or less, or its access control list names only root and us,
    /// as for a systemd credential.
    Us,
    /// Any user: the content is no secret.
    Everybody,
}

impl TrustedUsers {
    /// Opens a regular file that only root and we can change or replace. Follows links that no
    /// other user can have put there.
    ///
    /// # Errors
    ///
    /// [`Refused`](ErrorKind::Refused) if another user can change it, or can read it against
    /// `readers`; [`NotRegular`](ErrorKind::NotRegular); [`Os`](ErrorKind::Os) if it cannot be
    /// opened.
    pub fn open_ours(&self, path: &Path, readers: Readers) -> Result<File, Error> {
        let place = self.followed_place(path)?;
        let (file, _) = opened(&place)?;
        self.check_ours(&place, &file, readers)?;
        Ok(file)
    }

    /// Checks that only root and we can change the open file of a place, or replace it.
    ///
    /// # Errors
    ///
    /// [`Refused`](ErrorKind::Refused) if another user can, or can read it against `readers`.
    pub fn check_ours(&self, place: &Place, file: &File, readers: Readers) -> Result<(), Error> {
        let found = metadata(place.path(), file)?;
        if !is_firm(place.folder().control(), &found, self) {
            let message = if self.has(found.uid()) {
                format!(
                    "it is in {}: {}; move it to a folder that nobody else can write",
                    place.folder().path().display(),
                    place.folder().control()
                )
            } else {
                format!(
                    "user {} owns it; give it to root or to the user that runs this",
                    found.uid()
                )
            };
            return Err(Error::refused(place.path(), message));
        }
        if others_can_write(&found, file) {
            let mode = found.mode() & 0o7777;
            let message = format!("others can write it (mode {mode:04o}); take that from them");
            return Err(Error::refused(place.path(), message));
        }
        if readers == Readers::Us && others_can_read(&found, file, self) {
            let mode = found.mode() & 0o7777;
            let message = format!("others can read it (mode {mode:04o}); set its mode to 0600");
            return Err(Error::refused(place.path(), message));
        }
        Ok(())
    }

    /// Checks like [`check_ours`](Self::check_ours), for a file that is written in place: another
    /// name of it may belong to a file that must not be written.
    ///
    /// # Errors
    ///
    /// See [`check_ours`](Self::check_ours); also [`Refused`](ErrorKind::Refused) if the file has
    /// another name.
    pub fn check_sole(&self, place: &Place, file: &File, readers: Readers) -> Result<(), Error> {
        self.check_ours(place, file, readers)?;
        match metadata(place.path(), file)?.nlink() {
            0 | 1 => Ok(()),
            names => {
                let message = format!(
                    "the file has {names} names (hard links), and it would be written under all of \
                     them; remove this name or the others"
                );
                Err(Error::refused(place.path(), message))
            }
        }
    }

    /// True if only root and we can have put the held file, link or socket at this place, or can
    /// replace it.
    ///
    /// # Errors
    ///
    /// It cannot be examined.
    pub fn is_ours(&self, place: &Place, held: &File) -> Result<bool, Error> {
        let found = metadata(place.path(), held)?;
        Ok(is_firm(place.folder().control(), &found, self))
    }

    /// Reads a file of at most `limit` bytes, opened as by [`open_ours`](Self::open_ours).
    ///
    /// ```
    /// use trueup_path::{ErrorKind, Readers, TrustedUsers};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let base = std::env::temp_dir().join(format!("trueup-doc-read-{}", std::process::id()));
    /// let users = TrustedUsers::current()?;
    /// users.make_folder(&base, 0o700)?;
    /// std::fs::write(base.join("conf"), "mtu 1400")?;
    /// assert_eq!(users.read_ours(&base.join("conf"), Readers::Everybody, 8)?, b"mtu 1400");
    /// let long = users.read_ours(&base.join("conf"), Readers::Everybody, 7).unwrap_err();
    /// assert_eq!(long.kind(), ErrorKind::TooLarge);
    /// # std::fs::remove_dir_all(&base)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`open_ours`](Self::open_ours); also [`TooLarge`](ErrorKind::TooLarge).
    pub fn read_ours(&self, path: &Path, readers: Readers, limit: u64) -> Result<Vec<u8>, Error> {
        read(path, &self.open_ours(path, readers)?, limit)
    }

    /// Reads a regular file. If it is in another user's folder, it must be that user's own, who
    /// could replace it anyway. Follows links that no other user can have put there.
    ///
    /// # Errors
    ///
    /// [`Refused`](ErrorKind::Refused) if a user can put a third user's file in its place;
    /// [`NotRegular`](ErrorKind::NotRegular), [`TooLarge`](ErrorKind::TooLarge), and
    /// [`Os`](ErrorKind::Os) if it cannot be read.
    pub fn read_of_one_owner(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
        let place = self.followed_place(path)?;
        let (file, found) = opened(&place)?;
        let control = place.folder().control();
        let is_safe = match control {
            Control::Ours => true,
            Control::User(user) => found.uid() == user && found.nlink() == 1,
            Control::Sticky => is_firm(control, &found, self),
            Control::Shared => false,
        };
        if !is_safe {
            let message = format!(
                "it is a file of user {} in {}, where {control}: the file of another user can be \
                 put in its place; move it to a folder that nobody but its owner can write",
                found.uid(),
                place.folder().path().display(),
            );
            return Err(Error::refused(place.path(), message));
        }
        read(path, &file, limit)
    }
}

/// Opens a regular file without waiting, whatever its owner and the links on the way: for a path
/// that a person names for this one call.
///
/// # Errors
///
/// [`NotRegular`](ErrorKind::NotRegular), and [`Os`](ErrorKind::Os) if it cannot be opened.
pub fn open_any(path: &Path) -> Result<File, Error> {
    // Opening some devices has an effect on them.
    open_regular(path, OFlags::PATH)?;
    open_regular(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
}

fn open_regular(path: &Path, flags: OFlags) -> Result<File, Error> {
    let file = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())
        .map(File::from)
        .map_err(|error| Error::os(path, "open", error))?;
    need_regular(path, &metadata(path, &file)?)?;
    Ok(file)
}

/// Reads a file of at most `limit` bytes to its end.
///
/// # Errors
///
/// [`TooLarge`](ErrorKind::TooLarge), and [`Os`](ErrorKind::Os) if it cannot be read.
pub fn read(path: &Path, file: &File, limit: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    let result = file.take(limit.saturating_add(1)).read_to_end(&mut content);
    result.map_err(|error| Error::os(path, "read", error))?;
    if content.len() as u64 > limit {
        let message = format!("it is larger than {limit} bytes");
        return Err(Error::of_kind(ErrorKind::TooLarge, path, message));
    }
    Ok(content)
}

fn opened(place: &Place) -> Result<(File, Metadata), Error> {
    let file =
        place.open()?.ok_or_else(|| Error::os(place.path(), "open", rustix::io::Errno::NOENT))?;
    let found = metadata(place.path(), &file)?;
    Ok((file, found))
}

fn metadata(path: &Path, file: &File) -> Result<Metadata, Error> {
    file.metadata().map_err(|error| Error::os(path, "read", error))
}

impl TrustedUsers {
    /// Finds a program as `execvp` does: for a name without a slash, the first executable file of
    /// this name in the folders of `PATH`. Returns its path if only root and we can change the
    /// program or redirect the path.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if another user can; [`Os`](crate::ErrorKind::Os),
    /// not found, if there is no such program.
    pub fn program(&self, program: &OsStr) -> Result<PathBuf, Error> {
        let path = Path::new(program);
        if path.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
            self.check_program(path)?;
            return Ok(path.to_owned());
        }
        let folders = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        for folder in env::split_paths(&folders).filter(|folder| folder.is_absolute()) {
            let path = folder.join(program);
            match self.check_program(&path) {
                // Like `execvp`: try the next folder if it is missing, unreachable, not executable,
                // or a folder.
                Err(error) if !error.is_refused() => {}
                found => return found.map(|()| path),
            }
        }
        Err(Error::os(path, "search in PATH", rustix::io::Errno::NOENT))
    }

    fn check_program(&self, path: &Path) -> Result<(), Error> {
        let place = self.followed_place(path)?;
        let found = look(place.folder(), place.name())?
            .ok_or_else(|| Error::os(place.path(), "open", rustix::io::Errno::NOENT))?;
        need_regular(place.path(), &found.metadata)?;
        if found.metadata.mode() & 0o111 == 0 {
            return Err(Error::os(place.path(), "execute", rustix::io::Errno::ACCESS));
        }
        if !is_firm(place.folder().control(), &found.metadata, self) {
            let message = format!(
                "user {} can change this program, or {} for its folder; give it to root, in a \
                 folder that nobody else can write",
                found.metadata.uid(),
                place.folder().control(),
            );
            return Err(Error::refused(place.path(), message));
        }
        if others_can_write(&found.metadata, found.descriptor.as_fd()) {
            let mode = found.metadata.mode() & 0o7777;
            let message = format!("others can write this program (mode {mode:04o})");
            return Err(Error::refused(place.path(), message));
        }
        Ok(())
    }
}
