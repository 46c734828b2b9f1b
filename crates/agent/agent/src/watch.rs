//! An agent that runs until it is stopped. It runs a file's graph, and reads the file again when it
//! changes.
//!
//! Other threads wait for changes of the file and the namespace, for the service manager, and for
//! scrapers of metrics.

mod collecting;
mod contested;
pub(crate) mod event;
mod exporting;
mod exposition;
mod file_watch;
mod in_force;
mod loops;
mod part_maker;
mod reload;
mod reporter;
mod serve;
mod service_manager;
mod world_status;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::{Context as _, Result, error};
use trueup_graph::{Places, Snapshot};
use trueup_loop::{Budget, ObjectStatus, Stats};
use trueup_reconcile::LateHints;
use trueup_world::CollectorConfig;

use self::collecting::Collecting;
use self::exporting::Exporting;
use self::file_watch::{FileWatch, Stamp};
use self::in_force::{CollectorVertex, InForce};
use self::loops::Loops;
use self::part_maker::{LoopReports, PartMaker};
use self::reload::{ReloadRequest, Reloader};
use self::reporter::Reporter;
use self::service_manager::{NotifierThread, Service};
use crate::agent::Agent;
use crate::declared::Declared;
use crate::desired_file::Writers;
use crate::graph::{
    Around, MakeWorld, OnResult, RunningGraph, Runs, Sources, WorldVertices, change_line,
};
use crate::options::GRACE;
use crate::part::Looping;
use crate::state::{LedgerOf, State};
use crate::world::{self, OnReplaced, Retained, Surroundings};

pub(crate) use self::reporter::Observer;
pub use self::serve::Address;
pub(crate) use self::serve::Server;
pub use self::world_status::WorldStatus;

/// The time that a pass or a command may take to end its step after a stop: 30 seconds.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings of a running agent.
///
/// ```
/// use std::time::Duration;
/// use trueup_agent::Config;
///
/// let config = Config::default()
///     .with_interval(Duration::from_secs(30))
///     .with_metrics("127.0.0.1:9100".parse().ok());
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The interval, backoff and limits of the loop of each source.
    pub passes: trueup_loop::Config,
    /// The limit of changes: a rate for each second, and a burst. `None` for no limit.
    pub budget: Option<Budget>,
    /// The users who may be able to write the file.
    pub writers: Writers,
    /// The address of the metrics. `None` to serve none.
    pub metrics: Option<Address>,
}

impl Default for Config {
    /// Default settings of the loops, no limit of changes, only our own files, and no metrics.
    fn default() -> Config {
        Config {
            passes: trueup_loop::Config::default(),
            budget: None,
            writers: Writers::Ours,
            metrics: None,
        }
    }
}

impl Config {
    /// Sets the interval, backoff and limits of the loop of each source.
    #[must_use]
    pub fn with_passes(self, passes: trueup_loop::Config) -> Config {
        Config { passes, ..self }
    }

    /// Sets the shortest time from the end of a full pass to the next.
    #[must_use]
    pub fn with_interval(self, interval: Duration) -> Config {
        Config { passes: self.passes.with_interval(interval), ..self }
    }

    /// Sets the limit of changes: a rate for each second, and a burst. `None` removes the limit.
    #[must_use]
    pub fn with_budget(self, budget: Option<Budget>) -> Config {
        Config { budget, ..self }
    }

    /// Sets which users may be able to write the file.
    #[must_use]
    pub fn with_writers(self, writers: Writers) -> Config {
        Config { writers, ..self }
    }

    /// Sets the address of the metrics. `None` serves none.
    #[must_use]
    pub fn with_metrics(self, metrics: Option<Address>) -> Config {
        Config { metrics, ..self }
    }
}

/// An agent with its file and its journal, before it runs.
///
/// ```no_run
/// use trueup_agent::{Agent, Config};
///
/// let agent = Agent::new(None, Some("/var/lib/example".into()))?;
/// let watch = agent.watch("edge.toml".as_ref(), Config::default(), |event| {
///     println!("{}", event.json());
/// })?;
/// let handle = watch.handle(); // for a thread that handles signals: `handle.stop()`
/// watch.run()?;
/// assert!(handle.wait_ended(trueup_agent::STOP_TIMEOUT));
/// # Ok::<(), trueup_agent::Error>(())
/// ```
pub struct Watch {
    reloader: Reloader,
    file_watch: std::io::Result<FileWatch>,
    declared: Declared,
    sources: Sources,
    metrics: Option<Address>,
    handle: Handle,
    // Dropped last, so that all messages are sent.
    notifier_thread: NotifierThread,
}

