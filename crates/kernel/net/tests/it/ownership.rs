//! The owner of an object and the plan that follows: one small plan for each rule.

use trueup_net::{
    Action, Address, Desired, Dev, Family, Hold, IfName, Kind, Kinds, Lifetimes, Link, LinkKind,
    LinkStatus, Neighbour, NeighbourState, NextHop, NextHops, Object, ObjectKey, ObjectKind,
    Observed, Owned, Plan, Policy, Protocols, Reason, Route, RouteType, Rule, RuleAction, plan,
};

const MARKER: u8 = 116;
const OTHER: u8 = 4;

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

/// `eth0` is 2 and another writer's.
fn observed() -> Observed {
    Observed::default()
        .with_links([seen(2, "eth0", LinkKind::Other("".into()))])
        .with_complete(Kinds::ALL)
}

fn eth0() -> Dev {
    Dev::index(2)
}

/// A route to 10.2.0.0/16.
fn route<D>(gateway: &str, dev: D, protocol: u8) -> Route<D> {
    let hop = NextHop::via(gateway.parse().unwrap()).with_dev(dev);
    Route::new("10.2.0.0/16".parse().unwrap(), NextHops::One(hop))
        .canonical()
        .with_protocol(protocol)
}

fn with_routes(routes: Vec<Route>) -> Observed {
    observed().with_routes(routes)
}

fn address<D>(dev: D, protocol: u8) -> Address<D> {
    Address::new(dev, "10.1.0.1/24".parse().unwrap()).with_protocol(protocol)
}

fn rule(protocol: u8) -> Rule {
    Rule::new(Family::Inet, 77, RuleAction::Lookup(5)).with_protocol(protocol)
}

fn with_rules(rules: Vec<Rule>) -> Observed {
    observed().with_rules(rules)
}

fn desired_rule() -> Desired {
    Desired::default().with_rules([rule(0)])
}

fn desired_route(gateway: &str) -> Desired {
    Desired::default().with_routes([route(gateway, name("eth0"), 0)])
}

/// Manages every kind, and desires nothing.
fn none() -> Desired {
    Desired::default()
        .with_links([])
        .with_addresses([])
        .with_neighbours([])
        .with_routes([])
        .with_rules([])
}

fn by_ledger(kind: Kind) -> Policy {
    Policy::from(MARKER).with_by_ledger(Kinds::NONE.with(kind))
}

fn unstored(kind: Kind) -> Policy {
    by_ledger(kind).with_unstored(Kinds::NONE.with(kind))
}

fn adopting() -> Policy {
    Policy::from(MARKER).with_adopt(true)
}

fn taking() -> Policy {
    Policy::from(MARKER).with_take(true)
}

fn recorded(object: impl Into<Object>) -> Owned {
    let mut owned = Owned::default();
    match object.into() {
        Object::Link(link) => drop(owned.links.insert(link.index)),
        Object::Address(a) => drop(owned.addresses.insert(a.key(), a.protocol)),
        Object::Neighbour(n) => drop(owned.neighbours.insert(n.key(), n.protocol)),
        Object::Route(route) => drop(owned.routes.insert(route.key(), route.protocol)),
        Object::Rule(rule) => drop(owned.rules.insert(rule.key())),
        Object::Nexthop(_) => {}
        other => panic!("{other:?}"),
    }
    owned
}

/// Makes a ledger with an overridden object, as it is now and as it was before.
fn taken(now: impl Into<Object>, former: impl Into<Object>) -> Owned {
    let now = now.into();
    let mut owned = match now {
        Object::Link(_) => Owned::default(),
        _ => recorded(now.clone()),
    };
    owned.former.insert(now.key(), former.into());
    owned
}

fn planned(
    desired: &Desired,
    observed: &Observed,
    owned: &Owned,
    policy: impl Into<Policy>,
) -> Plan {
    plan(desired, observed, owned, policy).unwrap()
}

