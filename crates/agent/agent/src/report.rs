//! The report of a pass in words and as records, whatever the source.

mod network;
mod setting;

use std::marker::PhantomData;

use serde::ser::{Serialize, SerializeSeq as _, Serializer};
use trueup_net::Devices;
use trueup_reconcile::{ErrorClass, Outcome, Report};

use crate::error::Result;
use crate::status::StatusCounts;

pub(crate) use network::{NamespaceError, NamespaceReport, Preliminary};

/// The report of a pass over a part, or why it could not run.
pub(crate) type SectionResult = Result<Box<dyn PassReport>>;

/// The report of a pass, in words. All that prints reports, plans and events goes through it.
pub trait PassReport: Report + Send {
    /// Calls `visit` for each op, in the order in which a reader should see them.
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText));

    /// Calls `visit` for each object whose owner has changed, or has not although one would think so.
    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        self.members().iter().for_each(|it| it.ownership(visit));
    }

    /// Returns the foreign objects on keys that are declared.
    fn conflicts(&self) -> Vec<ConflictRecord> {
        self.members().into_iter().flat_map(PassReport::conflicts).collect()
    }

    /// Returns what the author of the declaration should know of.
    fn notices(&self) -> Vec<String> {
        self.members().into_iter().flat_map(PassReport::notices).collect()
    }

    /// Returns what could not be read whole, and why the pass could not end.
    fn errors(&self) -> Vec<String> {
        self.members().into_iter().flat_map(PassReport::errors).collect()
    }

    /// Returns the devices that the pass knew, if it was over the network.
    #[doc(hidden)]
    fn devices(&self) -> Option<&Devices> {
        self.members().into_iter().find_map(PassReport::devices)
    }

    /// Returns the reports of which this one is made.
    #[doc(hidden)]
    fn members(&self) -> Vec<&dyn PassReport> {
        Vec::new()
    }
}

/// An op of a report, in words.
pub trait OpText {
    /// Returns what it does: `create`, `update` or `delete`.
    fn action(&self) -> &'static str;

    /// Returns the kind of its object.
    fn kind(&self) -> &'static str;

    /// Returns its outcome.
    fn outcome(&self) -> Outcome;

    /// Returns it as a command, or the words for one.
    fn command(&self) -> String;

    /// Returns why it is to be done.
    fn reason(&self) -> String;

    /// Returns why it was not done; empty if it was.
    fn why(&self) -> String;

    /// Returns its line: a sign, the object, and the reason.
    fn text(&self) -> String;

    /// Returns what it is for `ip -batch`: a comment, unless `ip` has commands for it.
    fn batch(&self) -> String {
        format!("# {}\n", self.command())
    }

    /// Returns what a failure is, if it has failed.
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

/// An op of a source that has no words of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// What it does: `create`, `update` or `delete`.
    pub action: &'static str,
    /// The kind of its object.
    pub kind: &'static str,
    /// Its object.
    pub object: String,
    /// Why it is to be done.
    pub reason: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was not done; empty if it was.
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
    /// The reason of one that is pending is why it waits.
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

/// Returns an op of a plan as JSON: with the reason why it is to be done, or why that is not possible
/// yet.
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

/// Returns the ops of a report whose outcome is wanted, as JSON.
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

/// Returns the findings about ownership as JSON; those that last only if asked for.
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

/// Why an op has failed, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FailureRecord {
    /// The operating system's number, if it has one.
    pub errno: Option<i32>,
    /// What it means.
    pub message: String,
    /// What can be done about it.
    pub class: ErrorClass,
    /// The declared form of an object that was stored with other values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// Its stored form, if it was stored; `None` unless there is a declared one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Option<String>>,
}

/// A rule of ownership that applied to an object, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OwnershipRecord {
    /// The name of the rule.
    pub rule: &'static str,
    /// The kind of the object.
    pub kind: &'static str,
    /// The object.
    pub object: String,
    /// The rule in words.
    pub detail: String,
    /// A line for people, if the owner of the object has changed and the object has not.
    #[serde(skip)]
    pub line: Option<String>,
    /// It lasts, and the object has a status.
    #[serde(skip)]
    pub lasts: bool,
}

/// A foreign object on a key that is declared, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ConflictRecord {
    /// The kind of both objects.
    pub kind: &'static str,
    /// What is desired.
    pub desired: String,
    /// What is there.
    pub foreign: String,
    /// The fields that differ.
    pub differs: Vec<&'static str>,
    /// What is there, what differs, and what to write.
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

/// Returns why the state is not converged; `None` if it is.
pub fn verdict(report: &dyn PassReport) -> Option<String> {
    let mut counts = StatusCounts { conflict: report.conflicts().len(), ..StatusCounts::default() };
    report.ops(&mut |op| match op.outcome() {
        Outcome::Failed(_) => counts.failed += 1,
        Outcome::Pending(()) => counts.pending += 1,
        Outcome::Applied | Outcome::Declined(_) => {}
    });
    (!report.converged()).then(|| verdict_of(counts, report.errors()))
}

/// Returns why the state is not converged, by the numbers of objects and by what went wrong.
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

/// Returns true if a pass has changed an object, or its owner.
pub(crate) fn changes_anything(report: &dyn PassReport) -> bool {
    let mut changes = has_applied(report);
    report.ownership(&mut |change| changes |= change.line.is_some());
    changes
}
