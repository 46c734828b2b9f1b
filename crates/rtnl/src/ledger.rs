//! What we own that the kernel does not mark as ours: links, and whatever lives on a kernel that
//! does not keep the marker of addresses and neighbours.
//!
//! Interface indexes are used again after an interface is gone. So every index is kept with the
//! name that went with it, and counts only while both are still seen together: what was ours on a
//! vanished interface never matches a stranger's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use trueup_diff::{
    Action, AddressKey, Dev, Devices, IfName, Item, Kind, Link, LinkKind, NeighbourKey, Object,
    Observed, Op, Owned, Prefix,
};

/// The memory of a source between passes: see [`trueup_reconcile::Source::LastApplied`].
///
/// Serializable, for those whose ownership is to survive a restart. It is of one namespace and one
/// boot: elsewhere the same indexes mean other interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastApplied {
    /// The interfaces that the entries below refer to, by index.
    devices: BTreeMap<u32, IfName>,
    /// Links that we created.
    links: BTreeSet<u32>,
    /// Addresses that we created.
    addresses: BTreeSet<OwnedAddress>,
    /// Neighbours that we created.
    neighbours: BTreeSet<OwnedNeighbour>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct OwnedAddress {
    dev: u32,
    address: IpAddr,
    subnet: Option<Prefix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct OwnedNeighbour {
    dev: u32,
    dst: IpAddr,
    proxy: bool,
}

impl LastApplied {
    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.addresses.is_empty() && self.neighbours.is_empty()
    }

    /// Number of objects remembered.
    pub fn len(&self) -> usize {
        self.links.len() + self.addresses.len() + self.neighbours.len()
    }

    /// What of it holds among the interfaces that are there.
    pub(crate) fn owned(&self, observed: &Observed) -> Owned {
        let same = |link: &&Link| self.devices.get(&link.index) == Some(&link.name);
        let devices: BTreeSet<u32> = observed
            .links
            .iter()
            .filter(same)
            .map(|link| link.index)
            .collect();
        Owned {
            links: self.links.intersection(&devices).copied().collect(),
            addresses: self
                .addresses
                .iter()
                .filter(|owned| devices.contains(&owned.dev))
                .map(|owned| AddressKey {
                    dev: Dev::index(owned.dev),
                    address: owned.address,
                    subnet: owned.subnet,
                })
                .collect(),
            neighbours: self
                .neighbours
                .iter()
                .filter(|owned| devices.contains(&owned.dev))
                .map(|owned| NeighbourKey {
                    dev: Dev::index(owned.dev),
                    dst: owned.dst,
                    proxy: owned.proxy,
                })
                .collect(),
        }
    }

    /// What is ours now: of what was owned, and of what was created since, that which is there and
    /// bears no marker. What bears it needs no memory, and with one a stranger's would be taken for
    /// ours that is made in its place. Of a kind that was not read whole, all of it.
    pub(crate) fn from_read_back(owned: &Owned, observed: &Observed) -> LastApplied {
        let names = observed
            .links
            .iter()
            .map(|link| (link.index, link.name))
            .collect();
        let mut owned = owned.clone();
        if observed.complete.contains(Kind::Address) {
            let unmarked = observed.addresses.iter().filter(|a| a.protocol == 0);
            let unmarked: BTreeSet<AddressKey> = unmarked.map(Item::key).collect();
            owned.addresses.retain(|key| unmarked.contains(key));
        }
        if observed.complete.contains(Kind::Neighbour) {
            let unmarked = observed.neighbours.iter().filter(|n| n.protocol == 0);
            let unmarked: BTreeSet<NeighbourKey> = unmarked.map(Item::key).collect();
            owned.neighbours.retain(|key| unmarked.contains(key));
        }
        LastApplied::carried(&owned, &names)
    }

    /// What is ours on the interfaces of these names.
    pub(crate) fn carried(owned: &Owned, names: &BTreeMap<u32, IfName>) -> LastApplied {
        let mut ledger = LastApplied::default();
        let mut on = |index: u32| {
            let name = names.get(&index);
            ledger.devices.extend(name.map(|name| (index, *name)));
            name.is_some()
        };
        ledger.links = owned
            .links
            .iter()
            .copied()
            .filter(|index| on(*index))
            .collect();
        for AddressKey {
            dev,
            address,
            subnet,
        } in owned.addresses.iter().copied()
        {
            if let Some(dev) = dev.as_index().filter(|dev| on(*dev)) {
                ledger.addresses.insert(OwnedAddress {
                    dev,
                    address,
                    subnet,
                });
            }
        }
        for NeighbourKey { dev, dst, proxy } in owned.neighbours.iter().copied() {
            if let Some(dev) = dev.as_index().filter(|dev| on(*dev)) {
                ledger.neighbours.insert(OwnedNeighbour { dev, dst, proxy });
            }
        }
        ledger
    }
}

/// Adds what an applied op made ours. `real` leads from planned devices to the interfaces that
/// came of them.
pub(crate) fn record(
    owned: &mut Owned,
    op: &Op,
    devices: &Devices,
    real: impl Fn(Dev) -> Option<Dev>,
) {
    if op.action == Action::Delete {
        return;
    }
    match &op.object {
        // An update may be of a link that is not ours.
        Object::Link(link) if op.action == Action::Create => {
            let peer = match &link.kind {
                Some(LinkKind::Veth { peer }) => *peer,
                _ => None,
            };
            // An interface that was observed under the peer's name cannot be the peer: it is gone, or
            // has been renamed meanwhile, and is a stranger's all the same.
            let devs = [Some(link.name), peer]
                .into_iter()
                .flatten()
                .filter_map(|name| devices.dev(&name))
                .filter(|dev| dev.is_planned());
            owned
                .links
                .extend(devs.filter_map(&real).filter_map(Dev::as_index));
        }
        Object::Address(address) => {
            let key = address.key();
            owned
                .addresses
                .extend(real(key.dev).map(|dev| AddressKey { dev, ..key }));
        }
        Object::Neighbour(neighbour) => {
            let key = neighbour.key();
            owned
                .neighbours
                .extend(real(key.dev).map(|dev| NeighbourKey { dev, ..key }));
        }
        Object::Link(_) | Object::Route(_) | Object::Rule(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use trueup_diff::Reason;

    use super::*;

    /// A stranger renames his `v1` between our look and our creation of a pair `v0`, `v1`.
    #[test]
    fn what_bore_the_name_of_a_new_pairs_other_end_is_not_ours() {
        let [v0, v1]: [IfName; 2] = ["v0", "v1"].map(|name| name.parse().unwrap());
        let stranger = Link {
            index: 4,
            ..Link::new(v1, LinkKind::Dummy)
        };
        let op = Op {
            action: Action::Create,
            object: Link::new(v0, LinkKind::Veth { peer: Some(v1) }).into(),
            was: None,
            reason: Reason::Missing,
            hold: None,
        };
        let mut owned = Owned::default();
        record(&mut owned, &op, &Devices::observed(&[stranger]), Some);
        assert_eq!(owned, Owned::default());
    }
}
