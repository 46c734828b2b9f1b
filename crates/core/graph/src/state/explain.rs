//! Explains the state of a vertex.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

use super::{Run, Stage, State, Verdict};
use crate::{EdgeKind, VertexId};

/// The largest number of failed ancestors that are named.
const NAMED: usize = 8;

/// The reason why a vertex is dirty, or was dirty last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// It has not run since the start, or since it was added.
    #[default]
    New,
    /// An event, or a retry by the operator.
    Event,
    /// Its poll interval has passed.
    Poll,
    /// This parent is dirty, or has run.
    Parent(VertexId),
    /// Its last run failed.
    Retry,
    /// A replacement changed its settings.
    Replaced,
    /// It left the graph and is to be reversed.
    Removed,
    /// A pause or a replacement interrupted it before it applied.
    Interrupted,
    /// A vertex that has left refreshed it.
    Refreshed,
    /// Its watch ended.
    Unwatched,
}

impl Cause {
    fn name(self) -> &'static str {
        match self {
            Cause::New => "new",
            Cause::Event => "event",
            Cause::Poll => "poll",
            Cause::Parent(_) => "parent",
            Cause::Retry => "failed",
            Cause::Replaced => "replaced",
            Cause::Removed => "removed",
            Cause::Interrupted => "interrupted",
            Cause::Refreshed => "refreshed",
            Cause::Unwatched => "not watched",
        }
    }
}

/// A reason why a dirty vertex does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// It waits until its watch is ready, so that no change is missed.
    Watch,
    /// These parents run first, or are tried first.
    Parents(Vec<String>),
    /// These ancestors failed: at most eight, the first by name.
    FailedAncestors(Vec<String>),
    /// It failed for good, and waits for an event, a parent's run, or a replacement.
    Event,
    /// The time until its next retry or poll, or until its rate allows a run.
    Time(Duration),
    /// Other vertices hold a semaphore.
    Semaphore {
        /// The semaphore's identifier.
        id: String,
        /// The running vertices that hold it.
        holders: Vec<String>,
    },
    /// Its group's current run, which began without it, must end first.
    Group {
        /// The group's name.
        group: String,
        /// The running vertices of the group.
        members: Vec<String>,
    },
    /// No run has sent this value yet.
    Value {
        /// The name of the vertex that should send it.
        sender: String,
        /// The sender's port.
        port: String,
    },
    /// All workers are busy with other vertices.
    Worker,
    /// The driver is paused.
    Pause,
    /// The run waits until the journal has its record.
    Journal,
}

/// A vertex's state and the reasons for it. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The vertex's name; a reversal has the name of its vertex.
    pub name: String,
    /// The [group](crate::VertexSpec::with_group) that it shares calls with; `None` without one.
    pub group: Option<String>,
    /// Why it is dirty, in a word, such as `new`, `event`, `poll`, `parent` or `failed`; `None` if
    /// it is not dirty.
    pub cause: Option<&'static str>,
    /// The parent's name, if a parent is the cause.
    pub upstream: Option<String>,
    /// True if a run is in progress.
    pub running: bool,
    /// The reasons why it does not run; empty if it is not dirty.
    pub waits: Vec<Wait>,
    /// The number of pending refreshes, which the next successful run consumes.
    pub refreshes: u32,
    /// The number of failed runs since the last success.
    pub attempts: u32,
    /// The result of the last run that ended; `None` before the first.
    pub last: Option<Result<Verdict, ErrorClass>>,
    /// The last call's failure or warning. Only a driver fills it in.
    pub message: Option<String>,
    /// True if the vertex left the graph and is being reversed.
    pub reversal: bool,
}

impl State {
    /// Explains a vertex; `None` if the graph does not have it. Takes time linear in its unsettled
    /// ancestors.
    pub(crate) fn explain(&self, now: Instant, vertex: VertexId) -> Option<Explanation> {
        self.graph.vertex(vertex)?;
        Some(self.explain_with(now, vertex, || self.failed_ancestors(vertex.0)))
    }

