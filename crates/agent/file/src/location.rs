//! Locations in a file, and the location of each object.

use std::collections::BTreeMap;
use std::fmt;

use trueup_net::Kind;
use trueup_sysctl::Key;

use crate::file_keys::COLLECT;

/// A line and a column of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The location of each object of a file.
///
/// ```
/// use trueup_file::{File, TableNames};
/// use trueup_net::Kind;
///
/// let text = b"[[route]]\ndst = \"10.2.0.0/16\"\nvia = \"10.1.0.9\"\n";
/// let file = File::parse("edge.toml", text, &TableNames::default())?;
/// assert_eq!(file.locations.at(Kind::Route, 0).map(|at| at.line), Some(1));
/// assert_eq!(file.locations.at(Kind::Route, 1), None);
/// # Ok::<(), trueup_file::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locations {
    /// The locations of each section's elements.
    pub(crate) elements: BTreeMap<&'static str, Vec<Location>>,
    pub(crate) sysctls: BTreeMap<Key, Location>,
}

impl Locations {
    /// Returns an object's location, by its kind and its position in that kind's list. A route's
    /// position is in the order of the keys.
    pub fn at(&self, kind: Kind, index: usize) -> Option<Location> {
        self.element(kind.name(), index)
    }

    /// Returns the number of declared objects of a kind.
    pub fn count(&self, kind: Kind) -> usize {
        self.elements.get(kind.name()).map_or(0, Vec::len)
    }

    /// Returns the location of a `[[collect]]`, by its position in the file.
    pub fn of_collect(&self, index: usize) -> Option<Location> {
        self.element(COLLECT, index)
    }

    pub(crate) fn element(&self, section: &str, index: usize) -> Option<Location> {
        self.elements.get(section)?.get(index).copied()
    }

    /// Returns the location of a sysctl. `None` if it is not declared.
    pub fn of_sysctl(&self, key: &Key) -> Option<Location> {
        self.sysctls.get(key).copied()
    }
}

/// Turns byte positions in a text into locations. The positions must ascend.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    location: Location,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Cursor<'a> {
        let location = Location { line: 1, column: 1 };
        Cursor { text, at: 0, location }
    }

    pub(crate) fn location(&mut self, at: usize) -> Location {
        let end = at.clamp(self.at, self.text.len().max(self.at));
        for byte in &self.text[self.at..end] {
            match byte {
                b'\n' => {
                    self.location.line = self.location.line.saturating_add(1);
                    self.location.column = 1;
                }
                // The first byte of a character. The others are 10xxxxxx.
                byte if byte & 0xc0 != 0x80 => {
                    self.location.column = self.location.column.saturating_add(1);
                }
                _ => {}
            }
        }
        self.at = end;
        self.location
    }
}
