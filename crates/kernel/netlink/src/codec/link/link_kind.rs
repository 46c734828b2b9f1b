//! `IFLA_LINKINFO`: the kinds of links and the attributes of each.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trueup_net::{
    BondAttrs, BondMode, BridgeAttrs, Dev, IfName, Link, LinkKind, MacvlanAttrs, MacvlanMode,
    VlanAttrs, VlanProtocol, VxlanAttrs,
};

use super::{IFLA_IFNAME, IFLA_LINKINFO, clear_unless, header};
use crate::codec::{EncodeError, Resolve, index_of};
use crate::wire::{
    Attrs, MessageWriter, read_be16, read_ipv4, read_ipv6, read_string, read_u8, read_u16, read_u32,
};

const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;

const IFLA_BR_FORWARD_DELAY: u16 = 1;
const IFLA_BR_AGEING_TIME: u16 = 4;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_VLAN_FILTERING: u16 = 7;

const VETH_INFO_PEER: u16 = 1;

const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_GROUP: u16 = 2;
const IFLA_VXLAN_LINK: u16 = 3;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_TTL: u16 = 5;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_GROUP6: u16 = 16;
const IFLA_VXLAN_LOCAL6: u16 = 17;

const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;

const IFLA_MACVLAN_MODE: u16 = 1;

const IFLA_BOND_MODE: u16 = 1;
const IFLA_BOND_MIIMON: u16 = 3;

const IFLA_VRF_TABLE: u16 = 1;

const IFLA_TUN_TYPE: u16 = 3;
/// `IFF_TUN` and `IFF_TAP` in `IFLA_TUN_TYPE`.
const TUN: u8 = 1;
const TAP: u8 = 2;

/// Returns the kind in an `IFLA_LINKINFO`, with its lower device in this namespace. A kind that
/// lacks an attribute common to all its devices is [`LinkKind::Other`].
pub(super) fn decode(info: &[u8], lower: Option<u32>) -> LinkKind {
    let info = Attrs::new(info);
    let name = read_string(info.find(IFLA_INFO_KIND).unwrap_or(&[]));
    let data = Attrs::new(info.find(IFLA_INFO_DATA).unwrap_or(&[]));
    let known = match name {
        b"bridge" => Some(LinkKind::Bridge(decode_bridge(data))),
        b"veth" => {
            let peer = data.find(VETH_INFO_PEER).and_then(read_peer);
            Some(peer.map_or_else(LinkKind::veth_without_peer, LinkKind::veth))
        }
        b"vxlan" => decode_vxlan(data).map(LinkKind::Vxlan),
        b"vlan" => decode_vlan(data, lower),
        b"macvlan" => {
            let mut macvlan = MacvlanAttrs::new(Dev::index(lower.unwrap_or(0)));
            let mode = data.find(IFLA_MACVLAN_MODE).and_then(read_u32);
            macvlan.mode = mode.and_then(MacvlanMode::from_number);
            Some(LinkKind::Macvlan(macvlan))
        }
        b"ifb" => Some(LinkKind::Ifb),
        b"dummy" => Some(LinkKind::Dummy),
        b"bond" => {
            let mut bond = BondAttrs::default();
            let mode = data.find(IFLA_BOND_MODE).and_then(read_u8);
            bond.mode = mode.and_then(BondMode::from_number);
            bond.miimon = data.find(IFLA_BOND_MIIMON).and_then(read_u32);
            Some(LinkKind::Bond(bond))
        }
        b"vrf" => data.find(IFLA_VRF_TABLE).and_then(read_u32).map(|table| LinkKind::Vrf { table }),
        b"tun" => match data.find(IFLA_TUN_TYPE).and_then(read_u8) {
            Some(TUN) => Some(LinkKind::Tun),
            Some(TAP) => Some(LinkKind::Tap),
            _ => None,
        },
        _ => None,
    };
    known.unwrap_or_else(|| LinkKind::Other(String::from_utf8_lossy(name).into()))
}

