//! The error type of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// An error of the world or of its store: a kind for the caller, and a message for people.
///
/// ```
/// use trueup_world::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Unavailable, "no member answers");
/// assert!(error.is_retryable());
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`], by the caller's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached, or has no leader. Nothing was done.
    Unavailable,
    /// The call timed out, or the connection broke after the request was sent. A write may have
    /// taken effect, or may still do so.
    Indeterminate,
    /// The requested revision is compacted. Read again.
    Compacted,
    /// Another writer was first. Read again, and retry.
    Conflict,
    /// The lease has ended, and its keys are deleted.
    LeaseEnded,
    /// The store's access control refuses the request.
    Denied,
    /// The store has no space (etcd's NOSPACE alarm). It can be read, but not written.
    NoSpace,
    /// An argument or the size of a request is not allowed.
    Invalid,
    /// The store sent more than the [`Limits`](crate::Limits) allow. All of it is discarded.
    TooLarge,
    /// A value in the store does not have the form that its key requires.
    Malformed,
    /// The store is not the same one as before, so revisions and leases are meaningless. End, and
    /// begin again.
    Replaced,
    /// The store failed in another way.
    Store,
}

impl Error {
    /// Makes an error without a cause.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// Adds the cause, which `source` returns.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind, which decides the caller's next step.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns true if the same call may succeed later. After
    /// [`Indeterminate`](ErrorKind::Indeterminate), first check if it has taken effect.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            ErrorKind::Unavailable
            | ErrorKind::Indeterminate
            | ErrorKind::Compacted
            | ErrorKind::Conflict
            | ErrorKind::LeaseEnded
            | ErrorKind::NoSpace
            | ErrorKind::TooLarge => true,
            ErrorKind::Denied
            | ErrorKind::Invalid
            | ErrorKind::Malformed
            | ErrorKind::Replaced
            | ErrorKind::Store => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}
