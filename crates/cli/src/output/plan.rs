//! A plan, printed.

use std::io::{self, Write};

use anyhow::Result;
use trueup::diff::render::{PlanRecord, snapshot_hash};
use trueup::diff::{Action, Plan};
use trueup::rtnl::Planned;

use super::{Format, count, print};

/// Prints what a pass would do.
///
/// # Errors
///
/// When the standard output cannot be written to.
pub(crate) fn plan(format: Format, planned: &Planned) -> Result<()> {
    let Planned { plan, observed, .. } = planned;
    print(|out| match format {
        Format::Text => text(out, plan),
        Format::Json => {
            serde_json::to_writer(&mut *out, &PlanRecord::new(plan, snapshot_hash(observed)))?;
            writeln!(out)
        }
        Format::Ip => write!(out, "{}", plan.batch()),
    })
}

fn text(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    write!(out, "{}", plan.text())?;
    if plan.is_empty() {
        return writeln!(out, "nothing to do");
    }
    let of = |action| {
        let due = |op: &&trueup::diff::Op| op.action == action && op.hold.is_none();
        plan.ops.iter().filter(due).count()
    };
    let mut parts = vec![
        format!("{} to create", of(Action::Create)),
        format!("{} to change", of(Action::Update)),
        format!("{} to delete", of(Action::Delete)),
    ];
    let held = plan.ops.iter().filter(|op| op.hold.is_some()).count();
    if held > 0 {
        parts.push(format!("{held} held"));
    }
    let conflicts = plan.conflicts.len();
    if conflicts > 0 {
        parts.push(count(conflicts, "conflict", "conflicts"));
    }
    writeln!(out, "{}", parts.join(", "))
}
