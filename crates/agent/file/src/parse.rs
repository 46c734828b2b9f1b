//! Single values: numbers, addresses, prefixes, names. A function reads one value, and its fault
//! says what to write. The function beside it with `_node` in its name does the reverse.

mod network;
mod number;

use crate::suggest::unknown;
use crate::value::{Node, Result, Value, fault};

pub(crate) use network::{
    address, family, ip_protocol, ip_protocol_node, label, lladdr, marker, name, name_node,
    network, prefix, scope, scope_node, table,
};
pub(crate) use number::{
    bits, lifetime, lifetime_node, number, seconds, seconds_node, span, span_node,
};

/// Reads a string.
pub(crate) fn text<'v>(value: &'v Value<'_>, expected: &str) -> Result<&'v str> {
    match &value.node {
        Node::Text(text) => Ok(text),
        _ => value.unexpected(expected),
    }
}

/// The longest name of an element, in bytes.
const MAX_NAME: usize = 255;

/// Reads the name of an element of the file, which the kernel does not know.
pub(crate) fn element_name(value: &Value<'_>) -> Result<String> {
    let name = text(value, "a name, such as \"pods\"")?;
    if (1..=MAX_NAME).contains(&name.len()) {
        return Ok(name.to_owned());
    }
    let message = format!("a name has 1 to {MAX_NAME} bytes: write another one, such as \"pods\"");
    fault(value.at, message)
}

/// Reads a list of values.
pub(crate) fn list<T>(
    value: &Value<'_>,
    expected: &str,
    read: impl Fn(&Value<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    match &value.node {
        Node::List(items) => items.iter().map(read).collect(),
        _ => value.unexpected(expected),
    }
}

/// Reads `true` or `false`.
pub(crate) fn flag(value: &Value<'_>) -> Result<bool> {
    match value.node {
        Node::Bool(flag) => Ok(flag),
        _ => value.unexpected("true or false"),
    }
}

/// Reads a string or a list of bytes.
pub(crate) fn bytes(value: &Value<'_>, expected: &str) -> Result<Vec<u8>> {
    match &value.node {
        Node::Text(text) => Ok(text.as_bytes().to_vec()),
        Node::List(bytes) => bytes.iter().map(number(0..=255)).collect(),
        _ => value.unexpected(expected),
    }
}

/// Writes bytes: a string if they are UTF-8. The reverse of [`bytes`].
pub(crate) fn bytes_node(bytes: &[u8]) -> Node<'static> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Node::Text(text.to_owned().into()),
        Err(_) => bytes.iter().map(|byte| u32::from(*byte).into()).collect(),
    }
}

/// Reads one of the known words.
pub(crate) fn one_of<T: Copy>(value: &Value<'_>, what: &str, words: &[(&str, T)]) -> Result<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let text = text(value, &format!("one of {}", known.join(", ")))?;
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) => Ok(*meaning),
        None => fault(value.at, unknown(what, text, "", &known)),
    }
}

/// Writes a value as its word. Every value must have one. The reverse of [`one_of`].
pub(crate) fn word<T: Copy + PartialEq>(value: T, words: &[(&'static str, T)]) -> Node<'static> {
    known_word(value, words).unwrap_or(Node::Text("".into()))
}

/// Writes a value as its word, or returns `None` if it has none.
pub(crate) fn known_word<T: Copy + PartialEq>(
    value: T,
    words: &[(&'static str, T)],
) -> Option<Node<'static>> {
    words.iter().find(|(_, known)| *known == value).map(|(word, _)| Node::Text((*word).into()))
}
