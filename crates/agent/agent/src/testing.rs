//! Helpers of tests with files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Writes a declaration of nothing.
pub(crate) fn declare_nothing(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, "route = []").unwrap();
    path
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
