//! The results of `cargo xtask prove`: a file with a row for each part of a step, and the table of
//! `docs/safety.md`, which has a row for each step. All are of one commit.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{STEPS, Step};
use crate::tools::{Result, between_marks, read, root, table, write};

const FILE: &str = "docs/proved.tsv";
const PAGE: &str = "docs/safety.md";
const BEGIN: &str = "<!-- begin: written by `cargo xtask prove` -->\n";
const END: &str = "<!-- end -->";

/// The results of parts of steps, on one commit.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    commit: String,
    /// The results, by step and part.
    results: BTreeMap<(String, String), Outcome>,
}

/// The result of a part.
#[derive(Debug, PartialEq)]
struct Outcome {
    seconds: u64,
    has_succeeded: bool,
    /// The figures, or the error's first line.
    text: String,
}

impl Record {
    /// Opens the record. Fails if it is of another commit, unless it is to begin `anew`.
    pub(super) fn open(commit: &str, anew: bool) -> Result<Record> {
        let path = root().join(FILE);
        let found = if path.exists() { Some(Record::parse(&read(&path)?)?) } else { None };
        let record = Record::of(commit, found, anew)?;
        record.save()?;
        Ok(record)
    }

    fn of(commit: &str, found: Option<Record>, anew: bool) -> Result<Record> {
        match found {
            Some(record) if record.commit == commit => Ok(record),
            Some(Record { commit: other, .. }) if !anew => Err(format!(
                "{FILE} has the results of {other}, and one table is of one commit: \
                 `cargo xtask prove --anew` discards them and begins one of {commit}"
            )),
            _ => Ok(Record { commit: commit.to_owned(), results: BTreeMap::new() }),
        }
    }

    /// Returns true if a part has succeeded.
    pub(super) fn is_shown(&self, step: &str, part: &str) -> bool {
        self.get(step, part).is_some_and(|outcome| outcome.has_succeeded)
    }

    fn get(&self, step: &str, part: &str) -> Option<&Outcome> {
        self.results.get(&(step.to_owned(), part.to_owned()))
    }

    /// Adds a part's result, and saves the record.
    pub(super) fn add(
        &mut self,
        step: &str,
        part: &str,
        ended: &Result<String>,
        time: Duration,
    ) -> Result<()> {
        let text = ended.as_ref().unwrap_or_else(|error| error);
        let outcome = Outcome {
            seconds: time.as_secs(),
            has_succeeded: ended.is_ok(),
            text: text.lines().next().unwrap_or_default().replace('\t', " "),
        };
        self.results.insert((step.to_owned(), part.to_owned()), outcome);
        self.save()
    }

    /// Writes the file and the table.
    fn save(&self) -> Result<()> {
        write(&root().join(FILE), self.render())?;
        let page = root().join(PAGE);
        write(&page, self.rewritten(&page)?)
    }

