//! The values of a file with their positions: the common ground of TOML and JSON, and both forms of
//! text. One object at a time is held in this form. This module does not depend on networks.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Display, Write as _};

use trueup_net::render::is_harmful;

/// The depth to which values may nest. No object nests deeper.
pub(crate) const MAX_DEPTH: usize = 8;

/// The most keys of a table, unless it is [unbounded](Table::unbounded). No object has that many.
const MAX_KEYS: usize = 64;

/// A problem at a byte of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    /// Puts the key's name before the message.
    pub(crate) fn in_key(self, name: &str) -> Fault {
        Fault { message: format!("{name}: {}", self.message), ..self }
    }
}

/// Returns a fault as the error of a result.
pub(crate) fn fault<T>(at: usize, message: impl Into<String>) -> Result<T> {
    Err(Fault { at, message: message.into() })
}

/// Returns the fault of values that nest deeper than [`MAX_DEPTH`].
pub(crate) fn too_deep(at: usize) -> Fault {
    Fault { at, message: format!("nested more than {MAX_DEPTH} deep") }
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
    /// A number with a point or an exponent, infinity, or not a number.
    Fraction(f64),
    Bool(bool),
    List(Vec<Value<'a>>),
    Table(Table<'a>),
    /// The description of a value that no key accepts: a date, `null`.
    Other(&'static str),
}

impl<'a> Value<'a> {
    /// Returns the value as a table. If it is not one, the fault says that `what`, a word with its
    /// article, must be a table.
    pub(crate) fn table(&self, what: &str) -> Result<&Table<'a>> {
        match &self.node {
            Node::Table(table) => Ok(table),
            _ => self.unexpected(format_args!("{what} as a table {{ ... }}")),
        }
    }

    /// Returns the value's sort, for "expected ..., found ...".
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

    /// Returns the fault "expected ..., found ...".
    pub(crate) fn unexpected<T>(&self, expected: impl Display) -> Result<T> {
        fault(self.at, format!("expected {expected}, found {}", self.sort()))
    }
}

/// Returns the value of a number with a point or an exponent. `text` has no separators.
pub(crate) fn fraction<'a>(text: &str) -> Node<'a> {
    text.parse().map_or(Node::Other("a fraction"), Node::Fraction)
}

/// A key, and the byte at which it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key<'a> {
    pub(crate) at: usize,
    pub(crate) name: Cow<'a, str>,
}

/// Returns the text of a value as a node.
pub(crate) fn text(value: impl Display) -> Node<'static> {
    Node::Text(value.to_string().into())
}

impl From<bool> for Node<'_> {
    fn from(flag: bool) -> Self {
        Node::Bool(flag)
    }
}

impl From<u32> for Node<'_> {
    fn from(number: u32) -> Self {
        Node::Integer(number.into())
    }
}

impl<'a> FromIterator<Node<'a>> for Node<'a> {
    fn from_iter<I: IntoIterator<Item = Node<'a>>>(nodes: I) -> Self {
        let values = nodes.into_iter().map(|node| Value { at: 0, node });
        Node::List(values.collect())
    }
}

/// Keys and values in the order of the file, no key twice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table<'a> {
    entries: Vec<(Key<'a>, Value<'a>)>,
    /// The position of each key. `None` in a table with a limited number of keys.
    index: Option<HashMap<Cow<'a, str>, usize>>,
    /// True if a dotted key created it, so that other dotted keys may add to it.
    is_dotted: bool,
}

