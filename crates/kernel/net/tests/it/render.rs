//! Ops as commands, text and JSON. iproute2 6.1 has accepted each form of command.

use std::collections::BTreeSet;
use std::time::Duration;

use trueup_net::{
    Action, Address, AddressFlags, BondAttrs, BridgeAttrs, Conflict, Desired, Dev, Devices, Family,
    FwMark, Hold, IfName, Kinds, Lifetimes, Link, LinkKind, MacvlanAttrs, Metric, Neighbour,
    NeighbourState, NextHop, NextHops, Object, Observed, Op, Owned, Plan, Prefix, Reason, Route,
    RouteType, Rule, RuleAction, Scope, VlanAttrs, VlanProtocol, VxlanAttrs, plan,
};

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

/// `br0` is 2, `v0` 3, `v1` 4.
fn links() -> Vec<Link> {
    let link = |index, text, kind| {
        Link::new(name(text), kind)
            .with_index(index)
            .with_up(false)
            .with_mtu(1500)
            .with_no_master()
            .with_alias([])
            .with_group(0)
    };
    let veth = |peer| LinkKind::veth(name(peer));
    let bridge = trueup_net::BridgeAttrs::default()
        .with_stp(false)
        .with_vlan_filtering(false)
        .with_forward_delay(1500)
        .with_ageing_time(30000);
    vec![
        link(2, "br0", LinkKind::Bridge(bridge)),
        link(3, "v0", veth("v1")),
        link(4, "v1", veth("v0")),
    ]
}

fn devices() -> Devices {
    Devices::observed(&links())
}

fn br0() -> Dev {
    Dev::index(2)
}

fn op(action: Action, object: impl Into<Object>) -> Op {
    let reason = match action {
        Action::Create => Reason::Missing,
        Action::Update => Reason::Differs,
        Action::Delete => Reason::Undesired,
    };
    Op::new(action, object.into(), reason)
}

fn update(object: impl Into<Object>, was: impl Into<Object>) -> Op {
    op(Action::Update, object).with_was(was.into())
}

/// Returns the commands that create, replace and delete an object.
fn commands(object: impl Into<Object>) -> [String; 3] {
    let object = object.into();
    [Action::Create, Action::Update, Action::Delete]
        .map(|action| op(action, object.clone()).command(&devices()))
}

fn ours(route: Route) -> Route {
    route.with_protocol(116).canonical()
}

fn via<D>(gateway: &str) -> NextHop<D> {
    NextHop::via(gateway.parse().unwrap())
}

#[test]
fn a_route_with_a_gateway() {
    let hop = via("10.1.0.9").with_dev(br0());
    let route = Route::new(prefix("10.2.0.0/16"), NextHops::One(hop)).with_metric(100);
    let words = "10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 metric 100 table 254";
    let expected = ["add", "replace", "del"].map(|verb| format!("route {verb} {words}"));
    assert_eq!(commands(ours(route)), expected);
}

#[test]
fn routes_of_every_type() {
    let added = |route: Route| commands(ours(route))[0].clone();
    let of_type = |kind, dst| added(Route::of_type(kind, prefix(dst)));
    assert_eq!(
        of_type(RouteType::Blackhole, "0.0.0.0/0"),
        "route add blackhole 0.0.0.0/0 proto 116 table 254"
    );
    assert_eq!(
        of_type(RouteType::Unreachable, "::/0"),
        "route add unreachable ::/0 proto 116 metric 1024 table 254"
    );
    assert_eq!(
        of_type(RouteType::Throw, "2001:db8::/32"),
        "route add throw 2001:db8::/32 proto 116 metric 1024 table 254"
    );
    let direct = Route::new(prefix("10.6.0.0/16"), NextHops::One(NextHop::dev(br0())));
    assert_eq!(added(direct.clone()), "route add 10.6.0.0/16 dev br0 proto 116 table 254");
    let global = direct.clone().with_scope(Scope::UNIVERSE);
    assert_eq!(added(global), "route add 10.6.0.0/16 dev br0 proto 116 table 254 scope 0");
    let local = direct.with_kind(RouteType::Local).with_table(1_000_000);
    assert_eq!(added(local), "route add local 10.6.0.0/16 dev br0 proto 116 table 1000000");
    let both = NextHops::Many(vec![NextHop::dev(br0()), NextHop::dev(Dev::index(3))]);
    assert_eq!(
        added(Route::new(prefix("10.6.0.0/16"), both)),
        "route add 10.6.0.0/16 proto 116 table 254 scope 253 nexthop dev br0 weight 1 nexthop dev v0 weight 1",
        "ip takes a list of next hops to be gateways"
    );
}