/// The lines of a plan.
fn lines(
    desired: &Desired,
    observed: &Observed,
    owned: &Owned,
    policy: impl Into<Policy>,
) -> Vec<String> {
    let text = planned(desired, observed, owned, policy).text().to_string();
    text.lines().map(str::to_owned).collect()
}

const NOTHING: [&str; 0] = [];
const UNDESIRED: &str =
    "- route 10.2.0.0/16 via 10.1.0.9 dev eth0 proto 116 table 254   (ours, no longer desired)";

#[test]
fn of_a_kind_by_ledger_the_marker_proves_nothing() {
    let ours = route("10.1.0.9", eth0(), MARKER);
    let there = with_routes(vec![ours.clone()]);
    let lines = |owned: &Owned, policy| lines(&none(), &there, owned, &policy);
    assert_eq!(lines(&Owned::default(), MARKER.into()), [UNDESIRED]);
    assert_eq!(lines(&Owned::default(), by_ledger(Kind::Route)), NOTHING);
    assert_eq!(lines(&Owned::default(), by_ledger(Kind::Rule)), [UNDESIRED]);
    assert_eq!(lines(&recorded(ours), by_ledger(Kind::Route)), [UNDESIRED]);
}

#[test]
fn what_bears_another_protocol_than_was_recorded_is_another_s() {
    let owned = recorded(route("10.1.0.9", eth0(), MARKER));
    let rewritten = with_routes(vec![route("10.1.0.9", eth0(), OTHER)]);
    assert_eq!(lines(&none(), &rewritten, &owned, MARKER), NOTHING);
    assert_eq!(lines(&none(), &rewritten, &owned, by_ledger(Kind::Route)), NOTHING);
}

#[test]
fn where_no_protocol_is_stored_the_ledger_alone_proves() {
    let there = observed().with_addresses([address(eth0(), 0)]);
    let policy = unstored(Kind::Address);
    assert_eq!(lines(&none(), &there, &Owned::default(), &policy), NOTHING);
    assert_eq!(
        lines(&none(), &there, &recorded(address(eth0(), 0)), &policy),
        ["- addr 10.1.0.1/24 dev eth0   (ours, no longer desired)"]
    );
}

#[test]
fn nothing_is_deleted_of_what_is_unknown() {
    let ours = route("10.1.0.9", eth0(), MARKER);
    let owned = taken(ours.clone(), route("10.1.0.8", eth0(), OTHER));
    let mut there = with_routes(vec![ours]);
    let mut unmanaged = none();
    unmanaged.routes = None;
    assert_eq!(lines(&unmanaged, &there, &owned, taking()), NOTHING);
    there.complete = Kinds::ALL.without(Kind::Route);
    assert_eq!(lines(&none(), &there, &owned, taking()), NOTHING);
    assert_eq!(lines(&none(), &there, &Owned::default(), MARKER), NOTHING);
}

#[test]
fn an_equal_foreign_object_is_adopted_only_where_that_is_asked_for() {
    let foreign = route("10.1.0.9", eth0(), OTHER);
    let there = with_routes(vec![foreign.clone()]);
    let desired = desired_route("10.1.0.9");
    let adopted = |desired: &Desired, policy: Policy| {
        let plan = planned(desired, &there, &Owned::default(), &policy);
        assert!(plan.is_empty());
        plan.adopted
    };
    assert_eq!(adopted(&desired, MARKER.into()), []);
    assert_eq!(adopted(&desired, adopting()), [foreign.clone().into()]);
    let mut flagged = desired.clone();
    flagged.routes.as_mut().unwrap().adopt(foreign.key());
    assert_eq!(adopted(&flagged, MARKER.into()), [foreign.clone().into()]);
    assert_eq!(
        planned(&desired_route("10.1.0.8"), &there, &Owned::default(), adopting()).adopted,
        [],
        "it differs"
    );
    // The ledger could not tell which of the two it means.
    let beside = with_routes(vec![foreign.clone(), route("10.1.0.7", eth0(), OTHER)]);
    let plan = planned(&desired, &beside, &Owned::default(), adopting());
    assert!(plan.is_empty() && plan.adopted.is_empty());
    // Once recorded, it is ours with its protocol.
    let owned = recorded(foreign);
    let plan = planned(&desired, &there, &owned, adopting());
    assert!(plan.is_empty() && plan.adopted.is_empty());
    assert_eq!(
        lines(&none(), &there, &owned, MARKER),
        ["- route 10.2.0.0/16 via 10.1.0.9 dev eth0 proto 4 table 254   (ours, no longer desired)"]
    );
}

