//! Pictures of the program on a terminal, as SVG. Each is drawn from a run of the real program. Only
//! times and counts, which vary from run to run, are replaced by fixed ones, so a test can compare.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use trueup_testkit::{Scratch, ip, wait_until};

use crate::page::root;
use crate::terminal::Terminal;

/// Draws a picture with the program at this path, in the calling thread's namespace.
pub type Draw = fn(&Path) -> String;

/// The pictures by the names of their files below `docs/`.
pub const ALL: [(&str, Draw); 2] = [("plan.svg", plan), ("watch.svg", watch)];

/// What other writers do to the state of `edge.toml` before the picture of a plan.
const DAMAGE: [&str; 6] = [
    "route delete 10.2.0.0/16",
    "address delete 192.0.2.2/24 dev wan0",
    "link set dev br0 mtu 1400",
    "route add 10.77.0.0/16 dev br0 protocol 116",
    "route delete blackhole 198.51.100.0/24",
    "route add 198.51.100.0/24 dev br0 protocol static",
];

/// A directory with an example, where the program runs.
struct Example {
    folder: Scratch,
    file: &'static str,
}

impl Example {
    fn new(file: &'static str) -> Example {
        let folder = Scratch::make("pictures").unwrap();
        std::fs::copy(root().join("docs/examples").join(file), folder.join(file)).unwrap();
        Example { folder, file }
    }

    fn command(&self, program: &Path, verb: &str) -> Command {
        let mut command = Command::new(program);
        command.args([verb, self.file, "--state"]).arg(self.folder.join("state"));
        command.current_dir(&*self.folder);
        command
    }
}

/// A plan that repairs what other writers did.
fn plan(program: &Path) -> String {
    let example = Example::new("edge.toml");
    let applied = example.command(program, "apply").output().unwrap();
    assert!(applied.status.success(), "{applied:?}");
    for words in DAMAGE {
        ip(&words.split(' ').collect::<Vec<_>>());
    }
    let (terminal, mut child) = Terminal::running(example.command(program, "plan"), 24, 100);
    child.wait().unwrap();
    wait_until("the plan ends with its counts", || terminal.written().contains(" to create, "));
    svg(&lines(&format!("$ trueup plan {}\n{}", example.file, terminal.written())))
}

/// The live view, after another writer deleted the route.
fn watch(program: &Path) -> String {
    let example = Example::new("first.toml");
    let (terminal, mut child) = Terminal::running(example.command(program, "watch"), 24, 100);
    let shown = |route: &str| terminal.lines().iter().filter(|line| line.contains(route)).count();
    wait_until("it converges", || terminal.shows("converged for "));
    ip(&["route", "delete", "10.2.0.0/16"]);
    // The counts may come a frame later.
    wait_until("the route is back", || {
        shown("+ route 10.2.0.0/16") == 2 && terminal.shows("; ops 5 done, 0 failed; ")
    });
    let frame = terminal.frame().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut lines = lines(&frame);
    lines.iter_mut().for_each(|line| line.text = with_fixed_numbers(&line.text));
    svg(&lines)
}

/// Replaces the times and counts of a frame of `watch` that vary from run to run.
fn with_fixed_numbers(line: &str) -> String {
    if let Some((age, change)) = line.split_once(" ago  ")
        && age.starts_with("  ")
    {
        return format!("  {:>8} ago  {change}", "2 s");
    }
    let mut line = line.to_owned();
    for (label, fixed) in [
        ("converged for ", "2"),
        ("passes ", "1"),
        (" whole, ", "2"),
        ("hints ", "2"),
        ("last pass ", "0.6"),
    ] {
        if let Some((before, after)) = line.split_once(label) {
            let rest = after.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
            line = format!("{before}{label}{fixed}{rest}");
        }
    }
    line
}

/// A line of a terminal. The program gives each line one style.
struct Line {
    text: String,
    colour: &'static str,
    is_bold: bool,
}

