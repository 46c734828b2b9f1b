//! The output of `trueup plan`.

use std::io::{self, Write};

use anyhow::Result;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use trueup::graph::Snapshot;
use trueup::net::render::{ConflictRecord, OpRecord, snapshot_hash};
use trueup::net::{Action, Kind, Plan};
use trueup::sysctl::{Outcome, SysctlOp};
use trueup_agent::graph::{VertexRecord, unsettled_lines};
use trueup_agent::host::Planned;

use super::setting::{self, Setting};
use super::{Format, List, count, print, write_lines};

/// Prints what a pass would do, and what files and commands would, if there are such.
///
/// # Errors
///
/// When the standard output cannot be written to.
pub(crate) fn plan(format: Format, planned: &Planned, beside: Option<&Snapshot>) -> Result<()> {
    let lines = beside.map(unsettled_lines).unwrap_or_default();
    print(|out| match format {
        Format::Text => text(out, planned, &lines),
        Format::Json => {
            serde_json::to_writer(&mut *out, &Record(planned, beside))?;
            writeln!(out)
        }
        _ => {
            for done in planned.settings() {
                writeln!(out, "# {}", setting::command(done))?;
            }
            write_lines(out, planned.network.plan.batch())?;
            let mut lines = lines.iter();
            lines.try_for_each(|line| writeln!(out, "# {line}"))
        }
    })
}

/// Returns true if the sysctl can be written now; its device may not exist yet.
fn is_due(done: &SysctlOp) -> bool {
    !matches!(done.outcome, Outcome::Failed(_))
}

fn text(out: &mut dyn Write, planned: &Planned, beside: &[String]) -> io::Result<()> {
    for done in planned.settings() {
        let line = match &done.outcome {
            Outcome::Failed(why) => setting::undone(done, &why.to_string()),
            _ => setting::text(done),
        };
        writeln!(out, "{line}")?;
    }
    let plan = &planned.network.plan;
    write_lines(out, plan.text())?;
    for line in beside {
        writeln!(out, "{line}")?;
    }
    if planned.is_converged() && beside.is_empty() {
        return writeln!(out, "nothing to do");
    }
    if planned.is_empty() && beside.is_empty() {
        return writeln!(out, "not known whether there is anything to do");
    }
    let mut counts = counts(plan, planned);
    if !beside.is_empty() {
        let many = "files and commands to run";
        counts = format!("{counts}, {}", count(beside.len(), "file or command to run", many));
    }
    writeln!(out, "{counts}")
}

fn counts(plan: &Plan, planned: &Planned) -> String {
    let of = |action| {
        let due = |op: &&trueup::net::Op| op.action == action && op.hold.is_none();
        plan.ops.iter().filter(due).count()
    };
    let set = planned.settings().filter(|done| is_due(done)).count();
    let mut parts = vec![
        format!("{} to create", of(Action::Create)),
        format!("{} to change", of(Action::Update) + set),
        format!("{} to delete", of(Action::Delete)),
    ];
    let held = plan.ops.iter().filter(|op| op.hold.is_some()).count();
    if held > 0 {
        parts.push(format!("{held} held"));
    }
    let absent = planned.settings().filter(|done| !is_due(done)).count();
    if absent > 0 {
        parts.push(format!("{absent} not possible as things are"));
    }
    let conflicts = plan.conflicts.len();
    if conflicts > 0 {
        parts.push(count(conflicts, "conflict", "conflicts"));
    }
    parts.join(", ")
}

/// The plan as JSON, built while it is written: it may have a million ops.
struct Record<'a>(&'a Planned, Option<&'a Snapshot>);

#[derive(serde::Serialize)]
#[serde(untagged)]
enum Op {
    Setting(Setting),
    Network(OpRecord),
}

/// An object that becomes ours as it is.
#[derive(serde::Serialize)]
struct AdoptedRecord {
    kind: Kind,
    object: String,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let network = &self.0.network;
        let Plan { conflicts, adopted, notices, devices, .. } = &network.plan;
        let len = 5 + usize::from(self.1.is_some());
        let mut out = serializer.serialize_struct("Plan", len)?;
        let ops = || {
            let settings = self.0.settings().map(|done| Op::Setting(Setting::planned(done)));
            let ops = network.plan.ops.iter();
            settings.chain(ops.map(|op| Op::Network(OpRecord::new(op, devices))))
        };
        out.serialize_field("ops", &List(ops))?;
        let conflict = |conflict| ConflictRecord::new(conflict, devices);
        let conflicts = || conflicts.iter().map(conflict);
        out.serialize_field("conflicts", &List(conflicts))?;
        let adopted = || {
            adopted
                .iter()
                .map(|object| AdoptedRecord { kind: object.kind(), object: object.spec(devices) })
        };
        out.serialize_field("adopted", &List(adopted))?;
        let notices = || notices.iter().map(|notice| notice.text(devices));
        out.serialize_field("notices", &List(notices))?;
        let snapshot = snapshot_hash(&network.observed);
        out.serialize_field("snapshot", &snapshot)?;
        if let Some(beside) = self.1 {
            let vertices = || beside.vertices.iter().map(VertexRecord::of);
            out.serialize_field("vertices", &List(vertices))?;
        }
        out.end()
    }
}
