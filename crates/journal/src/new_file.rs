//! A file that appears whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::lock::sibling;
use crate::regular::open_regular;
use crate::{Error, Storage};

/// A file that is written as `path.new` and renamed to `path` once it is complete.
#[derive(Clone, Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    file: Arc<OnceLock<File>>,
}

impl NewFile {
    pub(crate) fn new(path: &Path) -> NewFile {
        NewFile {
            path: path.to_owned(),
            file: Arc::default(),
        }
    }

    /// Creates `path.new`. One that an earlier attempt left is overwritten.
    pub(crate) fn create(&self) -> Result<(), Error> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = open_regular(&self.unpublished(), options.mode(0o600));
        let file = file.map_err(|cause| self.error(cause))?;
        let _ = self.file.set(file);
        Ok(())
    }

    /// Renames the file to `path`, and makes that durable.
    pub(crate) fn publish(&self) -> Result<(), Error> {
        fs::rename(self.unpublished(), &self.path)
            .and_then(|()| sync_directory(&self.path))
            .map_err(|cause| self.error(cause))
    }

    fn unpublished(&self) -> PathBuf {
        sibling(&self.path, "new")
    }

    fn error(&self, cause: io::Error) -> Error {
        Error::os(format!("cannot make {}", self.path.display()), cause)
    }

    fn created(&self) -> io::Result<&File> {
        self.file
            .get()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Makes durable that a name was added to or removed from the directory of `path`.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
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
