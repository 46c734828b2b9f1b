//! The events of a running agent, as data.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::{Value, json};
use trueup_file::Location;
use trueup_reconcile::Outcome;

use super::world_status::WorldStatus;
use crate::report::{PassReport, ops, ownership};
use crate::status::{StatusChanges, StatusCounts};

/// An event of a running agent.
#[non_exhaustive]
pub enum Event<'a> {
    /// A pass over a part of the namespace has run.
    Pass(&'a dyn PassReport),
    /// A pass has found or made a change.
    News {
        /// The report of this pass.
        report: &'a dyn PassReport,
        /// The changes of statuses since the last such event.
        changes: StatusChanges,
        /// The number of all statuses, new or old.
        counts: StatusCounts,
        /// True if all parts of the network are converged.
        is_converged: bool,
    },
    /// A pass could not run. A known reason is reported again without being news.
    PassFailed {
        /// The reason, with its place in the file if known.
        message: String,
        /// True if this reason is new.
        is_news: bool,
    },
    /// It is now known if the state is converged, and if not, why.
    Verdict {
        /// The reason why the state is not converged. `None` if it is.
        why_not: Option<String>,
        /// True if the author of the file should see it now.
        is_news: bool,
    },
    /// The state has converged (`true`), or is no longer converged (`false`).
    Converged(bool),
    /// The number of contended objects has changed to this.
    Contention(usize),
    /// A file, a command or the exports have run.
    Vertex {
        /// The vertex's name in the graph.
        name: String,
        /// The vertex's state, as in the graph's JSON.
        state: &'static str,
        /// The reason for a failure, or a warning.
        message: Option<String>,
        /// The vertex and its change, as a line.
        line: String,
    },
    /// The state of the collection and the exports has changed.
    World(Box<WorldStatus>),
    /// Another writer has changed objects: their number by kind.
    Drift(BTreeMap<&'static str, usize>),
    /// The kernel has dropped events, this many times.
    Overrun(u64),
    /// The subscription to the kernel's events works or has failed.
    Subscription {
        /// Why events cannot be received. `None` if they are.
        failure: Option<String>,
        /// `failure` with its causes.
        with_causes: Option<String>,
        /// True if the author of the file should see it now.
        is_news: bool,
    },
    /// The metrics are served (`None`), or why they are not.
    Metrics(Option<String>),
    /// A changed file is in force, or refused.
    File {
        /// Why the file is refused, so that the last good file stays in force. `None` if it is in
        /// force.
        refused: Option<String>,
        /// The place of the cause in the file, if known.
        place: Option<Location>,
        /// True if the file was refused before.
        was_refused: bool,
    },
    /// A note from a pass for the author of the file.
    Notice(String),
    /// A message for the user that is not a result.
    Note(String),
    /// The number of objects of each kind that the file in force manages.
    Managed(Vec<(&'static str, usize)>),
    /// The first pass over each part is over.
    Ready,
    /// The agent reads the file again. [`Event::Reloaded`] follows.
    Reloading,
    /// The agent has read the file again.
    Reloaded,
    /// The overall state as a line. Empty before it is known.
    Status(String),
    /// The agent begins to end.
    Stopping,
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Event::News { report, changes, counts, is_converged } = self else {
            return self.value().serialize(serializer);
        };
        let mut out = serializer.serialize_struct("News", 8)?;
        out.serialize_field("converged", is_converged)?;
        out.serialize_field("applied", &ops(*report, |it| it == Outcome::Applied))?;
        out.serialize_field("statuses", &changes.changed().collect::<Vec<_>>())?;
        out.serialize_field("cleared", &changes.cleared().collect::<Vec<_>>())?;
        out.serialize_field("snapshot", &changes.is_snapshot())?;
        out.serialize_field("ownership", &ownership(*report, false))?;
        out.serialize_field("errors", &report.errors())?;
        out.serialize_field("unresolved", counts)?;
        out.end()
    }
}

impl Event<'_> {
    /// Returns the event's name in JSON. `None` for events that are not passed to programs.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Event::News { .. } => "report",
            Event::PassFailed { is_news: true, .. } => "pass_failed",
            Event::Converged(_) => "converged",
            Event::Contention(_) => "contention",
            Event::Vertex { .. } => "vertex",
            Event::World(_) => "world",
            Event::Drift(_) => "drift",
            Event::Overrun(_) => "overrun",
            Event::Subscription { .. } => "subscription",
            Event::Metrics(_) => "metrics",
            Event::File { .. } => "file",
            Event::Notice(_) => "notice",
            Event::Stopping => "stopping",
            _ => return None,
        })
    }

    /// Returns the event as `trueup watch --format json` prints it, without a line feed.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn value(&self) -> Value {
        match self {
            Event::PassFailed { message, .. } | Event::Notice(message) => {
                json!({ "message": message })
            }
            Event::Converged(converged) => json!({ "converged": converged }),
            Event::Contention(contended) => json!({ "contended": contended }),
            Event::Vertex { name, state, message, .. } => {
                json!({ "vertex": name, "state": state, "message": message })
            }
            Event::World(status) => status.json(),
            Event::Drift(objects) => json!({ "objects": objects }),
            Event::Overrun(times) => json!({ "overruns": times }),
            Event::Subscription { failure, .. } => {
                json!({ "subscribed": failure.is_none(), "message": failure })
            }
            Event::Metrics(failure) => json!({ "served": failure.is_none(), "message": failure }),
            Event::File { refused, place, .. } => json!({
                "state": if refused.is_none() { "taken_up" } else { "refused" },
                "message": refused,
                "line": place.map(|place| place.line),
                "column": place.map(|place| place.column),
            }),
            _ => json!({}),
        }
    }
}
