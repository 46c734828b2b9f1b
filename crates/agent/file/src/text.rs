//! Values as text, TOML or JSON.

use std::fmt::Write as _;

use trueup_net::render::is_harmful;

use crate::value::{Key, Node, Table, Value};

pub(crate) fn toml_pairs(table: &Table<'_>, out: &mut String) {
    for (key, value) in table.iter() {
        toml_pair(key, value, out);
    }
}

pub(crate) fn toml_pair(key: &Key<'_>, value: &Value<'_>, out: &mut String) {
    let _ = write!(out, "{} = ", key.name);
    toml_value(value, out);
    out.push('\n');
}

fn toml_value(value: &Value<'_>, out: &mut String) {
    match &value.node {
        Node::Text(text) => string(text, out),
        Node::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                toml_value(element, out);
            }
            out.push_str(" ]");
        }
        Node::Table(table) => {
            out.push('{');
            for (i, (key, value)) in table.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                let _ = write!(out, "{} = ", key.name);
                toml_value(value, out);
            }
            out.push_str(" }");
        }
        node => scalar(node, out),
    }
}

pub(crate) fn json_table(table: &Table<'_>, out: &mut String) {
    out.push('{');
    for (i, (key, value)) in table.iter().enumerate() {
        out.push_str(if i == 0 { " " } else { ", " });
        let _ = write!(out, "\"{}\": ", key.name);
        json_value(value, out);
    }
    out.push_str(" }");
}

pub(crate) fn json_value(value: &Value<'_>, out: &mut String) {
    match &value.node {
        Node::Text(text) => string(text, out),
        Node::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                json_value(element, out);
            }
            out.push_str(" ]");
        }
        Node::Table(table) => json_table(table, out),
        node => scalar(node, out),
    }
}

/// Writes what TOML and JSON write alike.
fn scalar(node: &Node<'_>, out: &mut String) {
    let _ = match node {
        Node::Integer(number) => write!(out, "{number}"),
        Node::Fraction(number) => write!(out, "{number}"),
        Node::Bool(flag) => write!(out, "{flag}"),
        Node::Text(_) | Node::List(_) | Node::Table(_) | Node::Other(_) => Ok(()),
    };
}

/// Writes a string with the escapes that TOML and JSON share. Control sequences of terminals are
/// escaped, too.
fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if is_harmful(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
