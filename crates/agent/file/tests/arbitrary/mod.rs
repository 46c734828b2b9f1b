//! Arbitrary objects, most of which a file can express.
#![allow(clippy::unwrap_used, reason = "generators that do not give what they say fail the test")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use trueup_file::{File, Settings, TableNames, World};
use trueup_net::*;

pub(crate) fn name() -> impl Strategy<Value = IfName> {
    let common = select(vec!["eth0", "lo", "br-lan", "a.100", "ä", "a\"b\\", "\u{7f}", "# [["]);
    let name = prop_oneof![
        4 => common.prop_filter_map("name", |text| text.parse().ok()),
        1 => vec(any::<u8>(), 1..16).prop_filter_map("name", |bytes| IfName::from_bytes(&bytes).ok()),
    ];
    name.prop_filter("no template", |name: &IfName| !name.is_template())
}

fn label() -> impl Strategy<Value = Label> {
    prop_oneof![
        4 => select(vec!["eth0:1", "lo", "a b", "ä/"]).prop_map(|text| text.parse().unwrap()),
        1 => vec(1..=255u8, 1..16).prop_map(|bytes| Label::from_bytes(&bytes).unwrap()),
    ]
}

fn v4() -> impl Strategy<Value = IpAddr> {
    any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from(bits)))
}

fn v6() -> impl Strategy<Value = IpAddr> {
    any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from(bits)))
}

fn ip(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::Inet => v4().boxed(),
        Family::Inet6 => v6().boxed(),
    }
}

fn family() -> impl Strategy<Value = Family> {
    select(vec![Family::Inet, Family::Inet6])
}

fn network(family: Family) -> impl Strategy<Value = IpNetwork> {
    (ip(family), 0..=family.max_len())
        .prop_map(|(address, len)| IpNetwork::new(address, len).unwrap())
}

fn prefix(family: Family) -> impl Strategy<Value = Prefix> {
    network(family).prop_map(Prefix::containing)
}

fn lladdr() -> impl Strategy<Value = LinkAddr> {
    vec(any::<u8>(), 1..=32).prop_map(|bytes| LinkAddr::from_bytes(&bytes).unwrap())
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 0..1000u32, any::<u32>()]
}

fn table_number() -> impl Strategy<Value = u32> {
    prop_oneof![Just(table::MAIN), 1..1000u32, 1..=u32::MAX]
}

fn hop(family: Family) -> impl Strategy<Value = NextHop<IfName>> {
    let gateway = match family {
        Family::Inet => prop_oneof![v4(), v6()].boxed(),
        Family::Inet6 => v6().boxed(),
    };
    (of(gateway), of(name()), 1..=256u16, any::<bool>()).prop_filter_map(
        "next hop",
        |(via, dev, weight, onlink)| {
            let onlink = onlink && via.is_some() && dev.is_some();
            let mut hop = NextHop::default().with_weight(weight).with_onlink(onlink);
            hop.via = via;
            hop.dev = dev;
            (via.is_some() || dev.is_some()).then_some(hop)
        },
    )
}

fn where_to(family: Family) -> impl Strategy<Value = (RouteType, NextHops<IfName>)> {
    use RouteType::{Blackhole, Local, Prohibit, Throw, Unicast, Unreachable};
    prop_oneof![
        vec(hop(family), 1..4).prop_map(|hops| (Unicast, NextHops::Many(hops).canonical())),
        name().prop_map(|dev| (Local, NextHops::One(NextHop::dev(dev)))),
        select(vec![Blackhole, Unreachable, Prohibit, Throw])
            .prop_map(|kind| (kind, NextHops::None)),
    ]
}

fn metrics() -> impl Strategy<Value = Metrics> {
    let number = (select(Metric::ALL.to_vec()), any::<u32>(), any::<bool>());
    let congctl = of(("[a-z]{1,15}", any::<bool>()));
    (vec(number, 0..4), congctl).prop_map(|(numbers, congctl)| {
        let mut metrics = Metrics::default();
        let mut lock = 0;
        for (metric, value, locked) in numbers {
            metrics.set(metric, value);
            lock |= u32::from(locked) << metric as u8;
        }
        if let Some((name, locked)) = congctl {
            metrics.set_congctl(Some(name));
            lock |= u32::from(locked) << 16;
        }
        metrics.set_lock(lock);
        metrics
    })
}

