//! The error of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// An error of the world or of its store.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached, or has no leader: nothing was done.
    Unavailable,
    /// The time for the answer is over, or the connection broke after the request was sent. A
    /// write may have taken effect, or may yet.
    Indeterminate,
    /// The revision that was asked for is compacted: read anew.
    Compacted,
    /// Another writer was first: read anew, and try again.
    Conflict,
    /// The lease has ended.
    LeaseEnded,
    /// The store's access control refuses it.
    Denied,
    /// The store has no room (etcd's NOSPACE alarm): it is read, and not written.
    NoSpace,
    /// An argument, or the size of a request, is not allowed.
    Invalid,
    /// The store sent more than is held of it
    /// ([`Limits`](crate::Limits)): none of it is taken.
    TooLarge,
    /// A value in the store is not what its key says.
    Malformed,
    /// It is another store than before: revisions and leases of the one do not count in the other.
    /// End, and begin anew.
    Replaced,
    /// The store failed in another way.
    Store,
}

impl Error {
    /// Makes an error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if the same call may succeed later. After
    /// [`Indeterminate`](ErrorKind::Indeterminate), look first whether it has taken effect.
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
