//! What is declared.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::kinds::{Kind, Kinds, ObjectKind as _, OfKind, Registered};
use crate::routes::NexthopTable;
use crate::{each_kind, per_kind};

type DesiredOf<K> = <K as Registered>::Desired;

per_kind! {
    /// What is declared, by name. A kind that is `None` is unmanaged; an empty list means "none of
    /// ours".
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Desired[DesiredOf] {
        /// The objects but routes that become ours if they are there already as desired, each by its
        /// kind and its position in the list of that kind. Of routes: [`crate::Routes::adopt`].
        pub adopt: BTreeSet<(Kind, usize)>,
    }
}

/// How the kernel is told where routes lead. Whichever it is, the routes are the same; objects cost the kernel less, and one
/// of them is changed at once for all routes that point at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NexthopMode {
    /// The next hops are written out in each route.
    #[default]
    Inline,
    /// Routes point at nexthop objects (Linux 5.3), which are ours, where a gateway and a device are given for each of their
    /// next hops. All others are written out: straight out of a device, a device left open, an IPv6 source prefix, the same
    /// next hop twice, a weight of 256.
    ///
    /// The kernel deletes such an object, and with it the routes that point at it, as soon as its device goes down or loses
    /// its carrier, and makes none until it has one.
    Objects,
    /// The same, where the routes are a part of those for which it has been [found](crate::ResolvedDevices::assign) which objects there are
    /// to be.
    Assigned(Arc<NexthopTable>),
}

impl NexthopMode {
    /// The objects, where it has been found which there are to be.
    pub fn objects(&self) -> Option<&NexthopTable> {
        match self {
            NexthopMode::Assigned(objects) => Some(objects),
            NexthopMode::Inline | NexthopMode::Objects => None,
        }
    }
}

impl Desired {
    /// The kinds that are managed.
    pub fn managed(&self) -> Kinds {
        let mut stated = Kinds::NONE;
        each_kind!(K => if OfKind::<K>::of_kind(self).is_stated() {
            stated = stated.with(K::KIND);
        });
        let mut managed = Kinds::NONE;
        each_kind!(K => if stated.contains(K::MANAGED_WITH) {
            managed = managed.with(K::KIND);
        });
        managed
    }
}

/// What a [`Desired`] has of a kind.
trait Stated {
    /// Returns true if the kind is managed because of it.
    fn is_stated(&self) -> bool;
}

impl<T> Stated for Option<T> {
    fn is_stated(&self) -> bool {
        self.is_some()
    }
}

/// Nexthop objects are managed with routes, whatever the mode: what no route points at any more goes.
impl Stated for NexthopMode {
    fn is_stated(&self) -> bool {
        false
    }
}