#[test]
fn a_multipath_route_with_everything() {
    let mut onlink = via("10.99.0.9").with_dev(Dev::index(3));
    onlink.onlink = true;
    let hops = vec![
        via("10.1.0.9").with_weight(2),
        via("2001:db8:1::9").with_dev(br0()),
        NextHop::dev(Dev::index(9)).with_weight(256),
        onlink,
    ];
    let mut route = Route::new(prefix("10.4.0.0/16"), NextHops::Many(hops))
        .with_tos(16)
        .with_src("10.1.0.1".parse().unwrap());
    route.metrics.set(Metric::Mtu, 1400);
    route.metrics.set(Metric::Features, 1);
    route.metrics.set(Metric::QuickAck, 1);
    route.metrics.set_congctl(Some("cubic".to_owned()));
    route.metrics.set_lock(1 << 2 | 1 << 15);
    let hops = "nexthop via 10.1.0.9 weight 2 nexthop via inet6 2001:db8:1::9 dev br0 weight 1 \
                nexthop dev if9 weight 256 nexthop via 10.99.0.9 dev v0 onlink weight 1";
    let [add, _, delete] = commands(ours(route));
    assert_eq!(
        add,
        format!(
            "route add 10.4.0.0/16 tos 0x10 proto 116 table 254 src 10.1.0.1 mtu lock 1400 \
             features ecn quickack 1 congctl cubic {hops}"
        )
    );
    assert_eq!(delete, format!("route del 10.4.0.0/16 tos 0x10 proto 116 table 254 {hops}"));
}

#[test]
fn an_ipv6_route_with_a_source_prefix() {
    let hop = via("2001:db8:1::9").with_dev(br0());
    let route = Route::new(prefix("2001:db8:5::/48"), NextHops::One(hop))
        .with_from(prefix("2001:db8:6::/48"));
    assert_eq!(
        commands(ours(route))[2],
        "route del 2001:db8:5::/48 from 2001:db8:6::/48 via 2001:db8:1::9 dev br0 proto 116 metric 1024 table 254"
    );
}

#[test]
fn addresses() {
    let plain = Address::new(br0(), "10.1.0.1/24".parse().unwrap());
    let expected = ["add", "replace", "del"].map(|verb| format!("addr {verb} 10.1.0.1/24 dev br0"));
    assert_eq!(commands(plain.clone()), expected);
    let all = plain
        .with_peer("10.6.0.1".parse().unwrap())
        .with_label("br0-x".parse().unwrap())
        .with_scope(Scope::SITE)
        .with_broadcast("10.6.0.255".parse().unwrap())
        .with_lifetimes(Lifetimes { valid: trueup_net::FOREVER, preferred: 300 })
        .with_flags(AddressFlags::NOPREFIXROUTE | AddressFlags::NODAD)
        .with_metric(7);
    assert_eq!(
        commands(all)[0],
        "addr add 10.1.0.1 peer 10.6.0.1/24 dev br0 label br0-x scope 200 broadcast 10.6.0.255 \
         valid_lft forever preferred_lft 300 nodad noprefixroute metric 7"
    );
    let loopback = Address::new(Dev::index(1), "127.0.0.2/8".parse().unwrap());
    assert_eq!(commands(loopback)[0], "addr add 127.0.0.2/8 dev if1");
}

