//! The lines of a report as text: changes, failures, pending ops, conflicts and the verdict.

use std::io::{self, Write};

use trueup::apply::Failure;
use trueup::net::Hold;
use trueup::net::render::ConflictRecord;
use trueup::rtnl::{Finding, OpOutcome, OwnershipRule, Pending};
use trueup_agent::host::Report;
use trueup_agent::verdict::ownership_changes;

use super::setting;

/// Returns a line for each applied op and each change of ownership.
pub(crate) fn changes(report: &Report) -> impl Iterator<Item = String> {
    let set = report.set().map(setting::text);
    let applied = report.applied().map(|done| done.op.text(done.devices).to_string());
    let ownership_changes = ownership_changes(report).map(|finding| finding_text(&finding));
    let left = report.settings_findings().map(|finding| format!("* sysctl {finding}"));
    set.chain(applied).chain(left).chain(ownership_changes)
}

pub(super) fn finding_text(finding: &Finding<'_>) -> String {
    let (kind, spec) = (finding.object.kind(), finding.object.spec(finding.devices));
    let meaning = match finding.rule {
        OwnershipRule::Adopted => "it existed before, and is ours from now on",
        OwnershipRule::Overwritten { .. } => {
            "another writer changed it, and it is not ours any more"
        }
        _ => "",
    };
    format!("* {kind} {spec}   ({}: {meaning})", finding.rule)
}

pub(super) fn settings_unfinished(report: &Report) -> impl Iterator<Item = String> {
    let failed = report.settings_failed();
    let failed = failed.map(|(done, why)| setting::undone(done, &format!("failed: {why}")));
    let pending = report.settings_pending();
    failed.chain(pending.map(|(done, why)| setting::undone(done, &format!("pending: {why}"))))
}

pub(super) fn failed_text((failed, why): (OpOutcome<'_>, &Failure)) -> String {
    format!("! {}   (failed: {why})", command(&failed))
}

/// Of what another host offers, and this one cannot have.
pub(super) fn declined_text((declined, why): (OpOutcome<'_>, &Failure)) -> String {
    format!("! {}   (declined: {why})", command(&declined))
}

pub(super) fn pending_text((pending, why): (OpOutcome<'_>, &Pending)) -> String {
    let why = pending_cause(&pending, why);
    format!("! {}   (pending: {why})", command(&pending))
}

pub(super) fn conflicts(report: &Report) -> impl Iterator<Item = ConflictRecord> {
    let conflicts = report.conflicts();
    conflicts.map(|(conflict, devices)| ConflictRecord::new(conflict, devices))
}

pub(super) fn conflict_text(conflict: ConflictRecord) -> String {
    let ConflictRecord { kind, desired, why, .. } = conflict;
    format!("! {kind} {desired}   (conflict: foreign {why})")
}

/// Writes whether the state is converged, and why it is not.
///
/// # Errors
///
/// When it cannot be written.
pub(crate) fn write_verdict(out: &mut dyn Write, why_not: Option<&str>) -> io::Result<()> {
    match why_not {
        None => writeln!(out, "converged"),
        Some(why) => writeln!(out, "not converged: {why}"),
    }
}

pub(super) fn command(done: &OpOutcome<'_>) -> String {
    done.op.command(done.devices)
}

/// Returns why an op was not tried.
pub(super) fn pending_cause(pending: &OpOutcome<'_>, why: &Pending) -> String {
    if let Some(awaited) = pending.waits_for() {
        return format!("waits for: {}", awaited.command(pending.devices));
    }
    match why {
        Pending::Held(Hold::Collateral(foreign)) => format!(
            "would take along what is not to go: {} {}",
            foreign.kind(),
            foreign.spec(pending.devices)
        ),
        Pending::Held(Hold::Forwarding(entry)) => match pending.devices.name(entry.dev) {
            Some(name) => format!("{why} dev {name}"),
            None => why.to_string(),
        },
        _ => why.to_string(),
    }
}
