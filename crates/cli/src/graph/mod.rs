//! The graph of a file: the network namespace as one vertex, each `[[file]]` and each `[[exec]]` as
//! one, and the order between them.

mod once;
mod reported;
mod running;
mod section;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use trueup::graph::{Exec, Failure, File, Snapshot, Vertex, VertexSpec};
use trueup::reconcile::Ledger;
use trueup_file::{self as file, FileContent, ManagedFile, NodeRef};

pub(crate) use once::{Once, Passed, run_once};
pub(crate) use reported::{OnResult, Reported};
pub(crate) use running::RunningGraph;
use section::Section;
pub(crate) use section::{Changes, Network};

/// The vertex of sysctls, links, addresses, neighbours, routes and rules, declared and collected.
pub(crate) const NETWORK: &str = "network";

/// The time between two tries of what failed.
const RETRY: Duration = Duration::from_secs(10);

/// A vertex with its declaration.
pub(crate) type Declared = (VertexSpec, Box<dyn Vertex>);

/// Makes the vertices of a file: that of the network, as it is given, and those of its files and
/// commands. What runs after a section of the network runs after all of it; what is refreshed by
/// one is so by its own changes, through a vertex of its name.
pub(crate) fn vertices(
    declared: &file::File,
    network: Box<dyn Vertex>,
    by: &Network,
) -> Vec<Declared> {
    // Its loop says when it is tried again.
    let spec = VertexSpec::new(NETWORK).with_retry(0, RETRY);
    let files = files(declared).iter().map(file_vertex);
    let execs_vertices = execs(declared).iter();
    let execs_vertices = execs_vertices.map(|exec| exec_vertex(exec, declared));
    let sections = execs(declared).iter().flat_map(|exec| &exec.on);
    let sections: BTreeSet<&str> = sections.filter_map(section_of_network).collect();
    let sections = sections.into_iter().map(|name| section_vertex(name, by));
    let network = [(spec, network)].into_iter();
    let beside = sections.chain(files).chain(execs_vertices);
    network.chain(beside).collect()
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

/// Says what files and commands would do now, after what the network's vertex says of itself.
pub(crate) fn check(
    declared: &file::File,
    network: Box<dyn Vertex>,
    changes: &Changes,
    ledger: &dyn Ledger,
) -> anyhow::Result<Snapshot> {
    let by = Network::at_start(changes, ledger)?;
    Ok(trueup::graph::check(
        vertices(declared, network, &by),
        ledger,
    )?)
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

fn exec_vertex(declared: &file::Exec, all: &file::File) -> Declared {
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
    let after = declared.after.iter().flat_map(|it| names(it, all));
    spec = after.fold(spec, |spec, parent| spec.after(&parent));
    let on = declared.on.iter();
    let on = on.flat_map(|it| match section_of_network(it) {
        Some(section) => vec![section.to_owned()],
        None => names(it, all),
    });
    spec = on.fold(spec, |spec, parent| spec.refreshed_by(&parent));
    (settled(spec, declared), Box::new(vertex))
}

fn section_vertex(name: &str, by: &Network) -> Declared {
    let spec = VertexSpec::new(name).unwatched().refreshed_by(NETWORK);
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
        NodeRef::Section(_) => vec![NETWORK.to_owned()],
        NodeRef::File(_) | NodeRef::Exec(_) => vec![reference.to_string()],
    }
}

fn split(command: &[String]) -> (&str, &[String]) {
    command
        .split_first()
        .map_or(("", &[]), |(program, arguments)| (program, arguments))
}
