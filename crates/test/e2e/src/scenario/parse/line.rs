//! A line of a scenario, and errors with their place in it.

use super::super::Error;

/// A line that says something, in a block or at its head.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: usize,
    /// As written, without the end.
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn is_indented(self) -> bool {
        self.text.starts_with([' ', '\t'])
    }

    pub(super) fn is_blank(self) -> bool {
        self.text.trim().is_empty()
    }

    pub(super) fn is_comment(self) -> bool {
        self.text.trim_start().starts_with('#')
    }

    /// An error at a byte of the line.
    pub(super) fn error(self, at: usize, message: impl Into<String>) -> Error {
        let before = self.text.get(..at).unwrap_or(self.text);
        Error { line: self.number, column: before.chars().count() + 1, message: message.into() }
    }

    /// Where its first word begins.
    pub(super) fn start(self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// An error at its first word.
    pub(super) fn wrong(self, message: impl Into<String>) -> Error {
        self.error(self.start(), message)
    }
}
