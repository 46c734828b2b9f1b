//! The key of a record in the ledger, and what the source knows of each kind: how the ledger names
//! its objects, and where they are.
//!
//! The kernel uses the index of an interface again once that is gone. So every index is kept with
//! the name that the interface had, and counts only while both are observed together: a record of
//! an interface that is gone never matches another writer's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trueup_net::{
    Action, Address, AddressKey, Dev, Family, IfName, Kind, Link, Neighbour, NeighbourKey, Nexthop,
    Object, ObjectKind, Observed, Owned, Route, RouteKey, Rule, kinds, with_object,
};

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Link,
    /// An address or a neighbour on a device. Without a name: on a device that a plan creates.
    Device(Option<IfName>),
    Rules(Family),
    Route(RouteKey),
    Nexthops,
}

/// Returns the names of the observed interfaces, by index.
pub(crate) fn link_names(observed: &Observed) -> BTreeMap<u32, IfName> {
    observed.links.iter().map(|link| (link.index, link.name)).collect()
}

/// Returns the name of a device that has an index, by the names of the observed interfaces.
pub(crate) fn name_of(dev: Dev, names: &BTreeMap<u32, IfName>) -> Option<IfName> {
    names.get(&dev.as_index()?).copied()
}

/// What the source knows of a kind beside what the diff does.
pub(crate) trait SourceKind: ObjectKind {
    /// How the ledger names an object.
    type RecordKey: Into<RecordKey>;
    /// Not every kernel that has the kind stores a protocol on its objects, so that it is asked.
    const MARKER_IS_ASKED: bool;

    /// The name of the object in the ledger. `None` if the name of its device is not known.
    fn record_key(&self, name: &dyn Fn(Dev) -> Option<IfName>) -> Option<Self::RecordKey>;

    /// Where the object of a key is.
    fn location_of(key: &Self::RecordKey) -> Location;

    /// The interface that it is, or is on.
    fn interface_of(key: &Self::RecordKey) -> Option<(IfName, u32)> {
        let _ = key;
        None
    }

    /// Adds a key to what is ours. The object bore `protocol` when it became ours.
    fn own(key: &Self::RecordKey, protocol: u8, owned: &mut Owned);

    /// Returns true if such a change can take objects of other kinds along, wherever they are.
    fn takes_along(action: Action) -> bool {
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

/// An object on an interface in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct OnInterface<K> {
    /// The name of the interface; the key has its index.
    pub(crate) name: IfName,
    pub(crate) key: K,
}

macro_rules! record_key {
    ($({ $(#[$doc:meta])* $field:ident: $kind:ident { $($columns:tt)* } })*) => {
        /// What a record is about.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub(crate) enum RecordKey {
            $($kind(<trueup_net::$kind as SourceKind>::RecordKey),)*
        }

        impl RecordKey {
            /// The key of an object on devices of these names.
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

            /// The kind of the object.
            pub(crate) fn kind(&self) -> Kind {
                match self {
                    $(RecordKey::$kind(_) => Kind::$kind,)*
                }
            }

            /// Where the object is.
            pub(crate) fn location(&self) -> Location {
                match self {
                    $(RecordKey::$kind(key) => trueup_net::$kind::location_of(key),)*
                }
            }

            /// The interface that it is, or is on.
            pub(crate) fn interface(&self) -> Option<(IfName, u32)> {
                match self {
                    $(RecordKey::$kind(key) => trueup_net::$kind::interface_of(key),)*
                }
            }

            /// Adds the key to what is ours. The object bore `protocol` when it became ours.
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

/// Where an object is, on devices of these names. One without a name is to be created.
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

    fn takes_along(_action: Action) -> bool {
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

    fn takes_along(action: Action) -> bool {
        action != Action::Create
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

    /// The marker proves it, never the ledger.
    fn own(_key: &u32, _protocol: u8, _owned: &mut Owned) {}

    /// The routes that point at it may be anywhere.
    fn takes_along(action: Action) -> bool {
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