#[test]
fn neighbours() {
    let lladdr = "02:00:00:00:00:09".parse().unwrap();
    let neighbour = Neighbour::new(br0(), "10.1.0.9".parse().unwrap(), lladdr)
        .with_router(true)
        .with_ext_learn(true)
        .with_protocol(116);
    let words =
        "10.1.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent router extern_learn protocol 116";
    assert_eq!(
        commands(neighbour),
        [
            format!("neigh add {words}"),
            format!("neigh replace {words}"),
            "neigh del 10.1.0.9 dev br0".to_owned()
        ]
    );
    let proxy = Neighbour::proxy(br0(), "2001:db8::9".parse().unwrap()).with_protocol(116);
    let [add, _, delete] = commands(proxy);
    assert_eq!(add, "neigh add proxy 2001:db8::9 dev br0 protocol 116");
    assert_eq!(delete, "neigh del proxy 2001:db8::9 dev br0");
}

#[test]
fn rules() {
    let rule = |rule: Rule| {
        let [add, _, delete] = commands(rule.with_protocol(116));
        assert_eq!(add.replace(" add ", " del "), delete, "a rule is its own key");
        add
    };
    let all = Rule::new(Family::Inet, 1002, RuleAction::Lookup(1_000_000))
        .with_not(true)
        .with_from("10.0.0.0/8".parse().unwrap())
        .with_to("10.2.0.0/16".parse().unwrap())
        .with_iif(name("br0"))
        .with_oif(name("v0"))
        .with_fwmark(FwMark { mark: 7, mask: 0xff })
        .with_tos(16)
        .with_ipproto(6)
        .with_sport((10..=10).into())
        .with_dport((20..=30).into())
        .with_uidrange((0..=5).into())
        .with_suppress_prefixlength(0)
        .with_suppress_ifgroup(3);
    assert_eq!(
        rule(all),
        "rule add not pref 1002 from 10.0.0.0/8 to 10.2.0.0/16 iif br0 oif v0 fwmark 0x7/0xff tos 0x10 \
         ipproto 6 sport 10 dport 20-30 uidrange 0-5 suppress_prefixlength 0 suppress_ifgroup 3 \
         protocol 116 table 1000000"
    );
    let of = |family, action| rule(Rule::new(family, 5, action));
    assert_eq!(of(Family::Inet, RuleAction::Goto(9)), "rule add pref 5 protocol 116 goto 9");
    assert_eq!(of(Family::Inet, RuleAction::Nop), "rule add pref 5 protocol 116 nop");
    assert_eq!(of(Family::Inet6, RuleAction::Prohibit), "-6 rule add pref 5 protocol 116 prohibit");
    let l3mdev = Rule::new(Family::Inet, 5, RuleAction::Lookup(0)).with_l3mdev(true);
    assert_eq!(rule(l3mdev), "rule add pref 5 protocol 116 l3mdev");
    let mark = Rule::new(Family::Inet, 5, RuleAction::Blackhole)
        .with_fwmark(FwMark { mark: 7, mask: u32::MAX });
    assert_eq!(rule(mark), "rule add pref 5 fwmark 0x7 protocol 116 blackhole");
}

#[test]
fn a_new_link_is_created_and_then_set_up() {
    let bridge = BridgeAttrs::default().with_stp(true);
    let link = Link::new(name("br1"), LinkKind::Bridge(bridge))
        .with_mtu(1400)
        .with_up(true)
        .with_alias(b"to the provider".as_slice())
        .with_master(br0());
    let [create, setup, delete] = commands(link);
    assert_eq!(create, "link add name br1 mtu 1400 type bridge stp_state 1");
    assert_eq!(setup, "link set dev br1 mtu 1400 master br0 alias \"to the provider\" up");
    assert_eq!(delete, "link del dev br1");
}

