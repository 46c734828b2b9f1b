//! A section of a file: a list of tables of one sort. How it was opened is the same for every
//! section; the elements are of one sort or another.

use trueup_net::Desired;

use crate::error::Diagnostic;
use crate::file::File;
use crate::file_keys;
use crate::graph;
use crate::kinds::{self, Output};
use crate::location::{Cursor, Location};
use crate::tables::TableNames;
use crate::value::{Fault, Result, Value};
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
pub(crate) fn all() -> Vec<Section> {
    let mut elements = kinds::sections();
    elements.extend(world::sections());
    elements.extend(graph::sections());
    let sections = elements.into_iter().map(|elements| Section { opened: None, elements });
    sections.collect()
}

/// A section of a file.
pub(crate) struct Section {
    /// How it was opened, and the byte at which it was first; `None` if it is not in the file.
    opened: Option<(Opened, usize)>,
    pub(crate) elements: Box<dyn Elements>,
}

impl Section {
    /// Returns how the section was opened; `None` if it is not in the file.
    pub(crate) fn opened(&self) -> Option<Opened> {
        self.opened.map(|(how, _)| how)
    }

    /// Opens the section at a byte of the file, or goes on with it.
    pub(crate) fn open(&mut self, how: Opened, at: usize) {
        self.opened.get_or_insert((how, at));
    }

    /// Returns the fault if the section is in the file, and the table that it needs is not among
    /// `given`.
    pub(crate) fn missing(&self, given: &[&str]) -> Option<Fault> {
        let (_, at) = self.opened?;
        let table = self.elements.needs().filter(|it| !given.contains(it))?;
        let (_, example) = file_keys::find(table)?;
        let message = format!("`{}` needs `{table}`: write {example}", self.elements.name());
        Some(Fault { at, message })
    }

    /// Puts the elements into the file, if the section was opened.
    pub(crate) fn declare(self, file: &mut File) {
        if self.opened.is_some() {
            self.elements.declare(file);
        }
    }
}

/// The elements of a section.
pub(crate) trait Elements {
    /// Returns the name of the section, as in `[[route]]`.
    fn name(&self) -> &'static str;

    /// Returns the table at the top of the file that the section needs, if any.
    fn needs(&self) -> Option<&'static str> {
        None
    }

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
