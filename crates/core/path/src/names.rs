//! Gives, changes and removes names of files, so that only the intended file loses its name.

use std::fs::File;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::{Error, ErrorKind, Place};

/// The suffix of a file that is being removed.
const OLD: &str = ".trueup-old";

impl Place {
    /// Removes the regular file of this name durably, if `is_it` recognises it. During the check,
    /// the file has the name `.NAME.HASH.trueup-old`, so that no other file is removed. If it is
    /// not the one to remove, it gets its name back. False if nothing was removed.
    ///
    /// # Errors
    ///
    /// [`Changed`](ErrorKind::Changed) if another writer took the name during the check: the file
    /// then stays under the other name, which the message contains. Also the error of `is_it`, and
    /// if the file cannot be opened, renamed or removed.
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

    /// Removes a held file like [`remove`](Self::remove). It may be of any kind but a folder: see
    /// [`hold`](Self::hold).
    ///
    /// # Errors
    ///
    /// See [`remove`](Self::remove).
    pub fn remove_held(&self, held: &File) -> Result<bool, Error> {
        self.remove_if(|place| place.is_of(held))
    }

    /// Removes the file of this name if `is_it` accepts the place where it is set aside.
    fn remove_if<E: From<Error>>(
        &self,
        is_it: impl Fn(&Place) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let aside = self.beside(OLD);
        // A file left by a crash is checked first.
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

    /// Renames the file within its folder, unless the new name is taken. False if there is no file.
    ///
    /// # Errors
    ///
    /// [`Changed`](ErrorKind::Changed) if the new name is taken. Also if the file cannot be
    /// renamed.
    pub fn rename_new(&self, other: &Place) -> Result<bool, Error> {
        let (folder, from, to) = (self.folder().as_fd(), self.name(), other.name());
        let renamed = match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            // The file system does not support it.
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
    /// Removes the name, whatever has it except a folder. If nothing has it, this is no error. In a
    /// folder that others can write, use [`remove`](Self::remove).
    ///
    /// # Errors
    ///
    /// The name cannot be removed.
    pub fn unlink(&self) -> Result<(), Error> {
        match unlinkat(self.folder().as_fd(), self.name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(Error::os(self.path(), "remove", error)),
        }
    }

    /// Renames the file, and replaces a file that has the new name. In a folder that others can
    /// write, use [`replacement`](Self::replacement).
    ///
    /// # Errors
    ///
    /// The file cannot be renamed.
    pub fn rename_over(&self, other: &Place) -> Result<(), Error> {
        let (from, to) = (self.folder().as_fd(), other.folder().as_fd());
        renameat(from, self.name(), to, other.name())
            .map_err(|error| Error::os(other.path(), "replace", error))
    }

    /// Gives the file a second name (a hard link), unless the name is taken, for which it returns
    /// false. Does not follow a symbolic link.
    ///
    /// # Errors
    ///
    /// The file cannot be linked.
    pub fn link_to(&self, other: &Place) -> Result<bool, Error> {
        let (from, to) = (self.folder().as_fd(), other.folder().as_fd());
        match linkat(from, self.name(), to, other.name(), AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(Error::os(other.path(), "link", error)),
        }
    }
}
