//! The lines that `watch` shows on a terminal. This file knows neither the terminal's size nor its
//! escape sequences.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use trueup::driver::{ObjectStatus, Stats};
use trueup::graph::Snapshot;

use crate::output::{self, count, status_text};

/// The most changes, events and statuses that are kept: more than a screen has lines.
const MAX_ENTRIES: usize = 200;

/// The content of the screen.
pub(super) struct View {
    /// The title: the file and the namespace.
    title: String,
    /// The number of objects of each managed kind.
    managed: String,
    verdict: Option<Verdict>,
    /// How the world stands; empty without one.
    world: String,
    /// Why the file on disk was refused, if it was.
    file: Option<String>,
    changes: VecDeque<(Instant, String)>,
    events: VecDeque<(Instant, String)>,
}

struct Verdict {
    since: Instant,
    /// `None` is converged.
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

    /// Notes how the world stands.
    pub(super) fn world(&mut self, line: String) {
        self.world = line;
    }

    /// Notes a pass; `why_not` is why the state is not converged.
    pub(super) fn pass(&mut self, now: Instant, why_not: Option<String>) {
        let same = |verdict: &&mut Verdict| verdict.why_not.is_none() == why_not.is_none();
        match self.verdict.as_mut().filter(same) {
            Some(verdict) => verdict.why_not = why_not,
            None => {
                self.verdict = Some(Verdict {
                    since: now,
                    why_not,
                })
            }
        }
    }

    /// Notes a pass that could not run.
    pub(super) fn failed(&mut self, now: Instant, why: &str) {
        let why_not = Some(format!("the pass could not run: {why}"));
        self.pass(now, why_not);
    }

    /// Notes why the file was refused, or `None` if it is in force.
    pub(super) fn file(&mut self, wrong: Option<String>) {
        self.file = wrong;
    }

    /// Returns true if the file on disk was refused.
    pub(super) fn is_refused(&self) -> bool {
        self.file.is_some()
    }

    /// Notes a change of a pass.
    pub(super) fn change(&mut self, now: Instant, change: String) {
        push(&mut self.changes, now, change);
    }

    /// Notes an event.
    pub(super) fn event(&mut self, now: Instant, event: String) {
        push(&mut self.events, now, event);
    }

    /// Returns whether the last pass converged, and the verdict.
    pub(super) fn verdict(&self) -> Option<(bool, String)> {
        self.verdict.as_ref().map(|verdict| match &verdict.why_not {
            None => (true, "converged".to_owned()),
            Some(why) => (false, format!("not converged: {why}")),
        })
    }