pub(crate) fn route() -> BoxedStrategy<Route<IfName>> {
    family()
        .prop_flat_map(|family| {
            let parts = (
                prop_oneof![4 => prefix(family), 1 => Just(Prefix::default_route(family))],
                where_to(family),
                table_number(),
                small(),
                any::<u8>(),
                of(prefix(family)),
                of(ip(family)),
                of(any::<u8>().prop_map(Scope)),
                metrics(),
            );
            parts.prop_map(
                move |(dst, (kind, hops), table, metric, tos, from, src, scope, metrics)| {
                    let v4 = family == Family::Inet;
                    let mut route = Route::new(dst, hops)
                        .with_kind(kind)
                        .with_table(table)
                        .with_metric(metric)
                        .with_tos(if v4 { tos } else { 0 })
                        .with_metrics(metrics);
                    route.from = from.filter(|_| !v4);
                    route.src = src;
                    // A scope that follows from the rest is not written.
                    let follows = route.clone().canonical().scope;
                    let scope = scope.filter(|scope| v4 && Some(*scope) != follows);
                    route.scope = scope;
                    route
                },
            )
        })
        .boxed()
}

pub(crate) fn address() -> BoxedStrategy<Address<IfName>> {
    family()
        .prop_flat_map(|family| {
            let lifetime = || prop_oneof![Just(FOREVER), 1..100_000u32, 1..=FOREVER];
            let parts = (
                name(),
                network(family),
                of(ip(family)),
                of(any::<u8>().prop_map(Scope)),
                of(label()),
                of(any::<u32>()),
                (lifetime(), prop_oneof![Just(0), lifetime()]),
                any::<u32>(),
                small(),
            );
            parts.prop_map(
                move |(
                    dev,
                    address,
                    peer,
                    scope,
                    label,
                    broadcast,
                    (valid, preferred),
                    bits,
                    metric,
                )| {
                    let mut address = Address::new(dev, address);
                    address.peer = peer;
                    if family == Family::Inet {
                        address.scope = scope.unwrap_or(address.scope);
                        address.label = label;
                        address.broadcast = broadcast.map(Ipv4Addr::from);
                    }
                    let preferred = preferred.min(valid);
                    address.lifetimes = Lifetimes { valid, preferred };
                    address.flags = AddressFlags::from_bits(bits);
                    address.metric = metric;
                    address
                },
            )
        })
        .boxed()
}

pub(crate) fn neighbour() -> BoxedStrategy<Neighbour<IfName>> {
    let parts = (name(), prop_oneof![v4(), v6()], of(lladdr()), any::<[bool; 2]>());
    parts
        .prop_map(|(dev, dst, lladdr, [router, ext_learn])| {
            match lladdr {
                Some(lladdr) => Neighbour::new(dev, dst, lladdr),
                None => Neighbour::proxy(dev, dst),
            }
            .with_router(router)
            .with_ext_learn(ext_learn && lladdr.is_some())
        })
        .boxed()
}

fn ports() -> impl Strategy<Value = NumberRange<u16>> {
    (1..=65534u16, 1..=65534u16).prop_map(|(a, b)| (a.min(b)..=a.max(b)).into())
}

fn uids() -> impl Strategy<Value = NumberRange<u32>> {
    (0..u32::MAX, 0..u32::MAX).prop_map(|(a, b)| (a.min(b)..=a.max(b)).into())
}

pub(crate) fn rule() -> BoxedStrategy<Rule> {
    family().prop_flat_map(|family| {
        let action = prop_oneof![
            4 => table_number().prop_map(RuleAction::Lookup),
            1 => Just(RuleAction::Lookup(0)),
            1 => Just(RuleAction::Goto(u32::MAX)),
            1 => select(vec![RuleAction::Blackhole, RuleAction::Unreachable, RuleAction::Prohibit]),
        ];
        let selectors = (
            of(prefix(family).prop_map(IpNetwork::from)),
            of(prefix(family).prop_map(IpNetwork::from)),
            of(name()),
            of(name()),
            of((any::<u32>(), any::<u32>())),
            of(1..=255u8),
            of(ports()),
            of(ports()),
            of(uids()),
        );
        let rest = (any::<bool>(), any::<u8>(), of(0..=128u32), of(0..u32::MAX));
        (1..u32::MAX, action, selectors, rest).prop_map(
            move |(priority, action, matched, rest)| {
                let (from, to, iif, oif, fwmark, ipproto, sport, dport, uids) = matched;
                let (not, tos, suppress_prefixlength, suppress_ifgroup) = rest;
                let mut rule = Rule::new(family, priority, action)
                    .with_not(not)
                    .with_tos(tos)
                    .with_l3mdev(action == RuleAction::Lookup(0));
                rule.from = from;
                rule.to = to;
                rule.iif = iif;
                rule.oif = oif;
                rule.fwmark = fwmark.map(|(mark, mask)| FwMark { mark, mask });
                rule.ipproto = ipproto;
                rule.sport = sport;
                rule.dport = dport;
                rule.uidrange = uids;
                rule.suppress_prefixlength = suppress_prefixlength;
                rule.suppress_ifgroup = suppress_ifgroup;
                rule
            },
        )
    }).boxed()
}

