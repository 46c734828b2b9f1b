//! What speaks against an address, an MTU, the other end of a pair, or against a link going up, whether the link is there
//! already or about to be made. Names are checked in [`name`](super::name).

use crate::message::u32_at;

use super::super::request::{Attributes, EADDRNOTAVAIL, EINVAL, ENODEV, Refusal};
use super::super::state::State;
use super::kind::LinkKind;
use super::write::POLICY;
use super::{IFLA_ADDRESS, IFLA_MTU, Link};

pub(super) const EADDRINUSE: i32 = 98;
const ENETDOWN: i32 = 100;

impl State {
    /// `macvlan_addr_busy`: the lower device has it, or another that is up on it.
    pub(super) fn is_taken(&self, link: &Link, address: [u8; 6]) -> bool {
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        lower.is_some_and(|lower| lower.address == address && !link.is_passthru())
            || self.links.all.values().any(|other| {
                other.kind == LinkKind::Macvlan
                    && other.index != link.index
                    && other.lower() == link.lower()
                    && other.is_up()
                    && other.address == address
            })
    }

    pub(super) fn check_mtu(&self, link: &Link, mtu: u32) -> Result<(), Refusal> {
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        let (mut least, mut greatest) = link.kind.mtu_limits();
        if let (LinkKind::Macvlan, Some(lower)) = (link.kind, lower) {
            (least, greatest) = lower.kind.mtu_limits();
        }
        if mtu > i32::MAX as u32 || mtu < least {
            return Err(Refusal::errno(EINVAL).because("mtu less than device minimum"));
        }
        if greatest > 0 && mtu > greatest {
            return Err(Refusal::errno(EINVAL).because("mtu greater than device maximum"));
        }
        let fits = match (link.kind, lower) {
            (LinkKind::Macvlan | LinkKind::Vlan, Some(lower)) => mtu <= lower.mtu,
            (LinkKind::Vxlan, Some(lower)) => mtu <= lower.mtu.saturating_sub(vxlan_headroom(link)),
            _ => true,
        };
        if fits { Ok(()) } else { Err(EINVAL.into()) }
    }

    pub(super) fn may_open(&self, index: u32, up: bool) -> Result<(), Refusal> {
        let link = self.links.get(index).ok_or(ENODEV)?;
        let lower = link.lower().and_then(|lower| self.links.get(lower));
        match link.kind {
            LinkKind::Macvlan if up => {
                let own = link.address.first_chunk::<6>().copied();
                let taken = own.is_some_and(|own| self.is_taken(link, own));
                if taken {
                    Err(EADDRINUSE.into())
                } else {
                    Ok(())
                }
            }
            LinkKind::Vlan if up && !lower.is_some_and(Link::is_up) => Err(ENETDOWN.into()),
            _ => Ok(()),
        }
    }
}

/// The outer headers of IPv4 or IPv6, UDP, VXLAN and Ethernet.
pub(super) fn vxlan_headroom(link: &Link) -> u32 {
    if link.ipv6 { 70 } else { 50 }
}

pub(super) fn check_address(address: [u8; 6]) -> Result<(), Refusal> {
    if address[0] & 1 == 1 || address == [0; 6] {
        return Err(EADDRNOTAVAIL.into());
    }
    Ok(())
}

/// What the drivers say to `IFLA_ADDRESS` and `IFLA_MTU` before a link is made or changed.
pub(super) fn validate_address(attrs: Attributes<'_>, kind: LinkKind) -> Result<(), Refusal> {
    if let Some(address) = attrs.get(IFLA_ADDRESS) {
        let address: [u8; 6] = address.try_into().map_err(|_| Refusal::errno(EINVAL))?;
        check_address(address)?;
    }
    let limited = matches!(kind, LinkKind::Veth | LinkKind::Vxlan);
    match attrs.u32(IFLA_MTU) {
        Some(mtu) if limited && !(68..=65535).contains(&mtu) => Err(EINVAL.into()),
        _ => Ok(()),
    }
}

pub(super) fn validate_peer(peer: &[u8]) -> Result<(), Refusal> {
    let (header, rest) = peer.split_first_chunk::<16>().ok_or(EINVAL)?;
    if u32_at(header, 4) > i32::MAX as u32 {
        return Err(Refusal::errno(EINVAL).because("ifindex can't be negative"));
    }
    let attrs = Attributes::new(rest);
    POLICY.check(attrs, false)?;
    validate_address(attrs, LinkKind::Veth)
}
