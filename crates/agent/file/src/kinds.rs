//! The kinds of objects that a file declares. Each kind has one file with its whole format. The
//! registry of `trueup_net` defines the kinds and their place in a desired state.

mod address;
mod link;
mod neighbour;
mod route;
mod rule;

use std::collections::BTreeSet;

use trueup_net::{Desired, Kind, NexthopMode, ObjectKind, OfKind, each_kind};

use crate::element::{ADOPT, Declared, FileObject, Written, write};
use crate::location::Location;
use crate::section::Section;
use crate::tables::TableNames;

/// Returns an empty section for each kind, in the order in which they are written.
pub(crate) fn sections() -> Vec<Section> {
    let mut sections = Vec::new();
    each_kind!(K => sections.extend(<<Desired as OfKind<K>>::Cell as InFile<K>>::section()));
    sections
}

/// Returns the objects of each managed kind, as a file declares them.
pub(crate) fn written(desired: &Desired) -> Vec<(Kind, WrittenObjects<'_>)> {
    let mut written = Vec::new();
    each_kind!(K => {
        let objects = <<Desired as OfKind<K>>::Cell as InFile<K>>::written(desired);
        written.extend(objects.map(|objects| (K::KIND, objects)));
    });
    written
}

type WrittenObjects<'d> = Box<dyn Iterator<Item = Written> + 'd>;

/// The form of kind `K` in a file.
trait InFile<K> {
    /// Returns the kind's section. `None` if it has none.
    fn section() -> Option<Section>;

    /// Returns the elements of the section. `None` if the kind is unmanaged.
    fn written(desired: &Desired) -> Option<WrittenObjects<'_>>;
}

impl<K: ObjectKind, L: DesiredList + 'static> InFile<K> for Option<L>
where
    Desired: OfKind<K, Cell = Option<L>>,
{
    fn section() -> Option<Section> {
        Some(Section::new(K::NAME, &[ADOPT], |declared: Declared<L::Object>, file| {
            let (list, locations) = L::from_file(K::KIND, declared, &mut file.desired.adopt);
            *OfKind::<K>::of_kind_mut(&mut file.desired) = Some(list);
            locations
        }))
    }

    fn written(desired: &Desired) -> Option<WrittenObjects<'_>> {
        let tables = TableNames::default();
        let objects = OfKind::<K>::of_kind(desired).as_ref()?.objects(K::KIND, &desired.adopt);
        Some(Box::new(
            objects.map(move |(object, adopt)| write(&object.authored(), adopt, &tables)),
        ))
    }
}

/// A key at the top of the file.
impl<K> InFile<K> for NexthopMode {
    fn section() -> Option<Section> {
        None
    }

    fn written(_: &Desired) -> Option<WrittenObjects<'_>> {
        None
    }
}

/// The adopted objects of a desired state, by kind and position.
type Adopted = BTreeSet<(Kind, usize)>;

/// The list of one kind in a desired state.
trait DesiredList: Sized {
    /// The type of the list's objects.
    type Object: FileObject;

    /// Makes the list, and returns the locations in the list's order. Adds the objects to adopt to
    /// `adopted`, unless the list itself records them.
    fn from_file(
        kind: Kind,
        declared: Declared<Self::Object>,
        adopted: &mut Adopted,
    ) -> (Self, Vec<Location>);

    /// Iterates over the objects. The boolean is true if the object is to be adopted.
    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (Self::Object, bool)>;
}

impl<T: FileObject> DesiredList for Vec<T> {
    type Object = T;

    fn from_file(
        kind: Kind,
        declared: Declared<T>,
        adopted: &mut Adopted,
    ) -> (Vec<T>, Vec<Location>) {
        adopted.extend(declared.adopted.into_iter().map(|position| (kind, position)));
        (declared.elements, declared.locations)
    }

    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (T, bool)> {
        self.iter()
            .enumerate()
            .map(move |(position, object)| (object.clone(), adopted.contains(&(kind, position))))
    }
}
