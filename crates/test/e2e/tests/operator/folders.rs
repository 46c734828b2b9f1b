//! Directories that are moved away, made again, replaced by links, and mounted over.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::commands::{is_mounted, mount_bind, mount_tmpfs, unmount};

/// The content of all another writer's files.
const THEIRS: &str = "theirs\n";

/// A directory on the path of the declaration, of a declared file, or of a source. Each form of it
/// that the operator makes has another writer's file in it.
pub(crate) struct Folder {
    path: PathBuf,
    /// The subdirectory with the files, such as `a/b`; may be empty.
    inner: &'static str,
    /// True if a full disk prevented the writing of another writer's file.
    lacks_theirs: bool,
}

impl Folder {
    pub(crate) fn new(path: PathBuf, inner: &'static str) -> Folder {
        fs::create_dir(&path).unwrap();
        let folder = Folder { path, inner, lacks_theirs: false };
        folder.populate(&folder.path).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of another writer's file.
    pub(crate) fn theirs(&self) -> PathBuf {
        self.path.join(self.inner).join("theirs")
    }

    pub(crate) fn has_theirs(&self) -> bool {
        fs::read_to_string(self.theirs()).is_ok_and(|text| text == THEIRS)
    }

    fn populate(&self, folder: &Path) -> io::Result<()> {
        let inner = folder.join(self.inner);
        fs::create_dir_all(&inner)?;
        fs::write(inner.join("theirs"), THEIRS)
    }

    /// Returns a path beside the directory.
    fn beside(&self, extension: &str) -> PathBuf {
        self.path.with_extension(extension)
    }

    /// Harms the directory, or does nothing if that is impossible now. Returns the name of the act.
    pub(crate) fn harm(&mut self, rng: &mut Rng) -> (&'static str, io::Result<()>) {
        match rng.u8(0..7) {
            0 => ("is moved away", self.move_away()),
            1 => (
                "is moved away, and made anew",
                self.move_away().and_then(|()| self.make(&self.path)),
            ),
            2 => (
                "becomes a link to where it is now",
                self.move_away().and_then(|()| symlink(self.beside("away"), &self.path)),
            ),
            3 => ("is moved back", self.move_back()),
            // A mount over a link would cover the link's target.
            4 | 5 if self.path.is_symlink() => ("is a link", Ok(())),
            4 => {
                let is_mounted = mount_tmpfs(&self.path, "256k");
                ("is mounted over", self.mounted(is_mounted))
            }
            5 => {
                let other = self.beside("other");
                let made = match other.exists() {
                    true => Ok(()),
                    false => self.make(&other),
                };
                let is_mounted = made.is_ok() && mount_bind(&other, &self.path);
                ("has another one bound over it", self.mounted(is_mounted))
            }
            _ => {
                let is_unmounted = unmount(&self.path);
                let failed = io::Error::other("nothing is mounted");
                ("is unmounted", is_unmounted.then_some(()).ok_or(failed))
            }
        }
    }

    fn make(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)?;
        self.populate(path)
    }

    fn mounted(&mut self, is_mounted: bool) -> io::Result<()> {
        match is_mounted {
            true => self.populate(&self.path),
            false => Err(io::Error::other("not mounted")),
        }
    }

    fn move_away(&self) -> io::Result<()> {
        let away = self.beside("away");
        match away.exists() {
            true => Err(io::Error::other("it was moved before")),
            false => fs::rename(&self.path, away),
        }
    }

    fn move_back(&self) -> io::Result<()> {
        let away = self.beside("away");
        fs::symlink_metadata(&away)?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_symlink() => fs::remove_file(&self.path)?,
            Ok(_) if is_mounted(&self.path) => return Err(io::Error::other("mounted over")),
            // Rename it: the agent may write there meanwhile, and a directory with content cannot
            // be removed.
            Ok(_) => fs::rename(&self.path, self.beside("gone"))?,
            Err(_) => {}
        }
        fs::rename(away, &self.path)?;
        let _absent = fs::remove_dir_all(self.beside("gone"));
        Ok(())
    }

    /// Makes the directory usable: restores the former one, or keeps the present one if it is a
    /// directory.
    pub(crate) fn restore(&mut self, rng: &mut Rng) {
        let stays = rng.u8(0..3) == 0 && self.path.is_dir();
        if !stays {
            while is_mounted(&self.path) {
                assert!(unmount(&self.path), "{}", self.path.display());
            }
            // If nothing was moved away, or by chance, the new directory stays.
            if !self.path.is_dir() || rng.bool() {
                let _impossible = self.move_back();
            }
            if !self.path.is_dir() {
                let _a_link_to_nothing = fs::remove_file(&self.path);
                fs::create_dir(&self.path).unwrap();
                self.lacks_theirs = true;
            }
        }
        let _absent = fs::remove_dir_all(self.beside("gone"));
        if !self.path.is_symlink() {
            let _absent = fs::remove_dir_all(self.beside("away"));
        }
        if !is_mounted(&self.path) {
            let _absent = fs::remove_dir_all(self.beside("other"));
        }
        if std::mem::take(&mut self.lacks_theirs) {
            self.populate(&self.path).unwrap();
        }
    }

    /// Records that another writer's file could not be written.
    pub(crate) fn lacks_theirs(&mut self) {
        self.lacks_theirs = true;
    }
}
