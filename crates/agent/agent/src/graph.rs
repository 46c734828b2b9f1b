//! The graph of a file: each part of the network namespace, what is collected and exported, each
//! `[[file]]` and each `[[exec]]` as a vertex, and the order between them.

mod derived;
mod once;
mod running;
mod vertex_state;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::time::Duration;

use trueup_file::{self as file, FileContent, ManagedFile, NodeRef};
use trueup_graph::{
    Exec, Failure, File, Places, RunContext, Snapshot, Verdict, Vertex, VertexSpec,
};
use trueup_reconcile::{ErrorClass, Ledger};
use trueup_rtnl::Namespace;

use crate::part::Part;
use crate::state::LedgerOf;
use crate::world::{COLLECTOR, EXPORTER};
use derived::{Derived, derived};
pub(crate) use once::run_once;
pub(crate) use running::{Around, OnResult, RunningGraph, Sources};
pub(crate) use vertex_state::{
    VertexState, change_line, graph_verdict, is_in_place, is_of_file_or_command, is_reported_alone,
    named,
};
pub use vertex_state::{is_settled, unsettled_lines, vertex_line, vertex_record};

/// The time between two tries of what failed.
const RETRY: Duration = Duration::from_secs(10);

/// The same for what does not pass by itself, such as a missing permission.
const SLOW_RETRY: Duration = Duration::from_secs(60);

/// The time between two tries to reach the store.
const WORLD_RETRY: Duration = Duration::from_secs(1);

/// The time after which what failed, and is not tried again by itself, looks at what came during its
/// run.
const SOON: Duration = Duration::from_millis(100);

/// A vertex with its declaration.
pub(crate) type Declared = (VertexSpec, Box<dyn Vertex>);

/// The semaphore of the parts that write links, which work with one ledger. No command has one of
/// this name.
const LINKS: &str = "the links";

/// How often a file is looked at: so often at once, and in the long run once in this time. Another
/// writer that answers each change with another one is not fought at its pace.
const FILE_RATE: (Duration, u32) = (Duration::from_millis(500), 20);

/// How the name of a file's vertex begins.
pub(crate) const FILE: &str = "file:";

/// The section of settings.
const SYSCTL: &str = "sysctl";

/// The vertices of the parts of a namespace, in the order in which they run.
pub(crate) type Parts = Vec<(Part, Box<dyn Vertex>)>;

/// The vertices of a file with `[world]`.
pub(crate) struct WorldVertices {
    /// It comes before the network, whose routes it collects.
    pub collector: Box<dyn Vertex>,
    pub exporter: Box<dyn Vertex>,
}

/// How files and commands run.
pub(crate) struct Runs {
    /// The time between two checks of a command, or two looks at a file; `None` if there is one run.
    pub interval: Option<Duration>,
    /// The network namespace of the desired state.
    pub namespace: Namespace,
    /// The places of the files.
    pub places: Places,
}

/// Makes vertices of the same loops again.
pub(crate) type MakeWorld = Box<dyn Fn() -> WorldVertices + Send + Sync>;

/// Makes the vertices of a file: those of the namespace, as they are given, and those of its files
/// and commands. The parts come in their order, after the collector, and one that fails holds back
/// no other. What runs after a section of the network runs after all of it, and what runs after the
/// settings after all of those. What is refreshed by a section is so by its own changes: its edge
/// passes on their kind alone.
pub(crate) fn vertices(
    declared: &file::File,
    parts: Parts,
    world: Option<WorldVertices>,
    run: &Runs,
) -> Vec<Declared> {
    let ids = || parts.iter().map(|(part, _)| *part);
    let has = Has {
        of_settings: ids().filter(|it| it.is_of_settings()).map(|it| it.name).collect(),
        own: ids().filter(|it| it.is_of_user()).map(|it| it.name).collect(),
        world: world.is_some(),
    };
    let mut vertices = Vec::new();
    let mut before = Vec::from_iter(has.world.then_some(COLLECTOR));
    for (part, vertex) in parts {
        // Its loop says when it is tried again.
        let mut spec = VertexSpec::new(part.name).with_retry(0, SOON);
        if part.is_of_user() {
            if part.is_after_network {
                spec = spec.after_tried(Part::NETWORK.name);
            }
        } else {
            spec = before.iter().fold(spec, |spec, it| spec.after_tried(it));
            before.push(part.name);
            if part.ledger == LedgerOf::Network {
                spec = spec.with_semaphore(LINKS, 1);
            }
        }
        vertices.push((spec, vertex));
    }
    vertices.extend(world.into_iter().flat_map(world_vertices));
    let mut derived: BTreeMap<String, Vec<Derived>> = BTreeMap::new();
    for it in self::derived(declared, &has) {
        derived.entry(it.vertex.clone()).or_default().push(it);
    }
    let files =
        files(declared).iter().map(|file| (file_vertex(file, run), (&file.after, &file.on)));
    let execs =
        execs(declared).iter().map(|exec| (exec_vertex(exec, run), (&exec.after, &exec.on)));
    for ((spec, vertex), (after, on)) in files.chain(execs) {
        let mut spec = ordered(spec, after, on, declared, &has);
        for it in derived.remove(spec.name()).into_iter().flatten() {
            spec = if it.is_needed { spec.after(&it.after) } else { spec.after_tried(&it.after) };
        }
        vertices.push((spec, vertex));
    }
    vertices
}

