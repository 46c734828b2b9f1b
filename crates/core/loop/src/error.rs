//! The error of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// An error of a loop or of a handle's call.
///
/// ```
/// use trueup_loop::{Error, ErrorKind};
///
/// let error = Error::new(ErrorKind::Ended);
/// assert!(error.is_ended());
/// assert_eq!(error.to_string(), "the loop has ended");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The loop has ended or is about to: it does nothing more.
    Ended,
    /// The timeout passed first. The request stays open. If the last pass could not run,
    /// [`source`](StdError::source) is the source's own error, and can be downcast.
    Timeout,
    /// Too many changes or questions are waiting.
    Full,
    /// The objects that the revision changed are no longer known.
    Forgotten,
    /// The loop is paused, so no pass starts.
    Paused,
    /// The call was made on the loop's own thread, and would have waited for that thread.
    OwnThread,
    /// The forced or awaited pass could not run. [`source`](StdError::source) is the source's own
    /// error, and can be downcast.
    PassFailed,
    /// The scope is gone, by [`Source::is_scope_gone`](trueup_reconcile::Source::is_scope_gone), so
    /// the loop has ended. [`source`](StdError::source) is the source's own error, and can be
    /// downcast.
    ScopeEnded,
    /// The loop's thread panicked, so the loop has ended.
    Panicked,
    /// The operating system refused a descriptor, a thread or a wait. [`source`](StdError::source)
    /// is its [`std::io::Error`].
    Os,
}

impl Error {
    /// Returns the kind, for callers that react to some errors.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if the kind is [`Ended`](ErrorKind::Ended): the loop does nothing more.
    pub fn is_ended(&self) -> bool {
        self.kind == ErrorKind::Ended
    }

    /// True if the timeout passed first.
    pub fn is_timeout(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    /// True if too many changes or questions are waiting.
    pub fn is_full(&self) -> bool {
        self.kind == ErrorKind::Full
    }

    /// True if the source's scope is gone.
    pub fn is_scope_ended(&self) -> bool {
        self.kind == ErrorKind::ScopeEnded
    }

    /// Creates an error of a kind, for a caller that runs a loop in steps.
    pub fn new(kind: ErrorKind) -> Self {
        Error { kind, cause: None }
    }

    /// Wraps an error of the source.
    pub(crate) fn of_source(kind: ErrorKind, cause: Arc<dyn StdError + Send + Sync>) -> Self {
        Error { kind, cause: Some(cause) }
    }

    pub(crate) fn os(cause: impl Into<std::io::Error>) -> Self {
        Error { kind: ErrorKind::Os, cause: Some(Arc::new(cause.into())) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Ended => "the loop has ended",
            ErrorKind::Timeout => "not over within the time given",
            ErrorKind::Full => "too many changes or questions wait",
            ErrorKind::Forgotten => "the objects of this revision are not known any more",
            ErrorKind::Paused => "the loop is paused",
            ErrorKind::OwnThread => "would wait, on the loop's thread, for that thread",
            ErrorKind::PassFailed => "the pass could not run",
            ErrorKind::ScopeEnded => "the scope has ended, and the loop with it",
            ErrorKind::Panicked => "the loop's thread panicked",
            ErrorKind::Os => "the operating system refused",
        })?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_the_cause() {
        let cause = std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let text = cause.to_string();
        let failed = Error::of_source(ErrorKind::PassFailed, Arc::new(cause));
        assert_eq!(failed.to_string(), format!("the pass could not run: {text}"));
        let ended = Error::new(ErrorKind::Ended);
        assert_eq!(ended.to_string(), "the loop has ended");
    }
}
