//! The kinds of objects that a file declares: one file each, with all that the format says of the
//! kind. Which kinds there are, and how a desired state holds each, is said by the registry of
//! `trueup_net`.

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

/// Returns the objects of each kind that is managed, as a file declares them.
pub(crate) fn written(desired: &Desired) -> Vec<(Kind, WrittenObjects<'_>)> {
    let mut written = Vec::new();
    each_kind!(K => {
        let objects = <<Desired as OfKind<K>>::Cell as InFile<K>>::written(desired);
        written.extend(objects.map(|objects| (K::KIND, objects)));
    });
    written
}

type WrittenObjects<'d> = Box<dyn Iterator<Item = Written> + 'd>;

/// How a file declares what a desired state has of the kind `K`.
trait InFile<K> {
    /// Returns the section of the kind, if it has one.
    fn section() -> Option<Section>;

    /// Returns the elements of the section, if the kind is managed.
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

/// The objects that a desired state adopts, by kind and position.
type Adopted = BTreeSet<(Kind, usize)>;

/// The list of one kind in a desired state.
trait DesiredList: Sized {
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
        adopted.extend(declared.adopted.into_iter().map(|position| (kind, position)));
        (declared.elements, declared.locations)
    }

    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (T, bool)> {
        self.iter()
            .enumerate()
            .map(move |(position, object)| (object.clone(), adopted.contains(&(kind, position))))
    }
}
