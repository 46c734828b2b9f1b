//! The report of a pass, printed as text, JSON or `ip -batch` commands.

use std::io::{self, Write};

use anyhow::Result;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use trueup::reconcile::Outcome;
use trueup_agent::text::{
    changes, ops, ownership, unfinished, unsettled_lines, verdict, vertex_record,
};
use trueup_agent::{Applied, PassReport as _, RunReport};

use super::{Format, Lines, List, print, print_with_signs, write_json, write_lines};

/// Prints the report of a run. Fails if the standard output cannot be written to.
pub(crate) fn report(format: Format, report: &RunReport, applied: &Applied) -> Result<()> {
    if format == Format::Text {
        return print_with_signs(|out| {
            for change in changes(report).iter().chain(&applied.changes) {
                writeln!(out, "{change}")?;
            }
            text_of_the_rest(out, report, applied)
        });
    }
    print(|out| match format {
        Format::Json => write_json(out, &Record(report, applied)),
        _ => batch(out, report, applied),
    })
}

fn text_of_the_rest(out: &mut dyn Write, report: &RunReport, applied: &Applied) -> io::Result<()> {
    let unsettled = applied.snapshot.as_ref().map(unsettled_lines).unwrap_or_default();
    for line in unfinished(report).iter().chain(&unsettled) {
        writeln!(out, "{line}")?;
    }
    let why_not: Vec<String> = verdict(report).into_iter().chain(applied.verdict()).collect();
    write_verdict(out, (!why_not.is_empty()).then(|| why_not.join("; ")).as_deref())
}

/// Writes that the state is converged, or `why_not`. Fails if it cannot be written.
pub(crate) fn write_verdict(out: &mut dyn Write, why_not: Option<&str>) -> io::Result<()> {
    match why_not {
        None => writeln!(out, "converged"),
        Some(why) => writeln!(out, "not converged: {why}"),
    }
}

/// Writes the applied ops as commands, and everything else as comments.
fn batch(out: &mut dyn Write, report: &RunReport, applied: &Applied) -> io::Result<()> {
    let mut written = Ok(());
    report.ops(&mut |op| {
        if written.is_ok() && op.outcome() == Outcome::Applied {
            written = write_lines(out, op.batch());
        }
    });
    written?;
    let mut owners = Vec::new();
    report.ownership(&mut |change| owners.extend(change.line));
    for change in owners.iter().chain(&applied.changes) {
        writeln!(out, "# {change}")?;
    }
    let mut rest = Lines(Vec::new());
    text_of_the_rest(&mut rest, report, applied)?;
    for line in String::from_utf8_lossy(&rest.0).lines() {
        writeln!(out, "# {line}")?;
    }
    Ok(())
}

/// The report as JSON, built while it is written, because it may have a million ops.
struct Record<'a>(&'a RunReport, &'a Applied);

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record(report, applied) = *self;
        let vertices = applied.snapshot.as_ref().map(|it| it.vertices.as_slice());
        let len = 9 + usize::from(vertices.is_some());
        let mut out = serializer.serialize_struct("Report", len)?;
        out.serialize_field("converged", &applied.is_converged_with(report))?;
        out.serialize_field("applied", &ops(report, |it| it == Outcome::Applied))?;
        out.serialize_field("failed", &ops(report, |it| matches!(it, Outcome::Failed(_))))?;
        out.serialize_field("declined", &ops(report, |it| matches!(it, Outcome::Declined(_))))?;
        out.serialize_field("pending", &ops(report, |it| it == Outcome::Pending(())))?;
        out.serialize_field("conflicts", &report.conflicts())?;
        out.serialize_field("ownership", &ownership(report, true))?;
        out.serialize_field("notices", &report.notices())?;
        out.serialize_field("errors", &report.errors())?;
        if let Some(vertices) = vertices {
            out.serialize_field("vertices", &List(vertices.iter().map(vertex_record)))?;
        }
        out.end()
    }
}
