//! Random desirable objects in canonical form.

use std::net::IpAddr;

use ipnetwork::IpNetwork;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trueup_net::{
    Address, AddressFlags, BondAttrs, BondMode, BridgeAttrs, Dev, Family, FwMark, IfName,
    Lifetimes, Link, LinkAddr, LinkKind, MacvlanAttrs, MacvlanMode, Metric, Metrics, Neighbour,
    NeighbourState, NextHop, NextHops, Nexthop, NexthopTarget, Prefix, Route, RouteType, Rule,
    RuleAction, Scope, VlanAttrs, VlanProtocol, VxlanAttrs,
};

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Inet), Just(Family::Inet6)]
}

fn ip(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::Inet => any::<[u8; 4]>().prop_map(IpAddr::from).boxed(),
        Family::Inet6 => any::<[u8; 16]>().prop_map(IpAddr::from).boxed(),
    }
}

fn any_ip() -> impl Strategy<Value = IpAddr> {
    family().prop_flat_map(ip)
}

fn network(family: Family) -> impl Strategy<Value = IpNetwork> {
    (ip(family), 0..=family.max_len()).prop_map(|(ip, len)| IpNetwork::new(ip, len).unwrap())
}

fn prefix(family: Family) -> impl Strategy<Value = Prefix> {
    network(family).prop_map(Prefix::containing)
}

fn dev() -> impl Strategy<Value = Dev> {
    (1..1_000_000u32).prop_map(Dev::index)
}

fn if_name() -> impl Strategy<Value = IfName> {
    "[a-z0-9._-]{3,15}".prop_map(|name| name.parse().unwrap())
}

fn link_addr() -> impl Strategy<Value = LinkAddr> {
    any::<[u8; 6]>().prop_map(|bytes| LinkAddr::from_bytes(&bytes).unwrap())
}

fn hop() -> impl Strategy<Value = NextHop> {
    let hop = (option::of(any_ip()), dev(), 1..=256u16, any::<bool>());
    hop.prop_map(|(via, dev, weight, onlink)| {
        let mut it = NextHop::default().with_weight(weight).with_onlink(onlink);
        it.via = via;
        it.dev = Some(dev);
        it
    })
}

fn nexthops() -> impl Strategy<Value = NextHops> {
    prop_oneof![
        3 => hop().prop_map(NextHops::One),
        2 => vec(hop(), 2..5).prop_map(NextHops::Many),
        1 => (1..u32::MAX).prop_map(|id| NextHops::Object(id, vec![])),
    ]
}

fn metrics() -> impl Strategy<Value = Metrics> {
    let number = (0..Metric::ALL.len(), any::<u32>());
    let all = (vec(number, 0..4), option::of("[a-z]{2,8}"), any::<u32>());
    let some = all.prop_map(|(numbers, congctl, lock)| {
        let mut metrics = Metrics::default();
        for (at, value) in numbers {
            metrics.set(Metric::ALL[at], value);
        }
        metrics.set_congctl(congctl);
        metrics.set_lock(lock);
        metrics
    });
    option::weighted(0.3, some).prop_map(Option::unwrap_or_default)
}

pub(crate) fn route() -> impl Strategy<Value = Route> {
    family().prop_flat_map(|family| {
        let kind = prop_oneof![
            4 => Just(RouteType::Unicast),
            1 => Just(RouteType::Local),
            1 => Just(RouteType::Multicast),
            1 => Just(RouteType::Blackhole),
            1 => Just(RouteType::Unreachable),
            1 => Just(RouteType::Prohibit),
            1 => Just(RouteType::Throw),
        ];
        let key = (
            prop_oneof![1..256u32, any::<u32>()],
            prefix(family),
            any::<u32>(),
            any::<u8>(),
            option::of(prefix(family)),
        );
        let value = (kind, nexthops(), option::of(ip(family)), any::<u8>(), metrics());
        (key, value, 1..=255u8).prop_map(move |(key, value, protocol)| {
            let (table, dst, metric, tos, from) = key;
            let (kind, nexthops, src, scope, metrics) = value;
            let mut route = Route::new(dst, nexthops)
                .with_table(table)
                .with_metric(metric)
                .with_tos(tos)
                .with_kind(kind)
                .with_scope(Scope(scope))
                .with_metrics(metrics)
                .with_protocol(protocol);
            route.from = from.filter(|_| family == Family::Inet6);
            route.src = src;
            route.canonical()
        })
    })
}

