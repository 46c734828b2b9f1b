//! Why something is no key, no value, no desired state; and why a pass could not run.

use std::fmt;

use trueup_netlink as netlink;
use trueup_reconcile::LedgerError;

use crate::Key;

/// Why something is no key, no value or no desired state, or why a pass could not run.
#[derive(Debug)]
pub struct Error(Box<Repr>);

/// What an [`Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A text is no key.
    Key,
    /// A text is no value.
    Value,
    /// Keys and values do not go together.
    Desired,
    /// The namespace cannot be entered, or `/proc/sys` is not there in it.
    Namespace,
    /// The namespace of earlier passes has ended, or what bears its name is another.
    Gone,
    /// The ledger cannot be read or written, so that nobody knows what is ours.
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
    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            Repr::Text(kind, _) => *kind,
            Repr::Enter(_) => ErrorKind::Namespace,
            Repr::Gone(..) => ErrorKind::Gone,
            Repr::Ledger(_) => ErrorKind::Ledger,
        }
    }

    /// The kernel's errno, where it gave one.
    pub fn errno(&self) -> Option<i32> {
        match &*self.0 {
            Repr::Enter(error) | Repr::Gone(_, Some(error)) => error.errno(),
            _ => None,
        }
    }

    /// The namespace has ended; what bears its name by now, if anything does, is another.
    pub fn is_gone(&self) -> bool {
        self.kind() == ErrorKind::Gone
    }

    /// Whether a later pass may well succeed with nothing else changed.
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            Repr::Text(kind, _) => *kind == ErrorKind::Namespace,
            Repr::Enter(_) | Repr::Ledger(_) => true,
            Repr::Gone(..) => false,
        }
    }

    /// The ledger's error, if it is one.
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

    /// `/proc/sys` is not as it has to be.
    pub(crate) fn proc(message: String) -> Error {
        Error::text(ErrorKind::Namespace, message)
    }

    pub(crate) fn gone(message: String, cause: Option<netlink::Error>) -> Error {
        Error(Box::new(Repr::Gone(message, cause)))
    }

    /// With the key that it is about before it.
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

/// The namespace could not be entered.
impl From<netlink::Error> for Error {
    fn from(error: netlink::Error) -> Error {
        Error(Box::new(Repr::Enter(error)))
    }
}
