//! The report of a pass as text and as JSON, for any source.

mod network;
mod setting;

use std::marker::PhantomData;

use serde::ser::{Serialize, SerializeSeq as _, Serializer};
use trueup_net::Devices;
use trueup_reconcile::{ErrorClass, Outcome, Report};

use crate::error::Result;
use crate::status::StatusCounts;

pub(crate) use network::{NamespaceError, NamespaceReport, Preliminary};

/// The report of a part's pass, or the reason why it could not run.
pub(crate) type SectionResult = Result<Box<dyn PassReport>>;

/// The report of a pass as text. All output of reports, plans and events goes through this trait.
pub trait PassReport: Report + Send {
    /// Calls `visit` for each op, in the order in which a reader should see them.
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText));

    /// Calls `visit` for each object whose owner has changed, or unexpectedly has not.
    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        self.members().iter().for_each(|it| it.ownership(visit));
    }

    /// Returns the foreign objects whose keys are declared.
    fn conflicts(&self) -> Vec<ConflictRecord> {
        self.members().into_iter().flat_map(PassReport::conflicts).collect()
    }

    /// Returns notes for the author of the declaration.
    fn notices(&self) -> Vec<String> {
        self.members().into_iter().flat_map(PassReport::notices).collect()
    }

    /// Returns the errors of incomplete reads, and the reason why the pass could not end.
    fn errors(&self) -> Vec<String> {
        self.members().into_iter().flat_map(PassReport::errors).collect()
    }

    /// Returns the devices that the pass observed, or `None` if it was not over the network.
    #[doc(hidden)]
    fn devices(&self) -> Option<&Devices> {
        self.members().into_iter().find_map(PassReport::devices)
    }

    /// Returns the reports of which this one is made; empty for the report of one source.
    #[doc(hidden)]
    fn members(&self) -> Vec<&dyn PassReport> {
        Vec::new()
    }
}

/// The words for an op of a report, for people and for JSON.
pub trait OpText {
    /// Returns the action: `create`, `update` or `delete`.
    fn action(&self) -> &'static str;

    /// Returns the object's kind, such as `route`.
    fn kind(&self) -> &'static str;

    /// Returns the op's result: applied, failed, declined or pending.
    fn outcome(&self) -> Outcome;

    /// Returns the op as a command, or as words if there is no command.
    fn command(&self) -> String;

    /// Returns why the op is due, such as `missing`, in one line.
    fn reason(&self) -> String;

    /// Returns why the op was not done, or an empty text if it was.
    fn why(&self) -> String;

    /// Returns the op's line: a sign, the object, and the reason.
    fn text(&self) -> String;

    /// Returns the op as a line for `ip -batch`: a comment, unless `ip` has commands for it.
    fn batch(&self) -> String {
        format!("# {}\n", self.command())
    }

    /// Returns the failure, or `None` if the op has not failed.
    fn failure(&self) -> Option<FailureRecord> {
        match self.outcome() {
            Outcome::Failed(class) | Outcome::Declined(class) => {
                let message = self.why();
                Some(FailureRecord { errno: None, message, class, desired: None, stored: None })
            }
            Outcome::Applied | Outcome::Pending(()) => None,
        }
    }
}

/// An op of a source without a text form of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The action: `create`, `update` or `delete`.
    pub action: &'static str,
    /// The object's kind, as in `kind` of JSON output.
    pub kind: &'static str,
    /// The object as text, as lines and commands show it.
    pub object: String,
    /// Why the op is due, such as `missing`, in one line.
    pub reason: String,
    /// The op's result: applied, failed, declined or pending.
    pub outcome: Outcome,
    /// Why the op was not done. Empty if it was.
    pub why: String,
}

impl OpText for Op {
    fn action(&self) -> &'static str {
        self.action
    }

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn command(&self) -> String {
        format!("{} {} {}", self.action, self.kind, self.object)
    }

    fn reason(&self) -> String {
        self.reason.clone()
    }

    fn why(&self) -> String {
        self.why.clone()
    }

    fn text(&self) -> String {
        let sign = match self.action {
            "create" => '+',
            "delete" => '-',
            _ => '~',
        };
        format!("{sign} {} {}   ({})", self.kind, self.object, self.reason)
    }
}

/// An op as JSON.
#[derive(serde::Serialize)]
struct OpRecord {
    op: &'static str,
    kind: &'static str,
    command: String,
    reason: String,
    #[serde(flatten)]
    failure: Option<FailureRecord>,
}

impl OpRecord {
    /// The reason of a pending op is why it waits.
    fn new(op: &dyn OpText) -> OpRecord {
        OpRecord {
            op: op.action(),
            kind: op.kind(),
            command: op.command(),
            reason: match op.outcome() {
                Outcome::Pending(()) => op.why(),
                _ => op.reason(),
            },
            failure: op.failure(),
        }
    }
}

/// Returns an op of a plan as JSON, with the reason for the op, or why it is not possible yet.
pub fn planned_op(op: &dyn OpText) -> impl Serialize + use<> {
    let reason = op.failure().map_or_else(|| op.reason(), |failure| failure.message);
    OpRecord { reason, failure: None, ..OpRecord::new(op) }
}

/// A list as JSON, built while it is written: a report may have a million ops.
struct List<T, V: Fn(&mut dyn FnMut(T))>(V, PhantomData<fn(T)>);

