//! The folders of two users.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use trueup_path::TrustedUsers;

const OTHER: u32 = 4_242;

/// A folder in `/tmp`, removed when this is dropped.
pub(crate) struct Stage {
    folder: PathBuf,
    pub(crate) users: TrustedUsers,
    /// The attacking user.
    pub(crate) attacker: u32,
}

impl Stage {
    pub(crate) fn new() -> Stage {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("trueup-attacks-{}-{count}", std::process::id());
        // Beside other users' folders, in a folder where all users can create one.
        let folder = Path::new("/tmp").join(name);
        fs::create_dir(&folder).unwrap();
        let me = fs::metadata(&folder).unwrap().uid();
        match me {
            0 => Stage { folder, users: TrustedUsers::current().unwrap(), attacker: OTHER },
            me => Stage { folder, users: TrustedUsers::with_user(OTHER), attacker: me },
        }
    }

    /// True if the caller can create our files beside the attacker's.
    pub(crate) fn has_ours(&self) -> bool {
        self.attacker == OTHER
    }

    /// Returns the attacker's home. Creates it at the first call.
    pub(crate) fn home(&self) -> PathBuf {
        let home = self.folder.join("home");
        if !home.exists() {
            fs::create_dir(&home).unwrap();
            self.give(&home);
        }
        home
    }

    /// Creates a folder of the attacker's.
    pub(crate) fn folder(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.home().join(path);
        fs::create_dir(&path).unwrap();
        self.give(&path);
        path
    }

    /// Creates a file of the attacker's.
    pub(crate) fn file(&self, path: impl AsRef<Path>, content: &str) -> PathBuf {
        let path = self.home().join(path);
        fs::write(&path, content).unwrap();
        self.give(&path);
        path
    }

    /// Creates a link of the attacker's.
    pub(crate) fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> PathBuf {
        let path = self.home().join(path);
        std::os::unix::fs::symlink(target, &path).unwrap();
        self.give(&path);
        path
    }

    /// Returns a folder of ours, where no other user can write.
    pub(crate) fn ours(&self) -> PathBuf {
        assert!(self.has_ours());
        let ours = self.folder.join("ours");
        if !ours.exists() {
            fs::create_dir(&ours).unwrap();
        }
        ours
    }

    pub(crate) fn give(&self, path: &Path) {
        std::os::unix::fs::lchown(path, Some(self.attacker), None).unwrap();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn give_to(path: &Path, user: u32) {
    chown(path, Some(user), None).unwrap();
}
