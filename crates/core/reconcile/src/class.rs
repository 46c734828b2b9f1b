//! The classes of failed ops. A source maps its errno values or messages to them.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// The class of a failed op, which determines the next try.
///
/// The enum is closed, because callers decide by it: for each class exactly one of
/// [`is_done`](Self::is_done), [`is_permanent`](Self::is_permanent) and
/// [`is_retryable`](Self::is_retryable) is true. In text and in serde, a class is its name in snake
/// case.
///
/// ```
/// use trueup_reconcile::ErrorClass;
///
/// assert!(ErrorClass::Busy.is_retryable());
/// assert!(ErrorClass::Invalid.is_permanent());
/// assert!(ErrorClass::DoneAlready.is_done());
/// assert_eq!(ErrorClass::StoredOtherwise.as_str(), "stored_otherwise");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorClass {
    /// The op's purpose is already fulfilled: the object to delete does not exist, or the object to
    /// create exists and is equal. Counts as success.
    DoneAlready,
    /// An object that the op needs does not exist yet: a device, the route to a gateway, a parent.
    Dependency,
    /// A foreign object has the key. It is reported and not overwritten. A later pass tries again
    /// once the object is gone.
    Conflict,
    /// The kernel refused the op's content. As declared, the op can never succeed.
    Invalid,
    /// The op was acknowledged, and the object reads back differently without another writer's
    /// change. A repeated write would have the same result.
    StoredOtherwise,
    /// The running system does not know this kind of object, attribute or operation.
    Unsupported,
    /// The caller lacks the permission for the op.
    Permission,
    /// A resource is short or in use: the same op may succeed a little later.
    Busy,
    /// The op may have taken effect: there was no answer, or an unknown one. Observe before trying
    /// again.
    Unknown,
}

impl ErrorClass {
    /// All classes, in the order of their declaration.
    pub const ALL: [ErrorClass; 9] = [
        ErrorClass::DoneAlready,
        ErrorClass::Dependency,
        ErrorClass::Conflict,
        ErrorClass::Invalid,
        ErrorClass::StoredOtherwise,
        ErrorClass::Unsupported,
        ErrorClass::Permission,
        ErrorClass::Busy,
        ErrorClass::Unknown,
    ];

    /// True if the op's purpose is fulfilled.
    pub fn is_done(self) -> bool {
        matches!(self, ErrorClass::DoneAlready)
    }

    /// True if a retry is useless until the desired state or the system changes: the op is invalid,
    /// unsupported or not permitted, or its object is stored differently.
    pub fn is_permanent(self) -> bool {
        matches!(
            self,
            ErrorClass::Invalid
                | ErrorClass::StoredOtherwise
                | ErrorClass::Unsupported
                | ErrorClass::Permission
        )
    }

    /// True if the next pass should try again. Every pass observes before it acts, as
    /// [`Unknown`](Self::Unknown) and [`Conflict`](Self::Conflict) require.
    pub fn is_retryable(self) -> bool {
        !self.is_done() && !self.is_permanent()
    }

    /// Returns the class's name in snake case, as serde writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorClass::DoneAlready => "done_already",
            ErrorClass::Dependency => "dependency",
            ErrorClass::Conflict => "conflict",
            ErrorClass::Invalid => "invalid",
            ErrorClass::StoredOtherwise => "stored_otherwise",
            ErrorClass::Unsupported => "unsupported",
            ErrorClass::Permission => "permission",
            ErrorClass::Busy => "busy",
            ErrorClass::Unknown => "unknown",
        }
    }
}

/// Classifies an error of the standard library by its kind. A missing file is a
/// [`Dependency`](ErrorClass::Dependency), an existing one a [`Conflict`](ErrorClass::Conflict). A
/// kind that is not listed, such as a timeout, is [`Unknown`](ErrorClass::Unknown).
///
/// ```
/// use std::io;
/// use trueup_reconcile::ErrorClass;
///
/// assert_eq!(ErrorClass::from(io::ErrorKind::StorageFull), ErrorClass::Busy);
/// ```
impl From<io::ErrorKind> for ErrorClass {
    fn from(kind: io::ErrorKind) -> ErrorClass {
        use io::ErrorKind as Kind;
        match kind {
            Kind::NotFound => ErrorClass::Dependency,
            Kind::AlreadyExists => ErrorClass::Conflict,
            Kind::InvalidInput
            | Kind::InvalidFilename
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::FileTooLarge => ErrorClass::Invalid,
            Kind::Unsupported => ErrorClass::Unsupported,
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => ErrorClass::Permission,
            Kind::StorageFull
            | Kind::QuotaExceeded
            | Kind::ResourceBusy
            | Kind::Interrupted
            | Kind::WouldBlock
            | Kind::OutOfMemory => ErrorClass::Busy,
            _ => ErrorClass::Unknown,
        }
    }
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
