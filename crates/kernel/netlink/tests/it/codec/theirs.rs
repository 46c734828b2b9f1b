//! The same objects as netlink-packet-route's messages.

use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, CacheInfo,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
    NeighbourState as TheirState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RouteVia,
};
use netlink_packet_route::rule::{
    RuleAction as TheirAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange, RuleUidRange,
};
use trueup_net::{
    Address, Dev, Family, Metric, Metrics, Neighbour, NeighbourState, NextHop, NextHops, Route,
    RouteType, Rule, RuleAction,
};

pub(crate) fn index(dev: Dev) -> u32 {
    dev.as_index().unwrap()
}

fn family(family: Family) -> AddressFamily {
    match family {
        Family::Inet => AddressFamily::Inet,
        Family::Inet6 => AddressFamily::Inet6,
    }
}

pub(crate) fn route(ours: &Route) -> RouteMessage {
    let mut theirs = RouteMessage::default();
    let header = &mut theirs.header;
    header.address_family = family(ours.family());
    header.destination_prefix_length = ours.dst.len();
    header.source_prefix_length = ours.from.map_or(0, |from| from.len());
    header.tos = ours.tos;
    header.table = u8::try_from(ours.table).unwrap_or(0);
    header.protocol = ours.protocol.into();
    header.scope = ours.scope.map_or(0, |scope| scope.0).into();
    header.kind = match ours.kind {
        RouteType::Unicast => 1u8,
        RouteType::Local => 2,
        RouteType::Broadcast => 3,
        RouteType::Anycast => 4,
        RouteType::Multicast => 5,
        RouteType::Blackhole => 6,
        RouteType::Unreachable => 7,
        RouteType::Prohibit => 8,
        RouteType::Throw => 9,
        RouteType::Other(number) => number,
        other => panic!("{other:?}"),
    }
    .into();
    let attributes = &mut theirs.attributes;
    attributes.push(RouteAttribute::Table(ours.table));
    if !ours.dst.is_default() {
        attributes.push(RouteAttribute::Destination(ours.dst.address().into()));
    }
    attributes.extend(ours.from.map(|from| RouteAttribute::Source(from.address().into())));
    attributes.extend((ours.metric != 0).then_some(RouteAttribute::Priority(ours.metric)));
    attributes.extend(ours.src.map(|src| RouteAttribute::PrefSource(src.into())));
    match &ours.nexthops {
        NextHops::None => {}
        NextHops::One(hop) => {
            attributes.extend(gateway(ours.family(), hop.via));
            attributes.extend(hop.dev.map(|dev| RouteAttribute::Oif(index(dev))));
            if hop.onlink {
                theirs.header.flags = RouteFlags::Onlink;
            }
        }
        NextHops::Many(hops) => {
            let hops = hops.iter().map(|one| hop(ours.family(), one)).collect();
            attributes.push(RouteAttribute::MultiPath(hops));
        }
        NextHops::Object(id, _) => attributes.push(RouteAttribute::NhId(*id)),
        other => panic!("{other:?}"),
    }
    if !ours.metrics.is_empty() {
        attributes.push(RouteAttribute::Metrics(metrics(&ours.metrics)));
    }
    theirs
}

fn gateway(family: Family, via: Option<IpAddr>) -> Option<RouteAttribute> {
    via.map(|address| {
        if Family::of(address) == family {
            RouteAttribute::Gateway(RouteAddress::from(address))
        } else {
            RouteAttribute::Via(RouteVia::from(address))
        }
    })
}

fn hop(family: Family, ours: &NextHop) -> RouteNextHop {
    let mut theirs = RouteNextHop::default();
    theirs.hops = u8::try_from(ours.weight - 1).unwrap();
    theirs.interface_index = ours.dev.map_or(0, index);
    if ours.onlink {
        theirs.flags = RouteNextHopFlags::Onlink;
    }
    theirs.attributes.extend(gateway(family, ours.via));
    theirs
}

fn metrics(ours: &Metrics) -> Vec<RouteMetric> {
    let mut theirs = Vec::new();
    theirs.extend((ours.lock() != 0).then_some(RouteMetric::Lock(ours.lock())));
    theirs.extend(ours.iter().map(|(metric, value)| match metric {
        Metric::Mtu => RouteMetric::Mtu(value),
        Metric::Window => RouteMetric::Window(value),
        Metric::Rtt => RouteMetric::Rtt(value),
        Metric::RttVar => RouteMetric::RttVar(value),
        Metric::SsThresh => RouteMetric::SsThresh(value),
        Metric::Cwnd => RouteMetric::Cwnd(value),
        Metric::AdvMss => RouteMetric::Advmss(value),
        Metric::Reordering => RouteMetric::Reordering(value),
        Metric::HopLimit => RouteMetric::Hoplimit(value),
        Metric::InitCwnd => RouteMetric::InitCwnd(value),
        Metric::Features => RouteMetric::Features(value),
        Metric::RtoMin => RouteMetric::RtoMin(value),
        Metric::InitRwnd => RouteMetric::InitRwnd(value),
        Metric::QuickAck => RouteMetric::QuickAck(value),
        Metric::FastOpenNoCookie => RouteMetric::FastopenNoCookie(value),
        other => panic!("{other:?}"),
    }));
    theirs.extend(ours.congctl().map(|name| RouteMetric::CcAlgo(name.to_owned())));
    theirs
}

