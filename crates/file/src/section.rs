//! A section of a file: a list of tables of one sort.

use trueup_diff::Desired;

use crate::error::Diagnostic;
use crate::file::File;
use crate::kinds::{self, Output};
use crate::location::{Cursor, Location};
use crate::tables::TableNames;
use crate::value::{Result, Value};
use crate::world;

/// How a section was opened, which says whether more may be added to it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Opened {
    /// As one list: `route = [ ... ]`.
    AsList,
    /// By a `[[header]]` for each element.
    ByHeaders,
}

/// Returns an empty section of each sort, in the order in which they are written.
pub(crate) fn all() -> Vec<Box<dyn Section>> {
    let mut sections = kinds::sections();
    sections.extend(world::sections());
    sections
}

/// A section of a file.
pub(crate) trait Section {
    /// Returns its name, as in `[[route]]`.
    fn name(&self) -> &'static str;

    /// Returns how the section was opened; `None` if it is not in the file.
    fn opened(&self) -> Option<Opened>;

    /// Opens the section.
    fn open(&mut self, how: Opened);

    /// Adds an element. Returns its `adopt`, if it is given.
    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>>;

    /// Finds the elements whose key an earlier one has. The kernel, say, would hold one of the two,
    /// by chance.
    fn duplicates(&self) -> Vec<Diagnostic>;

    /// Puts the elements into the file, with their locations.
    fn declare(self: Box<Self>, file: &mut File);

    /// Writes what `desired` has of this section, unless it is unmanaged.
    fn write(&self, _desired: &Desired, _out: &mut dyn Output) {}
}

/// An element that shares its key with no other of its section.
pub(crate) trait Keyed {
    /// What the user may change if two have the same key: "another name".
    const REMEDY: &'static str;
    /// What two elements of one file may not share.
    type Key: Ord;

    /// Returns the key.
    fn key(&self) -> Self::Key;

    /// Names the element by its sort and key, for messages.
    fn describe(&self) -> String;
}

/// Finds the elements whose key an earlier one has.
pub(crate) fn duplicates<T: Keyed>(elements: &[T], locations: &[Location]) -> Vec<Diagnostic> {
    let key = |position: &usize| elements[*position].key();
    let mut order: Vec<usize> = (0..elements.len()).collect();
    // Stable, so that of elements with one key the first in the file comes first.
    order.sort_by_key(key);
    let mut diagnostics = Vec::new();
    for same in order.chunk_by(|a, b| key(a) == key(b)) {
        let [first, others @ ..] = same else { continue };
        diagnostics.extend(others.iter().map(|other| Diagnostic {
            location: Some(locations[*other]),
            message: format!(
                "a second {}: the first is at {}; remove one, or give it {}",
                elements[*other].describe(),
                locations[*first],
                T::REMEDY,
            ),
        }));
    }
    diagnostics
}
