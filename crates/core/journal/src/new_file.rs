//! A file that appears whole or not at all.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use trueup_path::Place;

use crate::files::Files;
use crate::{Error, Storage};

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

    /// Creates `path.new`. One that an earlier attempt left is removed first: it may have another
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

    /// Renames the file to `path`, and makes that durable.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        self.new
            .rename_over(&self.place)
            .and_then(|()| self.place.folder().sync())
            .map_err(|error| self.error(error))?;
        self.is_published.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the file once it has its name.
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
