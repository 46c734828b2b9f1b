//! The declared state.

use std::collections::BTreeSet;

use crate::collection::Collection;
use crate::kinds::{Authored, Kind, Kinds, ObjectKind as _, OfKind, Registered, RouteKey};
use crate::routes::Routes;
use crate::values::IfName;
use crate::{each_kind, kinds, per_kind};

type DesiredOf<K> = <K as Registered>::Desired;

per_kind! {
    /// The declared objects, with devices by name. A kind that is `None` is unmanaged. An empty
    /// collection means "none of ours".
    ///
    /// ```
    /// use trueup_net::{Desired, IfName, NextHops, Route, RouteType, Routes};
    ///
    /// let route: Route<IfName> =
    ///     Route::new("10.2.0.0/16".parse()?, NextHops::None).with_kind(RouteType::Blackhole);
    /// let desired = Desired::default().with_routes(Routes::from_iter([route]));
    /// assert_eq!(desired.routes.map(|routes| routes.len()), Some(1));
    /// assert!(desired.links.is_none()); // not managed
    /// # Ok::<(), trueup_net::ParseError>(())
    /// ```
    #[derive(Clone, Debug, Default, PartialEq)]
    #[non_exhaustive]
    pub struct Desired[DesiredOf] {
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

/// How routes refer to their next hops in the kernel. The routes are the same in both modes.
/// Nexthop objects cost the kernel less, and changing one changes all routes that point at it at
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NexthopMode {
    /// Each route contains its next hops.
    #[default]
    Inline,
    /// Routes point at nexthop objects (Linux 5.3) of ours if each of their next hops has a gateway
    /// and a device. Other routes contain their next hops: routes straight out of a device, with a
    /// device left open, with an IPv6 source prefix, with the same next hop twice, or with a weight
    /// of 256.
    ///
    /// When its device goes down or loses its carrier, the kernel deletes such an object with the
    /// routes that point at it. It refuses a new one until the device has a carrier again.
    Objects,
}

impl Desired {
    /// Returns the names of all devices declared or referred to by objects.
    pub fn device_names(&self) -> BTreeSet<IfName> {
        let mut names = BTreeSet::new();
        each_kind!(K => OfKind::<K>::of_kind(self).name_devices(&mut names));
        names
    }

    /// Returns true if a route with this key is declared.
    pub fn has_route(&self, key: &RouteKey) -> bool {
        self.routes.as_ref().is_some_and(|routes| routes.get(key).is_some())
    }

    /// Returns the kinds that a pass may change: those with a list, even an empty one. Nexthop
    /// objects are managed with routes.
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

    /// Returns the number of declared objects of a kind, or 0 if it is unmanaged.
    pub fn count(&self, kind: Kind) -> usize {
        let mut count = None;
        each_kind!(K => if K::KIND == kind {
            count = OfKind::<K>::of_kind(self).count();
        });
        count.unwrap_or_default()
    }
}

/// One kind's field of [`Desired`].
trait Stated {
    /// Returns the number of objects, or `None` if this field does not make the kind managed.
    fn count(&self) -> Option<usize>;

    /// Adds the names of the devices declared or referred to by objects.
    fn name_devices(&self, names: &mut BTreeSet<IfName>);
}

impl<A: Authored> Stated for Option<Collection<A>> {
    fn count(&self) -> Option<usize> {
        self.as_ref().map(Collection::len)
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

/// Nexthop objects are managed with routes in either mode, so that unused ones are deleted.
impl Stated for NexthopMode {
    fn count(&self) -> Option<usize> {
        None
    }

    fn name_devices(&self, _names: &mut BTreeSet<IfName>) {}
}
