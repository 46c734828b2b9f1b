//! What has to make room before anything is built.

use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::{
    Action, Address, AddressKey, Cleared, Item as _, Link, LinkKind, Object, VlanAttrs,
    VlanProtocol,
};
use crate::observed::Observed;
use crate::op::{Op, Reason};
use crate::values::{Dev, Family, IfName};

/// What a link holds that no two may hold at once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Vxlan { id: u32, port: u16 },
    Vlan { link: Dev, id: u16, dot1ad: bool },
    Name(IfName),
}

/// What a link of this kind holds, and the name of the other end of its pair.
fn claims(link: &Link) -> impl Iterator<Item = Claim> {
    let of_kind = match &link.kind {
        Some(LinkKind::Vxlan(vxlan)) => Some(Claim::Vxlan {
            id: vxlan.id,
            port: vxlan.port.unwrap_or(8472),
        }),
        Some(LinkKind::Vlan(VlanAttrs { link, id, protocol })) => {
            let dot1ad = *protocol == VlanProtocol::Dot1Ad;
            Some(Claim::Vlan {
                link: *link,
                id: *id,
                dot1ad,
            })
        }
        _ => None,
    };
    of_kind.into_iter().chain(link.peer().map(Claim::Name))
}

/// Finds the addresses whose deletes take routes along that are just made: the last IPv4 addresses of
/// a device (`fib_disable_ip`), and addresses that are a route's source (`fib_sync_down_addr`,
/// `rt6_remove_prefsrc`).
fn taking_routes(ops: &[Op], observed: &Observed) -> BTreeSet<AddressKey> {
    fn address(op: &Op) -> Option<&Address> {
        (&op.object).try_into().ok()
    }
    let deletes = ops.iter().filter(|op| op.action == Action::Delete);
    let deleted = deletes.filter(|op| op.hold.is_none()).filter_map(address);
    let deleted: BTreeMap<AddressKey, &Address> = deleted.map(|it| (it.key(), it)).collect();
    if deleted.is_empty() {
        return BTreeSet::new();
    }
    let built = || ops.iter().filter(|op| op.action != Action::Delete);
    let stays = observed.addresses.iter();
    let stays = stays.filter(|address| !deleted.contains_key(&address.key()));
    let (mut local, mut has_ipv4) = (BTreeSet::new(), BTreeSet::new());
    for address in stays.chain(built().filter_map(address)) {
        local.insert(address.address.ip());
        if address.family() == Family::Inet {
            has_ipv4.insert(address.dev);
        }
    }
    let (mut sources, mut devices) = (BTreeSet::new(), BTreeSet::new());
    for op in built() {
        if let Object::Route(route) = &op.object {
            sources.extend(route.src.filter(|src| !local.contains(src)));
            if route.family() == Family::Inet {
                devices.extend(route.nexthops.as_slice().iter().filter_map(|hop| hop.dev));
            }
        }
    }
    let takes_routes = |address: &Address| {
        let is_ipv4 = address.family() == Family::Inet;
        let is_last = is_ipv4 && !has_ipv4.contains(&address.dev);
        is_last && devices.contains(&address.dev) || sources.contains(&address.address.ip())
    };
    let taking = deleted
        .into_iter()
        .filter(|(_, address)| takes_routes(address));
    taking.map(|(key, _)| key).collect()
}

/// Finds what has to go before anything is built.
pub(super) fn cleared(ops: &[Op], observed: &Observed) -> Cleared {
    let mut wanted = BTreeSet::new();
    let mut subnets = BTreeSet::new();
    for op in ops.iter().filter(|op| op.action == Action::Create) {
        match &op.object {
            Object::Link(link) => wanted.extend(claims(link)),
            Object::Address(address) if address.family() == Family::Inet => {
                subnets.insert((address.dev, address.subnet()));
            }
            _ => {}
        }
    }
    let deletes = ops.iter().filter(|op| op.action == Action::Delete);
    let cleared = deletes.filter_map(|op| match &op.object {
        Object::Link(link) => {
            let mut held = claims(link).chain([Claim::Name(link.name)]);
            let clears =
                op.reason == Reason::Recreated || held.any(|claim| wanted.contains(&claim));
            clears.then_some(Dev::index(link.index))
        }
        _ => None,
    });
    Cleared {
        devs: cleared.collect(),
        subnets,
        addresses: taking_routes(ops, observed),
    }
}
