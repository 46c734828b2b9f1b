//! An element of a section: a table of the file, read into its type and, if it is an object of the
//! kernel, written back.

use std::collections::BTreeSet;

use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::location::Location;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Fault, Result, Table, Value};

/// An element of a section, which shares its key with no other.
pub(crate) trait Element: Sized {
    /// The word for one element, with its article.
    const WITH_ARTICLE: &'static str;
    /// The keys.
    const KEYS: &'static [&'static str];
    /// What the user may change if two have the same key.
    const REMEDY: &'static str = "another name";
    /// What two elements of one file may not share.
    type Key: Ord;

    /// Reads an element.
    fn read(fields: &Fields<'_>) -> Result<Self>;

    /// Returns the key.
    fn key(&self) -> Self::Key;

    /// Names the element by its sort and key, for messages.
    fn describe(&self) -> String;
}

/// An element that is an object of the kernel. Its keys are [`KEYS`](Element::KEYS) and `adopt`.
pub(crate) trait FileObject: Element + Clone + PartialEq + 'static {
    /// Writes the object, as far as there are keys for it.
    fn write(&self, table: &mut Table<'static>);

    /// Returns the object without what only the kernel reports: marker, index, status.
    fn authored(&self) -> Self;
}

/// The key of every object by which it becomes ours.
pub(crate) const ADOPT: &str = "adopt";

/// The elements of a section in the order of the file.
pub(crate) struct Declared<T> {
    pub(crate) elements: Vec<T>,
    /// The location of each.
    pub(crate) locations: Vec<Location>,
    /// The positions of those with `adopt = true`.
    pub(crate) adopted: BTreeSet<usize>,
}

impl<T: Element> Declared<T> {
    /// Adds an element, which may have these keys beside its own. Returns its `adopt`, if given.
    pub(crate) fn read(
        &mut self,
        value: &Value<'_>,
        more: &[&str],
        tables: &TableNames,
        location: impl FnOnce() -> Location,
    ) -> Result<Option<bool>> {
        let table = value.table(T::WITH_ARTICLE)?;
        let fields = Fields::new(T::WITH_ARTICLE, value.at, table, &[T::KEYS, more], tables)?;
        let element = T::read(&fields)?;
        let adopt = fields.read(ADOPT, parse::flag)?;
        if adopt == Some(true) {
            self.adopted.insert(self.elements.len());
        }
        self.elements.push(element);
        self.locations.push(location());
        Ok(adopt)
    }

    /// Finds the elements whose key an earlier one has. The kernel, say, would hold one of the two,
    /// by chance.
    pub(crate) fn duplicates(&self) -> Vec<Diagnostic> {
        let mut order: Vec<usize> = (0..self.elements.len()).collect();
        // Stable, so that of elements with one key the first in the file comes first.
        order.sort_by_key(|position| self.elements[*position].key());
        let mut diagnostics = Vec::new();
        for same in order.chunk_by(|a, b| self.elements[*a].key() == self.elements[*b].key()) {
            let [first, others @ ..] = same else { continue };
            diagnostics.extend(others.iter().map(|other| Diagnostic {
                location: Some(self.locations[*other]),
                message: format!(
                    "a second {}: the first is at {}; remove one, or give it {}",
                    self.elements[*other].describe(),
                    self.locations[*first],
                    T::REMEDY,
                ),
            }));
        }
        diagnostics
    }
}

/// The keys of an object; or its kind and key, and why a file cannot declare it.
pub(crate) type Written = std::result::Result<Table<'static>, String>;

/// Writes an object, if reading it back gives the same.
pub(crate) fn write<T: FileObject>(object: &T, adopt: bool, tables: &TableNames) -> Written {
    let mut table = Table::default();
    object.write(&mut table);
    table.set_true(ADOPT, adopt);
    let fields = Fields::new(T::WITH_ARTICLE, 0, &table, &[T::KEYS, &[ADOPT]], tables);
    let why = match fields.and_then(|fields| T::read(&fields)) {
        Ok(back) if back == *object => return Ok(table),
        Ok(_) => "it has attributes that a file has no keys for".to_owned(),
        Err(Fault { message, .. }) => format!("a file cannot say it: {message}"),
    };
    Err(format!("{}: {why}", object.describe()))
}
