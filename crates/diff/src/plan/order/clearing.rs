//! What has to make room before anything is built.

use std::collections::BTreeSet;

use crate::kinds::{Link, LinkKind, Object, VlanProtocol};
use crate::op::{Action, Op, Reason};
use crate::plan::order::{Stage, is_on_device};
use crate::values::{Dev, Family, IfName, Prefix};

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
        Some(LinkKind::Vlan { link, id, protocol }) => {
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

/// What has to go before anything is built.
#[derive(Default)]
pub(super) struct Clearing {
    devs: BTreeSet<Dev>,
    subnets: BTreeSet<(Dev, Prefix)>,
}

impl Clearing {
    pub(super) fn of(ops: &[Op]) -> Clearing {
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
        let makes_room = |op: &&Op| match &op.object {
            Object::Link(link) => {
                let mut held = claims(link).chain([Claim::Name(link.name)]);
                op.reason == Reason::Recreated || held.any(|claim| wanted.contains(&claim))
            }
            _ => false,
        };
        let deletes = ops.iter().filter(|op| op.action == Action::Delete);
        let devs = deletes
            .filter(makes_room)
            .filter_map(|op| match &op.object {
                Object::Link(link) => Some(Dev::index(link.index)),
                _ => None,
            });
        Clearing {
            devs: devs.collect(),
            subnets,
        }
    }

    pub(super) fn stage(&self, op: &Op) -> Stage {
        let delete = op.action == Action::Delete;
        let anew = matches!(op.reason, Reason::Recreated | Reason::GivenBack);
        match &op.object {
            Object::Link(link) if delete => {
                let clears = self.devs.contains(&Dev::index(link.index));
                if clears {
                    Stage::ClearLinks
                } else {
                    Stage::DropLinks
                }
            }
            Object::Address(address) if delete => {
                let clears = self.devs.contains(&address.dev)
                    || anew
                    || self.subnets.contains(&(address.dev, address.subnet()));
                if clears {
                    Stage::ClearAddresses
                } else {
                    Stage::DropAddresses
                }
            }
            Object::Neighbour(neighbour) if delete => {
                let clears = self.devs.contains(&neighbour.dev) || anew;
                if clears {
                    Stage::ClearNeighbours
                } else {
                    Stage::DropNeighbours
                }
            }
            Object::Route(route) if delete => {
                let hops = route.nexthops.as_slice();
                let clears = hops
                    .iter()
                    .filter_map(|hop| hop.dev)
                    .any(|dev| self.devs.contains(&dev));
                let clears = clears || anew;
                match (clears, is_on_device(route)) {
                    (true, _) => Stage::ClearRoutes,
                    (false, true) => Stage::DropDeviceRoutes,
                    (false, false) => Stage::DropRoutes,
                }
            }
            Object::Rule(_) if delete && anew => Stage::ClearRules,
            Object::Rule(rule) => match (rule.family, delete) {
                (Family::Inet, true) => Stage::DropRules4,
                (Family::Inet6, true) => Stage::DropRules6,
                (Family::Inet, false) => Stage::Rules4,
                (Family::Inet6, false) => Stage::Rules6,
            },
            Object::Nexthop(_) if delete => Stage::DropNexthops,
            Object::Nexthop(_) => Stage::Nexthops,
            Object::Link(_) => Stage::Links,
            Object::Address(_) => Stage::Addresses,
            Object::Neighbour(_) => Stage::Neighbours,
            Object::Route(route) if is_on_device(route) => Stage::DeviceRoutes,
            Object::Route(_) => Stage::Routes,
        }
    }
}
