//! The key of a record in the ledger, and the source's knowledge of each kind: the name and the
//! location of its objects.
//!
//! The kernel reuses the index of a deleted interface. So the ledger stores each index with the
//! interface's name, and an index counts only if both are observed together. A deleted interface's
//! record never matches another writer's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trueup_net::{
    Action, Address, AddressKey, Dev, Family, IfName, Kind, Link, Neighbour, NeighbourKey, Nexthop,
    Object, ObjectKind, Observed, Owned, Route, RouteKey, Rule, kinds, with_object,
};

/// The location of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Link,
    /// An address or a neighbour on a device. `None` if a plan creates the device.
    Device(Option<IfName>),
    Rules(Family),
    Route(RouteKey),
    Nexthops,
}

/// Returns the observed interfaces' names, by index.
pub(crate) fn link_names(observed: &Observed) -> BTreeMap<u32, IfName> {
    observed.links.iter().map(|link| (link.index, link.name)).collect()
}

/// Returns the name of a device that has an index, from the observed interfaces.
pub(crate) fn name_of(dev: Dev, names: &BTreeMap<u32, IfName>) -> Option<IfName> {
    names.get(&dev.as_index()?).copied()
}

/// The source's knowledge of a kind, beside the diff's.
pub(crate) trait SourceKind: ObjectKind {
    /// The type of the ledger's key for an object.
    type RecordKey: Into<RecordKey>;
    /// True if the kernel must be probed, since not every one with the kind stores a protocol on
    /// it.
    const MARKER_IS_ASKED: bool;

    /// Returns the ledger's key for the object. `None` if its device's name is unknown.
    fn record_key(&self, name: &dyn Fn(Dev) -> Option<IfName>) -> Option<Self::RecordKey>;

    /// Returns the location of a key's object.
    fn location_of(key: &Self::RecordKey) -> Location;

    /// Returns the interface that the object is, or is on.
    fn interface_of(key: &Self::RecordKey) -> Option<(IfName, u32)> {
        let _ = key;
        None
    }

    /// Adds a key to our objects. `protocol` is the object's when it became ours.
    fn own(key: &Self::RecordKey, protocol: u8, owned: &mut Owned);

    /// Returns true if such a change of the object can delete along objects of other kinds,
    /// anywhere.
    fn takes_along(&self, action: Action) -> bool {
        let _ = action;
        false
    }
}

/// A link in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LinkRecordKey {
    pub(crate) name: IfName,
    pub(crate) index: u32,
}

/// The ledger's key for an object on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct OnInterface<K> {
    /// The interface's name. The key has its index.
    pub(crate) name: IfName,
    pub(crate) key: K,
}

macro_rules! record_key {
    ($({ $(#[$doc:meta])* $field:ident: $kind:ident { $($columns:tt)* } })*) => {
        /// The key of a record.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub(crate) enum RecordKey {
            $($kind(<trueup_net::$kind as SourceKind>::RecordKey),)*
        }

        impl RecordKey {
            /// Returns the key of an object on devices with these names.
            pub(crate) fn of(
                object: &Object,
                name: impl Fn(Dev) -> Option<IfName>,
            ) -> Option<RecordKey> {
                match object {
                    $(Object::$kind(object) => object.record_key(&name).map(RecordKey::$kind),)*
                    // `Object` is non-exhaustive: a kind without a key here has no record.
                    _ => None,
                }
            }

            /// Returns the object's kind.
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(RecordKey::$kind(_) => Kind::$kind,)*
                }
            }

            /// Returns the object's location.
            pub(crate) fn location(&self) -> Location {
                match self {
                    $(RecordKey::$kind(key) => trueup_net::$kind::location_of(key),)*
                }
            }

            /// Returns the interface that the object is, or is on.
            pub(crate) fn interface(&self) -> Option<(IfName, u32)> {
                match self {
                    $(RecordKey::$kind(key) => trueup_net::$kind::interface_of(key),)*
                }
            }

            /// Adds the key to our objects. `protocol` is the object's when it became ours.
            pub(crate) fn own(&self, protocol: u8, owned: &mut Owned) {
                match self {
                    $(RecordKey::$kind(key) => trueup_net::$kind::own(key, protocol, owned),)*
                }
            }
        }

        $(impl From<<trueup_net::$kind as SourceKind>::RecordKey> for RecordKey {
            fn from(key: <trueup_net::$kind as SourceKind>::RecordKey) -> RecordKey {
                RecordKey::$kind(key)
            }
        })*
    };
}

kinds!([record_key]);