#[test]
fn a_link_is_adopted_if_we_could_have_made_it() {
    let there =
        observed().with_links([seen(3, "d0", LinkKind::Dummy), seen(4, "t0", LinkKind::Tap)]);
    let desired = Desired::default()
        .with_links([Link::new(name("d0"), LinkKind::Dummy), Link::new(name("t0"), LinkKind::Tap)]);
    let plan = planned(&desired, &there, &Owned::default(), adopting());
    assert!(plan.is_empty());
    assert_eq!(plan.adopted, [there.links[0].clone().into()]);
    let owned = recorded(there.links[0].clone());
    assert_eq!(planned(&desired, &there, &owned, adopting()).adopted, []);
    assert_eq!(
        lines(&none(), &there, &owned, adopting()),
        ["- link d0   (ours, no longer desired)"]
    );
}

#[test]
fn what_the_kernel_made_is_neither_adopted_nor_taken() {
    let main = Rule::new(Family::Inet, 32766, RuleAction::Lookup(254)).with_protocol(0);
    let own = observed()
        .with_addresses([Address::new(eth0(), "fe80::1/64".parse().unwrap()).with_protocol(2)])
        .with_routes([route("10.1.0.9", eth0(), 2)])
        .with_rules([main.clone(), rule(2)]);
    let mut desired = desired_route("10.1.0.9")
        .with_addresses([Address::new(name("eth0"), "fe80::1/64".parse().unwrap())])
        .with_rules([main, rule(0)]);
    let policy = adopting().with_take(true);
    let plan = planned(&desired, &own, &Owned::default(), &policy);
    assert!(plan.is_empty() && plan.adopted.is_empty());
    desired.routes = desired_route("10.1.0.8").routes;
    let short = Address::new(name("eth0"), "fe80::1/64".parse().unwrap())
        .with_lifetimes(Lifetimes { valid: 60, preferred: 60 });
    desired.addresses.as_mut().unwrap().insert(short);
    let plan = planned(&desired, &own, &Owned::default(), &policy);
    assert_eq!((plan.ops.len(), plan.conflicts.len()), (0, 2));
}

#[test]
fn of_equal_rules_ours_serves_then_that_of_the_lowest_protocol() {
    let adopted = |one: u8, other: u8, owned: &Owned| {
        let of = |rules: [Rule; 2]| {
            let there = with_rules(rules.to_vec());
            let plan = planned(&desired_rule(), &there, owned, adopting());
            assert_eq!(plan.ops, []);
            plan.adopted
        };
        let adopted = of([rule(one), rule(other)]);
        assert_eq!(adopted, of([rule(other), rule(one)]), "whatever the order");
        adopted
    };
    let none_owned = Owned::default();
    assert_eq!(adopted(3, 12, &none_owned), [rule(3).into()]);
    assert_eq!(adopted(3, MARKER, &none_owned), []);
    assert_eq!(adopted(3, 12, &recorded(rule(12))), []);
    // A second one of ours is unnecessary.
    let both = with_rules(vec![rule(3), rule(12), rule(MARKER)]);
    assert_eq!(
        lines(&desired_rule(), &both, &recorded(rule(12)), adopting()),
        ["- rule inet pref 77 protocol 12 table 5   (ours, no longer desired)"]
    );
}

