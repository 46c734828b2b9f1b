//! The trait by which a kind of object says how it looks in a file.

use crate::element::Keyed;
use crate::fields::Fields;
use crate::value::{Result, Table};

/// One kind of object in the form of the file, in both directions.
pub(crate) trait FileObject: Keyed + Clone + PartialEq + 'static {
    /// The word for one object, with its article.
    const WITH_ARTICLE: &'static str;
    /// The keys, except `adopt`, which every object may have.
    const KEYS: &'static [&'static str];

    /// Reads an object.
    fn read(fields: &Fields<'_>) -> Result<Self>;

    /// Writes an object, as far as there are keys for it.
    fn write(&self, table: &mut Table<'static>);

    /// Returns the object without what only the kernel reports: marker, index, status.
    fn authored(&self) -> Self;
}
