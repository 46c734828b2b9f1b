//! A section whose elements are no objects of the kernel.

use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::file::File;
use crate::location::{Cursor, Location};
use crate::section::{Elements, Keyed, duplicates};
use crate::tables::TableNames;
use crate::value::{Result, Value};

/// An element of such a section.
pub(crate) trait Element: Keyed + 'static {
    /// The name of the section.
    const NAME: &'static str;
    /// The word for one element, with its article.
    const WITH_ARTICLE: &'static str;
    /// The table at the top of the file that the section needs, if any.
    const NEEDS: Option<&'static str> = None;
    /// The keys.
    const KEYS: &'static [&'static str];

    /// Reads an element.
    fn read(fields: &Fields<'_>) -> Result<Self>
    where
        Self: Sized;

    /// Returns the place of the elements in a file.
    fn list(file: &mut File) -> &mut Option<Vec<Self>>
    where
        Self: Sized;
}

/// The elements of such a section.
pub(crate) struct List<T> {
    elements: Vec<T>,
    locations: Vec<Location>,
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List { elements: Vec::new(), locations: Vec::new() }
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
        *T::list(file) = Some(self.elements);
        file.locations.elements.insert(T::NAME, self.locations);
    }
}
