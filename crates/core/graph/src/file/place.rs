//! The places of several files, as different paths can lead to one, and what an error there is to a
//! vertex.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::fstat;
use rustix::io::Errno;
use trueup_path::{Error, ErrorKind, Place};
use trueup_reconcile::ErrorClass;

use crate::Failure;

/// Returns the failure of an error at a path. A path that is refused is a conflict with the user
/// who could lead it elsewhere: it is tried again, in case that user or the operator corrects it.
pub(super) fn failure(error: Error) -> Failure {
    let (class, remedy) = match error.kind() {
        // Its message has the remedy.
        ErrorKind::Refused => (ErrorClass::Conflict, ""),
        ErrorKind::NotRegular => (ErrorClass::Conflict, "; remove it, or declare another path"),
        ErrorKind::TooLarge => (ErrorClass::Invalid, "; declare a smaller file"),
        // Its message says so.
        ErrorKind::Changed => (ErrorClass::Busy, ""),
        _ => {
            let (class, remedy) = of_system(error.io_kind(), error.raw_os_error());
            return Failure::new(class, format!("{error}; {remedy}"));
        }
    };
    Failure::new(class, format!("{error}{remedy}"))
}

/// Returns the failure of a system call on an open file.
pub(super) fn failed(path: &Path, what: &str, error: &io::Error) -> Failure {
    let (class, remedy) = of_system(error.kind(), error.raw_os_error());
    let message = format!("{}: cannot {what}: {error}; {remedy}", path.display());
    Failure::new(class, message)
}

fn of_system(kind: io::ErrorKind, errno: Option<i32>) -> (ErrorClass, &'static str) {
    match kind {
        io::ErrorKind::NotFound => (ErrorClass::Dependency, "create it or its folder"),
        // Of a file that is written by its owner.
        io::ErrorKind::PermissionDenied if errno == Some(Errno::PERM.raw_os_error()) => (
            ErrorClass::Permission,
            "it, or its folder, may be immutable: see `lsattr -d`, and `chattr -i` it; or run as \
             another user",
        ),
        io::ErrorKind::PermissionDenied => (ErrorClass::Permission, "run as another user"),
        _ => (ErrorClass::Busy, "it is tried again"),
    }
}

/// The places of the [files](super::File) of one graph, so that no two of them keep the same one.
///
/// A path over a symbolic link of a folder, or into a bind mount, can lead to a file that another
/// path leads to as well. That shows only once both folders are there.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<BTreeMap<Identity, Claim>>>);

/// A folder, by the numbers of its device and inode, and a name in it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(u64, u64, OsString);

#[derive(Debug)]
struct Claim {
    path: PathBuf,
    /// Gone once its vertex is.
    vertex: Weak<()>,
}

impl Places {
    /// Claims a place for the vertex of a path, which gives up the one that it had.
    ///
    /// # Errors
    ///
    /// When the vertex of another path has it.
    pub(super) fn claim(
        &self,
        place: &Place,
        path: &Path,
        vertex: &Arc<()>,
    ) -> Result<(), Failure> {
        let status = fstat(place.folder()).map_err(|errno| {
            super::failed(path, "look at its folder", &std::io::Error::from(errno))
        })?;
        let identity = Identity(status.st_dev, status.st_ino, place.name().to_owned());
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|_, claim| claim.vertex.strong_count() > 0 && claim.path != path);
        if let Some(other) = claims.get(&identity) {
            let message = format!(
                "{}: is the same file as {}, by another path: remove one of the two",
                path.display(),
                other.path.display()
            );
            return Err(Failure::new(ErrorClass::Invalid, message));
        }
        let claim = Claim { path: path.to_owned(), vertex: Arc::downgrade(vertex) };
        claims.insert(identity, claim);
        Ok(())
    }
}
