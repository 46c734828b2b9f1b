//! Names of files: given, taken and removed, so that no other file than the one that is meant loses its
//! name.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::{Error, ErrorKind, Place};

/// The end of the name of a file that is being removed.
const OLD: &str = ".trueup-old";

impl Place {
    /// Removes the regular file of this name, durably, if `is_it` says that it is the one to remove.
    /// The file is renamed to `.NAME.HASH.trueup-old` while it is looked at, so that no other one is
    /// removed; one that is not to be removed gets its name back. False if there is none to remove.
    ///
    /// # Errors
    ///
    /// [`Changed`](ErrorKind::Changed) if another writer took the name while the file was looked
    /// at: then the file stays under the other name, which the message says. What `is_it` returns,
    /// and when the file cannot be opened, renamed or removed.
    pub fn remove<E: From<Error>>(
        &self,
        is_it: impl Fn(&File) -> Result<bool, E>,
    ) -> Result<bool, E> {
        self.remove_if(|place| match place.metadata()? {
            Some(found) if found.is_file() => match place.open()? {
                Some(file) => is_it(&file),
                None => Ok(false),
            },
            _ => Ok(false),
        })
    }

    /// As [`remove`](Self::remove), for the one file that is held, of any kind but a folder: see
    /// [`hold`](Self::hold).
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove).
    pub fn remove_held(&self, held: &File) -> Result<bool, Error> {
        self.remove_if(|place| place.is_of(held))
    }

    /// Removes the file of this name if `is_it` says so of the place where it is set aside.
    fn remove_if<E: From<Error>>(
        &self,
        is_it: impl Fn(&Place) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let aside = self.beside(OLD);
        // One that a crash has left is looked at first.
        let was_left = aside.remove_aside(self, &is_it)?;
        if !is_it(self)? {
            return Ok(was_left);
        }
        let is_aside = self.rename_new(&aside)?;
        Ok(was_left | (is_aside && aside.remove_aside(self, &is_it)?))
    }

    /// Removes a file that is set aside, or gives it its name back. False if it is not removed.
    fn remove_aside<E: From<Error>>(
        &self,
        back: &Place,
        is_it: impl Fn(&Place) -> Result<bool, E>,
    ) -> Result<bool, E> {
        if is_it(self)? {
            self.unlink()?;
            self.folder().sync()?;
            return Ok(true);
        }
        if self.metadata()?.is_some() && self.rename_new(back)? {
            self.folder().sync()?;
        }
        Ok(false)
    }

    /// Gives the file another name in its folder, unless that name is taken. False if there is no
    /// file.
    ///
    /// # Errors
    ///
    /// [`Changed`](ErrorKind::Changed) if the other name is taken, and when the file cannot be
    /// renamed.
    pub fn rename_new(&self, other: &Place) -> Result<bool, Error> {
        let (folder, from, to) = (self.folder().as_fd(), self.name(), other.name());
        let renamed = match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            // The file system cannot.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match linkat(folder, from, folder, to, AtFlags::empty()) {
                    Ok(()) => return self.unlink().map(|()| true),
                    linked => linked,
                }
            }
            renamed => renamed,
        };
        match renamed {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(Errno::EXIST) => {
                let message = format!(
                    "another file has this name; the one that was there is {}",
                    self.path().display()
                );
                Err(Error::of_kind(ErrorKind::Changed, other.path(), message))
            }
            Err(error) => Err(Error::os(self.path(), "rename", error)),
        }
    }
}

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
