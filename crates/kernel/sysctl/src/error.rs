//! The error of the crate, and the classes of the kernel's errors.

use std::fmt;
use std::io;

use trueup_netlink as netlink;
use trueup_reconcile::{ErrorClass, LedgerError};

use crate::Key;

/// An error in a key, a value or a desired state, or of a pass that could not run.
///
/// ```
/// use trueup_sysctl::{ErrorKind, Key};
///
/// let error = "kernel.panic".parse::<Key>().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Key);
/// assert_eq!(error.errno(), None);
/// ```
#[derive(Debug)]
pub struct Error(Box<Repr>);

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A text is not a valid key.
    Key,
    /// A text is not a valid value.
    Value,
    /// The declared keys and values contradict each other.
    Desired,
    /// The namespace cannot be entered, or has no `/proc/sys`.
    Namespace,
    /// The namespace of earlier passes is gone, or another has its name.
    Gone,
    /// The ledger cannot be read or written, so it is not known which values are ours.
    Ledger,
}

#[derive(Debug)]
enum Repr {
    Text(ErrorKind, String),
    Enter(netlink::Error),
    Gone(String, Option<netlink::Error>),
    Ledger(LedgerError),
}

impl Error {
    /// Returns the kind, for callers that react to some errors.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Repr::Text(kind, _) => *kind,
            Repr::Enter(_) => ErrorKind::Namespace,
            Repr::Gone(..) => ErrorKind::Gone,
            Repr::Ledger(_) => ErrorKind::Ledger,
        }
    }

    /// Returns the kernel's errno, or `None` if it gave none.
    pub fn errno(&self) -> Option<i32> {
        match &*self.0 {
            Repr::Enter(error) | Repr::Gone(_, Some(error)) => error.errno(),
            _ => None,
        }
    }

    /// Returns true if the namespace is gone, or another has its name.
    pub fn is_gone(&self) -> bool {
        self.kind() == ErrorKind::Gone
    }

    /// Returns true if a later pass may succeed without other changes.
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Repr::Text(kind, _) => *kind == ErrorKind::Namespace,
            Repr::Enter(_) | Repr::Ledger(_) => true,
            Repr::Gone(..) => false,
        }
    }

    /// Returns the ledger's own error if the kind is [`Ledger`](ErrorKind::Ledger); `None`
    /// otherwise.
    pub fn ledger(&self) -> Option<&LedgerError> {
        match &*self.0 {
            Repr::Ledger(error) => Some(error),
            _ => None,
        }
    }

    fn text(kind: ErrorKind, message: String) -> Error {
        Error(Box::new(Repr::Text(kind, message)))
    }

    pub(crate) fn key(message: String) -> Error {
        Error::text(ErrorKind::Key, message)
    }

    pub(crate) fn value(message: String) -> Error {
        Error::text(ErrorKind::Value, message)
    }

    pub(crate) fn desired(message: String) -> Error {
        Error::text(ErrorKind::Desired, message)
    }

    /// Makes an error of `/proc/sys`.
    pub(crate) fn proc(message: String) -> Error {
        Error::text(ErrorKind::Namespace, message)
    }

    pub(crate) fn gone(message: String, cause: Option<netlink::Error>) -> Error {
        Error(Box::new(Repr::Gone(message, cause)))
    }

    /// Adds the key to the front of the message.
    pub(crate) fn of(self, key: &Key) -> Error {
        Error::text(self.kind(), format!("{key}: {self}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Repr::Text(_, message) => f.write_str(message),
            Repr::Enter(error) => error.fmt(f),
            Repr::Gone(message, Some(error)) => write!(f, "{message}: {error}"),
            Repr::Gone(message, None) => f.write_str(message),
            Repr::Ledger(error) => write!(f, "the ledger: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Repr::Text(..) => None,
            Repr::Enter(error) => Some(error),
            Repr::Gone(_, error) => error.as_ref().map(|error| error as _),
            Repr::Ledger(error) => Some(error),
        }
    }
}

impl From<LedgerError> for Error {
    fn from(error: LedgerError) -> Error {
        Error(Box::new(Repr::Ledger(error)))
    }
}

impl From<netlink::Error> for Error {
    fn from(error: netlink::Error) -> Error {
        Error(Box::new(Repr::Enter(error)))
    }
}

/// Returns the class of an error from reading or writing a value. An unlisted error is
/// [`ErrorClass::Unknown`].
pub(crate) fn classify(error: &io::Error) -> ErrorClass {
    let Some(errno) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ErrorClass::Invalid,
            io::ErrorKind::PermissionDenied => ErrorClass::Permission,
            io::ErrorKind::NotFound => ErrorClass::Dependency,
            io::ErrorKind::Unsupported => ErrorClass::Unsupported,
            _ => ErrorClass::Unknown,
        };
    };
    match errno {
        // A key comes with its device or its module.
        libc::ENOENT | libc::ENODEV | libc::ENXIO | libc::ESRCH | libc::ENOTDIR => {
            ErrorClass::Dependency
        }
        libc::EPERM | libc::EACCES | libc::EROFS => ErrorClass::Permission,
        libc::EINVAL
        | libc::ERANGE
        | libc::E2BIG
        | libc::EDOM
        | libc::EOVERFLOW
        | libc::EMSGSIZE
        | libc::ENAMETOOLONG
        | libc::EISDIR => ErrorClass::Invalid,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT => {
            ErrorClass::Unsupported
        }
        libc::EBUSY
        | libc::EAGAIN
        | libc::EINTR
        | libc::ENOMEM
        | libc::ENOBUFS
        | libc::ENOSPC
        | libc::EMFILE
        | libc::ENFILE
        | libc::ETIMEDOUT => ErrorClass::Busy,
        _ => ErrorClass::Unknown,
    }
}

#[cfg(test)]
mod tests;
