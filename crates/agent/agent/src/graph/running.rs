//! The graph of a running agent.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::{Context as _, Result, bail};
use trueup_file as file;
use trueup_graph::{Config, Driver, Explanation, Snapshot};
use trueup_loop::Revision;
use trueup_reconcile::Ledger;

use super::{
    Declared, MakeWorld, OnResult, Reported, Runs, is_of_file_or_command, is_reported_alone,
    restored, vertices,
};
use crate::section::Part;
use crate::source::{AnyDesired, AnyHandle, AnySource};

/// How many vertices run at a time.
const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");
/// The longest wait for the end of the loop before it is waited for again.
const WAIT: Duration = Duration::from_secs(3_600);

/// The wait for the end of a loop that was stopped.
const STOPPED_WAIT: Duration = Duration::from_secs(5);
/// The longest wait for the end of a pass over settings, before they move.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A running graph. Clones share it.
#[derive(Clone)]
pub(crate) struct RunningGraph(Arc<Inner>);

struct Inner {
    driver: Driver,
    sources: Mutex<Sources>,
    around: Around,
}

/// What stays the same while the file changes.
pub(crate) struct Around {
    pub run: Runs,
    /// `None` without `[world]`.
    pub make_world: Option<MakeWorld>,
    pub on_result: OnResult,
}

/// Loops that are paused until this is dropped.
pub(crate) struct Paused(Vec<Arc<dyn AnyHandle>>);

impl Drop for Paused {
    fn drop(&mut self) {
        self.0.iter().for_each(|handle| handle.resume());
    }
}

/// A graph in which no run begins until this is dropped. Runs that go on are not waited for.
struct Held<'a>(&'a Driver);

impl Held<'_> {
    fn new(driver: &Driver) -> Held<'_> {
        // That something still runs is no error.
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
pub(crate) type Sources = Vec<(Part, Box<dyn AnySource>)>;

impl RunningGraph {
    /// Starts the graph of a file.
    ///
    /// # Errors
    ///
    /// When it cannot be started: nothing was changed.
    pub(crate) fn start(
        declared: &file::File,
        sources: Sources,
        ledger: Box<dyn Ledger + Send>,
        around: Around,
    ) -> Result<RunningGraph> {
        let vertices = reported(declared, &sources, &around);
        let report = Arc::clone(&around.on_result);
        let restore =
            move |name: &str, record: &[u8]| Ok(reporting(restored(name, record)?, &report));
        let config = Config::new(WORKERS);
        let started = Driver::start_with_restore(config, vertices, ledger, restore);
        Ok(RunningGraph(Arc::new(Inner {
            driver: started.context("cannot start the graph")?,
            sources: Mutex::new(sources),
            around,
        })))
    }

