//! The graph of a file: each part of the network namespace, each `[[file]]` and each `[[exec]]` as a
//! vertex, and the order between them.

mod once;
mod part;
mod reported;
mod running;
mod section;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use trueup::graph::{Exec, Failure, File, RunContext, Snapshot, Verdict, Vertex, VertexSpec};
use trueup::reconcile::Ledger;
use trueup_file::{self as file, FileContent, ManagedFile, NodeRef};

use crate::host::Part;
pub(crate) use once::{Once, Passed, run_once};
use part::Before;
pub(crate) use part::Unsettled;
pub(crate) use reported::{OnResult, Reported};
pub(crate) use running::{RunningGraph, Sources};
use section::Section;
pub(crate) use section::{Changes, Network};

/// The time between two tries of what failed.
const RETRY: Duration = Duration::from_secs(10);

/// A vertex with its declaration.
pub(crate) type Declared = (VertexSpec, Box<dyn Vertex>);

/// The section of settings.
const SYSCTL: &str = "sysctl";

/// The vertices of the parts of a namespace, in the order in which they run.
pub(crate) type Parts = Vec<(Part, Box<dyn Vertex>)>;

/// Makes the vertices of a file: those of the namespace, as they are given, and those of its files
/// and commands. What runs after a section of the network runs after all of it, and what runs after
/// the settings after all of those. What is refreshed by a section is so by its own changes,
/// through a vertex of its name.
pub(crate) fn vertices(declared: &file::File, parts: Parts, by: &Network) -> Vec<Declared> {
    let of_settings = parts.iter().map(|(part, _)| *part);
    let of_settings: Vec<Part> = of_settings.filter(|part| part.is_of_settings()).collect();
    let mut before = None;
    let parts = parts.into_iter().map(|(part, vertex)| {
        // Its loop says when it is tried again.
        let spec = VertexSpec::new(part.name()).with_retry(0, RETRY);
        let before = before.replace(part);
        let spec = before
            .into_iter()
            .fold(spec, |spec, it| spec.after(it.name()));
        (spec, vertex)
    });
    let parts: Vec<Declared> = parts.collect();
    let files = files(declared).iter().map(file_vertex);
    let execs_vertices = execs(declared).iter();
    let execs_vertices = execs_vertices.map(|exec| exec_vertex(exec, declared, &of_settings));
    let sections = sections(declared, &of_settings);
    let sections = sections
        .into_iter()
        .map(|name| section_vertex(name, by, &of_settings));
    let beside = sections.chain(files).chain(execs_vertices);
    parts.into_iter().chain(beside).collect()
}

/// Returns the sections that have a vertex of their own: those that commands are refreshed by, and
/// that of the settings if commands run after them.
fn sections<'a>(declared: &'a file::File, of_settings: &[Part]) -> BTreeSet<&'a str> {
    let on = execs(declared).iter().flat_map(|exec| &exec.on);
    let on = on.filter_map(section_of_network);
    let after = execs(declared).iter().flat_map(|exec| &exec.after);
    let after = after.filter_map(section_of_network);
    let after = after.filter(|name| *name == SYSCTL && !of_settings.is_empty());
    on.chain(after).collect()
}

/// Returns true if there is more than the network: files and commands, or what the graph's ledger
/// has of earlier ones.
///
/// # Errors
///
/// When the ledger cannot be read.
pub(crate) fn is_needed(declared: &file::File, ledger: &dyn Ledger) -> anyhow::Result<bool> {
    let is_declared = !files(declared).is_empty() || !execs(declared).is_empty();
    Ok(is_declared || !ledger.owned()?.is_empty())
}

/// Says what files and commands would do now, after what the parts of the namespace would.
pub(crate) fn check(
    declared: &file::File,
    parts: Vec<(Part, Result<Verdict, Failure>)>,
    changes: &Changes,
    ledger: &dyn Ledger,
) -> anyhow::Result<Snapshot> {
    let by = Network::at_start(changes, ledger)?;
    let parts = parts.into_iter().map(|(part, verdict)| {
        let vertex = move |_: &RunContext, _: bool| verdict.clone();
        (part, before(part, Box::new(vertex), || true, &by.unsettled))
    });
    let vertices = vertices(declared, parts.collect(), &by);
    let snapshot = trueup::graph::check(vertices, ledger)?;
    Ok(by.unsettled.show(snapshot))
}

/// Makes the vertex of a part: what fails in one before the network does not hold that back.
fn before(
    part: Part,
    vertex: Box<dyn Vertex>,
    has_run: impl Fn() -> bool + Send + 'static,
    unsettled: &Unsettled,
) -> Box<dyn Vertex> {
    match part {
        Part::Network => vertex,
        _ => Box::new(Before::new(part, vertex, has_run, unsettled)),
    }
}

