//! Keys by which a driver names the objects of a desired state, made from the values that its
//! author knows.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};

use trueup_net::{
    AddressKey, Dev, Devices, IfName, NeighbourKey, Object, ObjectKey, ObjectKind as _, RouteKey,
    Rule,
};
use trueup_reconcile::OpKey;

use crate::Options;

/// Makes the key of a link.
///
/// ```
/// let (eth0, eth1) = ("eth0".parse()?, "eth1".parse()?);
/// assert_eq!(trueup_rtnl::key::link(eth0), trueup_rtnl::key::link(eth0));
/// assert_ne!(trueup_rtnl::key::link(eth0), trueup_rtnl::key::link(eth1));
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
pub fn link(name: IfName) -> OpKey {
    of(ObjectKey::Link(name), None)
}

/// Makes the key of an address. See `Address::canonical_key`.
pub fn address(key: &AddressKey<IfName>) -> OpKey {
    let mut unnamed = AddressKey::new(Dev::index(0), key.address);
    unnamed.subnet = key.subnet;
    of(ObjectKey::Address(unnamed), Some(key.dev))
}

/// Makes the key of a neighbour or of a proxy entry. See `Neighbour::canonical_key`.
pub fn neighbour(key: &NeighbourKey<IfName>) -> OpKey {
    let unnamed = NeighbourKey::new(Dev::index(0), key.dst, key.proxy);
    of(ObjectKey::Neighbour(unnamed), Some(key.dev))
}

/// Makes the key of a route. See `Route::canonical_key`.
///
/// ```
/// use trueup_loop::{Handle, ObjectStatus};
/// use trueup_net::RouteKey;
/// use trueup_rtnl::Rtnl;
///
/// /// Returns the status of a route of table main, in a running loop.
/// fn status(handle: &Handle<Rtnl>, dst: &str) -> Option<ObjectStatus> {
///     handle.status(trueup_rtnl::key::route(&RouteKey::new(254, dst.parse().ok()?)))
/// }
/// ```
pub fn route(key: &RouteKey) -> OpKey {
    of(ObjectKey::Route(*key), None)
}

/// Makes the key of a rule, with the protocol from the options.
pub fn rule(rule: &Rule, options: &Options) -> OpKey {
    let marked = rule.clone().with_protocol(options.protocol());
    of(ObjectKey::Rule(Box::new(marked.key())), None)
}

/// Makes a key from an object's. `name` is its device's, if it has one; `key` then has index 0.
fn of(key: ObjectKey, name: Option<IfName>) -> OpKey {
    OpKey(digest((key, name)))
}

/// A hash of an object's key, with the device by name, so that it stays the same between passes.
pub(crate) type ObjectId = u64;

pub(crate) fn object_id(object: &Object, devices: &Devices) -> ObjectId {
    key_id(object.key(), devices)
}

/// Hashes a key with the device's name. A device to be created has another number in each plan, and
/// an index once it exists.
pub(crate) fn key_id(mut key: ObjectKey, devices: &Devices) -> ObjectId {
    let mut name = None;
    if let ObjectKey::Address(AddressKey { dev, .. })
    | ObjectKey::Neighbour(NeighbourKey { dev, .. }) = &mut key
    {
        name = devices.name(*dev).copied();
        if name.is_some() {
            *dev = Dev::index(0);
        }
    }
    of(key, name).0
}

pub(crate) fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
