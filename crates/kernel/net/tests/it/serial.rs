//! Objects and keys are read back as they were written, with any content. Values that no
//! constructor would make are refused.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use proptest::sample::select;
use trueup_net::{
    Address, AddressFlags, BondAttrs, BondMode, BridgeAttrs, Dev, Family, FwMark, IfName,
    IpNetwork, Label, Lifetimes, Link, LinkAddr, LinkKind, MacvlanAttrs, MacvlanMode, Metric,
    Metrics, Neighbour, NeighbourState, NextHop, NextHops, NumberRange, Object, ObjectKey, Prefix,
    Route, RouteType, Rule, RuleAction, Scope, VlanAttrs, VlanProtocol, VxlanAttrs,
};

fn name() -> impl Strategy<Value = IfName> {
    let any_bytes = prop::collection::vec(any::<u8>(), 1..=15);
    prop_oneof!["[a-z]{1,10}[0-9]{1,5}".prop_map(String::into_bytes), any_bytes]
        .prop_filter_map("no name", |bytes| IfName::from_bytes(&bytes).ok())
}

fn label() -> impl Strategy<Value = Label> {
    let any_bytes = prop::collection::vec(1..=255_u8, 1..=15);
    any_bytes.prop_map(|bytes| Label::from_bytes(&bytes).unwrap())
}

fn lladdr() -> impl Strategy<Value = LinkAddr> {
    prop::collection::vec(any::<u8>(), 1..=32)
        .prop_map(|bytes| LinkAddr::from_bytes(&bytes).unwrap())
}

fn dev() -> impl Strategy<Value = Dev> {
    let number = any::<u32>();
    (number, any::<bool>()).prop_map(
        |(n, planned)| {
            if planned { Dev::planned(n) } else { Dev::index(n) }
        },
    )
}

fn network() -> impl Strategy<Value = IpNetwork> {
    (any::<IpAddr>(), 0..=128_u8).prop_map(|(ip, len)| {
        let len = len.min(Family::of(ip).max_len());
        IpNetwork::new(ip, len).unwrap()
    })
}

fn prefix() -> impl Strategy<Value = Prefix> {
    network().prop_map(Prefix::containing)
}

fn opt<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(of)
}

fn attributes() -> impl Strategy<Value = BridgeAttrs> {
    let switches = any::<(Option<bool>, Option<bool>)>();
    (switches, any::<(Option<u32>, Option<u32>)>()).prop_map(
        |((stp, vlan_filtering), (forward_delay, ageing_time))| {
            let mut bridge = BridgeAttrs::default();
            (bridge.stp, bridge.vlan_filtering) = (stp, vlan_filtering);
            (bridge.forward_delay, bridge.ageing_time) = (forward_delay, ageing_time);
            bridge
        },
    )
}

fn vxlan() -> impl Strategy<Value = VxlanAttrs> {
    let ends = (opt(any::<IpAddr>()), opt(any::<IpAddr>()), opt(dev()));
    (any::<u32>(), ends, any::<(Option<u16>, Option<bool>, Option<u8>)>()).prop_map(
        |(id, (local, remote, link), (port, learning, ttl))| {
            let mut vxlan = VxlanAttrs::new(id);
            (vxlan.local, vxlan.remote, vxlan.link) = (local, remote, link);
            (vxlan.port, vxlan.learning, vxlan.ttl) = (port, learning, ttl);
            vxlan
        },
    )
}

fn link_kind() -> impl Strategy<Value = LinkKind> {
    let vlan = (dev(), any::<u16>(), select(VlanProtocol::ALL));
    let macvlan = (dev(), opt(select(MacvlanMode::ALL)));
    let bond = (opt(select(BondMode::ALL)), any::<Option<u32>>());
    prop_oneof![
        attributes().prop_map(LinkKind::Bridge),
        opt(name()).prop_map(|peer| peer.map_or_else(LinkKind::veth_without_peer, LinkKind::veth)),
        vxlan().prop_map(LinkKind::Vxlan),
        vlan.prop_map(|(link, id, protocol)| LinkKind::Vlan(
            VlanAttrs::new(link, id).with_protocol(protocol)
        )),
        macvlan.prop_map(|(link, mode)| {
            let mut it = MacvlanAttrs::new(link);
            it.mode = mode;
            LinkKind::Macvlan(it)
        }),
        bond.prop_map(|(mode, miimon)| {
            let mut it = BondAttrs::default();
            it.mode = mode;
            it.miimon = miimon;
            LinkKind::Bond(it)
        }),
        any::<u32>().prop_map(|table| LinkKind::Vrf { table }),
        select(vec![LinkKind::Ifb, LinkKind::Dummy, LinkKind::Tun, LinkKind::Tap]),
        ".{0,8}".prop_map(|name| LinkKind::Other(name.into())),
    ]
}

