//! The report of a pass: ops with their outcomes, and findings.

use std::fmt;
use std::sync::Arc;

use trueup_reconcile::{
    self as reconcile, Condition, EventCoverage, Failure, OpKey, Pending, ReportedOp, Status,
};

use crate::Key;

/// The result of a pass. It has exactly one outcome for each op.
///
/// ```no_run
/// use trueup_sysctl::Report;
///
/// fn print(report: &Report) {
///     for (op, failure) in report.failed() {
///         eprintln!("{}: {failure}", op.key);
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(crate) converged: bool,
    pub(crate) ops: Vec<SysctlOp>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) trouble: Option<String>,
    /// The statuses that have changed since the last pass.
    pub(crate) statuses: Vec<(OpKey, Option<Arc<Status>>)>,
}

/// A write of one value: the value before, the value to set, why, and the result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SysctlOp {
    /// The key whose value is to be set.
    pub key: Key,
    /// The value before the pass, if it could be read.
    pub from: Option<String>,
    /// The value to set: the declared one, or for a key that is no longer declared, the one before
    /// trueup's first write.
    pub to: String,
    /// Why the value is written: see the variants.
    pub reason: Reason,
    /// Applied, failed, or pending with the reason.
    pub outcome: Outcome,
}

/// Why a pass writes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The value is declared, and trueup has not set it before.
    Declared,
    /// The declared value has changed since trueup set it.
    Changed,
    /// The value has changed since trueup set it: by another writer, or by the kernel with the
    /// key's link.
    Drift,
    /// The key is no longer declared.
    Released,
}

/// The result of an op: applied, failed with a reason, or not tried.
pub type Outcome = reconcile::Outcome<Failure, Pending>;

/// A finding about a key that has no op.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The key is no longer declared and would be reverted, but another writer has changed it
    /// since. It stays as it is.
    Left {
        /// The key, which keeps the other writer's value.
        key: Key,
        /// The value that trueup last applied.
        applied: String,
        /// The value found instead.
        found: String,
    },
    /// The key is no longer declared and would be reverted, but it had no value before trueup, or
    /// one longer than the kernel accepts in one write. It stays as it is.
    Irreversible {
        /// The key that cannot be reverted.
        key: Key,
    },
}

impl Report {
    /// Returns every op of the pass, in the order of writing.
    pub fn ops(&self) -> &[SysctlOp] {
        &self.ops
    }

    /// Returns the ops that were applied.
    pub fn applied(&self) -> impl Iterator<Item = &SysctlOp> {
        self.ops.iter().filter(|done| done.outcome.is_applied())
    }

    /// Returns the ops that failed, with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&SysctlOp, &Failure)> {
        self.ops.iter().filter_map(|done| Some((done, done.outcome.failure()?)))
    }

    /// Returns the ops that were not tried, with the reason.
    pub fn pending(&self) -> impl Iterator<Item = (&SysctlOp, &Pending)> {
        self.ops.iter().filter_map(|done| Some((done, done.outcome.pending()?)))
    }

    /// Returns facts about keys without an op, such as a value that another writer changed, in the
    /// order of keys.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the reason why the pass could not read back its changes, or not record them in the
    /// ledger.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl reconcile::Report for Report {
    fn converged(&self) -> bool {
        self.converged
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        for done in &self.ops {
            let outcome = done.outcome.classified(|failure| failure.class);
            visit(ReportedOp::new("sysctl", outcome, &|| done.key.op_key()));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        for (key, status) in &self.statuses {
            visit(*key, status.as_ref());
        }
    }

    /// Some changes of values have no event, and each pass reads all, even one over dirty objects.
    fn coverage(&self) -> EventCoverage {
        EventCoverage::Part
    }

    fn is_truncated(&self) -> bool {
        self.pending().any(|(_, pending)| *pending == Pending::Cut)
    }
}

impl SysctlOp {
    /// Returns the op as an argument of sysctl(8): `net.ipv4.ip_forward=1`.
    pub fn command(&self) -> String {
        format!("{}={}", self.key, self.to)
    }

    /// Returns the status of the key, or `None` if the op was applied. It contains no times, so
    /// that it is the same in each pass.
    pub(crate) fn status(&self) -> Option<Status> {
        let condition = match &self.outcome {
            Outcome::Applied => return None,
            Outcome::Failed(failure) | Outcome::Declined(failure) => failure.condition(),
            Outcome::Pending(Pending::Backoff(_)) => {
                Condition::Pending { why: "failed before".to_owned() }
            }
            Outcome::Pending(pending) => Condition::Pending { why: pending.to_string() },
        };
        Some(Status::new("sysctl", self.command(), condition))
    }

    /// Returns true if it failed before, and was not tried again.
    pub(crate) fn is_put_off(&self) -> bool {
        matches!(self.outcome, Outcome::Pending(Pending::Backoff(_)))
    }
}

/// Formats the op as `net.ipv4.ip_forward = 1, was 0 (declared): applied`.
impl fmt::Display for SysctlOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key, self.to)?;
        if let Some(from) = &self.from {
            write!(f, ", was {from}")?;
        }
        write!(f, " ({}): {}", self.reason, self.outcome)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Reason::Declared => "declared",
            Reason::Changed => "declaration changed",
            Reason::Drift => "changed since",
            Reason::Released => "no longer declared",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Left { key, applied, found } => write!(
                f,
                "{key} was set to {applied} and is {found} now: another writer has changed it, and it stays"
            ),
            Finding::Irreversible { key } => write!(
                f,
                "{key} had no value before trueup, or one too long to write at once: it stays as it is"
            ),
        }
    }
}
