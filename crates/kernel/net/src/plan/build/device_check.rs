//! Holds objects that cannot exist on their devices, each by itself.

use std::collections::{BTreeMap, HashMap};

use super::Findings;
use crate::devices::Devices;
use crate::kinds::{Action, AddressKey, NeighbourKey, Object, ObjectKey};
use crate::observed::Observed;
use crate::op::{Hold, Reason};
use crate::values::{Dev, LinkAddr};

/// Decides if objects can exist on the devices that they name.
pub(super) struct DeviceCheck<'a> {
    devices: &'a Devices,
    has_missing: bool,
    /// The hardware address lengths in bytes of existing devices, by index.
    lengths: HashMap<u32, usize>,
}

impl<'a> DeviceCheck<'a> {
    pub(super) fn new(devices: &'a Devices, observed: &Observed) -> DeviceCheck<'a> {
        let links = observed.links.iter();
        let lengths = links.filter_map(|link| Some((link.index, link.address?.as_bytes().len())));
        DeviceCheck {
            devices,
            has_missing: devices.missing().next().is_some(),
            lengths: lengths.collect(),
        }
    }

    /// Returns the reason for a desired object to wait, or `None`.
    pub(super) fn hold(&self, object: &Object) -> Option<Hold> {
        if self.has_missing
            && let Some(hold) = Hold::no_device(self.devices, object.devices())
        {
            return Some(hold);
        }
        let is_too_long = match object {
            Object::Link(link) => self.is_too_long(link.address, self.devices.dev(&link.name)),
            Object::Neighbour(neighbour) => self.is_too_long(neighbour.lladdr, Some(neighbour.dev)),
            _ => false,
        };
        is_too_long.then_some(Hold::LongAddress)
    }

    /// Returns true if an address is longer than the device's: the kernel would truncate it
    /// (`neigh_add` in net/core/neighbour.c, `do_setlink` in net/core/rtnetlink.c).
    fn is_too_long(&self, address: Option<LinkAddr>, dev: Option<Dev>) -> bool {
        let longest = match dev.and_then(Dev::as_index) {
            // New devices are Ethernet.
            None => Some(6),
            Some(index) => self.lengths.get(&index).copied(),
        };
        let length = address.map(|address| address.as_bytes().len());
        let both = length.zip(longest);
        both.is_some_and(|(length, longest)| length > longest)
    }

    /// Holds the ops on such objects, and the deletes of the objects that they replace: an object
    /// that would move to a missing device stays where it is.
    pub(super) fn hold_all(&self, found: &mut Findings) {
        let mut waiting: BTreeMap<ObjectKey, Hold> = BTreeMap::new();
        for op in found.ops.iter_mut() {
            let is_held = matches!(op.hold, Some(Hold::OutsideDomain | Hold::NextHop(_)));
            if op.action == Action::Delete || is_held {
                continue;
            }
            if let Some(hold) = self.hold(&op.object) {
                waiting.insert(on_any_device(op.object.key()), hold.clone());
                op.hold = Some(hold);
            }
        }
        if waiting.is_empty() {
            return;
        }
        for op in &mut found.ops {
            let is_replaced = matches!(op.reason, Reason::Undesired | Reason::Recreated);
            if op.action == Action::Delete && is_replaced && op.hold.is_none() {
                op.hold = waiting.get(&on_any_device(op.object.key())).cloned();
            }
        }
    }
}

/// Returns a key without its device.
fn on_any_device(mut key: ObjectKey) -> ObjectKey {
    if let ObjectKey::Address(AddressKey { dev, .. })
    | ObjectKey::Neighbour(NeighbourKey { dev, .. }) = &mut key
    {
        *dev = Dev::index(0);
    }
    key
}
