//! TOML, one object at a time.
//!
//! The text is cut into tokens lazily, and the tokens from one header (`[[route]]`) to the next are
//! parsed as a document of their own: the memory that this takes is that of the largest object,
//! however long the file is. TableNames and keys with dots, which TOML has and this format has not,
//! are refused with what to write instead. Only `[sysctl]` has keys with dots.

use std::borrow::Cow;

use toml_parser::decoder::{Encoding, IntegerRadix, ScalarKind};
use toml_parser::lexer::{Token, TokenKind};
use toml_parser::parser::EventReceiver;
use toml_parser::{ErrorSink, ParseError, Source, Span};

use crate::collect::Collector;
use crate::file_keys::{self, SYSCTL};
use crate::value::{Fault, Key, MAX_DEPTH, Node, Result, Table, Value, fault, fraction, too_deep};

/// Reads a whole text into `collector`.
///
/// # Errors
///
/// At the first violation of TOML. Faults of objects are added to the collector.
pub(crate) fn read<'a>(text: &'a str, collector: &mut Collector<'a>) -> Result<()> {
    let source = Source::new(text);
    let mut open: Option<Object<'a>> = None;
    let mut chunks = Chunks {
        tokens: source.lex(),
        header: None,
    };
    let mut chunk = Vec::new();
    while chunks.next(&mut chunk) {
        let part = parse(source, &chunk)?;
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

/// An object of which a `[[section.list]]` may still follow.
struct Object<'a> {
    section: Key<'a>,
    at: usize,
    table: Table<'a>,
    /// The lists that such headers began. Such a header adds to no other list.
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
    let is_table = file_keys::TABLES.contains(&&*section.name);
    if is_table && !header.is_array && list.is_none() {
        if let Some(object) = open.take() {
            object.finish(collector);
        }
        let node = Node::Table(pairs);
        let at = header.at;
        return collector.pair(section, Value { at, node });
    }
    let kind = collector.kind(&section)?;
    if !header.is_array {
        let message = format!("`{kind}` is a list: write [[{kind}]] in double brackets");
        return fault(header.at, message);
    }
    let Some(list) = list else {
        if let Some(object) = open.take() {
            object.finish(collector);
        }
        collector.header(&section)?;
        *open = Some(Object {
            section,
            at: header.at,
            table: pairs,
            lists: Vec::new(),
        });
        return Ok(());
    };
    let object = open
        .as_mut()
        .filter(|object| object.section.name == section.name);
    let Some(object) = object else {
        let name = &section.name;
        let message = format!("[[{name}.{}]] follows no [[{name}]]", list.name);
        return fault(header.at, message);
    };
    let element = Value {
        at: header.at,
        node: Node::Table(pairs),
    };
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

struct Header<'a> {
    at: usize,
    is_array: bool,
    path: Vec<Key<'a>>,
}

/// One chunk: at most one header, and the pairs below it.
struct Part<'a> {
    header: Option<Header<'a>>,
    pairs: Table<'a>,
}

fn parse<'a>(source: Source<'a>, tokens: &[Token]) -> Result<Part<'a>> {
    let mut builder = Builder {
        source,
        header: None,
        in_header: false,
        pairs: Table::default(),
        keys: Vec::new(),
        is_part: false,
        open: Vec::new(),
    };
    let mut error: Option<ParseError> = None;
    toml_parser::parser::parse_document(tokens, &mut builder, &mut error);
    match error {
        Some(error) => Err(syntax(&error)),
        None => Ok(Part {
            header: builder.header,
            pairs: builder.pairs,
        }),
    }
}

fn syntax(error: &ParseError) -> Fault {
    let span = error.unexpected().or(error.context()).unwrap_or_default();
    let mut message = error.description().to_owned();
    for (i, expected) in error.expected().unwrap_or_default().iter().enumerate() {
        message.push_str(if i == 0 { ", expected " } else { " or " });
        match expected {
            toml_parser::Expected::Literal("\n") => message.push_str("the end of the line"),
            toml_parser::Expected::Literal(literal) => message.push_str(&format!("`{literal}`")),
            toml_parser::Expected::Description(text) => message.push_str(text),
            _ => message.push_str("something else"),
        }
    }
    Fault {
        at: span.start(),
        message,
    }
}

/// Builds values from the events of the parser. It reports what the parser does not check: keys
/// given twice, numbers out of range, what this format does not have. After the first report its
/// values mean nothing.
struct Builder<'a> {
    source: Source<'a>,
    header: Option<Header<'a>>,
    in_header: bool,
    pairs: Table<'a>,
    /// The keys that still lack their values, outermost first, each with its parts.
    keys: Vec<Vec<Key<'a>>>,
    /// True after a dot: what follows is a part of the last key.
    is_part: bool,
    /// The lists and tables that are still open, outermost first.
    open: Vec<Value<'a>>,
}

impl<'a> Builder<'a> {
    /// Puts a finished value where it belongs.
    fn location(&mut self, value: Value<'a>, error: &mut dyn ErrorSink) {
        let table = match self.open.last_mut().map(|parent| &mut parent.node) {
            Some(Node::List(elements)) => return elements.push(value),
            Some(Node::Table(table)) => table,
            _ => &mut self.pairs,
        };
        if let Some(mut path) = self.keys.pop()
            && let Some(mut last) = path.pop()
        {
            // A key with dots starts with its first part.
            last.at = path.first().map_or(last.at, |first| first.at);
            if let Err(fault) = table.insert_at(path.into_iter(), last, value) {
                report(fault, error);
            }
        }
    }

