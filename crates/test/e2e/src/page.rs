//! A page of the repository: its tables, lists and blocks, each with its line. Tests compare them
//! with the program, and name the place of a difference.

use std::fs;
use std::path::PathBuf;

/// A page of the repository, as read from its file.
#[derive(Debug)]
pub struct Page {
    /// The path from the root of the repository.
    pub name: String,
    pub text: String,
}

/// A fenced code block of a page, with its language.
#[derive(Debug)]
pub struct Block<'a> {
    /// The line number of the block's first line of text, from 1.
    pub line: usize,
    pub language: &'a str,
    pub text: &'a str,
}

/// A row of a table, with its line.
#[derive(Debug)]
pub struct Row {
    pub line: usize,
    pub cells: Vec<String>,
}

/// A table of a page.
#[derive(Debug)]
pub struct Table {
    /// The heading of its section; empty before the first one.
    pub heading: String,
    /// The last line of text before the table.
    pub caption: String,
    pub head: Vec<String>,
    pub rows: Vec<Row>,
}

/// A list of names on a page.
#[derive(Debug)]
pub struct Listed {
    page: String,
    /// The line number where the list begins.
    line: usize,
    pub names: Vec<(usize, String)>,
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .find(|folder| folder.join("docs/architecture.md").is_file())
        .unwrap()
        .to_owned()
}

impl Page {
    /// Reads the page at a path from the root.
    pub fn read(name: &str) -> Page {
        let text =
            fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name: name.to_owned(), text }
    }

    /// Formats the place of a line, as `docs/testing.md:160`.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.name)
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Returns the fenced blocks, in order.
    pub fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<(usize, &str, usize)> = None;
        let mut offset = 0;
        for (line, text) in (1..).zip(self.text.split_inclusive('\n')) {
            let begin = offset;
            offset += text.len();
            let Some(language) = text.trim().strip_prefix("```") else {
                continue;
            };
            match open.take() {
                None => open = Some((line + 1, language, offset)),
                Some((line, language, from)) => {
                    blocks.push(Block { line, language, text: &self.text[from..begin] })
                }
            }
        }
        assert!(open.is_none(), "{}: a block does not end", self.name);
        blocks
    }

    /// Fails unless a block has this text. `plain` removes from both the parts that vary by chance.
    #[track_caller]
    pub fn assert_shows(&self, printed: &str, plain: impl Fn(&str) -> String) {
        let printed = plain(printed);
        let printed: Vec<&str> = printed.lines().collect();
        // Report the block that shares most words with the text.
        let words: Vec<&str> = printed.iter().flat_map(|it| it.split(' ')).collect();
        let blocks = self.blocks().into_iter();
        let nearest = blocks
            .max_by_key(|block| {
                let text = plain(block.text);
                words.iter().filter(|word| text.contains(**word)).count()
            })
            .unwrap();
        let text = plain(nearest.text);
        let shown: Vec<&str> = text.lines().collect();
        let lines = shown.len().max(printed.len());
        if let Some(at) = (0..lines).find(|at| shown.get(*at) != printed.get(*at)) {
            let place = self.at(nearest.line + at);
            let [shown, printed] = [&shown, &printed].map(|it| it.get(at).unwrap_or(&"(no line)"));
            panic!("\n{place}: the page shows\n{shown}\nand what is printed is\n{printed}");
        }
    }

    /// Returns the rows of the table whose header begins with `head`.
    pub fn table(&self, head: &str) -> Vec<Row> {
        let found: Vec<usize> = self
            .lines()
            .filter(|(_, text): &(usize, &str)| text.starts_with(head))
            .map(|(line, _)| line)
            .collect();
        let [begin] = found[..] else {
            panic!("{}: not one table begins with {head:?}: {found:?}", self.name);
        };
        let rows = self.lines().skip(begin + 1);
        rows.take_while(|(_, text)| text.starts_with('|'))
            .map(|(line, text)| Row { line, cells: cells(text) })
            .collect()
    }

    /// Returns all tables, in order.
    pub fn tables(&self) -> Vec<Table> {
        let (mut tables, mut heading, mut caption) = (Vec::new(), String::new(), String::new());
        let mut lines = self.lines().peekable();
        while let Some((_, text)) = lines.next() {
            if let Some(title) = text.strip_prefix('#') {
                heading = title.trim_start_matches('#').trim().to_owned();
            }
            let is_head = text.starts_with('|')
                && lines
                    .peek()
                    .is_some_and(|(_, below)| below.starts_with('|') && below.contains("---"));
            if !is_head {
                if !text.trim().is_empty() {
                    caption = text.to_owned();
                }
                continue;
            }
            lines.next();
            let mut rows = Vec::new();
            while let Some((line, text)) = lines.next_if(|(_, text)| text.starts_with('|')) {
                rows.push(Row { line, cells: cells(text) });
            }
            let (heading, caption) = (heading.clone(), caption.clone());
            tables.push(Table { heading, caption, head: cells(text), rows });
        }
        tables
    }

    /// Returns the names in backticks in a column, counted from 0, of the table whose header begins
    /// with `head`.
    pub fn column(&self, head: &str, column: usize) -> Listed {
        let rows = self.table(head);
        let names = rows.iter().flat_map(|row| {
            let names = names(&row.cells[column]).into_iter();
            names.map(|name| (row.line, name.to_owned()))
        });
        Listed {
            page: self.name.clone(),
            line: rows.first().map_or(0, |row| row.line) - 2,
            names: names.collect(),
        }
    }

    /// Returns the names in backticks between two texts; `begin` must occur once.
    pub fn between(&self, begin: &str, end: &str) -> Listed {
        let parts: Vec<&str> = self.text.split(begin).collect();
        let [before, rest] = parts[..] else {
            panic!("{}: not once: {begin:?}", self.name);
        };
        let Some((list, _)) = rest.split_once(end) else {
            panic!("{}: no {end:?} after {begin:?}", self.name);
        };
        let line = before.lines().count().max(1);
        let each = list.split('\n').enumerate();
        let names = each.flat_map(|(down, text)| {
            let names = names(text).into_iter();
            names.map(move |name| (line + down, name.to_owned()))
        });
        Listed { page: self.name.clone(), line, names: names.collect() }
    }
}

