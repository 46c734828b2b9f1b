//! `observe --portable`: a file for another host, without what an administrator would not write.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{BondMode, Desired, IfName, Link, LinkKind, MacvlanAttrs, VlanAttrs, VxlanAttrs};

use super::is_zero;

/// Devices that a module makes in each namespace, for packets without another tunnel.
const FALLBACK: [&str; 9] =
    ["erspan0", "gre0", "gretap0", "ip6_vti0", "ip6gre0", "ip6tnl0", "ip_vti0", "sit0", "tunl0"];

/// Leaves out the kernel's defaults, properties of one host, and empty sections. Returns a note for
/// each omitted property that may have been set on purpose.
pub(crate) fn strip(desired: &mut Desired) -> Vec<String> {
    let mut left_out = Vec::new();
    let used = used(desired);
    if let Some(links) = &mut desired.links {
        let mtus = links.iter().map(|link| (link.name, link.mtu)).collect();
        let stripped = std::mem::take(links).into_iter().map(|mut link| {
            left_out.extend(strip_link(&mut link, &mtus));
            link
        });
        *links = stripped
            .filter(|link| {
                let name = link.name.to_string();
                let is_made =
                    FALLBACK.contains(&name.as_str()) || is_loopback(link) && says_nothing(link);
                !is_made || used.contains(&link.name)
            })
            .collect();
    }
    desired.links.take_if(|all| all.is_empty());
    desired.addresses.take_if(|all| all.is_empty());
    desired.neighbours.take_if(|all| all.is_empty());
    desired.routes.take_if(|all| all.is_empty());
    desired.rules.take_if(|all| all.is_empty());
    left_out
}

/// Returns the links that other links are on.
fn used(desired: &Desired) -> BTreeSet<IfName> {
    let links = desired.links.iter().flatten();
    links.flat_map(|link| [below(link), link.master.flatten()]).flatten().collect()
}

fn below(link: &Link<IfName>) -> Option<IfName> {
    match link.kind.as_ref()? {
        LinkKind::Vlan(VlanAttrs { link, .. }) | LinkKind::Macvlan(MacvlanAttrs { link, .. }) => {
            Some(*link)
        }
        LinkKind::Vxlan(VxlanAttrs { link, .. }) => *link,
        _ => None,
    }
}

fn is_loopback(link: &Link<IfName>) -> bool {
    link.name.to_string() == "lo"
}

/// Returns true if a declared link exists in every namespace and is only declared to be up.
fn says_nothing(link: &Link<IfName>) -> bool {
    let mut bare = Link::must_exist(link.name);
    bare.up = link.up;
    link.up != Some(false) && *link == bare
}

fn strip_link(link: &mut Link<IfName>, mtus: &BTreeMap<IfName, Option<u32>>) -> Option<String> {
    let below = below(link).and_then(|below| *mtus.get(&below)?);
    let first_mtu =
        if is_loopback(link) { Some(65_536) } else { first_mtu(link.kind.as_ref(), below) };
    link.mtu.take_if(|mtu| Some(*mtu) == first_mtu);
    let is_made = link.is_creatable();
    if is_made {
        link.up.take_if(|up| !*up);
    }
    match &mut link.kind {
        Some(LinkKind::Bridge(bridge)) => {
            bridge.stp.take_if(|stp| !*stp);
            bridge.vlan_filtering.take_if(|filters| !*filters);
            bridge.forward_delay.take_if(|delay| *delay == 1500);
            bridge.ageing_time.take_if(|time| *time == 30_000);
        }
        Some(LinkKind::Vxlan(vxlan)) => {
            vxlan.learning.take_if(|learns| *learns);
            vxlan.ttl.take_if(|ttl| *ttl == 0);
        }
        Some(LinkKind::Bond(bond)) => {
            bond.mode.take_if(|mode| *mode == BondMode::BalanceRr);
            bond.miimon.take_if(|time| *time == 0);
        }
        _ => {}
    }
    let address = link.address.take_if(|address| {
        // The address is locally administered.
        !is_made || address.as_bytes().first().is_some_and(|it| it & 2 != 0)
    })?;
    let whose = if is_made { "may be random" } else { "may be the device's own" };
    (!is_zero(&address)).then(|| format!("link {}: {address}, which {whose}", link.name))
}

/// Returns a new link's MTU. `below` is the MTU of the link below it.
fn first_mtu(kind: Option<&LinkKind<IfName>>, below: Option<u32>) -> Option<u32> {
    match kind {
        None => Some(1500),
        Some(LinkKind::Bridge(_) | LinkKind::Veth { .. } | LinkKind::Ifb) => Some(1500),
        Some(LinkKind::Dummy | LinkKind::Bond(_) | LinkKind::Tun | LinkKind::Tap) => Some(1500),
        // IP6_MAX_MTU
        Some(LinkKind::Vrf { .. }) => Some(65_575),
        Some(LinkKind::Vlan(_) | LinkKind::Macvlan(_)) => below,
        Some(LinkKind::Vxlan(vxlan)) => match (below, vxlan.local.or(vxlan.remote)) {
            (None, _) => Some(1500),
            (Some(below), Some(end)) if end.is_ipv6() => below.checked_sub(70),
            (Some(below), _) => below.checked_sub(50),
        },
        _ => None,
    }
}
