//! The order of ops, their needs, and their holds: one small plan each.

use std::collections::BTreeSet;

use trueup_net::{
    Address, AddressFlags, Desired, Dev, Family, Hold, IfName, Kind, Kinds, Lifetimes, Link,
    LinkKind, Neighbour, NextHop, NextHops, Object, Observed, Owned, Plan, Policy, Route,
    RouteType, Routes, Rule, RuleAction, VlanAttrs, VxlanAttrs, plan,
};

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

/// Makes an observed link.
fn seen(index: u32, text: &str, kind: LinkKind) -> Link {
    Link::new(name(text), kind)
        .with_index(index)
        .with_up(true)
        .with_mtu(1500)
        .with_no_master()
        .with_alias([])
        .with_group(0)
}

fn vxlan<D>(id: u32) -> LinkKind<D> {
    let port = 4789;
    LinkKind::Vxlan(VxlanAttrs::new(id).with_port(port))
}

fn vlan<D>(link: D, id: u16) -> LinkKind<D> {
    LinkKind::Vlan(VlanAttrs::new(link, id))
}

fn veth<D>(peer: &str) -> LinkKind<D> {
    LinkKind::veth(name(peer))
}

fn address<D>(dev: D, text: &str) -> Address<D> {
    Address::new(dev, text.parse().unwrap()).with_protocol(116)
}

fn route<D>(dst: &str, via: Option<&str>, dev: Option<D>) -> Route<D> {
    let mut hop = NextHop::default();
    (hop.via, hop.dev) = (via.map(|via| via.parse().unwrap()), dev);
    Route::new(dst.parse().unwrap(), NextHops::One(hop)).with_protocol(116)
}

/// The gateway 10.1.0.9.
fn gateway(dev: Dev) -> Neighbour {
    let (dst, lladdr) = ("10.1.0.9", "02:00:00:00:00:09");
    let neighbour = Neighbour::new(dev, dst.parse().unwrap(), lladdr.parse().unwrap());
    neighbour.with_protocol(116)
}

/// `eth0` is 2. The ledger makes all kinds without a marker ours.
fn observed(links: Vec<Link>) -> Observed {
    let eth0 = seen(2, "eth0", LinkKind::Other("".into()));
    let links: Vec<Link> = std::iter::once(eth0).chain(links).collect();
    Observed::default().with_links(links).with_complete(Kinds::ALL)
}

fn planned(desired: &Desired, observed: &Observed) -> Plan {
    let links: BTreeSet<u32> =
        observed.links.iter().map(|link| link.index).filter(|i| *i > 2).collect();
    plan(desired, observed, &Owned::default().with_links(links), 116).unwrap()
}

/// Returns a plan's lines without their reasons.
fn lines(plan: &Plan) -> Vec<String> {
    let text = plan.text().to_string();
    text.lines().map(|line| line.split("   (").next().unwrap().to_owned()).collect()
}

fn needs(plan: &Plan) -> Vec<Vec<usize>> {
    (0..plan.ops.len()).map(|at| plan.needs(at).collect()).collect()
}

#[test]
fn what_is_built_rests_on_what_is_there() {
    let br0 = name("br0");
    let desired = Desired::default()
        .with_links([
            Link::new(name("a10"), vlan(br0, 10)),
            Link::new(name("a0"), LinkKind::Ifb).with_master(br0),
            Link::new(br0, LinkKind::Bridge(Default::default())),
        ])
        .with_addresses([address(br0, "10.1.0.1/24")])
        .with_routes([
            route("10.2.0.0/16", Some("10.1.0.9"), None),
            route("10.9.0.0/16", None, Some(br0)),
            Route::of_type(RouteType::Blackhole, "10.8.0.0/16".parse().unwrap()),
        ])
        .with_rules([
            Rule::new(Family::Inet, 9, RuleAction::Prohibit),
            Rule::new(Family::Inet6, 9, RuleAction::Prohibit),
        ]);
    let plan = planned(&desired, &observed(Vec::new()));
    assert_eq!(
        lines(&plan),
        [
            "+ link br0 type bridge",
            "+ link a0 type ifb",
            "~ link a0 master br0",
            "+ link a10 link br0 type vlan protocol 802.1Q id 10",
            "+ addr 10.1.0.1/24 dev br0",
            "+ rule inet6 pref 9 protocol 116 prohibit",
            "+ route 10.9.0.0/16 dev br0 proto 116 table 254",
            "+ route 10.2.0.0/16 via 10.1.0.9 proto 116 table 254",
            "+ route blackhole 10.8.0.0/16 proto 116 table 254",
            "+ rule inet pref 9 protocol 116 prohibit",
        ]
    );
    let none = Vec::new();
    assert_eq!(
        needs(&plan),
        [&none[..], &[0], &[0, 1], &[0], &[0], &[], &[0], &[4], &[], &[]].map(<[usize]>::to_vec)
    );
}

