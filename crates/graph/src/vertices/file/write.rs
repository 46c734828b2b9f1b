//! Writes a file at once.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};
use trueup_reconcile::ErrorClass;

use super::{File, failed};
use crate::Failure;

impl File {
    pub(super) fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// Writes a new file beside the old one, and renames it.
    pub(super) fn write(&self, content: &[u8], old: Option<&fs::Metadata>) -> Result<(), Failure> {
        let Some(name) = self.path.file_name() else {
            let message = format!("{}: it is no path of a file", self.path.display());
            return Err(Failure::new(ErrorClass::Invalid, message));
        };
        let folder = self.folder();
        let mut new = OsString::from(".");
        new.push(name);
        new.push(".trueup-new");
        let new = folder.join(new);
        // One that a crash has left.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(&new, "remove", &error));
            }
            _ => {}
        }
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .map_err(|error| failed(&new, "create", &error))?;
        let written = self
            .finish(file, content, old)
            .and_then(|()| fs::rename(&new, &self.path));
        if let Err(error) = written {
            // The next run removes what stays.
            let _ = fs::remove_file(&new);
            return Err(failed(&self.path, "write", &error));
        }
        sync(folder).map_err(|error| failed(folder, "sync", &error))
    }

    fn finish(
        &self,
        mut file: fs::File,
        content: &[u8],
        old: Option<&fs::Metadata>,
    ) -> std::io::Result<()> {
        file.write_all(content)?;
        let user = self.user.or(old.map(|it| it.uid()));
        let group = self.group.or(old.map(|it| it.gid()));
        let found = file.metadata()?;
        set_owner(&file, &found, user, group)?;
        let mode = self
            .mode
            .or(old.map(|it| it.mode() & 0o7777))
            .unwrap_or(0o644);
        fchmod(&file, Mode::from_raw_mode(mode))?;
        file.sync_all()
    }
}

pub(super) fn sync(folder: &Path) -> std::io::Result<()> {
    fs::File::open(folder).and_then(|folder| folder.sync_all())
}

pub(super) fn set_owner(
    file: &fs::File,
    found: &fs::Metadata,
    user: Option<u32>,
    group: Option<u32>,
) -> std::io::Result<()> {
    let user = user.filter(|it| *it != found.uid()).map(Uid::from_raw);
    let group = group.filter(|it| *it != found.gid()).map(Gid::from_raw);
    if user.is_some() || group.is_some() {
        fchown(file, user, group)?;
    }
    Ok(())
}
