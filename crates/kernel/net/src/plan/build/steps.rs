//! Intermediate steps for links, if the kernel cannot reach the desired state at once.
//!
//! - A bond or team refuses a port that is up, so the port is set down first.
//! - A VXLAN whose lower device changes keeps the former one's default forwarding entry
//!   (`vxlan_changelink`). The entry goes with the remote address, which is therefore removed
//!   first.
//! - No two macvlans on a device can have the same hardware address. If one is to get the address
//!   of another that changes its own, the other gets a temporary address first. So their order does
//!   not matter, even if they exchange addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Findings;
use crate::kinds::{Action, Link, LinkKind, Object};
use crate::observed::Observed;
use crate::op::{Op, Reason};
use crate::resolve::Resolved;
use crate::values::{Dev, IfName, LinkAddr};

/// Inserts the steps before the updates of links.
pub(super) fn add(found: &mut Findings, desired: &Resolved, observed: &Observed) {
    if !found
        .ops
        .iter()
        .any(|op| op.action == Action::Update && matches!(op.object, Object::Link(_)))
    {
        return;
    }
    let mut addresses = Addresses::of(&found.ops, observed);
    let mut ops = Vec::with_capacity(found.ops.len());
    for mut op in std::mem::take(&mut found.ops) {
        if op.action == Action::Update
            && let Some(Object::Link(was)) = op.was().map(std::borrow::Cow::into_owned)
            && let Object::Link(link) = &mut op.object
        {
            let steps = [
                set_down(link, &was, desired, observed),
                without_remote(link, &was),
                addresses.leave(link, &was),
            ];
            ops.extend(steps.into_iter().flatten().map(|step| {
                Op::new(Action::Update, step, Reason::Step).with_was(Object::from((*was).clone()))
            }));
        }
        ops.push(op);
    }
    found.ops = ops;
}

/// Returns the link set down, if it is up and its new master refuses such ports. The update sets it
/// up again, even if the master refuses it.
fn set_down(link: &mut Link, was: &Link, desired: &Resolved, observed: &Observed) -> Option<Link> {
    let [refused_up, refuses_up] = [was, &*link].map(|link| {
        let mut links = match link.master.flatten()?.as_index() {
            Some(_) => observed.links.iter(),
            None => desired.links.as_deref()?.iter(),
        };
        let name = desired.devices.name(link.master.flatten()?)?;
        let kind = links.find(|link| link.name == *name)?.kind.as_ref()?;
        matches!(kind.name(), "bond" | "team").then_some(())
    });
    // A master sets down a port that leaves it.
    let is_down = was.up != Some(true) || refused_up.is_some();
    refuses_up.filter(|()| !is_down && link.master != was.master)?;
    link.up = link.up.or(Some(true));
    Some(was.clone().with_up(false))
}

/// Returns a VXLAN without its remote address, if its lower device changes.
fn without_remote(link: &mut Link, was: &Link) -> Option<Link> {
    let (Some(LinkKind::Vxlan(wanted)), Some(LinkKind::Vxlan(former))) =
        (&mut link.kind, &was.kind)
    else {
        return None;
    };
    let moves = wanted.link.is_some() && wanted.link != former.link;
    let remote = former.remote.filter(|_| moves)?;
    wanted.remote = wanted.remote.or(former.remote);
    let none: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Some(was.clone().with_kind(LinkKind::Vxlan((*former).with_remote(none))))
}

/// The desired hardware addresses of macvlans, and all in use.
struct Addresses {
    wanted: BTreeMap<(Dev, LinkAddr), BTreeSet<IfName>>,
    used: BTreeSet<LinkAddr>,
}

impl Addresses {
    fn of(ops: &[Op], observed: &Observed) -> Addresses {
        let mut wanted: BTreeMap<_, BTreeSet<IfName>> = BTreeMap::new();
        let mut used: BTreeSet<LinkAddr> =
            observed.links.iter().filter_map(|link| link.address).collect();
        for op in ops.iter().filter(|op| op.action != Action::Delete) {
            if let Object::Link(link) = &op.object {
                used.extend(link.address);
                if let Some(claim) = link.unique_address() {
                    wanted.entry(claim).or_default().insert(link.name);
                }
            }
        }
        Addresses { wanted, used }
    }

    /// Returns a macvlan with a temporary address, if another macvlan is to have its present one.
    fn leave(&mut self, link: &Link, was: &Link) -> Option<Link> {
        let changes = link.address.is_some() && link.address != was.address;
        let others = self.wanted.get(&was.unique_address().filter(|_| changes)?)?;
        others.iter().find(|name| **name != link.name)?;
        // Locally administered addresses. There are more of them than links.
        let temporary = (0..=u16::MAX).find_map(|number| {
            let [high, low] = number.to_be_bytes();
            let address = LinkAddr::from_bytes(&[2, b't', b'r', b'u', high, low]).ok()?;
            (!self.used.contains(&address)).then_some(address)
        })?;
        self.used.insert(temporary);
        Some(was.clone().with_address(temporary))
    }
}
