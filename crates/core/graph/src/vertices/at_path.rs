//! What an error at a path is to a vertex.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use trueup_path::{Error, ErrorKind};
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
