//! The crate's error: the failure, and its remedy.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::lock::Holder;

/// An error of the journal. The message says what failed; [`remedy`](Self::remedy) says what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    what: String,
    refusal: Option<Refusal>,
    holder: Option<Holder>,
    /// True if only one record is damaged.
    is_of_record: bool,
    cause: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of [`Error`], for callers that react to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another process, or another part of this one, has the journal open: [`Error::holder`] names
    /// it.
    Held,
    /// The file differs from what was written, or a record cannot be decoded: [`Error::remedy`]
    /// says what to do.
    Damaged,
    /// The file is not a journal, or has an unknown version.
    Format,
    /// The change may or may not be on disk: its write failed, or the sync after it.
    /// [`source`](StdError::source) is the operating system's error. The journal is read-only from
    /// then on.
    NotDurable,
    /// Nothing was written: an earlier write failed, or another opener took the journal over. Then
    /// [`source`](StdError::source) is that error. Or the journal was opened read-only, and there
    /// is no source.
    ReadOnly,
    /// The journal, its lock file or its folder was removed or replaced while the journal was open.
    /// Nothing was written. The content can still be read:
    /// [`Journal::recreate`](crate::Journal::recreate) writes it anew.
    Removed,
    /// The step is impossible in the current state: [`Error::refusal`] returns the reason. Nothing
    /// was written.
    Refused,
    /// An argument is out of range. Nothing was written.
    Invalid,
    /// The operating system refused a file, a lock or a read. [`source`](StdError::source) is its
    /// [`std::io::Error`].
    Os,
}

/// The reason why a step is impossible in the journal's current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// No operation of that name was begun.
    NoOperation,
    /// The operation was begun and has not ended.
    InFlight,
    /// The operation has an outcome already, which later callers get.
    Ended,
    /// Another caller in this process executes the operation.
    InProgress,
    /// An operation with another request began with the idempotency key.
    KeyUsed,
    /// Another call spent the nonce, in this process or an earlier one.
    NonceSpent,
    /// The nonce expired by the latest time that the journal has seen.
    NonceExpired,
    /// The ledger's key has an open intent: commit its outcome first.
    OpenIntent,
}

