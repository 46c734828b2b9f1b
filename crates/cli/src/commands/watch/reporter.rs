//! The output of `watch`: lines of text, lines of JSON, or the view on a terminal.

mod standing;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use trueup::Report as _;
use trueup::driver::Revision;
use trueup::graph::{Failure, Snapshot, Verdict};
use trueup::reconcile::Status;
use trueup_file as file;

use self::standing::{Found, Standing};
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
    /// The vertices without a report that failed, each with the reason that was reported last.
    failed_vertices: BTreeMap<String, String>,
    /// The graph, once it runs.
    graph: Option<RunningGraph>,
    /// The last reported number of contended objects.
    contended: usize,
    /// Reports a pass.
    is_ready: bool,
    is_stopping: bool,
    status: String,
}

/// The result of reading a changed file.
pub(super) enum Change<'a> {
    /// It is in force.
    Loaded,
    /// It is refused for this reason, and the last good file stays in force.
    Refused(&'a anyhow::Error),
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
            failed_vertices: BTreeMap::new(),
            graph: None,
            contended: 0,
            is_ready: false,
            is_stopping: false,
            status: String::new(),
        };
        Reporter {
            inner: Arc::new(Mutex::new(inner)),
            current: Arc::new(AtomicBool::new(true)),
        }
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
        let statuses = [
            Section::of_graph(graph.as_ref()),
            failed,
            contended,
            conflicts,
        ];
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
        // Nothing is known of the whole before each part has been looked at.
        let verdict = overall.as_ref().map(|overall| overall.why_not.clone());
        let counts = match &overall {
            Some(overall) => overall.counts,
            None => StatusCounts::of(&inner.loops.exception_counts()),
        };
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
        let Some(why_not) = verdict else {
            if is_new {
                // It is reported once it is known again.
                inner.verdict = None;
            }
            inner.wake();
            return;
        };
        inner.view.pass(now, why_not.clone());
        let is_converged = why_not.is_none() && inner.failed_vertices.is_empty();
        inner.verdict = Some(why_not);
        inner.set_converged(is_converged);
        inner.set_contended(counts.contended);
        if !std::mem::replace(&mut inner.is_ready, true) {
            inner.service.ready();
        }
        inner.update_status();
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
        inner.verdict = inner.overall().map(|overall| overall.why_not);
        inner.set_converged(false);
        inner.update_status();
    }

    /// Sets the graph.
    pub(super) fn set_graph(&self, graph: &RunningGraph) {
        self.lock().graph = Some(graph.clone());
    }

    /// Returns how the vertices stand, if there is more than the network.
    pub(super) fn graph(&self) -> Option<Snapshot> {
        let graph = self.lock().graph.clone()?;
        // Without the lock: a run reports under locks of the graph.
        Some(graph.snapshot()).filter(|it| it.vertices.len() > 1)
    }

    /// Reports the run of a vertex without a report; `line` is what it has changed, if it has.
    pub(super) fn vertex(&self, name: &str, line: &str, result: &Result<Verdict, Failure>) {
        let now = Instant::now();
        let mut inner = self.lock();
        let before = inner.failed_vertices.remove(name);
        let (state, message) = match result {
            Ok(Verdict::WouldChange) => return,
            Ok(Verdict::InPlace) if before.is_none() => return,
            Ok(Verdict::InPlace) => ("in_place", None),
            Ok(Verdict::Changed) => ("changed", None),
            Err(failure) => ("failed", Some(failure.message().to_owned())),
        };
        if let Some(message) = &message {
            let failed = &mut inner.failed_vertices;
            failed.insert(name.to_owned(), message.clone());
        }
        if message.is_none() || message != before {
            let text = match &message {
                Some(message) => format!("! {name}   (failed: {message})"),
                None if state == "changed" => line.to_owned(),
                None => format!("  {name}   (in place)"),
            };
            if inner.screen.is_some() {
                inner.view.change(now, text.clone());
            }
            inner.event(
                "vertex",
                &json!({ "vertex": name, "state": state, "message": message }),
            );
            if inner.format != Format::Json && inner.screen.is_none() {
                inner.put(|out| writeln!(out, "{}", output::clean(&text)));
            }
        }
        if let Some(overall) = inner.overall() {
            let is_converged = overall.why_not.is_none() && inner.failed_vertices.is_empty();
            inner.set_converged(is_converged);
        }
        inner.update_status();
    }

    /// Reports a change of how the world stands.
    pub(super) fn world(&self, change: impl FnOnce(&mut WorldStatus)) {
        let mut inner = self.lock();
        let before = inner.world.clone();
        let mut status = before.clone().unwrap_or_default();
        change(&mut status);
        if before.as_ref() == Some(&status) {
            return;
        }
        let before = before.as_ref().and_then(WorldStatus::trouble);
        let trouble = status.trouble();
        if before.is_some() && trouble.is_none() {
            inner.write_note(&format!("the store is reached; {}", status.line()));
        } else if let Some(trouble) = trouble.filter(|it| before.as_ref() != Some(it)) {
            inner.write_note(&trouble);
            inner.view.event(Instant::now(), trouble);
        }
        inner.event("world", &status.json());
        inner.view.world(status.line());
        inner.world = Some(status);
        inner.update_status();
    }

    /// Returns how the world stands, if the file has `[world]`.
    pub(super) fn world_status(&self) -> Option<WorldStatus> {
        self.lock().world.clone()
    }

    /// Reports drift.
    pub(super) fn drift(&self, report: &Report) {
        let mut inner = self.lock();
        let mut kinds = BTreeMap::<&str, usize>::new();
        report.outcomes(&mut |op| *kinds.entry(op.kind).or_default() += 1);
        inner.event("drift", &json!({ "objects": kinds }));
    }

    /// Reports dropped events.
    pub(super) fn overrun(&self, times: u64) {
        let mut inner = self.lock();
        let text = format!("the kernel dropped events, so everything is read again ({times})");
        inner.write_note(&text);
        inner.view.event(Instant::now(), text);
        inner.event("overrun", &json!({ "overruns": times }));
        inner.wake();
    }

    /// Reports that the subscription to events failed, or works again.
    pub(super) fn subscription(&self, failure: Option<&Error>) {
        let mut inner = self.lock();
        let text = match failure {
            Some(error) => {
                let why = output::with_causes(error);
                format!(
                    "cannot receive the kernel's events, so changes are found by timer only: {why}"
                )
            }
            None => "the kernel's events are received".to_owned(),
        };
        let message = failure.map(ToString::to_string);
        let subscribed = failure.is_none();
        inner.event(
            "subscription",
            &json!({ "subscribed": subscribed, "message": message }),
        );
        if failure.is_some() || inner.is_ready {
            inner.write_note(&text);
            inner.view.event(Instant::now(), text);
        }
        inner.wake();
    }

    /// Reports the result of reading a changed file.
    pub(super) fn file(&self, change: &Change<'_>) {
        let now = Instant::now();
        let mut inner = self.lock();
        let (state, text, message, place) = match change {
            Change::Loaded => {
                let text = match inner.view.is_refused() {
                    true => "the file is good again, and in force",
                    false => "the new file is in force",
                };
                ("taken_up", text.to_owned(), None, None)
            }
            Change::Refused(why) => {
                let why_in_full = output::with_causes(why.as_ref());
                let text = format!("the last good file stays in force: {why_in_full}");
                let first = why.downcast_ref::<file::Error>();
                let place = first.and_then(|error| error.diagnostics().first()?.location);
                ("refused", text, Some(why_in_full), place)
            }
        };
        self.current.store(message.is_none(), Ordering::Relaxed);
        inner.view.file(message.clone());
        inner.event(
            "file",
            &json!({
                "state": state,
                "message": message,
                "line": place.map(|place| place.line),
                "column": place.map(|place| place.column),
            }),
        );
        inner.write_note(&text);
        inner.view.event(now, text);
        inner.update_status();
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

/// A line of JSON.
#[derive(Serialize)]
struct JsonLine<'a, T> {
    event: &'a str,
    /// Seconds since 1970.
    time: f64,
    #[serde(flatten)]
    of: T,
}

