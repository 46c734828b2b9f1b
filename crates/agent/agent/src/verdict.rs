//! Why the state is not converged, in words.

use trueup_reconcile::Report as _;
use trueup_rtnl::{Finding, OwnershipRule};

use crate::host::Report;
use crate::status::StatusCounts;

/// Returns why the state is not converged; `None` if it is.
pub fn verdict(report: &Report) -> Option<String> {
    let counts = StatusCounts {
        failed: report.failed().count() + report.settings_failed().count(),
        pending: report.pending().count() + report.settings_pending().count(),
        conflict: report.conflicts().count(),
        ..StatusCounts::default()
    };
    (!report.converged()).then(|| verdict_of(counts, report.errors()))
}

/// Returns why the state is not converged, by the numbers of objects and by what went wrong.
pub fn verdict_of(counts: StatusCounts, errors: impl IntoIterator<Item = String>) -> String {
    let mut parts = counts.words();
    parts.extend(errors);
    if parts.is_empty() {
        parts.push("the state changed meanwhile; the next pass reads it again".to_owned());
    }
    parts.join(", ")
}

/// Returns true if a pass has changed an object, or its owner.
pub fn changes_anything(report: &Report) -> bool {
    report.set().next().is_some()
        || report.applied().next().is_some()
        || report.settings_findings().next().is_some()
        || ownership_changes(report).next().is_some()
}

/// Returns the findings without an op: the owner of an object has changed, and the object has not.
pub fn ownership_changes(report: &Report) -> impl Iterator<Item = Finding<'_>> {
    let still = |finding: &Finding<'_>| {
        matches!(finding.rule, OwnershipRule::Adopted | OwnershipRule::Overwritten { .. })
    };
    report.findings().filter(still)
}
