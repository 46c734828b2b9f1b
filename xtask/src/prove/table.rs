//! The table of `docs/safety.md`: a row for each step, with its last run.

use std::process::Command;
use std::time::Duration;

use crate::tools::{Result, between_marks, output, read, root};

const PAGE: &str = "docs/safety.md";
const BEGIN: &str = "<!-- begin: written by `cargo xtask prove` -->\n";
const END: &str = "<!-- end -->";
const HEAD: &str = "| step | what it does | result | time | commit |\n|---|---|---|---|---|\n";

/// A row of the table, about one step.
pub(super) struct Row {
    step: String,
    line: String,
}

impl Row {
    pub(super) fn new(step: &str, what: &str, result: &str, time: Duration) -> Row {
        // A row has only one line.
        let first = result.lines().next().unwrap_or_default().replace('|', "\\|");
        let minutes = time.as_secs().div_ceil(60);
        let commit = commit();
        Row {
            step: step.to_owned(),
            line: format!("| {step} | {what} | {first} | {minutes} min | {commit} |\n"),
        }
    }

    /// Reads a row of the page; `None` for other lines.
    fn read(line: &str) -> Option<Row> {
        let step = line.strip_prefix("| ")?.split_once(" |")?.0;
        (step != "step").then(|| Row { step: step.to_owned(), line: format!("{line}\n") })
    }
}

/// Replaces the rows of some steps; the others stay.
pub(super) fn write(rows: &[Row]) -> Result<()> {
    let path = root().join(PAGE);
    crate::tools::write(&path, rewritten(&read(&path)?, rows)?)
}

fn rewritten(page: &str, rows: &[Row]) -> Result<String> {
    let table = page.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let mut all: Vec<_> =
        table.into_iter().flat_map(|(table, _)| table.lines()).filter_map(Row::read).collect();
    for row in rows {
        let line = row.line.clone();
        match all.iter_mut().find(|known| known.step == row.step) {
            Some(known) => known.line = line,
            None => all.push(Row { step: row.step.clone(), line }),
        }
    }
    let lines: String = all.iter().map(|row| &*row.line).collect();
    between_marks(page, BEGIN, END, &format!("{HEAD}{lines}"))
}

/// Returns the current commit, marked if there are uncommitted changes.
fn commit() -> String {
    // Ignore the page, as each step rewrites it.
    let [name, changed] = [
        &["rev-parse", "--short", "HEAD"][..],
        &["status", "--porcelain", "--", ".", ":!docs/safety.md"],
    ]
    .map(|words| output(Command::new("git").args(words).current_dir(root())));
    let more =
        if changed.is_ok_and(|changed| changed.trim().is_empty()) { "" } else { ", changed" };
    format!("{}{more}", name.unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_steps_that_ran_are_rewritten_and_others_stay() {
        let page = format!("a\n{BEGIN}{HEAD}| fuzz | x | ok | 60 min | abc |\n{END}\nb\n");
        let rows = [("plants", "ok: 29\nmore"), ("fuzz", "a | b")]
            .map(|(step, result)| Row::new(step, "what", result, Duration::from_secs(60)));
        let page = rewritten(&page, &rows).unwrap();
        let lines: Vec<_> = page.lines().collect();
        assert!(lines[4].starts_with("| fuzz | what | a \\| b | 1 min | "), "{page}");
        assert!(lines[5].starts_with("| plants | what | ok: 29 | 1 min | "), "{page}");
        assert_eq!(lines[6..], [END, "b"]);
        assert!(rewritten("no marks", &[]).is_err());
    }

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let page = read(&root().join(PAGE)).unwrap();
        rewritten(&page, &[]).unwrap();
    }
}
