//! The kinds of objects that a file declares: one file each, with all that the format says of the
//! kind. Which kinds there are, and how a desired state holds each, is said by the registry of
//! `trueup_net`.

mod address;
mod link;
mod neighbour;
mod objects;
mod route;
mod rule;

use trueup_net::{Desired, NexthopMode, ObjectKind, OfKind, each_kind};

pub(crate) use objects::FileObject;
use objects::{DesiredList, Objects};

use crate::section::Elements;

/// Returns the elements of a section for each kind, in the order in which they are written.
pub(crate) fn sections() -> Vec<Box<dyn Elements>> {
    let mut sections = Vec::new();
    each_kind!(K => sections.extend(<<Desired as OfKind<K>>::Cell as InFile<K>>::section()));
    sections
}

/// How a file declares what a desired state has of the kind `K`.
trait InFile<K> {
    /// Returns the elements of the section of the kind, if it has one.
    fn section() -> Option<Box<dyn Elements>>;
}

impl<K: ObjectKind + 'static, L: DesiredList + 'static> InFile<K> for Option<L>
where
    Desired: OfKind<K, Cell = Option<L>>,
{
    fn section() -> Option<Box<dyn Elements>> {
        Some(Box::new(Objects::<K, L>::default()))
    }
}

/// A key at the top of the file.
impl<K> InFile<K> for NexthopMode {
    fn section() -> Option<Box<dyn Elements>> {
        None
    }
}
