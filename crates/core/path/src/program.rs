//! Programs that no other user can change.

use std::env;
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::control::others_can_write;
use crate::place::need_regular;
use crate::walk::{is_firm, look};
use crate::{Error, TrustedUsers};

impl TrustedUsers {
    /// Finds a program as `execvp` does: a name without a slash in the folders of `PATH`, the first
    /// that has an executable file of this name. Returns its path if nobody but root and we can
    /// change the program or lead us to another one.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) if another user can; [`Os`](crate::ErrorKind::Os),
    /// not found, if there is no such program.
    pub fn program(&self, program: &OsStr) -> Result<PathBuf, Error> {
        let path = Path::new(program);
        if path.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
            self.check_program(path)?;
            return Ok(path.to_owned());
        }
        let folders = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        for folder in env::split_paths(&folders).filter(|folder| folder.is_absolute()) {
            let path = folder.join(program);
            match self.check_program(&path) {
                // As `execvp`: not there, not in reach, not executable, a folder.
                Err(error) if !error.is_refused() => {}
                found => return found.map(|()| path),
            }
        }
        let message = "search in PATH";
        Err(Error::os(path, message, rustix::io::Errno::NOENT))
    }

    fn check_program(&self, path: &Path) -> Result<(), Error> {
        let place = self.followed_place(path)?;
        let found = look(place.folder(), place.name())?
            .ok_or_else(|| Error::os(place.path(), "open", rustix::io::Errno::NOENT))?;
        need_regular(place.path(), &found.metadata)?;
        if found.metadata.mode() & 0o111 == 0 {
            return Err(Error::os(place.path(), "execute", rustix::io::Errno::ACCESS));
        }
        if !is_firm(place.folder().control(), &found.metadata, self) {
            let message = format!(
                "user {} can change this program, or {} for its folder; give it to root, in a \
                 folder that nobody else can write",
                found.metadata.uid(),
                place.folder().control(),
            );
            return Err(Error::refused(place.path(), message));
        }
        if others_can_write(&found.metadata, found.descriptor.as_fd()) {
            let mode = found.metadata.mode() & 0o7777;
            let message = format!("others can write this program (mode {mode:04o})");
            return Err(Error::refused(place.path(), message));
        }
        Ok(())
    }
}