#[test]
fn an_adopted_rule_goes_alone() {
    let there = with_rules(vec![rule(3), rule(12)]);
    assert_eq!(
        lines(&none(), &there, &recorded(rule(12)), MARKER),
        ["- rule inet pref 77 protocol 12 table 5   (ours, no longer desired)"]
    );
}

#[test]
fn a_rule_that_bears_our_marker_and_is_not_recorded_serves_by_ledger() {
    let policy = by_ledger(Kind::Rule).with_adopt(true);
    let there = with_rules(vec![rule(MARKER)]);
    let plan = planned(&desired_rule(), &there, &Owned::default(), &policy);
    assert!(plan.is_empty() && plan.adopted.is_empty(), "{plan:?}");
    // Another agent with its own ledger may have made it: it is adopted only on request.
    let asked = policy.clone().with_adopt_protocols(Protocols::NONE.with(MARKER));
    let plan = planned(&desired_rule(), &there, &Owned::default(), asked);
    assert_eq!((plan.ops.len(), &*plan.adopted), (0, &[rule(MARKER).into()][..]));
    assert_eq!(lines(&none(), &there, &Owned::default(), &policy), NOTHING);
    // Another rule with its key, which the kernel takes for the same, is in the way.
    let not = rule(MARKER).with_not(true);
    let plan = planned(&desired_rule(), &with_rules(vec![not]), &Owned::default(), policy);
    assert_eq!((plan.ops.len(), plan.conflicts.len()), (0, 1));
}

#[test]
fn where_rules_have_no_protocol_the_ledger_tells_ours() {
    let policy = unstored(Kind::Rule);
    let there = with_rules(vec![rule(0)]);
    let made = lines(&desired_rule(), &with_rules(vec![]), &Owned::default(), &policy);
    assert_eq!(made, ["+ rule inet pref 77 protocol 0 table 5   (missing)"]);
    for owned in [Owned::default(), recorded(rule(0))] {
        assert_eq!(lines(&desired_rule(), &there, &owned, &policy), NOTHING);
    }
    assert_eq!(lines(&none(), &there, &Owned::default(), &policy), NOTHING);
    assert_eq!(
        lines(&none(), &there, &recorded(rule(0)), &policy),
        ["- rule inet pref 77 protocol 0 table 5   (ours, no longer desired)"]
    );
}

#[test]
fn a_foreign_object_is_taken_where_the_kernel_can_change_it_in_place() {
    let there = with_routes(vec![route("10.1.0.8", eth0(), OTHER)]);
    let desired = desired_route("10.1.0.9");
    let plan = planned(&desired, &there, &Owned::default(), MARKER);
    assert_eq!((plan.ops.len(), plan.conflicts.len()), (0, 1));
    assert_eq!(
        lines(&desired, &there, &Owned::default(), taking()),
        ["~ route 10.2.0.0/16 via 10.1.0.9 dev eth0 proto 116 table 254   \
             (overridden: nexthops: was via 10.1.0.8 dev eth0)"]
    );
    let conflicts = |desired: &Desired, there: &Observed| {
        let plan = planned(desired, there, &Owned::default(), taking());
        assert_eq!(plan.ops, []);
        plan.conflicts.len()
    };
    let local = route("10.1.0.9", eth0(), OTHER).with_kind(RouteType::Local);
    assert_eq!(conflicts(&desired, &with_routes(vec![local])), 1);
    let two = vec![route("10.1.0.8", eth0(), OTHER), route("10.1.0.7", eth0(), OTHER)];
    assert_eq!(conflicts(&desired, &with_routes(two)), 1);
    let beside_ours = vec![route("10.1.0.8", eth0(), OTHER), route("10.1.0.7", eth0(), MARKER)];
    assert_eq!(conflicts(&desired, &with_routes(beside_ours)), 1);
    let labelled =
        observed().with_addresses([address(eth0(), OTHER).with_label("eth0-a".parse().unwrap())]);
    let label = "eth0-b".parse().unwrap();
    let desired = Desired::default().with_addresses([address(name("eth0"), 0).with_label(label)]);
    assert_eq!(conflicts(&desired, &labelled), 1);
    // An open field matches anything.
    let desired = Desired::default().with_addresses([address(name("eth0"), 0)]);
    assert_eq!(conflicts(&desired, &labelled), 0);
    let ifb = observed().with_links([seen(3, "d0", LinkKind::Ifb)]);
    let desired = Desired::default().with_links([Link::new(name("d0"), LinkKind::Dummy)]);
    assert_eq!(conflicts(&desired, &ifb), 1);
}