impl Error {
    /// Returns the kind, for callers that react to some errors.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the reason why the step is impossible, if the kind is [`ErrorKind::Refused`].
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal
    }

    /// Returns the process that has the journal open, if the kind is [`ErrorKind::Held`] and the
    /// holder has written its name: its id in its own pid namespace, and its command line from
    /// `/proc/PID/cmdline`, with spaces between the words.
    pub fn holder(&self) -> Option<(u32, &str)> {
        self.holder.as_ref().map(|(pid, command)| (*pid, &**command))
    }

    /// True if another holder has the journal open.
    pub fn is_held(&self) -> bool {
        self.kind == ErrorKind::Held
    }

    /// True if the journal was removed while it was open.
    pub fn is_removed(&self) -> bool {
        self.kind == ErrorKind::Removed
    }

    /// True if the file or a record is damaged.
    pub fn is_damaged(&self) -> bool {
        self.kind == ErrorKind::Damaged
    }

    /// True if the journal does not write, or no longer: [`remedy`](Self::remedy) says what to do.
    pub fn is_read_only(&self) -> bool {
        matches!(self.kind, ErrorKind::NotDurable | ErrorKind::ReadOnly)
    }

    /// Returns the remedy, as a sentence for the program's operator; `None` if there is none.
    pub fn remedy(&self) -> Option<&'static str> {
        match self.kind {
            ErrorKind::Held => Some("stop the other one, or use another journal"),
            ErrorKind::Damaged => Some(
                "check the journal to learn what is wrong; export what can be read of it; repair \
                 it to go on, which keeps the damaged file beside the new one, and loses nothing \
                 unless that is accepted",
            ),
            ErrorKind::Removed => Some("let nothing else write with its name, and open it again"),
            ErrorKind::Format => Some("name another file, or use the version that wrote it"),
            ErrorKind::ReadOnly if self.cause.is_none() => Some("open it to write to it"),
            ErrorKind::NotDurable | ErrorKind::ReadOnly => {
                Some("remove the cause (as a failing disk), then open the journal again")
            }
            ErrorKind::Refused | ErrorKind::Invalid | ErrorKind::Os => None,
        }
    }

    fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Error {
            kind,
            what: what.into(),
            refusal: None,
            holder: None,
            is_of_record: false,
            cause: None,
        }
    }

    pub(crate) fn held(what: impl Into<String>, holder: Option<Holder>) -> Self {
        Error { holder, ..Error::new(ErrorKind::Held, what) }
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Damaged, what)
    }

    /// Creates the error of an undamaged record that cannot be decoded. It affects only the calls
    /// about that record.
    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Error { is_of_record: true, ..Error::damaged(what) }
    }

    /// True if only one record is damaged.
    pub(crate) fn is_of_record(&self) -> bool {
        self.is_of_record
    }

    /// Adds `more` to the message.
    pub(crate) fn and(self, more: &str) -> Self {
        Error { what: format!("{}; {more}", self.what), ..self }
    }

    pub(crate) fn format(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Format, what)
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Invalid, what)
    }

    pub(crate) fn refused(refusal: Refusal, of: impl fmt::Display) -> Self {
        Error { refusal: Some(refusal), ..Error::new(ErrorKind::Refused, of.to_string()) }
    }

    pub(crate) fn os(what: impl Into<String>, cause: impl Into<io::Error>) -> Self {
        Error { cause: Some(Arc::new(cause.into())), ..Error::new(ErrorKind::Os, what) }
    }

    pub(crate) fn removed(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Removed, what)
    }

    /// True if a write with this error has written nothing.
    pub(crate) fn is_before_writing(&self) -> bool {
        matches!(self.kind, ErrorKind::Held | ErrorKind::Removed)
    }

    /// Creates the error of the write that failed.
    pub(crate) fn not_durable(cause: &Error) -> Self {
        Error { kind: ErrorKind::NotDurable, ..cause.clone() }
    }

    /// Creates the error of every write after a failed one, or to a read-only journal.
    pub(crate) fn read_only(cause: &Error) -> Self {
        if cause.kind == ErrorKind::ReadOnly {
            return cause.clone();
        }
        let what = match cause.kind {
            ErrorKind::Held => "the journal is read-only since another process took it over",
            ErrorKind::Removed => "the journal is read-only since it was removed",
            _ => "the journal is read-only since a write failed",
        };
        Error { cause: Some(Arc::new(cause.clone())), ..Error::new(ErrorKind::ReadOnly, what) }
    }

    pub(crate) fn opened_read_only() -> Self {
        let what = "the journal was opened read-only";
        Error::new(ErrorKind::ReadOnly, what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match self.kind {
            ErrorKind::Held => match &self.holder {
                Some((pid, command)) => write!(f, "{what} is held by pid {pid} ({command})"),
                None => write!(f, "{what} is held by another process"),
            },
            ErrorKind::Damaged => write!(f, "the journal is damaged: {what}"),
            ErrorKind::Removed => write!(f, "{what} was removed or replaced while it was open"),
            ErrorKind::NotDurable => {
                write!(f, "not known to be on disk, the journal is read-only now: {what}")?;
                self.cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            ErrorKind::Refused => match self.refusal {
                Some(refusal) => write!(f, "{what}: {refusal}"),
                None => f.write_str(what),
            },
            ErrorKind::ReadOnly | ErrorKind::Os => {
                f.write_str(what)?;
                self.cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
            ErrorKind::Format | ErrorKind::Invalid => f.write_str(what),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoOperation => "no operation of that name was begun",
            Refusal::InFlight => "the operation is in flight",
            Refusal::Ended => "the operation has ended",
            Refusal::InProgress => "the operation is being executed",
            Refusal::KeyUsed => "the idempotency key was used for another request",
            Refusal::NonceSpent => "the nonce was spent before",
            Refusal::NonceExpired => "the nonce has expired",
            Refusal::OpenIntent => "an earlier intent is still open",
        })
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Converts redb's error. `during` describes the step that failed.
pub(crate) fn from_redb(error: impl Into<redb::Error>, during: &str) -> Error {
    match error.into() {
        redb::Error::Io(cause) => from_io(during, cause),
        other => Error::damaged(format!("{during}: {other}")),
    }
}

/// Converts an I/O error. A file that ends too early or has invalid content is damaged; any other
/// error is the operating system's.
pub(crate) fn from_io(during: &str, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => {
            Error::damaged(format!("{during}: the file ends too early"))
        }
        io::ErrorKind::InvalidData => Error::damaged(format!("{during}: {cause}")),
        _ => Error::os(during, cause),
    }
}