    /// Returns at most `height` lines of at most `width` characters each. `statuses` are those of
    /// the objects that are not in place.
    pub(super) fn lines(
        &self,
        now: Instant,
        stats: &Stats,
        statuses: [Section; 4],
        height: usize,
        width: usize,
    ) -> Vec<Line> {
        let mut lines = self.head(now, stats);
        let changes = Section::timed("last changes", &self.changes, now);
        let sections = statuses.into_iter();
        let sections = sections.chain([Section::timed("events", &self.events, now), changes]);
        let sections: Vec<_> = sections.filter(|it| !it.lines.is_empty()).collect();
        let mut left = height.saturating_sub(lines.len());
        let mut sections_left = sections.len();
        for section in sections {
            // Each section gets an equal share, and the rest of the sections before it.
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
        lines.push(line(Tone::Plain, format!("manages {}", self.managed)));
        if !self.world.is_empty() {
            lines.push(line(Tone::Plain, self.world.clone()));
        }
        lines.push(line(Tone::Plain, counts(stats)));
        lines
    }
}

/// Returns the loop's counts in a line.
fn counts(stats: &Stats) -> String {
    let sum = |of: fn(&trueup::driver::Ops) -> u64| stats.ops.values().map(of).sum::<u64>();
    let mut parts = vec![
        format!(
            "passes {} whole, {} partial",
            stats.full_passes, stats.dirty_passes
        ),
        format!(
            "ops {} done, {} failed",
            sum(|ops| ops.applied),
            sum(|ops| ops.failed)
        ),
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

/// A part of the screen.
pub(super) struct Section {
    title: &'static str,
    /// The most important one first.
    lines: Vec<String>,
    /// The number of further lines.
    more: usize,
}

impl Section {
    /// Returns the sections of the objects that are not in place.
    pub(super) fn of_statuses(all: &[ObjectStatus], now: Instant) -> [Section; 3] {
        let of = |title, conditions: &[&str]| {
            let mut all = all
                .iter()
                .filter(|it| conditions.contains(&it.status.condition.name()));
            let lines = all.by_ref().take(MAX_ENTRIES);
            Section {
                title,
                lines: lines.map(|it| exception_text(it, now)).collect(),
                more: all.count(),
            }
        };
        [
            of(
                "could not be done",
                &["failed", "stored_otherwise", "pending"],
            ),
            of("contended", &["contended"]),
            of("conflicts", &["conflict"]),
        ]
    }

    /// Returns the section of the graph: a line for each vertex, parents first.
    pub(super) fn of_graph(graph: Option<&Snapshot>) -> Section {
        let vertices = graph.map_or(&[][..], |graph| &graph.vertices);
        let lines = vertices.iter().take(MAX_ENTRIES);
        Section {
            title: "graph",
            lines: lines.map(output::vertex_line).collect(),
            more: vertices.len().saturating_sub(MAX_ENTRIES),
        }
    }

    fn timed(title: &'static str, lines: &VecDeque<(Instant, String)>, now: Instant) -> Section {
        let lines = lines.iter().rev();
        let lines = lines.map(|(at, text)| format!("{:>8} ago  {text}", age(now, *at)));
        Section {
            title,
            lines: lines.collect(),
            more: 0,
        }
    }

    /// Returns an empty line, the title, and the lines that fit; nothing if none fits.
    fn fit(self, height: usize) -> Vec<Line> {
        let room = height.saturating_sub(2);
        if room == 0 {
            return Vec::new();
        }
        let all = self.lines.len() + self.more;
        let shown = if all > room { room - 1 } else { all };
        let mut lines = vec![
            line(Tone::Plain, String::new()),
            line(Tone::Head, self.title.to_owned()),
        ];
        let texts = self.lines.into_iter().take(shown);
        lines.extend(texts.map(|text| line(Tone::Plain, format!("  {text}"))));
        let missing = all - (lines.len() - 2);
        if missing > 0 {
            lines.push(line(Tone::Plain, format!("  and {missing} more")));
        }
        lines
    }
}

/// Returns the line of an object that is not in place: for how long, how often it was tried, and
/// when it is tried again.
fn exception_text(exception: &ObjectStatus, now: Instant) -> String {
    // It fails where the clock was set back.
    let since = exception.since.elapsed().unwrap_or_default();
    let next_try = exception.next_try;
    let next_try = next_try.map(|at| at.saturating_duration_since(now));
    format!(
        "{:>8}  {}{}",
        words(since),
        status_text(&exception.status),
        tries_text(exception.tries, next_try)
    )
}

fn tries_text(tries: u32, next_try: Option<Duration>) -> String {
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

fn line(tone: Tone, text: String) -> Line {
    Line { text, tone }
}

fn push(into: &mut VecDeque<(Instant, String)>, now: Instant, text: String) {
    into.push_back((now, text));
    if into.len() > MAX_ENTRIES {
        into.pop_front();
    }
}

fn age(now: Instant, at: Instant) -> String {
    words(now.saturating_duration_since(at))
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// At most so many characters, in one line.
fn cut(text: &str, width: usize) -> String {
    let text = text.replace('\n', " ");
    if text.chars().count() <= width {
        return text;
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(view: &View, now: Instant, height: usize, width: usize) -> Vec<String> {
        let [mut failed, contended, conflicts] = Section::of_statuses(&[], now);
        if view
            .verdict()
            .is_some_and(|(is_converged, _)| !is_converged)
        {
            let lines = (0..10).map(|n| format!("! route 10.9.{n}.0/24   (failed: no)"));
            failed.lines = lines.collect();
            failed.more = 90;
        }
        let statuses = [Section::of_graph(None), failed, contended, conflicts];
        let lines = view.lines(now, &Stats::default(), statuses, height, width);
        lines.into_iter().map(|line| line.text).collect()
    }

    fn view(now: Instant) -> View {
        let mut view = View::new("trueup watch f.toml".into());
        view.set_managed(&[("link", 1), ("address", 2), ("route", 0)]);
        for n in 0..50 {
            view.change(now, format!("+ route 10.{n}.0.0/16"));
        }
        view.pass(now, Some("100 failed".into()));
        view
    }

    #[test]
    fn the_head_says_what_is_managed_and_how_it_stands() {
        let start = Instant::now();
        let mut view = view(start);
        let now = start + Duration::from_secs(75);
        let shown = texts(&view, now, 100, 200);
        assert_eq!(shown[0], "trueup watch f.toml");
        assert_eq!(shown[1], "not converged for 1 min 15 s: 100 failed");
        assert_eq!(shown[2], "manages 1 link, 2 addresses, 0 routes");
        assert!(
            shown.iter().any(|line| line == "  and 90 more"),
            "{shown:?}"
        );
        let newest = shown.iter().position(|line| line.contains("10.49.0.0/16"));
        let oldest = shown.iter().position(|line| line.contains("10.48.0.0/16"));
        assert!(newest < oldest, "the newest first: {shown:?}");
        view.pass(now, None);
        view.pass(now + Duration::from_secs(1), None);
        let shown = texts(&view, now + Duration::from_secs(4), 100, 200);
        assert_eq!(shown[1], "converged for 4 s", "since the first such pass");
    }

    #[test]
    fn an_object_that_failed_says_how_often_and_when_it_is_tried_again() {
        let left = Some(Duration::from_secs(64));
        assert_eq!(tries_text(0, None), "");
        assert_eq!(tries_text(1, left), ", tried once, again in 1 min 04 s");
        assert_eq!(tries_text(3, None), ", tried 3 times");
    }

    #[test]
    fn no_size_is_exceeded_and_each_section_has_its_share() {
        let now = Instant::now();
        let view = view(now);
        for height in 0..60 {
            for width in [1, 2, 10, 80] {
                let shown = texts(&view, now, height, width);
                assert!(shown.len() <= height, "{height}: {shown:?}");
                assert!(shown.iter().all(|line| line.chars().count() <= width));
            }
        }
        let shown = texts(&view, now, 24, 80);
        assert_eq!(shown.len(), 24, "the screen is filled");
        for title in ["could not be done", "last changes"] {
            assert!(shown.iter().any(|line| line == title), "{title}: {shown:?}");
        }
    }

    #[test]
    fn what_is_hostile_is_shown_as_what_it_is() {
        let now = Instant::now();
        let mut view = View::new("t".into());
        view.change(now, "~ link x alias \x1b[2J\nsecond".into());
        let shown = texts(&view, now, 24, 80).concat();
        assert!(shown.contains("\\x1b[2J second"), "{shown}");
        assert!(!shown.contains(char::is_control), "{shown}");
    }
}
