//! Text from elsewhere, made harmless for a terminal: names, aliases and messages may hold anything.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text without anything that a terminal would obey or that would reorder what is beside it: such characters are written as
/// Rust writes them, `\u{1b}`. Line feeds stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) {
            // Writing to memory does not fail.
            let _ = write!(cleaned, "\\u{{{:x}}}", u32::from(c));
        } else {
            cleaned.push(c);
        }
    }
    Cow::Owned(cleaned)
}

/// Controls, and what sets the direction of text or has no width (Unicode, UAX 9).
fn is_harmful(c: char) -> bool {
    let invisible = matches!(c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    (c.is_control() && c != '\n') || invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for (text, shown) in [
            ("br0 \u{e4}\n", "br0 \u{e4}\n"),
            ("\x1b]0;owned\x07", "\\u{1b}]0;owned\\u{7}"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("a\rb\tc\u{7f}", "a\\u{d}b\\u{9}c\\u{7f}"),
            ("\u{202e}0rb", "\\u{202e}0rb"),
        ] {
            assert_eq!(clean(text), shown);
        }
    }
}
