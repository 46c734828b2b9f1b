//! A folder for one test.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trueup-{name}-{}", std::process::id()));
        trueup_testkit::empty_directory(&path).unwrap();
        set_mode(&path, 0o755);
        Folder(path.canonicalize().unwrap())
    }

    pub(crate) fn write(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, "route = []").unwrap();
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
