//! The graph of a running agent.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::error::{Context as _, Result, bail};
use trueup_file as file;
use trueup_graph::{Config, Driver, Failure, Records, RunContext, Snapshot, Turn, Verdict, Vertex};
use trueup_loop::Revision;
use trueup_reconcile::{Hints, Ledger};

use super::{
    Declared, MakeWorld, Runs, is_of_file_or_command, is_reported_alone, restored, vertices,
};
use crate::lock;
use crate::part::{AnyPart, Part};
use crate::source::AnySource;

/// The number of vertices that run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// The longest single wait for the loop's end. Waits repeat.
const WAIT: Duration = Duration::from_secs(3_600);

/// The time that a stopped loop has to end.
const STOPPED_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for a pass over settings to end before they move.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A running graph. Clones share it.
#[derive(Clone)]
pub(crate) struct RunningGraph(Arc<Inner>);

struct Inner {
    driver: Driver,
    sources: Mutex<Sources>,
    around: Around,
}

/// The part of a running graph that stays the same while the file changes.
pub(crate) struct Around {
    pub run: Runs,
    /// `None` without `[world]`.
    pub make_world: Option<MakeWorld>,
    pub on_result: OnResult,
}

/// Loops that are paused until this is dropped.
pub(crate) struct Paused(Vec<Arc<dyn AnySource>>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.iter().for_each(|source| source.resume());
    }
}

/// A graph in which no run begins until this is dropped. Runs in progress continue.
struct Held<'a>(&'a Driver);

impl Held<'_> {
    fn new(driver: &Driver) -> Held<'_> {
        // A run in progress is no error.
        let _still_running = driver.pause(Duration::ZERO);
        Held(driver)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// The parts of the namespace with their loops, in the order in which they run.
pub(crate) type Sources = Vec<(Part, Arc<dyn AnySource>)>;

impl RunningGraph {
    /// Starts the graph of a file. Fails if it cannot be started. Then nothing was changed.
    pub(crate) fn start(
        declared: &file::File,
        sources: Sources,
        ledger: Box<dyn Ledger + Send>,
        around: Around,
    ) -> Result<RunningGraph> {
        let of_restored = Arc::clone(&around.on_result);
        let driver = Driver::start_with_restore(
            Config::new(WORKERS),
            reported_alone(declared, &sources, &around),
            ledger,
            move |name: &str, record: &[u8]| Ok(reported(restored(name, record)?, &of_restored)),
        )
        .context("cannot start the graph")?;
        Ok(RunningGraph(Arc::new(Inner { driver, sources: Mutex::new(sources), around })))
    }