pub(crate) fn address() -> impl Strategy<Value = Address> {
    family().prop_flat_map(|family| {
        let lifetimes = prop_oneof![
            Just(Lifetimes::default()),
            (1..u32::MAX, any::<u32>()).prop_map(|(valid, preferred)| Lifetimes {
                valid,
                preferred: preferred.min(valid),
            }),
        ];
        let identity = (dev(), network(family), option::of(ip(family)));
        let ipv4 = (
            any::<u8>(),
            // netlink-packet-route reads labels as text.
            option::of("[a-z0-9:./-]{1,15}".prop_map(|text| text.parse().unwrap())),
            option::of(any::<[u8; 4]>()),
        );
        let rest = (lifetimes, any::<u32>(), any::<u32>(), any::<u8>());
        (identity, ipv4, rest).prop_map(|(identity, ipv4, rest)| {
            let mut address = Address::new(identity.0, identity.1)
                .with_scope(Scope(ipv4.0))
                .with_lifetimes(rest.0)
                .with_flags(AddressFlags::from_bits(rest.1))
                .with_metric(rest.2)
                .with_protocol(rest.3);
            address.peer = identity.2;
            address.label = ipv4.1;
            address.broadcast = ipv4.2.map(Into::into);
            address.canonical(None)
        })
    })
}

pub(crate) fn neighbour() -> impl Strategy<Value = Neighbour> {
    let state = prop_oneof![
        Just(NeighbourState::Permanent),
        Just(NeighbourState::NoArp),
        Just(NeighbourState::Dynamic),
    ];
    let value = (option::of(link_addr()), state, any::<[bool; 3]>(), any::<u8>());
    (dev(), any_ip(), value).prop_map(|(dev, dst, (lladdr, state, flags, protocol))| {
        let [router, ext_learn, proxy] = flags;
        let mut neighbour = Neighbour::proxy(dev, dst)
            .with_state(state)
            .with_router(router)
            // A state that the kernel changes by itself can be declared in no other way.
            .with_ext_learn(ext_learn || state == NeighbourState::Dynamic)
            .with_proxy(proxy)
            .with_protocol(protocol);
        neighbour.lladdr = lladdr;
        neighbour.canonical()
    })
}

fn action() -> impl Strategy<Value = RuleAction> {
    prop_oneof![
        4 => (1..u32::MAX).prop_map(RuleAction::Lookup),
        1 => (1..u32::MAX).prop_map(RuleAction::Goto),
        1 => Just(RuleAction::Blackhole),
        1 => Just(RuleAction::Unreachable),
        1 => Just(RuleAction::Prohibit),
        1 => Just(RuleAction::Nop),
    ]
}

pub(crate) fn rule() -> impl Strategy<Value = Rule> {
    family().prop_flat_map(|family| {
        let head = (1..u32::MAX, 1..=255u8, action(), any::<bool>());
        let networks = (option::of(network(family)), option::of(network(family)));
        let names = (option::of(if_name()), option::of(if_name()));
        let mark = option::of((any::<u32>(), any::<u32>()));
        let ports = || option::of((any::<u16>(), any::<u16>()).prop_map(|(a, b)| (a..=b).into()));
        let bytes = (any::<u8>(), option::of(any::<u8>()), any::<bool>());
        let uids = option::of((any::<u32>(), any::<u32>()).prop_map(|(a, b)| (a..=b).into()));
        let limits = (option::of(any::<u32>()), option::of(any::<u32>()));
        let selectors = (networks, names, mark, ports(), ports(), bytes, uids, limits);
        (head, selectors).prop_map(move |(head, selectors)| {
            let (networks, names, mark, sport, dport, bytes, uidrange, limits) = selectors;
            let mut rule = Rule::new(family, head.0, head.2)
                .with_protocol(head.1)
                .with_not(head.3)
                .with_tos(bytes.0)
                .with_l3mdev(bytes.2);
            rule.from = networks.0;
            rule.to = networks.1;
            rule.iif = names.0;
            rule.oif = names.1;
            rule.fwmark = mark.map(|(mark, mask)| FwMark { mark, mask });
            rule.ipproto = bytes.1;
            rule.sport = sport;
            rule.dport = dport;
            rule.uidrange = uidrange;
            rule.suppress_prefixlength = limits.0;
            rule.suppress_ifgroup = limits.1;
            rule.canonical()
        })
    })
}

