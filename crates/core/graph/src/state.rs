//! The run of a graph as a state machine that is given time and events. It has no clock, no thread
//! and no I/O.
//!
//! Three facts are kept for each vertex, and all else follows from them:
//!
//! - A vertex is *unsettled* while it is dirty or runs. All descendants of such a vertex are dirty.
//! - `blocked` counts its unsettled parents. It runs when that is 0. Of those that it only runs
//!   after, one that waits because of a failure does not count: see `tried`.
//! - A dirty vertex that nothing but workers, semaphores or a pause keeps from running has a
//!   ticket: it stands in a queue.
//!
//! So no vertex compares its time with another's, and an event costs what it makes run.

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

/// Records by the names of their vertices.
pub(crate) type Records = BTreeMap<Arc<str>, Record>;

/// The decisions of a graph's run as a state machine.
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
    /// How many vertices are unsettled.
    pub(crate) unsettled: usize,
    /// Since when none is.
    pub(crate) quiet_since: Option<Instant>,
    /// What waits for nothing but a worker, by ticket.
    pub(crate) ready: BTreeMap<u64, u32>,
    pub(crate) groups: Vec<Group>,
    /// How many workers the runs take.
    pub(crate) busy: usize,
    pub(crate) last_ticket: u64,
    pub(crate) semaphores: Semaphores,
    pub(crate) timers: BTreeSet<(Instant, u32)>,
    /// Of a vertex with a rate: when all of its burst is there again.
    pub(crate) full_at: BTreeMap<u32, Instant>,
    pub(crate) to_watch: BTreeSet<u32>,
    /// Runs whose intent is recorded.
    pub(crate) to_apply: VecDeque<RunId>,
    pub(crate) unsaved: Records,
    /// Runs that go on once what is unsaved now is saved.
    pub(crate) waiting: Vec<RunId>,
    /// The records that are being written, and the runs that wait for it.
    pub(crate) writing: Option<(Records, Vec<RunId>)>,
    /// When records may be written again after a failure.
    pub(crate) persist_at: Option<Instant>,
    /// Reversals, each with a vertex that it needs, and that must not be reversed before it.
    pub(crate) needed: Vec<(u32, u32)>,
    /// Records of vertices that are not in the graph, without what they made.
    pub(crate) unknown: Records,
    /// What vertices made, as the journal has it or is about to.
    pub(crate) made: BTreeMap<Arc<str>, Made>,
    pub(crate) last_place: u64,
    /// Vertices of a name that is being reversed, each with its reversal.
    pub(crate) twins: BTreeMap<u32, u32>,
    /// The ports of which there is a value, with the names of their senders.
    pub(crate) values: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Those reversals whose vertex does not take over what was made.
    pub(crate) refused: BTreeSet<u32>,
}

/// Inputs and questions of the driver.
impl State {
    /// Makes the state in which every vertex is dirty. `records` are all that the journal has.
    /// Those of vertices that are not in the graph stay there, until a replacement brings the
    /// vertex; what such a vertex made is undone if the graph has its
    /// [reversal](Graph::restore).
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

    /// Returns the next action, if there is one now.
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