fn link() -> impl Strategy<Value = Link> {
    let alias = prop_oneof![
        "\\PC{0,9}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..9)
    ];
    let state = any::<(u32, Option<bool>, Option<u32>, Option<u32>)>();
    let rest = (opt(lladdr()), opt(opt(dev())), opt(alias));
    (name(), opt(link_kind()), state, rest).prop_map(
        |(name, kind, (index, up, mtu, group), (address, master, alias))| {
            let mut link = Link::must_exist(name).with_index(index);
            (link.kind, link.up, link.mtu) = (kind, up, mtu);
            (link.address, link.group) = (address, group);
            (link.master, link.alias) = (master, alias.map(Vec::into_boxed_slice));
            link
        },
    )
}

fn address() -> impl Strategy<Value = Address> {
    let numbers = any::<(u8, u32, u32, u32, u32, u8, bool)>();
    let rest = (opt(any::<IpAddr>()), opt(label()), opt(any::<Ipv4Addr>()));
    (dev(), network(), rest, numbers).prop_map(
        |(dev, address, (peer, label, broadcast), numbers)| {
            let (scope, valid, preferred, flags, metric, protocol, secondary) = numbers;
            let mut it = Address::new(dev, address)
                .with_scope(Scope(scope))
                .with_lifetimes(Lifetimes { valid, preferred })
                .with_flags(AddressFlags::from_bits(flags))
                .with_metric(metric)
                .with_protocol(protocol)
                .with_secondary(secondary);
            (it.peer, it.label, it.broadcast) = (peer, label, broadcast);
            it
        },
    )
}

fn neighbour() -> impl Strategy<Value = Neighbour> {
    use NeighbourState::{Dynamic, NoArp, Permanent};
    let states = select(vec![Permanent, NoArp, Dynamic]);
    (dev(), any::<IpAddr>(), opt(lladdr()), states, any::<(bool, bool, bool, u8)>()).prop_map(
        |(dev, dst, lladdr, state, (router, ext_learn, proxy, protocol))| {
            let mut it = Neighbour::proxy(dev, dst)
                .with_state(state)
                .with_router(router)
                .with_ext_learn(ext_learn)
                .with_proxy(proxy)
                .with_protocol(protocol);
            it.lladdr = lladdr;
            it
        },
    )
}

fn nexthops() -> impl Strategy<Value = NextHops> {
    let hop = || {
        (opt(any::<IpAddr>()), opt(dev()), any::<u16>(), any::<bool>()).prop_map(
            |(via, dev, weight, onlink)| {
                let mut hop = NextHop::default().with_weight(weight).with_onlink(onlink);
                (hop.via, hop.dev) = (via, dev);
                hop
            },
        )
    };
    prop_oneof![
        Just(NextHops::None),
        hop().prop_map(NextHops::One),
        prop::collection::vec(hop(), 0..4).prop_map(NextHops::Many),
        (any::<u32>(), prop::collection::vec(dev(), 0..3))
            .prop_map(|(id, devs)| NextHops::Object(id, devs)),
    ]
}

fn metrics() -> impl Strategy<Value = Metrics> {
    let numbers = prop::collection::vec((select(Metric::ALL), any::<u32>()), 0..4);
    (numbers, opt("[a-z]{0,6}"), prop_oneof![Just(0), any::<u32>()]).prop_map(
        |(numbers, congctl, lock)| {
            let mut metrics = Metrics::default();
            for (metric, value) in numbers {
                metrics.set(metric, value);
            }
            metrics.set_congctl(congctl);
            metrics.set_lock(lock);
            metrics
        },
    )
}

