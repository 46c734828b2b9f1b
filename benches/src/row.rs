//! A row of figures: a line of JSON as soon as it is measured, and a row of a table in the end.

use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use trueup_works::clock::nanos;

use crate::text::{Table, grouped, seconds};
use crate::usage::Times;

/// What something took that was done many times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Who did it.
    pub(crate) program: String,
    /// What was done, in one word.
    pub(crate) work: String,
    /// The same in words, as the table has it.
    pub(crate) title: String,
    /// How many objects were there.
    pub(crate) size: usize,
    /// How often it was done.
    pub(crate) times: usize,
    /// How many objects each time changed.
    pub(crate) objects: usize,
    /// The median, nanoseconds; 0 where no time was taken.
    pub(crate) p50_ns: u64,
    /// The 99th percentile.
    pub(crate) p99_ns: u64,
    /// The longest.
    pub(crate) max_ns: u64,
    /// From the first beginning to the last end, where they were done at once.
    #[serde(default)]
    pub(crate) total_ns: u64,
    /// Processor time each took, user and kernel.
    pub(crate) cpu_ns: u64,
    /// Objects of which no event was heard: a later change came before the kernel had this one, or
    /// the listener's queue was full.
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

    /// With these times, one for each time that it was done, and how many objects there are.
    #[must_use]
    pub(crate) fn with_times(mut self, times: Vec<Duration>, size: usize) -> Row {
        (self.times, self.size) = (times.len(), size);
        let times = Times::of(times);
        [self.p50_ns, self.p99_ns, self.max_ns] =
            [50, 99, 100].map(|percent| nanos(times.part(percent)));
        self
    }

    /// With the processor time of all the times together.
    #[must_use]
    pub(crate) fn with_processor(mut self, total: Duration, times: usize) -> Row {
        self.cpu_ns = nanos(total) / times.max(1) as u64;
        self
    }

    /// Of so many objects at rest, with the processor time of each second.
    #[must_use]
    pub(crate) fn at_rest(self, used: Duration, lasts: Duration, size: usize) -> Row {
        let times = lasts.as_secs().max(1) as usize;
        Row { times, size, ..self.with_processor(used, times) }
    }

    /// Prints its line of JSON.
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

/// The rows as a table, in the form of those in `docs/performance.md`: one for each program, and
/// how many times the median of `base` at the same work it is.
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