/// What a graph has beside the network.
struct Has {
    /// The parts of settings.
    of_settings: Vec<&'static str>,
    /// The sections that a user's crate has added.
    own: Vec<&'static str>,
    world: bool,
}

fn world_vertices(world: WorldVertices) -> [Declared; 2] {
    // It runs when something has changed; if the network's loop is busy, again.
    let collector = VertexSpec::new(COLLECTOR).with_retry(0, SOON).with_class_retry(
        ErrorClass::Busy,
        u32::MAX,
        WORLD_RETRY,
    );
    let exporter = VertexSpec::new(EXPORTER).with_retry(u32::MAX, WORLD_RETRY);
    [(collector, world.collector), (exporter, world.exporter)]
}

/// Returns true if there is more than the network: files and commands, or what the graph's ledger
/// has of earlier ones. Fails if the ledger cannot be read.
pub(crate) fn is_needed(declared: &file::File, ledger: &dyn Ledger) -> crate::error::Result<bool> {
    let is_declared = !files(declared).is_empty() || !execs(declared).is_empty();
    Ok(is_declared || !ledger.owned()?.is_empty())
}

/// Says what files and commands would do now, after what the parts of the namespace would: with
/// changes of these kinds.
pub(crate) fn check(
    declared: &file::File,
    parts: Vec<(Part, Result<Verdict, Failure>)>,
    kinds: &BTreeSet<&'static str>,
    world: Option<WorldVertices>,
    ledger: &dyn Ledger,
) -> crate::error::Result<Snapshot> {
    let looks = parts.into_iter().map(|(part, verdict)| {
        let changed = kinds.clone();
        let vertex: Box<dyn Vertex> = Box::new(move |context: &RunContext, _: bool| {
            context.has_changed(changed.iter().copied());
            verdict.clone()
        });
        (part, vertex)
    });
    let run = Runs {
        interval: None,
        // No command runs.
        namespace: Namespace::current(),
        places: Places::default(),
    };
    let vertices = vertices(declared, looks.collect(), world, &run);
    Ok(trueup_graph::check(vertices, ledger)?)
}

fn files(declared: &file::File) -> &[ManagedFile] {
    declared.files.as_deref().unwrap_or_default()
}

fn execs(declared: &file::File) -> &[file::Exec] {
    declared.execs.as_deref().unwrap_or_default()
}

/// Returns the name of the vertex of a file, by its name or path, or of a command; `None` if none is
/// declared.
pub fn vertex_name(declared: &file::File, of: &NodeRef) -> Option<String> {
    match of {
        NodeRef::File(name) => {
            let mut files = files(declared).iter();
            files.find(|it| it.name == *name || it.path == Path::new(name)).map(file_name)
        }
        NodeRef::Exec(name) => execs(declared).iter().find(|it| it.name == *name).map(exec_name),
        NodeRef::Section(_) => None,
    }
}

/// Returns the name of a file's vertex. It is that of the path: what was made there is kept by this
/// name, whatever the section is called.
fn file_name(file: &ManagedFile) -> String {
    format!("{FILE}{}", file.path.display())
}

fn exec_name(exec: &file::Exec) -> String {
    NodeRef::Exec(exec.name.clone()).to_string()
}

fn file_vertex(declared: &ManagedFile, run: &Runs) -> Declared {
    let file = match &declared.content {
        FileContent::Text(text) => File::new(&declared.path, text.clone()),
        FileContent::Source(source) => File::from_source(&declared.path, source),
    };
    let user = declared.owner.map(|(user, _)| user);
    let group = declared.owner.and_then(|(_, group)| group);
    let vertex = file.with_mode(declared.mode).with_owner(user, group).with_places(&run.places);
    let (every, burst) = FILE_RATE;
    let mut spec = VertexSpec::new(&file_name(declared)).with_rate(every, burst);
    if let Some(interval) = run.interval {
        // Not all that changes it is announced.
        spec = spec.with_poll(interval);
    }
    (settled(spec, declared), Box::new(vertex))
}

/// Makes a vertex that removes a file which has left the declaration, of the record of its vertex.
fn restored(name: &str, record: &[u8]) -> Result<Declared, Failure> {
    let spec = retried(VertexSpec::new(name));
    Ok((spec, Box::new(File::from_record(record)?)))
}