#[test]
fn the_longest_prefixes_come_first_and_go_last() {
    let eth0 = name("eth0");
    let via = |dst: &str| route(dst, Some("10.1.0.9"), Some(eth0));
    let all = vec![via("0.0.0.0/0"), via("10.0.0.0/8"), via("10.0.0.0/24"), via("9.0.0.0/8")];
    let made = Desired::default().with_routes(all.clone());
    let order = |desired: &Desired, observed: &Observed| -> Vec<String> {
        let plan = planned(desired, observed);
        let dst = |op: &trueup_net::Op| match &op.object {
            Object::Route(route) => route.dst.to_string(),
            object => panic!("{object:?}"),
        };
        plan.ops.iter().map(dst).collect()
    };
    let built = order(&made, &observed(Vec::new()));
    assert_eq!(built, ["10.0.0.0/24", "9.0.0.0/8", "10.0.0.0/8", "0.0.0.0/0"]);
    let there = observed(Vec::new()).with_routes(
        all.into_iter()
            .map(|route| route.try_map_dev(|_| Ok::<_, ()>(Dev::index(2))).unwrap().canonical())
            .collect::<Vec<_>>(),
    );
    let none = Desired::default().with_routes([]);
    assert_eq!(order(&none, &there), ["0.0.0.0/0", "9.0.0.0/8", "10.0.0.0/8", "10.0.0.0/24"]);
}

#[test]
fn what_is_taken_down_goes_the_other_way_after_what_is_built() {
    let dev = Dev::index(3);
    let observed = observed(vec![
        seen(3, "br0", LinkKind::Bridge(Default::default())),
        seen(4, "a10", vlan(dev, 10)),
    ])
    .with_addresses([address(dev, "10.1.0.1/24")])
    .with_routes([
        route("10.9.0.0/16", None, Some(dev)).canonical(),
        route("10.2.0.0/16", Some("10.1.0.9"), Some(dev)).canonical(),
    ])
    .with_neighbours([gateway(dev)]);
    let desired = Desired::default()
        .with_links([])
        .with_addresses([])
        .with_neighbours([])
        .with_routes([route("10.2.0.0/24", None, Some(name("eth0")))]);
    assert_eq!(
        lines(&planned(&desired, &observed)),
        [
            "+ route 10.2.0.0/24 dev eth0 proto 116 table 254",
            "- route 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254",
            "- route 10.9.0.0/16 dev br0 proto 116 table 254",
            "- neigh 10.1.0.9 dev br0",
            "- addr 10.1.0.1/24 dev br0",
            "- link a10",
            "- link br0",
        ]
    );
}

#[test]
fn the_old_way_stays_until_the_new_one_is_made() {
    let old = route("10.2.0.0/16", None, Some(Dev::index(2))).with_metric(5).canonical();
    let observed = observed(Vec::new()).with_routes([old]);
    let desired = Desired::default()
        .with_routes([route("10.2.0.0/16", None, Some(name("eth0"))).with_metric(6)]);
    let plan = planned(&desired, &observed);
    assert_eq!(
        lines(&plan),
        [
            "+ route 10.2.0.0/16 dev eth0 proto 116 metric 6 table 254",
            "- route 10.2.0.0/16 dev eth0 proto 116 metric 5 table 254",
        ]
    );
    assert_eq!(needs(&plan), [vec![], vec![0]]);
}

