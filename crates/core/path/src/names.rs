//! Names of files that nobody else changes meanwhile: in a folder that is ours, or files that only
//! we write.

use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, linkat, renameat, unlinkat};
use rustix::io::Errno;

use crate::{Error, Place};

impl Place {
    /// Removes the name of whatever has it but a folder. A name that nothing has is no error. In a
    /// folder that others can write, use [`remove`](Self::remove).
    ///
    /// # Errors
    ///
    /// When it cannot be removed.
    pub fn unlink(&self) -> Result<(), Error> {
        match unlinkat(self.folder().as_fd(), self.name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(Error::os(self.path(), "remove", error)),
        }
    }

    /// Gives the file another name, and replaces a file that has it. In a folder that others can
    /// write, use [`replacement`](Self::replacement).
    ///
    /// # Errors
    ///
    /// When it cannot be renamed.
    pub fn rename_over(&self, other: &Place) -> Result<(), Error> {
        let (from, to) = (self.folder().as_fd(), other.folder().as_fd());
        renameat(from, self.name(), to, other.name())
            .map_err(|error| Error::os(other.path(), "replace", error))
    }

    /// Gives the file a second name (a hard link) if nothing has it. False if something has. A
    /// link is not followed.
    ///
    /// # Errors
    ///
    /// When it cannot be linked.
    pub fn link_to(&self, other: &Place) -> Result<bool, Error> {
        let (from, to) = (self.folder().as_fd(), other.folder().as_fd());
        match linkat(from, self.name(), to, other.name(), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(Error::os(other.path(), "link", error)),
        }
    }
}