    /// Explains all vertices, parents before children, in time linear in vertices and edges.
    pub(crate) fn explain_all(&self, now: Instant) -> Vec<Explanation> {
        let mut failed: Vec<Vec<u32>> = vec![Vec::new(); self.slots.len()];
        for &at in &self.graph.order {
            let parents =
                self.graph.needed(at).filter(|&it| self.slots[it as usize].is_unsettled());
            let mut own = Vec::new();
            for parent in parents {
                own.extend(&failed[parent as usize]);
                own.extend(self.has_failed(parent));
            }
            failed[at as usize] = self.first_named(own);
        }
        let each = self.graph.order.iter();
        each.map(|&at| {
            self.explain_with(now, VertexId(at), || std::mem::take(&mut failed[at as usize]))
        })
        .collect()
    }

    fn has_failed(&self, vertex: u32) -> Option<u32> {
        (self.slots[vertex as usize].attempts > 0).then_some(vertex)
    }

    /// Returns the first few of these vertices by name, without duplicates.
    fn first_named(&self, mut vertices: Vec<u32>) -> Vec<u32> {
        vertices.sort_unstable_by_key(|&it| (self.graph.name(it), it));
        vertices.dedup();
        vertices.truncate(NAMED);
        vertices
    }

    /// Explains a vertex, given its failed ancestors.
    fn explain_with(
        &self,
        now: Instant,
        vertex: VertexId,
        failed: impl FnOnce() -> Vec<u32>,
    ) -> Explanation {
        let slot = &self.slots[vertex.0 as usize];
        let is_waiting = slot.dirty && !slot.running;
        let cause = slot.dirty.then_some(slot.cause);
        let upstream = match cause {
            Some(Cause::Parent(parent)) => Some(self.text(parent.0)),
            _ => None,
        };
        let by_journal =
            |it: &&Run| matches!(it.stage, Stage::Intent | Stage::Announced | Stage::Commit);
        let run = self.runs.iter().find(|run| run.vertex == vertex.0);
        let waits = match run.filter(by_journal) {
            Some(_) => vec![Wait::Journal],
            None if is_waiting => self.waits(now, vertex.0, failed),
            None => Vec::new(),
        };
        Explanation {
            name: self.text(vertex.0),
            group: self.group_name(vertex.0),
            cause: cause.map(Cause::name),
            upstream,
            running: slot.running,
            waits,
            refreshes: slot.pending,
            attempts: slot.attempts,
            last: slot.last,
            message: None,
            reversal: self.graph.is_reversal(vertex),
        }
    }

    fn text(&self, vertex: u32) -> String {
        self.graph.name(vertex).to_string()
    }

    fn group_name(&self, vertex: u32) -> Option<String> {
        let group = &self.graph.vertices[vertex as usize].rare().group;
        group.as_ref().map(|it| it.to_string())
    }

    /// Returns a vertex's name, marked if it is a reversal.
    fn label(&self, vertex: u32) -> String {
        if self.graph.is_reversal(VertexId(vertex)) {
            format!("the reversal of {}", self.graph.name(vertex))
        } else {
            self.text(vertex)
        }
    }

    fn waits(&self, now: Instant, vertex: u32, failed: impl FnOnce() -> Vec<u32>) -> Vec<Wait> {
        let slot = &self.slots[vertex as usize];
        let mut waits = Vec::new();
        let mut parents: Vec<_> = self
            .graph
            .parents
            .of(vertex)
            .iter()
            .filter(|&&it| self.blocks(it))
            .map(|&it| self.label(EdgeKind::parent(it)))
            .collect();
        // Independent of the order of declaration.
        parents.sort_unstable();
        if !parents.is_empty() {
            waits.push(Wait::Parents(parents));
            let failed: Vec<_> = failed().into_iter().map(|it| self.label(it)).collect();
            if !failed.is_empty() {
                waits.push(Wait::FailedAncestors(failed));
            }
        }
        if !slot.watched {
            waits.push(Wait::Watch);
        }
        if slot.halted && slot.timer().is_none() {
            waits.push(Wait::Event);
        }
        if let Some(at) = slot.timer() {
            waits.push(Wait::Time(at.saturating_duration_since(now)));
        }
        if slot.ticket > 0 && !slot.granted {
            waits.extend(self.graph.holds.of(vertex).iter().map(|&id| self.held(id)));
        }
        if waits.is_empty()
            && let running = self.running_members(vertex)
            && !running.is_empty()
            && let Some(group) = self.group_name(vertex)
        {
            let members = running.into_iter().map(|it| self.text(it)).collect();
            waits.push(Wait::Group { group, members });
        }
        let missing = self.missing_values(vertex);
        waits.extend(missing.map(|(sender, port)| Wait::Value {
            sender: sender.to_string(),
            port: port.to_string(),
        }));
        if self.paused {
            waits.push(Wait::Pause);
        }
        if waits.is_empty() {
            waits.push(Wait::Worker);
        }
        waits
    }

