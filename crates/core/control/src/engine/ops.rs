//! The ops of a pass, while it runs.

use std::time::{Duration, SystemTime};

use trueup_reconcile::ErrorClass;

use super::flight::{End, Ended, Flight, Phase};
use crate::{Action, ControlOp, Failure, Outcome, Pending, Wait};

/// The ops of a pass, while it runs.
#[derive(Default)]
pub(super) struct Ops {
    pub(super) ops: Vec<ControlOp>,
    pub(super) trouble: Option<String>,
}

impl Ops {
    pub(super) fn pend(&mut self, action: Action, pending: Pending) {
        let outcome = Outcome::Pending(pending);
        self.ops.push(ControlOp::new(action, outcome));
    }

    pub(super) fn pend_retry(
        &mut self,
        action: Action,
        pending: Pending,
        failed_before: Option<Failure>,
    ) {
        let op = ControlOp::new(action, Outcome::Pending(pending));
        self.ops.push(ControlOp { failed_before, ..op });
    }

    pub(super) fn fail(&mut self, action: Action, class: ErrorClass, message: String) {
        let outcome = Outcome::Failed(Failure::new(class, message));
        self.ops.push(ControlOp::new(action, outcome));
    }

    /// Returns true if an action on the object has failed in this pass.
    pub(super) fn has_failed(&self, key: &str) -> bool {
        let failed = |op: &ControlOp| matches!(op.outcome, Outcome::Failed(_));
        self.ops.iter().any(|op| op.action.key == key && failed(op))
    }

    pub(super) fn add_ended(&mut self, ended: Vec<Ended>) {
        for Ended { action, end, .. } in ended {
            match (end.failure(), end) {
                (Some(failure), _) => {
                    let outcome = Outcome::Failed(failure);
                    self.ops.push(ControlOp::new(action, outcome));
                }
                // It is planned anew, if it is still due.
                (None, End::Never) => {}
                (None, _) => self.ops.push(ControlOp::new(action, Outcome::Applied)),
            }
        }
    }
}

/// Returns how far an operation in flight is.
pub(super) fn pending(flight: &Flight, now: SystemTime, task_limit: Duration) -> Wait {
    match &flight.phase {
        Phase::Starting => Wait::Starting,
        Phase::Running { task, progress, since } => Wait::Running {
            task: task.clone(),
            progress: progress.clone(),
            since: *since,
            is_overdue: now.duration_since(*since).unwrap_or_default() > task_limit,
        },
        Phase::Answered(answer) => {
            Wait::Lost { why: format!("{answer}, and its object is not read yet") }
        }
        Phase::Elsewhere => Wait::Starting,
        Phase::Lost { why } => Wait::Lost { why: why.clone() },
        Phase::InDoubt { why } => Wait::InDoubt { why: why.clone() },
    }
}
