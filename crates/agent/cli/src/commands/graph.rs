//! `trueup graph`: the graph of a file with the state of each vertex. Needs no privilege and
//! changes nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;
use trueup::graph::{EdgeKind, Snapshot};
use trueup_agent::text::{is_settled, vertex_line, vertex_name, vertex_record};
use trueup_file::NodeRef;

use super::{agent, plan};
use crate::Common;
use crate::output::{self, Format};

pub(crate) fn graph(common: &Common, file: &Path) -> Result<ExitCode> {
    if common.format == Format::Ip {
        bail!("`graph` prints no commands: --format is text, json, dot or svg here");
    }
    let agent = agent(common)?;
    let snapshot = agent.graph(&agent.read(file, common.writers())?)?;
    output::print(|out| match common.format {
        Format::Json => output::write_json(out, &record(&snapshot)),
        Format::Dot => output::write_lines(out, snapshot.to_dot()),
        Format::Svg => output::write_lines(out, snapshot.to_svg()),
        Format::Text | Format::Ip => {
            lines(&snapshot).iter().try_for_each(|line| writeln!(out, "{line}"))
        }
    })?;
    let is_settled = snapshot.vertices.iter().all(is_settled);
    Ok(ExitCode::from(if is_settled { 0 } else { plan::PENDING }))
}

/// Prints the state of a file, by its name or path, or of a command, with its predecessors.
pub(super) fn why(common: &Common, file: Option<&Path>, of: &NodeRef) -> Result<ExitCode> {
    let asked = of.to_string().replacen('.', " ", 1);
    let Some(file) = file else {
        bail!("{asked}: name the file that declares it with --file FILE");
    };
    let agent = agent(common)?;
    let declared = agent.read(file, common.writers())?;
    let snapshot = agent.graph(&declared)?;
    let name = vertex_name(&declared.file, of);
    let mut vertices = snapshot.vertices.iter().enumerate();
    let Some((at, vertex)) = vertices.find(|(_, it)| name.as_ref() == Some(&it.name)) else {
        bail!("{asked}: {} declares none of that name", file.display());
    };
    output::print(|out| {
        if common.format == Format::Json {
            return output::write_json(out, &vertex_record(vertex));
        }
        writeln!(out, "{}", vertex_line(vertex))?;
        for (parent, _, kind) in snapshot.edges.iter().filter(|(_, child, _)| *child == at) {
            let line = vertex_line(&snapshot.vertices[*parent]);
            writeln!(out, "{}", parent_line(&line, *kind, snapshot.kinds(*parent, at)))?;
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a line for a predecessor. If its edge passes on only some kinds of change, the line
/// names them.
fn parent_line(parent: &str, kind: EdgeKind, kinds: &[String]) -> String {
    match kind {
        EdgeKind::AfterTried => format!("  ordered after {parent}"),
        EdgeKind::After => format!("  after {parent}"),
        EdgeKind::RefreshedByKinds => format!("  refreshed by {} of {parent}", kinds.join(", ")),
        EdgeKind::RefreshedBy => format!("  refreshed by {parent}"),
    }
}

/// Returns a line for each vertex, parents first, each with the lines of its predecessors.
fn lines(snapshot: &Snapshot) -> Vec<String> {
    let mut parents = vec![Vec::new(); snapshot.vertices.len()];
    for (parent, child, kind) in &snapshot.edges {
        let name = &snapshot.vertices[*parent].name;
        let kinds = snapshot.kinds(*parent, *child);
        parents[*child].push(parent_line(name, *kind, kinds));
    }
    let each = snapshot.vertices.iter().zip(parents);
    each.flat_map(|(vertex, parents)| [vec![vertex_line(vertex)], parents].concat()).collect()
}

#[derive(Serialize)]
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    refreshes: bool,
    /// The kinds of change that refresh. Empty if all do.
    kinds: &'a [String],
    /// True if a failure of the predecessor blocks the vertex.
    holds_back: bool,
}

fn record(snapshot: &Snapshot) -> impl Serialize {
    #[derive(Serialize)]
    struct Record<V, E> {
        vertices: Vec<V>,
        edges: Vec<E>,
    }
    let edges = snapshot.edges.iter().map(|(from, to, kind)| Edge {
        from: &snapshot.vertices[*from].name,
        to: &snapshot.vertices[*to].name,
        kinds: snapshot.kinds(*from, *to),
        refreshes: *kind >= EdgeKind::RefreshedByKinds,
        holds_back: *kind != EdgeKind::AfterTried,
    });
    Record {
        vertices: snapshot.vertices.iter().map(vertex_record).collect(),
        edges: edges.collect(),
    }
}
