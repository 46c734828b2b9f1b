//! Explanations as text.

use std::fmt;

use super::{Cause, Explanation, Wait};
use crate::Verdict;
use crate::one_line::OneLine;

/// Writes the explanation as one line, whatever the characters in a name or in a message: a command
/// decides what is in that of its failure.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&mut OneLine(f))
    }
}

impl Explanation {
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(group) = &self.group {
            write!(f, " (group {group})")?;
        }
        f.write_str(": ")?;
        if self.reversal {
            f.write_str("to be reversed, ")?;
        }
        match (self.running, self.cause) {
            (true, _) => f.write_str("running")?,
            (false, Some(_)) => f.write_str("dirty")?,
            (false, None) => f.write_str("settled")?,
        }
        match (self.cause, &self.upstream) {
            (Some(_), Some(parent)) => write!(f, " because of {parent}")?,
            (Some(cause), None) => write!(f, " ({cause})")?,
            (None, _) => {}
        }
        for wait in &self.waits {
            write!(f, "; {wait}")?;
        }
        if self.refreshes > 0 {
            let noun = if self.refreshes == 1 { "refresh" } else { "refreshes" };
            write!(f, "; {} {noun} pending", self.refreshes)?;
        }
        match self.last {
            None => f.write_str("; has not run"),
            Some(Ok(Verdict::InPlace)) => f.write_str("; last run: in place"),
            Some(Ok(Verdict::Changed)) => f.write_str("; last run: changed"),
            Some(Ok(Verdict::WouldChange)) => f.write_str("; last run: would change"),
            Some(Err(class)) => {
                write!(f, "; last run: failed ({class}), {} in a row", self.attempts)
            }
        }?;
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::New => "new",
            Cause::Event => "event",
            Cause::Poll => "poll",
            Cause::Parent(_) => "parent",
            Cause::Retry => "failed",
            Cause::Replaced => "replaced",
            Cause::Removed => "removed",
            Cause::Interrupted => "interrupted",
            Cause::Refreshed => "refreshed",
            Cause::Unwatched => "not watched",
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Watch => f.write_str("waits for its watch"),
            Wait::Parents(names) => write!(f, "waits for {}", names.join(", ")),
            Wait::FailedAncestors(names) => {
                write!(f, "skipped because {} failed", names.join(", "))
            }
            Wait::Event => f.write_str("failed for good, waits for an event"),
            Wait::Time(time) => write!(f, "waits for {time:?}"),
            Wait::Semaphore { id, holders } => match holders.is_empty() {
                true => write!(f, "waits its turn for semaphore {id}"),
                false => write!(f, "waits for semaphore {id}, held by {}", holders.join(", ")),
            },
            Wait::Group { group, members } => {
                write!(f, "waits for the run of group {group}: {}", members.join(", "))
            }
            Wait::Value { sender, port } => write!(f, "waits for {sender} to send {port}"),
            Wait::Worker => f.write_str("waits for a worker"),
            Wait::Pause => f.write_str("paused"),
            Wait::Journal => f.write_str("waits for the journal"),
        }
    }
}