impl<T: Serialize, V: Fn(&mut dyn FnMut(T))> Serialize for List<T, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        (self.0)(&mut |item| {
            if written.is_ok() {
                written = out.serialize_element(&item);
            }
        });
        written?;
        out.end()
    }
}

/// Returns the ops whose outcome is wanted, as JSON.
pub fn ops(report: &dyn PassReport, is_wanted: fn(Outcome) -> bool) -> impl Serialize {
    List(
        move |visit: &mut dyn FnMut(OpRecord)| {
            report.ops(&mut |op| {
                if is_wanted(op.outcome()) {
                    visit(OpRecord::new(op));
                }
            });
        },
        PhantomData,
    )
}

/// Returns the findings about ownership as JSON. Lasting ones are included only if `with_lasting`.
pub fn ownership(report: &dyn PassReport, with_lasting: bool) -> impl Serialize {
    List(
        move |visit: &mut dyn FnMut(OwnershipRecord)| {
            report.ownership(&mut |change| {
                if with_lasting || !change.lasts {
                    visit(change);
                }
            });
        },
        PhantomData,
    )
}

/// The reason why an op has failed, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FailureRecord {
    /// The operating system's error number, if there is one.
    pub errno: Option<i32>,
    /// The object, the cause and the remedy, in one line.
    pub message: String,
    /// The failure's class, which says how to handle it.
    pub class: ErrorClass,
    /// The declared form of an object that was stored with other values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// The object's stored form, or `Some(None)` if it was not stored. `None` if there is no
    /// declared form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Option<String>>,
}

/// A rule of ownership that applied to an object, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OwnershipRecord {
    /// The rule's name, as JSON has it.
    pub rule: &'static str,
    /// The object's kind, such as `route`.
    pub kind: &'static str,
    /// The object in the words of its command, such as `10.2.0.0/16 via 10.1.0.9`.
    pub object: String,
    /// The rule in words, for this object.
    pub detail: String,
    /// A line for people, if the owner of the object has changed and the object has not.
    #[serde(skip)]
    pub line: Option<String>,
    /// True if the finding lasts and the object has a status.
    #[serde(skip)]
    pub lasts: bool,
}

/// A foreign object whose key is declared, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ConflictRecord {
    /// The kind of both objects, such as `route`.
    pub kind: &'static str,
    /// The declared object, in the words of its command.
    pub desired: String,
    /// The foreign object, in the words of its command.
    pub foreign: String,
    /// The names of the fields that differ.
    pub differs: Vec<&'static str>,
    /// The foreign object, the differences, and the lines to write in the file.
    pub why: String,
}

/// Returns a line for each applied op and each change of ownership.
pub fn changes(report: &dyn PassReport) -> Vec<String> {
    let mut lines = Vec::new();
    report.ops(&mut |op| lines.extend((op.outcome() == Outcome::Applied).then(|| op.text())));
    report.ownership(&mut |change| lines.extend(change.line));
    lines
}

/// Returns a line for each op that was not done, each conflict and each notice.
pub fn unfinished(report: &dyn PassReport) -> Vec<String> {
    let mut lines = Vec::new();
    report.ops(&mut |op| {
        let state = match op.outcome() {
            Outcome::Applied => return,
            Outcome::Failed(_) => "failed",
            Outcome::Declined(_) => "declined",
            Outcome::Pending(()) => "pending",
        };
        lines.push(format!("! {}   ({state}: {})", op.command(), op.why()));
    });
    let conflicts = report.conflicts().into_iter();
    lines.extend(conflicts.map(|ConflictRecord { kind, desired, why, .. }| {
        format!("! {kind} {desired}   (conflict: foreign {why})")
    }));
    lines.extend(report.notices().into_iter().map(|notice| format!("* {notice}")));
    lines
}

/// Returns why the state is not converged, or `None` if it is.
pub fn verdict(report: &dyn PassReport) -> Option<String> {
    let mut counts = StatusCounts { conflict: report.conflicts().len(), ..StatusCounts::default() };
    report.ops(&mut |op| match op.outcome() {
        Outcome::Failed(_) => counts.failed += 1,
        Outcome::Pending(()) => counts.pending += 1,
        Outcome::Applied | Outcome::Declined(_) => {}
    });
    (!report.converged()).then(|| verdict_of(counts, report.errors()))
}

/// Returns why the state is not converged, from the numbers of objects and the errors.
pub(crate) fn verdict_of(counts: StatusCounts, errors: impl IntoIterator<Item = String>) -> String {
    let mut parts = counts.words();
    parts.extend(errors);
    if parts.is_empty() {
        parts.push("the state changed meanwhile; the next pass reads it again".to_owned());
    }
    parts.join(", ")
}

/// Returns true if a pass has changed an object.
pub(crate) fn has_applied(report: &dyn PassReport) -> bool {
    let mut has_applied = false;
    report.outcomes(&mut |op| has_applied |= op.outcome == Outcome::Applied);
    has_applied
}

/// Returns true if a pass has changed an object or its owner.
pub(crate) fn changes_anything(report: &dyn PassReport) -> bool {
    let mut changes = has_applied(report);
    report.ownership(&mut |change| changes |= change.line.is_some());
    changes
}
