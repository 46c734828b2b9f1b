//! The errors of the crate.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// An error of a queue, or of a wait for a ticket.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The timeout passed first. The job goes on, and the ticket can be waited for again.
    Timeout,
    /// The wait was refused, because it could not end: what it is for needs the job that waits to
    /// end first.
    Deadlock,
    /// The outcome of the ticket was returned before.
    Taken,
    /// The operating system refused a thread. Its error is [`source`](StdError::source), a
    /// [`std::io::Error`].
    Os,
}

impl Error {
    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if the timeout passed first.
    pub fn is_timeout(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    /// True if the wait was refused because it could not end.
    pub fn is_deadlock(&self) -> bool {
        self.kind == ErrorKind::Deadlock
    }

    pub(crate) fn new(kind: ErrorKind) -> Self {
        Error { kind, cause: None }
    }

    pub(crate) fn os(cause: std::io::Error) -> Self {
        Error { kind: ErrorKind::Os, cause: Some(Arc::new(cause)) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Timeout => "not over within the time given: wait again, or cancel",
            ErrorKind::Deadlock => {
                "would wait, in a job of the queue, for what needs that job to end first: submit \
                 the rest as another job instead"
            }
            ErrorKind::Taken => "the outcome of this ticket was returned before",
            ErrorKind::Os => "the operating system refused a thread",
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

/// The reason why a queue did not take a job, with the job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rejected<J> {
    /// The queue is closed, or closing.
    Closed(J),
    /// Too many jobs wait: of this key, or of all.
    Full(J),
}

impl<J> Rejected<J> {
    /// Returns the job.
    pub fn into_job(self) -> J {
        match self {
            Rejected::Closed(job) | Rejected::Full(job) => job,
        }
    }

    /// True if the queue is closed, or closing.
    pub fn is_closed(&self) -> bool {
        matches!(self, Rejected::Closed(_))
    }

    /// True if too many jobs wait.
    pub fn is_full(&self) -> bool {
        matches!(self, Rejected::Full(_))
    }
}

impl<J> fmt::Debug for Rejected<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::Closed(_) => "Closed(..)",
            Rejected::Full(_) => "Full(..)",
        })
    }
}

impl<J> fmt::Display for Rejected<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::Closed(_) => "the queue is closed",
            Rejected::Full(_) => {
                "too many jobs wait: submit again when some have run, or raise the limit"
            }
        })
    }
}

impl<J> StdError for Rejected<J> {}