/// Reads the name of a veth's peer, which is in requests alone: the kernel reports its index.
fn read_peer(peer: &[u8]) -> Option<IfName> {
    let (_, attrs) = peer.split_first_chunk::<16>()?;
    let name = Attrs::new(attrs).find(IFLA_IFNAME)?;
    IfName::from_bytes(read_string(name)).ok()
}

/// Returns the device on which a new link of this kind is put with `IFLA_LINK`.
pub(super) fn lower(kind: &LinkKind) -> Option<Dev> {
    match kind {
        LinkKind::Vlan(VlanAttrs { link, .. }) | LinkKind::Macvlan(MacvlanAttrs { link, .. }) => {
            Some(*link)
        }
        _ => None,
    }
}

/// Writes all attributes of a kind. A veth's peer gets `peer_index`, unless that is 0.
pub(super) fn write_new(
    message: &mut MessageWriter<'_>,
    kind: &LinkKind,
    peer_index: u32,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let info = message.nest_unflagged(IFLA_LINKINFO);
    message.attr_string(IFLA_INFO_KIND, kind.name().as_bytes());
    let data = message.nest_unflagged(IFLA_INFO_DATA);
    match kind {
        LinkKind::Bridge(bridge) => write_bridge(message, bridge),
        LinkKind::Veth { peer: Some(peer), .. } => {
            let nest = message.nest_unflagged(VETH_INFO_PEER);
            message.raw(&header(peer_index, None));
            message.attr_string(IFLA_IFNAME, peer.as_bytes());
            message.end_nest(nest);
        }
        LinkKind::Vxlan(vxlan) => {
            message.attr_u32(IFLA_VXLAN_ID, vxlan.id);
            if let Some(port) = vxlan.port {
                message.attr_be16(IFLA_VXLAN_PORT, port);
            }
            write_vxlan(message, vxlan, resolve)?;
        }
        LinkKind::Vlan(VlanAttrs { id, protocol, .. }) => {
            message.attr_u16(IFLA_VLAN_ID, *id);
            message.attr_be16(IFLA_VLAN_PROTOCOL, protocol.number());
        }
        LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => write_macvlan(message, *mode),
        LinkKind::Bond(BondAttrs { mode, miimon, .. }) => {
            if let Some(mode) = mode {
                message.attr_u8(IFLA_BOND_MODE, mode.number());
            }
            write_bond(message, *miimon);
        }
        LinkKind::Vrf { table } => message.attr_u32(IFLA_VRF_TABLE, *table),
        LinkKind::Veth { .. } | LinkKind::Ifb | LinkKind::Dummy => {}
        _ => return Err(EncodeError::Refused("this kind of link cannot be written")),
    }
    message.end_nest(data);
    message.end_nest(info);
    Ok(())
}

/// Writes the attributes of a kind, including those that netlink cannot create.
#[cfg(feature = "packet")]
pub(super) fn write_observed(
    message: &mut MessageWriter<'_>,
    kind: &LinkKind,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let tun = match kind {
        LinkKind::Tun => Some(TUN),
        LinkKind::Tap => Some(TAP),
        // These have no attributes, and netlink-packet-route refuses an empty list.
        LinkKind::Veth { peer: None, .. } | LinkKind::Ifb | LinkKind::Dummy => None,
        LinkKind::Other(_) => None,
        _ => return write_new(message, kind, 0, resolve),
    };
    if kind.name().is_empty() {
        return Ok(());
    }
    let info = message.nest_unflagged(IFLA_LINKINFO);
    message.attr_string(IFLA_INFO_KIND, kind.name().as_bytes());
    if let Some(number) = tun {
        let data = message.nest_unflagged(IFLA_INFO_DATA);
        message.attr_u8(IFLA_TUN_TYPE, number);
        message.end_nest(data);
    }
    message.end_nest(info);
    Ok(())
}

/// Returns true if a kind has fields that can change in place.
fn has_changes(kind: &LinkKind) -> bool {
    match kind {
        LinkKind::Bridge(bridge) => *bridge != BridgeAttrs::default(),
        LinkKind::Vxlan(vxlan) => {
            let mut fixed = VxlanAttrs::new(vxlan.id);
            fixed.port = vxlan.port;
            *vxlan != fixed
        }
        LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => mode.is_some(),
        LinkKind::Bond(BondAttrs { miimon, .. }) => miimon.is_some(),
        _ => false,
    }
}