/// Returns the command of a declaration, for a network namespace.
pub(crate) fn exec(declared: &file::Exec, namespace: &Namespace) -> Exec {
    // The file crate lets no command be empty.
    let (program, arguments) = split(&declared.command);
    let mut vertex = Exec::new(program, arguments)
        .with_timeout(declared.timeout)
        .with_environment(&declared.environment);
    if declared.ambient {
        vertex = vertex.with_ambient_capabilities();
    }
    if declared.netns {
        let there = namespace.clone();
        vertex = vertex.with_spawn(move |command| {
            let entered = there.enter(|| command.spawn());
            entered.unwrap_or_else(|error| Err(io::Error::other(error)))
        });
    }
    if let Some(check) = &declared.check {
        let (program, arguments) = split(check);
        vertex = vertex.with_check(program, arguments);
    }
    if !declared.on.is_empty() && declared.every.is_none() {
        vertex = vertex.only_refreshed();
    }
    vertex
}

fn exec_vertex(declared: &file::Exec, run: &Runs) -> Declared {
    let spec = VertexSpec::new(&exec_name(declared));
    // Nothing tells of what a check looks at.
    let has_checks = declared.check.is_some() && declared.on.is_empty();
    let every = declared.every.or(run.interval.filter(|_| has_checks));
    let mut spec = match every.filter(|_| run.interval.is_some()) {
        Some(every) => spec.unwatched().with_poll(every),
        None => spec.unwatched(),
    };
    for (id, count) in &declared.semaphores {
        spec = spec.with_semaphore(id, *count);
    }
    let exec = exec(declared, &run.namespace);
    (settled(spec, declared), Box::new(exec))
}

/// Has a vertex run after what is declared.
fn ordered(
    spec: VertexSpec,
    after: &[NodeRef],
    on: &[NodeRef],
    all: &file::File,
    has: &Has,
) -> VertexSpec {
    let parents = after.iter().flat_map(|it| names(it, all, has));
    let ordered = parents.fold(spec, |spec, parent| spec.after(&parent));
    on.iter().fold(ordered, |spec, it| match section_of_network(it, has) {
        Some(section) => has
            .parts_of(section)
            .iter()
            .fold(spec, |spec, part| spec.refreshed_by_kind(part, kind(section))),
        None => names(it, all, has).iter().fold(spec, |spec, it| spec.refreshed_by(it)),
    })
}

impl Has {
    /// Returns the parts that bring a section of the network into its declared state.
    fn parts_of(&self, section: &str) -> &[&'static str] {
        match section {
            SYSCTL if !self.of_settings.is_empty() => &self.of_settings,
            _ => &[Part::NETWORK.name],
        }
    }
}

/// Returns the kind of change of a section.
fn kind(section: &str) -> &str {
    match section {
        // What is collected are routes.
        "collect" => "route",
        kind => kind,
    }
}

/// Returns the section that a reference is about, if that is one of the network. What is collected
/// is, and what is exported if nothing exports it.
fn section_of_network<'a>(reference: &'a NodeRef, has: &Has) -> Option<&'a str> {
    match reference {
        NodeRef::Section(name) if name == "file" || name == "exec" => None,
        NodeRef::Section(name) if name == "export" && has.world => None,
        NodeRef::Section(name) if has.own.contains(&&**name) => None,
        NodeRef::Section(name) => Some(name),
        NodeRef::File(_) | NodeRef::Exec(_) => None,
    }
}

/// Has a vertex tried again without end.
fn retried(spec: VertexSpec) -> VertexSpec {
    let permanent = ErrorClass::ALL.into_iter().filter(|class| class.is_permanent());
    permanent.fold(spec.with_retry(u32::MAX, RETRY), |spec, class| {
        spec.with_class_retry(class, u32::MAX, SLOW_RETRY)
    })
}

/// Sets what all files and commands have: the revision, and that they are tried again without end.
fn settled(spec: VertexSpec, declared: &impl std::fmt::Debug) -> VertexSpec {
    let mut hasher = DefaultHasher::new();
    // It has all that is declared.
    format!("{declared:?}").hash(&mut hasher);
    retried(spec.with_revision(hasher.finish()))
}

/// Returns the names of the vertices that a reference is about.
fn names(reference: &NodeRef, all: &file::File, has: &Has) -> Vec<String> {
    match reference {
        NodeRef::Section(name) if name == "file" => files(all).iter().map(file_name).collect(),
        NodeRef::Section(name) if name == "exec" => execs(all).iter().map(exec_name).collect(),
        NodeRef::Section(name) if name == "export" && has.world => vec![EXPORTER.to_owned()],
        // It is collected, and it is there.
        NodeRef::Section(name) if name == "collect" && has.world => {
            vec![COLLECTOR.to_owned(), Part::NETWORK.name.to_owned()]
        }
        NodeRef::Section(name) if has.own.contains(&&**name) => vec![name.clone()],
        NodeRef::Section(name) => has.parts_of(name).iter().map(ToString::to_string).collect(),
        NodeRef::File(_) | NodeRef::Exec(_) => vertex_name(all, reference).into_iter().collect(),
    }
}

fn split(command: &[String]) -> (&str, &[String]) {
    command.split_first().map_or(("", &[]), |(program, arguments)| (program, arguments))
}
