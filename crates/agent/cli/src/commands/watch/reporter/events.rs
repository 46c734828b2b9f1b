//! What is reported besides the passes over parts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::json;
use trueup::Report as _;
use trueup::graph::{Failure, Verdict};
use trueup_file as file;

use super::Reporter;
use crate::commands::watch::world_status::WorldStatus;
use crate::host::{Error, Report};
use crate::output;

/// The result of reading a changed file.
pub(in crate::commands::watch) enum Change<'a> {
    /// It is in force.
    Loaded,
    /// It is refused for this reason, and the last good file stays in force.
    Refused(&'a anyhow::Error),
}

impl Reporter {
    /// Reports the run of a vertex without a report; `line` is what it has changed, if it has.
    pub(in crate::commands::watch) fn vertex(
        &self,
        name: &str,
        line: &str,
        result: &Result<Verdict, Failure>,
    ) {
        let now = Instant::now();
        let mut inner = self.lock();
        if *result == Ok(Verdict::WouldChange) {
            // It is about to change.
            return;
        }
        let untried = inner.untried.as_mut();
        let is_first = untried.is_some_and(|untried| untried.remove(name));
        let before = inner.failed_vertices.remove(name);
        let (state, message) = match result {
            Ok(Verdict::InPlace) if before.is_none() => {
                if is_first {
                    inner.verdict_may_be_known();
                }
                return;
            }
            Ok(Verdict::InPlace | Verdict::WouldChange) => ("in_place", None),
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
            inner.event("vertex", &json!({ "vertex": name, "state": state, "message": message }));
            inner.put_text(|out| writeln!(out, "{text}"));
        }
        inner.verdict_may_be_known();
    }

    /// Reports a change of how the world stands.
    pub(in crate::commands::watch) fn world(&self, change: impl FnOnce(&mut WorldStatus)) {
        let mut inner = self.lock();
        let before = inner.world.clone();
        let mut status = before.clone().unwrap_or_default();
        change(&mut status);
        let ungranted = status.collection.ungranted.iter().filter(|it| {
            let before = before.as_ref().map(|it| &it.collection.ungranted);
            before.is_none_or(|before| !before.contains(it))
        });
        let ungranted: Vec<String> = ungranted.cloned().collect();
        // Also without a change: what was noted a minute ago may be noted again.
        let contests = inner.notes.due(&status.collection.contests, Instant::now());
        for note in contests.into_iter().chain(ungranted) {
            inner.write_note(&note);
            inner.view.event(Instant::now(), note);
        }
        if before.as_ref() == Some(&status) {
            return;
        }
        let was_ungrantable =
            (before.as_ref()).is_some_and(|it| it.collection.ungrantable.is_some());
        let before = before.as_ref().and_then(WorldStatus::trouble);
        let trouble = status.trouble();
        if before.is_some() && trouble.is_none() {
            let ended = match was_ungrantable {
                true => "it is known what hosts may export",
                false => "the store is reached",
            };
            inner.write_note(&format!("{ended}; {}", status.line()));
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
    pub(in crate::commands::watch) fn world_status(&self) -> Option<WorldStatus> {
        self.lock().world.clone()
    }

    /// Reports drift.
    pub(in crate::commands::watch) fn drift(&self, report: &Report) {
        let mut inner = self.lock();
        let mut kinds = BTreeMap::<&str, usize>::new();
        report.outcomes(&mut |op| *kinds.entry(op.kind).or_default() += 1);
        inner.event("drift", &json!({ "objects": kinds }));
    }

    /// Reports dropped events.
    pub(in crate::commands::watch) fn overrun(&self, times: u64) {
        let mut inner = self.lock();
        let text = format!("the kernel dropped events, so everything is read again ({times})");
        inner.write_note(&text);
        inner.view.event(Instant::now(), text);
        inner.event("overrun", &json!({ "overruns": times }));
        inner.wake();
    }

    /// Reports that the subscription to events failed, or works again.
    pub(in crate::commands::watch) fn subscription(&self, failure: Option<&Error>) {
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
        inner.event("subscription", &json!({ "subscribed": subscribed, "message": message }));
        if failure.is_some() || inner.is_ready {
            inner.write_note(&text);
            inner.view.event(Instant::now(), text);
        }
        inner.wake();
    }

    /// Reports that the metrics are not served, or are by now.
    pub(in crate::commands::watch) fn metrics(&self, failure: Option<&str>) {
        let mut inner = self.lock();
        let text = match failure {
            Some(why) => format!("{why}; it is tried again"),
            None => "the metrics are served".to_owned(),
        };
        inner.event("metrics", &json!({ "served": failure.is_none(), "message": failure }));
        inner.write_note(&text);
        inner.view.metrics(failure.map(str::to_owned));
        inner.view.event(Instant::now(), text);
        inner.update_status();
    }

    /// Reports the result of reading a changed file.
    pub(in crate::commands::watch) fn file(&self, change: &Change<'_>) {
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
                // An error of a file has a line for each problem.
                let why_in_full = output::with_causes(why.as_ref()).replace('\n', "; ");
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
}
