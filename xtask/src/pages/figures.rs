//! Figures in prose are those of the tables that the benchmarks write. A figure in prose has a mark
//! behind it that names its cell, `<!-- figure: TABLE / ROW / COLUMN -->`: the beginning of the
//! table's heading or of the line above it, of the row's first cell, and of the column's title. A
//! mark above a table, `<!-- figures: COLUMN -->`, says that each cell below is a copy: of the table
//! named by the column's title, and of the row named by the first cell.

use trueup_e2e::page::{Page, Table, report};

use super::pages;

/// The page with the tables of the benchmarks. A page's own tables come first.
const SOURCE: &str = "docs/performance.md";

/// Units of measured figures. Other figures in seconds are settings, most of them.
const MEASURED: [&str; 3] = ["ns", "µs", "ms"];
const UNITS: [&str; 7] = ["ns", "µs", "ms", "s", "KB", "MB", "%"];

/// Pages, or sections of pages, whose measured figures have another source.
const ELSEWHERE: [(&str, &str, &str); 4] = [
    ("crates/core/loop/README.md", "", "the loop's own times, which are settings and bounds"),
    ("docs/kernels.md", "", "facts about kernels, found by running, each with its scenario"),
    ("CHANGELOG.md", "", "what a change did once"),
    ("benches/README.md", "", "how a benchmark runs"),
];

/// A number with its unit, as written.
#[derive(Debug, PartialEq)]
struct Figure {
    number: String,
    unit: Option<String>,
}

impl Figure {
    /// Reads all figures of a text, in order.
    fn all(text: &str) -> Vec<Figure> {
        let plain = text.replace("**", "").replace(", ", " ; ").replace("; ", " ; ");
        let mut words =
            plain.split([' ', '(', ')', '\n', '`']).filter(|it| !it.is_empty()).peekable();
        let mut figures = Vec::new();
        while let Some(word) = words.next() {
            let end = word.find(|it: char| !it.is_ascii_digit() && !['.', ','].contains(&it));
            let (digits, rest) = word.split_at(end.unwrap_or(word.len()));
            let number = digits.trim_end_matches(['.', ',']).replace(',', "");
            if number.parse::<f64>().is_err() {
                continue;
            }
            let next = words.peek().map(|it| it.trim_end_matches(['.', ',', ':']));
            let unit = (Some(rest).filter(|it| !it.is_empty()))
                .or(next)
                .filter(|it| UNITS.contains(it))
                .map(str::to_owned);
            figures.push(Figure { number, unit });
        }
        figures
    }

    /// Returns true if the other one, rounded as this one is written, is the same.
    fn is_rounded(&self, cell: &Figure) -> bool {
        let decimals = self.number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let rounded = cell.number.parse().map(|it: f64| format!("{it:.decimals$}"));
        let units = [&self.unit, &cell.unit];
        rounded.as_ref() == Ok(&self.number) && (units.contains(&&None) || self.unit == cell.unit)
    }
}

/// Returns the cell that a mark names. The error says which part names none.
fn cell<'a>(tables: &'a [Table], names: [&str; 3]) -> Result<&'a str, String> {
    let [table, row, column] = names;
    let named =
        tables.iter().filter(|it| it.heading.starts_with(table) || it.caption.starts_with(table));
    let mut error = format!("no table {table:?}");
    for found in named {
        error = format!("no row {row:?} and column {column:?} in {table:?}");
        let Some(column) = found.head.iter().position(|title| title.starts_with(column)) else {
            continue;
        };
        let plain = |cell: &str| cell.replace('`', "");
        let rows = || found.rows.iter().filter(|it| plain(&it.cells[0]).starts_with(row));
        let exact = rows().find(|it| plain(&it.cells[0]) == row);
        match (exact, rows().count()) {
            (Some(row), _) => return Ok(&row.cells[column]),
            (None, 1) => return Ok(rows().next().map_or("", |row| &row.cells[column])),
            (None, 0) => {}
            (None, many) => return Err(format!("{many} rows begin with {row:?}")),
        }
    }
    Err(error)
}

/// Compares a figure in prose, the last one of `before`, with the cell that `mark` names.
fn compare(tables: &[Table], before: &str, mark: &str) -> Result<(), String> {
    let names: Vec<&str> = mark.split(" / ").map(str::trim).collect();
    let names: [&str; 3] =
        names.try_into().map_err(|_| format!("not TABLE / ROW / COLUMN: {mark:?}"))?;
    let cell = cell(tables, names)?;
    // The longest figure has a number and a unit.
    let words: Vec<&str> = before.split_whitespace().collect();
    let last = words[words.len().saturating_sub(2)..].join(" ");
    let figure = Figure::all(&last).pop().ok_or_else(|| format!("no figure before {mark:?}"))?;
    if Figure::all(cell).iter().any(|it| figure.is_rounded(it)) {
        return Ok(());
    }
    Err(format!("{last:?} is not in {cell:?}, of {mark:?}"))
}

