//! The parts of the screen, and times in words.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use trueup::driver::ObjectStatus;
use trueup::graph::Snapshot;
use trueup_agent::text::{status_text, vertex_line};

use super::{Line, MAX_ENTRIES, Tone, line};

/// A part of the screen with a title.
pub(in crate::commands::watch) struct Section {
    title: &'static str,
    /// The lines, the most important one first.
    pub(super) lines: Vec<String>,
    /// The number of further lines, which are not in `lines`.
    pub(super) more: usize,
}

impl Section {
    /// Returns the sections of the objects that are not in place.
    pub(in crate::commands::watch) fn of_statuses(
        all: &[ObjectStatus],
        now: Instant,
    ) -> [Section; 3] {
        let sections: [(_, &[&str]); 3] = [
            ("could not be done", &["failed", "stored_otherwise", "pending"]),
            ("contended", &["contended"]),
            ("conflicts", &["conflict"]),
        ];
        sections.map(|(title, conditions)| {
            let mut of = all.iter().filter(|it| conditions.contains(&it.status.condition.name()));
            let first = of.by_ref().take(MAX_ENTRIES);
            let lines = first.map(|it| exception_text(it, now)).collect();
            Section { title, lines, more: of.count() }
        })
    }

    /// Returns the section of the graph: a line for each vertex, parents first.
    pub(in crate::commands::watch) fn of_graph(graph: Option<&Snapshot>) -> Section {
        let vertices = graph.map_or(&[][..], |graph| &graph.vertices);
        let lines = vertices.iter().take(MAX_ENTRIES);
        Section {
            title: "graph",
            lines: lines.map(vertex_line).collect(),
            more: vertices.len().saturating_sub(MAX_ENTRIES),
        }
    }

    pub(super) fn timed(
        title: &'static str,
        lines: &VecDeque<(Instant, String)>,
        now: Instant,
    ) -> Section {
        let newest = lines.iter().rev();
        let lines = newest.map(|(at, text)| format!("{:>8} ago  {text}", age(now, *at)));
        Section { title, lines: lines.collect(), more: 0 }
    }

    /// Returns an empty line, the title, and the lines that fit. Returns nothing if no line fits.
    pub(super) fn fit(self, height: usize) -> Vec<Line> {
        let room = height.saturating_sub(2);
        if room == 0 {
            return Vec::new();
        }
        let all = self.lines.len() + self.more;
        let shown = if all > room { room - 1 } else { all };
        let mut lines =
            vec![line(Tone::Plain, String::new()), line(Tone::Head, self.title.to_owned())];
        let texts = self.lines.into_iter().take(shown);
        lines.extend(texts.map(|text| line(Tone::Plain, format!("  {text}"))));
        let missing = all - (lines.len() - 2);
        if missing > 0 {
            lines.push(line(Tone::Plain, format!("  and {missing} more")));
        }
        lines
    }
}

/// Returns the line of an object that is not in place: since when, the number of tries, and the
/// time of the next one.
fn exception_text(exception: &ObjectStatus, now: Instant) -> String {
    // Fails if the clock was set back.
    let since = exception.since.elapsed().unwrap_or_default();
    let next_try = exception.next_try.map(|at| at.saturating_duration_since(now));
    format!(
        "{:>8}  {}{}",
        words(since),
        status_text(&exception.status),
        tries_text(exception.tries, next_try)
    )
}

pub(super) fn tries_text(tries: u32, next_try: Option<Duration>) -> String {
    let tried = match tries {
        0 => String::new(),
        1 => ", tried once".to_owned(),
        tries => format!(", tried {tries} times"),
    };
    match next_try {
        Some(left) => format!("{tried}, again in {}", words(left)),
        None => tried,
    }
}

pub(super) fn age(now: Instant, at: Instant) -> String {
    words(now.saturating_duration_since(at))
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}
