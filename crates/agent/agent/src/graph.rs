//! The graph of a file. Its vertices are the parts of the network namespace, the collector, the
//! exporter, each `[[file]]` and each `[[exec]]`; its edges are their order.

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

/// The time until a failed vertex is retried.
const RETRY: Duration = Duration::from_secs(10);

/// The same for a permanent failure, such as a missing permission.
const SLOW_RETRY: Duration = Duration::from_secs(60);

/// The time between two attempts to reach the store.
const WORLD_RETRY: Duration = Duration::from_secs(1);

/// The time after which a failed vertex without retries of its own handles the events that came
/// during its run.
const SOON: Duration = Duration::from_millis(100);

/// A vertex with its specification.
pub(crate) type Declared = (VertexSpec, Box<dyn Vertex>);

/// The semaphore of the parts that write links and share a ledger. No command can use this name.
const LINKS: &str = "the links";

/// The rate limit of looks at a file: a burst, and one look in this time in the long run. If
/// another writer answers each change with its own, trueup does not match its pace.
const FILE_RATE: (Duration, u32) = (Duration::from_millis(500), 20);

/// The prefix of the name of a file's vertex.
pub(crate) const FILE: &str = "file:";

/// The name of the settings' section.
const SYSCTL: &str = "sysctl";

/// The vertices of a namespace's parts, in the order in which they run.
pub(crate) type Parts = Vec<(Part, Box<dyn Vertex>)>;

/// The vertices of a file with `[world]`.
pub(crate) struct WorldVertices {
    /// Runs before the network, whose routes it collects.
    pub collector: Box<dyn Vertex>,
    pub exporter: Box<dyn Vertex>,
}

/// The environment in which files and commands run.
pub(crate) struct Runs {
    /// The time between two checks of a command, or two looks at a file. `None` for a single run.
    pub interval: Option<Duration>,
    /// The network namespace of the desired state.
    pub namespace: Namespace,
    /// The places of the files on this host.
    pub places: Places,
}

/// Makes new vertices for the same loops.
pub(crate) type MakeWorld = Box<dyn Fn() -> WorldVertices + Send + Sync>;

/// Makes the vertices of a file: the given ones of the namespace, and one for each file and
/// command. The parts come in their order, after the collector. If one fails, the others still run.
/// A vertex after a section of the network runs after the whole network, and a vertex after the
/// settings runs after all settings. A vertex that a section refreshes reacts to the section's own
/// changes alone: its edge passes on their kind only.
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
        // The part's loop decides on retries.
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

/// The parts of a graph beside files and commands.
struct Has {
    /// The vertices of settings.
    of_settings: Vec<&'static str>,
    /// The sections from users' crates.
    own: Vec<&'static str>,
    world: bool,
}

fn world_vertices(world: WorldVertices) -> [Declared; 2] {
    // Runs when something has changed, and again if the network's loop is busy.
    let collector = VertexSpec::new(COLLECTOR).with_retry(0, SOON).with_class_retry(
        ErrorClass::Busy,
        u32::MAX,
        WORLD_RETRY,
    );
    let exporter = VertexSpec::new(EXPORTER).with_retry(u32::MAX, WORLD_RETRY);
    [(collector, world.collector), (exporter, world.exporter)]
}

/// Returns true if a graph is needed beside the network: for files and commands, or for the graph
/// ledger's records of earlier ones. Fails if the ledger cannot be read.
pub(crate) fn is_needed(declared: &file::File, ledger: &dyn Ledger) -> crate::error::Result<bool> {
    let is_declared = !files(declared).is_empty() || !execs(declared).is_empty();
    Ok(is_declared || !ledger.owned()?.is_empty())
}

/// Checks what files and commands would do now, after the parts of the namespace made changes of
/// these kinds.
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

/// Returns the vertex's name for a file, by its name or path, or for a command. `None` if it is not
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

/// Returns the name of a file's vertex. It is made of the path, so that the record of a written
/// file stays when its section is renamed.
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
        // Some changes of the file send no event.
        spec = spec.with_poll(interval);
    }
    (settled(spec, declared), Box::new(vertex))
}

/// Makes a vertex that removes a file which has left the declaration, from its vertex's record.
fn restored(name: &str, record: &[u8]) -> Result<Declared, Failure> {
    let spec = retried(VertexSpec::new(name));
    Ok((spec, Box::new(File::from_record(record)?)))
}

/// Returns the command of a declaration, for a network namespace.
pub(crate) fn exec(declared: &file::Exec, namespace: &Namespace) -> Exec {
    // The file crate refuses an empty command.
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
    // No event announces a change of the things a check looks at.
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

/// Makes a vertex run after its declared predecessors.
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

/// Returns the kind of a section's changes.
fn kind(section: &str) -> &str {
    match section {
        // The collector collects routes.
        "collect" => "route",
        kind => kind,
    }
}

/// Returns the section that a reference is about, if it is part of the network. `collect` always
/// is; `export` is if nothing exports it.
fn section_of_network<'a>(reference: &'a NodeRef, has: &Has) -> Option<&'a str> {
    match reference {
        NodeRef::Section(name) if name == "file" || name == "exec" => None,
        NodeRef::Section(name) if name == "export" && has.world => None,
        NodeRef::Section(name) if has.own.contains(&&**name) => None,
        NodeRef::Section(name) => Some(name),
        NodeRef::File(_) | NodeRef::Exec(_) => None,
    }
}

/// Makes a vertex retry without end.
fn retried(spec: VertexSpec) -> VertexSpec {
    let permanent = ErrorClass::ALL.into_iter().filter(|class| class.is_permanent());
    permanent.fold(spec.with_retry(u32::MAX, RETRY), |spec, class| {
        spec.with_class_retry(class, u32::MAX, SLOW_RETRY)
    })
}

/// Sets the revision and retries without end, which all files and commands have.
fn settled(spec: VertexSpec, declared: &impl std::fmt::Debug) -> VertexSpec {
    let mut hasher = DefaultHasher::new();
    // The debug text has every declared value.
    format!("{declared:?}").hash(&mut hasher);
    retried(spec.with_revision(hasher.finish()))
}

/// Returns the names of the vertices that a reference is about.
fn names(reference: &NodeRef, all: &file::File, has: &Has) -> Vec<String> {
    match reference {
        NodeRef::Section(name) if name == "file" => files(all).iter().map(file_name).collect(),
        NodeRef::Section(name) if name == "exec" => execs(all).iter().map(exec_name).collect(),
        NodeRef::Section(name) if name == "export" && has.world => vec![EXPORTER.to_owned()],
        // Routes are in place once they are collected and written.
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
