//! Lines of text, lines of JSON, and the status for the service manager.

use std::io::{self, IsTerminal as _, Write};
use std::time::{Instant, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};

use super::Inner;
use crate::commands::watch::world_status::WorldStatus;
use crate::host::Report;
use crate::output::{self, Format, News};

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
        JsonLine { event, time: output::seconds(SystemTime::now()), of }
    }
}

impl Inner {
    pub(super) fn put_news(&mut self, news: &News<'_>) {
        match (self.format, &self.screen) {
            (_, Some(_)) => {}
            (Format::Json, _) => self.put_line("report", news),
            _ => self.put(|out| news.write(out)),
        }
    }

    pub(super) fn event(&mut self, event: &str, of: &Value) {
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

    /// Prints what is no event, for people who read lines.
    pub(super) fn put_text(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.format != Format::Json && self.screen.is_none() {
            self.put(write);
        }
    }

    pub(super) fn put(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        match output::print_to_reader(write) {
            Ok(true) => {}
            Ok(false) => self.reader_gone(),
            // A full disk under a log must not stop the passes.
            Err(error) => output::note(output::with_causes(error.as_ref())),
        }
    }

    /// Ends the loop, because output must not be lost in silence.
    pub(super) fn reader_gone(&mut self) {
        self.has_reader = false;
        self.loops.stop();
    }

    /// Writes to the standard error, unless that is the terminal of the screen.
    pub(super) fn write_note(&self, what: &str) {
        if self.may_use_stderr() {
            output::note(what);
        }
    }

    /// Reports the notices of a pass that were not reported yet.
    pub(super) fn report_notices(&mut self, report: &Report) {
        for notice in output::notices(report) {
            if self.noticed.insert(notice.clone()) {
                self.write_note(&notice);
                self.event("notice", &json!({ "message": notice }));
            }
        }
    }

    fn may_use_stderr(&self) -> bool {
        self.screen.is_none() || !io::stderr().is_terminal()
    }

    /// Reports the verdict if it is known, and another one than was reported.
    pub(super) fn verdict_may_be_known(&mut self) {
        let verdict = self.overall().and_then(|overall| overall.verdict());
        if let Some(why_not) = verdict {
            if self.is_ready && self.verdict.as_ref() != Some(&why_not) {
                self.put_text(|out| output::write_verdict(out, why_not.as_deref()));
            }
            self.set_verdict(Instant::now(), why_not);
        }
        self.update_status();
    }

    /// Takes note of why the state is not converged, or that it is.
    pub(super) fn set_verdict(&mut self, now: Instant, why_not: Option<String>) {
        self.view.pass(now, why_not.clone());
        self.set_converged(why_not.is_none());
        self.verdict = Some(why_not);
    }

    pub(super) fn set_converged(&mut self, converged: bool) {
        if self.converged != Some(converged) {
            self.converged = Some(converged);
            self.event("converged", &json!({ "converged": converged }));
        }
    }

    pub(super) fn set_contended(&mut self, contended: usize) {
        if std::mem::replace(&mut self.contended, contended) != contended {
            self.event("contention", &json!({ "contended": contended }));
        }
    }

    /// Updates the status line and the screen.
    pub(super) fn update_status(&mut self) {
        let verdict = self.view.verdict().map(|(_, verdict)| verdict);
        let file = "the last good file is in force, not the one that is there";
        let metrics = "no metrics are served";
        let parts = [
            verdict,
            self.view.is_refused().then(|| file.to_owned()),
            self.view.is_without_metrics().then(|| metrics.to_owned()),
            self.world.as_ref().and_then(WorldStatus::trouble),
        ];
        let status = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if status != self.status {
            self.service.status(status.clone());
            self.status = status;
        }
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(screen) = &self.screen {
            screen.wake();
        }
    }
}