#[test]
fn a_vxlan_of_another_id_is_made_anew_with_what_is_on_it() {
    let dev = Dev::index(3);
    let observed =
        observed(vec![seen(3, "vx", vxlan(7))]).with_addresses([address(dev, "10.1.0.1/24")]);
    let desired = Desired::default()
        .with_links([Link::new(name("vx"), vxlan(8))])
        .with_addresses([address(name("vx"), "10.1.0.1/24")]);
    let plan = planned(&desired, &observed);
    assert_eq!(
        lines(&plan),
        [
            "- addr 10.1.0.1/24 dev vx",
            "- link vx",
            "+ link vx type vxlan id 8 dstport 4789",
            "+ addr 10.1.0.1/24 dev vx",
        ]
    );
    assert!(plan.needs(2).eq([1]) && plan.needs(3).any(|need| need == 2));
}

#[test]
fn a_claim_on_an_id_makes_room_first() {
    let observed = observed(vec![
        seen(3, "old", vxlan(7)),
        seen(4, "v", vlan(Dev::index(2), 10)),
        seen(5, "z", LinkKind::Ifb),
    ]);
    let desired = Desired::default().with_links([
        Link::new(name("new"), vxlan(7)),
        Link::new(name("w"), vlan(name("eth0"), 10)),
    ]);
    assert_eq!(
        lines(&planned(&desired, &observed)),
        [
            "- link v",
            "- link old",
            "+ link new type vxlan id 7 dstport 4789",
            "+ link w link eth0 type vlan protocol 802.1Q id 10",
            "- link z",
        ]
    );
}

#[test]
fn addresses_are_made_anew_where_they_cannot_change() {
    let dev = Dev::index(2);
    let observed = observed(Vec::new()).with_addresses([
        address(dev, "10.1.0.1/24").with_label("eth0-a".parse().unwrap()),
        address(dev, "10.7.0.1/24"),
        address(dev, "192.0.2.1/24"),
        address(dev, "2001:db8::1/64"),
    ]);
    let eth0 = name("eth0");
    let desired = Desired::default().with_addresses([
        address(eth0, "10.1.0.1/24"),
        address(eth0, "10.7.0.2/24"),
        address(eth0, "2001:db8::1/128"),
    ]);
    assert_eq!(
        lines(&planned(&desired, &observed)),
        [
            "- addr 10.1.0.1/24 dev eth0",
            "- addr 10.7.0.1/24 dev eth0",
            "- addr 2001:db8::1/64 dev eth0",
            "+ addr 10.1.0.1/24 dev eth0",
            "+ addr 10.7.0.2/24 dev eth0",
            "+ addr 2001:db8::1/128 dev eth0",
            "- addr 192.0.2.1/24 dev eth0",
        ],
        "the first of a subnet would take the new one along; the rest can wait"
    );
}

#[test]
fn a_pair_is_made_once() {
    let up = |text, peer| Link::new(name(text), veth(peer)).with_up(true);
    let links = [up("b", "a"), up("a", "b")];
    let plan = planned(&Desired::default().with_links(links), &observed(Vec::new()));
    assert_eq!(lines(&plan), ["+ link a type veth peer name b", "~ link a up", "~ link b up"]);
    assert_eq!(needs(&plan), [vec![], vec![0], vec![0]]);
}

#[test]
fn an_end_that_is_not_declared_comes_with_its_maker() {
    let port = Link::new(name("a"), LinkKind::Ifb).with_master(name("p"));
    let desired = Desired::default().with_links([port, Link::new(name("b"), veth("p"))]);
    let plan = planned(&desired, &observed(Vec::new()));
    assert_eq!(
        lines(&plan),
        ["+ link b type veth peer name p", "+ link a type ifb", "~ link a master p"]
    );
    assert!(plan.needs(2).eq([0, 1]));
}

