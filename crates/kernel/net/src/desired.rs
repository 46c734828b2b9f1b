//! What is declared.

use std::collections::BTreeSet;

use crate::kinds::{Authored, Kind, Kinds, ObjectKind as _, OfKind, Registered, RouteKey};
use crate::routes::Routes;
use crate::values::IfName;
use crate::{each_kind, kinds, per_kind};

type DesiredOf<K> = <K as Registered>::Desired;

per_kind! {
    /// What is declared, by name. A kind that is `None` is unmanaged; an empty list means "none of
    /// ours".
    #[derive(Clone, Debug, Default, PartialEq)]
    #[non_exhaustive]
    pub struct Desired[DesiredOf] {
        /// The objects but routes that become ours if they are there already as desired, each by
        /// its kind and its position in the list of that kind. Of routes: [`crate::Routes::adopt`].
        pub adopt: BTreeSet<(Kind, usize)>,
    }
}

macro_rules! with_each_kind {
    ($({
        $(#[$doc:meta])*
        $field:ident: $kind:ident { with: $with:ident($declared:ty), $($columns:tt)* }
    })*) => {
        impl Desired {
            $(
                #[doc = concat!("Declares [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $with(mut self, $field: impl Into<$declared>) -> Desired {
                    let declared: $declared = $field.into();
                    self.$field = declared.into();
                    self
                }
            )*
        }
    };
}

kinds!([with_each_kind]);

impl Desired {
    /// Sets [`adopt`](#structfield.adopt).
    #[must_use]
    pub fn with_adopt(mut self, adopt: impl IntoIterator<Item = (Kind, usize)>) -> Desired {
        self.adopt = adopt.into_iter().collect();
        self
    }
}

/// How routes refer to their next hops in the kernel. The routes are the same in each mode. Nexthop
/// objects cost the kernel less, and a change of one changes all routes that point at it at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NexthopMode {
    /// The next hops are written out in each route.
    #[default]
    Inline,
    /// Routes point at nexthop objects (Linux 5.3), which are ours, if each of their next hops has
    /// a gateway and a device. Other routes have their next hops written out: those straight out of
    /// a device, with a device left open, with an IPv6 source prefix, with the same next hop twice,
    /// or with a weight of 256.
    ///
    /// The kernel deletes such an object, and with it the routes that point at it, as soon as its
    /// device goes down or loses its carrier, and makes none until the device has one.
    Objects,
}

impl Desired {
    /// Returns the names of all devices that are declared, or that objects refer to.
    pub fn device_names(&self) -> BTreeSet<IfName> {
        let mut names = BTreeSet::new();
        each_kind!(K => OfKind::<K>::of_kind(self).name_devices(&mut names));
        names
    }

    /// Returns true if a route is declared on a key.
    pub fn has_route(&self, key: &RouteKey) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.get(key).is_some())
    }

    /// The kinds that are managed.
    pub fn managed(&self) -> Kinds {
        let mut stated = Kinds::NONE;
        each_kind!(K => if OfKind::<K>::of_kind(self).count().is_some() {
            stated = stated.with(K::KIND);
        });
        let mut managed = Kinds::NONE;
        each_kind!(K => if stated.contains(K::MANAGED_WITH) {
            managed = managed.with(K::KIND);
        });
        managed
    }

    /// Returns how many objects of a kind are declared.
    pub fn count(&self, kind: Kind) -> usize {
        let mut count = None;
        each_kind!(K => if K::KIND == kind {
            count = OfKind::<K>::of_kind(self).count();
        });
        count.unwrap_or_default()
    }
}

/// What a [`Desired`] has of a kind.
trait Stated {
    /// Returns the number of objects, if the kind is managed because of it.
    fn count(&self) -> Option<usize>;

    /// Adds the names of the devices that are declared, or that objects refer to.
    fn name_devices(&self, names: &mut BTreeSet<IfName>);
}

impl<A: Authored> Stated for Option<Vec<A>> {
    fn count(&self) -> Option<usize> {
        self.as_ref().map(Vec::len)
    }

    fn name_devices(&self, names: &mut BTreeSet<IfName>) {
        names.extend(self.iter().flatten().flat_map(Authored::device_names));
    }
}

impl Stated for Option<Routes> {
    fn count(&self) -> Option<usize> {
        self.as_ref().map(Routes::len)
    }

    fn name_devices(&self, names: &mut BTreeSet<IfName>) {
        names.extend(self.iter().flat_map(Routes::device_names));
    }
}

/// Nexthop objects are managed with routes, whatever the mode: what no route points at any more
/// goes.
impl Stated for NexthopMode {
    fn count(&self) -> Option<usize> {
        None
    }

    fn name_devices(&self, _names: &mut BTreeSet<IfName>) {}
}
