//! The vertices of a graph as text and as JSON.

use serde::Serialize;
use trueup_file::{File, NodeRef};
use trueup_graph::{Explanation, Snapshot, Verdict, Wait};

use super::{FILE, file_name};
use crate::status::count;
use crate::world::EXPORTER;

/// The state of a vertex.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VertexState {
    InPlace,
    WouldChange,
    Running,
    Waiting,
    Failed,
}

impl VertexState {
    pub(crate) fn of(vertex: &Explanation) -> VertexState {
        match (vertex.running, vertex.last) {
            (true, _) => VertexState::Running,
            (false, Some(Err(_))) => VertexState::Failed,
            (false, _) if !vertex.waits.is_empty() => VertexState::Waiting,
            (false, Some(Ok(Verdict::WouldChange))) => VertexState::WouldChange,
            (false, Some(Ok(Verdict::InPlace | Verdict::Changed))) => VertexState::InPlace,
            (false, None) => VertexState::Waiting,
        }
    }

    /// Returns the state's name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            VertexState::InPlace => "in_place",
            VertexState::WouldChange => "would_change",
            VertexState::Running => "running",
            VertexState::Waiting => "waiting",
            VertexState::Failed => "failed",
        }
    }
}

/// Returns a vertex as the element of `vertices` in the JSON of plans and reports.
pub fn vertex_record(vertex: &Explanation) -> impl Serialize + use<> {
    #[derive(Serialize)]
    struct Record {
        vertex: String,
        state: &'static str,
        waits_for: Vec<String>,
        refreshes: u32,
        message: Option<String>,
    }
    Record {
        vertex: vertex.name.clone(),
        state: VertexState::of(vertex).name(),
        waits_for: waits(vertex).collect(),
        refreshes: vertex.refreshes,
        message: vertex.message.clone(),
    }
}

/// Returns true if the vertex is in place, with nothing left to do.
pub fn is_settled(vertex: &Explanation) -> bool {
    VertexState::of(vertex) == VertexState::InPlace
}

/// Returns the reasons why a vertex waits. A failure without a retry is left out: `apply` tries
/// each vertex once, and the network's loop has a schedule of its own.
fn waits(vertex: &Explanation) -> impl Iterator<Item = String> {
    vertex.waits.iter().filter(|wait| **wait != Wait::Event).map(Wait::to_string)
}

/// Returns a vertex's line: its name, its state, and the reason.
pub fn vertex_line(vertex: &Explanation) -> String {
    let state = VertexState::of(vertex);
    let mut parts = vec![match (vertex.reversal, state) {
        (true, VertexState::WouldChange) => "would be removed".to_owned(),
        _ => state.name().replace('_', " "),
    }];
    parts.extend(waits(vertex));
    match vertex.refreshes {
        0 => {}
        1 => parts.push("1 refresh pending".to_owned()),
        many => parts.push(format!("{many} refreshes pending")),
    }
    let message = vertex.message.iter().map(|it| format!(": {it}"));
    let name = &vertex.name;
    format!("{name}   {}{}", parts.join("; "), message.collect::<String>())
}

/// Returns a line for each vertex of `snapshot` that is not in place. Vertices that are part of a
/// report are left out.
pub fn unsettled_lines(snapshot: &Snapshot) -> Vec<String> {
    let unsettled = beside(snapshot).filter(|it| !is_settled(it));
    unsettled
        .map(|it| {
            let sign = if VertexState::of(it) == VertexState::WouldChange { '~' } else { '!' };
            format!("{sign} {}", vertex_line(it))
        })
        .collect()
}

/// Returns true if all vertices without a report are in place.
pub(crate) fn is_in_place(snapshot: &Snapshot) -> bool {
    beside(snapshot).all(is_settled)
}

/// Returns why the graph is not converged, beside the network. `None` if it is.
pub(crate) fn graph_verdict(snapshot: &Snapshot) -> Option<String> {
    let states = [VertexState::Failed, VertexState::Waiting];
    let parts: Vec<String> = states
        .into_iter()
        .filter_map(|state| {
            let vertices = beside(snapshot).filter(|it| VertexState::of(it) == state);
            named(vertices.map(|it| it.name.as_str()), state.name())
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The most vertices named in one line.
const MAX_NAMED: usize = 3;

/// Returns the given vertices and their state in words. `None` if there are none.
pub(crate) fn named<'a>(mut names: impl Iterator<Item = &'a str>, state: &str) -> Option<String> {
    let first: Vec<&str> = names.by_ref().take(MAX_NAMED).collect();
    let more = match names.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!first.is_empty()).then(|| format!("{}{more} {state}", first.join(", ")))
}

/// Returns the vertices that are not part of a report.
fn beside(snapshot: &Snapshot) -> impl Iterator<Item = &Explanation> {
    snapshot.vertices.iter().filter(|it| is_reported_alone(&it.name))
}

/// Returns true for files, commands and the exporter, which report each of their runs. The network
/// and its sections, which have no dot in their names, share one report; the world's report covers
/// the collector.
pub(crate) fn is_reported_alone(vertex: &str) -> bool {
    is_of_file_or_command(vertex) || vertex == EXPORTER
}

/// True for the vertex of a `[[file]]` or an `[[exec]]`.
pub(crate) fn is_of_file_or_command(vertex: &str) -> bool {
    vertex.starts_with(FILE) || vertex.contains('.')
}

/// Returns the line of a vertex that has changed something.
pub(crate) fn change_line(declared: &File, name: &str) -> String {
    let mut files = declared.files.iter().flatten();
    if files.any(|it| file_name(it) == name) {
        return format!("~ {name}");
    }
    let mut execs = declared.execs.iter().flatten();
    match execs.find(|it| NodeRef::Exec(it.name.clone()).to_string() == name) {
        Some(exec) => format!("~ {name}   ({})", exec.command.join(" ")),
        None if name == EXPORTER => {
            let exports = declared.exports.iter().flatten().count();
            format!("~ {name}   ({})", count(exports, "export", "exports"))
        }
        // It has left the declaration.
        None => format!("- {name}"),
    }
}
