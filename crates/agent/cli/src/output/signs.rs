//! The colours of lines on a terminal.

use std::io::{self, Write};

const RESET: &[u8] = b"\x1b[0m";

/// Returns the escape sequence for a line that begins with this byte; `None` if it is no sign.
fn colour(sign: u8) -> Option<&'static [u8]> {
    match sign {
        b'+' => Some(b"\x1b[32m"),
        b'~' => Some(b"\x1b[33m"),
        b'-' => Some(b"\x1b[31m"),
        b'!' => Some(b"\x1b[1;31m"),
        b'*' => Some(b"\x1b[36m"),
        _ => None,
    }
}

/// A writer that colours each line by its sign, however the line is cut into pieces.
pub(super) struct Signs<W> {
    out: W,
    /// False within a line.
    begins: bool,
    coloured: bool,
}

impl<W> Signs<W> {
    pub(super) fn new(out: W) -> Self {
        Signs { out, begins: true, coloured: false }
    }
}

impl<W: Write> Write for Signs<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.begins
                && let Some(colour) = colour(line[0])
            {
                self.out.write_all(colour)?;
                self.coloured = true;
            }
            let text = line.strip_suffix(b"\n");
            self.out.write_all(text.unwrap_or(line))?;
            self.begins = text.is_some();
            if self.begins {
                if self.coloured {
                    self.out.write_all(RESET)?;
                    self.coloured = false;
                }
                self.out.write_all(b"\n")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_coloured_by_its_sign_however_it_is_cut() {
        let text = "+ link a\n- route b\n\n  + no sign\nnothing to do\n! c";
        let coloured = "\x1b[32m+ link a\x1b[0m\n\x1b[31m- route b\x1b[0m\n\n  + no sign\n\
            nothing to do\n\x1b[1;31m! c";
        for pieces in 1..text.len() {
            let mut out = Signs::new(Vec::new());
            for piece in text.as_bytes().chunks(pieces) {
                out.write_all(piece).unwrap();
            }
            assert_eq!(String::from_utf8(out.out).unwrap(), coloured, "{pieces}");
        }
    }
}