/// Controls and observes an agent from any thread. Clones share it.
///
/// ```no_run
/// use trueup_agent::Handle;
///
/// fn print(handle: &Handle) {
///     for object in handle.exceptions() {
///         println!("{}: {}", object.status.object, object.status.condition.name());
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Handle {
    loops: Loops,
    reporter: Reporter,
    reload_request: ReloadRequest,
}

impl Handle {
    /// Ends the agent between two steps of a pass. Reports this after the report in progress,
    /// before it returns.
    pub fn stop(&self) {
        self.end();
        self.reporter.stopping();
    }

    /// Ends the agent like [`stop`](Self::stop), and reports this later. An observer may call it.
    pub fn end(&self) {
        self.loops.stop();
    }

    /// Waits for the agent's end. Returns false if it still runs after `within`.
    pub fn wait_ended(&self, within: Duration) -> bool {
        self.loops.wait_ended(within)
    }

    /// Reads the file again, even if it has not changed, and runs a full pass.
    pub fn reload(&self) {
        self.reload_request.send();
    }

    /// Returns the loops' counts as sums. Other values are those that hold for all loops.
    pub fn stats(&self) -> Stats {
        self.loops.stats()
    }

    /// Returns the objects that are not in place, with their conditions.
    pub fn exceptions(&self) -> Vec<ObjectStatus> {
        self.loops.exceptions()
    }

    /// Returns the number of objects that are not in place, by kind and condition.
    pub fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        self.loops.exception_counts()
    }

    /// Returns the state of each vertex. `None` if there is only the network.
    pub fn graph(&self) -> Option<Snapshot> {
        self.reporter.graph()
    }

    /// Returns the state of the collection and the exports. `None` without `[world]`.
    pub fn world(&self) -> Option<WorldStatus> {
        self.reporter.world_status()
    }

    /// Returns true if the file in force is the one on disk.
    pub fn is_file_current(&self) -> bool {
        self.reporter.is_current()
    }

    /// Returns the metrics in Prometheus' text format.
    fn page(&self) -> Option<String> {
        let (stats, counts) = (self.stats(), self.exception_counts());
        let (world, graph) = (self.world(), self.graph());
        let (world, graph) = (world.as_ref(), graph.as_ref());
        exposition::exposition(&stats, &counts, self.is_file_current(), world, graph).ok()
    }
}

impl Agent {
    /// Reads a file and locks the journal, to run until the agent is stopped. `observer` gets each
    /// event.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if the agent could not run.
    pub fn watch(
        self,
        path: &Path,
        config: Config,
        observer: impl FnMut(&event::Event<'_>) + Send + 'static,
    ) -> Result<Watch> {
        Watch::open(self, path, config, Box::new(observer))
    }
}

impl Watch {
    /// Reads a file and locks a namespace's journal. If the namespace's name leads to another
    /// namespace, the agent ends. `observer` gets each event.
    pub(crate) fn open(
        agent: Agent,
        path: &Path,
        config: Config,
        mut observer: Observer,
    ) -> Result<Watch> {
        let file_watch = FileWatch::new(path);
        let stamp = Stamp::of(path, config.writers);
        let declared = Declared::read(path, config.writers, GRACE, &agent.sections)?;
        agent.require_privilege()?;
        let (state, notes) = agent.claim(&declared.options)?;
        notes.into_iter().for_each(|note| observer(&event::Event::Note(note)));
        let loops = Loops::default();
        let (service, notifier_thread) = Service::begin(loops.clone())?;
        let in_force = InForce::default();
        let reload_request = ReloadRequest::new()?;
        let reporter = Reporter::new(vec![observer, service.observer()], loops.clone());
        reporter.set_managed(declared.managed());
        declared.cautions().iter().for_each(|it| reporter.note(it));
        let joined = match &declared.file.settings.world {
            Some(named) => Some(join(named, &declared, &agent, &state, &reporter, {
                let replaced = loops.clone();
                Box::new(move |error| {
                    replaced.fail(error!("{error}").context("the store is another one now"));
                })
            })?),
            None => None,
        };
        let (desired, exporting) = match joined {
            Some((collecting, exporting)) => {
                let (collecting, desired) = collecting.of(&declared)?;
                reporter.world(|world| world.collection = collecting.status());
                exporting.declare(declared.exports());
                in_force.lock().collecting = Some(collecting);
                (desired, Some(exporting))
            }
            None => (declared.desired(), None),
        };
        let maker = PartMaker {
            looping: Looping {
                scope: agent.namespace.clone(),
                state,
                config: config.passes,
                budget: config.budget,
                observer: Arc::new(LoopReports {
                    namespace: agent.namespace.clone(),
                    in_force: in_force.clone(),
                    reporter: reporter.clone(),
                    loops: loops.clone(),
                }),
            },
            reporter: reporter.clone(),
            loops: loops.clone(),
        };
        let parts = declared.parts(&desired, &declared.options).into_iter();
        let sources = parts.map(|part| (part.part(), maker.looped(&*part))).collect();
        Ok(Watch {
            reloader: Reloader {
                path: path.to_owned(),
                writers: config.writers,
                stamp,
                pending_stamp: None,
                namespace_error: None,
                state_error: None,
                is_polling: false,
                agent,
                options: declared.options.clone(),
                ledger: Box::new(maker.looping.state.ledger(LedgerOf::Network)),
                maker,
                in_force,
                reload_request: reload_request.clone(),
                exporting,
            },
            file_watch,
            declared,
            sources,
            metrics: config.metrics,
            handle: Handle { loops, reporter, reload_request },
            notifier_thread,
        })
    }

