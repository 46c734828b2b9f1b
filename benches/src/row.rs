//! A row of figures: a line of JSON as soon as it is measured, and a row of a table in the end.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::bench::page::grouped;
use crate::bench::record::seconds;

/// What something took that was done many times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Who did it.
    pub program: String,
    /// What was done, in one word.
    pub work: String,
    /// The same in words, as the table has it.
    pub title: String,
    /// How many objects were there.
    pub size: usize,
    /// How often it was done.
    pub times: usize,
    /// How many objects each time changed.
    pub objects: usize,
    /// The median, nanoseconds; 0 where no time was taken.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// From the first beginning to the last end, where they were done at once.
    #[serde(default)]
    pub total_ns: u64,
    /// Processor time each took, user and kernel.
    pub cpu_ns: u64,
    /// Objects of which no event was heard: a later change came before the kernel had this one, or
    /// the listener's queue was full.
    #[serde(default)]
    pub unheard: usize,
}

impl Row {
    /// Makes a row without times.
    pub fn new(program: &str, work: impl Into<String>, title: impl Into<String>) -> Row {
        Row {
            program: program.to_owned(),
            work: work.into(),
            title: title.into(),
            ..Row::default()
        }
    }

    /// With these times, one for each time that it was done, and how many objects there are.
    #[must_use]
    pub fn with_times(mut self, mut times: Vec<Duration>, size: usize) -> Row {
        times.sort_unstable();
        let part = |percent: usize| {
            let at = (times.len().saturating_sub(1) * percent).div_ceil(100);
            nanos(times.get(at).copied().unwrap_or_default())
        };
        (self.p50_ns, self.p99_ns, self.max_ns) = (part(50), part(99), part(100));
        (self.times, self.size) = (times.len(), size);
        self
    }

    /// With the processor time of all the times together.
    #[must_use]
    pub fn with_processor(mut self, total: Duration, times: usize) -> Row {
        self.cpu_ns = nanos(total) / times.max(1) as u64;
        self
    }

    /// Prints its line of JSON.
    ///
    /// # Errors
    ///
    /// None that can happen.
    pub fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The rows as a table, in the form of those in `docs/performance.md`: one for each program, and
/// how many times the median of `base` at the same work it is.
pub fn table(rows: &[Row], base: &str) -> String {
    let mut text = format!(
        "| work | program | objects | changed | times | median | p99 | longest | \
         to `{base}` | processor each | in all | unheard |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let same = |other: &&Row| {
            other.program == base && (&other.work, other.size) == (&row.work, row.size)
        };
        let ratio = rows.iter().find(same).filter(|base| base.p50_ns > 0);
        let ratio = ratio.filter(|_| row.program != base && row.p50_ns > 0);
        let ratio = ratio.map(|base| format!("{:.2}", row.p50_ns as f64 / base.p50_ns as f64));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.title,
            row.program,
            grouped(row.size),
            count(row.objects),
            count(row.times),
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.max_ns),
            ratio.unwrap_or_default(),
            time(row.cpu_ns),
            time(row.total_ns),
            count(row.unheard),
        );
    }
    text
}

fn time(ns: u64) -> String {
    match ns {
        0 => String::new(),
        ns => seconds(ns),
    }
}

fn count(number: usize) -> String {
    match number {
        0 => String::new(),
        number => grouped(number),
    }
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
        let row = |program, size, micros| {
            Row::new(program, "work", "a work")
                .with_times(vec![Duration::from_micros(micros)], size)
                .with_processor(Duration::from_micros(3), 1)
        };
        let rows = [row("floor", 10, 2), row("trueup", 10, 5), row("trueup", 20, 5)];
        let text = table(&rows, "floor");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].starts_with("| a work | floor | 10 |  | 1 | 2.00 µs |"), "{text}");
        assert!(lines[1].contains("| 2.50 | 3.00 µs |"), "{text}");
        assert!(lines[2].contains("| 5.00 µs |  | 3.00 µs |"), "{text}");
    }
}
