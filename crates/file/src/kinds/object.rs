//! What the format says of a kind of object: a trait that each kind implements in its own file.

use std::collections::BTreeSet;

use trueup_diff::{Desired, Kind};

use crate::fields::Fields;
use crate::place::Place;
use crate::value::{Result, Table};

/// One kind of object in the form of the file, in both directions.
pub(crate) trait FileObject: Clone + PartialEq + 'static {
    /// The kind; its name is that of the section.
    const KIND: Kind;
    /// The word for one object, with its article.
    const WITH_ARTICLE: &'static str;
    /// Every key.
    const KEYS: &'static [&'static str];
    /// What the user may change if two objects have the same key: "another name".
    const REMEDY: &'static str;
    /// What two objects of one file may not share.
    type Key: Ord;

    /// Reads an object.
    fn read(fields: &Fields<'_>) -> Result<Self>;

    /// Writes an object, as far as there are keys for it.
    fn write(&self, table: &mut Table<'static>);

    /// Returns the object without what only the kernel reports: marker, index, status.
    fn authored(&self) -> Self;

    /// Returns the key.
    fn key(&self) -> Self::Key;

    /// Names the object by its kind and key, for messages.
    fn describe(&self) -> String;

    /// Puts the objects of a file into a desired state. Returns their places in the order that they
    /// have there.
    fn declare(declared: Declared<Self>, desired: &mut Desired) -> Vec<Place>;

    /// Returns the objects of a desired state, and whether each is to be adopted; `None` if the kind
    /// is unmanaged.
    fn declared(desired: &Desired) -> Option<impl Iterator<Item = (Self, bool)>>;
}

/// The objects of one kind in the order of the file.
pub(crate) struct Declared<T> {
    pub(crate) objects: Vec<T>,
    /// The place of each.
    pub(crate) places: Vec<Place>,
    /// The positions of those with `adopt = true`.
    pub(crate) adopted: BTreeSet<usize>,
}

impl<T> Default for Declared<T> {
    fn default() -> Declared<T> {
        Declared {
            objects: Vec::new(),
            places: Vec::new(),
            adopted: BTreeSet::new(),
        }
    }
}

/// The objects to adopt, by kind and position, of the kinds that a desired state keeps as lists.
type Adopt = BTreeSet<(Kind, usize)>;

impl<T: FileObject> Declared<T> {
    /// Puts the objects into a list of a desired state, and returns their places.
    pub(crate) fn into_list(self, list: &mut Option<Vec<T>>, adopt: &mut Adopt) -> Vec<Place> {
        adopt.extend(self.adopted.into_iter().map(|position| (T::KIND, position)));
        *list = Some(self.objects);
        self.places
    }
}

/// Returns the objects of a list of a desired state, and whether each is to be adopted.
pub(crate) fn from_list<T: FileObject>(
    list: &Option<Vec<T>>,
    adopt: &Adopt,
) -> Option<impl Iterator<Item = (T, bool)>> {
    let objects = list.as_ref()?.iter().enumerate();
    Some(objects.map(|(position, object)| (object.clone(), adopt.contains(&(T::KIND, position)))))
}
