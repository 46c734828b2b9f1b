//! The overall state, and the events for its changes.

mod events;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use trueup_graph::Snapshot;
use trueup_loop::Revision;
use trueup_net::{Devices, IfName};
use trueup_reconcile::Status;

use self::standing::{Found, Overall, Standing};
use super::contested::ContestNotes;
use super::event::Event;
use super::loops::Loops;
use super::world_status::WorldStatus;
use crate::graph::RunningGraph;
use crate::lock;
use crate::part::Part;
use crate::report::{PassReport, changes_anything};
use crate::status::StatusCounts;

/// A callback that gets each event, one at a time.
pub(crate) type Observer = Box<dyn FnMut(&Event<'_>) + Send>;

/// The overall state and its observers. Clones share it.
#[derive(Clone)]
pub(crate) struct Reporter {
    inner: Arc<Mutex<Inner>>,
    /// Locked before `inner`, so that events come in order. Called without the lock of `inner`.
    observers: Arc<Mutex<Vec<Observer>>>,
    /// True if the file in force is the one on disk. Outside the lock, so that a scraper does not
    /// wait.
    current: Arc<AtomicBool>,
}

#[derive(Default)]
struct Inner {
    loops: Loops,
    /// The state of each part of the namespace.
    parts: BTreeMap<Part, Standing>,
    /// The statuses of parts that have left, until they are reported as cleared.
    left: Vec<Arc<Status>>,
    /// The last reported convergence. `None` before the first report.
    converged: Option<bool>,
    /// The last reported verdict, which is why the state is not converged. `None` before the first
    /// report.
    verdict: Option<Option<String>>,
    /// The verdict in the status line.
    shown_verdict: Option<String>,
    /// The state of the world. `None` without `[world]`.
    world: Option<WorldStatus>,
    /// The notes about contests of this host's exports.
    notes: ContestNotes,
    /// The failed vertices without a report, each with the reason that was reported last.
    failed_vertices: BTreeMap<String, String>,
    /// The vertices without a report that have still to run for the file in force. `None` before
    /// they are known.
    untried: Option<BTreeSet<String>>,
    /// The graph, once it runs.
    graph: Option<RunningGraph>,
    /// The notices that were reported.
    noticed: BTreeSet<String>,
    /// The missing devices that were reported.
    missing: BTreeSet<IfName>,
    /// The last reported number of contended objects.
    contended: usize,
    /// True if the file on disk was refused.
    is_refused: bool,
    /// True if metrics should be served, and are not.
    is_without_metrics: bool,
    /// True once [`Event::Ready`] was reported.
    is_ready: bool,
    is_stopping: bool,
    /// The last reported status line.
    status: String,
}

impl Reporter {
    pub(crate) fn new(observers: Vec<Observer>, loops: Loops) -> Reporter {
        Reporter {
            inner: Arc::new(Mutex::new(Inner { loops, ..Inner::default() })),
            observers: Arc::new(Mutex::new(observers)),
            current: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Changes the state, and reports the resulting events.
    fn change<'a>(&self, change: impl FnOnce(&mut Inner, &mut Vec<Event<'a>>)) {
        let mut observers = lock(&self.observers);
        let mut events = Vec::new();
        {
            let mut inner = self.lock();
            change(&mut inner, &mut events);
            inner.update_status(&mut events);
        }
        for event in &events {
            observers.iter_mut().for_each(|observer| observer(event));
        }
    }

    /// Reports the number of managed objects of each kind.
    pub(crate) fn set_managed(&self, managed: Vec<(&'static str, usize)>) {
        self.change(|_, events| events.push(Event::Managed(managed)));
    }

    /// Reports a pass over a part.
    pub(crate) fn report(&self, part: Part, revision: Revision, report: &dyn PassReport) {
        self.change(|inner, events| {
            events.push(Event::Pass(report));
            if !inner.parts.contains_key(&part) {
                // The part has left.
                return;
            }
            inner.report_notices(report, events);
            let changes = inner.status_changes(part);
            let Some(standing) = inner.parts.get_mut(&part) else {
                return;
            };
            standing.last = Some(Found {
                revision,
                // The network covers the links as well.
                is_converged: report.converged() || part == Part::LINKS,
                errors: report.errors(),
            });
            let has_failed = standing.failure.take().is_some();
            let overall = inner.overall();
            let is_changed = !changes.is_empty() || changes_anything(report);
            let verdict = overall.as_ref().and_then(Overall::verdict);
            let counts = match &overall {
                Some(overall) => overall.counts,
                None => StatusCounts::of(&inner.loops.exception_counts()),
            };
            let is_looked_at = overall.is_some();
            // A failure's end is reported, as its begin was.
            let is_new = has_failed || verdict.is_some() && inner.verdict != verdict || is_changed;
            if is_new {
                let is_converged = overall.is_some_and(|overall| overall.is_converged);
                events.push(Event::News { report, changes, counts, is_converged });
            }
            match verdict {
                Some(why_not) => inner.set_verdict(why_not, is_new, events),
                // It is reported once it is known again.
                None if is_new => (inner.verdict, inner.converged) = (None, None),
                None => {}
            }
            if is_looked_at {
                inner.set_contended(counts.contended, events);
                if !std::mem::replace(&mut inner.is_ready, true) {
                    events.push(Event::Ready);
                }
            }
        });
    }

    /// Returns those of the missing devices that were not reported yet.
    pub(crate) fn newly_missing(&self, devices: &Devices) -> BTreeSet<IfName> {
        let missing = &mut self.lock().missing;
        for name in devices.present() {
            missing.remove(name);
        }
        let names = devices.missing().map(|(_, name)| *name);
        names.filter(|name| missing.insert(*name)).collect()
    }

    /// Reports why a pass over a part could not run.
    pub(crate) fn failed(&self, part: Part, why: String) {
        self.change(|inner, events| {
            // A reason that keeps several parts from running is reported once.
            let is_news = inner.parts.values().all(|it| it.failure.as_ref() != Some(&why));
            let message = why.clone();
            inner.shown_verdict = Some(format!("not converged: the pass could not run: {why}"));
            events.push(Event::PassFailed { message, is_news });
            if let Some(standing) = inner.parts.get_mut(&part) {
                standing.failure = Some(why);
            }
            inner.verdict = inner.overall().and_then(|overall| overall.verdict());
            inner.set_converged(false, events);
        });
    }

    /// Sets the graph, once it runs.
    pub(crate) fn set_graph(&self, graph: &RunningGraph) {
        self.lock().graph = Some(graph.clone());
    }

    /// Sets which vertices have still to run for the file in force. Until they have, nothing is
    /// reported as converged. The same holds for `None`, while they are not known.
    pub(crate) fn set_untried(&self, vertices: Option<BTreeSet<String>>) {
        self.change(|inner, events| {
            inner.untried = vertices;
            inner.verdict_may_be_known(events);
        });
    }

    /// Returns the state of each vertex. `None` if there is only the network.
    pub(crate) fn graph(&self) -> Option<Snapshot> {
        let graph = self.lock().graph.clone()?;
        // Without the lock: a run reports under locks of the graph.
        Some(graph.snapshot()).filter(|it| it.vertices.len() > 1)
    }

    /// Returns true if the file in force is the one on disk.
    pub(crate) fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed)
    }

    /// Reports that the file is being read. [`reload_ended`](Self::reload_ended) follows. Neither
    /// is reported before the first pass is over.
    pub(crate) fn reload_begins(&self) {
        self.change(|inner, events| {
            if inner.is_ready {
                events.push(Event::Reloading);
            }
        });
    }

    /// Reports that the file was read.
    pub(crate) fn reload_ended(&self) {
        self.change(|inner, events| {
            if inner.is_ready {
                events.push(Event::Reloaded);
            }
        });
    }

    /// Reports a message that is not a result.
    pub(crate) fn note(&self, what: &str) {
        self.change(|_, events| events.push(Event::Note(what.to_owned())));
    }

    /// Reports the agent's end, once.
    pub(crate) fn stopping(&self) {
        self.change(|inner, events| {
            if !std::mem::replace(&mut inner.is_stopping, true) {
                events.push(Event::Stopping);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Inner {
    /// Reports the notices of a pass that were not reported yet.
    fn report_notices(&mut self, report: &dyn PassReport, events: &mut Vec<Event<'_>>) {
        for notice in report.notices() {
            if self.noticed.insert(notice.clone()) {
                events.push(Event::Notice(notice));
            }
        }
    }

    /// Reports the verdict if it is known and differs from the last report.
    fn verdict_may_be_known(&mut self, events: &mut Vec<Event<'_>>) {
        let verdict = self.overall().and_then(|overall| overall.verdict());
        if let Some(why_not) = verdict {
            let is_news = self.is_ready && self.verdict.as_ref() != Some(&why_not);
            self.set_verdict(why_not, is_news, events);
        }
    }

    /// Sets why the state is not converged. `None` if it is.
    fn set_verdict(&mut self, why_not: Option<String>, is_news: bool, events: &mut Vec<Event<'_>>) {
        self.shown_verdict = Some(match &why_not {
            None => "converged".to_owned(),
            Some(why) => format!("not converged: {why}"),
        });
        events.push(Event::Verdict { why_not: why_not.clone(), is_news });
        self.set_converged(why_not.is_none(), events);
        self.verdict = Some(why_not);
    }

    fn set_converged(&mut self, converged: bool, events: &mut Vec<Event<'_>>) {
        if self.converged != Some(converged) {
            self.converged = Some(converged);
            events.push(Event::Converged(converged));
        }
    }

    fn set_contended(&mut self, contended: usize, events: &mut Vec<Event<'_>>) {
        if std::mem::replace(&mut self.contended, contended) != contended {
            events.push(Event::Contention(contended));
        }
    }

    /// Reports the status line if it has changed.
    fn update_status(&mut self, events: &mut Vec<Event<'_>>) {
        let file = "the last good file is in force, not the one that is there";
        let metrics = "no metrics are served";
        let parts = [
            self.shown_verdict.clone(),
            self.is_refused.then(|| file.to_owned()),
            self.is_without_metrics.then(|| metrics.to_owned()),
            self.world.as_ref().and_then(WorldStatus::trouble),
        ];
        let status = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if status != self.status {
            events.push(Event::Status(status.clone()));
            self.status = status;
        }
    }
}