impl Listed {
    /// Returns the list with each name changed; drops a name if `change` returns `None`.
    pub fn map(mut self, change: impl Fn(&str) -> Option<String>) -> Listed {
        let changed = self.names.into_iter();
        self.names = changed.filter_map(|(line, name)| Some((line, change(&name)?))).collect();
        self
    }

    /// Fails unless the list has exactly these names; `source` tells where they are from.
    #[track_caller]
    pub fn assert_is<N: AsRef<str>>(&self, known: impl IntoIterator<Item = N>, source: &str) {
        let known: Vec<String> = known.into_iter().map(|it| it.as_ref().to_owned()).collect();
        assert!(!known.is_empty(), "no name found in {source}");
        let wrong = self.unknown(&known, source).into_iter();
        let is_listed = |name: &&String| self.names.iter().any(|(_, listed)| listed == *name);
        let missing = known.iter().filter(|name| !is_listed(name)).map(|name| {
            let Listed { page, line, .. } = self;
            format!("{page}:{line}: the list lacks `{name}` of {source}")
        });
        report(wrong.chain(missing));
    }

    fn unknown(&self, known: &[String], source: &str) -> Vec<String> {
        let unknown = self.names.iter().filter(|(_, name)| !known.contains(name));
        let page = &self.page;
        unknown.map(|(line, name)| format!("{page}:{line}: `{name}` is not in {source}")).collect()
    }
}

/// Fails with all these lines, if there are any.
#[track_caller]
pub fn report(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Returns the texts in backticks, in order.
pub fn names(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the cells of a row; `\|` does not separate cells.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').replace("\\|", "\0");
    let row = row.strip_suffix('|').unwrap_or(&row);
    row.split('|').map(|cell| cell.trim().replace('\0', "|")).collect()
}
