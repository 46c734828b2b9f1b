//! JSON of the same shape as the TOML, one object at a time.
//!
//! serde_json reports no positions, but it borrows each value's text from the input. The value's
//! position is the distance between the two.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::value::{Fault, Key, MAX_DEPTH, Node, Result, Table, Value, fraction, too_deep};

/// Reads a text that is one value.
///
/// # Errors
///
/// Fails at the first violation of JSON.
pub(crate) fn value(text: &str) -> Result<Value<'_>> {
    let input = Input { text, is_sysctl: false };
    input.value(input.parse(text)?, MAX_DEPTH)
}

/// The pairs of an object in the order of the file, with repeated keys.
pub(crate) struct Pairs<'a>(pub(crate) Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(8));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// A text being read.
pub(crate) struct Input<'a> {
    pub(crate) text: &'a str,
    /// True within the one section whose tables may have any number of keys.
    pub(crate) is_sysctl: bool,
}

impl<'a> Input<'a> {
    /// Returns the byte at which a part of the text starts.
    fn offset(&self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }

    pub(crate) fn parse<T: Deserialize<'a>>(&self, part: &'a str) -> Result<T> {
        serde_json::from_str(part).map_err(|error| Fault {
            at: self.offset(part) + position(part, error.line(), error.column()),
            message: message(&error),
        })
    }

    pub(crate) fn key(&self, key: &'a RawValue) -> Result<Key<'a>> {
        let name = self.string(key.get())?;
        let at = self.offset(key.get());
        Ok(Key { at, name })
    }

    /// Reads a string literal. The result is borrowed unless the literal has escapes.
    fn string(&self, literal: &'a str) -> Result<Cow<'a, str>> {
        match literal.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(inner) if !inner.contains('\\') => Ok(Cow::Borrowed(inner)),
            _ => self.parse(literal).map(Cow::Owned),
        }
    }

    pub(crate) fn value(&self, raw: &'a RawValue, depth: usize) -> Result<Value<'a>> {
        let text = raw.get();
        let at = self.offset(text);
        if depth == 0 {
            return Err(too_deep(at));
        }
        let node = match text.as_bytes().first() {
            Some(b'"') => Node::Text(self.string(text)?),
            Some(b't') => Node::Bool(true),
            Some(b'f') => Node::Bool(false),
            Some(b'n') => Node::Other("null"),
            Some(b'[') => {
                let elements: Vec<&RawValue> = self.parse(text)?;
                let values = elements.into_iter().map(|raw| self.value(raw, depth - 1));
                Node::List(values.collect::<Result<_>>()?)
            }
            Some(b'{') => {
                let mut table = if self.is_sysctl { Table::unbounded() } else { Table::default() };
                for (key, value) in self.parse::<Pairs<'a>>(text)?.0 {
                    table.insert(self.key(key)?, self.value(value, depth - 1)?)?;
                }
                Node::Table(table)
            }
            _ => number(text),
        };
        Ok(Value { at, node })
    }
}

fn number<'a>(text: &str) -> Node<'a> {
    match text.parse() {
        Ok(number) => Node::Integer(number),
        Err(_) if text.contains(['.', 'e', 'E']) => fraction(text),
        Err(_) => Node::Other("a number too large for any key"),
    }
}

/// Returns the problem of a text that is not JSON, without the place.
fn message(error: &serde_json::Error) -> String {
    let placed = error.to_string();
    let message = match placed.rsplit_once(" at line ").map_or(&*placed, |parts| parts.0) {
        _ if error.classify() == Category::Eof => {
            "the JSON ends too early: a part of it is missing, or a bracket or quote is not closed"
        }
        "expected value" => r#"expected a value, such as "text", 7, true, a list or an object"#,
        message => message,
    };
    message.to_owned()
}

/// Returns the byte for a line and a column of serde_json. Both count from 1, columns in bytes, and
/// name the last byte read.
fn position(text: &str, line: usize, column: usize) -> usize {
    let before = text.split_inclusive('\n').take(line.saturating_sub(1));
    let start: usize = before.map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}
