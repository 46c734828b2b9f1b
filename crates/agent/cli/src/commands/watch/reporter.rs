//! The output of `watch`: lines of text, lines of JSON, or the view on a terminal.

mod events;
mod printing;
mod standing;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use trueup::Report as _;
use trueup::driver::Revision;
use trueup::graph::Snapshot;
use trueup::net::{Devices, IfName};
use trueup::reconcile::Status;
use trueup_file as file;

pub(super) use self::events::Change;
use self::standing::{Found, Overall, Standing};
use super::contested::ContestNotes;
use super::loops::Loops;
use super::screen::Waker;
use super::service_manager::Service;
use super::view::{Line, Section, View};
use super::world_status::WorldStatus;
use crate::graph::RunningGraph;
use crate::host::{Error, Part, Report};
use crate::output::{self, Format, News, StatusCounts};

/// The output. Clones share it.
#[derive(Clone)]
pub(super) struct Reporter {
    inner: Arc<Mutex<Inner>>,
    /// The file in force is the one on disk. Outside the lock, so that a scraper does not wait.
    current: Arc<AtomicBool>,
}

struct Inner {
    format: Format,
    /// The screen, if there is one: then nothing else writes to the terminal.
    screen: Option<Waker>,
    service: Service,
    view: View,
    /// The loops, which end when the standard output has no reader.
    loops: Loops,
    /// How the parts of the namespace stand.
    parts: BTreeMap<Part, Standing>,
    /// The statuses of parts that have left, which are not reported as cleared yet.
    left: Vec<Arc<Status>>,
    has_reader: bool,
    /// The last reported convergence.
    converged: Option<bool>,
    /// The last reported verdict: why the state is not converged; `None` before the first.
    verdict: Option<Option<String>>,
    /// How the world stands, if the file has `[world]`.
    world: Option<WorldStatus>,
    /// What was noted of this host's exports.
    notes: ContestNotes,
    /// The vertices without a report that failed, each with the reason that was reported last.
    failed_vertices: BTreeMap<String, String>,
    /// The vertices without a report that are still to run for the file in force; `None` before it is
    /// known which these are.
    untried: Option<BTreeSet<String>>,
    /// The graph, once it runs.
    graph: Option<RunningGraph>,
    /// The notices that were reported.
    noticed: BTreeSet<String>,
    /// The missing devices that were reported.
    missing: BTreeSet<IfName>,
    /// The last reported number of contended objects.
    contended: usize,
    /// Reports a pass.
    is_ready: bool,
    is_stopping: bool,
    status: String,
}

impl Reporter {
    pub(super) fn new(format: Format, view: View, service: Service, loops: Loops) -> Reporter {
        let inner = Inner {
            format,
            screen: None,
            service,
            view,
            loops,
            parts: BTreeMap::new(),
            left: Vec::new(),
            has_reader: true,
            converged: None,
            verdict: None,
            world: None,
            notes: ContestNotes::default(),
            failed_vertices: BTreeMap::new(),
            untried: None,
            graph: None,
            noticed: BTreeSet::new(),
            missing: BTreeSet::new(),
            contended: 0,
            is_ready: false,
            is_stopping: false,
            status: String::new(),
        };
        Reporter { inner: Arc::new(Mutex::new(inner)), current: Arc::new(AtomicBool::new(true)) }
    }

    /// Ends the loop if the standard output has no reader, also while there is nothing to print.
    pub(super) fn check_reader(&self) {
        let mut inner = self.lock();
        let out = io::stdout();
        let mut asked = [PollFd::new(&out, PollFlags::empty())];
        // A pipe without a reader and a terminal that is gone report an error. The screen checks
        // its own terminal.
        let is_gone = poll(&mut asked, Some(&Timespec::default())).is_ok()
            && asked[0].revents().contains(PollFlags::ERR);
        if is_gone && inner.screen.is_none() {
            inner.reader_gone();
        }
    }

    /// Returns false if the standard output was found without a reader.
    pub(super) fn has_reader(&self) -> bool {
        self.lock().has_reader
    }

    /// Sets the screen.
    pub(super) fn set_screen(&self, screen: Option<Waker>) {
        self.lock().screen = screen;
    }

    /// Returns the lines of the view.
    pub(super) fn lines(&self, height: usize, width: usize) -> Vec<Line> {
        let loops = self.lock().loops.clone();
        // Without the lock: they can be many.
        let (stats, exceptions) = (loops.stats(), loops.exceptions());
        let graph = self.graph();
        let now = Instant::now();
        let [failed, contended, conflicts] = Section::of_statuses(&exceptions, now);
        let statuses = [Section::of_graph(graph.as_ref()), failed, contended, conflicts];
        self.lock().view.lines(now, &stats, statuses, height, width)
    }

    /// Returns the last verdict.
    pub(super) fn verdict(&self) -> Option<String> {
        self.lock().view.verdict().map(|(_, verdict)| verdict)
    }

