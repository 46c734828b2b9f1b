//! The kinds of objects that a file declares. Each kind has one file with its whole format. The
//! registry of `trueup_net` defines the kinds and their place in a desired state.

mod address;
mod link;
mod neighbour;
mod route;
mod rule;

use trueup_net::{Collection, Desired, Keyed, Kind, NexthopMode, ObjectKind, OfKind, each_kind};

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
            let (list, locations) = L::from_file(declared);
            *OfKind::<K>::of_kind_mut(&mut file.desired) = Some(list);
            locations
        }))
    }

    fn written(desired: &Desired) -> Option<WrittenObjects<'_>> {
        let tables = TableNames::default();
        let objects = OfKind::<K>::of_kind(desired).as_ref()?.objects();
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

/// The objects of one kind in a desired state, in key order.
trait DesiredList: Sized {
    /// The type of the objects.
    type Object: FileObject;

    /// Makes the list. Returns the objects' locations in key order.
    fn from_file(declared: Declared<Self::Object>) -> (Self, Vec<Location>);

    /// Iterates over the objects. The boolean is true if the object is to be adopted.
    fn objects(&self) -> impl Iterator<Item = (Self::Object, bool)>;
}

/// Takes the declared objects apart: the objects, their locations in key order, and the keys of
/// those to adopt.
fn by_key<T, K: Ord>(
    declared: Declared<T>,
    key: impl Fn(&T) -> K,
) -> (Vec<T>, Vec<Location>, Vec<K>) {
    let Declared { elements, locations, adopted: positions } = declared;
    let adopted = positions.iter().map(|position| key(&elements[*position])).collect();
    let mut order: Vec<usize> = (0..elements.len()).collect();
    order.sort_by_cached_key(|position| key(&elements[*position]));
    let locations = order.iter().map(|position| locations[*position]).collect();
    (elements, locations, adopted)
}

impl<T: FileObject + Keyed> DesiredList for Collection<T> {
    type Object = T;

    fn from_file(declared: Declared<T>) -> (Collection<T>, Vec<Location>) {
        let (elements, locations, adopted) = by_key(declared, Keyed::canonical_key);
        (Collection::from(elements).with_adopted(adopted), locations)
    }

    fn objects(&self) -> impl Iterator<Item = (T, bool)> {
        self.iter().map(|object| {
            let is_adopted = self.adopted().contains(&object.canonical_key());
            (object.clone(), is_adopted)
        })
    }
}
