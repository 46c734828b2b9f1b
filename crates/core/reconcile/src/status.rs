//! The status of an object that is not simply in place.

use std::fmt;

use crate::ErrorClass;

/// The status of an object that is not simply in place. An object without one is as desired, or is
/// not desired and not there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The kind of the object, as the source names it: `route`, `sysctl`.
    pub kind: &'static str,
    /// The object, in words that hold from one pass to the next.
    pub object: String,
    /// What is the matter with it.
    pub condition: Condition,
}

/// What is the matter with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// Its op was refused, or the answer was lost. It stays failed, with the class and the message of
    /// that try, while it waits for its backoff to end, until a try succeeds or nothing is to be
    /// done for it any more.
    Failed {
        /// The class of the error.
        class: ErrorClass,
        /// The operating system's number for it, if it gave one.
        errno: Option<i32>,
        /// The words for it.
        message: String,
    },
    /// Its op was not tried: it waits for something else than its own backoff.
    Pending {
        /// What it waits for.
        why: String,
    },
    /// Another writer's object is in its place.
    Conflict {
        /// That object.
        foreign: String,
    },
    /// Another writer removes or changes it repeatedly: it is left alone for a while.
    Contended {
        /// What is known of that.
        why: String,
    },
    /// It was written, and the system stores something else.
    StoredOtherwise {
        /// What it stores; `None`: nothing.
        stored: Option<String>,
    },
}

impl Status {
    /// The kind of the status that a scope as a whole has, under
    /// [`OpKey::SCOPE`](crate::OpKey::SCOPE), while passes cannot run.
    pub const SCOPE: &'static str = "scope";

    /// Makes the status of an object of a kind.
    pub fn new(kind: &'static str, object: impl Into<String>, condition: Condition) -> Status {
        Status { kind, object: object.into(), condition }
    }
}

impl Condition {
    /// A word for it: `failed`, `pending`, `conflict`, `contended`, `stored_otherwise`.
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