fn vxlan() -> BoxedStrategy<LinkKind<IfName>> {
    family()
        .prop_flat_map(|family| {
            let parts = (
                0..1u32 << 24,
                of(ip(family)),
                of(ip(family)),
                of(1..=u16::MAX),
                of(name()),
                of(any::<bool>()),
                of(any::<u8>()),
            );
            parts.prop_filter_map("vxlan", |(id, local, remote, port, link, learning, ttl)| {
                let group = remote.is_some_and(|remote| remote.is_multicast());
                let mut vxlan = VxlanAttrs::new(id);
                vxlan.local = local;
                vxlan.remote = remote;
                vxlan.port = port;
                vxlan.learning = learning;
                vxlan.ttl = ttl;
                vxlan.link = link;
                (!group || link.is_some()).then_some(LinkKind::Vxlan(vxlan))
            })
        })
        .boxed()
}

fn link_kind() -> BoxedStrategy<LinkKind<IfName>> {
    let flags = (of(any::<bool>()), of(any::<bool>()), of(any::<u32>()), of(any::<u32>()));
    let vlan = (name(), 0..=4094u16, select(VlanProtocol::ALL.to_vec()));
    prop_oneof![
        flags.prop_map(|(stp, vlan_filtering, forward_delay, ageing_time)| {
            let mut bridge = BridgeAttrs::default();
            (bridge.stp, bridge.vlan_filtering) = (stp, vlan_filtering);
            (bridge.forward_delay, bridge.ageing_time) = (forward_delay, ageing_time);
            LinkKind::Bridge(bridge)
        }),
        of(name()).prop_map(|peer| peer.map_or_else(LinkKind::veth_without_peer, LinkKind::veth)),
        vxlan(),
        vlan.prop_map(|(link, id, protocol)| LinkKind::Vlan(
            VlanAttrs::new(link, id).with_protocol(protocol)
        )),
        (name(), of(select(MacvlanMode::ALL.to_vec()))).prop_map(|(link, mode)| {
            let mut it = MacvlanAttrs::new(link);
            it.mode = mode;
            LinkKind::Macvlan(it)
        }),
        (of(select(BondMode::ALL.to_vec())), of(0..1u32 << 31)).prop_map(|(mode, miimon)| {
            let mut it = BondAttrs::default();
            it.mode = mode;
            it.miimon = miimon;
            LinkKind::Bond(it)
        }),
        (1..=u32::MAX).prop_map(|table| LinkKind::Vrf { table }),
        select(vec![LinkKind::Ifb, LinkKind::Dummy, LinkKind::Tun, LinkKind::Tap]),
    ]
    .boxed()
}

pub(crate) fn link() -> BoxedStrategy<Link<IfName>> {
    let parts = (
        of(link_kind()),
        of(any::<bool>()),
        of(1..1u32 << 31),
        of(lladdr()),
        of(of(name())),
        of(prop_oneof![vec(any::<u8>(), 0..256), ".{0,60}".prop_map(String::into_bytes)]),
        of(any::<u32>()),
    );
    parts
        .prop_map(|(kind, up, mtu, address, master, alias, group)| {
            let mut link = Link::must_exist("x".parse().unwrap());
            link.kind = kind;
            link.up = up;
            link.mtu = mtu;
            link.address = address;
            link.group = group;
            (link.master, link.alias) = (master, alias.map(Into::into));
            link
        })
        .boxed()
}

/// Makes the keys of a list distinct.
fn apart<L: From<Vec<T>>, T>(list: Option<Vec<T>>, set: impl Fn(usize, &mut T)) -> Option<L> {
    let mut list = list?;
    for (i, object) in list.iter_mut().enumerate() {
        set(i, object);
    }
    Some(list.into())
}

