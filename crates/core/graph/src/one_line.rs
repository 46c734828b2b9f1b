//! Text from elsewhere as one line: names, and what a command says of its failure.

use std::fmt::{self, Write as _};

/// A writer that escapes control characters.
pub(crate) struct OneLine<W>(pub(crate) W);

impl<W: fmt::Write> fmt::Write for OneLine<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|it| match it.is_control() {
            true => write!(self.0, "{}", it.escape_default()),
            false => self.0.write_char(it),
        })
    }
}

/// Returns text as one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = OneLine(String::new());
    // Writing to memory does not fail.
    let _ = line.write_str(text);
    line.0
}
