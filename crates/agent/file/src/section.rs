//! A section of a file: a list of tables of one sort. How it was opened is the same for every
//! section; the elements are of one sort or another.

use trueup_net::{Desired, Kind};

use crate::element::{Element, duplicates};
use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::file::File;
use crate::file_keys;
use crate::location::{Cursor, Location};
use crate::tables::TableNames;
use crate::value::{Fault, Result, Table, Value};

/// How a section was opened, which says whether more may be added to it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Opened {
    /// As one list: `route = [ ... ]`.
    AsList,
    /// By a `[[header]]` for each element.
    ByHeaders,
}

/// A section of a file.
pub(crate) struct Section {
    /// How it was opened, and the byte at which it was first; `None` if it is not in the file.
    opened: Option<(Opened, usize)>,
    pub(crate) elements: Box<dyn Elements>,
}

impl Section {
    /// Makes the section of these elements, which is not in the file yet.
    pub(crate) fn new(elements: Box<dyn Elements>) -> Section {
        Section { opened: None, elements }
    }

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

/// The elements of a section that are no objects of the kernel.
pub(crate) struct List<T> {
    /// The place of the elements in a file.
    place: fn(&mut File) -> &mut Option<Vec<T>>,
    elements: Vec<T>,
    locations: Vec<Location>,
}

impl<T> List<T> {
    /// Makes an empty list, for a place in a file.
    pub(crate) fn at(place: fn(&mut File) -> &mut Option<Vec<T>>) -> List<T> {
        List { place, elements: Vec::new(), locations: Vec::new() }
    }
}

impl<T: Element> Elements for List<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn needs(&self) -> Option<&'static str> {
        T::NEEDS
    }

    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        let table = value.table(T::WITH_ARTICLE)?;
        let fields = Fields::new(T::WITH_ARTICLE, value.at, table, &[T::KEYS], tables)?;
        self.elements.push(T::read(&fields)?);
        self.locations.push(cursor.location(value.at));
        Ok(None)
    }

    fn duplicates(&self) -> Vec<Diagnostic> {
        duplicates(&self.elements, &self.locations)
    }

    fn declare(self: Box<Self>, file: &mut File) {
        *(self.place)(file) = Some(self.elements);
        file.locations.elements.insert(T::NAME, self.locations);
    }
}

/// A writer of sections: TOML or JSON.
pub(crate) trait Output {
    /// Takes the objects of a section.
    fn section(&mut self, kind: Kind, objects: &mut dyn Iterator<Item = Written>);
}

/// The keys of an object, or why a file cannot declare it.
pub(crate) type Written = std::result::Result<Table<'static>, Unwritable>;

/// An object that a file cannot declare.
pub(crate) struct Unwritable {
    /// The object, by its kind and key.
    pub(crate) object: String,
    /// The reason.
    pub(crate) why: String,
}