#[test]
fn what_needs_a_link_that_must_exist_waits() {
    let tun = name("tun9");
    let desired = Desired::default()
        .with_links([Link::must_exist(tun)])
        .with_addresses([address(tun, "10.1.0.1/24")]);
    let plan = planned(&desired, &observed(Vec::new()));
    assert_eq!(lines(&plan), ["! + link tun9", "! + addr 10.1.0.1/24 dev tun9"]);
    assert_eq!(plan.ops[1].hold, Some(Hold::NoDevice(tun)));
    assert_eq!(needs(&plan), [vec![], vec![0]]);
}

#[test]
fn what_is_left_of_a_plan_needs_nothing_that_is_not() {
    let ifb = name("ifb9");
    let desired = Desired::default()
        .with_links([Link::new(ifb, LinkKind::Ifb)])
        .with_addresses([address(ifb, "10.1.0.1/24")]);
    let plan = planned(&desired, &observed(Vec::new()));
    assert_eq!(needs(&plan), [vec![], vec![0]]);
    let kept = plan.clone().retain(|op| op.object.kind() == Kind::Address);
    assert_eq!(needs(&kept), [Vec::<usize>::new()]);
}

#[test]
fn a_strangers_address_two_links_up_holds_the_delete() {
    let observed =
        observed(vec![seen(3, "a", LinkKind::Ifb), seen(4, "a10", vlan(Dev::index(3), 10))])
            .with_addresses([address(Dev::index(4), "10.9.0.1/24").with_protocol(4)]);
    let desired = Desired::default().with_links([]);
    assert_eq!(lines(&planned(&desired, &observed)), ["! - link a10", "! - link a"]);
}

/// One bad object stops no other, regardless of its device's problem.
#[test]
fn what_cannot_be_on_its_device_is_held_by_itself() {
    let observed = observed(vec![
        seen(3, "old", LinkKind::Ifb),
        seen(4, "eth", LinkKind::Ifb).with_address("02:00:00:00:00:04".parse().unwrap()),
    ]);
    let owned = Owned::default().with_links(BTreeSet::from([3]));
    let infiniband = "02:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:09";
    let entry = |lladdr: &str, dst: &str| {
        Neighbour::new(name("eth"), dst.parse().unwrap(), lladdr.parse().unwrap())
    };
    let desired = Desired::default()
        .with_links([Link::new(name("a"), vlan(name("none"), 1))])
        .with_addresses([
            address(name("old"), "10.1.0.1/24"),
            address(name("a"), "10.2.0.1/24"),
            address(name("eth"), "10.3.0.1/24"),
        ])
        .with_neighbours([entry(infiniband, "10.3.0.8"), entry("02:00:00:00:00:09", "10.3.0.9")]);
    let planned = plan(&desired, &observed, &owned, 116).unwrap();
    let holds = planned.ops.iter();
    let holds: Vec<_> = holds.filter_map(|op| Some((op.object.kind(), op.hold.clone()?))).collect();
    assert_eq!(
        holds,
        [
            (Kind::Link, Hold::NoDevice(name("none"))),
            // A link that is to be deleted counts as missing.
            (Kind::Address, Hold::NoDevice(name("old"))),
            (Kind::Neighbour, Hold::LongAddress),
        ]
    );
    let due = planned.ops.iter().filter(|op| op.hold.is_none());
    assert_eq!(due.count(), 4, "{}", planned.text());

    let strict = Policy::from(116).with_strict(true);
    let error = plan(&desired, &observed, &owned, strict).unwrap_err();
    assert_eq!((error.kind(), error.index()), (Kind::Link, 0));
}

#[test]
fn what_is_set_up_waits_for_its_own_creation() {
    let x0 = name("x0");
    let desired = Desired::default().with_links([
        Link::new(x0, LinkKind::Ifb),
        Link::new(name("x3"), vlan(x0, 1)).with_up(true),
    ]);
    let plan = planned(&desired, &observed(Vec::new()));
    assert_eq!(
        lines(&plan),
        ["+ link x0 type ifb", "+ link x3 link x0 type vlan protocol 802.1Q id 1", "~ link x3 up",]
    );
    assert_eq!(needs(&plan), [vec![], vec![0], vec![1]]);
}