impl<'a> Table<'a> {
    /// Returns an empty table that may have any number of keys.
    pub(crate) fn unbounded() -> Table<'a> {
        Table { index: Some(HashMap::new()), ..Table::default() }
    }

    /// Adds a pair. An object has few keys, so a comparison with each of them is fastest. The limit
    /// keeps a hostile file from making that slow.
    pub(crate) fn insert(&mut self, key: Key<'a>, value: Value<'a>) -> Result<()> {
        if self.position(&key.name).is_some() {
            return fault(key.at, format!("`{}` is given twice", key.name));
        }
        match &mut self.index {
            Some(index) => _ = index.insert(key.name.clone(), self.entries.len()),
            None if self.entries.len() >= MAX_KEYS => {
                return fault(key.at, format!("more than {MAX_KEYS} keys in one table"));
            }
            None => {}
        }
        self.entries.push((key, value));
        Ok(())
    }

    /// Adds a pair with a dotted key. Each part of the key except the last names a table, which
    /// other dotted keys may share.
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
            let node = Node::Table(Table { is_dotted: true, ..Table::unbounded() });
            self.insert(first, Value { at, node })?;
        }
        match self.get_mut(&name).map(|value| &mut value.node) {
            Some(Node::Table(table)) if table.is_dotted => table.insert_at(path, last, value),
            _ => fault(at, format!("`{name}` is given twice")),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(name).copied(),
            None => self.entries.iter().position(|(key, _)| key.name == name),
        }
    }

    /// Adds a pair that was not read from a file. The caller uses no key twice.
    pub(crate) fn set(&mut self, name: &'static str, node: impl Into<Node<'a>>) {
        let key = Key { at: 0, name: Cow::Borrowed(name) };
        self.entries.push((key, Value { at: 0, node: node.into() }));
    }

    /// Adds a pair like [`set`](Self::set), if there is a value.
    pub(crate) fn set_some(&mut self, name: &'static str, node: Option<impl Into<Node<'a>>>) {
        if let Some(node) = node {
            self.set(name, node);
        }
    }

    /// Adds a pair like [`set`](Self::set), unless the flag is `false`, which is the default.
    pub(crate) fn set_true(&mut self, name: &'static str, flag: bool) {
        self.set_some(name, flag.then_some(true));
    }

    /// Adds a pair like [`set`](Self::set), unless the number is 0, which is the default.
    pub(crate) fn set_nonzero(&mut self, name: &'static str, number: u32) {
        self.set_some(name, (number != 0).then_some(number));
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

/// The syntax of the output.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Toml,
    Json,
}

impl Form {
    /// Writes the pairs of a table, each in a line of its own.
    pub(crate) fn lines(self, table: &Table<'_>, out: &mut String) {
        for (key, value) in table.iter() {
            self.pair(key, value, out);
            out.push('\n');
        }
    }

    /// Writes a key and its value.
    pub(crate) fn pair(self, key: &Key<'_>, value: &Value<'_>, out: &mut String) {
        let _ = match self {
            Form::Toml => write!(out, "{} = ", key.name),
            Form::Json => write!(out, "\"{}\": ", key.name),
        };
        self.value(value, out);
    }

    /// Writes a table in one line.
    pub(crate) fn table(self, table: &Table<'_>, out: &mut String) {
        out.push('{');
        for (i, (key, value)) in table.iter().enumerate() {
            out.push_str(if i == 0 { " " } else { ", " });
            self.pair(key, value, out);
        }
        out.push_str(" }");
    }

    fn value(self, value: &Value<'_>, out: &mut String) {
        let _ = match &value.node {
            Node::Text(text) => string(text, out),
            Node::Integer(number) => write!(out, "{number}"),
            Node::Fraction(number) => write!(out, "{number}"),
            Node::Bool(flag) => write!(out, "{flag}"),
            Node::List(elements) => {
                out.push('[');
                for (i, element) in elements.iter().enumerate() {
                    out.push_str(if i == 0 { " " } else { ", " });
                    self.value(element, out);
                }
                out.write_str(" ]")
            }
            Node::Table(table) => {
                self.table(table, out);
                Ok(())
            }
            Node::Other(_) => Ok(()),
        };
    }
}

/// Writes a string with the escapes that TOML and JSON share. Also escapes control sequences of
/// terminals.
fn string(text: &str, out: &mut String) -> fmt::Result {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if is_harmful(c) => write!(out, "\\u{:04x}", u32::from(c))?,
            _ => out.push(c),
        }
    }
    out.write_char('"')
}
