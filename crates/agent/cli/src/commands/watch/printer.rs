//! Prints the events of the agent: as lines of text, as lines of JSON, or on the screen.

use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use trueup_agent::text::{changes, seconds};
use trueup_agent::{Event, Handle};

use super::screen::Waker;
use super::view::{Line, Section, View};
use crate::output::{self, Format};

/// The interval of checks for a reader of the standard output.
const INTERVAL: Duration = Duration::from_secs(1);

/// Prints events. Clones share it.
#[derive(Clone)]
pub(super) struct Printer(Arc<Mutex<Inner>>);

struct Inner {
    format: Format,
    /// The screen, if there is one. Then nothing else writes to the terminal.
    screen: Option<Waker>,
    view: View,
    /// The agent, which is ended if the standard output has no reader.
    agent: Option<Handle>,
    has_reader: bool,
}

/// A line of JSON.
#[derive(Serialize)]
struct JsonLine<'a, T> {
    event: &'a str,
    /// The time of the event, in seconds since 1970.
    time: f64,
    #[serde(flatten)]
    of: T,
}

impl Printer {
    pub(super) fn new(format: Format, view: View) -> Printer {
        let inner = Inner { format, screen: None, view, agent: None, has_reader: true };
        Printer(Arc::new(Mutex::new(inner)))
    }

    /// Returns an observer that prints each event.
    pub(super) fn observer(&self) -> impl FnMut(&Event<'_>) + Send + 'static {
        let printer = self.clone();
        move |event: &Event<'_>| printer.lock().print(event)
    }

    /// Sets the agent to end if there is no reader.
    pub(super) fn set_handle(&self, agent: &Handle) {
        self.lock().agent = Some(agent.clone());
    }

    /// Sets the screen to redraw.
    pub(super) fn set_screen(&self, screen: Waker) {
        self.lock().screen = Some(screen);
    }

    /// Ends the agent if the standard output has no reader, even while there is nothing to print.
    /// Fails if the operating system refuses a thread.
    pub(super) fn watch_reader(&self) -> Result<()> {
        let printer = self.clone();
        let thread = thread::Builder::new().name("reader".into()).spawn(move || {
            while printer.has_reader() {
                thread::sleep(INTERVAL);
                printer.check_reader();
            }
        });
        thread.map(drop).context("cannot start a thread")
    }

    fn check_reader(&self) {
        let mut inner = self.lock();
        let out = io::stdout();
        let mut asked = [PollFd::new(&out, PollFlags::empty())];
        // A pipe without a reader and a closed terminal report an error. The screen checks its own
        // terminal.
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

    /// Returns the last verdict. `None` before the first.
    pub(super) fn verdict(&self) -> Option<String> {
        self.lock().view.verdict()
    }

    /// Returns the view's lines, for a screen of this size in characters.
    pub(super) fn lines(&self, agent: &Handle, height: usize, width: usize) -> Vec<Line> {
        // Without the lock: they can be many.
        let (stats, exceptions) = (agent.stats(), agent.exceptions());
        let graph = agent.graph();
        let now = Instant::now();
        let [failed, contended, conflicts] = Section::of_statuses(&exceptions, now);
        let statuses = [Section::of_graph(graph.as_ref()), failed, contended, conflicts];
        self.lock().view.lines(now, &stats, statuses, height, width)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while printing leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn print(&mut self, event: &Event<'_>) {
        if let Some(name) = event.name() {
            self.put_json(name, event);
        }
        let now = Instant::now();
        match event {
            Event::Pass(report) if self.screen.is_some() => {
                changes(*report).into_iter().for_each(|change| self.view.change(now, change));
            }
            Event::News { report, changes: statuses, .. } => self.put_text(|out| {
                let mut lines = changes(*report).into_iter().chain(statuses.lines());
                lines.try_for_each(|line| writeln!(out, "{line}"))
            }),
            Event::PassFailed { message, is_news } => {
                let text = format!("the pass could not run: {message}");
                if *is_news {
                    self.write_note(&text);
                }
                self.view.pass(now, Some(text));
            }
            Event::Verdict { why_not, is_news } => {
                if *is_news {
                    self.put_text(|out| output::write_verdict(out, why_not.as_deref()));
                }
                self.view.pass(now, why_not.clone());
            }
            Event::Vertex { line, .. } => {
                if self.screen.is_some() {
                    self.view.change(now, line.clone());
                }
                self.put_text(|out| writeln!(out, "{line}"));
            }
            Event::World(status) => self.view.world = status.line(),
            Event::Overrun(times) => self.note(format!(
                "the kernel dropped events, so everything is read again ({times})"
            )),
            Event::Subscription { with_causes, is_news: true, .. } => self.note(match with_causes {
                Some(why) => format!(
                    "cannot receive the kernel's events, so changes are found by timer only: {why}"
                ),
                None => "the kernel's events are received".to_owned(),
            }),
            Event::Metrics(failure) => {
                self.view.metrics = failure.clone();
                self.note(match failure {
                    Some(why) => format!("{why}; it is tried again"),
                    None => "the metrics are served".to_owned(),
                });
            }
            Event::File { refused, was_refused, .. } => {
                self.view.file = refused.clone();
                self.note(match refused {
                    Some(why) => format!("the last good file stays in force: {why}"),
                    None if *was_refused => "the file is good again, and in force".to_owned(),
                    None => "the new file is in force".to_owned(),
                });
            }
            Event::Notice(notice) => self.write_note(notice),
            Event::Note(note) => self.note(note.clone()),
            Event::Managed(managed) => self.view.set_managed(managed),
            _ => {}
        }
        if let Some(screen) = &self.screen {
            screen.wake();
        }
    }

    fn put_json(&mut self, event: &str, of: impl Serialize) {
        if self.format != Format::Json || self.screen.is_some() {
            return;
        }
        let line = JsonLine { event, time: seconds(SystemTime::now()), of };
        self.put(|out| output::write_json(out, &line));
    }

    /// Prints text, unless the format is JSON or there is a screen.
    fn put_text(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.format != Format::Json && self.screen.is_none() {
            self.put(write);
        }
    }

    fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        match output::print_to_reader(write) {
            Ok(true) => {}
            Ok(false) => self.reader_gone(),
            // A full disk under a log must not stop the passes.
            Err(error) => output::note(output::with_causes(error.as_ref())),
        }
    }

    /// Ends the agent, because output must not be lost in silence.
    fn reader_gone(&mut self) {
        self.has_reader = false;
        if let Some(agent) = &self.agent {
            agent.end();
        }
    }

    /// Writes a message, and shows it among the events.
    fn note(&mut self, what: String) {
        self.write_note(&what);
        self.view.event(Instant::now(), what);
    }

    /// Writes to the standard error, unless this is the screen's terminal.
    fn write_note(&self, what: &str) {
        if self.screen.is_none() || !io::stderr().is_terminal() {
            output::note(what);
        }
    }
}