#[test]
fn nothing_is_deleted_for_what_cannot_be_created() {
    let observed = observed(vec![seen(3, "x0", LinkKind::Ifb)]);
    let desired = Desired::default().with_links([Link::new(name("x0"), LinkKind::Tap)]);
    let plan = planned(&desired, &observed);
    assert_eq!((plan.ops.len(), plan.conflicts.len()), (0, 1));
}

/// `a`, one end of a pair of which both come up, with addresses.
fn ends_with(addresses: Vec<Address<IfName>>) -> Desired {
    let up = |text, peer| Link::new(name(text), veth(peer)).with_up(true);
    Desired::default().with_links([up("a", "b"), up("b", "a")]).with_addresses(addresses)
}

#[test]
fn a_link_comes_up_after_its_ipv6_addresses_and_before_its_routes() {
    let a = name("a");
    let mut desired = ends_with(vec![address(a, "fd00::1/64"), address(a, "10.1.0.1/24")]);
    desired.routes = Some([route("fd01::/64", Some("fd00::9"), Some(a))].into_iter().collect());
    let plan = planned(&desired, &observed(Vec::new()));
    assert_eq!(
        lines(&plan),
        [
            "+ link a type veth peer name b",
            "~ link b up",
            "+ addr 10.1.0.1/24 dev a",
            "+ addr fd00::1/64 dev a",
            "~ link a up",
            "+ route fd01::/64 via fd00::9 dev a proto 116 metric 1024 table 254",
        ]
    );
    assert_eq!(needs(&plan), [vec![], vec![0], vec![0], vec![0], vec![0], vec![0, 3, 4]]);
    // An existing link that is down behaves the same.
    let down = |index, text, peer| seen(index, text, veth(peer)).with_up(false);
    let there = observed(vec![down(3, "a", "b"), down(4, "b", "a")]);
    let lines = lines(&planned(&desired, &there));
    assert_eq!(lines[0], "~ link b up");
    assert_eq!(lines[3], "~ link a up");
}

/// Addresses and links that the kernel would treat differently if the link came up later.
#[test]
fn a_link_comes_up_before_what_minds() {
    let a = name("a");
    let plain = || address(a, "fd00::1/64");
    let ends = Lifetimes { valid: 3600, preferred: 3600 };
    let mut over_vlan = ends_with(vec![plain()]);
    let links = over_vlan.links.as_mut().unwrap();
    links.insert(Link::new(name("a10"), vlan(a, 10)));
    let mut port = ends_with(vec![plain()]);
    let links = port.links.as_mut().unwrap();
    let mut first = links.remove(&a).unwrap();
    first.master = Some(Some(name("br0")));
    links.insert(first);
    links.insert(Link::new(name("br0"), LinkKind::Bridge(Default::default())));
    let mut small = ends_with(vec![address(name("b"), "fd00::1/64")]);
    let links = small.links.as_mut().unwrap();
    let second = links.remove(&name("b")).unwrap();
    links.insert(second.with_mtu(1280));
    let cases = [
        ends_with(vec![address(a, "10.1.0.1/24")]),
        ends_with(vec![plain(), address(a, "fd00::2/64").with_lifetimes(ends)]),
        ends_with(vec![plain().with_peer("fd00::9".parse().unwrap())]),
        ends_with(vec![plain().with_flags(AddressFlags::AUTOJOIN)]),
        over_vlan,
        port,
        small,
    ];
    for desired in cases {
        let lines = lines(&planned(&desired, &observed(Vec::new())));
        let last_up = lines.iter().rposition(|line| line.ends_with("up"));
        let first_address = lines.iter().position(|line| line.starts_with("+ addr"));
        assert!(last_up < first_address, "{lines:#?}");
    }
}

