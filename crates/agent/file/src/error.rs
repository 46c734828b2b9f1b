//! Errors of a file: one diagnostic for each problem, with its location.

use std::fmt;
use std::io;

use trueup_net::render::clean;
use trueup_netlink::is_transient;

use crate::location::Location;

/// The most diagnostics that one error lists.
pub(crate) const MAX_PROBLEMS: usize = 20;

/// The reasons to refuse a file. The text has one line for each diagnostic, such as
/// `edge.toml:12:7: ...`, with the problem and the text to write instead.
///
/// ```
/// use trueup_file::{File, TableNames};
///
/// let error = File::parse("f.toml", b"route = 7", &TableNames::default()).unwrap_err();
/// assert!(error.to_string().starts_with("f.toml:1:"));
/// assert!(!error.is_transient() && !error.diagnostics().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    file: String,
    diagnostics: Vec<Diagnostic>,
    has_more: bool,
    is_transient: bool,
}

/// One problem of a file.
///
/// ```
/// use trueup_file::{File, TableNames};
///
/// let text = b"[[route]]\ndst = \"10.0.0.0/8\"\nmetrik = 7\n";
/// let error = File::parse("f.toml", text, &TableNames::default()).unwrap_err();
/// assert!(error.diagnostics()[0].message.contains("metric")); // the nearest known key
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The place in the file. `None` for the file as a whole.
    pub location: Option<Location>,
    /// The problem, and the text to write instead.
    pub message: String,
}

impl Error {
    /// Returns an error at a location of a file that was read, such as a missing device.
    pub fn at(file: &str, location: Option<Location>, message: impl Into<String>) -> Error {
        Error::new(file, vec![Diagnostic { location, message: message.into() }])
    }

    /// Returns the error of a file that could not be read, with the remedy if there is one.
    pub fn unreadable(file: &str, error: &io::Error) -> Error {
        let message = match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            io::ErrorKind::IsADirectory => "is a directory: name a file in it".to_owned(),
            // From a caller that opens only regular files.
            io::ErrorKind::InvalidInput => {
                format!("{error}: name one, or `-` and pass it on the standard input")
            }
            _ => format!("cannot be read: {error}"),
        };
        let is_transient = error.raw_os_error().is_some_and(is_transient);
        Error { is_transient, ..Error::at(file, None, message) }
    }

    /// Returns the error of a file that could not be opened. The text is that of
    /// [`unreadable`](Self::unreadable).
    pub fn unopened(file: &str, error: &trueup_path::Error) -> Error {
        let error = match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.io_kind(), error.message()),
        };
        Error::unreadable(file, &error)
    }

    /// Returns true if the file could not be read for lack of a resource that may become free
    /// again, such as a descriptor.
    pub fn is_transient(&self) -> bool {
        self.is_transient
    }

    /// Returns the diagnostics in the order of the file, at most 20.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the error of a file with these faults, such as faults in a section that another
    /// crate reads.
    pub fn new(file: &str, mut diagnostics: Vec<Diagnostic>) -> Error {
        diagnostics.sort_by_key(|diagnostic| diagnostic.location);
        let has_more = diagnostics.len() > MAX_PROBLEMS;
        diagnostics.truncate(MAX_PROBLEMS);
        Error { file: file.to_owned(), diagnostics, has_more, is_transient: false }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.diagnostics.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", clean(&self.file))?;
            if let Some(location) = diagnostic.location {
                write!(f, "{location}:")?;
            }
            write!(f, " {}", clean(&diagnostic.message))?;
        }
        if self.has_more {
            write!(f, "\n{}: and more errors", clean(&self.file))?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
