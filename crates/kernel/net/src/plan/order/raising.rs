//! Finds links that come up after their addresses.
//!
//! Each IPv6 address added to a link that is up makes the link join another multicast group, and
//! announce all its groups: the cost grows with the square of their number. On a link that is down
//! the kernel only stores them, and activates all of them when the link comes up. This is done only
//! if the kernel then does the same as it would have done at once (`addrconf_permanent_addr` in
//! net/ipv6/addrconf.c). In these cases the link comes up first:
//!
//! - An address has a lifetime or a peer. Its prefix route would never be added, since the kernel
//!   adds the routes of permanent addresses only.
//! - Other links are stacked on it. If it came up after them, it would set up VLANs that are to
//!   stay down (`vlan_device_event`), and other VLANs cannot come up before it.
//! - It joins a master. The port must have no addresses then: joining a VRF removes them, and a
//!   bond takes no port that is up. An MTU may be too small for IPv6, which removes them too.
//!
//! One difference remains. While a link has no carrier, coming up with its addresses gives it no
//! multicast route (`ff00::/8` in table local) yet. The first address added to a link that is up
//! brings the route at once (`addrconf_add_dev`). The route comes with the carrier, before any
//! packet can be sent.

use std::collections::BTreeSet;

use crate::kinds::{Action, Address, AddressFlags, Object};
use crate::op::Op;
use crate::resolve::Resolved;
use crate::values::{Dev, Family};

/// The links that wait for their addresses before they come up.
#[derive(Default)]
pub(super) struct Raising {
    devs: BTreeSet<Dev>,
}

impl Raising {
    pub(super) fn of(ops: &[Op], desired: &Resolved) -> Raising {
        let mut devs: BTreeSet<Dev> = ops.iter().filter_map(|op| raised(op, desired)).collect();
        if devs.is_empty() {
            return Raising::default();
        }
        let mut addressed = BTreeSet::new();
        for op in ops {
            match &op.object {
                Object::Link(link) => {
                    let lower = link.lower().filter(|_| op.action != Action::Delete);
                    lower.map(|lower| devs.remove(lower));
                }
                Object::Address(address) if address.family() == Family::Inet6 => match op.action {
                    Action::Create if waits_well(address) => drop(addressed.insert(address.dev)),
                    Action::Create | Action::Update => drop(devs.remove(&address.dev)),
                    Action::Delete => {}
                },
                _ => {}
            }
        }
        devs.retain(|dev| addressed.contains(dev));
        Raising { devs }
    }

    /// Returns true if an op comes after the addresses.
    pub(super) fn is_late(&self, op: &Op, desired: &Resolved) -> bool {
        !self.devs.is_empty() && raised(op, desired).is_some_and(|dev| self.devs.contains(&dev))
    }
}

/// Returns the device brought up by an op, if the op does nothing that affects the addresses.
fn raised(op: &Op, desired: &Resolved) -> Option<Dev> {
    let Object::Link(link) = &op.object else {
        return None;
    };
    if op.action != Action::Update || link.up != Some(true) {
        return None;
    }
    let former = op.was();
    let Some(Object::Link(was)) = former.as_deref() else {
        let is_plain = link.mtu.is_none() && matches!(link.master, None | Some(None));
        return desired.devices.dev(&link.name).filter(|_| is_plain);
    };
    let same_mtu = link.mtu.is_none() || link.mtu == was.mtu;
    let same_master = link.master.is_none() || link.master == was.master;
    (was.up != Some(true) && same_mtu && same_master).then(|| Dev::index(was.index))
}

/// Returns true if the kernel treats an address the same on a link that comes up later.
fn waits_well(address: &Address) -> bool {
    let plain = [AddressFlags::AUTOJOIN, AddressFlags::MNGTMPADDR]
        .into_iter()
        .all(|flag| !address.flags.contains(flag));
    plain && address.peer.is_none() && address.lifetimes == Default::default()
}