pub(crate) fn address(ours: &Address) -> AddressMessage {
    let ip = ours.address.ip();
    let mut theirs = AddressMessage::default();
    theirs.header.family = family(ours.family());
    theirs.header.prefix_len = ours.address.prefix();
    theirs.header.flags = AddressHeaderFlags::from_bits_retain(ours.flags.bits() as u8);
    theirs.header.scope = ours.scope.0.into();
    theirs.header.index = index(ours.dev);
    let mut lifetimes = CacheInfo::default();
    lifetimes.ifa_preferred = ours.lifetimes.preferred;
    lifetimes.ifa_valid = ours.lifetimes.valid;
    let attributes = &mut theirs.attributes;
    attributes.push(AddressAttribute::Local(ip));
    attributes.push(AddressAttribute::Address(ours.peer.unwrap_or(ip)));
    attributes.extend(ours.label.map(|name| AddressAttribute::Label(name.to_string())));
    attributes.extend(ours.broadcast.map(|ip: Ipv4Addr| AddressAttribute::Broadcast(ip)));
    attributes.push(AddressAttribute::CacheInfo(lifetimes));
    let flags = AddressFlags::from_bits_retain(ours.flags.bits());
    attributes.push(AddressAttribute::Flags(flags));
    attributes.extend((ours.metric != 0).then_some(AddressAttribute::RoutePriority(ours.metric)));
    let protocol = AddressAttribute::Protocol(ours.protocol.into());
    attributes.extend((ours.protocol != 0).then_some(protocol));
    theirs
}

pub(crate) fn neighbour(ours: &Neighbour) -> NeighbourMessage {
    let mut theirs = NeighbourMessage::default();
    theirs.header.family = family(ours.family());
    theirs.header.ifindex = index(ours.dev);
    theirs.header.state = match ours.state {
        NeighbourState::Permanent => TheirState::Permanent,
        NeighbourState::NoArp => TheirState::Noarp,
        NeighbourState::Dynamic if ours.lladdr.is_none() => TheirState::None,
        NeighbourState::Dynamic => TheirState::Reachable,
    };
    for (set, flag) in [
        (ours.router, NeighbourFlags::Router),
        (ours.ext_learn, NeighbourFlags::ExtLearned),
        (ours.proxy, NeighbourFlags::Proxy),
    ] {
        theirs.header.flags.set(flag, set);
    }
    let dst = match ours.dst {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    };
    let attributes = &mut theirs.attributes;
    attributes.push(NeighbourAttribute::Destination(dst));
    let lladdr = ours.lladdr.map(|lladdr| lladdr.as_bytes().to_vec());
    attributes.extend(lladdr.map(NeighbourAttribute::LinkLayerAddress));
    let protocol = NeighbourAttribute::Protocol(ours.protocol.into());
    attributes.extend((ours.protocol != 0).then_some(protocol));
    theirs
}

pub(crate) fn rule(ours: &Rule) -> RuleMessage {
    let mut theirs = RuleMessage::default();
    theirs.header.family = family(ours.family);
    theirs.header.dst_len = ours.to.map_or(0, |to| to.prefix());
    theirs.header.src_len = ours.from.map_or(0, |from| from.prefix());
    theirs.header.tos = ours.tos;
    theirs.header.flags.set(RuleFlags::Invert, ours.not);
    let (action, attribute) = match ours.action {
        RuleAction::Lookup(table) => {
            let table = (table != 0).then_some(RuleAttribute::Table(table));
            (TheirAction::ToTable, table)
        }
        RuleAction::Goto(target) => (TheirAction::Goto, Some(RuleAttribute::Goto(target))),
        RuleAction::Blackhole => (TheirAction::Blackhole, None),
        RuleAction::Unreachable => (TheirAction::Unreachable, None),
        RuleAction::Prohibit => (TheirAction::Prohibit, None),
        RuleAction::Nop => (TheirAction::Nop, None),
        other => panic!("{other:?}"),
    };
    theirs.header.action = action;
    let ports =
        |range: trueup_net::NumberRange<u16>| RulePortRange { start: range.start, end: range.end };
    let uids =
        |range: trueup_net::NumberRange<u32>| RuleUidRange { start: range.start, end: range.end };
    theirs.attributes = [
        Some(RuleAttribute::Priority(ours.priority)),
        Some(RuleAttribute::Protocol(ours.protocol.into())),
        attribute,
        ours.to.map(|to| RuleAttribute::Destination(to.ip())),
        ours.from.map(|from| RuleAttribute::Source(from.ip())),
        ours.iif.map(|name| RuleAttribute::Iifname(name.to_string())),
        ours.oif.map(|name| RuleAttribute::Oifname(name.to_string())),
        ours.fwmark.map(|fw| RuleAttribute::FwMark(fw.mark)),
        ours.fwmark.map(|fw| RuleAttribute::FwMask(fw.mask)),
        ours.ipproto.map(|proto| RuleAttribute::IpProtocol(i32::from(proto).into())),
        ours.sport.map(|range| RuleAttribute::SourcePortRange(ports(range))),
        ours.dport.map(|range| RuleAttribute::DestinationPortRange(ports(range))),
        ours.uidrange.map(|range| RuleAttribute::UidRange(uids(range))),
        ours.l3mdev.then_some(RuleAttribute::L3MDev(true)),
        ours.suppress_prefixlength.map(RuleAttribute::SuppressPrefixLen),
        ours.suppress_ifgroup.map(RuleAttribute::SuppressIfGroup),
    ]
    .into_iter()
    .flatten()
    .collect();
    theirs
}
