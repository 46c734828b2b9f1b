//! The driver: tasks of a runner that carry out the state machine's actions.
//!
//! All decisions are made by [`State`], under one lock. No code calls a vertex or writes a record
//! under that lock.

pub(crate) mod call;
pub(crate) mod cell;
mod events;
mod jobs;
pub(crate) mod replacing;
mod runs;
mod shared;
pub(crate) mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use trueup_reconcile::Ledger;

use self::cell::Cell;
use self::jobs::Work;
use self::shared::{Core, JobWaker, Shared, Until, Waiting, find, find_any, timed_out, unknown};
pub use self::snapshot::Snapshot;
use crate::runner::Runner;
use crate::sync::{Condvar, Mutex, Wakers, after, lock, now, wait_until};
use crate::{Config, Error, Explanation, Failure, State, Vertex, VertexSpec};

/// A running graph, usable from any thread.
///
/// It has one thread for each worker, two more to wait for events and write records, and the
/// threads that vertices are [declared](VertexSpec::with_thread) to run on. Dropping it stops it
/// without waiting; [`stop`](Self::stop) waits.
///
/// ```
/// use std::time::Duration;
/// use trueup_graph::{Config, Driver, RunContext, Verdict, Vertex, VertexSpec};
/// use trueup_reconcile::MemoryLedger;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let vertex = |_: &RunContext, _apply: bool| Ok(Verdict::InPlace);
/// let vertices = [(VertexSpec::new("a").unwatched(), Box::new(vertex) as Box<dyn Vertex>)];
/// let config = Config::new(1.try_into()?).with_quiet(Duration::from_millis(1));
/// let driver = Driver::start(config, vertices, Box::new(MemoryLedger::default()))?;
/// driver.wait_converged(Duration::from_secs(10))?;
/// driver.stop(Duration::from_secs(10))?;
/// # Ok(())
/// # }
/// ```
pub struct Driver {
    shared: Arc<Shared>,
    runner: Arc<Runner>,
    /// A runner of one thread for each named thread of a vertex.
    named: Mutex<BTreeMap<Arc<str>, Arc<Runner>>>,
}

impl Driver {
    /// Builds the graph and starts it. The `ledger` keeps the pending refreshes and must have no
    /// other use. With a `JournalLedger` of its own name, they survive a crash.
    ///
    /// # Errors
    ///
    /// The graph cannot be built, the ledger cannot be read, or a thread cannot be started.
    pub fn start(
        config: Config,
        vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
        ledger: Box<dyn Ledger + Send>,
    ) -> Result<Driver, Error> {
        Self::start_with_restore(config, vertices, ledger, replacing::none)
    }

    /// Starts like [`start`](Self::start), and undoes the work of vertices that are no longer
    /// declared. `restore` makes a vertex from a name and the bytes of
    /// [`Vertex::record`](crate::Vertex::record); the driver then
    /// [reverses](crate::Vertex::reverse) it. The driver also calls `restore` for declared vertices
    /// that do not [adopt](crate::Vertex::adopt) the work under their name.
    ///
    /// If `restore` fails, the work is kept, [`explain`](Self::explain) gives the reason, and the
    /// graph does not converge. If the failure may pass, the driver calls `restore` again after a
    /// delay, as after a failed run.
    ///
    /// # Errors
    ///
    /// See [`start`](Self::start).
    pub fn start_with_restore(
        config: Config,
        vertices: impl IntoIterator<Item = (VertexSpec, Box<dyn Vertex>)>,
        ledger: Box<dyn Ledger + Send>,
        restore: impl Fn(&str, &[u8]) -> Result<(VertexSpec, Box<dyn Vertex>), Failure>
        + Send
        + Sync
        + 'static,
    ) -> Result<Driver, Error> {
        let (graph, mut vertices) = replacing::build(vertices)?;
        let records = crate::records::read(&*ledger)?;
        let restore: Arc<replacing::Restore> = Arc::new(restore);
        let graph = replacing::restore(graph, &mut vertices, &records, &restore)?;
        let names = replacing::threads(&graph);
        let declared = graph.vertices.iter().zip(0..);
        let mut cells: Vec<_> = vertices
            .into_iter()
            .zip(declared)
            .map(|(vertex, (spec, at))| Arc::new(Cell::new(vertex, spec, at)))
            .collect();
        // Collecting in place keeps the vertices' larger allocation.
        cells.shrink_to_fit();
        let core = Core {
            cells,
            values: BTreeMap::new(),
            state: State::new(config, graph, records, now()),
            deadlines: BTreeMap::new(),
            messages: BTreeMap::new(),
            executing: 0,
            waker: JobWaker::default(),
            named: BTreeMap::new(),
            watched: BTreeMap::new(),
            waiting: 0,
            wakers: Wakers::default(),
            has_tasks: false,
            is_stopping: false,
            is_interrupted: Arc::default(),
            ledger_failure: None,
        };
        let driver = Driver {
            shared: Arc::new(Shared {
                core: Mutex::new(core),
                recorded: Condvar::new(),
                changed: Condvar::new(),
                ledger: Mutex::new(Some(ledger)),
                coming: Default::default(),
            }),
            runner: Arc::new(replacing::start_threads("graph", config.workers.saturating_add(2))?),
            named: Mutex::default(),
        };
        driver.start_named(names)?;
        let shared = &driver.shared;
        driver.runner.add_task(|member| {
            lock(&shared.core).waker.set(member);
            Arc::new(Work(Arc::clone(shared)))
        });
        Ok(driver)
    }

