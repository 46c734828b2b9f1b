//! A file's values with their places: what TOML and JSON have in common. One object at a time is
//! held in this form; it knows nothing of networks.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::{Tables, settings};

/// Something wrong at a byte of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// A fault at a place, as the error of a result.
pub(crate) fn fault<T>(at: usize, message: impl Into<String>) -> Result<T> {
    Err(Fault {
        at,
        message: message.into(),
    })
}

/// A value, and the byte at which it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value<'a> {
    pub(crate) at: usize,
    pub(crate) node: Node<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    /// With a point or an exponent, or what counts as such: infinity, no number.
    Fraction(f64),
    Bool(bool),
    List(Vec<Value<'a>>),
    Table(Table<'a>),
    /// Anything that no key takes, by its description: a date, `null`.
    Other(&'static str),
}

impl Value<'_> {
    /// The value's sort, for "expected ..., found ...".
    pub(crate) fn sort(&self) -> &'static str {
        match &self.node {
            Node::Text(_) => "a string",
            Node::Integer(_) => "a number",
            Node::Fraction(_) => "a fraction",
            Node::Bool(_) => "true or false",
            Node::List(_) => "a list",
            Node::Table(_) => "a table",
            Node::Other(sort) => sort,
        }
    }

    /// "expected ..., found ...".
    pub(crate) fn unexpected<T>(&self, expected: impl std::fmt::Display) -> Result<T> {
        fault(
            self.at,
            format!("expected {expected}, found {}", self.sort()),
        )
    }
}

/// A number with a point or an exponent, without its separators.
pub(crate) fn fraction<'a>(text: &str) -> Node<'a> {
    text.parse()
        .map_or(Node::Other("a fraction"), Node::Fraction)
}

/// A key, and the byte at which it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) at: usize,
    pub(crate) name: Cow<'a, str>,
}

/// More keys than any object takes.
const MOST_KEYS: usize = 64;

/// Keys and values in the order of the file, no key twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table<'a> {
    entries: Vec<(Key<'a>, Value<'a>)>,
    /// Of a table that may have any number of keys: where each is.
    index: Option<HashMap<Cow<'a, str>, usize>>,
    /// It was made by a key with dots, so that others may add to it.
    dotted: bool,
}

impl<'a> Table<'a> {
    /// A table of any number of keys.
    pub(crate) fn roomy() -> Table<'a> {
        Table {
            index: Some(HashMap::new()),
            ..Table::default()
        }
    }

    /// Adds a pair. The keys of an object are few, so that looking at each is the fastest: more than
    /// any object has is refused, lest a hostile file make that slow.
    pub(crate) fn insert(&mut self, key: Key<'a>, value: Value<'a>) -> Result<()> {
        if self.position(&key.name).is_some() {
            return fault(key.at, format!("`{}` is given twice", key.name));
        }
        match &mut self.index {
            Some(index) => _ = index.insert(key.name.clone(), self.entries.len()),
            None if self.entries.len() >= MOST_KEYS => {
                return fault(key.at, format!("more than {MOST_KEYS} keys in one table"));
            }
            None => {}
        }
        self.entries.push((key, value));
        Ok(())
    }

    /// Adds a pair whose key has dots: each part but the last is a table, which other such keys may
    /// share.
    pub(crate) fn insert_at(
        &mut self,
        mut path: impl Iterator<Item = Key<'a>>,
        last: Key<'a>,
        value: Value<'a>,
    ) -> Result<()> {
        let Some(first) = path.next() else {
            return self.insert(last, value);
        };
        let (at, name) = (first.at, first.name.clone());
        if self.position(&name).is_none() {
            let table = Table {
                dotted: true,
                ..Table::roomy()
            };
            let node = Node::Table(table);
            self.insert(first, Value { at, node })?;
        }
        match self.get_mut(&name).map(|value| &mut value.node) {
            Some(Node::Table(table)) if table.dotted => table.insert_at(path, last, value),
            _ => fault(at, format!("`{name}` is given twice")),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(name).copied(),
            None => self.entries.iter().position(|(key, _)| key.name == name),
        }
    }

    /// Adds a pair that comes from no file; the caller uses no key twice.
    pub(crate) fn push(&mut self, name: &'static str, node: Node<'a>) {
        let key = Key {
            at: 0,
            name: Cow::Borrowed(name),
        };
        self.entries.push((key, Value { at: 0, node }));
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Value<'a>> {
        let at = self.position(name)?;
        self.entries.get_mut(at).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Key<'a>, Value<'a>)> {
        self.entries.iter()
    }

    pub(crate) fn into_entries(self) -> Vec<(Key<'a>, Value<'a>)> {
        self.entries
    }
}

