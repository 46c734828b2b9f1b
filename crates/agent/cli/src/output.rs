//! The output of the commands: results on the standard output, all other messages on the standard
//! error.

mod collected;
mod plan;
mod report;
mod signs;
mod why;

use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::{Context as _, Error, Result};
use serde::ser::{Serialize, Serializer};
pub(crate) use trueup::net::render::clean;
use trueup_file as file;

pub(crate) use collected::Collected;
pub(crate) use plan::plan;
pub(crate) use report::{report, write_verdict};
use signs::Signs;
pub(crate) use trueup_agent::text::{count, with_causes};
pub(crate) use why::{WhyContext, why};

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one line.
    Json,
    /// Commands for `ip -batch -`.
    Ip,
    /// A graph in the language of Graphviz.
    Dot,
    /// A graph as a drawing.
    Svg,
}

/// A writer that makes one line of each `write!` and `writeln!`, whatever the text. It escapes line
/// feeds and other control characters in names and in commands' output.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn write_fmt(&mut self, line: fmt::Arguments<'_>) -> io::Result<()> {
        let text = line.to_string();
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        self.0.write_all(clean(line).as_bytes())?;
        self.0.write_all(end.as_bytes())
    }
}

/// Writes text of several lines, such as a document. Its writer has escaped foreign text.
pub(crate) fn write_lines(out: &mut dyn Write, text: impl Display) -> io::Result<()> {
    // Uses `write_all`, in pieces, because the text may be large.
    struct Pieces<'a>(&'a mut dyn Write, io::Result<()>);
    impl fmt::Write for Pieces<'_> {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            self.1 = self.0.write_all(piece.as_bytes());
            self.1.as_ref().map(|_| ()).map_err(|_| fmt::Error)
        }
    }
    let mut pieces = Pieces(out, Ok(()));
    match fmt::write(&mut pieces, format_args!("{text}")) {
        Err(error) if pieces.1.is_ok() => Err(io::Error::other(error)),
        _ => pieces.1,
    }
}

/// Writes a line of JSON.
pub(crate) fn write_json(out: &mut dyn Write, of: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, of)?;
    writeln!(out)
}

/// Writes a result. It is no error if the reader is gone.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    print_to_reader(write).map(drop)
}

/// Writes a result. Returns true if there is still a reader.
pub(crate) fn print_to_reader(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool> {
    print_through(BufWriter::new(io::stdout().lock()), write)
}

/// Writes text for people. On a terminal each line has the colour of its sign.
fn print_with_signs(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if !is_terminal() || !wants_colours() {
        return print(write);
    }
    print_through(Signs::new(BufWriter::new(io::stdout().lock())), write).map(drop)
}

/// Returns true if the standard output is a terminal that knows escape sequences.
pub(crate) fn is_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !dumb
}

/// Returns false if the user has set `NO_COLOR`.
pub(crate) fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

fn print_through(
    out: impl Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<bool> {
    let mut out = Lines(out);
    match write(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to the standard output"),
    }
}

/// Prints a message that is not a result, as one line.
pub(crate) fn note(what: impl Display) {
    write_stderr(format_args!("trueup: {}\n", clean(&what.to_string())));
}

/// Prints why a command failed. A file's error prints like a compiler's, with lines of its own.
pub(crate) fn print_error(error: &Error) {
    let file = error.downcast_ref::<trueup_agent::Error>().and_then(trueup_agent::Error::file);
    match file.or_else(|| error.downcast_ref()) {
        Some::<&file::Error>(error) => write_stderr(format_args!("{error}\n")),
        None => note(with_causes(error.as_ref())),
    }
}

fn write_stderr(what: std::fmt::Arguments<'_>) {
    // In one piece, because threads and processes share it. A failed write cannot be reported.
    let _ = io::stderr().write_all(what.to_string().as_bytes());
}

/// A path in JSON. Bytes that are not UTF-8 are replaced.
pub(crate) struct LossyPath<P>(pub(crate) P);

impl<P: AsRef<Path>> Serialize for LossyPath<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.as_ref().display())
    }
}

/// A list that is built while it is written.
struct List<I>(I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_makes_no_line_of_its_own() {
        let mut out = Lines(Vec::new());
        let said = "no\nconverged\x1b[2J\n";
        writeln!(out, "! exec.a   failed: {said}").unwrap();
        writeln!(out).unwrap();
        let two = "a\nb";
        write!(out, "{two}").unwrap();
        write_lines(&mut out, "1\n2\n").unwrap();
        assert_eq!(
            String::from_utf8(out.0).unwrap(),
            "! exec.a   failed: no\\nconverged\\x1b[2J\\n\n\na\\nb1\n2\n"
        );
    }
}