#[test]
fn links_of_every_kind() {
    let added = |kind| commands(Link::new(name("x"), kind))[0].clone();
    let vxlan = |remote: &str| {
        VxlanAttrs::new(8)
            .with_local("10.1.0.1".parse().unwrap())
            .with_remote(remote.parse().unwrap())
            .with_port(4789)
            .with_link(br0())
            .with_learning(false)
            .with_ttl(4)
    };
    assert_eq!(
        added(LinkKind::Vxlan(vxlan("10.1.0.2"))),
        "link add name x type vxlan id 8 local 10.1.0.1 remote 10.1.0.2 dev br0 dstport 4789 ttl 4 nolearning"
    );
    assert!(added(LinkKind::Vxlan(vxlan("239.1.1.1"))).contains(" group 239.1.1.1 "));
    assert_eq!(
        added(LinkKind::Vlan(VlanAttrs::new(br0(), 10).with_protocol(VlanProtocol::Dot1Ad))),
        "link add name x link br0 type vlan protocol 802.1ad id 10"
    );
    assert_eq!(
        added(LinkKind::Macvlan(
            MacvlanAttrs::new(br0()).with_mode(trueup_net::MacvlanMode::Bridge)
        )),
        "link add name x link br0 type macvlan mode bridge"
    );
    assert_eq!(added(LinkKind::veth(name("y"))), "link add name x type veth peer name y");
    let mode = trueup_net::BondMode::Dot3Ad;
    assert_eq!(
        added(LinkKind::Bond(BondAttrs::default().with_mode(mode).with_miimon(100))),
        "link add name x type bond mode 802.3ad miimon 100"
    );
    assert_eq!(added(LinkKind::Vrf { table: 100 }), "link add name x type vrf table 100");
    assert_eq!(added(LinkKind::Ifb), "link add name x type ifb");
    assert_eq!(added(LinkKind::Tap), "tuntap add dev x mode tap");
}

#[test]
fn an_update_of_a_link_names_what_changes_and_what_it_was() {
    let was = links().remove(1);
    let link = Link::new(name("v0"), LinkKind::veth_without_peer())
        .with_index(3)
        .with_up(true)
        .with_mtu(1500)
        .with_master(br0())
        .with_alias(b"x y".as_slice());
    let op = update(link, was);
    assert_eq!(op.command(&devices()), "link set dev v0 master br0 alias \"x y\" up");
    assert_eq!(op.reason_text(&devices()), "up: was down; master: was none; alias: was none");
    let was = links().remove(0);
    let bridge = BridgeAttrs::default().with_stp(false).with_forward_delay(200);
    let op = update(Link::new(name("br0"), LinkKind::Bridge(bridge)).with_index(2), was);
    assert_eq!(op.command(&devices()), "link set dev br0 type bridge forward_delay 200");
    assert_eq!(op.reason_text(&devices()), "forward_delay: was 1500");
}

#[test]
fn reasons_name_each_field_with_its_former_value() {
    let reason = |op: Op| op.reason_text(&devices());
    let hop = |gateway: &str| NextHops::One(via(gateway).with_dev(br0()));
    let route = ours(Route::new(prefix("10.2.0.0/16"), hop("10.1.0.9")));
    let mut was = ours(Route::new(prefix("10.2.0.0/16"), hop("10.1.0.8")));
    was.metrics.set(Metric::Mtu, 1400);
    assert_eq!(
        reason(update(route.clone(), was)),
        "nexthops: was via 10.1.0.8 dev br0; metrics: was mtu 1400"
    );
    let mut was = ours(Route::of_type(RouteType::Blackhole, prefix("10.2.0.0/16")));
    was.src = Some("10.1.0.1".parse().unwrap());
    assert_eq!(
        reason(update(route.clone(), was)),
        "type: was blackhole; nexthops: was none; src: was 10.1.0.1"
    );
    let address = Address::new(br0(), "2001:db8::1/64".parse().unwrap());
    let was = address
        .clone()
        .with_lifetimes(Lifetimes { valid: 60, preferred: 0 })
        .with_flags(AddressFlags::NODAD);
    assert_eq!(
        reason(update(address, was)),
        "flags: was nodad; valid_lft: was 60; preferred_lft: was 0"
    );
    let neighbour =
        Neighbour::new(br0(), "10.1.0.9".parse().unwrap(), "02:00:00:00:00:09".parse().unwrap());
    let mut was = neighbour.clone().with_state(NeighbourState::Dynamic);
    was.lladdr = None;
    assert_eq!(
        reason(update(neighbour, was)),
        "lladdr: was none; state: was the kernel's own to move"
    );
    assert_eq!(reason(op(Action::Create, route.clone())), "missing");
    assert_eq!(reason(op(Action::Delete, route)), "ours, no longer desired");
}

