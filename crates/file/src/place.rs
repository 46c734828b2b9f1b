//! Places in a file, and the place of each object.

use std::collections::BTreeMap;
use std::fmt;

use trueup_diff::Kind;
use trueup_sysctl::Key;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The place of each object of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub(crate) objects: BTreeMap<Kind, Vec<Place>>,
    pub(crate) sysctls: BTreeMap<Key, Place>,
}

impl Places {
    /// Returns the place of an object, by its kind and its position in the list of that kind; a
    /// route by its position in the order of their keys.
    pub fn at(&self, kind: Kind, index: usize) -> Option<Place> {
        self.objects.get(&kind)?.get(index).copied()
    }

    /// Returns the place of a sysctl.
    pub fn of_sysctl(&self, key: &Key) -> Option<Place> {
        self.sysctls.get(key).copied()
    }
}

/// Turns positions in a text into places. The positions must ascend.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    place: Place,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Cursor<'a> {
        let place = Place { line: 1, column: 1 };
        Cursor { text, at: 0, place }
    }

    pub(crate) fn place(&mut self, at: usize) -> Place {
        let at = at.clamp(self.at, self.text.len().max(self.at));
        for byte in &self.text[self.at..at] {
            match byte {
                b'\n' => {
                    self.place.line = self.place.line.saturating_add(1);
                    self.place.column = 1;
                }
                // The first byte of a character; the others are 10xxxxxx.
                byte if byte & 0xc0 != 0x80 => {
                    self.place.column = self.place.column.saturating_add(1);
                }
                _ => {}
            }
        }
        self.at = at;
        self.place
    }
}
