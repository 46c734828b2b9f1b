//! Names an object in a way that holds from one pass to the next.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher as _};

use trueup_net::{AddressKey, Dev, Devices, NeighbourKey, Object, ObjectKey};

use crate::key;

/// A hash of an object's key, with its device by name.
pub(crate) type ObjectId = u64;

pub(crate) fn object_id(object: &Object, devices: &Devices) -> ObjectId {
    key_id(object.key(), devices)
}

/// Hashes a key with its device by name: a device that is to be created has another number in each
/// plan, and an index once it is there.
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
    key::of(key, name).0
}

pub(crate) fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
