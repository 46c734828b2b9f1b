//! The error in a file, with its place.

use std::fmt;
use std::ops::Range;

/// The reason why a file declares no guests, and the place of the problem.
#[derive(Clone, Debug)]
pub struct Error {
    line: usize,
    text: String,
    problem: String,
}

impl Error {
    pub(super) fn at(text: &str, span: Option<Range<usize>>, problem: String) -> Error {
        let before = span.and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
        let text = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
        Error { line, text, problem }
    }

    /// Returns the number of the line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

/// Formats as `3: memory = "1XB": "1XB" is no size: …`, to follow the file's name.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.line, self.text, self.problem)
    }
}

impl std::error::Error for Error {}
