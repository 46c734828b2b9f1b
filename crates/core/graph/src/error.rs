//! The crate's error type.

use std::fmt;

/// The reason why a graph cannot be built or a driver's call failed. The message names the vertices
/// and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Vertices wait for each other in a circle.
    Cycle,
    /// Two vertices have one name; the message says which.
    Duplicate,
    /// A vertex names a parent that is not in the graph.
    UnknownVertex,
    /// A semaphore has a count of 0, or different counts at different vertices.
    Semaphore,
    /// There are more than 2³¹ - 1 vertices or 2³² - 1 edges.
    TooLarge,
    /// A port is declared twice, or a port to receive by has no sender, or one of another type.
    Port,
    /// The records of the graph cannot be read.
    Ledger,
    /// The operating system refused a thread or a descriptor.
    Os,
    /// The time that the caller allowed has passed.
    TimedOut,
    /// The driver has been stopped, so it runs nothing more.
    Stopped,
}

impl Error {
    /// Returns the kind, for callers that react to some errors.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// True if vertices wait for each other in a circle.
    pub fn is_cycle(&self) -> bool {
        self.kind == ErrorKind::Cycle
    }

    /// True if the time that the caller allowed has passed.
    pub fn is_timed_out(&self) -> bool {
        self.kind == ErrorKind::TimedOut
    }

    /// True if the driver has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.kind == ErrorKind::Stopped
    }

    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Error { kind, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
