//! The output of `trueup plan`.

use std::io::{self, Write};

use anyhow::Result;
use serde::ser::{Serialize, SerializeSeq as _, SerializeStruct as _, Serializer};
use trueup::net;
use trueup::net::render::snapshot_hash;
use trueup::net::{Action, Kind};
use trueup_agent::text::{planned_op, unfinished, unsettled_lines, vertex_record};
use trueup_agent::{ConflictRecord, OpText, PassReport, Plan};

use super::{Format, List, count, print, print_with_signs, with_causes, write_json, write_lines};

/// Prints the changes that a run would make. Fails if the standard output cannot be written to.
pub(crate) fn plan(format: Format, plan: &Plan) -> Result<()> {
    if format == Format::Text {
        return print_with_signs(|out| text(out, plan));
    }
    print(|out| match format {
        Format::Json => write_json(out, &Record(plan)),
        _ => {
            let mut written = Ok(());
            settings(plan, &mut |set| {
                written = std::mem::replace(&mut written, Ok(()))
                    .and_then(|()| write_lines(out, set.batch()));
            });
            written?;
            write_lines(out, plan.network.batch())?;
            let mut lines = sections(plan).into_iter().chain(beside(plan));
            lines.try_for_each(|line| writeln!(out, "# {line}"))
        }
    })
}

/// Calls `visit` for each op of settings.
fn settings(plan: &Plan, visit: &mut dyn FnMut(&dyn OpText)) {
    plan.settings.iter().for_each(|report| report.ops(visit));
}

/// Returns a line for each file and command that is not in place.
fn beside(plan: &Plan) -> Vec<String> {
    plan.snapshot.as_ref().map(unsettled_lines).unwrap_or_default()
}

/// Returns the lines of sections from users' crates.
fn sections(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, report) in &plan.sections {
        match report {
            Ok(report) => lines.extend(planned(&**report)),
            Err(error) => {
                let why = with_causes(error);
                lines.push(format!("! {name}   (the pass could not run: {why})"));
            }
        }
    }
    lines
}

/// Returns a line for each op, including those that a pass would not try.
fn planned(report: &dyn PassReport) -> Vec<String> {
    let mut lines = Vec::new();
    report.ops(&mut |op| lines.extend(is_due(op).then(|| op.text())));
    if lines.is_empty() { unfinished(report) } else { lines }
}

/// Returns true if the op is possible now. A sysctl's device may not exist yet.
fn is_due(op: &dyn OpText) -> bool {
    op.failure().is_none()
}

fn text(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let mut lines = Vec::new();
    settings(plan, &mut |op| {
        lines.push(if is_due(op) {
            op.text()
        } else {
            format!("! {}   ({})", op.command(), op.why())
        });
    });
    for line in lines {
        writeln!(out, "{line}")?;
    }
    write_lines(out, plan.network.text())?;
    let beside = beside(plan);
    for line in sections(plan).iter().chain(&beside) {
        writeln!(out, "{line}")?;
    }
    if plan.is_converged() {
        return writeln!(out, "nothing to do");
    }
    if plan.is_empty() {
        return writeln!(out, "not known whether there is anything to do");
    }
    let mut counts = counts(plan);
    if !beside.is_empty() {
        let many = "files and commands to run";
        counts = format!("{counts}, {}", count(beside.len(), "file or command to run", many));
    }
    writeln!(out, "{counts}")
}

fn counts(plan: &Plan) -> String {
    let network = &plan.network;
    let (mut create, mut change, mut delete, mut held, mut absent) = (0, 0, 0, 0, 0);
    let mut note = |op: &dyn OpText| match (is_due(op), op.action()) {
        (false, _) => absent += 1,
        (true, "create") => create += 1,
        (true, "delete") => delete += 1,
        (true, _) => change += 1,
    };
    settings(plan, &mut note);
    plan.sections.iter().flat_map(|(_, it)| it).for_each(|report| report.ops(&mut note));
    for op in &network.ops {
        match op.action {
            _ if op.hold.is_some() => held += 1,
            Action::Create => create += 1,
            Action::Update => change += 1,
            Action::Delete => delete += 1,
        }
    }
    let mut parts = vec![
        format!("{create} to create"),
        format!("{change} to change"),
        format!("{delete} to delete"),
    ];
    if held > 0 {
        parts.push(format!("{held} held"));
    }
    if absent > 0 {
        parts.push(format!("{absent} not possible as things are"));
    }
    let conflicts = network.conflicts.len();
    if conflicts > 0 {
        parts.push(count(conflicts, "conflict", "conflicts"));
    }
    parts.join(", ")
}

/// The plan as JSON, built while it is written, because it may have a million ops.
struct Record<'a>(&'a Plan);

/// The ops of all parts.
struct Ops<'a>(&'a Plan);

impl Serialize for Ops<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Plan { network, sections, .. } = self.0;
        let mut out = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        let mut write = |op: &dyn OpText, out: &mut S::SerializeSeq| {
            if written.is_ok() {
                written = out.serialize_element(&planned_op(op));
            }
        };
        settings(self.0, &mut |op| write(op, &mut out));
        let mut network_written = Ok(());
        for op in &network.ops {
            let record = op.record(&network.devices);
            network_written = network_written.and_then(|()| out.serialize_element(&record));
        }
        for report in sections.iter().flat_map(|(_, it)| it) {
            report.ops(&mut |op| write(op, &mut out));
        }
        written.and(network_written)?;
        out.end()
    }
}

/// An object that trueup adopts without a change.
#[derive(serde::Serialize)]
struct AdoptedRecord {
    kind: Kind,
    object: String,
}

impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let net::Plan { conflicts, adopted, notices, devices, .. } = &self.0.network;
        let len = 5 + usize::from(self.0.snapshot.is_some());
        let mut out = serializer.serialize_struct("Plan", len)?;
        out.serialize_field("ops", &Ops(self.0))?;
        let refused = conflicts.iter().map(|it| ConflictRecord::new(it, devices));
        out.serialize_field("conflicts", &List(refused))?;
        let adopted = adopted
            .iter()
            .map(|object| AdoptedRecord { kind: object.kind(), object: object.spec(devices) });
        out.serialize_field("adopted", &List(adopted))?;
        out.serialize_field("notices", &List(notices.iter().map(|it| it.text(devices))))?;
        let snapshot = snapshot_hash(&self.0.observed.observed).to_string();
        out.serialize_field("snapshot", &snapshot)?;
        if let Some(snapshot) = &self.0.snapshot {
            out.serialize_field("vertices", &List(snapshot.vertices.iter().map(vertex_record)))?;
        }
        out.end()
    }
}