/// Reads the lines of a terminal's text.
///
/// # Panics
///
/// If a line has a style that the pictures do not know.
fn lines(written: &str) -> Vec<Line> {
    let lines = written.lines().map(|line| {
        let mut parts = line.trim_end_matches('\r').split("\x1b[");
        let mut text = parts.next().unwrap_or_default().to_owned();
        let (mut colour, mut is_bold) = (PLAIN, false);
        for part in parts {
            let end = part.find(|it: char| it.is_ascii_alphabetic()).expect("a whole sequence");
            let (sequence, rest) = part.split_at(end + 1);
            text += rest;
            match sequence {
                "1m" => is_bold = true,
                "32m" | "38;5;2m" => colour = "#3fb950",
                "33m" => colour = "#d29922",
                "31m" | "38;5;1m" => colour = "#f85149",
                "1;31m" => (colour, is_bold) = ("#f85149", true),
                "36m" => colour = "#39c5cf",
                // The end of a style, and what erases the rest of a line or screen.
                "0m" | "39m" | "K" | "J" => {}
                _ => panic!("an unknown sequence: {sequence:?}"),
            }
        }
        Line { text, colour, is_bold }
    });
    lines.collect()
}

const PLAIN: &str = "#c9d1d9";
/// Characters in a line.
const COLUMNS: usize = 100;
/// Sizes in pixels. A character of the usual fonts is 0.6 of its height wide.
const FONT: f32 = 13.0;
const WIDTH: f32 = 0.6 * FONT;
const HEIGHT: f32 = 19.0;
const MARGIN: f32 = 14.0;

/// Draws lines, each wrapped as a terminal does.
fn svg(lines: &[Line]) -> String {
    let mut text = String::new();
    let mut rows = 0_u16;
    for Line { text: line, colour, is_bold } in lines {
        let weight = if *is_bold { " font-weight=\"bold\"" } else { "" };
        let characters: Vec<char> = line.chars().collect();
        for row in characters.chunks(COLUMNS) {
            let y = MARGIN + HEIGHT * (f32::from(rows) + 0.75);
            let row = (row.iter().collect::<String>())
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;");
            writeln!(text, "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"{colour}\"{weight}>{row}</text>")
                .expect("a string takes all");
            rows += 1;
        }
        // An empty line has no chunk.
        rows += u16::from(line.is_empty());
    }
    let (width, height) =
        (2.0 * MARGIN + WIDTH * COLUMNS as f32, 2.0 * MARGIN + HEIGHT * f32::from(rows));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"{FONT}\" xml:space=\"preserve\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n{text}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_wrapped_and_keeps_its_colour() {
        let drawn = svg(&lines(&format!("\x1b[32m{}<\x1b[0m\r\n\r\nb\r\n", "a".repeat(COLUMNS))));
        let rows: Vec<_> = drawn.lines().filter(|row| row.starts_with("<text")).collect();
        assert_eq!(rows.len(), 3, "{drawn}");
        assert!(rows[1].contains("#3fb950") && rows[1].contains("&lt;"), "{}", rows[1]);
        assert!(rows[2].contains(PLAIN), "{}", rows[2]);
        // The empty line takes one, too.
        assert!(rows[2].contains(&format!("y=\"{}\"", MARGIN + HEIGHT * 3.75)), "{}", rows[2]);
    }

    #[test]
    fn only_the_numbers_that_vary_are_replaced() {
        for (line, fixed) in [
            ("converged for 12 s", "converged for 2 s"),
            ("  1 min 02 s ago  + route 10.2.0.0/16", "       2 s ago  + route 10.2.0.0/16"),
            (
                "passes 3 whole, 4 partial; ops 5 done, 6 failed; hints 7; last pass 12.5 ms",
                "passes 1 whole, 2 partial; ops 5 done, 6 failed; hints 2; last pass 0.6 ms",
            ),
            ("manages 1 link", "manages 1 link"),
        ] {
            assert_eq!(with_fixed_numbers(line), fixed);
        }
    }
}
