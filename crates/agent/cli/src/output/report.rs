//! The report of a pass, printed as text, JSON or `ip -batch` commands.

use std::io::{self, Write};

use anyhow::Result;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use trueup::Report as _;
use trueup::apply::Failure;
use trueup::graph::Snapshot;
use trueup::net::render::OpRecord;
use trueup::net::{Action, Kind};
use trueup::reconcile::ErrorClass;
use trueup::rtnl::{Finding, OpOutcome, OwnershipRule, Pending};
use trueup_agent::graph::{VertexRecord, graph_verdict, unsettled_lines};
use trueup_agent::host::Report;
use trueup_agent::verdict::{ownership_changes, verdict};
use trueup_agent::watch::event::News;

use super::lines::{
    changes, command, conflict_text, conflicts, declined_text, failed_text, finding_text,
    pending_cause, pending_text, settings_unfinished, write_verdict,
};
use super::setting::{self, Found, Setting};
use super::{Format, Lines, List, print, write_lines};

/// What one run of files and commands did; the default where there is none.
#[derive(Default)]
pub(crate) struct GraphReport {
    /// A line for each that changed something.
    pub(crate) changes: Vec<String>,
    /// How each vertex stands.
    pub(crate) snapshot: Option<Snapshot>,
}

impl GraphReport {
    /// Returns why files and commands are not converged; `None` if they are.
    pub(crate) fn verdict(&self) -> Option<String> {
        self.snapshot.as_ref().and_then(graph_verdict)
    }

    fn unsettled(&self) -> Vec<String> {
        let snapshot = self.snapshot.as_ref();
        snapshot.map(unsettled_lines).unwrap_or_default()
    }
}

/// Prints the report of a pass, and of files and commands.
///
/// # Errors
///
/// When the standard output cannot be written to.
pub(crate) fn report(format: Format, report: &Report, graph: &GraphReport) -> Result<()> {
    print(|out| match format {
        Format::Text => {
            let changes = changes(report).chain(graph.changes.iter().cloned());
            for change in changes {
                writeln!(out, "{change}")?;
            }
            text_of_the_rest(out, report, graph)
        }
        Format::Json => {
            serde_json::to_writer(&mut *out, &Record(report, graph))?;
            writeln!(out)
        }
        _ => batch(out, report, graph),
    })
}

fn text_of_the_rest(out: &mut dyn Write, report: &Report, graph: &GraphReport) -> io::Result<()> {
    let failed = report.failed().map(failed_text);
    let declined = report.declined().map(declined_text);
    let pending = report.pending().map(pending_text);
    let conflicts = conflicts(report).map(conflict_text);
    let network = failed.chain(declined).chain(pending).chain(conflicts);
    let network = settings_unfinished(report).chain(network);
    let noticed = notices(report).map(|notice| format!("* {notice}"));
    for line in network.chain(noticed).chain(graph.unsettled()) {
        writeln!(out, "{line}")?;
    }
    let verdict: Vec<String> = verdict(report).into_iter().chain(graph.verdict()).collect();
    let verdict = (!verdict.is_empty()).then(|| verdict.join("; "));
    write_verdict(out, verdict.as_deref())
}

/// Returns what the author of the declaration should know of.
fn notices(report: &Report) -> impl Iterator<Item = String> {
    report.notices().map(|(notice, devices)| notice.text(devices))
}

/// Writes the applied ops as commands, and all else as comments; `ip` has no command for sysctls.
fn batch(out: &mut dyn Write, report: &Report, graph: &GraphReport) -> io::Result<()> {
    for set in report.set() {
        writeln!(out, "# {}", setting::command(set))?;
    }
    for done in report.applied() {
        write_lines(out, done.op.batch(done.devices))?;
    }
    for finding in ownership_changes(report) {
        writeln!(out, "# {}", finding_text(&finding))?;
    }
    for change in &graph.changes {
        writeln!(out, "# {change}")?;
    }
    let mut rest = Lines(Vec::new());
    text_of_the_rest(&mut rest, report, graph)?;
    for line in String::from_utf8_lossy(&rest.0).lines() {
        writeln!(out, "# {line}")?;
    }
    Ok(())
}

