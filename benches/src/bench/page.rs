//! The tables of a record, and the page that they are written to.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::record::{Entry, Figures, Record, megabytes, rank, seconds};
use super::series::{Limit, Step, steps};

const BEGIN: &str = "<!-- begin: written by `cargo xtask bench --write` -->\n";
const END: &str = "<!-- end -->\n";

/// The page with the tables of a record in the place of those that were there.
///
/// # Errors
///
/// When the page has no marks for them.
pub fn with_tables(page: &str, record: &Record, picture: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("no mark where they begin")?;
    let (_, after) = rest.split_once(END).context("no mark where they end")?;
    let tables = tables(record, picture);
    Ok(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

/// All tables.
pub fn tables(record: &Record, picture: &str) -> String {
    let mut text = format!("{}.\n\n", record.machine);
    headline(&mut text, record);
    text.push_str("\nThe ratio at every size:\n\n");
    growth(&mut text, record);
    let _ =
        write!(text, "\n![Wall time over the number of objects, both logarithmic]({picture})\n");
    others(&mut text, record);
    profiles(&mut text, record);
    text
}

/// Each work at the largest size at which it was measured.
fn headline(text: &mut String, record: &Record) {
    text.push_str(
        "| work | size | turns | floor | trueup | ratio | at most | processor | memory | at most |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (step, largest) in steps() {
        let Some((entry, figures)) = largest_entry(record, step) else {
            continue;
        };
        let Some(floor) = entry.figures("floor", "floor") else {
            continue;
        };
        // The limit is of the full size.
        let limit = if entry.size == largest { step.limit } else { Limit::default() };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | **{:.2}**, {:.2} to {:.2} | {} | {:.2} | {:.1} MB | {} |",
            step.title,
            grouped(entry.size),
            figures.turns,
            seconds(floor.median.wall_ns),
            seconds(figures.median.wall_ns),
            figures.ratio,
            figures.spread.0,
            figures.spread.1,
            bounds(record, entry, &figures, limit),
            figures.median.cpu_ns as f64 / floor.median.cpu_ns.max(1) as f64,
            megabytes(figures.median.peak_rss_kb),
            bound(limit.peak_mb, megabytes(figures.median.peak_rss_kb), " MB"),
        );
    }
}

/// The limits of time, and whether they are missed.
fn bounds(record: &Record, entry: &Entry, figures: &Figures, limit: Limit) -> String {
    let wall = |figures: &Figures| figures.median.wall_ns as f64 / 1e3;
    let smallest = record.sizes(&entry.work).first().copied();
    let smallest = smallest.and_then(|size| record.entry(&entry.work, size));
    let smallest = smallest.and_then(|entry| entry.figures("trueup", "floor"));
    let grown = smallest.map_or(1.0, |smallest| wall(figures) / wall(&smallest));
    let bounds = [
        bound(limit.floors, figures.ratio, "×"),
        bound(limit.micros, wall(figures), " µs"),
        bound(limit.growth, grown, "× of the smallest size's"),
    ];
    let bounds: Vec<String> = bounds.into_iter().filter(|text| !text.is_empty()).collect();
    bounds.join("; ")
}

/// A limit, and whether it is missed.
fn bound(limit: Option<f64>, value: f64, unit: &str) -> String {
    match limit {
        None => String::new(),
        Some(limit) if value <= limit => format!("{limit}{unit}"),
        Some(limit) => format!("{limit}{unit}, missed"),
    }
}

/// The largest size at which both were measured.
fn largest_entry<'a>(record: &'a Record, step: &Step) -> Option<(&'a Entry, Figures)> {
    let name = step.work.to_string();
    let sizes = record.sizes(&name);
    let mut entries = sizes.iter().rev();
    entries.find_map(|size| {
        let entry = record.entry(&name, *size)?;
        Some((entry, entry.figures("trueup", "floor")?))
    })
}

/// A row a work, a column a size.
fn growth(text: &mut String, record: &Record) {
    let mut sizes: Vec<usize> = record.entries.iter().map(|entry| entry.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let header: Vec<String> = sizes.iter().map(|size| grouped(*size)).collect();
    row(text, "work", &header);
    row(text, "---", &vec!["---".to_owned(); sizes.len()]);
    for (step, _) in steps() {
        let name = step.work.to_string();
        let cells: Vec<String> = sizes
            .iter()
            .map(|size| {
                let figures = record.entry(&name, *size)?.figures("trueup", "floor")?;
                Some(format!("{:.2}", figures.ratio))
            })
            .map(Option::unwrap_or_default)
            .collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            row(text, step.title, &cells);
        }
    }
}