    /// Runs a vertex, and the vertices after it, because its state may have changed.
    ///
    /// # Errors
    ///
    /// The graph has no vertex of that name.
    pub fn event(&self, name: &str) -> Result<(), Error> {
        let mut core = lock(&self.shared.core);
        let vertex = find(&core, name)?;
        core.state.handle_event(now(), vertex);
        self.shared.wake(&mut core);
        Ok(())
    }

    /// Runs a vertex like [`event`](Self::event), but without waiting for a delay after a failure:
    /// for an operator who has removed the cause.
    ///
    /// # Errors
    ///
    /// The graph has no vertex of that name.
    pub fn retry(&self, name: &str) -> Result<(), Error> {
        let mut core = lock(&self.shared.core);
        let vertex = find(&core, name)?;
        core.state.handle_retry(now(), vertex);
        self.shared.wake(&mut core);
        Ok(())
    }

    /// Pauses, and returns once no vertex runs and nothing is being written. Interrupts the runs:
    /// [`should_continue`](crate::RunContext::should_continue) returns false for them. Events that
    /// arrive meanwhile take effect after [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// After the time `within`, something still runs or is still being written. The driver stays
    /// paused. [`Stopped`](crate::ErrorKind::Stopped) if the driver is stopped while it waits, as
    /// for each wait.
    pub fn pause(&self, within: Duration) -> Result<(), Error> {
        self.begin_pause();
        self.wait(Until::Paused, within, "not paused")
    }

    /// Returns the future of [`pause`](Self::pause). If it is dropped, the pause holds.
    pub fn paused(&self) -> impl Future<Output = Result<(), Error>> + use<> {
        self.begin_pause();
        Waiting::new(&self.shared, Until::Paused)
    }

    fn begin_pause(&self) {
        let mut core = lock(&self.shared.core);
        core.is_interrupted.store(true, Ordering::SeqCst);
        core.state.handle_pause(now());
        self.shared.recorded.notify_all();
        self.shared.wake(&mut core);
    }

    /// Ends a pause; the dirty vertices run.
    pub fn resume(&self) {
        let mut core = lock(&self.shared.core);
        if !core.is_stopping {
            if core.is_interrupted.load(Ordering::SeqCst) {
                core.is_interrupted = Arc::default();
            }
            core.state.handle_resume();
            self.shared.wake(&mut core);
        }
    }

    /// Stops: interrupts the runs, writes the records of the ended ones, and returns once all
    /// threads have ended. Then drops the ledger.
    ///
    /// # Errors
    ///
    /// A vertex still runs after the time `within`. Its thread ends once the vertex returns.
    pub fn stop(&self, within: Duration) -> Result<(), Error> {
        let end = after(now(), within);
        match self.runners().iter().try_for_each(|it| it.stop(end.saturating_duration_since(now())))
        {
            Ok(()) => {
                self.shared.drop_ledger();
                Ok(())
            }
            Err(_) => Err(timed_out(&lock(&self.shared.core), "not stopped")),
        }
    }

