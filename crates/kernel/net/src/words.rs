//! Words and texts from other writers: names, aliases, labels and messages may contain any bytes.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::devices::Devices;
use crate::values::Dev;

/// A word of a command line, quoted if `ip -batch` would otherwise split it.
///
/// `ip -batch` knows no escapes. It cuts a line at the first `#`, joins a line ending in `\` with
/// the next, and reads a word that begins with a quote up to the next such quote (`getcmdline` and
/// `makeargs` in iproute2's lib/utils.c). If it would misread a word, or a terminal would obey it,
/// the word is escaped as in bash, `$'...'`. [`is_sayable`] returns false for a command with such a
/// word.
pub(crate) struct Word<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = std::str::from_utf8(self.0).ok();
        match word.and_then(|word| Some((word, quote(word)?))) {
            Some((word, quote)) => write!(f, "{quote}{word}{quote}"),
            None => escaped(f, self.0),
        }
    }
}

/// Returns the quotes with which `ip -batch` reads the word unchanged; `None` if none work.
fn quote(word: &str) -> Option<&'static str> {
    if word.contains(['#', '\n']) || word.contains(ESCAPED) || word.contains(is_harmful) {
        return None;
    }
    let whole = !word.is_empty() && !word.contains(' ') && !word.starts_with(['"', '\'']);
    if whole && word.bytes().all(|b| b.is_ascii_graphic() && !b"\"'\\".contains(&b)) {
        Some("")
    } else if !word.contains('"') {
        Some("\"")
    } else if !word.contains('\'') {
        Some("'")
    } else {
        (whole && !word.ends_with('\\')).then_some("")
    }
}

/// The start of an escaped word. No other word contains it.
const ESCAPED: &str = "$'";

/// Returns true if `ip -batch` reads every word of a command correctly.
pub(crate) fn is_sayable(command: &str) -> bool {
    !command.contains(ESCAPED)
}

fn escaped(f: &mut fmt::Formatter<'_>, word: &[u8]) -> fmt::Result {
    f.write_str(ESCAPED)?;
    for chunk in word.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\\' | '\'' => write!(f, "\\{c}")?,
                c => harmless(f, c)?,
            }
        }
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    f.write_str("'")
}

/// Writes a character, or bash's escape for it if a terminal would obey it.
fn harmless(out: &mut impl fmt::Write, c: char) -> fmt::Result {
    match u32::from(c) {
        _ if !is_harmful(c) => out.write_char(c),
        code @ ..0x80 => write!(out, "\\x{code:02x}"),
        code => write!(out, "\\u{code:04x}"),
    }
}

/// Returns external text as one line, without characters that control a terminal or reorder the
/// text beside them. They become `\x1b` or `\u202e`. A line feed, after which the text could pass
/// for a line of ours, becomes `\n`.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to memory cannot fail.
        let _ = match c {
            '\n' => cleaned.write_str("\\n"),
            c => harmless(&mut cleaned, c),
        };
    }
    Cow::Owned(cleaned)
}

/// Returns true if a terminal obeys a character or does not show it: controls, marks that set the
/// direction of text (Unicode, UAX 9), and characters without width.
pub fn is_harmful(c: char) -> bool {
    let is_format = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    );
    c.is_control() || is_format
}

/// Writes a device's name, or its index as iproute2 does if the name is unknown: `if7`.
pub(crate) struct Name<'a>(pub(crate) Dev, pub(crate) &'a Devices);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.name(self.0) {
            Some(name) => Word(name.as_bytes()).fmt(f),
            None => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests;
