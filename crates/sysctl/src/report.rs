//! What a pass did and what came of it.

use std::fmt;
use std::time::Duration;

use trueup_reconcile::{self as reconcile, ErrorClass, ReportedOp};

use crate::Key;

/// The report of a pass. Every op of the pass has exactly one outcome in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(crate) converged: bool,
    pub(crate) ops: Vec<Done>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) trouble: Option<String>,
}

/// An op with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The key.
    pub key: Key,
    /// What is done to it.
    pub action: Action,
    /// What it was when the pass looked, where that could be read.
    pub from: Option<String>,
    /// What it is to be.
    pub to: String,
    /// Why.
    pub reason: Reason,
    /// What became of it.
    pub outcome: Outcome,
}

/// What an op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives a key the value that is declared.
    Set,
    /// Gives a key back the value that it had before us.
    Revert,
}

/// Why an op is due.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The value is declared, and we have not set it before.
    Declared,
    /// Another value is declared than the one that we set before.
    Changed,
    /// We set it before, and somebody has changed it since.
    Drift,
    /// It is no longer declared.
    Released,
}

/// What became of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value was read back as it is to be.
    Applied,
    /// It was refused, or the kernel keeps another value, or nobody knows.
    Failed(Failure),
    /// It was not tried.
    Pending(Pending),
}

/// Why an op failed, or why a key cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What it means for the next pass.
    pub class: ErrorClass,
    /// The kernel's errno, if it gave one.
    pub errno: Option<i32>,
    /// In words.
    pub message: String,
}

/// Why an op was not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending {
    /// It failed before, and the driver waits for so long before it is tried again.
    Held(Duration),
    /// The driver's terms ended the pass before its turn.
    Cut,
    /// What it means to do could not be recorded.
    Unrecorded,
}

/// What there is to say besides of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// It is no longer declared and would be reverted, but somebody else has changed it since: it is left as it is.
    Left {
        /// The key.
        key: Key,
        /// What it was when we left it.
        applied: String,
        /// What it is now.
        found: String,
    },
    /// It is no longer declared and would be reverted, but it had no value before us, or one that is longer than the kernel
    /// takes at once: it is left as it is.
    Irreversible {
        /// The key.
        key: Key,
    },
}

impl Report {
    /// Every op of the pass, in the order in which they were due.
    pub fn ops(&self) -> &[Done] {
        &self.ops
    }

    /// The ops that were carried out.
    pub fn applied(&self) -> impl Iterator<Item = &Done> {
        let applied = |done: &&Done| done.outcome == Outcome::Applied;
        self.ops.iter().filter(applied)
    }

    /// The ops that failed, and why.
    pub fn failed(&self) -> impl Iterator<Item = (&Done, &Failure)> {
        self.ops.iter().filter_map(|done| match &done.outcome {
            Outcome::Failed(failure) => Some((done, failure)),
            _ => None,
        })
    }

    /// The ops that were not tried, and why.
    pub fn pending(&self) -> impl Iterator<Item = (&Done, &Pending)> {
        self.ops.iter().filter_map(|done| match &done.outcome {
            Outcome::Pending(pending) => Some((done, pending)),
            _ => None,
        })
    }

    /// What there is to say besides, in the order of the keys.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Why the pass could not look again after it had changed something, or not record what is ours, if so.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl reconcile::Report for Report {
    fn converged(&self) -> bool {
        self.converged
    }

    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        for done in &self.ops {
            tell(ReportedOp {
                kind: "sysctl",
                outcome: match &done.outcome {
                    Outcome::Applied => reconcile::Outcome::Applied,
                    Outcome::Failed(failure) => reconcile::Outcome::Failed(failure.class),
                    Outcome::Pending(_) => reconcile::Outcome::Pending,
                },
                key: &|| done.key.op_key(),
            });
        }
    }

    fn is_truncated(&self) -> bool {
        self.pending().any(|(_, pending)| *pending == Pending::Cut)
    }
}

impl Done {
    /// The op as sysctl(8) takes it: `net.ipv4.ip_forward=1`.
    pub fn command(&self) -> String {
        format!("{}={}", self.key, self.to)
    }
}

/// `net.ipv4.ip_forward = 1, was 0: applied`.
impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.to)?;
        if let Some(from) = &self.from {
            write!(f, ", was {from}")?;
        }
        write!(f, " ({}): {}", self.reason, self.outcome)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Action::Set => "set",
            Action::Revert => "revert",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::Declared => "declared",
            Reason::Changed => "declared otherwise",
            Reason::Drift => "changed by somebody else",
            Reason::Released => "no longer declared",
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Applied => f.write_str("applied"),
            Outcome::Failed(failure) => write!(f, "failed, {failure}"),
            Outcome::Pending(pending) => write!(f, "pending, {pending}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.class)
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pending::Held(left) if *left == Duration::MAX => {
                f.write_str("it failed before, and nothing has changed since")
            }
            Pending::Held(left) => {
                let seconds = left.as_millis().div_ceil(1000);
                write!(f, "it failed before and is left alone for {seconds} s")
            }
            Pending::Cut => f.write_str("the pass ended before its turn"),
            Pending::Unrecorded => f.write_str("the ledger did not take it"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Left {
                key,
                applied,
                found,
            } => write!(
                f,
                "{key} was {applied} when we left it and is {found} now: it is somebody else's, and stays"
            ),
            Finding::Irreversible { key } => write!(
                f,
                "{key} had no value before us, or one that cannot be written at once: it stays as it is"
            ),
        }
    }
}
