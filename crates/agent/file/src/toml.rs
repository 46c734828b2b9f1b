//! TOML, one object at a time.
//!
//! The text is cut into tokens lazily. The tokens from one header (`[[route]]`) to the next are
//! parsed as a document of their own, so the memory depends on the largest object and not on the
//! file's length. This format refuses tables and dotted keys, which TOML allows, and says what to
//! write instead. Only `[sysctl]` has dotted keys.

mod chunk;

use std::borrow::Cow;

use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

use crate::collect::Collector;
use crate::file_keys::{self, SYSCTL};
use crate::value::{Key, Node, Result, Table, Value, fault};
use chunk::Header;

/// Reads a whole text into `collector`.
///
/// # Errors
///
/// Fails at the first violation of TOML. Faults of objects are added to the collector.
pub(crate) fn read<'a>(text: &'a str, collector: &mut Collector<'a>) -> Result<()> {
    let source = Source::new(text);
    let mut open: Option<Object<'a>> = None;
    let mut chunks = Chunks { tokens: source.lex(), header: None };
    let mut chunk = Vec::new();
    while chunks.next(&mut chunk) {
        let part = chunk::parse(source, &chunk)?;
        match part.header {
            None => {
                for (key, value) in part.pairs.into_entries() {
                    collector.pair(key, value)?;
                }
            }
            Some(header) => below_header(header, part.pairs, &mut open, collector)?,
        }
    }
    if let Some(object) = open {
        object.finish(collector);
    }
    Ok(())
}

/// An object that a `[[section.list]]` may still extend.
struct Object<'a> {
    section: Key<'a>,
    at: usize,
    table: Table<'a>,
    /// The lists that such headers began. Such a header can add to no other list.
    lists: Vec<Cow<'a, str>>,
}

impl<'a> Object<'a> {
    fn finish(self, collector: &mut Collector<'a>) {
        let node = Node::Table(self.table);
        collector.element(&self.section.name, Value { at: self.at, node });
    }
}

fn below_header<'a>(
    header: Header<'a>,
    pairs: Table<'a>,
    open: &mut Option<Object<'a>>,
    collector: &mut Collector<'a>,
) -> Result<()> {
    let mut path = header.path.into_iter();
    if let Some(section) = path.as_slice().first()
        && section.name == SYSCTL
        && (header.is_array || path.len() > 1)
    {
        let message = "`sysctl` is one table: write [sysctl], and whole keys below it, such as \
                       net.ipv4.ip_forward = 1";
        return fault(header.at, message);
    }
    let (Some(section), list, None) = (path.next(), path.next(), path.next()) else {
        return fault(header.at, "this header is too deep: write [[SECTION]]");
    };
    let is_table = file_keys::TABLES.contains(&&*section.name) || collector.is_own(&section);
    if is_table && !header.is_array && list.is_none() {
        if let Some(object) = open.take() {
            object.finish(collector);
        }
        let node = Node::Table(pairs);
        let at = header.at;
        return collector.pair(section, Value { at, node });
    }
    let name = collector.section_name(&section)?;
    if !header.is_array {
        let message = format!("`{name}` is a list: write [[{name}]] in double brackets");
        return fault(header.at, message);
    }
    let Some(list) = list else {
        if let Some(object) = open.take() {
            object.finish(collector);
        }
        collector.header(&section)?;
        *open = Some(Object { section, at: header.at, table: pairs, lists: Vec::new() });
        return Ok(());
    };
    let object = open.as_mut().filter(|object| object.section.name == section.name);
    let Some(object) = object else {
        let name = &section.name;
        let message = format!("[[{name}.{}]] follows no [[{name}]]", list.name);
        return fault(header.at, message);
    };
    let element = Value { at: header.at, node: Node::Table(pairs) };
    if !object.lists.contains(&list.name) {
        let node = Node::List(vec![element]);
        let at = header.at;
        object.lists.push(list.name.clone());
        return object.table.insert(list, Value { at, node });
    }
    if let Some(value) = object.table.get_mut(&list.name)
        && let Node::List(elements) = &mut value.node
    {
        elements.push(element);
    }
    Ok(())
}

/// Cuts a stream of tokens before each header: a `[` at the start of a line, outside all brackets.
struct Chunks<I> {
    tokens: I,
    /// The bracket that ended the previous chunk.
    header: Option<Token>,
}

impl<I: Iterator<Item = Token>> Chunks<I> {
    /// Fills `chunk` with the next tokens. Returns false if there are none.
    fn next(&mut self, chunk: &mut Vec<Token>) -> bool {
        chunk.clear();
        let (mut depth, mut line_start) = (0_usize, true);
        if let Some(bracket) = self.header.take() {
            chunk.push(bracket);
            (depth, line_start) = (1, false);
        }
        for token in self.tokens.by_ref() {
            match token.kind() {
                TokenKind::LeftSquareBracket if line_start && depth == 0 => {
                    self.header = Some(token);
                    return true;
                }
                TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => depth += 1,
                TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            }
            line_start = match token.kind() {
                TokenKind::Newline => true,
                TokenKind::Whitespace => line_start,
                _ => false,
            };
            chunk.push(token);
        }
        !chunk.is_empty()
    }
}