fn vxlan() -> impl Strategy<Value = VxlanAttrs> {
    let ends = (option::of(any_ip()), option::of(any_ip()), option::of(dev()));
    let rest = (option::of(any::<u16>()), option::of(any::<bool>()), option::of(any::<u8>()));
    (0..1u32 << 24, ends, rest).prop_map(|(id, ends, rest)| {
        let mut it = VxlanAttrs::new(id);
        it.local = ends.0;
        it.remote = ends.1;
        it.port = rest.0;
        it.learning = rest.1;
        it.ttl = rest.2;
        it.link = ends.2;
        it
    })
}

fn bridge() -> impl Strategy<Value = BridgeAttrs> {
    let flags = (option::of(any::<bool>()), option::of(any::<bool>()));
    let times = (option::of(any::<u32>()), option::of(any::<u32>()));
    (flags, times).prop_map(|(flags, times)| {
        let mut it = BridgeAttrs::default();
        it.stp = flags.0;
        it.vlan_filtering = flags.1;
        it.forward_delay = times.0;
        it.ageing_time = times.1;
        it
    })
}

fn link_kind() -> impl Strategy<Value = LinkKind> {
    let mode = |all: usize| option::of(0..all);
    let protocol = prop_oneof![Just(VlanProtocol::Dot1Q), Just(VlanProtocol::Dot1Ad)];
    prop_oneof![
        bridge().prop_map(LinkKind::Bridge),
        if_name().prop_map(LinkKind::veth),
        vxlan().prop_map(LinkKind::Vxlan),
        (dev(), 0..4095u16, protocol).prop_map(|(link, id, protocol)| LinkKind::Vlan(
            VlanAttrs::new(link, id).with_protocol(protocol)
        )),
        (dev(), mode(MacvlanMode::ALL.len())).prop_map(|(link, at)| {
            let mut it = MacvlanAttrs::new(link);
            it.mode = at.map(|at| MacvlanMode::ALL[at]);
            LinkKind::Macvlan(it)
        }),
        Just(LinkKind::Ifb),
        Just(LinkKind::Dummy),
        (mode(BondMode::ALL.len()), option::of(any::<u32>())).prop_map(|(at, miimon)| {
            LinkKind::Bond({
                let mut it = BondAttrs::default();
                it.mode = at.map(|at| BondMode::ALL[at]);
                it.miimon = miimon;
                it
            })
        }),
        any::<u32>().prop_map(|table| LinkKind::Vrf { table }),
    ]
}

/// A link with every field set, like an observed one.
pub(crate) fn link() -> impl Strategy<Value = Link> {
    let kind = (if_name(), 1..1_000_000u32, link_kind());
    let common = (any::<bool>(), any::<u32>(), link_addr());
    let rest = (option::of(dev()), "[ -~]{0,40}", any::<u32>());
    (kind, common, rest).prop_map(|(kind, common, rest)| {
        let mut it = Link::new(kind.0, kind.2)
            .with_index(kind.1)
            .with_up(common.0)
            .with_mtu(common.1)
            .with_address(common.2)
            .with_alias(rest.1.into_bytes())
            .with_group(rest.2);
        it.master = Some(rest.0);
        it
    })
}

pub(crate) fn nexthop() -> impl Strategy<Value = Nexthop> {
    let way = (family(), dev(), any::<bool>());
    let one = way.prop_flat_map(|(family, dev, onlink)| {
        option::of(ip(family)).prop_map(move |via| {
            let mut hop = NextHop::dev(dev).with_onlink(onlink);
            hop.via = via;
            NexthopTarget::One(family, hop)
        })
    });
    let target = prop_oneof![
        3 => one,
        1 => family().prop_map(NexthopTarget::Blackhole),
        2 => vec((1..u32::MAX, 1..=256u16), 1..5).prop_map(NexthopTarget::Group),
    ];
    (1..u32::MAX, target, any::<u8>()).prop_map(|(id, target, protocol)| {
        Nexthop::new(id, target).with_protocol(protocol).canonical()
    })
}
