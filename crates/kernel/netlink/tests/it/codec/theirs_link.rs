//! Links as netlink-packet-route's messages.

use std::net::IpAddr;

use netlink_packet_route::link::{
    BridgeStpState, InfoBond, InfoBridge, InfoData, InfoKind, InfoMacVlan, InfoVeth, InfoVlan,
    InfoVrf, InfoVxlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use trueup_net::{BondAttrs, Link, LinkKind, MacvlanAttrs, VlanAttrs};

use super::theirs::index;

/// Returns the message that creates the link, without index and alias.
pub(crate) fn link(ours: &Link) -> LinkMessage {
    let mut theirs = LinkMessage::default();
    theirs.header.flags.set(LinkFlags::Up, ours.up == Some(true));
    theirs.header.change_mask.set(LinkFlags::Up, ours.up.is_some());
    let kind = ours.kind.as_ref().unwrap();
    let below = match kind {
        LinkKind::Vlan(VlanAttrs { link, .. }) | LinkKind::Macvlan(MacvlanAttrs { link, .. }) => {
            Some(*link)
        }
        _ => None,
    };
    let (kind, data) = info(kind);
    let mut info = vec![LinkInfo::Kind(kind)];
    info.extend(data.map(LinkInfo::Data));
    theirs.attributes = [
        Some(LinkAttribute::IfName(ours.name.to_string())),
        ours.mtu.map(LinkAttribute::Mtu),
        ours.address.map(|address| LinkAttribute::Address(address.as_bytes().to_vec())),
        ours.master.flatten().map(|dev| LinkAttribute::Controller(index(dev))),
        ours.group.map(LinkAttribute::Group),
        below.map(|dev| LinkAttribute::Link(index(dev))),
        Some(LinkAttribute::LinkInfo(info)),
    ]
    .into_iter()
    .flatten()
    .collect();
    theirs
}

fn info(kind: &LinkKind) -> (InfoKind, Option<InfoData>) {
    match kind {
        LinkKind::Bridge(bridge) => {
            let stp = |on| {
                if on { BridgeStpState::KernelStp } else { BridgeStpState::Disabled }
            };
            let data = [
                bridge.forward_delay.map(InfoBridge::ForwardDelay),
                bridge.ageing_time.map(InfoBridge::AgeingTime),
                bridge.stp.map(|on| InfoBridge::StpState(stp(on))),
                bridge.vlan_filtering.map(InfoBridge::VlanFiltering),
            ];
            let data = data.into_iter().flatten().collect();
            (InfoKind::Bridge, Some(InfoData::Bridge(data)))
        }
        LinkKind::Veth { peer, .. } => {
            let mut other = LinkMessage::default();
            let name = peer.unwrap().to_string();
            other.attributes.push(LinkAttribute::IfName(name));
            (InfoKind::Veth, Some(InfoData::Veth(InfoVeth::Peer(other))))
        }
        LinkKind::Vxlan(vxlan) => {
            let address =
                |address: IpAddr, v4: fn(_) -> InfoVxlan, v6: fn(_) -> InfoVxlan| match address {
                    IpAddr::V4(ip) => v4(ip),
                    IpAddr::V6(ip) => v6(ip),
                };
            let data = [
                Some(InfoVxlan::Id(vxlan.id)),
                vxlan.port.map(InfoVxlan::Port),
                vxlan.remote.map(|ip| address(ip, InfoVxlan::Group, InfoVxlan::Group6)),
                vxlan.local.map(|ip| address(ip, InfoVxlan::Local, InfoVxlan::Local6)),
                vxlan.link.map(|dev| InfoVxlan::Link(index(dev))),
                vxlan.ttl.map(InfoVxlan::Ttl),
                vxlan.learning.map(InfoVxlan::Learning),
            ];
            let data = data.into_iter().flatten().collect();
            (InfoKind::Vxlan, Some(InfoData::Vxlan(data)))
        }
        LinkKind::Vlan(VlanAttrs { id, protocol, .. }) => {
            let data = vec![InfoVlan::Id(*id), InfoVlan::Protocol(protocol.number().into())];
            (InfoKind::Vlan, Some(InfoData::Vlan(data)))
        }
        LinkKind::Macvlan(MacvlanAttrs { mode, .. }) => {
            let mode = mode.map(|mode| InfoMacVlan::Mode(mode.number().into()));
            let data = InfoData::MacVlan(mode.into_iter().collect());
            (InfoKind::MacVlan, Some(data))
        }
        LinkKind::Bond(BondAttrs { mode, miimon, .. }) => {
            let data = [
                mode.map(|mode| InfoBond::Mode(mode.number().into())),
                miimon.map(InfoBond::MiiMon),
            ];
            let data = data.into_iter().flatten().collect();
            (InfoKind::Bond, Some(InfoData::Bond(data)))
        }
        LinkKind::Vrf { table } => {
            let data = InfoData::Vrf(vec![InfoVrf::TableId(*table)]);
            (InfoKind::Vrf, Some(data))
        }
        LinkKind::Ifb => (InfoKind::Ifb, None),
        LinkKind::Dummy => (InfoKind::Dummy, None),
        other => unreachable!("not created: {other:?}"),
    }
}