fn route_type() -> impl Strategy<Value = RouteType> {
    use RouteType::{
        Anycast, Blackhole, Broadcast, Local, Multicast, Other, Prohibit, Throw, Unicast,
        Unreachable,
    };
    let worded = vec![
        Unicast,
        Local,
        Broadcast,
        Anycast,
        Multicast,
        Blackhole,
        Unreachable,
        Prohibit,
        Throw,
    ];
    prop_oneof![select(worded), any::<u8>().prop_map(Other)]
}

fn route() -> impl Strategy<Value = Route> {
    let numbers = any::<(u32, u32, u8, u8, bool)>();
    let ends = (prefix(), opt(prefix()), opt(any::<IpAddr>()));
    (ends, route_type(), nexthops(), metrics(), any::<Option<u8>>(), numbers).prop_map(
        |((dst, from, src), kind, nexthops, metrics, scope, numbers)| {
            let (table, metric, tos, protocol, unmodelled) = numbers;
            let mut it = Route::new(dst, nexthops)
                .with_table(table)
                .with_metric(metric)
                .with_tos(tos)
                .with_kind(kind)
                .with_metrics(metrics)
                .with_protocol(protocol)
                .with_unmodelled(unmodelled);
            it.from = from;
            it.src = src;
            it.scope = scope.map(Scope);
            it
        },
    )
}

fn action() -> impl Strategy<Value = RuleAction> {
    use RuleAction::{Blackhole, Goto, Lookup, Nop, Prohibit, Unreachable};
    prop_oneof![
        any::<u32>().prop_map(Lookup),
        any::<u32>().prop_map(Goto),
        select(vec![Blackhole, Unreachable, Prohibit, Nop]),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    let place = (select(vec![Family::Inet, Family::Inet6]), any::<u32>(), action());
    let ends = (opt(network()), opt(network()), opt(name()), opt(name()));
    let port = || any::<Option<(u16, u16)>>();
    let ports = |range: Option<(u16, u16)>| range.map(|(start, end)| NumberRange { start, end });
    let numbers = any::<(u8, u8, Option<u8>, Option<u32>, Option<u32>)>();
    let pairs = any::<(Option<(u32, u32)>, Option<(u32, u32)>)>();
    (place, ends, port(), port(), numbers, pairs, any::<[bool; 3]>()).prop_map(
        move |(place, (from, to, iif, oif), sport, dport, numbers, pairs, switches)| {
            let (family, priority, action) = place;
            let (protocol, tos, ipproto, suppress_prefixlength, suppress_ifgroup) = numbers;
            let (fwmark, uidrange) = pairs;
            let [not, l3mdev, unmodelled] = switches;
            let mut rule = Rule::new(family, priority, action)
                .with_protocol(protocol)
                .with_not(not)
                .with_tos(tos)
                .with_l3mdev(l3mdev)
                .with_unmodelled(unmodelled);
            (rule.from, rule.to, rule.iif, rule.oif) = (from, to, iif, oif);
            rule.fwmark = fwmark.map(|(mark, mask)| FwMark { mark, mask });
            (rule.ipproto, rule.sport, rule.dport) = (ipproto, ports(sport), ports(dport));
            rule.uidrange = uidrange.map(|(start, end)| NumberRange { start, end });
            rule.suppress_prefixlength = suppress_prefixlength;
            rule.suppress_ifgroup = suppress_ifgroup;
            rule
        },
    )
}

/// Boxed, since the strategies by value are too large for a test's stack.
fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        link().prop_map(Object::from).boxed(),
        address().prop_map(Object::from).boxed(),
        neighbour().prop_map(Object::from).boxed(),
        route().prop_map(Object::from).boxed(),
        rule().prop_map(Object::from).boxed(),
    ]
}

proptest! {
    #![proptest_config(crate::common::no_file())]

    #[test]
    fn any_object_and_its_key_are_read_as_they_were_written(object in object()) {
        let json = serde_json::to_string(&object).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Object>(&json).unwrap(), &object, "{}", json);
        let key = object.key();
        let json = serde_json::to_string(&key).unwrap();
        prop_assert_eq!(&serde_json::from_str::<ObjectKey>(&json).unwrap(), &key, "{}", json);
    }

    /// Any input is refused, or is an object that is written and read as itself.
    #[test]
    fn a_changed_byte_is_refused_or_read_as_something_valid(
        object in object(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut json = serde_json::to_vec(&object).unwrap();
        let at = at.index(json.len());
        json[at] = byte;
        if let Ok(read) = serde_json::from_slice::<Object>(&json) {
            let again = serde_json::to_vec(&read).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Object>(&again).unwrap(), read);
        }
    }
}

