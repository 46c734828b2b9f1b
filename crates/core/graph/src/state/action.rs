//! The driver's actions.

use std::sync::Arc;

#[cfg(doc)]
use crate::State;
use crate::VertexId;

/// A run's number, counted from 1 in the order of their starts. A replacement does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

/// The result of a run that did not fail: what it changed, or would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing differs from the declared state, and nothing was changed.
    InPlace,
    /// Something was changed, and now nothing differs.
    Changed,
    /// Something differs and was left, because `apply` is false.
    WouldChange,
}

/// A run's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// True if the run may change something.
    pub(crate) apply: bool,
    /// The number of refreshes pending when the run began. If it is not 0 and `apply` is true, the
    /// vertex acts even if nothing differs.
    pub(crate) refreshes: u32,
    /// True if the vertex left the graph, and its work should be undone.
    pub(crate) reverse: bool,
}

/// A vertex's record in the journal, by the vertex's name. The default equals no record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The number of refreshes that no successful run has consumed.
    pub refreshes: u32,
    /// The names of the vertices to refresh if a run changes something. Not empty while the vertex
    /// may have made a change of which they do not know.
    pub intent: Vec<Arc<str>>,
    /// The vertex's work, done or about to be done, until it is undone.
    pub made: Option<Made>,
}

/// The work of a vertex in the journal, from which it can be undone later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// Its place in the order of making: the largest is undone first.
    pub place: u64,
    /// The names of the nearest ancestors with work, actual or possible. Their work is undone
    /// later.
    pub after: Vec<Arc<str>>,
    /// The vertex's bytes, from which it can undo the work.
    pub undo: Arc<[u8]>,
}

/// The driver's next action. The driver answers each with an input. A driver must handle every
/// action, so the list is exhaustive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Watch the vertex. Then call [`State::handle_ready`].
    Watch {
        /// The vertex to watch.
        vertex: VertexId,
    },
    /// Run the vertex. Then call [`State::handle_done`], whatever the result. One run may come
    /// twice: to check and, once the possible change is recorded, to apply.
    Run {
        /// The run's number, for the answer.
        run: RunId,
        /// The vertex to run.
        vertex: VertexId,
        /// The run's orders.
        context: Context,
    },
    /// Run these vertices of one [group](crate::VertexSpec::with_group) together. Each run ends on
    /// its own, and may come again on its own.
    RunGroup {
        /// Each vertex's run, as in [`Action::Run`].
        runs: Vec<(RunId, VertexId, Context)>,
    },
    /// Write the records in one transaction. Then call [`State::handle_persisted`]. There is at
    /// most one such action at a time.
    Persist {
        /// The records by their vertices' names. Delete the entry of a default record.
        records: Vec<(Arc<str>, Record)>,
    },
}

impl Action {
    /// Creates the action for runs that begin, or begin to apply, together; `None` if there is
    /// none.
    pub(crate) fn of_runs(mut runs: Vec<(RunId, VertexId, Context)>) -> Option<Action> {
        if runs.len() > 1 {
            return Some(Action::RunGroup { runs });
        }
        let (run, vertex, context) = runs.pop()?;
        Some(Action::Run { run, vertex, context })
    }
}