#[test]
fn a_taken_link_is_changed_and_given_back_and_never_deleted() {
    let former = seen(3, "d0", LinkKind::Dummy).with_mtu(1400);
    let now = seen(3, "d0", LinkKind::Dummy);
    let there = observed().with_links([now.clone()]);
    let mut owned = taken(now, former);
    let desired =
        |kind, mtu| Desired::default().with_links([Link::new(name("d0"), kind).with_mtu(mtu)]);
    let given_back = ["~ link d0 mtu 1400   (restored: no longer desired)"];
    let changed = ["~ link d0 mtu 1300   (mtu: was 1500)"];
    for index in [None, Some(3)] {
        // Although it is listed among our own creations.
        owned.links.extend(index);
        let lines = |desired: &Desired| lines(desired, &there, &owned, MARKER);
        assert_eq!(lines(&none()), given_back);
        assert_eq!(lines(&desired(LinkKind::Dummy, 1500)), NOTHING);
        assert_eq!(lines(&desired(LinkKind::Dummy, 1300)), changed);
        let plan = planned(&desired(LinkKind::Ifb, 1500), &there, &owned, taking());
        assert_eq!((plan.ops.len(), plan.conflicts.len()), (0, 1));
    }
}

#[test]
fn what_was_taken_is_given_back_with_the_protocol_that_it_bore() {
    let now = route("10.1.0.9", eth0(), MARKER);
    let former = route("10.1.0.8", eth0(), OTHER);
    let owned = taken(now.clone(), former);
    let there = with_routes(vec![now.clone()]);
    assert_eq!(
        lines(&none(), &there, &owned, MARKER),
        ["~ route 10.2.0.0/16 via 10.1.0.8 dev eth0 proto 4 table 254   \
             (restored: no longer desired)"]
    );
    // It is still desired, with any other row of ours on the key.
    let twice = with_routes(vec![now, route("10.1.0.7", eth0(), MARKER)]);
    assert_eq!(
        lines(&desired_route("10.1.0.9"), &twice, &owned, MARKER),
        [UNDESIRED.replace("0.9", "0.7")]
    );
    assert_eq!(
        lines(&none(), &twice, &owned, MARKER),
        [
            "~ route 10.2.0.0/16 via 10.1.0.8 dev eth0 proto 4 table 254   \
             (restored: no longer desired)",
            &UNDESIRED.replace("0.9", "0.7"),
        ]
    );
}

#[test]
fn what_cannot_be_given_back_is_deleted() {
    let now = route("10.1.0.9", eth0(), MARKER);
    let there = with_routes(vec![now.clone()]);
    let former = route("10.1.0.8", eth0(), OTHER);
    let unknown = former.clone().with_unmodelled(true);
    let gone = route("10.1.0.8", Dev::index(99), OTHER);
    for former in [unknown, gone] {
        let owned = taken(now.clone(), former);
        assert_eq!(lines(&none(), &there, &owned, MARKER), [UNDESIRED]);
    }
    // Nor does it keep a device.
    let x0 = Dev::index(3);
    let unknown = route("10.1.0.8", x0, OTHER).with_unmodelled(true);
    let mut owned = taken(now.clone(), unknown);
    owned.links.insert(3);
    let with_x0 = [observed().links[0].clone(), seen(3, "x0", LinkKind::Dummy)];
    assert_eq!(
        lines(&none(), &there.clone().with_links(with_x0), &owned, MARKER),
        [UNDESIRED, "- link x0   (ours, no longer desired)"]
    );
    // Another writer has the key by now.
    let owned = taken(now.clone(), former.clone());
    let beside = with_routes(vec![now.clone(), former]);
    assert_eq!(lines(&none(), &beside, &owned, MARKER), [UNDESIRED]);
    // A device that it needs is not recreated.
    let there = there.with_links([observed().links[0].clone(), seen(3, "d0", LinkKind::Dummy)]);
    let mut owned = taken(now, route("10.1.0.8", Dev::index(3), OTHER));
    owned.links.insert(3);
    let desired = none().with_links([Link::new(name("d0"), LinkKind::Ifb)]);
    let plan = planned(&desired, &there, &owned, MARKER);
    let text = plan.text().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("held: would take along route 10.2.0.0/16 via 10.1.0.8"), "{text}");
    assert!(lines[1].ends_with("(restored: no longer desired)"), "{text}");
}

