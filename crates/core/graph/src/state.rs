//! The run of a graph as a state machine, driven by time and events. It has no clock, no thread and
//! no I/O.
//!
//! It keeps three facts for each vertex; the rest follows from them:
//!
//! - A vertex is *unsettled* while it is dirty or running. All its descendants are dirty.
//! - `blocked` counts its unsettled parents. It runs when the count is 0. A parent by order only
//!   does not count while it waits because of a failure: see `tried`.
//! - A dirty vertex that only workers, semaphores or a pause keep from running has a ticket: its
//!   place in a queue.
//!
//! So no vertex compares its time with another's, and an event's cost depends only on the vertices
//! that it makes run.

mod action;
mod explain;
mod groups;
mod notify;
pub(crate) mod replace;
mod runs;
mod schedule;
mod semaphores;
mod slot;
mod undo;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

pub(crate) use self::action::{Action, Context, RunId};
pub use self::action::{Made, Record, Verdict};
pub(crate) use self::explain::{Cause, one_line};
pub use self::explain::{Explanation, Wait};
use self::groups::Group;
pub(crate) use self::notify::Intent;
pub(crate) use self::runs::{Run, Stage};
pub(crate) use self::semaphores::Semaphores;
pub(crate) use self::slot::Slot;
use crate::{Graph, VertexId};

/// Records by their vertices' names.
pub(crate) type Records = BTreeMap<Arc<str>, Record>;

/// The state machine that decides a graph's run.
///
/// A driver calls [`poll_action`](Self::poll_action) until it returns `None`. Then it sleeps until
/// [`poll_timeout`](Self::poll_timeout) or the next input, and begins again.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) start: Instant,
    pub(crate) graph: Arc<Graph>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) runs: Vec<Run>,
    pub(crate) last_run: u64,
    pub(crate) paused: bool,
    /// The number of unsettled vertices.
    pub(crate) unsettled: usize,
    /// The start of the quiet time; `None` while a vertex is unsettled.
    pub(crate) quiet_since: Option<Instant>,
    /// Vertices that wait only for a worker, by ticket.
    pub(crate) ready: BTreeMap<u64, u32>,
    pub(crate) groups: Vec<Group>,
    /// The number of workers in use.
    pub(crate) busy: usize,
    pub(crate) last_ticket: u64,
    pub(crate) semaphores: Semaphores,
    pub(crate) timers: BTreeSet<(Instant, u32)>,
    /// For each vertex with a rate: the time when its full burst is available again.
    pub(crate) full_at: BTreeMap<u32, Instant>,
    pub(crate) to_watch: BTreeSet<u32>,
    /// Runs whose intent is recorded and that may apply.
    pub(crate) to_apply: VecDeque<RunId>,
    pub(crate) unsaved: Records,
    /// Runs that continue once the currently unsaved records are saved.
    pub(crate) waiting: Vec<RunId>,
    /// The records being written, and the runs that wait for them.
    pub(crate) writing: Option<(Records, Vec<RunId>)>,
    /// The time of the next attempt to write records, after a failure.
    pub(crate) persist_at: Option<Instant>,
    /// Each reversal with a needed vertex, which must not be reversed before it.
    pub(crate) needed: Vec<(u32, u32)>,
    /// Records of vertices that are not in the graph, without their `made`.
    pub(crate) unknown: Records,
    /// The vertices' work, as in the journal or in the next write.
    pub(crate) made: BTreeMap<Arc<str>, Made>,
    pub(crate) last_place: u64,
    /// Vertices whose former namesake is being reversed, each with that reversal.
    pub(crate) twins: BTreeMap<u32, u32>,
    /// The ports that have a value, by sender's name and port.
    pub(crate) values: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Reversals whose vertex did not adopt their work.
    pub(crate) refused: BTreeSet<u32>,
}

