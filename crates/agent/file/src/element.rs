//! The elements of a section: their keys, and how those are read that are no objects of the kernel.

use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::location::Location;
use crate::value::Result;

/// An element of a section that has no objects of the kernel.
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