    fn parse(text: &str) -> Result<Record> {
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| line.strip_prefix("commit\t"));
        let commit = first.ok_or_else(|| format!("{FILE}: want `commit<tab>NAME` first"))?;
        let results = lines.map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [step, part, seconds, verdict, text] = columns[..] else {
                return Err(format!("{FILE}: want five columns: {line}"));
            };
            let seconds = seconds.parse().map_err(|error| format!("{FILE}: {line}: {error}"))?;
            let has_succeeded = verdict == "ok";
            let outcome = Outcome { seconds, has_succeeded, text: text.to_owned() };
            Ok(((step.to_owned(), part.to_owned()), outcome))
        });
        Ok(Record { commit: commit.to_owned(), results: results.collect::<Result<_>>()? })
    }

    fn render(&self) -> String {
        let rows = self.results.iter().map(|((step, part), outcome)| {
            let Outcome { seconds, has_succeeded, text } = outcome;
            let verdict = if *has_succeeded { "ok" } else { "FAILED" };
            format!("{step}\t{part}\t{seconds}\t{verdict}\t{text}\n")
        });
        format!("commit\t{}\n{}", self.commit, rows.collect::<String>())
    }

    /// Returns the page with this record's table.
    fn rewritten(&self, page: &Path) -> Result<String> {
        let head = ["step", "what it does", "result", "time"].map(str::to_owned).into();
        let rows: Vec<_> = STEPS.iter().map(|step| self.row(step)).collect::<Result<_>>()?;
        let text = format!("{}\n\n{}", self.heading(), table(head, rows));
        between_marks(&read(page)?, BEGIN, END, &text)
    }

    fn heading(&self) -> String {
        format!("All rows: commit {}.", self.commit)
    }

    /// Returns the row of a step: its sum, its failures, or what is left of it.
    fn row(&self, step: &Step) -> Result<Vec<String>> {
        let names = step.names()?;
        let found: Vec<_> =
            names.iter().filter_map(|part| Some((part, self.get(step.name, part)?))).collect();
        let (shown, failed): (Vec<_>, Vec<_>) =
            found.iter().partition(|(_, outcome)| outcome.has_succeeded);
        let result = if !failed.is_empty() {
            let failed = failed.iter().map(|(part, outcome)| format!("{part}: {}", outcome.text));
            format!("FAILED: {}", failed.collect::<Vec<_>>().join("; "))
        } else if shown.is_empty() {
            "not run".to_owned()
        } else if shown.len() < names.len() {
            format!("{} of {} parts so far, all ok", shown.len(), names.len())
        } else {
            let results: Vec<&str> = shown.iter().map(|(_, outcome)| &*outcome.text).collect();
            format!("ok: {}", step.sum(&results))
        };
        let seconds: u64 = found.iter().map(|(_, outcome)| outcome.seconds).sum();
        let minutes = format!("{} min", seconds.div_ceil(60));
        Ok(vec![step.name.to_owned(), step.what.to_owned(), result.replace('|', "\\|"), minutes])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parts;
    use super::*;

    const PARTED: Step = Step {
        name: "plants",
        what: "faults",
        parts: Parts::Each {
            names: || Ok(vec!["a".to_owned(), "b".to_owned()]),
            run: |_| Ok(String::new()),
            sum: |results| format!("{} noticed", results.len()),
        },
    };

    fn with(rows: &str) -> Record {
        Record::parse(&format!("commit\tabc\n{rows}")).unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let text = "commit\tabc\nfuzz\tfile\t211\tok\t5 | 6\nplants\ta\t60\tFAILED\tmissed\n";
        let record = Record::parse(text).unwrap();
        assert_eq!(record.render(), text);
        assert!(record.is_shown("fuzz", "file"));
        assert!(!record.is_shown("plants", "a"));
        assert!(!record.is_shown("plants", "file"));
        for wrong in
            ["", "fuzz", "commit\tabc\nfuzz\tfile\t211\tok\n", "commit\tabc\na\tb\tc\tok\td\n"]
        {
            assert!(Record::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn results_of_two_commits_do_not_mix() {
        let row = "fuzz\tfile\t211\tok\tx\n";
        assert!(Record::of("abc", Some(with(row)), false).unwrap().is_shown("fuzz", "file"));
        let refused = Record::of("def", Some(with(row)), false).unwrap_err();
        assert!(refused.contains("results of abc") && refused.contains("--anew"), "{refused}");
        assert!(!Record::of("def", Some(with(row)), true).unwrap().is_shown("fuzz", "file"));
        assert!(!Record::of("def", None, false).unwrap().is_shown("fuzz", "file"));
    }

    #[test]
    fn a_step_is_shown_only_if_each_of_its_parts_is() {
        for (rows, result) in [
            ("", "not run"),
            ("plants\ta\t60\tok\tx\n", "1 of 2 parts so far, all ok"),
            ("plants\ta\t60\tok\tx\nplants\tb\t61\tFAILED\tno | test\n", "FAILED: b: no \\| test"),
            ("plants\ta\t60\tok\tx\nplants\tb\t61\tok\ty\n", "ok: 2 noticed"),
            // Of a part that is gone.
            ("plants\tc\t60\tFAILED\tx\n", "not run"),
        ] {
            assert_eq!(with(rows).row(&PARTED).unwrap()[2], result);
        }
        let both = with("plants\ta\t60\tok\tx\nplants\tb\t61\tok\ty\n");
        assert_eq!(both.row(&PARTED).unwrap()[3], "3 min");
    }

    #[test]
    fn the_page_has_a_place_for_the_table_of_the_record() {
        let page = root().join(PAGE);
        let text = with("").rewritten(&page).unwrap();
        assert!(STEPS.iter().all(|step| text.contains(&format!("| {} | ", step.name))));
        // The page names the record's commit.
        let record = Record::parse(&read(&root().join(FILE)).unwrap()).unwrap();
        assert!(read(&page).unwrap().contains(&record.heading()));
    }
}
