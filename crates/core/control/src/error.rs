//! The error of the crate.

use std::fmt;
use std::sync::Arc;

/// An error of a provider, a backend, a token or the journal, or a refused request.
///
/// ```
/// use trueup_control::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Backend, "the hypervisor does not answer");
/// assert_eq!(error.kind(), ErrorKind::Backend);
/// assert!(error.to_string().contains("does not answer"));
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The desired state cannot be read.
    Provider,
    /// The backend did not answer, or not clearly.
    Backend,
    /// The journal or the ledger cannot be read or written, so nothing begins.
    Journal,
    /// A text is not a token, or not a record of this crate.
    Malformed,
    /// A token is not signed by the gate's key.
    Signature,
    /// A token is for another journal, such as a deleted one.
    OtherJournal,
    /// A token has expired, by the latest time that the agent has seen.
    Expired,
    /// A token is valid for longer than the gate allows, or its issue time is in the future.
    Lifetime,
    /// A token was used before.
    Spent,
    /// No waiting action matches the token: it is for another action, another state of the object,
    /// or another agent.
    NotWaiting,
    /// There is no such operation, or its state does not fit the call.
    NoOperation,
    /// An argument is not allowed; the message says which.
    Invalid,
    /// The engine was dropped: its handles no longer answer.
    Ended,
    /// The time for the answer is over. The request continues.
    Timeout,
}

impl Error {
    /// Creates an error, for a provider or a backend.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), source: None }
    }

    /// Sets the cause, returned by [`source`](std::error::Error::source).
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// Returns the kind, for callers that react to some errors.
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