/// Ops whose reasons give the object's owners, each with its output.
fn of_owners() -> Vec<(Op, &'static str)> {
    let route = |protocol, gateway: &str| {
        Route::new(prefix("10.2.0.0/16"), NextHops::One(via(gateway).with_dev(br0())))
            .canonical()
            .with_protocol(protocol)
    };
    let because = |reason, hold, mut op: Op| {
        (op.reason, op.hold) = (reason, hold);
        op
    };
    let undesired =
        |reason, hold| because(reason, hold, op(Action::Delete, route(116, "10.1.0.9")));
    let missing = |hold| because(Reason::Missing, hold, op(Action::Create, route(116, "10.1.0.9")));
    let take = update(route(116, "10.1.0.9"), route(4, "10.1.0.8"));
    let back = update(route(4, "10.1.0.8"), route(116, "10.1.0.9"));
    let ms = Duration::from_millis;
    vec![
        (because(Reason::Overridden, None, take), "overridden: nexthops: was via 10.1.0.8 dev br0"),
        (because(Reason::Restored, None, back), "restored: no longer desired"),
        (undesired(Reason::Orphan, None), "orphan: ours, and not declared"),
        (
            undesired(Reason::Orphan, Some(Hold::Grace(ms(9_001)))),
            "orphan: ours, and not declared; held: grace: bears our marker and was not seen \
             declared, left alone for 10 s",
        ),
        (
            missing(Some(Hold::Contention { times: 3, by: Some(4), left: ms(2_000) })),
            "missing; held: contention: lost to another writer 3 times, by protocol 4; left alone for 2 s",
        ),
        (
            missing(Some(Hold::Contention { times: 5, by: None, left: ms(1) })),
            "missing; held: contention: lost to another writer 5 times; left alone for 1 s",
        ),
        (
            missing(Some(Hold::Unrecorded("disk full".into()))),
            "missing; held: could not be recorded beforehand: disk full",
        ),
    ]
}

#[test]
fn reasons_and_holds_tell_whose_an_object_is() {
    for (op, reason) in of_owners() {
        assert_eq!(op.reason_text(&devices()), reason);
        let spec = op.object.spec(&devices());
        let (mark, end) = match op.action {
            Action::Create => ('+', "9"),
            Action::Update if op.reason == Reason::Restored => ('~', "8"),
            Action::Update => ('~', "9"),
            Action::Delete => ('-', "9"),
        };
        assert!(spec.contains(&format!("via 10.1.0.{end}")), "{spec}");
        let mut plan = Plan::default();
        plan.devices = devices();
        plan.ops = vec![op.clone()];
        let held = if op.hold.is_some() { "! " } else { "" };
        let text = format!("{held}{mark} route {spec}   ({reason})\n");
        assert_eq!(plan.text().to_string(), text);
        let command = op.command(&devices());
        let batch = match op.hold {
            Some(_) => format!("# {command}   ({reason})\n"),
            None => format!("{command}\n"),
        };
        assert_eq!(plan.batch().to_string(), batch);
    }
}

#[cfg(feature = "serde")]
#[test]
fn the_json_of_an_op_tells_whose_its_object_is() {
    for (op, reason) in of_owners() {
        let json = serde_json::to_value(op.record(&devices())).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "op": op.action,
                "kind": "route",
                "command": op.command(&devices()),
                "reason": reason,
            })
        );
    }
    let commands = of_owners().into_iter().map(|(op, _)| op.command(&devices()));
    assert_eq!(
        commands.take(3).collect::<Vec<_>>(),
        [
            "route replace 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254",
            "route replace 10.2.0.0/16 via 10.1.0.8 dev br0 proto 4 table 254",
            "route del 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254",
        ]
    );
}

