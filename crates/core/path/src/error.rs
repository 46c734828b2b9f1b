//! The crate's error, with its path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error at a path. The message names the path and the remedy.
///
/// ```
/// use trueup_path::{Readers, TrustedUsers};
///
/// # fn main() -> Result<(), trueup_path::Error> {
/// let error = TrustedUsers::current()?.open_ours("/proc/absent".as_ref(), Readers::Us).unwrap_err();
/// assert!(error.is_not_found());
/// assert!(error.to_string().starts_with("/proc/absent"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    path: PathBuf,
    message: String,
    source: Option<io::Error>,
}

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another user could redirect the path or change the file. The message names the folder or
    /// file and the remedy.
    Refused,
    /// The file is not a regular file, or is not a folder although one is needed.
    NotRegular,
    /// The file has more bytes than allowed.
    TooLarge,
    /// Another writer changed the file at the same time. Nothing was changed; try again.
    Changed,
    /// A system call failed: see [`Error::io_kind`].
    Os,
}

impl Error {
    pub(crate) fn refused(path: &Path, message: impl Into<String>) -> Error {
        Error::of_kind(ErrorKind::Refused, path, message)
    }

    pub(crate) fn of_kind(kind: ErrorKind, path: &Path, message: impl Into<String>) -> Error {
        Error { kind, path: path.to_owned(), message: message.into(), source: None }
    }

    pub(crate) fn with_source(mut self, source: io::Error) -> Error {
        self.source = Some(source);
        self
    }

    pub(crate) fn os(path: &Path, what: &str, error: impl Into<io::Error>) -> Error {
        let source = error.into();
        Error::of_kind(ErrorKind::Os, path, format!("cannot {what}: {source}")).with_source(source)
    }

    /// Creates the error for a file that a caller could not open.
    #[must_use]
    pub fn not_opened(path: &Path, source: io::Error) -> Error {
        Error::os(path, "open", source)
    }

    /// Returns the kind, for callers that react to some errors.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the path of the folder or file at which the error occurred.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the failed system call's error number; `None` if no call failed.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.source.as_ref().and_then(io::Error::raw_os_error)
    }

    /// Returns the error kind in terms of `std::io`: the failed system call's, or
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) for a refusal.
    #[must_use]
    pub fn io_kind(&self) -> io::ErrorKind {
        match (self.kind, &self.source) {
            (_, Some(source)) => source.kind(),
            (ErrorKind::Refused, None) => io::ErrorKind::PermissionDenied,
            (ErrorKind::TooLarge, None) => io::ErrorKind::FileTooLarge,
            (ErrorKind::Changed, None) => io::ErrorKind::ResourceBusy,
            (ErrorKind::NotRegular | ErrorKind::Os, None) => io::ErrorKind::InvalidInput,
        }
    }

    /// True if the file or folder does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.io_kind() == io::ErrorKind::NotFound
    }

    /// True if another user could redirect the path or change the file.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.kind == ErrorKind::Refused
    }

    /// Returns the message without the path.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|it| it as _)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.io_kind(), error)
    }
}
