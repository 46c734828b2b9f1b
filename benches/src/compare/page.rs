//! The tables of a record, and their place on the page.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};

use super::record::{Entry, Figures, Record, megabytes, rank};
use super::series::{Limit, Step, steps};
use crate::text::{Table, grouped, seconds};

const BEGIN: &str = "<!-- begin: written by `cargo xtask bench --write` -->\n";
const END: &str = "<!-- end -->\n";

/// Returns the page with its tables replaced by those of a record.
pub(super) fn with_tables(page: &str, record: &Record, picture: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("no mark where they begin")?;
    let (_, after) = rest.split_once(END).context("no mark where they end")?;
    let tables = tables(record, picture);
    Ok(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

/// Returns all tables.
fn tables(record: &Record, picture: &str) -> String {
    let mut text =
        format!("{}.\n\n{}\nThe ratio at every size:\n\n", record.machine, headline(record));
    growth(&mut text, record);
    text += &format!("\n![Wall time over the number of objects, both logarithmic]({picture})\n");
    others(&mut text, record);
    profiles(&mut text, record);
    text
}

/// Returns the table of all works at their largest measured sizes.
fn headline(record: &Record) -> String {
    let head = [
        "work",
        "size",
        "turns",
        "floor",
        "trueup",
        "ratio",
        "at most",
        "processor",
        "memory",
        "at most",
    ];
    let mut table = Table::new(&head, "---");
    for (step, largest) in steps() {
        let Some((entry, figures, floor)) = record.of(step.work).rev().find_map(|entry| {
            Some((entry, entry.figures("trueup", "floor")?, entry.figures("floor", "floor")?))
        }) else {
            continue;
        };
        // The limit applies to the full size.
        let is_limited = entry.size == largest;
        let megabytes = megabytes(figures.median.peak_rss_kb);
        let processor = figures.median.cpu_ns as f64 / floor.median.cpu_ns.max(1) as f64;
        let (least, most) = figures.spread;
        table.row([
            step.title.to_owned(),
            grouped(entry.size),
            figures.turns.to_string(),
            seconds(floor.median.wall_ns),
            seconds(figures.median.wall_ns),
            format!("**{:.2}**, {least:.2} to {most:.2}", figures.ratio),
            if is_limited { bounds(record, &figures, step) } else { String::new() },
            format!("{processor:.2}"),
            format!("{megabytes:.1} MB"),
            if is_limited { memory(megabytes, step) } else { String::new() },
        ]);
    }
    table.0
}

fn micros(figures: &Figures) -> f64 {
    figures.median.wall_ns as f64 / 1e3
}

/// Returns the limits of time, marked if missed.
fn bounds(record: &Record, figures: &Figures, step: &Step) -> String {
    let smallest = record.of(step.work).next().and_then(|entry| entry.figures("trueup", "floor"));
    let grown = smallest.map_or(1.0, |smallest| micros(figures) / micros(&smallest));
    let bounds = step.limits.iter().filter_map(|limit| match *limit {
        Limit::Floors(most) => Some(bound(most, figures.ratio, "×")),
        Limit::Micros(most) => Some(bound(most, micros(figures), " µs")),
        Limit::Growth(most) => Some(bound(most, grown, "× of the smallest size's")),
        Limit::Megabytes(_) => None,
    });
    bounds.collect::<Vec<_>>().join("; ")
}

/// Returns the limit of memory, marked if missed.
fn memory(megabytes: f64, step: &Step) -> String {
    let bounds = step.limits.iter().filter_map(|limit| match *limit {
        Limit::Megabytes(most) => Some(bound(most, megabytes, " MB")),
        _ => None,
    });
    bounds.collect()
}

fn bound(most: f64, value: f64, unit: &str) -> String {
    format!("{most}{unit}{}", if value <= most { "" } else { ", missed" })
}

/// Adds a table with a row for each work and a column for each size.
fn growth(text: &mut String, record: &Record) {
    let sizes: BTreeSet<usize> = record.entries.iter().map(|entry| entry.size).collect();
    let mut table = Table::of_sizes("work", &sizes);
    for (step, _) in steps() {
        let cells = sizes.iter().map(|size| {
            let entry = record.of(step.work).find(|entry| entry.size == *size);
            let figures = entry.and_then(|entry| entry.figures("trueup", "floor"));
            figures.map(|figures| format!("{:.2}", figures.ratio)).unwrap_or_default()
        });
        let cells: Vec<String> = cells.collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.row([step.title.to_owned()].into_iter().chain(cells));
        }
    }
    text.push_str(&table.0);
}

/// Adds a table for each work that other programs did as well: a row for each program, a column for
/// each size.
fn others(text: &mut String, record: &Record) {
    for (step, _) in steps() {
        let all: Vec<&Entry> = record.of(step.work).collect();
        let programs = all.iter().flat_map(|entry| entry.took.keys().chain(entry.failed.keys()));
        let programs: BTreeSet<_> = programs.map(|name| (rank(name), name)).collect();
        if programs.iter().all(|(rank, _)| *rank < 2) {
            continue;
        }
        text.push_str(&format!("\n{}. Wall time, times the floor's, memory:\n\n", step.title));
        let mut table = Table::of_sizes("", &all.iter().map(|entry| entry.size).collect());
        for (_, program) in programs {
            table.row([program.clone()].into_iter().chain(all.iter().map(|it| cell(it, program))));
        }
        text.push_str(&table.0);
    }
}

fn cell(entry: &Entry, program: &str) -> String {
    match entry.figures(program, "floor") {
        Some(Figures { median, ratio, .. }) => {
            let (wall, memory) = (seconds(median.wall_ns), megabytes(median.peak_rss_kb));
            format!("{wall}, {ratio:.2}, {memory:.1} MB")
        }
        None if entry.failed.contains_key(program) => "failed".to_owned(),
        None => String::new(),
    }
}

/// Adds a table of where trueup's time went.
fn profiles(text: &mut String, record: &Record) {
    if record.profiles.is_empty() {
        return;
    }
    text.push_str(
        "\nWhere trueup's time goes, in samples of `perf` (`--profile`), percent: the kernel reading out what it has, carrying \
         out requests, at anything else (interrupts, memory, what it put off); and trueup itself:\n\n",
    );
    let mut table = Table::new(&["work", "size", "reading", "requests", "else", "trueup"], " --- ");
    for (step, _) in steps() {
        let name = step.work.to_string();
        if let Some(profile) = record.profiles.iter().find(|found| found.work == name) {
            let shares = profile.samples.percent().map(|share| format!("{share:.0}"));
            table.row([step.title.to_owned(), grouped(profile.size)].into_iter().chain(shares));
        }
    }
    text.push_str(&table.0);
}

#[cfg(test)]
mod tests {
    use super::super::profile::{Profile, Samples};
    use super::*;
    use trueup_works::clock::Took;

    fn took(wall_ns: u64) -> Took {
        Took { wall_ns, cpu_ns: wall_ns, peak_rss_kb: 1_000 }
    }

    #[test]
    fn tables_show_what_is_missed_and_who_failed() {
        let mut record = Record { machine: "Linux 6.18".to_owned(), ..Record::default() };
        for (size, trueup) in [(1_000_000, 1_200), (1_000, 5_000)] {
            let work = "route-create".to_owned();
            let mut entry = Entry { work, size, ..Entry::default() };
            entry.add("floor", 0, took(1_000_000));
            entry.add("trueup", 0, took(trueup * 1_000));
            entry.failed.insert("peer".to_owned(), "no such command".to_owned());
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
}
