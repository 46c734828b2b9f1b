//! Figures as text: times, numbers, and tables in the form of the pages.

use std::collections::BTreeSet;

/// A table in Markdown, row by row.
pub(crate) struct Table(pub(crate) String);

impl Table {
    /// Makes a table with these columns; `line` is the line below the head.
    pub(crate) fn new(head: &[&str], line: &str) -> Table {
        let mut table = Table(String::new());
        table.row(head.iter().map(|cell| (*cell).to_owned()));
        table.0 += &format!("|{}\n", format!("{line}|").repeat(head.len()));
        table
    }

    pub(crate) fn of_sizes(first: &str, sizes: &BTreeSet<usize>) -> Table {
        let sizes: Vec<String> = sizes.iter().map(|size| grouped(*size)).collect();
        let head = [first].into_iter().chain(sizes.iter().map(String::as_str));
        Table::new(&head.collect::<Vec<_>>(), " --- ")
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0 += &format!("| {} |\n", cells.into_iter().collect::<Vec<_>>().join(" | "));
    }
}

/// Formats a number with a comma between groups of three digits.
pub(crate) fn grouped(number: usize) -> String {
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

/// Formats a time in a suitable unit, with three digits.
pub(crate) fn seconds(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = match value {
        0.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let text = [1, 1_000, 732_480, 1_000_000].map(grouped).join(" ");
        assert_eq!(text, "1 1,000 732,480 1,000,000");
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(seconds(1_234), "1.23 µs");
        assert_eq!(seconds(45_678_000), "45.7 ms");
        assert_eq!(seconds(12_345_678_900), "12.3 s");
        assert_eq!(seconds(123_456_000), "123 ms");
    }
}
