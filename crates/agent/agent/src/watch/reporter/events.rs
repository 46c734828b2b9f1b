//! Reports other than those of passes over parts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use trueup_graph::{Failure, Verdict};
use trueup_reconcile::Report;

use super::{Event, Reporter};
use crate::error::with_causes;
use crate::watch::world_status::WorldStatus;

impl Reporter {
    /// Reports the run of a vertex without a report. `line` describes its change.
    pub(crate) fn vertex(&self, name: &str, line: &str, result: &Result<Verdict, Failure>) {
        if *result == Ok(Verdict::WouldChange) {
            // The vertex is about to change something.
            return;
        }
        self.change(|inner, events| {
            let untried = inner.untried.as_mut();
            let is_first = untried.is_some_and(|untried| untried.remove(name));
            let before = inner.failed_vertices.remove(name);
            let (state, message) = match result {
                Ok(Verdict::InPlace) if before.is_none() => {
                    if is_first {
                        inner.verdict_may_be_known(events);
                    }
                    return;
                }
                Ok(Verdict::InPlace | Verdict::WouldChange) => ("in_place", None),
                Ok(Verdict::Changed) => ("changed", None),
                Err(failure) => ("failed", Some(failure.message.clone())),
            };
            if let Some(message) = &message {
                let failed = &mut inner.failed_vertices;
                failed.insert(name.to_owned(), message.clone());
            }
            if message.is_none() || message != before {
                let line = match &message {
                    Some(message) => format!("! {name}   (failed: {message})"),
                    None if state == "changed" => line.to_owned(),
                    None => format!("  {name}   (in place)"),
                };
                events.push(Event::Vertex { name: name.to_owned(), state, message, line });
            }
            inner.verdict_may_be_known(events);
        });
    }

    /// Changes the state of the world, and reports the change.
    pub(crate) fn world(&self, change: impl FnOnce(&mut WorldStatus)) {
        self.change(|inner, events| {
            let before = inner.world.clone();
            let mut status = before.clone().unwrap_or_default();
            change(&mut status);
            let ungranted = status.collection.ungranted.iter().filter(|it| {
                !before.as_ref().is_some_and(|before| before.collection.ungranted.contains(it))
            });
            // Even without a change: a contest that was noted a minute ago may be noted again.
            let contests = inner.notes.due(&status.collection.contests, Instant::now());
            events.extend(contests.into_iter().chain(ungranted.cloned()).map(Event::Note));
            if before.as_ref() == Some(&status) {
                return;
            }
            let was_ungrantable =
                (before.as_ref()).is_some_and(|it| it.collection.ungrantable.is_some());
            let (was, trouble) = (before.and_then(|before| before.trouble()), status.trouble());
            if was.is_some() && trouble.is_none() {
                let ended = if was_ungrantable {
                    "it is known what hosts may export"
                } else {
                    "the store is reached"
                };
                events.push(Event::Note(format!("{ended}; {}", status.line())));
            } else if let Some(trouble) = trouble.filter(|it| was.as_ref() != Some(it)) {
                events.push(Event::Note(trouble));
            }
            events.push(Event::World(Box::new(status.clone())));
            inner.world = Some(status);
        });
    }

    /// Returns the state of the world. `None` without `[world]`.
    pub(crate) fn world_status(&self) -> Option<WorldStatus> {
        self.lock().world.clone()
    }

    /// Reports changes by another writer.
    pub(crate) fn drift(&self, report: &dyn Report) {
        self.change(|_, events| {
            let mut kinds = BTreeMap::<&str, usize>::new();
            report.outcomes(&mut |op| *kinds.entry(op.kind).or_default() += 1);
            events.push(Event::Drift(kinds));
        });
    }

    /// Reports that the kernel dropped events, `times` times.
    pub(crate) fn overrun(&self, times: u64) {
        self.change(|_, events| events.push(Event::Overrun(times)));
    }

    /// Reports that the subscription to events failed, or works again.
    pub(crate) fn subscription(&self, failure: Option<&(dyn std::error::Error + 'static)>) {
        self.change(|inner, events| {
            events.push(Event::Subscription {
                failure: failure.map(ToString::to_string),
                with_causes: failure.map(with_causes),
                is_news: failure.is_some() || inner.is_ready,
            });
        });
    }

    /// Reports that the metrics are not served, or are served again.
    pub(crate) fn metrics(&self, failure: Option<&str>) {
        self.change(|inner, events| {
            inner.is_without_metrics = failure.is_some();
            events.push(Event::Metrics(failure.map(str::to_owned)));
        });
    }

    /// Reports that a changed file is in force, or why it is refused. In that case the last good
    /// file stays in force.
    pub(crate) fn file(&self, refused: Option<&crate::error::Error>) {
        self.change(|inner, events| {
            let is_refused = refused.is_some();
            self.current.store(!is_refused, Ordering::Relaxed);
            let was_refused = std::mem::replace(&mut inner.is_refused, is_refused);
            let first = refused.and_then(|why| why.file());
            events.push(Event::File {
                // A file's error has a line for each problem.
                refused: refused.map(|why| with_causes(why).replace('\n', "; ")),
                place: first.and_then(|error| error.diagnostics().first()?.location),
                was_refused,
            });
        });
    }
}