#[test]
fn what_cannot_change_back_in_place_is_made_anew() {
    let now = address(eth0(), MARKER);
    let former = address(eth0(), OTHER).with_label("eth0-a".parse().unwrap());
    let there = observed().with_addresses([now.clone()]);
    let plan = planned(&none(), &there, &taken(now, former.clone()), MARKER);
    assert_eq!(
        plan.text().to_string(),
        "\
- addr 10.1.0.1/24 dev eth0   (restored: no longer desired)
+ addr 10.1.0.1/24 dev eth0 label eth0-a   (restored: no longer desired)
"
    );
    assert_eq!(plan.ops[1].object, former.into());
    assert!(plan.needs(1).eq([0]));
}

/// The kernel keeps the protocol of a neighbour overwritten without one.
#[test]
fn a_neighbour_without_a_protocol_is_restored_anew() {
    let to_mac = |lladdr: &str, protocol| {
        let lladdr = lladdr.parse().unwrap();
        Neighbour::new(eth0(), "10.1.0.9".parse().unwrap(), lladdr).with_protocol(protocol)
    };
    let now = to_mac("02:00:00:00:00:01", MARKER);
    let there = observed().with_neighbours([now.clone()]);
    let actions = |protocol| {
        let former = to_mac("02:00:00:00:00:02", protocol);
        let plan = planned(&none(), &there, &taken(now.clone(), former), MARKER);
        let ops = plan.ops.iter();
        ops.map(|op| (op.action, op.reason)).collect::<Vec<_>>()
    };
    let restored = |action| (action, Reason::Restored);
    assert_eq!(actions(OTHER), [restored(Action::Update)]);
    assert_eq!(actions(0), [Action::Delete, Action::Create].map(restored));
}

#[test]
fn what_is_given_back_keeps_what_it_rests_on() {
    let x0 = Dev::index(3);
    let there = observed()
        .with_links([observed().links[0].clone(), seen(3, "x0", LinkKind::Dummy)])
        .with_addresses([address(x0, MARKER)])
        .with_routes([route("192.0.2.9", eth0(), MARKER)]);
    let former = route("10.1.0.9", x0, OTHER);
    let mut owned = taken(there.routes[0].clone(), former.clone());
    owned.links.insert(3);
    let plan = planned(&none(), &there, &owned, MARKER);
    let collateral = Some(Hold::Collateral(Box::new(former.into())));
    let holds: Vec<_> = plan.ops.iter().map(|op| (op.object.kind(), op.hold.clone())).collect();
    assert_eq!(
        holds,
        [(Kind::Route, None), (Kind::Address, collateral.clone()), (Kind::Link, collateral),]
    );
}

