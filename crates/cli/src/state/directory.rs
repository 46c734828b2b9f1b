//! Directories for journals: where they are, whether they can be used, and how they are made.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Returns the directories in which journals may be: the given one, or the default ones.
pub(crate) fn directories(given: Option<&Path>) -> Vec<PathBuf> {
    if let Some(given) = given {
        return vec![given.to_owned()];
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let usual = [Some(PathBuf::from("/run")), runtime.map(PathBuf::from)];
    let usual = usual.into_iter().flatten();
    usual.map(|base| base.join("trueup")).collect()
}

/// Creates a missing state directory. Every user may search it, to learn that a namespace has no
/// journal: [`StateFile::is_in_use`](super::StateFile::is_in_use). The journal itself is readable by its owner alone.
pub(crate) fn make(directory: &Path) -> io::Result<()> {
    const MODE: u32 = 0o711;
    if let Some(parent) = directory.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(parent)?;
    }
    match DirBuilder::new().mode(MODE).create(directory) {
        // What the process masks is given as well.
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(MODE)),
        Err(_) if directory.is_dir() => Ok(()),
        made => made,
    }
}

/// Returns true if journals can be written there, or the missing directory can be made.
pub(super) fn is_usable(directory: &Path) -> bool {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match access(directory, Access::EXISTS) {
        Ok(()) => directory.is_dir() && access(directory, all).is_ok(),
        Err(_) => directory
            .parent()
            .is_some_and(|parent| access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok()),
    }
}