/// Adopts the object at a position in key order.
fn adopt_at<A: Keyed>(objects: &mut Option<Collection<A>>, at: usize) {
    let objects = objects.as_mut().unwrap();
    let key = objects.keys().nth(at).unwrap().clone();
    objects.adopt(key);
}

fn numbered(i: usize) -> IfName {
    // No generator gives such a name.
    format!("n\u{2603}{i}").parse().unwrap()
}

fn list<T: std::fmt::Debug>(
    object: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<Vec<T>>> {
    of(vec(object, 0..5))
}

/// Generates a state with at least one managed kind.
pub(crate) fn desired() -> BoxedStrategy<Desired> {
    let parts = (list(link()), list(address()), list(neighbour()), list(route()), list(rule()));
    let adopt = vec((select(Kind::DECLARED.to_vec()), any::<prop::sample::Index>()), 0..4);
    let shape = select(vec![NexthopMode::Inline, NexthopMode::Objects]);
    (parts, adopt, shape)
        .prop_map(|((links, addresses, neighbours, routes, rules), adopt, nexthops)| {
            let mut desired = Desired::default().with_nexthops(nexthops);
            desired.links = apart(links, |i, link| link.name = numbered(i));
            desired.addresses = apart(addresses, |i, address| {
                if i > 0 {
                    address.dev = numbered(i);
                }
            });
            desired.neighbours = apart(neighbours, |i, neighbour| {
                if i > 0 {
                    neighbour.dev = numbered(i);
                }
            });
            desired.routes = apart(routes, |i, route| {
                if i > 0 {
                    route.table = 1_000_000 + i as u32;
                }
            });
            desired.rules =
                Some(apart(rules, |i, rule| rule.priority = 1 + i as u32).unwrap_or_default());
            let counts = counts(&desired);
            let there = |(kind, index): (Kind, prop::sample::Index)| {
                let mut declared = Kind::DECLARED.into_iter().zip(counts);
                let (_, count) = declared.find(|(declared, _)| *declared == kind)?;
                (count > 0).then(|| (kind, index.index(count)))
            };
            for (kind, at) in adopt.into_iter().filter_map(there) {
                match (kind, &mut desired.routes) {
                    (Kind::Route, Some(routes)) => {
                        let key = routes.keys().nth(at).unwrap();
                        routes.adopt(key);
                    }
                    (Kind::Link, _) => adopt_at(&mut desired.links, at),
                    (Kind::Address, _) => adopt_at(&mut desired.addresses, at),
                    (Kind::Neighbour, _) => adopt_at(&mut desired.neighbours, at),
                    _ => adopt_at(&mut desired.rules, at),
                }
            }
            desired
        })
        .boxed()
}

/// Returns the number of objects of each kind in [`Kind::DECLARED`].
pub(crate) fn counts(desired: &Desired) -> [usize; 5] {
    let Desired { links, addresses, neighbours, routes, rules, nexthops: _, .. } = desired;
    [
        links.as_ref().map_or(0, Collection::len),
        addresses.as_ref().map_or(0, Collection::len),
        neighbours.as_ref().map_or(0, Collection::len),
        routes.as_ref().map_or(0, Routes::len),
        rules.as_ref().map_or(0, Collection::len),
    ]
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    let day = 86_400;
    let parts = prop_oneof![Just(0), Just(500_000_000), 0..1_000_000_000u32];
    let grace = prop_oneof![
        Just(Duration::from_secs(day)),
        (0..day, parts).prop_map(|(seconds, parts)| Duration::new(seconds, parts)),
    ];
    let proof = select(vec![Ownership::Marker, Ownership::Ledger]);
    let ownership = prop::collection::btree_map(select(Kind::DECLARED.to_vec()), proof, 0..5);
    let flags = any::<(bool, bool, bool)>();
    let protocols = vec(5..=255u8, 0..4);
    let max_deletes = prop_oneof![
        any::<u32>().prop_map(MaxDeletes::Number),
        (0..=100u8).prop_map(MaxDeletes::Percent),
    ];
    let proofs = (ownership, domain(), of(world()), of(max_deletes));
    (10..=255u8, flags, protocols, of(grace), proofs).prop_map(
        |(protocol, (adopt, take, sysctl_revert), protocols, grace, proofs)| {
            let (mut ownership, domain, world, max_deletes) = proofs;
            if let Some(proof) = ownership.get_mut(&Kind::Link) {
                *proof = Ownership::Ledger;
            }
            let mut settings = Settings::default()
                .with_protocol(protocol)
                .with_protocol_is_mine(Protocols::registered_name(protocol).is_some())
                .with_adopt(adopt)
                .with_adopt_protocols(protocols.into_iter().collect())
                .with_take(take)
                .with_ownership(ownership)
                .with_domain(domain)
                .with_sysctl_revert(sysctl_revert);
            (settings.grace, settings.max_deletes, settings.world) = (grace, max_deletes, world);
            settings
        },
    )
}

/// Generates a store of either sort.
fn world() -> impl Strategy<Value = World> {
    let store = prop_oneof![
        Just("store = \"embedded\"".to_owned()),
        (vec("[a-z0-9.:]{1,12}", 1..3), any::<(bool, bool, bool)>()).prop_map(
            |(addresses, (user, tls, certificate))| {
                let scheme = if tls { "https" } else { "http" };
                let urls = addresses.iter().map(|it| format!("{scheme}://{it}"));
                let urls: Vec<String> = urls.collect();
                let mut text = format!("endpoints = {urls:?}\n");
                let mut more =
                    |is_given, keys: &str| text.push_str(if is_given { keys } else { "" });
                more(user, "user = \"u\"\npassword_file = \"p\"\n");
                more(user && !tls, "allow_clear_password = true\n");
                more(tls, "ca_file = \"c\"\n");
                more(tls && certificate, "cert_file = \"c\"\nkey_file = \"k\"\n");
                text
            }
        ),
    ];
    let partition = select(vec!["\"keep\"", "\"drop\"", "0.5", "7"]);
    let parts = (store, "[a-z0-9._-]{1,9}", "/[a-z]{1,9}", 1..=86_400u32, partition);
    parts.prop_filter_map("a world", |(store, host, prefix, ttl, partition)| {
        let text = format!(
            "route = []\n[world]\n{store}\nhost = \"{host}\"\nprefix = \"{prefix}\"\n\
             ttl = {ttl}\npartition = {partition}\n"
        );
        let file = File::parse("world", text.as_bytes(), &TableNames::default());
        file.ok()?.settings.world
    })
}

/// Generates a domain with any of its parts.
fn domain() -> impl Strategy<Value = Domain> {
    let pattern = prop_oneof!["[a-z*]{1,15}", "veth\\*"];
    let pattern = pattern.prop_map(|text| text.parse::<InterfacePattern>().unwrap());
    let span = |first: u32| (first..=u32::MAX, 0..3u32);
    let span = move |first| span(first).prop_map(|(at, more)| at..=at.saturating_add(more));
    let flags = any::<(bool, bool, bool)>();
    let name = of("[a-z0-9_-]{1,32}");
    let parts = (
        vec(pattern, 0..3),
        vec(span(1), 0..3),
        vec(family().prop_flat_map(prefix), 0..3),
        vec(span(0), 0..3),
    );
    (parts, flags, name).prop_map(|((interfaces, tables, prefixes, priorities), flags, name)| {
        // A file needs a name with `ledger_only`.
        let has_name = name.is_some();
        let mut domain = Domain::default()
            .with_interfaces(interfaces)
            .with_created_interfaces(flags.0)
            .with_tables(tables)
            .with_prefixes(prefixes)
            .with_rule_priorities(priorities)
            .with_nexthop_objects(flags.1)
            .with_ledger_only(flags.2 && has_name);
        domain.name = name;
        // A name alone is not a domain.
        match domain.is_limited() {
            true => domain,
            false => Domain::default(),
        }
    })
}

/// Generates sysctls. Each has the parts of its key, and a value in a file's form.
pub(crate) fn sysctls() -> impl Strategy<Value = Vec<(Vec<String>, String)>> {
    let part = "[a-z0-9_]{1,8}";
    let device = "[a-z0-9@:+-]{1,6}(\\.[a-z0-9]{1,4})?";
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        "\"[a-z0-9 ,-]{0,12}\"",
    ];
    let parts = (part, device, "[a-z_]{1,12}");
    vec((parts, value), 0..12).prop_map(|each| {
        let each = each.into_iter().enumerate();
        let each = each.map(|(n, ((family, device, name), value))| {
            // No two with one key, and no key that is the start of another.
            let path = ["net".to_owned(), format!("{family}{n}"), device, name];
            (path.to_vec(), value)
        });
        each.collect()
    })
}
