//! A row of figures: printed as a line of JSON once it is measured, and shown in a table at the
//! end.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use trueup_works::clock::nanos;

use crate::text::{Table, grouped, seconds};
use crate::usage::Times;

/// The costs of an act that was repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The program that did it.
    pub(crate) program: String,
    /// The act, in one word.
    pub(crate) work: String,
    /// The act in words, for the table.
    pub(crate) title: String,
    /// The number of objects present.
    pub(crate) size: usize,
    /// The number of repetitions.
    pub(crate) times: usize,
    /// The number of objects that each repetition changed.
    pub(crate) objects: usize,
    /// The median in nanoseconds; 0 if no time was taken.
    pub(crate) p50_ns: u64,
    /// The 99th percentile in nanoseconds.
    pub(crate) p99_ns: u64,
    /// The longest time in nanoseconds.
    pub(crate) max_ns: u64,
    /// From the first beginning to the last end, in nanoseconds, if they ran at once; else 0.
    #[serde(default)]
    pub(crate) total_ns: u64,
    /// Processor time of each repetition, user and kernel, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// The number of objects without an event: a later change came before the kernel had this one,
    /// or the listener's queue was full.
    #[serde(default)]
    pub(crate) unheard: usize,
}

impl Row {
    /// Makes a row without times.
    pub(crate) fn new(program: &str, work: impl Into<String>, title: impl Into<String>) -> Row {
        Row {
            program: program.to_owned(),
            work: work.into(),
            title: title.into(),
            ..Row::default()
        }
    }

    /// Adds the times, one for each repetition, and the number of objects present.
    #[must_use]
    pub(crate) fn with_times(mut self, times: Vec<Duration>, size: usize) -> Row {
        (self.times, self.size) = (times.len(), size);
        let times = Times::of(times);
        [self.p50_ns, self.p99_ns, self.max_ns] =
            [50, 99, 100].map(|percent| nanos(times.part(percent)));
        self
    }

    /// Adds the processor time of all repetitions together.
    #[must_use]
    pub(crate) fn with_processor(mut self, total: Duration, times: usize) -> Row {
        self.cpu_ns = nanos(total) / times.max(1) as u64;
        self
    }

    /// Makes it a row of `size` objects at rest, with the processor time of each second.
    #[must_use]
    pub(crate) fn at_rest(self, used: Duration, lasts: Duration, size: usize) -> Row {
        let times = lasts.as_secs().max(1) as usize;
        Row { times, size, ..self.with_processor(used, times) }
    }

    /// Prints the row as a line of JSON.
    pub(crate) fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

fn time(ns: u64) -> String {
    if ns == 0 { String::new() } else { seconds(ns) }
}

fn count(number: usize) -> String {
    if number == 0 { String::new() } else { grouped(number) }
}

/// Returns the rows as a table in the form of `docs/performance.md`: a row for each program, with
/// the ratio to the median of `base` at the same work.
pub(crate) fn table(rows: &[Row], base: &str) -> String {
    let to_base = format!("to `{base}`");
    let head = [
        "work",
        "program",
        "objects",
        "changed",
        "times",
        "median",
        "p99",
        "longest",
        &to_base,
        "processor each",
        "in all",
        "unheard",
    ];
    let mut table = Table::new(&head, "---");
    for row in rows {
        let of_base = rows
            .iter()
            .find(|other| {
                other.program == base && (&other.work, other.size) == (&row.work, row.size)
            })
            .map_or(0, |base| base.p50_ns);
        let is_compared = row.program != base && row.p50_ns > 0 && of_base > 0;
        let ratio = row.p50_ns as f64 / of_base as f64;
        table.row([
            row.title.clone(),
            row.program.clone(),
            grouped(row.size),
            count(row.objects),
            count(row.times),
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.max_ns),
            if is_compared { format!("{ratio:.2}") } else { String::new() },
            time(row.cpu_ns),
            time(row.total_ns),
            count(row.unheard),
        ]);
    }
    table.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = (1..=100).rev().map(Duration::from_micros).collect();
        let row = Row::new("trueup", "work", "a work").with_times(times, 7);
        assert_eq!((row.times, row.size), (100, 7));
        assert_eq!((row.p50_ns, row.p99_ns, row.max_ns), (51_000, 100_000, 100_000));
        let one = Row::new("trueup", "work", "a work").with_times(vec![Duration::from_secs(1)], 1);
        assert_eq!((one.p50_ns, one.p99_ns), (1_000_000_000, 1_000_000_000));
        assert_eq!(Row::default().with_times(Vec::new(), 0).p50_ns, 0);
    }

    #[test]
    fn a_table_compares_with_the_base_of_the_same_work_and_size() {
        let rows = [("floor", 10, 2), ("trueup", 10, 5), ("trueup", 20, 5)].map(
            |(program, size, micros)| {
                Row::new(program, "work", "a work")
                    .with_times(vec![Duration::from_micros(micros)], size)
                    .with_processor(Duration::from_micros(3), 1)
            },
        );
        let text = table(&rows, "floor");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("| a work | floor | 10 |  | 1 | 2.00 µs |"), "{text}");
        assert!(lines[1].contains("| 2.50 | 3.00 µs |"), "{text}");
        assert!(lines[2].contains("| 5.00 µs |  | 3.00 µs |"), "{text}");
    }
}
