//! The report of a pass.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trueup_reconcile::{
    self as reconcile, Condition, ErrorClass, Failure, OpKey, ReportedOp, Status, utc,
};

use crate::{Action, ActionHash, Error};

/// A pass's report. Every action of the pass has exactly one outcome in it.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) converged: bool,
    pub(crate) is_known: bool,
    pub(crate) ops: Vec<ControlOp>,
    pub(crate) missing: Vec<String>,
    pub(crate) undesired: Vec<String>,
    pub(crate) unread: Vec<Unread>,
    /// The unread objects that may need a change, with the reason.
    pub(crate) held_up: BTreeMap<String, String>,
    pub(crate) failing: Option<(SystemTime, Error)>,
    pub(crate) trouble: Option<String>,
    pub(crate) is_seen_whole: bool,
    pub(crate) requeue_after: Option<Duration>,
    pub(crate) statuses: Vec<(OpKey, Option<Arc<Status>>)>,
}

/// An unread object, or an unread lane with all its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// The object's key, or the lane.
    pub key: String,
    /// The reason, in the backend's words.
    pub why: String,
    /// The time since when this engine cannot read it.
    pub since: SystemTime,
}

/// An action of a pass, and its result: carried out, in progress, refused or waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ControlOp {
    /// The planned action, or an operation's.
    pub action: Action,
    /// The action's result, or the reason why it has none yet.
    pub outcome: Outcome,
    /// The failure of the last try, if this op is pending and has not been tried since.
    pub failed_before: Option<Failure>,
}

/// The result of an action; [`Pending`] names the reason why it was not carried out.
pub type Outcome = reconcile::Outcome<Failure, Pending>;

/// The reason why an action has no outcome yet.
pub type Pending = reconcile::Pending<Wait>;

/// The event that an action waits for, with the facts for its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// A task is carrying it out.
    Running {
        /// The task's id.
        task: String,
        /// The progress, in the backend's words; `None` if not known.
        progress: Option<String>,
        /// The time of its start.
        since: SystemTime,
        /// True if it runs for longer than
        /// [`Config::with_task_limit`](crate::Config::with_task_limit).
        is_overdue: bool,
    },
    /// The backend was asked to start it, and has not answered yet.
    Starting,
    /// The backend's answer was lost; the engine is finding out if it took effect.
    Lost {
        /// How the answer was lost.
        why: String,
    },
    /// The engine cannot find out if it took effect: the operator decides, with
    /// [`EngineHandle::resolve`](crate::EngineHandle::resolve). Until then the engine leaves its
    /// object alone.
    InDoubt {
        /// The known facts.
        why: String,
    },
    /// The gate holds it, because it is destructive and no approval for it was given.
    Approval {
        /// The hash that the approval must contain.
        hash: ActionHash,
        /// The reason why the last token was refused; `None` if there was none.
        refused: Option<String>,
    },
    /// It failed before; its next try is at this time.
    Retry(SystemTime),
    /// Another operation on the object is in flight, or another action comes first.
    After,
}

impl Report {
    /// Returns true if the desired state is known. If not, the pass wrote nothing.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns every action of the pass, by key.
    pub fn ops(&self) -> &[ControlOp] {
        &self.ops
    }

    /// Returns the keys of missing desired objects that the engine may not create by its settings.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Returns the keys of existing, undesired objects that stay.
    pub fn undesired(&self) -> &[String] {
        &self.undesired
    }

    /// Returns the unread objects and lanes, which the pass left alone. If one of them is desired
    /// or to be destroyed, the report has not converged.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// Returns the time since when the provider fails, and its last error; `None` if it works. If
    /// its last answer is too old, or there was none, the desired state [is not
    /// known](Self::is_known).
    pub fn failing(&self) -> Option<&(SystemTime, Error)> {
        self.failing.as_ref()
    }