/// A plan with an op of each action, a held op, one that waits for it, and a conflict.
fn mixed() -> (Observed, Plan) {
    let hop = |gateway: &str| NextHops::One(via(gateway).with_dev(br0()));
    let route = |dst: &str, gateway: &str, protocol| {
        Route::new(prefix(dst), hop(gateway)).canonical().with_protocol(protocol)
    };
    let observed = Observed::default()
        .with_links(links())
        .with_routes([
            route("10.2.0.0/16", "10.1.0.8", 116),
            route("10.3.0.0/16", "10.1.0.8", 4),
            route("10.4.0.0/16", "10.1.0.8", 116),
        ])
        .with_complete(Kinds::ALL);
    let named = |gateway: &str, dev: &str| NextHops::One(via(gateway).with_dev(name(dev)));
    let desired = Desired::default()
        .with_links([Link::must_exist(name("tun9"))])
        .with_routes([
            Route::new(prefix("10.1.0.0/16"), named("10.1.0.9", "br0")),
            Route::new(prefix("10.2.0.0/16"), named("10.1.0.9", "br0")),
            Route::new(prefix("10.3.0.0/16"), named("10.1.0.9", "br0")),
            Route::new(prefix("10.5.0.0/16"), named("10.1.0.9", "tun9")),
        ])
        .with_rules([Rule::new(Family::Inet6, 9, RuleAction::Prohibit)]);
    let plan = plan(&desired, &observed, &Owned::default(), 116).unwrap();
    (observed, plan)
}