/// A table for each work that others did as well: a row a program, a column a size.
fn others(text: &mut String, record: &Record) {
    for (step, _) in steps() {
        let name = step.work.to_string();
        let sizes = record.sizes(&name);
        let entries: Vec<&Entry> =
            sizes.iter().filter_map(|size| record.entry(&name, *size)).collect();
        let mut programs: Vec<&str> = entries
            .iter()
            .flat_map(|entry| entry.programs().into_iter().chain(failed(entry)))
            .collect();
        programs.sort_unstable_by_key(|program| (rank(program), *program));
        programs.dedup();
        if programs.iter().all(|program| rank(program) < 2) {
            continue;
        }
        let _ = write!(text, "\n{}. Wall time, times the floor's, memory:\n\n", step.title);
        let header: Vec<String> = sizes.iter().map(|size| grouped(*size)).collect();
        row(text, "", &header);
        row(text, "---", &vec!["---".to_owned(); sizes.len()]);
        for program in programs {
            let cells: Vec<String> = entries.iter().map(|entry| cell(entry, program)).collect();
            row(text, program, &cells);
        }
    }
}

/// Where trueup's time went.
fn profiles(text: &mut String, record: &Record) {
    if record.profiles.is_empty() {
        return;
    }
    text.push_str(
        "\nWhere trueup's time goes, in samples of `perf` (`--profile`), percent: the kernel reading out what it has, carrying \
         out requests, at anything else (interrupts, memory, what it put off); and trueup itself:\n\n",
    );
    let columns = ["size", "reading", "requests", "else", "trueup"].map(str::to_owned);
    row(text, "work", &columns);
    row(text, "---", &["---"; 5].map(str::to_owned));
    for (step, _) in steps() {
        let name = step.work.to_string();
        let Some(profile) = record.profiles.iter().find(|found| found.work == name) else {
            continue;
        };
        let mut cells = vec![grouped(profile.size)];
        let percent = profile.samples.percent();
        cells.extend(percent.map(|share| format!("{share:.0}")));
        row(text, step.title, &cells);
    }
}

fn failed(entry: &Entry) -> impl Iterator<Item = &str> {
    entry.failed.keys().map(String::as_str)
}

fn cell(entry: &Entry, program: &str) -> String {
    match entry.figures(program, "floor") {
        Some(figures) => format!(
            "{}, {:.2}, {:.1} MB",
            seconds(figures.median.wall_ns),
            figures.ratio,
            megabytes(figures.median.peak_rss_kb)
        ),
        None if entry.has_failed(program) => "failed".to_owned(),
        None => String::new(),
    }
}

fn row(text: &mut String, first: &str, cells: &[String]) {
    let _ = writeln!(text, "| {first} | {} |", cells.join(" | "));
}

/// A number with its thousands apart.
/// A number with a comma between each three digits.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::profile::{Profile, Samples};
    use crate::clock::Took;

    #[test]
    fn tables_show_what_is_missed_and_who_failed() {
        let took = |wall_ns| Took { wall_ns, cpu_ns: wall_ns, peak_rss_kb: 1_000 };
        let mut record = Record { machine: "Linux 6.18".to_owned(), ..Record::default() };
        for (size, trueup) in [(1_000_000, 1_200), (1_000, 5_000)] {
            let mut entry = Entry::new("route-create".to_owned(), size);
            entry.add("floor", 0, took(1_000_000));
            entry.add("trueup", 0, took(trueup * 1_000));
            entry.fail("peer", "no such command");
            record.put(entry);
        }
        let samples = Samples { reading: 1, writing: 6, kernel: 1, own: 2 };
        record.put_profile(Profile { work: "route-create".to_owned(), size: 1_000_000, samples });
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        let page = with_tables(&page, &record, "growth.svg").unwrap();
        assert_eq!(
            page,
            format!(
                "\
before
{BEGIN}
Linux 6.18.

| work | size | turns | floor | trueup | ratio | at most | processor | memory | at most |
|---|---|---|---|---|---|---|---|---|---|
| IPv4 routes: create | 1,000,000 | 1 | 1.00 ms | 1.20 ms | **1.20**, 1.20 to 1.20 | 1.08×, missed | 1.20 | 1.0 MB |  |

The ratio at every size:

| work | 1,000 | 1,000,000 |
| --- | --- | --- |
| IPv4 routes: create | 5.00 | 1.20 |

![Wall time over the number of objects, both logarithmic](growth.svg)

IPv4 routes: create. Wall time, times the floor's, memory:

|  | 1,000 | 1,000,000 |
| --- | --- | --- |
| floor | 1.00 ms, 1.00, 1.0 MB | 1.00 ms, 1.00, 1.0 MB |
| trueup | 5.00 ms, 5.00, 1.0 MB | 1.20 ms, 1.20, 1.0 MB |
| peer | failed | failed |

Where trueup's time goes, in samples of `perf` (`--profile`), percent: the kernel reading out what it has, carrying out requests, at anything else (interrupts, memory, what it put off); and trueup itself:

| work | size | reading | requests | else | trueup |
| --- | --- | --- | --- | --- | --- |
| IPv4 routes: create | 1,000,000 | 10 | 60 | 10 | 20 |

{END}after
"
            )
        );
        assert!(with_tables("no marks", &record, "growth.svg").is_err());
    }

    #[test]
    fn numbers_are_grouped() {
        let text = [1, 1_000, 732_480, 1_000_000].map(grouped).join(" ");
        assert_eq!(text, "1 1,000 732,480 1,000,000");
    }
}
