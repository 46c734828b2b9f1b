//! Values as text, TOML or JSON.

use std::fmt::Write as _;

use trueup_net::render::is_harmful;

use crate::value::{Key, Node, Table, Value};

/// A form of text.
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

/// Writes a string with the escapes that TOML and JSON share. Control sequences of terminals are
/// escaped, too.
fn string(text: &str, out: &mut String) -> std::fmt::Result {
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