#[test]
fn a_plan_as_text() {
    let (_, plan) = mixed();
    assert_eq!(
        plan.text().to_string(),
        "\
! + link tun9   (missing; held: must exist, netlink cannot create it)
+ rule inet6 pref 9 protocol 116 prohibit   (missing)
+ route 10.1.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254   (missing)
~ route 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254   (nexthops: was via 10.1.0.8 dev br0)
! + route 10.5.0.0/16 via 10.1.0.9 dev tun9 proto 116 table 254   (missing; held: no interface `tun9`)
- route 10.4.0.0/16 via 10.1.0.8 dev br0 proto 116 table 254   (ours, no longer desired)
! route 10.3.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254   (conflict: foreign 10.3.0.0/16 via 10.1.0.8 dev br0 proto 4 table 254; nexthops: is via 10.1.0.8 dev br0, declared via 10.1.0.9 dev br0; declare what is there, or write on_conflict = \"take\")
"
    );
}

#[test]
fn a_plan_for_ip_batch_leaves_out_what_is_held() {
    let (_, plan) = mixed();
    assert_eq!(
        plan.batch().to_string(),
        "\
# link add name tun9   (missing; held: must exist, netlink cannot create it)
route add 10.1.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254
route replace 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254
# route add 10.5.0.0/16 via 10.1.0.9 dev tun9 proto 116 table 254   (missing; held: no interface `tun9`)
route del 10.4.0.0/16 via 10.1.0.8 dev br0 proto 116 table 254
-6 rule add pref 9 protocol 116 prohibit
# route 10.3.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254   (conflict: foreign 10.3.0.0/16 via 10.1.0.8 dev br0 proto 4 table 254; nexthops: is via 10.1.0.8 dev br0, declared via 10.1.0.9 dev br0; declare what is there, or write on_conflict = \"take\")
"
    );
}

#[test]
fn what_ip_batch_cannot_be_given_is_a_comment_and_so_is_what_needs_it() {
    let odd = IfName::from_bytes(b"x\xff").unwrap();
    let bridge = |name, alias: &str| {
        Link::new(name, LinkKind::Bridge(trueup_net::BridgeAttrs::default()))
            .with_up(true)
            .with_alias(alias.as_bytes())
    };
    let route = |dst: &str, gateway: &str| Route::new(prefix(dst), NextHops::One(via(gateway)));
    let desired = Desired::default()
        .with_links([bridge(name("b"), "x#y"), bridge(odd, "plain")])
        .with_addresses([
            Address::new(odd, "10.1.0.1/24".parse().unwrap()),
            Address::new(name("b"), "10.2.0.1/24".parse().unwrap()),
        ])
        .with_routes([route("10.3.0.0/16", "10.1.0.9"), route("10.4.0.0/16", "10.2.0.9")]);
    let plan = plan(&desired, &Observed::default(), &Owned::default(), 116).unwrap();
    let batch = plan.batch().to_string();
    let (comments, commands): (Vec<&str>, Vec<&str>) =
        batch.lines().partition(|line| line.starts_with("# "));
    assert_eq!(
        commands,
        [
            "link add name b type bridge",
            "link set dev b up",
            "addr add 10.2.0.1/24 dev b",
            "route add 10.4.0.0/16 via 10.2.0.9 proto 116 table 254",
        ]
    );
    let not_given = "(`ip -batch` cannot be given $'...')";
    let waits = "(waits for what `ip -batch` cannot be given)";
    assert_eq!(
        comments,
        [
            format!("# link set dev b alias $'x#y' up   {not_given}"),
            format!(r"# link add name $'x\xff' type bridge   {not_given}"),
            format!(r"# link set dev $'x\xff' alias plain up   {waits}"),
            format!(r"# addr add 10.1.0.1/24 dev $'x\xff'   {waits}"),
            format!("# route add 10.3.0.0/16 via 10.1.0.9 proto 116 table 254   {waits}"),
        ]
    );
}

#[test]
fn a_held_delete_names_the_bystander() {
    let foreign = Address::new(br0(), "10.9.0.1/24".parse().unwrap());
    let observed =
        Observed::default().with_links(links()).with_addresses([foreign]).with_complete(Kinds::ALL);
    let desired = Desired::default().with_links([]);
    let owned = Owned::default().with_links(BTreeSet::from([2]));
    let plan = plan(&desired, &observed, &owned, 116).unwrap();
    assert!(matches!(plan.ops[0].hold, Some(Hold::Collateral(_))));
    assert_eq!(plan.ops[0].command(&plan.devices), "link del dev br0");
    assert_eq!(
        plan.text().to_string(),
        "! - link br0   (ours, no longer desired; held: would take along addr 10.9.0.1/24 dev br0)\n"
    );
}

#[cfg(feature = "serde")]
#[test]
fn a_plan_as_json() {
    use trueup_net::render::snapshot_hash;

    let (observed, plan) = mixed();
    let snapshot = snapshot_hash(&observed);
    let json = serde_json::to_value(plan.record(&observed)).unwrap();
    assert_eq!(json["ops"].as_array().unwrap().len(), plan.ops.len());
    let update = |op: &&serde_json::Value| op["op"] == "update";
    assert_eq!(
        *json["ops"].as_array().unwrap().iter().find(update).unwrap(),
        serde_json::json!({
            "op": "update",
            "kind": "route",
            "command": "route replace 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254",
            "reason": "nexthops: was via 10.1.0.8 dev br0",
        })
    );
    assert_eq!(
        json["conflicts"],
        serde_json::json!([{
            "kind": "route",
            "desired": "10.3.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254",
            "foreign": "10.3.0.0/16 via 10.1.0.8 dev br0 proto 4 table 254",
            "differs": ["nexthops"],
            "why": "10.3.0.0/16 via 10.1.0.8 dev br0 proto 4 table 254; nexthops: is via 10.1.0.8 \
                    dev br0, declared via 10.1.0.9 dev br0; declare what is there, or write \
                    on_conflict = \"take\"",
        }])
    );
    assert_eq!(json["snapshot"], snapshot.to_string());
    let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["adopted", "conflicts", "notices", "ops", "snapshot"]);
}

#[test]
fn a_conflict_says_nothing_of_what_is_left_of_a_lifetime() {
    let address = |valid| {
        let lifetimes = Lifetimes { valid, preferred: valid };
        Address::new(Dev::index(2), "10.0.0.5/24".parse().unwrap()).with_lifetimes(lifetimes)
    };
    let text = |left| {
        let conflict = Conflict::new(address(600).with_metric(5), address(left));
        conflict.text(&Devices::default())
    };
    let expected = "foreign 10.0.0.5/24 dev if2; valid_lft: is another, declared 600; preferred_lft: is \
                    another, declared 600; metric: is 0, declared 5; declare what is there, or write \
                    on_conflict = \"take\"";
    assert_eq!(text(200), expected);
    assert_eq!(text(199), expected);
}