/// A table whose keys are all known, to be read key by key.
pub(crate) struct Fields<'t> {
    /// The object's first byte.
    pub(crate) at: usize,
    table: &'t Table<'t>,
    /// The names of routing tables.
    pub(crate) tables: &'t Tables,
}

impl<'t> Fields<'t> {
    /// # Errors
    ///
    /// At the first key that is not among `keys`.
    pub(crate) fn new(
        what: &str,
        at: usize,
        table: &'t Table<'t>,
        keys: &[&str],
        tables: &'t Tables,
    ) -> Result<Fields<'t>> {
        for (key, _) in table.iter() {
            if keys.contains(&&*key.name) {
                continue;
            }
            let message = match settings::key(&key.name) {
                Some((name, _)) => {
                    format!("`{name}` is a key of the file, not of {what}: write it at the top")
                }
                None => unknown("key", &key.name, what, keys),
            };
            return fault(key.at, message);
        }
        Ok(Fields { at, table, tables })
    }

    /// The value of a key.
    pub(crate) fn get(&self, name: &str) -> Option<&'t Value<'t>> {
        let found = self.table.iter().find(|(key, _)| key.name == name);
        found.map(|(_, value)| value)
    }

    /// Whether a key is given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'t (Key<'t>, Value<'t>)> {
        self.table.iter()
    }

    /// Where a key's value starts, or the object where it is not given.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.get(name).map_or(self.at, |value| value.at)
    }

    /// Reads a key where it is given; what is wrong with it is told with its name.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'t Value<'t>) -> Result<T>,
    ) -> Result<Option<T>> {
        let value = self.get(name).map(read).transpose();
        value.map_err(|fault| Fault {
            message: format!("{name}: {}", fault.message),
            ..fault
        })
    }

    /// Reads a key that must be given; `example` says how.
    pub(crate) fn required<T>(
        &self,
        name: &str,
        example: &str,
        read: impl FnOnce(&'t Value<'t>) -> Result<T>,
    ) -> Result<T> {
        match self.read(name, read)? {
            Some(value) => Ok(value),
            None => fault(self.at, format!("`{name}` is missing: write {example}")),
        }
    }

    /// A fault at the value of a key, or at the object.
    pub(crate) fn fault<T>(&self, name: &str, message: impl Into<String>) -> Result<T> {
        fault(self.place(name), message)
    }
}

/// The message about a word that is not known, with the nearest that is. `of` may be nothing.
pub(crate) fn unknown(sort: &str, word: &str, of: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1));
    let shown: String = word.chars().take(40).collect();
    let of = match of {
        "" => String::new(),
        of => format!(" of {of}"),
    };
    match nearest {
        Some((_, nearest)) => format!("unknown {sort} `{shown}`{of}; did you mean `{nearest}`?"),
        None => format!(
            "unknown {sort} `{shown}`{of}; write one of {}",
            known.join(", ")
        ),
    }
}

/// The number of insertions, deletions, exchanges and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // No candidate is near a word of this length.
    if a.len() > 40 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let shift = rows[i - 1][j].min(rows[i][j - 1]) + 1;
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped {
                    rows[i - 2][j - 2] + 1
                } else {
                    change
                };
                change.min(shift).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_far_ones_are_not() {
        let known = ["dst", "metric", "nexthops"];
        let told = |word: &str| unknown("key", word, "a route", &known);
        assert_eq!(
            told("metrc"),
            "unknown key `metrc` of a route; did you mean `metric`?"
        );
        assert!(told("dest").ends_with("did you mean `dst`?"));
        assert!(told("gateway").ends_with("write one of dst, metric, nexthops"));
        assert!(told(&"x".repeat(1000)).len() < 120);
    }

    #[test]
    fn distance_counts_edits() {
        for (a, b, expected) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "xbcd", 2),
            ("ab", "ba", 1),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected));
        }
    }
}
