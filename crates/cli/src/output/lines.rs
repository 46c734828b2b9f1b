//! The lines of a report as text: changes, failures, pending ops, conflicts and the verdict.

use std::io::{self, Write};

use trueup::Report as _;
use trueup::apply::Failure;
use trueup::diff::Hold;
use trueup::diff::render::ConflictRecord;
use trueup::rtnl::{Finding, OpOutcome, OwnershipRule, Pending};

use super::{clean, count, setting};
use crate::host::Report;

/// Returns a line for each applied op and each change of ownership.
pub(crate) fn changes(report: &Report) -> impl Iterator<Item = String> {
    let set = report.set().map(setting::text);
    let applied = report
        .applied()
        .map(|done| done.op.text(done.devices).to_string());
    let ownership_changes = ownership_changes(report).map(|finding| finding_text(&finding));
    let left = report
        .settings_findings()
        .map(|finding| format!("* sysctl {finding}"));
    set.chain(applied).chain(left).chain(ownership_changes)
}

/// Whether a reason has the time for which an object is left alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Shown,
    LeftOut,
}

/// Returns the findings without an op: the owner of an object has changed, and the object has not.
pub(super) fn ownership_changes(report: &Report) -> impl Iterator<Item = Finding<'_>> {
    let still = |finding: &Finding<'_>| {
        matches!(
            finding.rule,
            OwnershipRule::Adopted | OwnershipRule::Overwritten { .. }
        )
    };
    report.findings().filter(still)
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

/// What a pass left unfinished, with a limited number of lines for each reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    /// Ops that failed or are pending.
    pub(crate) unfinished: Vec<String>,
    /// The number of further ones.
    pub(crate) more_unfinished: usize,
    /// Objects that another writer removes or changes repeatedly.
    pub(crate) contended: Vec<String>,
    /// Conflicts with foreign objects.
    pub(crate) conflicts: Vec<String>,
    /// The number of further ones.
    pub(crate) more_conflicts: usize,
}

impl Unfinished {
    /// Collects at most `most` lines of each list of a report.
    pub(crate) fn of(report: &Report, most: usize) -> Unfinished {
        let is_contended = |why: &Pending| matches!(why, Pending::Held(Hold::Contention { .. }));
        let contended = report.pending().filter(|(_, why)| is_contended(why));
        let failed = report.failed().map(failed_text);
        let waiting = || report.pending().filter(|(_, why)| !is_contended(why));
        let pending = waiting().map(|pending| pending_text(&pending, Times::LeftOut));
        let unfinished = settings_unfinished(report).chain(failed).chain(pending);
        let settings = report.settings_failed().count() + report.settings_pending().count();
        let all_undone = settings + report.failed().count() + waiting().count();
        Unfinished {
            unfinished: unfinished.take(most).collect(),
            more_unfinished: all_undone.saturating_sub(most),
            contended: contended
                .take(most)
                .map(|pending| pending_text(&pending, Times::Shown))
                .collect(),
            conflicts: conflicts(report).take(most).map(conflict_text).collect(),
            more_conflicts: report.conflicts().count().saturating_sub(most),
        }
    }
}

pub(super) fn settings_unfinished(report: &Report) -> impl Iterator<Item = String> {
    settings_failed_text(report).chain(settings_pending_text(report))
}

pub(super) fn settings_failed_text(report: &Report) -> impl Iterator<Item = String> {
    let failed = report.settings_failed();
    failed.map(|(done, why)| setting::undone(done, &format!("failed: {why}")))
}

pub(super) fn settings_pending_text(report: &Report) -> impl Iterator<Item = String> {
    let pending = report.settings_pending();
    pending.map(|(done, why)| setting::undone(done, &format!("pending: {why}")))
}

pub(super) fn failed_text((failed, why): (OpOutcome<'_>, &Failure)) -> String {
    format!("! {}   (failed: {why})", command(&failed))
}

pub(super) fn pending_text((pending, why): &(OpOutcome<'_>, &Pending), times: Times) -> String {
    let why = pending_reason(pending, why, times);
    format!("! {}   (pending: {why})", command(pending))
}

pub(super) fn pending_reason(pending: &OpOutcome<'_>, why: &Pending, times: Times) -> String {
    match (times, why) {
        (Times::LeftOut, Pending::Held(Hold::Grace(_))) => "grace".to_owned(),
        (Times::LeftOut, Pending::Held(Hold::Contention { .. })) => "contention".to_owned(),
        (Times::LeftOut, Pending::Held(Hold::Backoff(_))) => "failed before".to_owned(),
        (_, why) => pending_cause(pending, why),
    }
}

pub(super) fn conflicts(report: &Report) -> impl Iterator<Item = ConflictRecord> {
    let conflicts = report.conflicts();
    conflicts.map(|(conflict, devices)| ConflictRecord::new(conflict, devices))
}

pub(super) fn conflict_text(conflict: ConflictRecord) -> String {
    let ConflictRecord {
        kind,
        desired,
        foreign,
        ..
    } = conflict;
    format!("! {kind} {desired}   (conflict: foreign {foreign})")
}

pub(super) fn write_verdict(out: &mut dyn Write, why_not: Option<&str>) -> io::Result<()> {
    match why_not {
        None => writeln!(out, "converged"),
        Some(why) => writeln!(out, "not converged: {}", clean(why)),
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

/// The counts of what is unresolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct Counts {
    pub(super) failed: usize,
    pub(super) pending: usize,
    pub(super) conflicts: usize,
}

impl Counts {
    fn of(report: &Report) -> Counts {
        Counts {
            failed: report.failed().count() + report.settings_failed().count(),
            pending: report.pending().count() + report.settings_pending().count(),
            conflicts: report.conflicts().count(),
        }
    }
}

/// Returns why the state is not converged; `None` if it is.
pub(crate) fn verdict(report: &Report) -> Option<String> {
    verdict_with(report, Counts::of(report))
}

/// Returns the same with the given counts, which include ops that the pass did not try again.
pub(super) fn verdict_with(report: &Report, counts: Counts) -> Option<String> {
    if report.converged() {
        return None;
    }
    let Counts {
        failed,
        pending,
        conflicts,
    } = counts;
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    if pending > 0 {
        parts.push(format!("{pending} pending"));
    }
    if conflicts > 0 {
        parts.push(count(conflicts, "conflict", "conflicts"));
    }
    parts.extend(report.errors());
    if parts.is_empty() {
        parts.push("the state changed meanwhile; the next pass reads it again".to_owned());
    }
    Some(parts.join(", "))
}
