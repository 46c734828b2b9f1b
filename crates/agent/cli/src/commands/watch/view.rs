//! The lines that `watch` shows on a terminal. This module does not depend on the terminal's size
//! or its escape sequences.

mod section;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Instant;

use trueup::driver::Stats;

use self::section::age;
use crate::output::{self, count};

pub(super) use self::section::Section;

/// The most changes, events and statuses that are kept: more than a screen has lines.
const MAX_ENTRIES: usize = 200;

/// The content of the screen.
pub(super) struct View {
    /// The title: the file and the namespace.
    title: String,
    /// The number of objects of each managed kind.
    managed: String,
    verdict: Option<Verdict>,
    /// The state of the world. Empty without one.
    pub(super) world: String,
    /// Why the file on disk was refused. `None` if it was not.
    pub(super) file: Option<String>,
    /// Why no metrics are served. `None` if they are, or should not be.
    pub(super) metrics: Option<String>,
    changes: VecDeque<(Instant, String)>,
    events: VecDeque<(Instant, String)>,
}

struct Verdict {
    since: Instant,
    /// Why the state is not converged. `None` if it is.
    why_not: Option<String>,
}

/// A line and its style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Head,
    Good,
    Bad,
}

impl View {
    pub(super) fn new(title: String) -> View {
        View {
            title,
            managed: String::new(),
            verdict: None,
            world: String::new(),
            file: None,
            metrics: None,
            changes: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Sets the counts of the managed objects.
    pub(super) fn set_managed(&mut self, managed: &[(&'static str, usize)]) {
        let counts = managed.iter().map(|(kind, number)| match *kind {
            "address" => count(*number, "address", "addresses"),
            "sysctl" => count(*number, "sysctl key", "sysctl keys"),
            kind => count(*number, kind, &format!("{kind}s")),
        });
        self.managed = counts.collect::<Vec<_>>().join(", ");
    }

    /// Records a pass. `why_not` is why the state is not converged, `None` if it is.
    pub(super) fn pass(&mut self, now: Instant, why_not: Option<String>) {
        match &mut self.verdict {
            Some(verdict) if verdict.why_not.is_none() == why_not.is_none() => {
                verdict.why_not = why_not;
            }
            verdict => *verdict = Some(Verdict { since: now, why_not }),
        }
    }

    /// Records a change that a pass made.
    pub(super) fn change(&mut self, now: Instant, change: String) {
        push(&mut self.changes, now, change);
    }

    /// Records an event with its time.
    pub(super) fn event(&mut self, now: Instant, event: String) {
        push(&mut self.events, now, event);
    }

    /// Returns the last verdict. `None` before the first.
    pub(super) fn verdict(&self) -> Option<String> {
        self.verdict.as_ref().map(|verdict| match &verdict.why_not {
            None => "converged".to_owned(),
            Some(why) => format!("not converged: {why}"),
        })
    }

    /// Returns at most `height` lines of at most `width` characters. `statuses` are those of the
    /// objects that are not in place.
    pub(super) fn lines(
        &self,
        now: Instant,
        stats: &Stats,
        statuses: [Section; 4],
        height: usize,
        width: usize,
    ) -> Vec<Line> {
        let mut lines = self.head(now, stats);
        let timed = [("events", &self.events), ("last changes", &self.changes)]
            .map(|(title, lines)| Section::timed(title, lines, now));
        let all = statuses.into_iter().chain(timed);
        let sections: Vec<_> = all.filter(|it| !it.lines.is_empty()).collect();
        let mut left = height.saturating_sub(lines.len());
        let mut sections_left = sections.len();
        for section in sections {
            // Each section gets an equal share, and the unused lines of the sections before it.
            let share = left / sections_left.max(1);
            sections_left -= 1;
            let shown = section.fit(share);
            left -= shown.len();
            lines.extend(shown);
        }
        lines.truncate(height);
        for line in &mut lines {
            line.text = cut(&output::clean(&line.text), width);
        }
        lines
    }

    fn head(&self, now: Instant, stats: &Stats) -> Vec<Line> {
        let mut lines = vec![line(Tone::Head, self.title.clone())];
        lines.push(match &self.verdict {
            None => line(Tone::Plain, "the first pass runs".to_owned()),
            Some(Verdict { since, why_not }) => {
                let since = age(now, *since);
                match why_not {
                    None => line(Tone::Good, format!("converged for {since}")),
                    Some(why) => line(Tone::Bad, format!("not converged for {since}: {why}")),
                }
            }
        });
        if let Some(wrong) = &self.file {
            let text = format!("the last good file stays in force: {wrong}");
            lines.push(line(Tone::Bad, text));
        }
        if let Some(why) = &self.metrics {
            lines.push(line(Tone::Bad, why.clone()));
        }
        lines.push(line(Tone::Plain, format!("manages {}", self.managed)));
        if !self.world.is_empty() {
            lines.push(line(Tone::Plain, self.world.clone()));
        }
        lines.push(line(Tone::Plain, counts(stats)));
        lines
    }
}

/// Returns the loop's counts in one line.
fn counts(stats: &Stats) -> String {
    let (done, failed) = stats
        .ops
        .values()
        .fold((0, 0), |(done, failed), ops| (done + ops.applied, failed + ops.failed));
    let mut parts = vec![
        format!("passes {} whole, {} partial", stats.full_passes, stats.dirty_passes),
        format!("ops {done} done, {failed} failed"),
        format!("hints {}", stats.hints),
        format!("overruns {}", stats.overruns),
    ];
    if let Some(last) = stats.last_pass {
        parts.push(format!("last pass {:.1} ms", last.as_secs_f64() * 1e3));
    }
    if !stats.subscribed {
        parts.push("no events, so passes run by timer".to_owned());
    }
    parts.join("; ")
}

fn line(tone: Tone, text: String) -> Line {
    Line { text, tone }
}

fn push(into: &mut VecDeque<(Instant, String)>, now: Instant, text: String) {
    into.push_back((now, text));
    if into.len() > MAX_ENTRIES {
        into.pop_front();
    }
}

/// Cuts a text to at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
