//! The lists of objects in a desired state: from the objects of a file, and back.

use std::collections::BTreeSet;

use trueup_net::Kind;

use super::object::FileObject;
use crate::location::Location;

/// The objects of one kind in the order of the file.
pub(crate) struct Declared<T> {
    pub(crate) objects: Vec<T>,
    /// The location of each.
    pub(crate) locations: Vec<Location>,
    /// The positions of those with `adopt = true`.
    pub(crate) adopted: BTreeSet<usize>,
}

impl<T> Default for Declared<T> {
    fn default() -> Declared<T> {
        Declared { objects: Vec::new(), locations: Vec::new(), adopted: BTreeSet::new() }
    }
}

/// The objects that a desired state adopts, by kind and position.
pub(crate) type Adopted = BTreeSet<(Kind, usize)>;

/// The list of one kind in a desired state.
pub(crate) trait DesiredList: Sized {
    /// The objects.
    type Object: FileObject;

    /// Makes the list. What to adopt is added to `adopted`, unless the list says so itself. Returns
    /// the locations in the order of the list as well.
    fn from_file(
        kind: Kind,
        declared: Declared<Self::Object>,
        adopted: &mut Adopted,
    ) -> (Self, Vec<Location>);

    /// Iterates over the objects, each with whether it is to be adopted.
    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (Self::Object, bool)>;
}

impl<T: FileObject> DesiredList for Vec<T> {
    type Object = T;

    fn from_file(
        kind: Kind,
        declared: Declared<T>,
        adopted: &mut Adopted,
    ) -> (Vec<T>, Vec<Location>) {
        let positions = declared.adopted.into_iter();
        adopted.extend(positions.map(|position| (kind, position)));
        (declared.objects, declared.locations)
    }

    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (T, bool)> {
        let is_adopted = move |position| adopted.contains(&(kind, position));
        let objects = self.iter().enumerate();
        objects.map(move |(position, object)| (object.clone(), is_adopted(position)))
    }
}
