//! Directories of a test's own.

use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Makes a directory that is empty, whatever was there: it may be that of one who bore the same
/// process id and was killed.
///
/// # Errors
///
/// When what is there cannot be removed, or nothing be made in its place.
pub fn empty_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(path)
}

/// A directory below that of temporary files, which goes with it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one that is empty, named after its use and this process.
    ///
    /// # Errors
    ///
    /// As of [`empty_directory`].
    pub fn make(name: &str) -> io::Result<Scratch> {
        let name = format!("trueup-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        empty_directory(&path)?;
        Ok(Scratch(path))
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nothing to be done about what fails here.
        let _ = fs::remove_dir_all(&self.0);
    }
}
