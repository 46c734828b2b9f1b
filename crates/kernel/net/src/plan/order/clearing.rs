//! Finds objects that must make room before anything is built.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::kinds::{
    Action, Address, AddressKey, Cleared, Link, LinkKind, Object, ObjectKind as _, VlanAttrs,
    VlanProtocol,
};
use crate::observed::Observed;
use crate::op::{Op, Reason};
use crate::values::{Dev, Family, IfName, LinkAddr};

/// A property that only one link at a time can have.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Vxlan {
        id: u32,
        port: u16,
    },
    Vlan {
        link: Dev,
        id: u16,
        dot1ad: bool,
    },
    Name(IfName),
    /// A macvlan's device below, with its hardware address.
    Address(Dev, LinkAddr),
}

/// Returns the claims of a link of this kind, and of the other end of its pair.
fn claims(link: &Link) -> impl Iterator<Item = Claim> {
    let of_kind = match &link.kind {
        Some(LinkKind::Vxlan(vxlan)) => {
            Some(Claim::Vxlan { id: vxlan.id, port: vxlan.port.unwrap_or(8472) })
        }
        Some(LinkKind::Vlan(VlanAttrs { link, id, protocol })) => {
            let dot1ad = *protocol == VlanProtocol::Dot1Ad;
            Some(Claim::Vlan { link: *link, id: *id, dot1ad })
        }
        _ => None,
    };
    let address = link.unique_address().map(|(dev, address)| Claim::Address(dev, address));
    of_kind.into_iter().chain(address).chain(link.peer().map(Claim::Name))
}

/// Returns true if a step takes a hardware address from a link, for another link.
pub(super) fn leaves_address(op: &Op) -> bool {
    match (op.reason, &op.object, op.was().as_deref()) {
        (Reason::Step, Object::Link(link), Some(Object::Link(was))) => link.address != was.address,
        _ => false,
    }
}

/// Objects whose deletes would remove new routes.
#[derive(Default)]
struct TakingRoutes {
    addresses: BTreeSet<AddressKey>,
    links: BTreeSet<Dev>,
}

/// Finds addresses and links whose deletes would remove new routes: a device's last IPv4 address
/// (`fib_disable_ip`), a route's source (`fib_sync_down_addr`, `rt6_remove_prefsrc`), and a link
/// through which a gateway without a device is found.
fn taking_routes(ops: &[Op], observed: &Observed) -> TakingRoutes {
    let mut links = BTreeSet::new();
    let mut deleted = BTreeSet::new();
    for op in ops.iter().filter(|op| op.action == Action::Delete && op.hold.is_none()) {
        match &op.object {
            Object::Link(link) => drop(links.insert(Dev::index(link.index))),
            Object::Address(address) => drop(deleted.insert(address.key())),
            _ => {}
        }
    }
    if links.is_empty() && deleted.is_empty() {
        return TakingRoutes::default();
    }
    let (going, staying): (Vec<&Address>, Vec<&Address>) = observed
        .addresses
        .iter()
        .partition(|address| deleted.contains(&address.key()) || links.contains(&address.dev));
    let built = ops.iter().filter(|op| op.action != Action::Delete);
    let built_addresses = built.clone().filter_map(|op| <&Address>::try_from(&op.object).ok());
    let after: Vec<&Address> = staying.into_iter().chain(built_addresses).collect();

    let local: BTreeSet<IpAddr> = after.iter().map(|address| address.address.ip()).collect();
    let ipv4 = after.iter().filter(|address| address.family() == Family::Inet);
    let has_ipv4: BTreeSet<Dev> = ipv4.map(|address| address.dev).collect();
    let (mut sources, mut devices, mut gateways) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for op in built {
        if let Object::Route(route) = &op.object {
            sources.extend(route.src.filter(|src| !local.contains(src)));
            for hop in route.nexthops.as_slice() {
                match hop.written_dev() {
                    Some(dev) if route.family() == Family::Inet => drop(devices.insert(*dev)),
                    Some(_) => {}
                    None => gateways.extend(hop.via),
                }
            }
        }
    }
    let mut taking = TakingRoutes::default();
    for address in going {
        let is_last = address.family() == Family::Inet && !has_ipv4.contains(&address.dev);
        let goes_with_link = links.contains(&address.dev);
        let takes_routes = sources.contains(&address.address.ip())
            || is_last && devices.contains(&address.dev)
            || (is_last || goes_with_link)
                && address.on_link().any(|prefix| gateways.iter().any(|it| prefix.contains(*it)));
        if takes_routes && deleted.contains(&address.key()) {
            taking.addresses.insert(address.key());
        }
        if takes_routes && goes_with_link {
            taking.links.insert(address.dev);
        }
    }
    taking
}

/// Finds the objects to be deleted before anything is built.
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
    for op in ops.iter().filter(|op| op.action == Action::Update) {
        if let Object::Link(link) = &op.object {
            let address = link.unique_address();
            wanted.extend(address.map(|(dev, address)| Claim::Address(dev, address)));
        }
    }
    let taking = taking_routes(ops, observed);
    let deletes = ops.iter().filter(|op| op.action == Action::Delete);
    let cleared = deletes.filter_map(|op| match &op.object {
        Object::Link(link) => {
            let mut held = claims(link).chain([Claim::Name(link.name)]);
            let dev = Dev::index(link.index);
            let clears = op.reason == Reason::Recreated
                || held.any(|claim| wanted.contains(&claim))
                || taking.links.contains(&dev);
            clears.then_some(dev)
        }
        _ => None,
    });
    Cleared { devs: cleared.collect(), subnets, addresses: taking.addresses }
}
