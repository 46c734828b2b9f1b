//! Whether a graph is paused, and whether it is converged.

use std::time::Instant;

use super::{RunId, State};
use crate::{Graph, VertexId};

/// Questions of the driver.
impl State {
    /// True if it is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// True if it is paused, no run goes on, and nothing is or will be written.
    pub fn is_quiesced(&self) -> bool {
        self.paused && self.runs.is_empty() && self.writing.is_none() && self.unsaved.is_empty()
    }

    /// True if no vertex runs, and none will before something happens: what is not settled has
    /// failed for good, waits for one that has or for a value, or is paused.
    pub fn is_idle(&self) -> bool {
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
    pub fn is_converged(&self, now: Instant) -> bool {
        self.converges_at().is_some_and(|at| at <= now)
    }

    /// Returns when the graph counts as converged if nothing happens before; `None` while a vertex
    /// is dirty, waits, runs or fails.
    pub fn converges_at(&self) -> Option<Instant> {
        self.quiet_since?.checked_add(self.config.quiet)
    }

    /// True if the vertex has not been dirty or running for the quiet time. Asked of all vertices
    /// of a part, it says whether the part is converged.
    pub fn is_vertex_converged(&self, now: Instant, vertex: VertexId) -> bool {
        let slot = self.slots.get(vertex.0 as usize);
        let since = slot.and_then(|it| it.settled_since);
        since.and_then(|it| self.after(it, self.config.quiet)).is_some_and(|at| at <= now)
    }

    /// Returns the graph that is running.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}