/// The report as JSON, built while it is written: it may have a million ops.
struct Record<'a>(&'a Report, &'a GraphReport);

/// Writes what is new in a report of `watch`, as text.
///
/// # Errors
///
/// When it cannot be written.
pub(crate) fn write_news(out: &mut dyn Write, news: &News<'_>) -> io::Result<()> {
    changes(news.report).try_for_each(|change| writeln!(out, "{change}"))?;
    news.changes.lines().try_for_each(|line| writeln!(out, "{line}"))
}

/// A report of `watch`, which has only what is new, as JSON.
pub(crate) struct NewsRecord<'a>(pub(crate) &'a News<'a>);

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

/// Returns the ops that were applied.
fn applied(report: &Report) -> impl Iterator<Item = Either<Setting, OpRecord>> {
    let set = report.set().map(Setting::new).map(Either::Setting);
    let network = report.applied().map(|done| Either::Network(record(&done)));
    set.chain(network)
}

/// Returns the findings about ownership, of the network those that are `shown`.
fn findings(
    report: &Report,
    shown: fn(&Finding<'_>) -> bool,
) -> impl Iterator<Item = Either<Found, FindingRecord>> {
    let settings = report.settings_findings();
    let settings = settings.map(|finding| Either::Setting(Found::new(finding)));
    let network = report.findings().filter(shown);
    settings.chain(network.map(finding_record).map(Either::Network))
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record(report, graph) = *self;
        let vertices = graph.snapshot.as_ref().map(|it| it.vertices.as_slice());
        let len = 9 + usize::from(vertices.is_some());
        let mut out = serializer.serialize_struct("Report", len)?;
        let is_converged = report.converged() && graph.verdict().is_none();
        out.serialize_field("converged", &is_converged)?;
        out.serialize_field("applied", &List(|| applied(report)))?;
        let failed = || {
            let settings = report.settings_failed();
            let settings = settings.map(|(done, why)| Either::Setting(Setting::failed(done, why)));
            let network = report.failed().map(failed_record).map(Either::Network);
            settings.chain(network)
        };
        out.serialize_field("failed", &List(failed))?;
        let declined = || report.declined().map(failed_record);
        out.serialize_field("declined", &List(declined))?;
        let pending = || {
            let settings = report.settings_pending();
            let settings = settings.map(|(done, why)| Either::Setting(Setting::pending(done, why)));
            let network = report.pending().map(pending_record).map(Either::Network);
            settings.chain(network)
        };
        out.serialize_field("pending", &List(pending))?;
        out.serialize_field("conflicts", &List(|| conflicts(report)))?;
        out.serialize_field("ownership", &List(|| findings(report, |_| true)))?;
        out.serialize_field("notices", &List(|| notices(report)))?;
        out.serialize_field("errors", &report.errors())?;
        if let Some(vertices) = vertices {
            let vertices = || vertices.iter().map(VertexRecord::of);
            out.serialize_field("vertices", &List(vertices))?;
        }
        out.end()
    }
}

impl Serialize for NewsRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let News { report, changes, counts, is_converged } = self.0;
        let mut out = serializer.serialize_struct("News", 8)?;
        out.serialize_field("converged", is_converged)?;
        out.serialize_field("applied", &List(|| applied(report)))?;
        out.serialize_field("statuses", &List(|| changes.changed()))?;
        out.serialize_field("cleared", &List(|| changes.cleared()))?;
        out.serialize_field("snapshot", &changes.is_snapshot())?;
        out.serialize_field("ownership", &List(|| findings(report, is_change)))?;
        out.serialize_field("errors", &report.errors())?;
        out.serialize_field("unresolved", counts)?;
        out.end()
    }
}

/// Returns false for what lasts, and has a status.
fn is_change(finding: &Finding<'_>) -> bool {
    !matches!(finding.rule, OwnershipRule::Grace { .. } | OwnershipRule::Contention { .. })
}
