//! The report of a pass of an exporter.

use std::fmt;
use std::sync::Arc;

use trueup_reconcile::{ErrorClass, OpKey, Outcome, Report, ReportedOp, Status};

use super::op_key;
use crate::{Error, ErrorKind, Export, ResourceKey, SessionStatus, World};

/// The report of a pass of an [`Exporter`](crate::Exporter).
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// The ops, each with its outcome.
    pub ops: Vec<ExportOp>,
    /// How many transactions were written.
    pub transactions: usize,
    /// How the session stands after it.
    pub session: SessionStatus,
    pub(super) is_converged: bool,
    pub(super) is_truncated: bool,
    pub(super) statuses: Vec<(OpKey, Option<Arc<Status>>)>,
}

impl ExportReport {
    /// The report of a pass that begins no session: nothing of the host is exported.
    pub(super) fn without_session(world: &World, desired: &[Export]) -> ExportReport {
        let ops = desired.iter().map(|it| {
            let key = it.key(world.host());
            ExportOp {
                op_key: op_key(world, &key),
                key,
                action: Action::Create,
                outcome: Outcome::Pending(()),
            }
        });
        ExportReport {
            ops: ops.collect(),
            is_converged: desired.is_empty(),
            is_truncated: !desired.is_empty(),
            ..ExportReport::default()
        }
    }
}

/// An op on an export.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportOp {
    /// The export.
    pub key: ResourceKey,
    /// What is to be done.
    pub action: Action,
    /// What became of it.
    pub outcome: Outcome<Error>,
    pub(super) op_key: OpKey,
}

/// What an op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It exports what is not exported.
    Create,
    /// It changes what an export says, or how long it lives.
    Update,
    /// It deletes an export.
    Delete,
}

impl Report for ExportReport {
    fn converged(&self) -> bool {
        self.is_converged
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        for op in &self.ops {
            visit(ReportedOp::new("export", op.outcome.classified(class), &|| op.op_key));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        self.statuses.iter().for_each(|(key, status)| visit(*key, status.as_ref()));
    }

    fn is_truncated(&self) -> bool {
        self.is_truncated
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Action::Create => "create",
            Action::Update => "update",
            Action::Delete => "delete",
        })
    }
}

pub(super) fn class(error: &Error) -> ErrorClass {
    match error.kind() {
        ErrorKind::Unavailable
        | ErrorKind::Compacted
        | ErrorKind::LeaseEnded
        | ErrorKind::NoSpace
        | ErrorKind::TooLarge => ErrorClass::Busy,
        ErrorKind::Conflict => ErrorClass::Conflict,
        ErrorKind::Denied => ErrorClass::Permission,
        ErrorKind::Invalid | ErrorKind::Malformed => ErrorClass::Invalid,
        ErrorKind::Indeterminate | ErrorKind::Replaced | ErrorKind::Store => ErrorClass::Unknown,
    }
}
