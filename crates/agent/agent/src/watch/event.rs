//! What happens in a running agent, as data.

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::{Value, json};
use trueup_file::Location;
use trueup_reconcile::Outcome;

use super::world_status::WorldStatus;
use crate::report::{PassReport, ops, ownership};
use crate::status::{StatusChanges, StatusCounts};

/// Something that has happened in a running agent.
#[non_exhaustive]
pub enum Event<'a> {
    /// A pass over a part of the namespace has run.
    Pass(&'a dyn PassReport),
    /// A pass has something new.
    News {
        /// Its report.
        report: &'a dyn PassReport,
        /// The changes of statuses.
        changes: StatusChanges,
        /// The number of all statuses, new or not.
        counts: StatusCounts,
        /// All parts of the network are converged.
        is_converged: bool,
    },
    /// A pass could not run. It is no news if that is known already.
    PassFailed {
        /// Why.
        message: String,
        /// It was not known before.
        is_news: bool,
    },
    /// It is known why the state is not converged, or that it is.
    Verdict {
        /// `None`: it is converged.
        why_not: Option<String>,
        /// The author of the file should see it now.
        is_news: bool,
    },
    /// The state has converged, or is no longer converged.
    Converged(bool),
    /// So many objects are contended now.
    Contention(usize),
    /// A file, a command or the exports have been looked at.
    Vertex {
        /// Its name in the graph.
        name: String,
        /// Its state.
        state: &'static str,
        /// Why it has failed, or a warning.
        message: Option<String>,
        /// What it is, as a line.
        line: String,
    },
    /// How the collection and the exports stand.
    World(Box<WorldStatus>),
    /// Another writer has changed objects, by kind.
    Drift(BTreeMap<&'static str, usize>),
    /// The kernel has dropped events, so many times.
    Overrun(u64),
    /// The kernel's events are received, or cannot be.
    Subscription {
        /// Why they cannot be.
        failure: Option<String>,
        /// The same with its causes.
        with_causes: Option<String>,
        /// The author of the file should see it now.
        is_news: bool,
    },
    /// The metrics are served, or why they are not.
    Metrics(Option<String>),
    /// A changed file is in force, or refused.
    File {
        /// Why it is refused, so that the last good file stays in force.
        refused: Option<String>,
        /// Where in the file the cause is.
        place: Option<Location>,
        /// It was refused before.
        was_refused: bool,
    },
    /// What the author of the file should know of a pass.
    Notice(String),
    /// A message that is no result.
    Note(String),
    /// So many objects of each kind are managed by the file in force.
    Managed(Vec<(&'static str, usize)>),
    /// The first pass over each part is over.
    Ready,
    /// The file is being read again; [`Event::Reloaded`] follows.
    Reloading,
    /// The file was read again.
    Reloaded,
    /// How all stands, in a line; empty before that is known.
    Status(String),
    /// The end has begun.
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
    /// Returns the name of an event that programs are told of.
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

    /// Returns the event as a line of JSON.
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
