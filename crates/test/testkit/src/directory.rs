//! Directories for one test alone.

use std::io::ErrorKind;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Makes an empty directory and removes anything already there. That may be left from a killed
/// process with the same process id.
///
/// # Errors
///
/// If the old content cannot be removed, or the directory cannot be made.
pub fn empty_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir(path)
}

/// A directory in the system's temporary directory, deleted on drop.
///
/// ```
/// use trueup_testkit::Scratch;
///
/// let scratch = Scratch::make("doc-scratch")?;
/// let path = scratch.join("file");
/// std::fs::write(&path, "content")?;
/// drop(scratch);
/// assert!(!path.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty directory, named after its use and this process.
    ///
    /// # Errors
    ///
    /// Like [`empty_directory`].
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
        // A destructor can do nothing about a failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}
