//! The error of the crate.

use std::fmt;
use std::sync::Arc;

/// An error of a provider, a backend, a token or the journal, or a request that was refused.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The desired state cannot be read.
    Provider,
    /// The backend did not answer, or not in a way that says what happened.
    Backend,
    /// The journal or the ledger cannot be read or written, so nothing is begun.
    Journal,
    /// A text is no token, or no record of this crate.
    Malformed,
    /// A token is not signed by the key of the gate.
    Signature,
    /// A token is for another journal, such as one that was deleted.
    OtherJournal,
    /// A token has expired, by the latest time that the agent has seen.
    Expired,
    /// A token is valid for longer than the gate allows, or was made at a later time than now.
    Lifetime,
    /// A token was used before.
    Spent,
    /// A token is for no action that waits: for another action, another state of the object, or
    /// another agent.
    NotWaiting,
    /// There is no such operation, or it is not in the state that the call needs.
    NoOperation,
    /// An argument is not allowed.
    Invalid,
    /// The engine was dropped: its handles answer nothing any more.
    Ended,
    /// The time for the answer is over. What was asked for goes on.
    Timeout,
}

impl Error {
    /// Makes an error, for a provider or a backend.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if the same call may succeed later, without another change.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Provider | ErrorKind::Backend | ErrorKind::Timeout)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}