/// A neighbour that goes with the carrier holds the link, since the kernel looks for a carrier on a
/// change.
#[test]
fn a_link_without_a_carrier_keeps_the_neighbours_that_go_with_one() {
    let there = seen(3, "br0", LinkKind::Bridge(Default::default()));
    let status = LinkStatus::default().with_carrier(false);
    let uplink = Link::new(name("br0"), LinkKind::Bridge(Default::default()));
    let desired = none().with_links([uplink.with_alias(*b"uplink")]);
    let on_br0 = |dst: &str| {
        let lladdr = "02:00:00:00:00:09".parse().unwrap();
        Neighbour::new(Dev::index(3), dst.parse().unwrap(), lladdr)
    };
    for dst in ["10.1.0.9", "fd00::9"] {
        let hold = |neighbour: Neighbour| {
            let there = observed()
                .with_links([there.clone()])
                .with_link_status([(3, status)])
                .with_neighbours([neighbour]);
            let mut owned = Owned::default();
            owned.links.insert(3);
            let plan = planned(&desired, &there, &owned, MARKER);
            assert_eq!(plan.ops.len(), 1);
            plan.ops[0].hold.clone()
        };
        assert_eq!(hold(on_br0(dst)), None);
        let goes = [
            on_br0(dst).with_state(NeighbourState::NoArp),
            Neighbour::proxy(Dev::index(3), dst.parse().unwrap()),
        ];
        for goes in goes {
            let held = Hold::Collateral(Box::new(goes.clone().into()));
            assert_eq!(hold(goes), Some(held));
        }
    }
}

#[test]
fn an_end_of_a_pair_that_is_not_ours_keeps_the_other() {
    let veth = |peer| LinkKind::veth(name(peer));
    let there = observed().with_links([seen(3, "v0", veth("v1")), seen(4, "v1", veth("v0"))]);
    let mut owned = recorded(there.links[0].clone());
    let plan = planned(&none(), &there, &owned, MARKER);
    let other = Object::from(there.links[1].clone());
    assert_eq!(plan.ops[0].hold, Some(Hold::Collateral(Box::new(other))));
    owned.links.insert(4);
    assert_eq!(lines(&none(), &there, &owned, MARKER), ["- link v0   (ours, no longer desired)"]);
}

#[test]
fn a_former_value_alone_makes_nothing_ours() {
    let mut owned = Owned::default();
    let foreign = route("10.1.0.9", eth0(), OTHER);
    let key = ObjectKey::Route(foreign.key());
    let former = route("10.1.0.8", eth0(), 3);
    owned.former.insert(key, former.into());
    let there = with_routes(vec![foreign]);
    assert_eq!(lines(&none(), &there, &owned, taking()), NOTHING);
}

#[test]
fn objects_that_are_in_no_canonical_form_are_as_good_as_those_that_are() {
    // In the form of `RTM_GETADDR`: the label is the device's name, the peer the address itself.
    let shown = address(eth0(), MARKER)
        .with_label("eth0".parse().unwrap())
        .with_peer("10.1.0.1".parse().unwrap());
    let there = observed().with_addresses([shown]);
    let desired = Desired::default().with_addresses([address(name("eth0"), 0)]);
    assert_eq!(lines(&desired, &there, &Owned::default(), MARKER), NOTHING);

    // An IPv6 route with a metric of 0, and an IPv4 one without its scope.
    fn via<D>(dst: &str, gateway: &str, dev: D) -> Route<D> {
        let hop = NextHop::via(gateway.parse().unwrap()).with_dev(dev);
        Route::new(dst.parse().unwrap(), NextHops::Many(vec![hop])).with_protocol(MARKER)
    }
    let routes = [("fd02::/64", "fd00:1::9"), ("10.2.0.0/16", "10.1.0.9")];
    let there = routes.map(|(dst, gateway)| via(dst, gateway, eth0()));
    let desired = routes.map(|(dst, gateway)| via(dst, gateway, name("eth0")));
    let canonical = [desired.clone().map(Route::canonical), desired];
    for desired in canonical.map(|routes| Desired::default().with_routes(routes)) {
        for there in [there.clone().map(Route::canonical), there.clone()] {
            let there = with_routes(there.into());
            assert_eq!(lines(&desired, &there, &Owned::default(), MARKER), NOTHING);
        }
    }
}