/// Returns an object's location, on devices with these names. One without a name is to be created.
pub(crate) fn location(object: &Object, name: impl Fn(Dev) -> Option<IfName>) -> Location {
    with_object!(object, object: K => {
        object.record_key(&name).map_or(Location::Device(None), |key| K::location_of(&key))
    })
}

impl SourceKind for Link {
    type RecordKey = LinkRecordKey;
    const MARKER_IS_ASKED: bool = false;

    fn record_key(&self, _name: &dyn Fn(Dev) -> Option<IfName>) -> Option<LinkRecordKey> {
        let Link { name, index, .. } = *self;
        Some(LinkRecordKey { name, index })
    }

    fn location_of(_key: &LinkRecordKey) -> Location {
        Location::Link
    }

    fn interface_of(key: &LinkRecordKey) -> Option<(IfName, u32)> {
        Some((key.name, key.index))
    }

    fn own(key: &LinkRecordKey, _protocol: u8, owned: &mut Owned) {
        owned.links.insert(key.index);
    }

    fn takes_along(&self, _action: Action) -> bool {
        true
    }
}

impl SourceKind for Address {
    type RecordKey = OnInterface<AddressKey>;
    const MARKER_IS_ASKED: bool = true;

    fn record_key(&self, name: &dyn Fn(Dev) -> Option<IfName>) -> Option<OnInterface<AddressKey>> {
        let (name, key) = (name(self.dev)?, self.key());
        Some(OnInterface { name, key })
    }

    fn location_of(key: &OnInterface<AddressKey>) -> Location {
        Location::Device(Some(key.name))
    }

    fn interface_of(key: &OnInterface<AddressKey>) -> Option<(IfName, u32)> {
        Some((key.name, key.key.dev.as_index()?))
    }

    fn own(key: &OnInterface<AddressKey>, protocol: u8, owned: &mut Owned) {
        owned.addresses.insert(key.key, protocol);
    }

    /// In IPv6 each change affects the route that the kernel takes for the subnet's. In IPv4 only
    /// lifetimes and metric change in place.
    fn takes_along(&self, action: Action) -> bool {
        match action {
            Action::Create => false,
            Action::Update => self.family() == Family::Inet6,
            Action::Delete => true,
        }
    }
}

impl SourceKind for Neighbour {
    type RecordKey = OnInterface<NeighbourKey>;
    const MARKER_IS_ASKED: bool = true;

    fn record_key(
        &self,
        name: &dyn Fn(Dev) -> Option<IfName>,
    ) -> Option<OnInterface<NeighbourKey>> {
        let (name, key) = (name(self.dev)?, self.key());
        Some(OnInterface { name, key })
    }

    fn location_of(key: &OnInterface<NeighbourKey>) -> Location {
        Location::Device(Some(key.name))
    }

    fn interface_of(key: &OnInterface<NeighbourKey>) -> Option<(IfName, u32)> {
        Some((key.name, key.key.dev.as_index()?))
    }

    fn own(key: &OnInterface<NeighbourKey>, protocol: u8, owned: &mut Owned) {
        owned.neighbours.insert(key.key, protocol);
    }
}

impl SourceKind for Nexthop {
    type RecordKey = u32;
    const MARKER_IS_ASKED: bool = false;

    fn record_key(&self, _name: &dyn Fn(Dev) -> Option<IfName>) -> Option<u32> {
        Some(self.id)
    }

    fn location_of(_key: &u32) -> Location {
        Location::Nexthops
    }

    /// Only the marker proves it, never the ledger.
    fn own(_key: &u32, _protocol: u8, _owned: &mut Owned) {}

    /// The routes that point at it may be anywhere.
    fn takes_along(&self, action: Action) -> bool {
        action == Action::Delete
    }
}

impl SourceKind for Route {
    type RecordKey = RouteKey;
    const MARKER_IS_ASKED: bool = false;

    fn record_key(&self, _name: &dyn Fn(Dev) -> Option<IfName>) -> Option<RouteKey> {
        Some(self.key())
    }

    fn location_of(key: &RouteKey) -> Location {
        Location::Route(*key)
    }

    fn own(key: &RouteKey, protocol: u8, owned: &mut Owned) {
        owned.routes.insert(*key, protocol);
    }
}

impl SourceKind for Rule {
    type RecordKey = Box<Rule>;
    const MARKER_IS_ASKED: bool = true;

    fn record_key(&self, _name: &dyn Fn(Dev) -> Option<IfName>) -> Option<Box<Rule>> {
        Some(Box::new(self.key()))
    }

    fn location_of(key: &Box<Rule>) -> Location {
        Location::Rules(key.family)
    }

    fn own(key: &Box<Rule>, _protocol: u8, owned: &mut Owned) {
        owned.rules.insert((**key).clone());
    }
}