/// `count` prefixes of each of some lengths, none inside another of its length.
fn prefixes(count: u32) -> Vec<String> {
    let of = |len: u32| (0..count).map(move |at| (0x1400_0000 + (at << (32 - len)), len));
    let all = [20, 24, 32].into_iter().flat_map(of);
    all.map(|(bits, len)| format!("{}/{len}", std::net::Ipv4Addr::from(bits))).collect()
}

fn destinations(plan: &Plan) -> Vec<trueup_net::Prefix> {
    let dst = |op: &trueup_net::Op| match &op.object {
        Object::Route(route) => route.dst,
        object => panic!("{object:?}"),
    };
    plan.ops.iter().map(dst).collect()
}

#[test]
fn many_ipv4_routes_are_scattered_and_never_across_lengths() {
    let made = |dst: &String| route(dst, Some("10.1.0.9"), Some(name("eth0")));
    let there = |dst: &String| route(dst, Some("10.1.0.9"), Some(Dev::index(2))).canonical();
    let all = prefixes(500);
    let mut turned = all.clone();
    turned.reverse();
    let create = |all: &[String]| {
        let desired = Desired::default().with_routes(all.iter().map(made).collect::<Routes>());
        planned(&desired, &observed(Vec::new()))
    };
    let delete = |all: &[String]| {
        let desired = Desired::default().with_routes([]);
        let observed = observed(Vec::new()).with_routes(all.iter().map(there).collect::<Vec<_>>());
        planned(&desired, &observed)
    };
    let (created, deleted) = (create(&all), delete(&all));
    assert_eq!(created, create(&turned));
    assert_eq!(deleted, delete(&turned));
    for (plan, longest_first) in [(created, true), (deleted, false)] {
        let dsts = destinations(&plan);
        let unique: BTreeSet<_> = dsts.iter().copied().collect();
        assert_eq!((dsts.len(), unique.len()), (1500, 1500));
        let mut lengths: Vec<u8> = dsts.iter().map(|dst| dst.len()).collect();
        if longest_first {
            lengths.reverse();
        }
        assert!(lengths.is_sorted(), "{lengths:?}");
        let next = |two: &&[trueup_net::Prefix]| two[0] < two[1];
        let ascending = dsts.windows(2).filter(next).count();
        assert!(ascending < 1490, "they are in order");
        let beside = |two: &&[trueup_net::Prefix]| {
            let bits = |dst: &trueup_net::Prefix| match dst.address() {
                std::net::IpAddr::V4(ip) => u32::from(ip) >> (32 - dst.len()),
                std::net::IpAddr::V6(_) => 0,
            };
            two[0].len() == two[1].len() && bits(&two[0]).abs_diff(bits(&two[1])) < 16
        };
        assert_eq!(dsts.windows(2).filter(beside).count(), 0);
    }
}

#[test]
fn replaces_ipv6_routes_and_few_deletes_go_in_order() {
    let all = prefixes(500);
    let via = |gateway| {
        let there = |dst: &String| route(dst, Some(gateway), Some(Dev::index(2))).canonical();
        observed(Vec::new()).with_routes(all.iter().map(there).collect::<Vec<_>>())
    };
    let desired = |dsts: &[String], gateway| {
        let made = |dst: &String| route(dst, Some(gateway), Some(name("eth0")));
        Desired::default().with_routes(dsts.iter().map(made).collect::<Routes>())
    };
    let six: Vec<String> = (0..500).map(|at| format!("fd00:{at:x}::/32")).collect();
    let few: Vec<String> = all[100..].to_vec();
    let in_order = [
        planned(&desired(&all, "10.1.0.9"), &via("10.1.0.8")),
        planned(&desired(&six, "fe80::9"), &observed(Vec::new())),
        planned(&desired(&few, "10.1.0.9"), &via("10.1.0.9")),
    ];
    for (plan, count) in in_order.iter().zip([1500, 500, 100]) {
        let dsts = destinations(plan);
        assert_eq!(dsts.len(), count);
        for two in dsts.windows(2).filter(|two| two[0].len() == two[1].len()) {
            assert!(two[0] < two[1], "{two:?}");
        }
    }
}
