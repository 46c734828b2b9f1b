//! What has to make room before anything is built.

use std::collections::BTreeSet;

use crate::kinds::Action;
use crate::kinds::{Cleared, Link, LinkKind, Object, VlanAttrs, VlanProtocol};
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

/// Finds what has to go before anything is built.
pub(super) fn cleared(ops: &[Op]) -> Cleared {
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
    }
}
