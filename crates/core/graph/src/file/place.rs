//! Claims of files, because different paths can lead to one file; and the conversion of errors to
//! failures.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::fstat;
use rustix::io::Errno;
use trueup_path::{Error, ErrorKind, Place};
use trueup_reconcile::ErrorClass;

use crate::Failure;
use crate::sync::lock;

/// Returns the failure for an error at a path. A refused path is a conflict with the user who could
/// redirect it; a retry follows, in case that user or the operator corrects it.
pub(super) fn failure(error: Error) -> Failure {
    let (class, remedy) = match error.kind() {
        // The error's message has the remedy.
        ErrorKind::Refused => (ErrorClass::Conflict, ""),
        ErrorKind::NotRegular => (ErrorClass::Conflict, "; remove it, or declare another path"),
        ErrorKind::TooLarge => (ErrorClass::Invalid, "; declare a smaller file"),
        // The error's message says so.
        ErrorKind::Changed => (ErrorClass::Busy, ""),
        _ => {
            let (class, remedy) = of_system(error.io_kind(), error.raw_os_error());
            return Failure::new(class, format!("{error}; {remedy}"));
        }
    };
    Failure::new(class, format!("{error}{remedy}"))
}

/// Returns the failure for a system call on an open file.
pub(super) fn failed(path: &Path, what: &str, error: &io::Error) -> Failure {
    let (class, remedy) = of_system(error.kind(), error.raw_os_error());
    let message = format!("{}: cannot {what}: {error}; {remedy}", path.display());
    Failure::new(class, message)
}

fn of_system(kind: io::ErrorKind, errno: Option<i32>) -> (ErrorClass, &'static str) {
    match kind {
        io::ErrorKind::NotFound => (ErrorClass::Dependency, "create it or its folder"),
        // `EPERM` although the owner writes the file: the mode is not the reason.
        io::ErrorKind::PermissionDenied if errno == Some(Errno::PERM.raw_os_error()) => (
            ErrorClass::Permission,
            "it, or its folder, may be immutable: see `lsattr -d`, and `chattr -i` it; or run as \
             another user",
        ),
        io::ErrorKind::PermissionDenied => (ErrorClass::Permission, "run as another user"),
        _ => (ErrorClass::Busy, "it is tried again"),
    }
}

/// The places of the [files](super::File) of one graph, to keep two vertices from managing the same
/// file.
///
/// Two paths can lead to one file by a folder's symbolic link or a bind mount. This shows only once
/// both folders exist.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<Claims>>);

/// The path and the claimant of each claimed place.
type Claims = BTreeMap<Identity, (PathBuf, Weak<Claim>)>;

/// A folder's device and inode, and a name in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(u64, u64, OsString);

/// A vertex's hold on a place; dropping it releases the place.
#[derive(Debug)]
pub(super) struct Claim {
    places: Places,
    identity: Identity,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = lock(&self.places.0);
        // Another vertex with the same path may have claimed it by now.
        if claims.get(&self.identity).is_some_and(|(_, claim)| claim.strong_count() == 0) {
            claims.remove(&self.identity);
        }
    }
}

impl Places {
    /// Claims a place for a path's vertex, and releases its previous one.
    ///
    /// # Errors
    ///
    /// A vertex with another path holds the place.
    pub(super) fn claim(
        &self,
        place: &Place,
        path: &Path,
        own: &mut Option<Arc<Claim>>,
    ) -> Result<(), Failure> {
        let status = fstat(place.folder())
            .map_err(|errno| failed(path, "look at its folder", &io::Error::from(errno)))?;
        let identity = Identity(status.st_dev, status.st_ino, place.name().to_owned());
        let claim = Arc::new(Claim { places: self.clone(), identity: identity.clone() });
        let before = own.take();
        let mut claims = lock(&self.0);
        if let Some((other, claim)) = claims.get(&identity)
            && other != path
            && claim.strong_count() > 0
        {
            let message = format!(
                "{}: is the same file as {}, by another path: remove one of the two",
                path.display(),
                other.display()
            );
            return Err(Failure::new(ErrorClass::Invalid, message));
        }
        claims.insert(identity, (path.to_owned(), Arc::downgrade(&claim)));
        drop(claims);
        // Release it only now, so that no other vertex takes the place in between.
        drop(before);
        *own = Some(claim);
        Ok(())
    }
}