/// Returns the attributes of a link's kind that one message changes together with the link.
pub(super) fn changed_first(link: &Link) -> Option<LinkKind> {
    let kind = match &link.kind {
        Some(LinkKind::Bridge(bridge)) if is_stopped(bridge) => {
            let mut first = *bridge;
            first.forward_delay = None;
            LinkKind::Bridge(first)
        }
        Some(LinkKind::Vxlan(_)) if link.mtu.is_some() => return None,
        kind => kind.clone()?,
    };
    has_changes(&kind).then_some(kind)
}

/// Returns the attributes of a link's kind that a later message changes.
pub(super) fn changed_after(link: &Link) -> Option<LinkKind> {
    let kind = match &link.kind {
        Some(LinkKind::Bridge(bridge)) if is_stopped(bridge) => {
            let mut last = BridgeAttrs::default();
            last.forward_delay = bridge.forward_delay;
            LinkKind::Bridge(last)
        }
        Some(kind @ LinkKind::Vxlan(_)) if link.mtu.is_some() => kind.clone(),
        _ => return None,
    };
    has_changes(&kind).then_some(kind)
}

/// Returns true if the spanning tree protocol is to be switched off. The kernel then accepts any
/// forwarding delay.
fn is_stopped(bridge: &BridgeAttrs) -> bool {
    bridge.stp == Some(false)
}

/// Writes the stated attributes of a kind that can change in place. There must be one: the kernel
/// refuses any data for kinds that cannot change.
pub(super) fn write_change(
    message: &mut MessageWriter<'_>,
    number: u16,
    wanted: &LinkKind,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let info = message.nest_unflagged(number);
    message.attr_string(IFLA_INFO_KIND, wanted.name().as_bytes());
    let data = message.nest_unflagged(IFLA_INFO_DATA);
    match wanted {
        LinkKind::Bridge(bridge) => write_bridge(message, bridge),
        LinkKind::Vxlan(vxlan) => write_vxlan(message, vxlan, resolve)?,
        LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => write_macvlan(message, *mode),
        LinkKind::Bond(BondAttrs { miimon, .. }) => write_bond(message, *miimon),
        _ => return Err(EncodeError::Refused("this kind of link cannot be changed")),
    }
    message.end_nest(data);
    message.end_nest(info);
    Ok(())
}

/// Clears the attributes that an update does not write.
pub(super) fn clear_unwritten(kind: &mut LinkKind, written: &BTreeSet<&str>) {
    match kind {
        LinkKind::Bridge(bridge) => {
            clear_unless(written.contains("stp"), &mut bridge.stp);
            clear_unless(written.contains("vlan_filtering"), &mut bridge.vlan_filtering);
            clear_unless(written.contains("forward_delay"), &mut bridge.forward_delay);
            clear_unless(written.contains("ageing_time"), &mut bridge.ageing_time);
        }
        LinkKind::Vxlan(vxlan) => {
            clear_unless(written.contains("local"), &mut vxlan.local);
            clear_unless(written.contains("remote"), &mut vxlan.remote);
            clear_unless(written.contains("link"), &mut vxlan.link);
            clear_unless(written.contains("learning"), &mut vxlan.learning);
            clear_unless(written.contains("ttl"), &mut vxlan.ttl);
        }
        LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => {
            clear_unless(written.contains("mode"), mode)
        }
        LinkKind::Bond(BondAttrs { miimon, .. }) => {
            clear_unless(written.contains("miimon"), miimon)
        }
        _ => {}
    }
}

fn decode_bridge(data: Attrs<'_>) -> BridgeAttrs {
    let mut bridge = BridgeAttrs::default();
    for (number, payload) in data {
        match number {
            IFLA_BR_STP_STATE => bridge.stp = read_u32(payload).map(|state| state != 0),
            IFLA_BR_VLAN_FILTERING => {
                bridge.vlan_filtering = read_u8(payload).map(|on| on != 0);
            }
            IFLA_BR_FORWARD_DELAY => bridge.forward_delay = read_u32(payload),
            IFLA_BR_AGEING_TIME => bridge.ageing_time = read_u32(payload),
            _ => {}
        }
    }
    bridge
}

