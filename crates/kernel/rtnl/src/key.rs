//! The keys by which a driver names the objects of a desired state, from the values that their
//! author has.

use trueup_net::{AddressKey, Dev, IfName, Item as _, NeighbourKey, ObjectKey, RouteKey, Rule};
use trueup_reconcile::OpKey;

use crate::Options;
use crate::object_id::digest;

/// The key of a link.
pub fn link(name: IfName) -> OpKey {
    of(ObjectKey::Link(name), None)
}

/// The key of an address: see `Address::canonical_key`.
pub fn address(key: &AddressKey<IfName>) -> OpKey {
    let unnamed = AddressKey::new(Dev::index(0), key.address).with_subnet(key.subnet);
    of(ObjectKey::Address(unnamed), Some(key.dev))
}

/// The key of a neighbour or of a proxy entry: see `Neighbour::canonical_key`.
pub fn neighbour(key: &NeighbourKey<IfName>) -> OpKey {
    let unnamed = NeighbourKey::new(Dev::index(0), key.dst, key.proxy);
    of(ObjectKey::Neighbour(unnamed), Some(key.dev))
}

/// The key of a route: see `Route::canonical_key`.
pub fn route(key: &RouteKey) -> OpKey {
    of(ObjectKey::Route(*key), None)
}

/// The key of a rule, which bears the protocol of the options.
pub fn rule(rule: &Rule, options: &Options) -> OpKey {
    let marked = rule.clone().with_protocol(options.protocol());
    of(ObjectKey::Rule(Box::new(marked.key())), None)
}

/// `key` has its device by name, where that is given, and index 0 in its place.
pub(crate) fn of(key: ObjectKey, name: Option<IfName>) -> OpKey {
    OpKey(digest((key, name)))
}