fn files(declared: &file::File) -> &[ManagedFile] {
    declared.files.as_deref().unwrap_or_default()
}

fn execs(declared: &file::File) -> &[file::Exec] {
    declared.execs.as_deref().unwrap_or_default()
}

fn file_name(file: &ManagedFile) -> String {
    NodeRef::File(file.name.clone()).to_string()
}

fn exec_name(exec: &file::Exec) -> String {
    NodeRef::Exec(exec.name.clone()).to_string()
}

fn file_vertex(declared: &ManagedFile) -> Declared {
    let vertex = match &declared.content {
        FileContent::Text(text) => File::new(&declared.path, text.clone()),
        FileContent::Source(source) => File::from_source(&declared.path, source),
    };
    let user = declared.owner.map(|owner| owner.user);
    let group = declared.owner.and_then(|owner| owner.group);
    let vertex = vertex.with_mode(declared.mode).with_owner(user, group);
    let spec = VertexSpec::new(&file_name(declared));
    (settled(spec, declared), Box::new(vertex))
}

/// Makes a vertex that removes a file which has left the declaration, of the record of its vertex.
fn restored(name: &str, record: &[u8]) -> Result<Declared, Failure> {
    let spec = VertexSpec::new(name).with_retry(u32::MAX, RETRY);
    Ok((spec, Box::new(File::from_record(record)?)))
}

fn exec_vertex(declared: &file::Exec, all: &file::File, of_settings: &[Part]) -> Declared {
    // The file crate lets no command be empty.
    let (program, arguments) = split(&declared.command);
    let mut vertex = Exec::new(program, arguments).with_timeout(declared.timeout);
    if let Some(check) = &declared.check {
        let (program, arguments) = split(check);
        vertex = vertex.with_check(program, arguments);
    }
    if !declared.on.is_empty() {
        vertex = vertex.only_refreshed();
    }
    let mut spec = VertexSpec::new(&exec_name(declared)).unwatched();
    for semaphore in &declared.semaphores {
        spec = spec.with_semaphore(&semaphore.id, semaphore.count);
    }
    let after = declared.after.iter();
    let after = after.flat_map(|it| match section_of_network(it) {
        Some(SYSCTL) if !of_settings.is_empty() => vec![SYSCTL.to_owned()],
        _ => names(it, all),
    });
    spec = after.fold(spec, |spec, parent| spec.after(&parent));
    let on = declared.on.iter();
    let on = on.flat_map(|it| match section_of_network(it) {
        Some(section) => vec![section.to_owned()],
        None => names(it, all),
    });
    spec = on.fold(spec, |spec, parent| spec.refreshed_by(&parent));
    (settled(spec, declared), Box::new(vertex))
}

fn section_vertex(name: &str, by: &Network, of_settings: &[Part]) -> Declared {
    let parents = match name {
        SYSCTL if !of_settings.is_empty() => of_settings,
        _ => &[Part::Network],
    };
    // It is tried again when one of these has run.
    let spec = VertexSpec::new(name).unwatched().with_retry(0, RETRY);
    let parents = parents.iter().map(|part| part.name());
    let spec = parents.fold(spec, |spec, parent| spec.refreshed_by(parent));
    (spec, Box::new(Section::new(name, by)))
}

/// Returns the section that a reference is about, if that is one of the network.
fn section_of_network(reference: &NodeRef) -> Option<&str> {
    match reference {
        NodeRef::Section(name) if name != "file" && name != "exec" => Some(name),
        _ => None,
    }
}

/// Sets what all files and commands have: the revision, and that they are tried again without end.
fn settled(spec: VertexSpec, declared: &impl std::fmt::Debug) -> VertexSpec {
    let mut hasher = DefaultHasher::new();
    // It has all that is declared.
    format!("{declared:?}").hash(&mut hasher);
    let spec = spec.with_revision(hasher.finish());
    spec.with_retry(u32::MAX, RETRY)
}

/// Returns the names of the vertices that a reference is about.
fn names(reference: &NodeRef, all: &file::File) -> Vec<String> {
    match reference {
        NodeRef::Section(name) if name == "file" => files(all).iter().map(file_name).collect(),
        NodeRef::Section(name) if name == "exec" => execs(all).iter().map(exec_name).collect(),
        NodeRef::Section(_) => vec![Part::Network.name().to_owned()],
        NodeRef::File(_) | NodeRef::Exec(_) => vec![reference.to_string()],
    }
}

fn split(command: &[String]) -> (&str, &[String]) {
    command
        .split_first()
        .map_or(("", &[]), |(program, arguments)| (program, arguments))
}
