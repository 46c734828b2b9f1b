//! The report of a pass, printed as text, JSON or `ip -batch` commands.

use std::io::{self, Write};

use anyhow::Result;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use trueup::Report as _;
use trueup::apply::Failure;
use trueup::diff::render::OpRecord;
use trueup::diff::{Action, Kind};
use trueup::reconcile::ErrorClass;
use trueup::rtnl::{Finding, OpOutcome, OwnershipRule, Pending};

use super::lines::{
    Times, changes, command, conflict_text, conflicts, failed_text, finding_text,
    ownership_changes, pending_cause, pending_text, settings_unfinished, verdict, write_verdict,
};
use super::setting::{self, Found, Setting};
use super::unresolved::{NewInReport, new};
use super::{Format, List, clean, print};
use crate::host::Report;

/// Prints the report of a pass.
///
/// # Errors
///
/// When the standard output cannot be written to.
pub(crate) fn report(format: Format, report: &Report) -> Result<()> {
    print(|out| match format {
        Format::Text => {
            for change in changes(report) {
                writeln!(out, "{}", clean(&change))?;
            }
            text_of_the_rest(out, report)
        }
        Format::Json => {
            serde_json::to_writer(&mut *out, &Record { report, news: None })?;
            writeln!(out)
        }
        Format::Ip => batch(out, report),
    })
}

fn text_of_the_rest(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let failed = report.failed().map(failed_text);
    let pending = report.pending();
    let pending = pending.map(|pending| pending_text(&pending, Times::Shown));
    let conflicts = conflicts(report).map(conflict_text);
    let network = failed.chain(pending).chain(conflicts);
    for line in settings_unfinished(report).chain(network) {
        writeln!(out, "{}", clean(&line))?;
    }
    write_verdict(out, verdict(report).as_deref())
}

/// Writes the applied ops as commands, and all else as comments; `ip` has no command for sysctls.
fn batch(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for set in report.set() {
        writeln!(out, "# {}", clean(&setting::command(set)))?;
    }
    for done in report.applied() {
        write!(out, "{}", done.op.batch(done.devices))?;
    }
    for finding in ownership_changes(report) {
        writeln!(out, "# {}", finding_text(&finding))?;
    }
    let mut rest = Vec::new();
    text_of_the_rest(&mut rest, report)?;
    for line in String::from_utf8_lossy(&rest).lines() {
        writeln!(out, "# {line}")?;
    }
    Ok(())
}

/// The report as JSON, built while it is written: it may have a million ops.
pub(crate) struct Record<'a> {
    pub(crate) report: &'a Report,
    /// What is new in it, if only that is written.
    pub(crate) news: Option<&'a NewInReport>,
}

/// A record of one of the sources.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Either<S, N> {
    Setting(S),
    Network(N),
}

#[derive(serde::Serialize)]
struct FailedRecord {
    #[serde(flatten)]
    op: OpRecord,
    errno: Option<i32>,
    message: String,
    class: ErrorClass,
    #[serde(flatten)]
    forms: Option<FormsRecord>,
}

/// The forms of an object that the kernel stored with other values.
#[derive(serde::Serialize)]
struct FormsRecord {
    desired: String,
    stored: Option<String>,
}

/// An op whose reason is why it waits.
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
        forms: why.forms().map(|forms| FormsRecord {
            desired: forms.desired.clone(),
            stored: forms.stored.clone(),
        }),
    }
}

fn pending_record((done, why): (OpOutcome<'_>, &Pending)) -> PendingRecord {
    PendingRecord {
        op: done.op.action,
        kind: done.op.object.kind(),
        command: command(&done),
        reason: pending_cause(&done, why),
    }
}

/// A rule of ownership that applied to an object.
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
            OwnershipRule::Adopted => "adopted",
            OwnershipRule::Overridden => "overridden",
            OwnershipRule::Restored => "restored",
            OwnershipRule::Overwritten { .. } => "overwritten",
            OwnershipRule::Orphan => "orphan",
            OwnershipRule::Grace { .. } => "grace",
            OwnershipRule::Contention { .. } => "contention",
            _ => "other",
        },
        kind: finding.object.kind(),
        object: finding.object.spec(finding.devices),
        detail: finding.rule.to_string(),
    }
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record { report, news } = *self;
        let mut out = serializer.serialize_struct("Report", 9)?;
        out.serialize_field("converged", &report.converged())?;
        let applied = || {
            let set = report.set().map(Setting::new).map(Either::Setting);
            let network = report.applied().map(|done| Either::Network(record(&done)));
            set.chain(network)
        };
        out.serialize_field("applied", &List(applied))?;
        let failed = || {
            let settings = report.settings_failed();
            let settings = settings.map(|(done, why)| Either::Setting(Setting::failed(done, why)));
            let network = report.failed().map(failed_record).map(Either::Network);
            new(settings.chain(network), news.map(|news| &*news.failed))
        };
        out.serialize_field("failed", &List(failed))?;
        let pending = || {
            let settings = report.settings_pending();
            let settings = settings.map(|(done, why)| Either::Setting(Setting::pending(done, why)));
            let network = report.pending().map(pending_record).map(Either::Network);
            new(settings.chain(network), news.map(|news| &*news.pending))
        };
        out.serialize_field("pending", &List(pending))?;
        let conflicts = || new(conflicts(report), news.map(|news| &*news.conflicts));
        out.serialize_field("conflicts", &List(conflicts))?;
        let findings = || {
            let settings = report.settings_findings();
            let settings = settings.map(|finding| Either::Setting(Found::new(finding)));
            let network = report.findings().map(finding_record).map(Either::Network);
            new(settings.chain(network), news.map(|news| &*news.ownership))
        };
        out.serialize_field("ownership", &List(findings))?;
        out.serialize_field("errors", &report.errors())?;
        if let Some(news) = news {
            out.serialize_field("ended", &List(|| news.ended()))?;
            out.serialize_field("unresolved", &news.counts)?;
        }
        out.end()
    }
}
