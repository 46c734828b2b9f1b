//! The status of an object that is not simply in place.

use std::fmt;

use crate::ErrorClass;

/// The status of an object that is not simply in place. An object without one is as desired, or is
/// neither desired nor present.
///
/// ```
/// use trueup_reconcile::{Condition, ErrorClass, Failure, Status};
///
/// let failure: Failure = Failure::new(ErrorClass::Busy, "in use");
/// let status = Status::new("link", "br0", failure.condition());
/// assert_eq!((status.kind, &*status.object, status.condition.name()), ("link", "br0", "failed"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The object's kind, as the source names it, such as `route` or `sysctl`.
    pub kind: &'static str,
    /// The object's name, which is the same in each pass.
    pub object: String,
    /// The object's problem, with its reason.
    pub condition: Condition,
}

/// An object's problem, with its reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Its op was refused, or the answer was lost. It keeps this condition, with the class and the
    /// message of that try, while it waits for its backoff to end: until a try succeeds, or nothing
    /// more needs to be done for it.
    Failed {
        /// The error's class, which determines the next try.
        class: ErrorClass,
        /// The operating system's error number, if it gave one.
        errno: Option<i32>,
        /// The error's text.
        message: String,
    },
    /// Its op was not tried, because it waits for something other than its own backoff.
    Pending {
        /// The event that it waits for.
        why: String,
    },
    /// Another writer's object is in its place.
    Conflict {
        /// A description of the other object.
        foreign: String,
    },
    /// Another writer removes or changes it repeatedly, so the source leaves it alone for a while.
    Contended {
        /// The known facts about the other writer's changes.
        why: String,
    },
    /// It was written, and the system stores another value.
    StoredOtherwise {
        /// The stored value; `None` if nothing is stored.
        stored: Option<String>,
    },
}

impl Status {
    /// The kind of a scope's status, which the scope has under
    /// [`OpKey::SCOPE`](crate::OpKey::SCOPE) while passes cannot run.
    pub const SCOPE: &'static str = "scope";

    /// Creates the status of an object.
    pub fn new(kind: &'static str, object: impl Into<String>, condition: Condition) -> Status {
        Status { kind, object: object.into(), condition }
    }
}

impl Condition {
    /// Returns the condition's name: `failed`, `pending`, `conflict`, `contended` or
    /// `stored_otherwise`.
    pub fn name(&self) -> &'static str {
        match self {
            Condition::Failed { .. } => "failed",
            Condition::Pending { .. } => "pending",
            Condition::Conflict { .. } => "conflict",
            Condition::Contended { .. } => "contended",
            Condition::StoredOtherwise { .. } => "stored_otherwise",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Failed { class, message, .. } => write!(f, "failed: {message} ({class})"),
            Condition::Pending { why } => write!(f, "pending: {why}"),
            Condition::Conflict { foreign } => write!(f, "conflict: foreign {foreign}"),
            Condition::Contended { why } => write!(f, "contended: {why}"),
            Condition::StoredOtherwise { stored: Some(stored) } => {
                write!(f, "stored otherwise, as {stored}")
            }
            Condition::StoredOtherwise { stored: None } => f.write_str("not stored"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.kind, self.object, self.condition)
    }
}