impl<'a, T> JsonLine<'a, T> {
    fn new(event: &'a str, of: T) -> JsonLine<'a, T> {
        JsonLine {
            event,
            time: output::seconds(SystemTime::now()),
            of,
        }
    }
}

impl Inner {
    fn put_news(&mut self, news: &News<'_>) {
        match (self.format, &self.screen) {
            (_, Some(_)) => {}
            (Format::Json, _) => self.put_line("report", news),
            _ => self.put(|out| news.write(out)),
        }
    }

    fn event(&mut self, event: &str, of: &Value) {
        if self.format != Format::Json || self.screen.is_some() {
            return;
        }
        self.put_line(event, of);
    }

    fn put_line(&mut self, event: &str, of: impl Serialize) {
        let line = JsonLine::new(event, of);
        self.put(|out| {
            serde_json::to_writer(&mut *out, &line)?;
            writeln!(out)
        });
    }

    fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        match output::print_to_reader(write) {
            Ok(true) => {}
            Ok(false) => self.reader_gone(),
            // A full disk under a log must not stop the passes.
            Err(error) => output::note(output::with_causes(error.as_ref())),
        }
    }

    /// Ends the loop, because output must not be lost in silence.
    fn reader_gone(&mut self) {
        self.has_reader = false;
        self.loops.stop();
    }

    /// Writes to the standard error, unless that is the terminal of the screen.
    fn write_note(&self, what: &str) {
        if self.may_use_stderr() {
            output::note(what);
        }
    }

    fn may_use_stderr(&self) -> bool {
        self.screen.is_none() || !io::stderr().is_terminal()
    }

    fn set_converged(&mut self, converged: bool) {
        if self.converged != Some(converged) {
            self.converged = Some(converged);
            self.event("converged", &json!({ "converged": converged }));
        }
    }

    fn set_contended(&mut self, contended: usize) {
        if std::mem::replace(&mut self.contended, contended) != contended {
            self.event("contention", &json!({ "contended": contended }));
        }
    }

    /// Updates the status line and the screen.
    fn update_status(&mut self) {
        let file = self
            .view
            .is_refused()
            .then_some("; the last good file is in force, not the one that is there");
        let (_, verdict) = self.view.verdict().unwrap_or_default();
        let world = self.world.as_ref().and_then(WorldStatus::trouble);
        let world = world.map_or_else(String::new, |trouble| format!("; {trouble}"));
        let failed = self.failed_vertices.keys().map(String::as_str);
        let failed = output::named(failed, "failed").map(|it| format!("; {it}"));
        let failed = failed.unwrap_or_default();
        let status = format!("{verdict}{failed}{}{world}", file.unwrap_or_default());
        if status != self.status {
            self.service.status(status.clone());
            self.status = status;
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(screen) = &self.screen {
            screen.wake();
        }
    }
}
