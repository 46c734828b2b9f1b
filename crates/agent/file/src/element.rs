//! An element of a section: a table of the file, read into its type. If it is an object of the
//! kernel, it can be written back.

use std::collections::BTreeSet;

use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::location::Location;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Fault, Result, Table, Value};

/// An element of a section, with a key that is unique in the file.
pub(crate) trait Element: Sized {
    /// The word for one element, with its article.
    const WITH_ARTICLE: &'static str;
    /// The names of the keys that the table may have.
    const KEYS: &'static [&'static str];
    /// The change that makes one of two elements with the same key valid.
    const REMEDY: &'static str = "another name";
    /// The part that must differ between two elements of one file.
    type Key: Ord;

    /// Reads an element. Fails at the first wrong key or value.
    fn read(fields: &Fields<'_>) -> Result<Self>;

    /// Returns the element's unique key.
    fn key(&self) -> Self::Key;

    /// Returns the element's sort and key in words, for messages.
    fn describe(&self) -> String;
}

/// An element that is an object of the kernel. Its keys are [`KEYS`](Element::KEYS) and `adopt`.
pub(crate) trait FileObject: Element + Clone + PartialEq + 'static {
    /// Writes the object's properties that have keys.
    fn write(&self, table: &mut Table<'static>);

    /// Returns the object without properties that only the kernel reports: marker, index, status.
    fn authored(&self) -> Self;
}

/// The key that makes an existing object ours, for every kind.
pub(crate) const ADOPT: &str = "adopt";

/// The elements of a section, in the order of the file.
pub(crate) struct Declared<T> {
    pub(crate) elements: Vec<T>,
    /// The location of each element.
    pub(crate) locations: Vec<Location>,
    /// The positions of the elements with `adopt = true`.
    pub(crate) adopted: BTreeSet<usize>,
}

impl<T: Element> Declared<T> {
    /// Adds an element, which may have the keys `more` beside its own. Returns its `adopt`, if
    /// given.
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

    /// Finds elements with the same key as an earlier one. The kernel, for example, would hold one
    /// of the two by chance.
    pub(crate) fn duplicates(&self) -> Vec<Diagnostic> {
        let mut order: Vec<usize> = (0..self.elements.len()).collect();
        // Stable, so that the first element in the file comes first among those with one key.
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

/// An object's keys. The error has its kind and key, and why a file cannot declare it.
pub(crate) type Written = std::result::Result<Table<'static>, String>;

/// Writes an object. Fails if reading it back would not give the same.
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