fn write_bridge(message: &mut MessageWriter<'_>, bridge: &BridgeAttrs) {
    if let Some(delay) = bridge.forward_delay {
        message.attr_u32(IFLA_BR_FORWARD_DELAY, delay);
    }
    if let Some(time) = bridge.ageing_time {
        message.attr_u32(IFLA_BR_AGEING_TIME, time);
    }
    if let Some(stp) = bridge.stp {
        message.attr_u32(IFLA_BR_STP_STATE, u32::from(stp));
    }
    if let Some(filtering) = bridge.vlan_filtering {
        message.attr_u8(IFLA_BR_VLAN_FILTERING, u8::from(filtering));
    }
}

fn decode_vxlan(data: Attrs<'_>) -> Option<VxlanAttrs> {
    let mut vxlan = VxlanAttrs::new(read_u32(data.find(IFLA_VXLAN_ID)?)?);
    for (number, payload) in data {
        let v4 = || read_ipv4(payload).map(IpAddr::V4);
        let v6 = || read_ipv6(payload).map(IpAddr::V6);
        match number {
            IFLA_VXLAN_GROUP => vxlan.remote = v4(),
            IFLA_VXLAN_GROUP6 => vxlan.remote = v6(),
            IFLA_VXLAN_LOCAL => vxlan.local = v4(),
            IFLA_VXLAN_LOCAL6 => vxlan.local = v6(),
            IFLA_VXLAN_LINK => vxlan.link = read_u32(payload).map(Dev::index),
            IFLA_VXLAN_TTL => vxlan.ttl = read_u8(payload),
            IFLA_VXLAN_LEARNING => vxlan.learning = read_u8(payload).map(|on| on != 0),
            IFLA_VXLAN_PORT => vxlan.port = read_be16(payload),
            _ => {}
        }
    }
    Some(vxlan)
}

/// Writes the attributes of a VXLAN device that can change in place.
fn write_vxlan(
    message: &mut MessageWriter<'_>,
    vxlan: &VxlanAttrs,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    for (address, v4, v6) in [
        (vxlan.remote, IFLA_VXLAN_GROUP, IFLA_VXLAN_GROUP6),
        (vxlan.local, IFLA_VXLAN_LOCAL, IFLA_VXLAN_LOCAL6),
    ] {
        if let Some(address) = address {
            message.attr_ip(if address.is_ipv4() { v4 } else { v6 }, address);
        }
    }
    if let Some(link) = vxlan.link {
        message.attr_u32(IFLA_VXLAN_LINK, index_of(link, resolve)?);
    }
    if let Some(ttl) = vxlan.ttl {
        message.attr_u8(IFLA_VXLAN_TTL, ttl);
    }
    if let Some(learning) = vxlan.learning {
        message.attr_u8(IFLA_VXLAN_LEARNING, u8::from(learning));
    }
    Ok(())
}

fn decode_vlan(data: Attrs<'_>, lower: Option<u32>) -> Option<LinkKind> {
    let protocol = data.find(IFLA_VLAN_PROTOCOL).map(read_be16);
    Some(LinkKind::Vlan(
        VlanAttrs::new(Dev::index(lower.unwrap_or(0)), read_u16(data.find(IFLA_VLAN_ID)?)?)
            .with_protocol(
                protocol.map_or(Some(VlanProtocol::Dot1Q), |number| {
                    VlanProtocol::from_number(number?)
                })?,
            ),
    ))
}

fn write_macvlan(message: &mut MessageWriter<'_>, mode: Option<MacvlanMode>) {
    if let Some(mode) = mode {
        message.attr_u32(IFLA_MACVLAN_MODE, mode.number());
    }
}

fn write_bond(message: &mut MessageWriter<'_>, miimon: Option<u32>) {
    if let Some(miimon) = miimon {
        message.attr_u32(IFLA_BOND_MIIMON, miimon);
    }
}