    fn held(&self, id: u32) -> Wait {
        let holders = self.runs.iter().filter(|run| run.semaphores.contains(&id));
        Wait::Semaphore {
            id: self.semaphores.id(id).to_owned(),
            holders: holders.map(|run| self.text(run.vertex)).collect(),
        }
    }

    fn failed_ancestors(&self, vertex: u32) -> Vec<u32> {
        let (mut stack, mut seen) = (vec![vertex], BTreeSet::new());
        let mut failed = BTreeSet::new();
        while let Some(at) = stack.pop() {
            for parent in self.graph.needed(at) {
                let slot = &self.slots[parent as usize];
                if slot.is_unsettled() && seen.insert(parent) {
                    stack.push(parent);
                    failed.extend(self.has_failed(parent));
                }
            }
        }
        self.first_named(failed.into_iter().collect())
    }
}

/// Writes the explanation as one line, whatever characters a name or a message contains: a command
/// controls the message of its failure.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&mut OneLine(f))
    }
}

impl Explanation {
    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(group) = &self.group {
            write!(f, " (group {group})")?;
        }
        f.write_str(": ")?;
        if self.reversal {
            f.write_str("to be reversed, ")?;
        }
        match (self.running, self.cause) {
            (true, _) => f.write_str("running")?,
            (false, Some(_)) => f.write_str("dirty")?,
            (false, None) => f.write_str("settled")?,
        }
        match (self.cause, &self.upstream) {
            (Some(_), Some(parent)) => write!(f, " because of {parent}")?,
            (Some(cause), None) => write!(f, " ({cause})")?,
            (None, _) => {}
        }
        for wait in &self.waits {
            write!(f, "; {wait}")?;
        }
        if self.refreshes > 0 {
            let noun = if self.refreshes == 1 { "refresh" } else { "refreshes" };
            write!(f, "; {} {noun} pending", self.refreshes)?;
        }
        match self.last {
            None => f.write_str("; has not run"),
            Some(Ok(Verdict::InPlace)) => f.write_str("; last run: in place"),
            Some(Ok(Verdict::Changed)) => f.write_str("; last run: changed"),
            Some(Ok(Verdict::WouldChange)) => f.write_str("; last run: would change"),
            Some(Err(class)) => {
                write!(f, "; last run: failed ({class}), {} in a row", self.attempts)
            }
        }?;
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Watch => f.write_str("waits for its watch"),
            Wait::Parents(names) => write!(f, "waits for {}", names.join(", ")),
            Wait::FailedAncestors(names) => {
                write!(f, "skipped because {} failed", names.join(", "))
            }
            Wait::Event => f.write_str("failed for good, waits for an event"),
            Wait::Time(time) => write!(f, "waits for {time:?}"),
            Wait::Semaphore { id, holders } if holders.is_empty() => {
                write!(f, "waits its turn for semaphore {id}")
            }
            Wait::Semaphore { id, holders } => {
                write!(f, "waits for semaphore {id}, held by {}", holders.join(", "))
            }
            Wait::Group { group, members } => {
                write!(f, "waits for the run of group {group}: {}", members.join(", "))
            }
            Wait::Value { sender, port } => write!(f, "waits for {sender} to send {port}"),
            Wait::Worker => f.write_str("waits for a worker"),
            Wait::Pause => f.write_str("paused"),
            Wait::Journal => f.write_str("waits for the journal"),
        }
    }
}

/// A writer that escapes control characters.
pub(crate) struct OneLine<W>(pub(crate) W);

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|it| {
            if it.is_control() {
                write!(self.0, "{}", it.escape_default())
            } else {
                self.0.write_char(it)
            }
        })
    }
}

/// Returns the text with control characters escaped, as one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = OneLine(String::new());
    // Writing to memory does not fail.
    let _ = line.write_str(text);
    line.0
}