/// The driver's inputs and questions.
impl State {
    /// Creates the state with every vertex dirty. `records` are all records of the journal. A
    /// record of a vertex outside the graph stays there until a replacement brings the vertex. The
    /// work of such a vertex is undone if the graph has its [reversal](Graph::restore).
    pub(crate) fn new(
        config: Config,
        graph: Graph,
        records: impl IntoIterator<Item = (Arc<str>, Record)>,
        now: Instant,
    ) -> Self {
        let mut state = State {
            config,
            start: now,
            slots: vec![Slot::default(); graph.len()],
            semaphores: Semaphores::new(&graph),
            runs: Vec::new(),
            last_run: 0,
            paused: false,
            unsettled: 0,
            quiet_since: Some(now),
            ready: BTreeMap::new(),
            groups: vec![Group::default(); graph.groups.count],
            busy: 0,
            last_ticket: 0,
            timers: BTreeSet::new(),
            full_at: BTreeMap::new(),
            to_watch: BTreeSet::new(),
            to_apply: VecDeque::new(),
            unsaved: BTreeMap::new(),
            waiting: Vec::new(),
            writing: None,
            persist_at: None,
            needed: Vec::new(),
            unknown: records.into_iter().collect(),
            made: BTreeMap::new(),
            last_place: 0,
            twins: BTreeMap::new(),
            refused: BTreeSet::new(),
            graph: Arc::new(graph),
            values: BTreeSet::new(),
        };
        state.take_made();
        state.close_intents();
        state.pair_twins();
        state.find_needed();
        state.refused = state.twins.values().copied().collect();
        for at in 0..state.slots.len() as u32 {
            state.adopt_record(at);
            state.watch(at);
            let is_left = at as usize >= state.graph.own;
            let slot = &mut state.slots[at as usize];
            slot.dirty = true;
            if is_left {
                slot.cause = Cause::Removed;
            }
        }
        state.extend_made();
        state.count(now);
        state
    }

    /// Returns the next action; `None` if nothing is to be done now.
    pub(crate) fn poll_action(&mut self, now: Instant) -> Option<Action> {
        self.fire_timers(now);
        if let Some(at) = self.to_watch.pop_first() {
            let vertex = VertexId(at);
            return Some(Action::Watch { vertex });
        }
        while let Some(run) = self.to_apply.pop_front() {
            if let Some(action) = self.apply_together(now, run) {
                return Some(action);
            }
        }
        while !self.paused && self.busy < self.config.workers.get() {
            let Some((_, vertex)) = self.ready.pop_first() else {
                break;
            };
            if let Some(action) = self.start_together(now, vertex) {
                return Some(action);
            }
        }
        self.persist(now)
    }

    /// Returns the time of the next [`poll_action`](Self::poll_action) if there is no input before
    /// it; `None` if only an input can cause an action.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let write = self.persist_at.filter(|_| self.writing.is_none());
        let timer = self.timers.first().map(|(at, _)| *at);
        write.into_iter().chain(timer).min()
    }

    /// Notes that a vertex's watch is ready: it reports all changes from now on.
    pub(crate) fn handle_ready(&mut self, now: Instant, vertex: VertexId) {
        if let Some(slot) = self.slots.get_mut(vertex.0 as usize) {
            slot.watched = true;
            self.enqueue(now, vertex.0);
        }
    }

    /// Notes that the state behind a vertex may have changed. The vertex runs once for all events
    /// before its run begins, and once more for events during the run.
    pub(crate) fn handle_event(&mut self, now: Instant, vertex: VertexId) {
        if (vertex.0 as usize) < self.graph.own {
            self.look_again(now, vertex.0, Cause::Event);
        }
    }

    /// Makes a vertex run as soon as it may, without the delay after its failures: an operator has
    /// removed the cause.
    pub(crate) fn handle_retry(&mut self, now: Instant, vertex: VertexId) {
        if (vertex.0 as usize) < self.graph.own {
            self.slots[vertex.0 as usize].set_not_before(None);
            self.handle_event(now, vertex);
        }
    }

    /// Handles a run's result.
    pub(crate) fn handle_done(
        &mut self,
        now: Instant,
        run: RunId,
        result: Result<Verdict, ErrorClass>,
    ) {
        if let Some(at) = self.called(run) {
            self.finish(now, at, result);
        }
    }

    /// Handles the result of [`Action::Persist`]: true if the records are durable. If not, they are
    /// written again later, and the runs that need them continue to wait.
    pub(crate) fn handle_persisted(&mut self, now: Instant, is_durable: bool) {
        let Some((mut records, runs)) = self.writing.take() else {
            return;
        };
        if is_durable {
            self.persist_at = None;
            runs.into_iter().for_each(|run| self.recorded(now, run));
        } else {
            self.persist_at = now.checked_add(self.config.persist_delay);
            // The records changed meanwhile are newer.
            records.append(&mut self.unsaved);
            self.unsaved = records;
            self.waiting.extend(runs);
        }
    }

    /// Pauses: no run begins or begins to apply. [`is_quiesced`](Self::is_quiesced) is true once
    /// the current runs have ended. Events are kept.
    pub(crate) fn handle_pause(&mut self, now: Instant) {
        self.paused = true;
        // Give up the runs that were about to apply.
        while let Some(run) = self.to_apply.pop_front() {
            self.give_up(now, run);
        }
    }

    /// Ends a pause; the dirty vertices run.
    pub(crate) fn handle_resume(&mut self) {
        self.paused = false;
    }
}