    /// Returns true within the one section whose keys may have dots and may be many.
    fn is_sysctl(&self) -> bool {
        let header = self.header.as_ref().map(|header| &header.path);
        let path = header.or(self.keys.first());
        path.and_then(|path| path.first())
            .is_some_and(|first| first.name == SYSCTL)
    }

    fn table(&self) -> Table<'a> {
        match self.is_sysctl() {
            true => Table::unbounded(),
            false => Table::default(),
        }
    }

    fn enter(&mut self, span: Span, node: Node<'a>, error: &mut dyn ErrorSink) -> bool {
        let at = span.start();
        if self.open.len() >= MAX_DEPTH {
            report(too_deep(at), error);
            return false;
        }
        self.open.push(Value { at, node });
        true
    }

    fn leave(&mut self, error: &mut dyn ErrorSink) {
        if let Some(value) = self.open.pop() {
            self.location(value, error);
        }
    }

    fn header(&mut self, span: Span, is_array: bool) {
        self.header = Some(Header {
            at: span.start(),
            is_array,
            path: Vec::new(),
        });
        self.in_header = true;
    }
}

fn report(fault: Fault, error: &mut dyn ErrorSink) {
    let span = Span::new_unchecked(fault.at, fault.at);
    error.report_error(ParseError::new(fault.message).with_unexpected(span));
}

impl EventReceiver for Builder<'_> {
    fn std_table_open(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        self.header(span, false);
    }

    fn std_table_close(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        self.in_header = false;
        self.pairs = self.table();
    }

    fn array_table_open(&mut self, span: Span, _error: &mut dyn ErrorSink) {
        self.header(span, true);
    }

    fn array_table_close(&mut self, _span: Span, _error: &mut dyn ErrorSink) {
        self.in_header = false;
    }

    fn inline_table_open(&mut self, span: Span, error: &mut dyn ErrorSink) -> bool {
        self.enter(span, Node::Table(self.table()), error)
    }

    fn inline_table_close(&mut self, _span: Span, error: &mut dyn ErrorSink) {
        self.leave(error);
    }

    fn array_open(&mut self, span: Span, error: &mut dyn ErrorSink) -> bool {
        self.enter(span, Node::List(Vec::new()), error)
    }

    fn array_close(&mut self, _span: Span, error: &mut dyn ErrorSink) {
        self.leave(error);
    }

    fn simple_key(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let at = span.start();
        let mut name = Cow::Borrowed("");
        if let Some(raw) = self.source.get(span) {
            let raw = toml_parser::Raw::new_unchecked(raw.as_str(), encoding, span);
            raw.decode_key(&mut name, error);
        }
        let key = Key { at, name };
        match &mut self.header {
            Some(header) if self.in_header => header.path.push(key),
            _ if std::mem::take(&mut self.is_part) => {
                // One part more than `key_sep` reports as too deep.
                if let Some(path) = self.keys.last_mut().filter(|path| path.len() <= MAX_DEPTH) {
                    path.push(key);
                }
            }
            _ => self.keys.push(vec![key]),
        }
    }

    fn key_sep(&mut self, span: Span, error: &mut dyn ErrorSink) {
        if self.in_header {
            return;
        }
        self.is_part = true;
        let path = self.keys.last();
        let at = path.and_then(|path| path.first()).map(|key| key.at);
        let at = at.unwrap_or(span.start());
        if !self.is_sysctl() {
            let message = "a key with a dot in it: write a header instead, or { ... }".to_owned();
            report(Fault { at, message }, error);
        } else if path.is_some_and(|path| path.len() == MAX_DEPTH) {
            report(too_deep(at), error);
        }
    }

    fn scalar(&mut self, span: Span, encoding: Option<Encoding>, error: &mut dyn ErrorSink) {
        let at = span.start();
        let mut text = Cow::Borrowed("");
        let Some(raw) = self.source.get(span) else {
            return;
        };
        let raw = toml_parser::Raw::new_unchecked(raw.as_str(), encoding, span);
        let node = match raw.decode_scalar(&mut text, error) {
            ScalarKind::String => Node::Text(text),
            ScalarKind::Boolean(value) => Node::Bool(value),
            ScalarKind::DateTime => Node::Other("a date or a time"),
            ScalarKind::Float => fraction(&text),
            ScalarKind::Integer(radix) => integer(&text, radix),
        };
        self.location(Value { at, node }, error);
    }

    fn comment(&mut self, span: Span, error: &mut dyn ErrorSink) {
        if let Some(raw) = self.source.get(span) {
            raw.decode_comment(error);
        }
    }

    fn newline(&mut self, span: Span, error: &mut dyn ErrorSink) {
        if let Some(raw) = self.source.get(span) {
            raw.decode_newline(error);
        }
    }
}

fn integer<'a>(digits: &str, radix: IntegerRadix) -> Node<'a> {
    match i64::from_str_radix(digits, radix.value()) {
        Ok(number) => Node::Integer(number),
        Err(_) => Node::Other("a number too large for any key"),
    }
}