    /// Returns the error that kept the pass from recording or reading back its effects; `None`
    /// without one.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Notes the statuses that changed since the last pass, and returns the current ones.
    pub(crate) fn note_statuses(
        &mut self,
        mut before: BTreeMap<String, Arc<Status>>,
    ) -> BTreeMap<String, Arc<Status>> {
        let mut now = BTreeMap::new();
        for op in &self.ops {
            // If an object has several actions, the first one that is not in place counts.
            let Some(status) = op.status().filter(|_| !now.contains_key(&op.action.key)) else {
                continue;
            };
            now.insert(op.action.key.clone(), status);
        }
        for key in &self.missing {
            let why = "it is not there, and the configuration does not create objects";
            let condition = Condition::Pending { why: why.to_owned() };
            now.insert(key.clone(), Status::new(KIND, key, condition));
        }
        for (key, why) in &self.held_up {
            let condition = Condition::Pending { why: why.clone() };
            let status = Status::new(KIND, key, condition);
            now.entry(key.clone()).or_insert(status);
        }
        let mut statuses = BTreeMap::new();
        for (key, status) in now {
            let status = match before.remove(&key) {
                Some(known) if *known == status => known,
                _ => {
                    let status = Arc::new(status);
                    let changed = (op_key(&key), Some(Arc::clone(&status)));
                    self.statuses.push(changed);
                    status
                }
            };
            statuses.insert(key, status);
        }
        if !self.is_known {
            // The other objects were not examined.
            statuses.extend(before);
            return statuses;
        }
        let cleared = before.into_keys().map(|key| (op_key(&key), None));
        self.statuses.extend(cleared);
        statuses
    }
}

const KIND: &str = "object";

/// Returns an object's key for a driver: the same in each pass.
pub(crate) fn op_key(key: &str) -> OpKey {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    OpKey(hasher.finish())
}

impl reconcile::Report for Report {
    fn converged(&self) -> bool {
        self.converged && !self.ops.iter().any(|op| matches!(op.outcome, Outcome::Failed(_)))
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        for op in &self.ops {
            let outcome = op.outcome.classified(|failure| failure.class);
            visit(ReportedOp::new(KIND, outcome, &|| op_key(&op.action.key)));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        for (key, status) in &self.statuses {
            visit(*key, status.as_ref());
        }
    }

    fn is_truncated(&self) -> bool {
        self.ops.iter().any(|op| op.outcome == Outcome::Pending(Pending::Cut))
    }

    fn is_seen_whole(&self) -> bool {
        self.is_seen_whole
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.requeue_after
    }
}

/// Returns true if the only fact known about the op is that it was not tried yet.
fn is_put_off(pending: &Pending) -> bool {
    match pending {
        Pending::Own(wait) => matches!(wait, Wait::Retry(_) | Wait::After),
        _ => true,
    }
}

/// Returns the condition of an object whose action failed.
fn condition(failure: &Failure) -> Condition {
    match failure.class {
        ErrorClass::StoredOtherwise => {
            Condition::StoredOtherwise { stored: Some(failure.message.clone()) }
        }
        _ => failure.condition(),
    }
}

/// Parses a failure's text. If the text has another form, its class is unknown.
pub(crate) fn parse_failure(text: &str) -> Failure {
    let parts = text.strip_suffix(')').and_then(|it| it.rsplit_once(" ("));
    let parsed = parts.and_then(|(message, class)| {
        let class = ErrorClass::ALL.into_iter().find(|it| it.as_str() == class)?;
        Some(Failure::new(class, message))
    });
    parsed.unwrap_or_else(|| Failure::new(ErrorClass::Unknown, text))
}

impl ControlOp {
    pub(crate) fn new(action: Action, outcome: Outcome) -> Self {
        ControlOp { action, outcome, failed_before: None }
    }

    /// Returns the object's status; `None` if the action was applied.
    fn status(&self) -> Option<Status> {
        let condition = match &self.outcome {
            Outcome::Applied => return None,
            Outcome::Failed(failure) | Outcome::Declined(failure) => condition(failure),
            Outcome::Pending(Pending::Own(Wait::InDoubt { why })) => Condition::Failed {
                class: ErrorClass::Unknown,
                errno: None,
                message: format!("in doubt, the operator decides: {why}"),
            },
            Outcome::Pending(pending) => match &self.failed_before {
                Some(failure) if is_put_off(pending) => condition(failure),
                failure => {
                    Condition::Pending { why: Waiting(pending, failure.as_ref()).to_string() }
                }
            },
        };
        Some(Status::new(KIND, self.action.to_string(), condition))
    }
}

/// Formats the entry as `web: not read since 2026-11-26 00:45:00 UTC: no answer within 5 s`.
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unread { key, why, since } = self;
        write!(f, "{key}: not read since {}: {why}", utc(*since))
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

/// Formats the reason why an op waits, and its earlier failure, if any.
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
                write!(f, ", since {}", utc(*since))?;
                f.write_str(if *is_overdue {
                    "; it does not end: cancel it, or wait)"
                } else {
                    ")"
                })
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
                write!(f, "it failed before, and is tried at {}", utc(*until))
            }
            Wait::After => f.write_str("another action on the object comes first"),
        }
    }
}