/// A later version will look for these field names.
#[test]
fn the_form_is_the_words_of_the_model() {
    let mut route: Route = Route::new(
        "10.2.0.0/16".parse().unwrap(),
        NextHops::One(NextHop::via("10.1.0.9".parse().unwrap()).with_dev(Dev::index(7))),
    );
    route.metrics.set(Metric::Mtu, 1400);
    let written = r#"{"route":{"table":254,"dst":"10.2.0.0/16","metric":0,"tos":0,"from":null,"kind":"unicast","nexthops":{"one":{"via":"10.1.0.9","dev":7,"weight":1,"onlink":false}},"src":null,"scope":null,"metrics":{"numbers":[["mtu",1400]],"congctl":null,"lock":0},"protocol":0,"unmodelled":false}}"#;
    assert_eq!(serde_json::to_string(&Object::from(route)).unwrap(), written);

    let name = "v0".parse().unwrap();
    let mut link: Link = Link::new(name, LinkKind::veth_without_peer());
    link.address = Some("02:00:00:00:00:09".parse().unwrap());
    link.master = Some(None);
    let written = r#"{"link":{"name":"v0","index":0,"kind":{"veth":{"peer":null}},"up":null,"mtu":null,"address":"02:00:00:00:00:09","master":null,"alias":null,"group":null}}"#;
    assert_eq!(serde_json::to_string(&Object::from(link)).unwrap(), written);

    let words = |metric| serde_json::to_value(metric).unwrap();
    for metric in Metric::ALL.iter().copied() {
        assert_eq!(words(metric), metric.name());
    }
}

#[test]
fn what_is_absent_is_left_open() {
    let link: Link = serde_json::from_str(r#"{"name":"br0","index":3}"#).unwrap();
    let expected = Link::must_exist("br0".parse().unwrap()).with_index(3);
    assert_eq!(link, expected);
}

#[test]
fn what_no_constructor_makes_is_refused() {
    fn refused<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: &str, why: &str) {
        let error = serde_json::from_str::<T>(json).unwrap_err().to_string();
        assert!(error.contains(why), "{json}: {error}");
    }
    refused::<IfName>("\"a/b\"", "is not an interface name");
    refused::<IfName>("[97, 47]", "is not an interface name");
    refused::<IfName>("[256]", "expected u8");
    refused::<IfName>("7", "expected text, or a list of bytes");
    refused::<Label>("\"sixteen-bytes-xx\"", "is not a label");
    refused::<Label>("[]", "is not a label");
    refused::<LinkAddr>("\"\"", "is not a hardware address");
    refused::<LinkAddr>(&format!("\"{}00\"", "00:".repeat(32)), "is not a hardware address");
    refused::<Prefix>("\"10.0.0.1/8\"", "has bits set behind its prefix length");
    refused::<Prefix>("\"10.0.0.0/33\"", "invalid");
    refused::<VlanProtocol>("\"802.1X\"", "expected 802.1Q or 802.1ad");
}

#[test]
fn what_the_kernel_would_not_keep_is_not_kept() {
    let written = r#"{"numbers":[["hoplimit",999],["mtu",0],["hoplimit",300],["advmss",9]]}"#;
    let read: Metrics = serde_json::from_str(written).unwrap();
    let kept: Vec<_> = read.iter().collect();
    assert_eq!(kept, [(Metric::AdvMss, 9), (Metric::HopLimit, 255)]);
    let nothing: Metrics = serde_json::from_str(r#"{"numbers":[["mtu",0]]}"#).unwrap();
    assert_eq!(nothing, Metrics::default());
    let flags: AddressFlags = serde_json::from_str("4294967295").unwrap();
    let known = AddressFlags::ALL.into_iter().map(|(flag, _)| flag);
    assert_eq!(Some(flags), known.reduce(|all, flag| all | flag));
}
