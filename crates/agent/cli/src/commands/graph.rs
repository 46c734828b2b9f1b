//! `trueup graph`: the graph of a file with the state of each vertex. Needs no privilege and
//! changes nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;
use trueup::graph::{EdgeKind, Snapshot};
use trueup_agent::text::{VertexRecord, VertexState, file_name, vertex_line};

use super::why::FILE;
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
        Format::Json => {
            serde_json::to_writer(&mut *out, &Record::of(&snapshot))?;
            writeln!(out)
        }
        Format::Dot => output::write_lines(out, snapshot.to_dot()),
        Format::Svg => output::write_lines(out, snapshot.to_svg()),
        Format::Text | Format::Ip => {
            for line in lines(&snapshot) {
                writeln!(out, "{line}")?;
            }
            Ok(())
        }
    })?;
    let states = snapshot.vertices.iter().map(VertexState::of);
    Ok(match states.into_iter().all(|it| it == VertexState::InPlace) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(plan::PENDING),
    })
}

/// Prints how a file, by its name or path, or a command stands, and what it runs after.
pub(super) fn why(
    common: &Common,
    file: Option<&Path>,
    sort: &str,
    name: &str,
) -> Result<ExitCode> {
    let Some(file) = file else {
        bail!("{sort} {name}: name the file that declares it with --file FILE");
    };
    let agent = agent(common)?;
    let declared = agent.read(file, common.writers())?;
    let mut files = declared.file.files.iter().flatten();
    let vertex = match sort {
        FILE => files.find(|it| it.name == name || it.path == Path::new(name)).map(file_name),
        _ => Some(format!("{sort}.{name}")),
    };
    let snapshot = agent.graph(&declared)?;
    let at = vertex.and_then(|it| snapshot.vertices.iter().position(|at| at.name == it));
    let Some(at) = at else {
        bail!("{sort} {name}: {} declares none of that name", file.display());
    };
    let parents = snapshot.edges.iter().filter(|(_, child, _)| *child == at);
    output::print(|out| match common.format {
        Format::Json => {
            let record = VertexRecord::of(&snapshot.vertices[at]);
            serde_json::to_writer(&mut *out, &record)?;
            writeln!(out)
        }
        _ => {
            let line = vertex_line(&snapshot.vertices[at]);
            writeln!(out, "{line}")?;
            for (at_parent, _, kind) in parents {
                let parent = vertex_line(&snapshot.vertices[*at_parent]);
                let line = parent_line(&parent, *kind, snapshot.kinds(*at_parent, at));
                writeln!(out, "{line}")?;
            }
            Ok(())
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a line for a parent; with the kinds of change that its edge passes on, if these are not
/// all.
fn parent_line(parent: &str, kind: EdgeKind, kinds: &[String]) -> String {
    match kind {
        EdgeKind::AfterTried => format!("  ordered after {parent}"),
        EdgeKind::After => format!("  after {parent}"),
        EdgeKind::RefreshedByKinds => format!("  refreshed by {} of {parent}", kinds.join(", ")),
        EdgeKind::RefreshedBy => format!("  refreshed by {parent}"),
    }
}

/// Returns a line for each vertex, parents first, and under it what it runs after.
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
struct Record<'a> {
    vertices: Vec<VertexRecord>,
    edges: Vec<Edge<'a>>,
}

#[derive(Serialize)]
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    refreshes: bool,
    /// The kinds of change that refresh; none if all do.
    kinds: &'a [String],
    /// A failure of the one holds back the other.
    holds_back: bool,
}

impl Record<'_> {
    fn of(snapshot: &Snapshot) -> Record<'_> {
        let name = |at: usize| snapshot.vertices[at].name.as_str();
        let edges = snapshot.edges.iter();
        let edges = edges.map(|(from, to, kind)| Edge {
            from: name(*from),
            to: name(*to),
            kinds: snapshot.kinds(*from, *to),
            refreshes: *kind >= EdgeKind::RefreshedByKinds,
            holds_back: *kind != EdgeKind::AfterTried,
        });
        Record {
            vertices: snapshot.vertices.iter().map(VertexRecord::of).collect(),
            edges: edges.collect(),
        }
    }
}