    /// Stops the writing of settings until the result is dropped. So if a setting moves from one
    /// part to another, one of the two always desires it. Fails if a pass over settings takes
    /// longer than 30 seconds.
    pub(crate) fn pause_settings(&self) -> Result<Paused> {
        let mut paused = Paused(Vec::new());
        for (part, source) in self.sources() {
            if part.is_of_settings() {
                paused.0.push(Arc::clone(&source));
                match source.pause(PAUSE_TIMEOUT) {
                    Err(error) if !source.is_ended() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(paused)
    }

    /// Switches to the graph of another file, whose parts have these desired states. Equal vertices
    /// go on. `make` makes the loop of a new part. Before the next pass, `declare` takes the
    /// revision of each other part, and `leave` each part that has left. `paused` ends once all
    /// parts have their new states. If there are several parts, the first one runs first. New and
    /// changed files and commands run after the network.
    ///
    /// Fails if the new graph is invalid. Then the old one goes on, and nothing is declared.
    pub(crate) fn replace(
        &self,
        declared: &file::File,
        parts: Vec<Arc<dyn AnyPart>>,
        paused: Paused,
        make: impl Fn(&dyn AnyPart) -> Arc<dyn AnySource>,
        declare: impl Fn(Part, Revision),
        leave: impl Fn(Part),
    ) -> Result<()> {
        let Inner { driver, sources, around } = &*self.0;
        let mut now = lock(sources);
        let (mut next, mut declaring) = (Sources::new(), Vec::new());
        for part in parts {
            let of = part.part();
            let source = match now.iter().find(|(it, _)| *it == of) {
                Some((_, source)) => {
                    declaring.push((of, Arc::clone(source), part.desired()));
                    Arc::clone(source)
                }
                None => make(&*part),
            };
            next.push((of, source));
        }
        let mut left = now.clone();
        left.retain(|(part, _)| next.iter().all(|(it, _)| it != part));
        let vertices = reported_alone(declared, &next, around);
        trueup_graph::validate(vertices.iter().map(|(spec, _)| spec.clone()))?;
        let held = (now.len() > 1 || next.len() > 1).then(|| Held::new(driver));
        left.iter().for_each(|(_, source)| source.stop());
        for (part, source, desired) in &declaring {
            // If the loop has ended, there is nothing to reload.
            if let Some(revision) = source.set_desired(Arc::clone(desired)) {
                declare(*part, revision);
            }
        }
        drop(paused);
        for (part, ..) in declaring {
            // From now on, the vertices after this part wait for its next pass.
            driver.event(part.name)?;
        }
        driver.replace(vertices)?;
        left.into_iter().for_each(|(part, _)| leave(part));
        drop(held);
        *now = next;
        Ok(())
    }

    /// Makes a vertex run again, because its desired state changed. Until then, it is not in place.
    /// Fails if there is no such vertex.
    pub(crate) fn look_at(&self, vertex: &str) -> Result<()> {
        Ok(self.0.driver.event(vertex)?)
    }

    /// Makes each file and command run again, including those that have just failed. Fails if the
    /// graph has ended.
    pub(crate) fn look_at_files_and_commands(&self) -> Result<()> {
        for vertex in self.snapshot().vertices {
            // A reversal goes on by itself.
            if !vertex.reversal && is_of_file_or_command(&vertex.name) {
                self.0.driver.retry(&vertex.name)?;
            }
        }
        Ok(())
    }

    /// Returns the current state of each vertex.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.driver.snapshot()
    }

    /// Returns the vertices that report alone and have still to run, without failed ones.
    pub(crate) fn untried(&self) -> BTreeSet<String> {
        let mut vertices = self.snapshot().vertices;
        vertices.retain(|it| {
            let is_due = it.last.is_none() || it.cause.is_some() || it.running;
            let is_untried = is_due && !it.reversal && !matches!(it.last, Some(Err(_)));
            is_untried && is_reported_alone(&it.name)
        });
        vertices.into_iter().map(|it| it.name).collect()
    }

    /// Waits until the network's loop has ended. Returns its result, or the error that ended an
    /// earlier part's loop. A thread that sees a loop's end stops all of them.
    pub(crate) fn wait_ended(&self) -> Result<(), trueup_loop::Error> {
        let network = loop {
            if let Some(ended) = self.ended(Part::NETWORK, WAIT) {
                break ended;
            }
        };
        let mut before = [Part::SETTINGS, Part::LINKS, Part::LINK_SETTINGS].into_iter();
        let failed = before.find_map(|part| self.ended(part, STOPPED_WAIT)?.err());
        failed.map_or(network, Err)
    }

    /// Waits at most `within` for a loop's end. Returns its result, or `None` if it goes on.
    fn ended(&self, part: Part, within: Duration) -> Option<Result<(), trueup_loop::Error>> {
        let (_, source) = self.sources().into_iter().find(|(it, _)| *it == part)?;
        source.wait_ended(within);
        source.ended()
    }

    fn sources(&self) -> Sources {
        lock(&self.0.sources).clone()
    }

    /// Ends all vertices. Fails if one of them still runs after `within`.
    pub(crate) fn stop(&self, within: Duration) -> Result<()> {
        match self.0.driver.stop(within) {
            Err(error) => bail!("{error}; it is left behind, and runs again at the next start"),
            Ok(()) => Ok(()),
        }
    }
}

/// Makes the vertices of a file. Adds reports to those without reports of their own.
fn reported_alone(
    declared: &file::File,
    sources: &[(Part, Arc<dyn AnySource>)],
    around: &Around,
) -> Vec<Declared> {
    let parts = sources.iter().map(|(part, it)| (*part, it.vertex())).collect();
    let world = around.make_world.as_ref().map(|make| make());
    let vertices = vertices(declared, parts, world, &around.run).into_iter();
    vertices
        .map(|it| if is_reported_alone(it.0.name()) { reported(it, &around.on_result) } else { it })
        .collect()
}

/// Adds reports to the runs of a vertex.
pub(super) fn reported((spec, vertex): Declared, on_result: &OnResult) -> Declared {
    let (name, report) = (spec.name().to_owned(), Arc::clone(on_result));
    (spec, Box::new(Reported { name, vertex, report }))
}

/// A callback that takes a vertex's name and the result of a run with possible changes.
pub(crate) type OnResult = Arc<dyn Fn(&str, &Result<Verdict, Failure>) + Send + Sync>;

/// A vertex that reports each of its failures, and each run with possible changes.
struct Reported {
    name: String,
    vertex: Box<dyn Vertex>,
    report: OnResult,
}

impl Reported {
    fn reported(&self, context: &RunContext, result: &Result<Verdict, Failure>) {
        // An interrupted run is repeated.
        if result.is_ok() || context.should_continue() {
            (self.report)(&self.name, result);
        }
    }
}

impl Vertex for Reported {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let result = self.vertex.check_apply(context, apply);
        self.reported(context, &result);
        result
    }

    fn announces(&self) -> bool {
        self.vertex.announces()
    }

    fn watch(&mut self, hints: Hints, waker: Waker) -> Result<bool, Failure> {
        self.vertex.watch(hints, waker)
    }

    fn events(&mut self, turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        self.vertex.events(turn)
    }

    fn records(&self) -> Records {
        self.vertex.records()
    }

    fn record(&self) -> Option<Vec<u8>> {
        self.vertex.record()
    }

    fn adopt(&mut self, record: &[u8]) -> bool {
        self.vertex.adopt(record)
    }

    fn reverse(&mut self, context: &RunContext) -> Result<Verdict, Failure> {
        let result = self.vertex.reverse(context);
        self.reported(context, &result);
        result
    }
}

#[cfg(test)]
mod tests;