    /// Stops like [`stop`](Self::stop), and returns the future of the end. If it is dropped, the
    /// driver still ends, and drops the ledger with itself.
    pub fn stopped(&self) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        let ends: Vec<_> = self.runners().iter().map(|it| it.stopped()).collect();
        async move {
            for end in ends {
                end.await;
            }
            shared.drop_ledger();
        }
    }

    /// Returns the runners of all threads. A call that waits for them must not keep the lock.
    fn runners(&self) -> Vec<Arc<Runner>> {
        let named = lock(&self.named);
        [&self.runner].into_iter().chain(named.values()).cloned().collect()
    }

    /// Waits until the graph is converged: no vertex was dirty or running for the [quiet
    /// time](Config::with_quiet).
    ///
    /// # Errors
    ///
    /// The graph has not converged after the time `within`; the error names vertices and their
    /// reasons.
    pub fn wait_converged(&self, within: Duration) -> Result<(), Error> {
        self.wait(Until::Converged, within, "not converged")
    }

    /// Returns the future of [`wait_converged`](Self::wait_converged).
    ///
    /// The futures of a driver need no runtime, and have no time limit: take the runtime's. They
    /// end with [`Stopped`](crate::ErrorKind::Stopped) if the driver is stopped or dropped.
    ///
    /// ```
    /// # use trueup_graph::{Driver, Error};
    /// # async fn edit(driver: &Driver) -> Result<(), Error> {
    /// driver.converged().await?;
    /// driver.paused().await?; // nothing is written from here on
    /// driver.resume();
    /// driver.event("a")?;
    /// driver.idle().await
    /// # }
    /// ```
    pub fn converged(&self) -> impl Future<Output = Result<(), Error>> + use<> {
        Waiting::new(&self.shared, Until::Converged)
    }

    /// Waits until no vertex runs and no timer is pending. It does not wait for vertices that have
    /// failed for good, nor for their descendants.
    ///
    /// # Errors
    ///
    /// A vertex still runs or has a timer after the time `within`.
    pub fn wait_idle(&self, within: Duration) -> Result<(), Error> {
        self.wait(Until::Idle, within, "not idle")
    }

    /// Returns the future of [`wait_idle`](Self::wait_idle).
    pub fn idle(&self) -> impl Future<Output = Result<(), Error>> + use<> {
        Waiting::new(&self.shared, Until::Idle)
    }

    /// True if no vertex was dirty or running for the [quiet time](Config::with_quiet).
    pub fn is_converged(&self) -> bool {
        lock(&self.shared.core).state.is_converged(now())
    }

    /// True if all of these vertices are converged; the rest of the graph does not matter.
    ///
    /// # Errors
    ///
    /// The graph has no vertex of one of the names.
    pub fn are_converged(&self, names: &[&str]) -> Result<bool, Error> {
        let core = lock(&self.shared.core);
        for name in names {
            let vertex = find(&core, name)?;
            if !core.state.is_vertex_converged(now(), vertex) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the vertices whose run has not ended within its
    /// [timeout](VertexSpec::with_timeout).
    pub fn overdue(&self) -> Vec<String> {
        let core = lock(&self.shared.core);
        let now = now();
        let runs = core.deadlines.values().filter(|(_, at)| *at <= now);
        runs.map(|(name, _)| name.to_string()).collect()
    }

    /// Explains a vertex: why it is dirty, what it waits for, what it did last. A vertex that left
    /// is found until its reversal is done and the graph is replaced again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use trueup_graph::{Config, Driver, RunContext, Verdict, Vertex, VertexSpec};
    /// # use trueup_reconcile::MemoryLedger;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let vertex = |_: &RunContext, _apply: bool| Ok(Verdict::InPlace);
    /// let vertices = [(VertexSpec::new("a").unwatched(), Box::new(vertex) as Box<dyn Vertex>)];
    /// let driver = Driver::start(Config::new(1.try_into()?), vertices, Box::<MemoryLedger>::default())?;
    /// driver.wait_idle(Duration::from_secs(10))?;
    /// assert_eq!(driver.explain("a")?.last, Some(Ok(Verdict::InPlace)));
    /// assert!(driver.explain("b").is_err());
    /// # driver.stop(Duration::from_secs(10))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The graph has no vertex of that name.
    pub fn explain(&self, name: &str) -> Result<Explanation, Error> {
        let core = lock(&self.shared.core);
        let vertex = find_any(&core, name)?;
        core.explain(vertex).ok_or_else(|| unknown(name))
    }

    /// Returns all vertices, explained, and the edges between them.
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.shared.core).snapshot()
    }

    /// Waits until a condition holds, at most for `within`.
    fn wait(&self, until: Until, within: Duration, late: &str) -> Result<(), Error> {
        let end = after(now(), within);
        let mut core = lock(&self.shared.core);
        loop {
            let now = now();
            if let Some(answer) = core.answer(until, now) {
                return answer;
            }
            if now >= end {
                return Err(timed_out(&core, late));
            }
            let next = core.looks_again_at(until);
            core.waiting += 1;
            // This lock belongs to the same driver as the condition variable.
            core = wait_until(&self.shared.changed, core, Some(next.map_or(end, |at| at.min(end))));
            core.waiting -= 1;
        }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}
