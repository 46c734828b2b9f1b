//! How ops and their outcomes are shown.

use std::fmt;

use trueup_reconcile::Utc;

use crate::{ControlOp, Failure, Outcome, Pending, Unread, Wait};

/// Formats what could not be read as `web: not read since 2026-11-26 00:45:00 UTC: no answer within 5 s`.
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unread { key, why, since } = self;
        write!(f, "{key}: not read since {}: {why}", Utc(*since))
    }
}

/// Formats the op as `vm7: configure (memory: 1 -> 2): applied`.
impl fmt::Display for ControlOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.action)?;
        match &self.outcome {
            Outcome::Pending(pending) => {
                write!(f, "pending, {}", Waiting(pending, self.failed_before.as_ref()))
            }
            outcome => outcome.fmt(f),
        }
    }
}

/// What an op waits for, and how it failed before, if it did.
pub(crate) struct Waiting<'a>(pub(crate) &'a Pending, pub(crate) Option<&'a Failure>);

impl fmt::Display for Waiting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Waiting(Pending::Backoff(_), None) => f.write_str("it failed before"),
            Waiting(Pending::Backoff(_), Some(failure)) => {
                write!(f, "it failed before: {failure:#}")
            }
            Waiting(pending, None) => pending.fmt(f),
            Waiting(pending @ Pending::Own(Wait::Retry(_)), Some(failure)) => {
                write!(f, "{pending}: {failure:#}")
            }
            Waiting(pending, Some(failure)) => {
                write!(f, "{pending}; it failed before: {failure:#}")
            }
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Running { task, progress, since, is_overdue } => {
                write!(f, "running (task {task}")?;
                if let Some(progress) = progress {
                    write!(f, ", {progress}")?;
                }
                write!(f, ", since {}", Utc(*since))?;
                match is_overdue {
                    true => f.write_str("; it does not end: cancel it, or wait)"),
                    false => f.write_str(")"),
                }
            }
            Wait::Starting => f.write_str("the backend has not answered yet"),
            Wait::Lost { why } => write!(f, "it is found out whether it took effect: {why}"),
            Wait::InDoubt { why } => write!(f, "in doubt, the operator decides: {why}"),
            Wait::Approval { hash, refused } => {
                write!(f, "it is destructive, and waits for an approval of {hash}")?;
                match refused {
                    Some(refused) => write!(f, " (the last token: {refused})"),
                    None => Ok(()),
                }
            }
            Wait::Retry(until) => {
                write!(f, "it failed before, and is tried at {}", Utc(*until))
            }
            Wait::After => f.write_str("another action on the object comes first"),
        }
    }
}
