//! The report of a pass, printed.

use std::io::{self, Write};

use anyhow::Result;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use trueup::Report as _;
use trueup::apply::Failure;
use trueup::diff::render::{ConflictRecord, OpRecord};
use trueup::diff::{Action, Hold, Kind};
use trueup::reconcile::ErrorClass;
use trueup::rtnl::{Finding, OpOutcome, Pending, Report, Rule};

use super::{Format, count, print};

/// Prints what a pass did and what came of it.
///
/// # Errors
///
/// When the standard output cannot be written to.
pub(crate) fn report(format: Format, report: &Report) -> Result<()> {
    print(|out| match format {
        Format::Text => {
            for done in report.applied() {
                writeln!(out, "{}", done.op.text(done.devices))?;
            }
            for finding in unwritten(report) {
                writeln!(out, "{}", finding_text(&finding))?;
            }
            text_of_the_rest(out, report, Told::WithTimes)
        }
        Format::Json => {
            serde_json::to_writer(&mut *out, &Record(report))?;
            writeln!(out)
        }
        Format::Ip => batch(out, report),
    })
}

/// Whether a pass did something, or changed whose something is.
pub(crate) fn is_news(report: &Report) -> bool {
    report.applied().next().is_some() || unwritten(report).next().is_some()
}

/// What a pass left undone, and its verdict: the same text says that nothing new is to be told. How long something is left
/// alone is not in it.
pub(crate) fn remains(report: &Report) -> String {
    rest(report, Told::WithoutTimes)
}

/// Whether it is told how long something is left alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    WithTimes,
    WithoutTimes,
}

fn rest(report: &Report, told: Told) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail.
    let _ = text_of_the_rest(&mut out, report, told);
    String::from_utf8_lossy(&out).into_owned()
}

/// The findings that no op tells of: whose an object is has changed, and the object has not.
fn unwritten(report: &Report) -> impl Iterator<Item = Finding<'_>> {
    let still = |finding: &Finding<'_>| matches!(finding.rule, Rule::Adopted | Rule::Shed { .. });
    report.findings().filter(still)
}

fn finding_text(finding: &Finding<'_>) -> String {
    let (kind, spec) = (finding.object.kind(), finding.object.spec(finding.devices));
    let meaning = match finding.rule {
        Rule::Adopted => "it was there before us, and is ours from now on",
        Rule::Shed { .. } => "somebody rewrote it, and it is not ours any more",
        _ => "",
    };
    format!("* {kind} {spec}   ({}: {meaning})", finding.rule)
}

fn text_of_the_rest(out: &mut dyn Write, report: &Report, told: Told) -> io::Result<()> {
    for (failed, why) in report.failed() {
        writeln!(out, "! {}   (failed: {why})", command(&failed))?;
    }
    for (pending, why) in report.pending() {
        let why = match why {
            Pending::Held(Hold::Grace(_)) if told == Told::WithoutTimes => "grace".to_owned(),
            Pending::Held(Hold::Contention { .. }) if told == Told::WithoutTimes => {
                "contention".to_owned()
            }
            why => waits(&pending, why),
        };
        writeln!(out, "! {}   (pending: {why})", command(&pending))?;
    }
    for conflict in report.conflicts() {
        let ConflictRecord {
            kind,
            desired,
            foreign,
            ..
        } = ConflictRecord::new(conflict, report.devices());
        writeln!(out, "! {kind} {desired}   (conflict: foreign {foreign})")?;
    }
    match verdict(report) {
        None => writeln!(out, "converged"),
        Some(why) => writeln!(out, "not converged: {why}"),
    }
}

fn command(done: &OpOutcome<'_>) -> String {
    done.op.command(done.devices)
}

/// Why an op was not tried.
fn waits(pending: &OpOutcome<'_>, why: &Pending) -> String {
    if let Some(awaited) = pending.waits_for() {
        return format!("waits for: {}", awaited.command(pending.devices));
    }
    match why {
        Pending::Held(Hold::Bystander(foreign)) => format!(
            "would take along what is not to go: {} {}",
            foreign.kind(),
            foreign.spec(pending.devices)
        ),
        _ => why.to_string(),
    }
}

