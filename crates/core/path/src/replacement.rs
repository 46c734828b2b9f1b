//! A new file that takes another one's place in one step.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with};
use rustix::io::Errno;

use crate::{Error, Place};

/// The suffix of a file that is being written.
const NEW: &str = ".trueup-new";

/// A file that is written beside the one to replace, as `.NAME.HASH.trueup-new`. If it is dropped
/// before it is published, it is removed.
///
/// ```
/// use std::io::Write as _;
/// use trueup_path::TrustedUsers;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let base = std::env::temp_dir().join(format!("trueup-doc-replace-{}", std::process::id()));
/// let place = TrustedUsers::current()?.make_folder(&base, 0o700)?.place("conf");
/// let mut new = place.replacement(0o600)?;
/// new.file().write_all(b"mtu 1400")?;
/// new.publish(None)?; // readers see all of it, or no file
/// assert_eq!(std::fs::read(base.join("conf"))?, b"mtu 1400");
/// # std::fs::remove_dir_all(&base)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Replacement {
    place: Place,
    new: Place,
    file: File,
    is_published: bool,
}

impl Place {
    /// Creates a file with this mode, to replace the file of this name. Removes one that a crash
    /// has left first.
    ///
    /// # Errors
    ///
    /// The file cannot be created.
    pub fn replacement(&self, mode: u32) -> Result<Replacement, Error> {
        let new = self.beside(NEW);
        new.unlink()?;
        Ok(Replacement {
            file: new.create_new(mode)?,
            place: self.clone(),
            new,
            is_published: false,
        })
    }
}

impl Replacement {
    /// Returns the open file, to write it and to set its owner and mode.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in its place, in one step and durably. `expected` is the open file that has
    /// the name; `None` if no file should have it.
    ///
    /// # Errors
    ///
    /// [`Changed`](crate::ErrorKind::Changed) if another file has the name by now, which stays.
    /// Also if the file cannot be synced or renamed.
    pub fn publish(mut self, expected: Option<&File>) -> Result<(), Error> {
        let synced = self.file.sync_all();
        synced.map_err(|error| Error::os(self.place.path(), "sync", error))?;
        match expected {
            None => self.put()?,
            Some(expected) => self.exchange(expected)?,
        }
        self.is_published = true;
        self.place.folder().sync()
    }

    /// Gives the file the name, which must be free.
    fn put(&self) -> Result<(), Error> {
        let (folder, name) = (self.place.folder().as_fd(), self.place.name());
        let renamed = renameat_with(folder, self.new.name(), folder, name, RenameFlags::NOREPLACE);
        match renamed {
            // The file system does not support it. A hard link does not replace a file either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(folder, self.new.name(), folder, name, AtFlags::empty())
                    .map_err(|error| self.not_renamed(error))?;
                self.new.unlink()
            }
            renamed => renamed.map_err(|error| self.not_renamed(error)),
        }
    }

    /// Exchanges the file with the one in its place, and removes that one if it is the expected
    /// one.
    fn exchange(&self, expected: &File) -> Result<(), Error> {
        let (folder, name) = (self.place.folder().as_fd(), self.place.name());
        let exchange =
            || renameat_with(folder, self.new.name(), folder, name, RenameFlags::EXCHANGE);
        match exchange() {
            // The file system does not support it.
            Err(Errno::INVAL | Errno::NOSYS) if self.place.is_of(expected)? => {
                let renamed = renameat(folder, self.new.name(), folder, name);
                return renamed.map_err(|error| self.not_renamed(error));
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOENT) => return Err(self.place.changed()),
            exchanged => exchanged.map_err(|error| self.not_renamed(error))?,
        }
        if self.new.is_of(expected)? {
            return self.new.unlink();
        }
        exchange().map_err(|error| self.not_renamed(error))?;
        Err(self.place.changed())
    }

    fn not_renamed(&self, error: Errno) -> Error {
        match error {
            Errno::EXIST => self.place.changed(),
            error => Error::os(self.place.path(), "replace", error),
        }
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        // If another file has the name, we must not remove it.
        if !self.is_published && self.new.is_of(&self.file).unwrap_or(false) {
            // The next replacement removes a file that stays.
            let _ = self.new.unlink();
        }
    }
}