    /// Has no setting written until the result is dropped. So a setting that moves from one part to
    /// another is desired by one of the two at all times.
    ///
    /// # Errors
    ///
    /// When a pass over settings goes on for too long.
    pub(crate) fn pause_settings(&self) -> Result<Paused> {
        let mut paused = Paused(Vec::new());
        for (part, source) in self.sources() {
            if part.is_of_settings() {
                let handle = source.handle();
                paused.0.push(Arc::clone(&handle));
                match handle.pause(PAUSE_TIMEOUT) {
                    Err(error) if !handle.is_ended() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(paused)
    }

    /// Has the graph of another file run, and its parts have these desired states. What is equal
    /// goes on; `make` makes the loop of a part that is new, `declare` takes note of the revision of
    /// each other one, and `leave` of each that has left, before the next pass. `paused` ends once
    /// all parts have their new states, and where there are several, the first one runs first.
    /// Files and commands that have changed or are new run after the network.
    ///
    /// # Errors
    ///
    /// When there is no such graph. The old one goes on, and nothing is declared.
    pub(crate) fn replace(
        &self,
        declared: &file::File,
        parts: Vec<(Part, AnyDesired)>,
        paused: Paused,
        make: impl Fn(Part, AnyDesired) -> Result<Box<dyn AnySource>>,
        declare: impl Fn(Part, Revision),
        leave: impl Fn(Part),
    ) -> Result<()> {
        let Inner { driver, sources, around } = &*self.0;
        let mut sources = sources.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut next, mut declaring) = (Sources::new(), Vec::new());
        for (part, desired) in parts {
            match sources.iter().find(|(it, _)| *it == part) {
                Some((_, source)) => {
                    declaring.push((part, source.handle(), desired));
                    next.push((part, source.boxed()));
                }
                None => next.push((part, make(part, desired)?)),
            }
        }
        let stays = |part| next.iter().any(|(it, _)| *it == part);
        let left = sources.iter().filter(|(part, _)| !stays(*part));
        let left: Vec<_> = left.map(|(part, source)| (*part, source.handle())).collect();
        let vertices = reported(declared, &next, around);
        trueup_graph::validate(vertices.iter().map(|(spec, _)| spec.clone()))?;
        let held = (sources.len() > 1 || next.len() > 1).then(|| Held::new(driver));
        left.iter().for_each(|(_, handle)| handle.stop());
        for (part, handle, desired) in &declaring {
            // If the loop has ended, there is nothing to reload.
            if let Some(revision) = handle.set_desired(Arc::clone(desired)) {
                declare(*part, revision);
            }
        }
        drop(paused);
        for (part, ..) in declaring {
            // From now on what runs after it waits for its next pass.
            driver.event(part.name())?;
        }
        driver.replace(vertices)?;
        for (part, _) in left {
            leave(part);
        }
        drop(held);
        *sources = next;
        Ok(())
    }

    /// Has a vertex run again, because it has another desired state: it is not in place before.
    ///
    /// # Errors
    ///
    /// When there is no such vertex.
    pub(crate) fn look_at(&self, vertex: &str) -> Result<()> {
        Ok(self.0.driver.event(vertex)?)
    }

    /// Has each file and command looked at, also those that have just failed.
    ///
    /// # Errors
    ///
    /// When the graph has ended.
    pub(crate) fn look_at_files_and_commands(&self) -> Result<()> {
        let snapshot = self.snapshot();
        // A reversal goes on by itself.
        let vertices = snapshot.vertices.iter().filter(|it| !it.reversal);
        let mut names = vertices.map(|it| &*it.name);
        names.try_for_each(|name| match is_of_file_or_command(name) {
            true => Ok(self.0.driver.retry(name)?),
            false => Ok(()),
        })
    }

    /// Returns how each vertex stands.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.driver.snapshot()
    }

    /// Returns the vertices that report alone and are still to run, but for those that have failed.
    pub(crate) fn untried(&self) -> BTreeSet<String> {
        let is_untried = |it: &Explanation| {
            let is_due = it.last.is_none() || it.cause.is_some() || it.running;
            is_due && !it.reversal && !matches!(it.last, Some(Err(_)))
        };
        let vertices = self.snapshot().vertices.into_iter();
        let vertices = vertices.filter(|it| is_reported_alone(&it.name) && is_untried(it));
        vertices.map(|it| it.name).collect()
    }

    /// Returns once the loop of the network has ended, with its result, or with the error that has
    /// ended another one before. The thread that sees that a loop has ended stops all.
    pub(crate) fn wait_ended(&self) -> Result<(), trueup_loop::Error> {
        let ended = |part: Part, within| {
            let sources = self.sources();
            let source = sources.iter().find(|(it, _)| *it == part)?;
            source.1.handle().wait_ended(within);
            source.1.ended()
        };
        let network = loop {
            if let Some(ended) = ended(Part::Network, WAIT) {
                break ended;
            }
        };
        let mut before = [Part::Settings, Part::Links, Part::LinkSettings].into_iter();
        let failed = before.find_map(|part| ended(part, STOPPED_WAIT)?.err());
        failed.map_or(network, Err)
    }

    fn sources(&self) -> Sources {
        let sources = self.0.sources.lock();
        let sources = sources.unwrap_or_else(PoisonError::into_inner);
        sources.iter().map(|(part, source)| (*part, source.boxed())).collect()
    }

    /// Ends all vertices.
    ///
    /// # Errors
    ///
    /// When one of them still runs after that time.
    pub(crate) fn stop(&self, within: Duration) -> Result<()> {
        match self.0.driver.stop(within) {
            Err(error) => bail!("{error}; it is left behind, and runs again at the next start"),
            Ok(()) => Ok(()),
        }
    }
}

/// Makes the vertices of a file, with reports of those that do not report their own passes.
fn reported(
    declared: &file::File,
    sources: &[(Part, Box<dyn AnySource>)],
    around: &Around,
) -> Vec<Declared> {
    let parts = sources.iter();
    let parts = parts.map(|(part, it)| (*part, it.vertex()));
    let world = around.make_world.as_ref().map(|make| make());
    let vertices = vertices(declared, parts.collect(), world, &around.run);
    let vertices = vertices.into_iter();
    let reported = vertices.map(|it| match is_reported_alone(it.0.name()) {
        true => reporting(it, &around.on_result),
        false => it,
    });
    reported.collect()
}

fn reporting((spec, vertex): Declared, on_result: &OnResult) -> Declared {
    let reported = Reported::new(spec.name(), vertex, Arc::clone(on_result));
    (spec, Box::new(reported))
}