/// Why the state is not called converged; `None` if it is.
fn verdict(report: &Report) -> Option<String> {
    if report.converged() {
        return None;
    }
    let mut parts = Vec::new();
    let failed = report.failed().count();
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    let pending = report.pending().count();
    if pending > 0 {
        parts.push(format!("{pending} pending"));
    }
    let conflicts = report.conflicts().len();
    if conflicts > 0 {
        parts.push(count(conflicts, "conflict", "conflicts"));
    }
    parts.extend(report.doubts().iter().map(ToString::to_string));
    if let Some(trouble) = report.trouble() {
        parts.push(format!("the pass could not be ended: {trouble}"));
    }
    if parts.is_empty() {
        parts.push("the state moved on meanwhile; another pass will tell".to_owned());
    }
    Some(parts.join(", "))
}

/// The commands of what was done; what was not is told in comments.
fn batch(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for done in report.applied() {
        writeln!(out, "{}", command(&done))?;
    }
    for finding in unwritten(report) {
        writeln!(out, "# {}", finding_text(&finding))?;
    }
    for line in rest(report, Told::WithTimes).lines() {
        writeln!(out, "# {line}")?;
    }
    Ok(())
}

/// The report as JSON, made while it is written: it may be of a million ops.
struct Record<'a>(&'a Report);

#[derive(serde::Serialize)]
struct FailedRecord {
    #[serde(flatten)]
    op: OpRecord,
    errno: Option<i32>,
    message: String,
    class: ErrorClass,
}

/// As of any op, but that the reason is why it waits.
#[derive(serde::Serialize)]
struct PendingRecord {
    op: Action,
    kind: Kind,
    command: String,
    reason: String,
}

fn record(done: &OpOutcome<'_>) -> OpRecord {
    OpRecord::new(done.op, done.devices)
}

fn failed_record((done, why): (OpOutcome<'_>, &Failure)) -> FailedRecord {
    FailedRecord {
        op: record(&done),
        errno: why.errno(),
        message: why.to_string(),
        class: why.class(),
    }
}

fn pending_record((done, why): (OpOutcome<'_>, &Pending)) -> PendingRecord {
    PendingRecord {
        op: done.op.action,
        kind: done.op.object.kind(),
        command: command(&done),
        reason: waits(&done, why),
    }
}

/// A rule of ownership that came to bear on an object.
#[derive(serde::Serialize)]
struct FindingRecord {
    rule: &'static str,
    kind: Kind,
    object: String,
    detail: String,
}

fn finding_record(finding: Finding<'_>) -> FindingRecord {
    FindingRecord {
        rule: match finding.rule {
            Rule::Adopted => "adopted",
            Rule::Taken => "taken",
            Rule::GivenBack => "given_back",
            Rule::Shed { .. } => "shed",
            Rule::Orphan => "orphan",
            Rule::Grace { .. } => "grace",
            Rule::Contention { .. } => "contention",
            _ => "other",
        },
        kind: finding.object.kind(),
        object: finding.object.spec(finding.devices),
        detail: finding.rule.to_string(),
    }
}

/// A list that is made while it is written.
struct List<F>(F);

impl<F: Fn() -> I, I: IntoIterator<Item: Serialize>> Serialize for List<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0())
    }
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let report = self.0;
        let mut out = serializer.serialize_struct("Report", 6)?;
        out.serialize_field("converged", &report.converged())?;
        out.serialize_field(
            "applied",
            &List(|| report.applied().map(|done| record(&done))),
        )?;
        out.serialize_field("failed", &List(|| report.failed().map(failed_record)))?;
        out.serialize_field("pending", &List(|| report.pending().map(pending_record)))?;
        let conflict = |conflict| ConflictRecord::new(conflict, report.devices());
        out.serialize_field(
            "conflicts",
            &List(|| report.conflicts().iter().map(conflict)),
        )?;
        let findings = || report.findings().map(finding_record);
        out.serialize_field("ownership", &List(findings))?;
        out.end()
    }
}