    /// Returns when to call [`poll_action`](Self::poll_action) again if there is no input before.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let write = self.persist_at.filter(|_| self.writing.is_none());
        let timer = self.timers.first().map(|(at, _)| *at);
        write.into_iter().chain(timer).min()
    }

    /// Takes note that the watch of a vertex is ready: it reports what happens from now on.
    pub(crate) fn handle_ready(&mut self, now: Instant, vertex: VertexId) {
        if let Some(slot) = self.slots.get_mut(vertex.0 as usize) {
            slot.watched = true;
            self.enqueue(now, vertex.0);
        }
    }

    /// Takes note that something happened to what a vertex is about. It runs once for all events
    /// that come before its run begins, and once more for those that come while it runs.
    pub(crate) fn handle_event(&mut self, now: Instant, vertex: VertexId) {
        if (vertex.0 as usize) < self.graph.own {
            self.look_again(now, vertex.0, Cause::Event);
        }
    }

    /// Has a vertex run as soon as it may, whatever delay its failures have set: somebody has
    /// removed the cause.
    pub(crate) fn handle_retry(&mut self, now: Instant, vertex: VertexId) {
        if (vertex.0 as usize) < self.graph.own {
            self.slots[vertex.0 as usize].set_not_before(None);
            self.handle_event(now, vertex);
        }
    }

    /// Takes the result of a run.
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

    /// Takes the result of [`Action::Persist`]: true if the records are durable. If not, they are
    /// written again later, and what waits for them waits on.
    pub(crate) fn handle_persisted(&mut self, now: Instant, is_durable: bool) {
        let Some((mut records, runs)) = self.writing.take() else {
            return;
        };
        if is_durable {
            self.persist_at = None;
            runs.into_iter().for_each(|run| self.recorded(now, run));
        } else {
            self.persist_at = now.checked_add(self.config.persist_delay);
            // What was unsaved meanwhile is newer.
            records.append(&mut self.unsaved);
            self.unsaved = records;
            self.waiting.extend(runs);
        }
    }

    /// Pauses: no run begins or begins to apply. [`is_quiesced`](Self::is_quiesced) is true
    /// once the running ones have ended. Events are kept.
    pub(crate) fn handle_pause(&mut self, now: Instant) {
        self.paused = true;
        // Those that would apply next are given up.
        while let Some(run) = self.to_apply.pop_front() {
            self.give_up(now, run);
        }
    }

    /// Ends a pause: what is dirty runs.
    pub(crate) fn handle_resume(&mut self) {
        self.paused = false;
    }
}

/// The settings of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) workers: NonZeroUsize,
    pub(crate) quiet: Duration,
    pub(crate) persist_delay: Duration,
}

impl Config {
    /// Returns the settings of a graph of which at most `workers` vertices run at a time.
    pub fn new(workers: NonZeroUsize) -> Self {
        Config { workers, quiet: Duration::from_secs(1), persist_delay: Duration::from_secs(1) }
    }

    /// Sets for how long no vertex may be dirty before the graph counts as converged; 1 s by
    /// default.
    #[must_use]
    pub fn with_quiet(self, quiet: Duration) -> Self {
        Config { quiet, ..self }
    }

    /// Sets after which time records that could not be written are written again; 1 s by default.
    #[must_use]
    pub fn with_persist_delay(self, persist_delay: Duration) -> Self {
        Config { persist_delay, ..self }
    }
}

/// Questions of the driver.
impl State {
    /// True if it is paused, no run goes on, and nothing is or will be written.
    pub(crate) fn is_quiesced(&self) -> bool {
        self.paused && self.runs.is_empty() && self.writing.is_none() && self.unsaved.is_empty()
    }

    /// True if no vertex runs, and none will before something happens: what is not settled has
    /// failed for good, waits for one that has or for a value, or is paused.
    pub(crate) fn is_idle(&self) -> bool {
        self.runs.is_empty()
            && self.writing.is_none()
            && self.unsaved.is_empty()
            && self.to_watch.is_empty()
            && self.timers.is_empty()
            && (self.paused || self.ready.is_empty())
    }

    /// Returns the vertex of a run that has not ended.
    pub(crate) fn vertex_of(&self, run: RunId) -> Option<VertexId> {
        let run = &self.runs[self.place(run)?];
        Some(VertexId(run.vertex))
    }

    /// True if [`poll_action`](Self::poll_action) may return an action, timers left aside.
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

    /// Returns when the graph counts as converged if nothing happens before; `None` while a vertex
    /// is dirty, waits, runs or fails.
    pub(crate) fn converges_at(&self) -> Option<Instant> {
        self.quiet_since?.checked_add(self.config.quiet)
    }

    /// True if the vertex has not been dirty or running for the quiet time. Asked of all vertices
    /// of a part, it says whether the part is converged.
    pub(crate) fn is_vertex_converged(&self, now: Instant, vertex: VertexId) -> bool {
        let slot = self.slots.get(vertex.0 as usize);
        let since = slot.and_then(|it| it.settled_since);
        since.and_then(|it| self.after(it, self.config.quiet)).is_some_and(|at| at <= now)
    }

    /// Returns the graph that is running.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }
}
