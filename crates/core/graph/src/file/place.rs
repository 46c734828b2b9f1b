//! The places of several files, as different paths can lead to one, and what an error there is to a
//! vertex.

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
pub struct Places(Arc<Mutex<Claims>>);

/// The path of each place that is claimed, and who has claimed it.
type Claims = BTreeMap<Identity, (PathBuf, Weak<Claim>)>;

/// A folder, by the numbers of its device and inode, and a name in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(u64, u64, OsString);

/// The place that a vertex has until this is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    places: Places,
    identity: Identity,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = lock(&self.places.0);
        // Another vertex of the path may have it by now.
        if claims.get(&self.identity).is_some_and(|(_, claim)| claim.strong_count() == 0) {
            claims.remove(&self.identity);
        }
    }
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
        // Only now, so that no other takes the place in between.
        drop(before);
        *own = Some(claim);
        Ok(())
    }
}
