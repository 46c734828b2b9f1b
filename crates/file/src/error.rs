//! What is wrong with a file: every problem with its place, one a line.

use std::fmt;
use std::io;

use trueup_netlink::is_transient;

use crate::Place;

/// How many problems one error tells of.
pub(crate) const SHOWN: usize = 20;

/// Why a file is not a desired state. Its text has one line for each problem, in the form
/// `edge.toml:12:7: what is wrong, and what to write instead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    problems: Vec<Problem>,
    more: bool,
    transient: bool,
}

/// What sort of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file could not be read: missing, a directory, no permission.
    Unreadable,
    /// It is not TOML, not JSON, or not UTF-8.
    Syntax,
    /// It is well formed and says something that cannot be.
    Invalid,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where; `None` for the file as a whole.
    pub place: Option<Place>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Error {
    /// An error about one place of a file, for what turns out only later, such as a device that
    /// does not exist.
    pub fn at(file: &str, place: Option<Place>, message: impl Into<String>) -> Error {
        let problem = Problem {
            place,
            message: message.into(),
        };
        Error::new(ErrorKind::Invalid, file, vec![problem])
    }

    /// An error about a file that could not be read, with the remedy where there is one.
    pub fn unreadable(file: &str, error: &io::Error) -> Error {
        let message = match error.kind() {
            io::ErrorKind::NotFound => "no such file".to_owned(),
            io::ErrorKind::IsADirectory => "is a directory: name a file in it".to_owned(),
            // Of what is no regular file.
            io::ErrorKind::InvalidInput => {
                format!("{error}: name one, or `-` and pass it on the standard input")
            }
            _ => format!("cannot be read: {error}"),
        };
        let place = None;
        let mut unreadable = Error::new(
            ErrorKind::Unreadable,
            file,
            vec![Problem { place, message }],
        );
        unreadable.transient = error.raw_os_error().is_some_and(is_transient);
        unreadable
    }

    /// Whether the file could not be read for want of something that others give back, such as a
    /// descriptor: a moment later it may well be read.
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// What sort of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the file could not be read at all.
    pub fn is_unreadable(&self) -> bool {
        self.kind == ErrorKind::Unreadable
    }

    /// The problems in the order of the file, 20 at most.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    pub(crate) fn new(kind: ErrorKind, file: &str, mut problems: Vec<Problem>) -> Error {
        problems.sort_by_key(|problem| problem.place);
        let more = problems.len() > SHOWN;
        problems.truncate(SHOWN);
        Error {
            kind,
            file: file.to_owned(),
            problems,
            more,
            transient: false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}:", self.file)?;
            if let Some(place) = problem.place {
                write!(f, "{place}:")?;
            }
            write!(f, " {}", problem.message)?;
        }
        if self.more {
            write!(f, "\n{}: and more errors", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_problem_in_the_order_of_the_file_and_a_word_on_the_rest() {
        let problem = |line| Problem {
            place: Some(Place { line, column: 1 }),
            message: "no".to_owned(),
        };
        let error = Error::new(
            ErrorKind::Invalid,
            "f",
            (1..=22).rev().map(problem).collect(),
        );
        let text = error.to_string();
        assert!(text.starts_with("f:1:1: no\nf:2:1: no\n"), "{text}");
        assert!(text.ends_with("\nf:20:1: no\nf: and more errors"), "{text}");
    }
}
