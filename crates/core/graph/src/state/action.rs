//! What the driver has to do.

use std::sync::Arc;

#[cfg(doc)]
use crate::State;
use crate::VertexId;

/// The number of a run, from 1 in the order of their start. A replacement does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

/// What a run found or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// All is as declared: nothing was changed.
    InPlace,
    /// Something was changed, and now all is as declared.
    Changed,
    /// Something is not as declared, and was left so because `Context::apply` is false.
    WouldChange,
}

/// What a run is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// True if the run may change something.
    pub(crate) apply: bool,
    /// The number of refreshes pending when the run began. If it is not 0, and `apply` is true, the
    /// vertex acts even if all is as declared.
    pub(crate) refreshes: u32,
    /// True if the vertex left the graph, and what it made is to be undone.
    pub(crate) reverse: bool,
}

/// What the journal keeps of a vertex, by its name. The default is no record at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// The number of refreshes that no successful run has consumed.
    pub refreshes: u32,
    /// The names of the vertices that are to be notified if a run changes something: not empty
    /// while one may have changed something of which they are not notified yet.
    pub intent: Vec<Arc<str>>,
    /// What the vertex made, or was about to make, and has not undone.
    pub made: Option<Made>,
}

/// What the journal keeps of what a vertex made, so that it can be undone later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Made {
    /// Its place in the order of making: the largest is undone first.
    pub place: u64,
    /// The names of the nearest ancestors that may have made something, or did. What they made is
    /// undone later.
    pub after: Vec<Arc<str>>,
    /// The bytes that the vertex gave, which suffice to undo it.
    pub undo: Arc<[u8]>,
}

/// The driver's next action. Each is answered by an input. A driver has to know every action, so
/// the list is exhaustive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Watch the vertex. Then call [`State::handle_ready`].
    Watch {
        /// The vertex.
        vertex: VertexId,
    },
    /// Run the vertex. Then call [`State::handle_done`], whatever the result. One run may come
    /// twice: to check, and, once it is recorded that something will change, to apply.
    Run {
        /// The run.
        run: RunId,
        /// The vertex.
        vertex: VertexId,
        /// What to do.
        context: Context,
    },
    /// Run these vertices of one [group](crate::VertexSpec::with_group) together. Each run ends,
    /// and may come again, as if it were alone.
    RunGroup {
        /// The runs: what [`Action::Run`] says of each.
        runs: Vec<(RunId, VertexId, Context)>,
    },
    /// Write the records in one transaction. Then call [`State::handle_persisted`]. There is one
    /// such action at a time.
    Persist {
        /// The records by the names of their vertices. A default one is to be deleted.
        records: Vec<(Arc<str>, Record)>,
    },
}

impl Action {
    /// Makes the action of runs that begin, or begin to apply, together.
    pub(crate) fn of_runs(mut runs: Vec<(RunId, VertexId, Context)>) -> Option<Action> {
        if runs.len() > 1 {
            return Some(Action::RunGroup { runs });
        }
        let (run, vertex, context) = runs.pop()?;
        Some(Action::Run { run, vertex, context })
    }
}
