//! A chunk of TOML: one header with the pairs below it.

use std::borrow::Cow;

use toml_parser::decoder::{Encoding, IntegerRadix, ScalarKind};
use toml_parser::lexer::Token;
use toml_parser::parser::EventReceiver;
use toml_parser::{ErrorSink, ParseError, Source, Span};

use crate::file_keys::SYSCTL;
use crate::value::{Fault, Key, MAX_DEPTH, Node, Result, Table, Value, fraction, too_deep};

/// A header: `[path]` or `[[path]]`.
pub(super) struct Header<'a> {
    pub(super) at: usize,
    pub(super) is_array: bool,
    pub(super) path: Vec<Key<'a>>,
}

/// One chunk: at most one header, and the pairs below it.
pub(super) struct Chunk<'a> {
    pub(super) header: Option<Header<'a>>,
    pub(super) pairs: Table<'a>,
}

/// Parses the tokens of one chunk.
///
/// # Errors
///
/// Fails at the first violation of TOML or of this format.
pub(super) fn parse<'a>(source: Source<'a>, tokens: &[Token]) -> Result<Chunk<'a>> {
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
        None => Ok(Chunk { header: builder.header, pairs: builder.pairs }),
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
    Fault { at: span.start(), message }
}

/// Builds values from the parser's events. It reports faults that the parser does not check:
/// repeated keys, numbers out of range, and TOML beyond this format. After the first report its
/// values are meaningless.
struct Builder<'a> {
    source: Source<'a>,
    header: Option<Header<'a>>,
    in_header: bool,
    pairs: Table<'a>,
    /// The keys without values so far, outermost first, each with its parts.
    keys: Vec<Vec<Key<'a>>>,
    /// True after a dot: the next part belongs to the last key.
    is_part: bool,
    /// The open lists and tables, outermost first.
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
            // A dotted key starts with its first part.
            last.at = path.first().map_or(last.at, |first| first.at);
            if let Err(fault) = table.insert_at(path.into_iter(), last, value) {
                report(fault, error);
            }
        }
    }

    /// Returns true within the one section that may have dotted keys, and many keys.
    fn is_sysctl(&self) -> bool {
        let header = self.header.as_ref().map(|header| &header.path);
        let path = header.or(self.keys.first());
        path.and_then(|path| path.first()).is_some_and(|first| first.name == SYSCTL)
    }

    fn table(&self) -> Table<'a> {
        if self.is_sysctl() { Table::unbounded() } else { Table::default() }
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
        self.header = Some(Header { at: span.start(), is_array, path: Vec::new() });
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
                // One part more than the depth that `key_sep` reports as too deep.
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
        let at = path.and_then(|path| path.first()).map(|key| key.at).unwrap_or(span.start());
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