#[test]
fn each_marked_figure_is_that_of_its_row() {
    let source = Page::read(SOURCE).tables();
    let (mut wrong, mut marks) = (Vec::new(), 0);
    for page in pages() {
        let own = page.tables();
        let mut parts = page.text.split("<!-- figure: ");
        let mut before = parts.next().unwrap().to_owned();
        for part in parts {
            let (mark, after) = part.split_once("-->").unwrap();
            let line = before.lines().count();
            let text = before.rsplit("-->").next().unwrap();
            let compared =
                compare(&own, text, mark.trim()).or_else(|_| compare(&source, text, mark.trim()));
            wrong.extend(compared.err().map(|error| format!("{}: {error}", page.at(line))));
            marks += 1;
            before += &format!("<!-- figure: {mark}-->{after}");
        }
    }
    report(wrong.into_iter());
    assert!(marks > 15, "{marks}");
}

#[test]
fn each_copied_table_is_as_its_source() {
    let source = Page::read(SOURCE).tables();
    let (mut wrong, mut copies) = (Vec::new(), 0);
    for page in pages() {
        for table in page.tables() {
            let mark = table.caption.strip_prefix("<!-- figures: ");
            let Some(of) = mark.and_then(|mark| mark.strip_suffix(" -->")) else {
                continue;
            };
            copies += 1;
            for row in &table.rows {
                let name = row.cells[0].replace('`', "");
                for (title, copy) in table.head.iter().zip(&row.cells).skip(1) {
                    match cell(&source, [title, &name, of]) {
                        Ok(cell) if cell == copy => {}
                        Ok(cell) => wrong.push(format!("{}: is {cell:?}", page.at(row.line))),
                        Err(error) => wrong.push(format!("{}: {error}", page.at(row.line))),
                    }
                }
            }
        }
    }
    report(wrong.into_iter());
    assert!(copies > 0);
}

#[test]
fn a_measured_figure_in_prose_has_a_mark() {
    let mut wrong = Vec::new();
    for page in pages() {
        let (mut heading, mut in_block) = (String::new(), false);
        for (line, text) in (1..).zip(page.text.lines()) {
            in_block ^= text.trim_start().starts_with("```");
            if let Some(title) = text.strip_prefix("## ") {
                heading = title.to_owned();
            }
            let is_elsewhere = ELSEWHERE.iter().any(|(name, section, _)| {
                page.name == *name && (section.is_empty() || heading == *section)
            });
            let is_goal = text.starts_with("- **Goal**");
            if in_block || text.starts_with('|') || is_elsewhere || is_goal {
                continue;
            }
            // The end of each piece but the last has a mark.
            let pieces: Vec<&str> = text.split("<!-- figure: ").collect();
            for (at, piece) in pieces.iter().enumerate() {
                let prose =
                    if at == 0 { piece } else { piece.split_once("-->").map_or("", |it| it.1) };
                let mut figures = Figure::all(prose);
                figures
                    .retain(|it| it.unit.as_deref().is_some_and(|unit| MEASURED.contains(&unit)));
                let marked = usize::from(at + 1 < pieces.len());
                for figure in figures.iter().take(figures.len().saturating_sub(marked)) {
                    let Figure { number, unit } = figure;
                    let unit = unit.as_deref().unwrap_or_default();
                    wrong.push(format!("{}: {number} {unit} has no mark", page.at(line)));
                }
            }
        }
    }
    report(wrong.into_iter());
}

#[test]
fn a_figure_is_compared_as_it_is_rounded() {
    let page = Page {
        name: "x.md".to_owned(),
        text: "## Times of x\n\nOf all. Wall time:\n\n| | 1 | 1,000 |\n|---|---|---|\n| `a` | 3.57 s, 1.06, 2.8 MB | 135 µs, **25.30** |\n"
            .to_owned(),
    };
    let tables = page.tables();
    let compare = |before, mark| compare(&tables, before, mark);
    for (before, mark) in [
        ("it takes 3.57 s", "Times / a / 1"),
        ("about 3.6 s", "Of all / a / 1"),
        ("only 4 s", "Times / a / 1"),
        ("some 2.8 MB", "Times / a / 1"),
        ("135 µs", "Times / a / 1,000"),
        ("25.3", "Times / a / 1,000"),
    ] {
        assert_eq!(compare(before, mark), Ok(()));
    }
    for (before, mark) in [
        ("it takes 3.58 s", "Times / a / 1"),
        ("it takes 3.57 ms", "Times / a / 1"),
        ("it takes 3.5 s", "Times / a / 1"),
        ("135 µs", "Times / b / 1,000"),
        ("135 µs", "Times / a / 2"),
        ("135 µs", "None / a / 1"),
        ("135 µs", "a / 1"),
        ("no number", "Times / a / 1"),
    ] {
        assert!(compare(before, mark).is_err(), "{before} {mark}");
    }
}
