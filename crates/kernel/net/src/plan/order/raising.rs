//! Which links come up after their addresses.
//!
//! Each IPv6 address that is added to a link that is up makes it join another multicast group, and
//! tell of all that it is in: the cost of `n` is that of their square. On a link that is down the
//! kernel notes them down, and brings them all to life when it comes up. The outcome is the same
//! where the kernel does for them then what it would have done at once (`addrconf_permanent_addr`
//! in net/ipv6/addrconf.c); where it would not, the link comes up first:
//!
//! - with the first look at an address that ends or has another end on the link its prefix route is
//!   left out for good, as only permanent ones are made up for;
//! - what other links stand on is up before they are made: coming up it would take those VLANs
//!   along that are to stay down (`vlan_device_event`), and one that is to come up cannot before
//!   it;
//! - a master is joined while there are no addresses: joining a VRF costs those that are there, and
//!   a bond takes no port that is up; an MTU may be too small for IPv6, which costs them too.
//!
//! One thing comes later: while it has no carrier, a link that comes up with its addresses has no
//! multicast route (`ff00::/8` in table local) yet, which the first address added to one that is up
//! brings at once (`addrconf_add_dev`). It comes with the carrier, before any packet can go.

use std::collections::BTreeSet;

use crate::kinds::{Action, Address, AddressFlags, Object};
use crate::op::Op;
use crate::resolve::Resolved;
use crate::values::{Dev, Family};

/// The links whose coming up waits for their addresses.
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

/// The device that an op brings up and does nothing else to that its addresses would mind.
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

/// Returns true if the kernel makes of an address on a link that comes up what it makes of it on
/// one that is up.
fn waits_well(address: &Address) -> bool {
    let plain = [AddressFlags::AUTOJOIN, AddressFlags::MNGTMPADDR]
        .into_iter()
        .all(|flag| !address.flags.contains(flag));
    plain && address.peer.is_none() && address.lifetimes == Default::default()
}