    /// Returns a handle, which also works before the agent runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs the agent until it has ended.
    ///
    /// # Errors
    ///
    /// Fails if the agent cannot be started, with nothing changed, or if it cannot go on.
    pub fn run(self) -> Result<()> {
        let Watch { reloader, file_watch, declared, sources, metrics, handle, .. } = self;
        // Held until the end.
        let _notifier_thread = self.notifier_thread;
        let Handle { loops, reporter, .. } = handle.clone();
        let in_force = reloader.in_force.clone();
        let make_world = reloader.exporting.clone().map(|exporting| {
            let (in_force, loops, reporter) = (in_force.clone(), loops.clone(), reporter.clone());
            Box::new(move || WorldVertices {
                collector: Box::new(CollectorVertex {
                    in_force: in_force.clone(),
                    loops: loops.clone(),
                    reporter: reporter.clone(),
                }),
                exporter: exporting.vertex(),
            }) as MakeWorld
        });
        let _server = match metrics {
            Some(address) => {
                let (scraped, reporter) = (handle.clone(), reporter.clone());
                Some(Server::start(
                    address,
                    move || scraped.page(),
                    move |failure: Option<&str>| reporter.metrics(failure),
                )?)
            }
            None => None,
        };
        let graph = {
            // Reports during this time are about this file.
            let mut locked = in_force.lock();
            let ledger = Box::new(reloader.maker.looping.state.ledger(LedgerOf::Graph));
            let around = Around {
                run: Runs {
                    interval: Some(reloader.maker.looping.config.interval()),
                    namespace: reloader.agent.namespace.clone(),
                    places: Places::default(),
                },
                make_world,
                on_result: on_result(&reporter, &in_force),
            };
            let graph = RunningGraph::start(&declared.file, sources, ledger, around)?;
            reporter.set_untried(Some(graph.untried()));
            locked.declared = Some(declared);
            graph
        };
        reporter.set_graph(&graph);
        let running = graph.clone();
        thread::Builder::new()
            .name("reloader".into())
            .spawn(move || reloader.run(&running, file_watch))
            .context("cannot start a thread")?;
        let ended = graph.wait_ended();
        reporter.stopping();
        graph.stop(STOP_TIMEOUT)?;
        if let Some(failure) = loops.take_failure() {
            return Err(failure);
        }
        match ended {
            Err(error) if error.is_scope_ended() => {
                Err(error).context("the network namespace is gone")
            }
            ended => ended.context("the loop ended early"),
        }
    }
}

/// Opens a file's world: its collection and its exports.
fn join(
    named: &trueup_file::World,
    declared: &Declared,
    agent: &Agent,
    state: &State,
    reporter: &Reporter,
    on_replaced: OnReplaced,
) -> Result<(Collecting, Exporting)> {
    let world = world::open_to_stay(named, state.place.directory(), on_replaced)?;
    let collects = declared.file.collects.as_deref().unwrap_or_default();
    let options = &declared.options.network;
    let retained = Retained::read(agent.namespace(), options, collects)?;
    let surroundings = Surroundings::new(agent.namespace(), named, options.protocol());
    let config = CollectorConfig {
        keep_for: named.partition,
        grace: named.grace,
        damping_interval: named.damping,
        ..CollectorConfig::default()
    };
    let owner = world::owner(&state.world_id()?);
    let hints = LateHints::default();
    let grants = world::follow_grants(&world, named, state, hints.hints())?;
    let collecting =
        Collecting::new(world.clone(), config, surroundings, retained, (grants, hints));
    Ok((collecting, Exporting::new(world, owner, named.ttl, reporter)))
}

/// Returns a callback that reports the runs of files and commands.
fn on_result(reporter: &Reporter, in_force: &InForce) -> OnResult {
    let (reporter, in_force) = (reporter.clone(), in_force.clone());
    Arc::new(move |name, result| {
        let declared = in_force.lock().declared.as_ref().map(|it| change_line(&it.file, name));
        reporter.vertex(name, &declared.unwrap_or_default(), result);
    })
}
