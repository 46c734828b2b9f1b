//! The engine's operations in flight.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use trueup_journal::{Execution, Operation, OperationState};
use trueup_reconcile::ErrorClass;

use crate::record::Record;
use crate::{Action, Failure, Wait};

/// The operations in flight by their object's key, at most one for each.
pub(crate) type Flights = BTreeMap<String, Flight>;

/// An operation with a recorded start and no recorded outcome.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The operation's record; `None` if it cannot be read.
    pub(crate) record: Option<Record>,
    /// The right to record its outcome; `None` while a thread has taken it, and if it is in doubt.
    pub(crate) execution: Option<Execution>,
    pub(crate) phase: Phase,
    /// True while the backend is asked about it.
    pub(crate) is_asked: bool,
}

/// The progress of an operation in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The backend was asked to start it, and has not answered yet.
    Starting,
    /// A task carries it out.
    Running { task: String, progress: Option<String>, since: SystemTime },
    /// The backend has given its result, and the object must be read.
    Answered(Answer),
    /// A dropped engine of this process waits for the backend's answer. After that, the journal has
    /// the result.
    Elsewhere,
    /// The answer was lost: ask the backend, or observe the object.
    Lost { why: String },
    /// The result cannot be found out: the operator decides.
    InDoubt { why: String },
}

/// The backend's answer about an operation, before its object is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Succeeded,
    Failed(String),
    /// The request never arrived.
    Never,
    /// The object must show the effect. If it does not, the request may be repeated.
    Repeatable(String),
    /// The object must show the effect.
    NotSaid(String),
}

/// An operation with a recorded outcome.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) action: Action,
    pub(crate) is_job: bool,
    pub(crate) end: End,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    /// It took effect, and the object reads back with another value; if `is_again`, not for the
    /// first time.
    StoredOtherwise {
        is_again: bool,
    },
    Failed(ErrorClass, String),
    /// It had no effect: it may run again.
    Never,
}

impl End {
    pub(crate) fn failure(&self) -> Option<Failure> {
        let (class, message) = match self {
            End::Succeeded | End::Never => return None,
            End::StoredOtherwise { is_again: false } => (
                ErrorClass::Unknown,
                "it was done, and the object reads back otherwise: it is tried once more",
            ),
            End::StoredOtherwise { is_again: true } => (
                ErrorClass::StoredOtherwise,
                "it was done again, and the object reads back otherwise again",
            ),
            End::Failed(class, why) => (*class, &**why),
        };
        Some(Failure::new(class, message))
    }
}

impl Phase {
    /// Returns the phase of an operation that its executor left in flight.
    pub(crate) fn of_record(operation: Operation, started: SystemTime) -> Phase {
        match (operation.state, operation.task) {
            (OperationState::InDoubt(why), _) => Phase::InDoubt { why },
            (_, Some(task)) => Phase::Running { task, progress: None, since: started },
            _ => Phase::Lost {
                why: "the agent ended before the backend's answer was recorded".to_owned(),
            },
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Succeeded => f.write_str("it is done"),
            Answer::Failed(why) => write!(f, "it failed ({why})"),
            Answer::Never => f.write_str("the request never arrived"),
            Answer::Repeatable(why) | Answer::NotSaid(why) => f.write_str(why),
        }
    }
}

impl Flight {
    /// Creates an operation that no thread executes yet.
    pub(crate) fn new(record: Option<Record>, phase: Phase) -> Flight {
        Flight { record, execution: None, phase, is_asked: false }
    }

    /// Returns true if a job asked for it. An operation with an unreadable record counts as a
    /// job's: no pass ends it.
    pub(crate) fn is_job(&self) -> bool {
        self.record.as_ref().is_none_or(|record| record.is_job)
    }

    /// Returns the operation's state, for reports.
    pub(crate) fn wait(&self, now: SystemTime, task_limit: Duration) -> Wait {
        match &self.phase {
            Phase::Starting | Phase::Elsewhere => Wait::Starting,
            Phase::Running { task, progress, since } => Wait::Running {
                task: task.clone(),
                progress: progress.clone(),
                since: *since,
                is_overdue: now.duration_since(*since).unwrap_or_default() > task_limit,
            },
            Phase::Answered(answer) => {
                Wait::Lost { why: format!("{answer}, and its object is not read yet") }
            }
            Phase::Lost { why } => Wait::Lost { why: why.clone() },
            Phase::InDoubt { why } => Wait::InDoubt { why: why.clone() },
        }
    }
}
