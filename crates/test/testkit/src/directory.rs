//! Directories for one test alone.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes an empty directory that no other user may write, and removes anything already there. That
/// may be left from a killed process with the same process id.
///
/// # Errors
///
/// If the old content cannot be removed, or the directory cannot be made.
pub fn empty_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o755).create(path)
}

/// A directory of its own, deleted on drop. Its path has no link.
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
    /// Makes an empty directory in the system's temporary directory, named after its use.
    ///
    /// # Errors
    ///
    /// Like [`empty_directory`].
    pub fn make(name: &str) -> io::Result<Scratch> {
        Scratch::make_in(&env::temp_dir(), name)
    }

    /// Does the same as [`Scratch::make`], in memory if the system has a directory for this: a sync
    /// costs nothing there.
    ///
    /// # Errors
    ///
    /// Like [`empty_directory`].
    pub fn make_in_memory(name: &str) -> io::Result<Scratch> {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Scratch::make_in(memory, name) } else { Scratch::make(name) }
    }

    fn make_in(parent: &Path, name: &str) -> io::Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.canonicalize()?.join(format!("trueup-{name}-{}-{count}", process::id()));
        empty_directory(&path)?;
        Ok(Scratch(path))
    }

    /// Returns the names of its entries, in order.
    ///
    /// # Panics
    ///
    /// If it cannot be read, or if a name is no UTF-8.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A destructor can do nothing about a failure.
        let _ = fs::remove_dir_all(&self.0);
    }
}
