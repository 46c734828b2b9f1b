//! Reports of passes as text.

use trueup_rtnl::Report;

/// Writes all ops, conflicts and doubts of a report, one a line.
pub fn describe(report: &Report) -> String {
    let ops = report.ops().map(|done| {
        let command = done.op.command(done.devices);
        format!("{command}: {:?}", done.outcome)
    });
    let conflicts = report.conflicts().iter().map(|conflict| format!("{conflict:?}"));
    let doubts = report.doubts().iter().map(|doubt| format!("{doubt:?}"));
    let lines: Vec<_> = ops.chain(conflicts).chain(doubts).collect();
    lines.join("\n")
}