    /// Sets how many objects of each kind are managed.
    pub(super) fn set_managed(&self, managed: &[(&'static str, usize)]) {
        self.lock().view.set_managed(managed);
    }

    /// Reports a pass over a part.
    pub(super) fn report(&self, part: Part, revision: Revision, report: &Report) {
        let now = Instant::now();
        let mut inner = self.lock();
        if inner.screen.is_some() {
            for change in output::changes(report) {
                inner.view.change(now, change);
            }
        }
        if !inner.parts.contains_key(&part) {
            // It has left.
            return;
        }
        inner.report_notices(report);
        let changes = inner.status_changes(part);
        let Some(standing) = inner.parts.get_mut(&part) else {
            return;
        };
        standing.last = Some(Found {
            revision,
            // The network has all of the links.
            is_converged: report.converged() || part == Part::Links,
            errors: report.errors(),
        });
        let has_failed = standing.failure.take().is_some();
        let overall = inner.overall();
        let is_changed = !changes.is_empty() || output::changes(report).next().is_some();
        let verdict = overall.as_ref().and_then(Overall::verdict);
        let counts = match &overall {
            Some(overall) => overall.counts,
            None => StatusCounts::of(&inner.loops.exception_counts()),
        };
        let is_looked_at = overall.is_some();
        // The end of a failure is reported as its begin was.
        let is_new = has_failed || verdict.is_some() && inner.verdict != verdict || is_changed;
        if is_new {
            inner.put_news(&News {
                report,
                changes: &changes,
                counts,
                is_converged: overall.is_some_and(|overall| overall.is_converged),
                why_not: verdict.as_ref().map(Option::as_deref),
            });
        }
        match verdict {
            Some(why_not) => inner.set_verdict(now, why_not),
            // It is reported once it is known again.
            None if is_new => (inner.verdict, inner.converged) = (None, None),
            None => {}
        }
        if is_looked_at {
            inner.set_contended(counts.contended);
            if !std::mem::replace(&mut inner.is_ready, true) {
                inner.service.ready();
            }
        }
        inner.update_status();
    }

    /// Returns the missing devices among these that were not reported as such yet.
    pub(super) fn newly_missing(&self, devices: &Devices) -> BTreeSet<IfName> {
        let missing = &mut self.lock().missing;
        for name in devices.present() {
            missing.remove(name);
        }
        let names = devices.missing().map(|(_, name)| *name);
        names.filter(|name| missing.insert(*name)).collect()
    }

    /// Reports a pass over a part that could not run; `why` is the error of the file, if that is
    /// the cause.
    pub(super) fn failed(&self, part: Part, error: &Error, why: Option<file::Error>) {
        let why = match why {
            Some(wrong) => wrong.to_string(),
            None => output::with_causes(error),
        };
        let mut inner = self.lock();
        inner.view.failed(Instant::now(), &why);
        let is_known = |standing: &Standing| standing.failure.as_ref() == Some(&why);
        // What keeps several parts from running is reported once.
        if !inner.parts.values().any(is_known) {
            inner.write_note(&format!("the pass could not run: {why}"));
            inner.event("pass_failed", &json!({ "message": why }));
        }
        if let Some(standing) = inner.parts.get_mut(&part) {
            standing.failure = Some(why);
        }
        inner.verdict = inner.overall().and_then(|overall| overall.verdict());
        inner.set_converged(false);
        inner.update_status();
    }

    /// Sets the graph.
    pub(super) fn set_graph(&self, graph: &RunningGraph) {
        self.lock().graph = Some(graph.clone());
    }

    /// Sets which vertices are still to run for the file in force: before they have, nothing is said
    /// to be converged, nor while it is not known which they are.
    pub(super) fn set_untried(&self, vertices: Option<BTreeSet<String>>) {
        let mut inner = self.lock();
        inner.untried = vertices;
        inner.verdict_may_be_known();
    }

    /// Returns how the vertices stand, if there is more than the network.
    pub(super) fn graph(&self) -> Option<Snapshot> {
        let graph = self.lock().graph.clone()?;
        // Without the lock: a run reports under locks of the graph.
        Some(graph.snapshot()).filter(|it| it.vertices.len() > 1)
    }

    /// Returns true if the file in force is the one on disk.
    pub(super) fn is_current(&self) -> bool {
        self.current.load(Ordering::Relaxed)
    }

    /// Reports that the file is being read; [`reload_ended`](Self::reload_ended) follows. The
    /// service manager gets neither before the first pass is over.
    pub(super) fn reload_begins(&self) {
        let inner = self.lock();
        if inner.is_ready {
            inner.service.reloading();
        }
    }

    /// Reports that the file was read.
    pub(super) fn reload_ended(&self) {
        let inner = self.lock();
        if inner.is_ready {
            inner.service.ready();
        }
    }

    /// Reports a message that is no result.
    pub(super) fn note(&self, what: &str) {
        let mut inner = self.lock();
        inner.write_note(what);
        inner.view.event(Instant::now(), what.to_owned());
        inner.wake();
    }

    /// Reports the end, once.
    pub(super) fn stopping(&self) {
        let mut inner = self.lock();
        if !std::mem::replace(&mut inner.is_stopping, true) {
            inner.event("stopping", &json!({}));
            inner.service.stopping();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while reporting leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