/// A graph's settings: its number of workers, its quiet time, and the delay before failed writes
/// are repeated.
///
/// ```
/// use std::time::Duration;
/// use trueup_graph::Config;
///
/// let config = Config::new(4.try_into()?).with_quiet(Duration::from_millis(10));
/// # let _ = config;
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) workers: NonZeroUsize,
    pub(crate) quiet: Duration,
    pub(crate) persist_delay: Duration,
}

impl Config {
    /// Creates settings for at most `workers` vertices that run at a time.
    pub fn new(workers: NonZeroUsize) -> Self {
        Config { workers, quiet: Duration::from_secs(1), persist_delay: Duration::from_secs(1) }
    }

    /// Sets how long no vertex may be dirty before the graph counts as converged; 1 s by default.
    #[must_use]
    pub fn with_quiet(self, quiet: Duration) -> Self {
        Config { quiet, ..self }
    }

    /// Sets the delay before failed writes of records are repeated; 1 s by default.
    #[must_use]
    pub fn with_persist_delay(self, persist_delay: Duration) -> Self {
        Config { persist_delay, ..self }
    }
}

/// The driver's questions.
impl State {
    /// True if the state is paused, nothing runs, and nothing is or will be written.
    pub(crate) fn is_quiesced(&self) -> bool {
        self.paused && self.runs.is_empty() && self.writing.is_none() && self.unsaved.is_empty()
    }

    /// True if no vertex runs, and none will without a new input: each unsettled vertex has failed
    /// for good, waits for a failed one or for a value, or is paused.
    pub(crate) fn is_idle(&self) -> bool {
        self.runs.is_empty()
            && self.writing.is_none()
            && self.unsaved.is_empty()
            && self.to_watch.is_empty()
            && self.timers.is_empty()
            && (self.paused || self.ready.is_empty())
    }

    /// Returns the vertex of a run; `None` if the run has ended.
    pub(crate) fn vertex_of(&self, run: RunId) -> Option<VertexId> {
        let run = &self.runs[self.place(run)?];
        Some(VertexId(run.vertex))
    }

    /// True if [`poll_action`](Self::poll_action) may return an action, apart from timers.
    pub(crate) fn has_action(&self) -> bool {
        let may_begin = !self.paused && self.busy < self.config.workers.get();
        let may_write = self.writing.is_none() && self.persist_at.is_none();
        may_begin && !self.ready.is_empty()
            || may_write && !self.unsaved.is_empty()
            || !self.to_watch.is_empty()
            || !self.to_apply.is_empty()
    }

    /// True if no vertex has been dirty or running for the [quiet time](crate::Config::with_quiet).
    pub(crate) fn is_converged(&self, now: Instant) -> bool {
        self.converges_at().is_some_and(|at| at <= now)
    }

    /// Returns when the graph will count as converged if nothing happens before; `None` while a
    /// vertex is dirty, waits, runs or fails.
    pub(crate) fn converges_at(&self) -> Option<Instant> {
        self.quiet_since?.checked_add(self.config.quiet)
    }

    /// True if the vertex was not dirty or running for the quiet time. If this holds for all
    /// vertices of a part, the part is converged.
    pub(crate) fn is_vertex_converged(&self, now: Instant, vertex: VertexId) -> bool {
        let slot = self.slots.get(vertex.0 as usize);
        let since = slot.and_then(|it| it.settled_since);
        since.and_then(|it| self.after(it, self.config.quiet)).is_some_and(|at| at <= now)
    }

    /// Returns the running graph, reversals included.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }
}
