//! Directories of a test's own.

use std::io::ErrorKind;
use std::path::Path;
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
