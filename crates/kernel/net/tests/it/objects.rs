//! Routes that point at nexthop objects: the objects made, their order, and the objects spared.

use trueup_net::{
    Action, Desired, Dev, Hold, IfName, Kind, Kinds, Link, LinkKind, NextHop, NextHops, Nexthop,
    NexthopMode, NexthopTarget, Object, Observed, Op, Owned, Plan, Route, Routes, plan,
};

const MARKER: u8 = 116;
fn eth0() -> Dev {
    Dev::index(2)
}

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn via<D>(gateway: &str, dev: D) -> NextHop<D> {
    NextHop::via(gateway.parse().unwrap()).with_dev(dev)
}

/// Declares routes, each with its gateways.
fn desired(routes: &[(&str, &[&str])]) -> Desired {
    let route = |(dst, gateways): &(&str, &[&str])| {
        let hops = gateways.iter().map(|gateway| via(gateway, name("eth0")));
        Route::new(dst.parse().unwrap(), NextHops::Many(hops.collect()))
    };
    Desired::default()
        .with_routes(routes.iter().map(route).collect::<Routes>())
        .with_nexthops(NexthopMode::Objects)
}

fn empty() -> Observed {
    let mut eth0 = Link::new(name("eth0"), LinkKind::Other("".into()));
    (eth0.index, eth0.up) = (2, Some(true));
    Observed::default().with_links([eth0]).with_complete(Kinds::ALL)
}

fn planned(desired: &Desired, observed: &Observed) -> Plan {
    plan(desired, observed, &Owned::default(), MARKER).unwrap()
}

/// Returns the state after a plan, in an obedient kernel, which deletes an object together with the
/// routes that point at it.
fn carried(observed: &Observed, plan: &Plan) -> Observed {
    let mut after = observed.clone();
    for op in plan.ops.iter().filter(|op| op.hold.is_none()) {
        match &op.object {
            Object::Nexthop(nexthop) => {
                let there = after.nexthops.iter().any(|n| n.id == nexthop.id);
                assert_eq!(there, op.action != Action::Create, "{op:?}");
                after.nexthops.retain(|n| n.id != nexthop.id);
                if op.action == Action::Delete {
                    let on = |route: &Route| match route.nexthops {
                        NextHops::Object(id, _) => id == nexthop.id,
                        _ => false,
                    };
                    assert!(!after.routes.iter().any(on), "it would take a route along");
                    let members = after.nexthops.iter().flat_map(Nexthop::members);
                    assert!(!members.into_iter().any(|id| id == nexthop.id));
                } else {
                    let has = |id| after.nexthops.iter().any(|n: &Nexthop| n.id == id);
                    assert!(nexthop.members().all(has), "members come first");
                    after.nexthops.push(nexthop.clone());
                }
            }
            Object::Route(route) => {
                if let NextHops::Object(id, _) = route.nexthops {
                    let there = after.nexthops.iter().any(|n| n.id == id);
                    assert!(there || op.action == Action::Delete, "{op:?}");
                }
                after.routes.retain(|r| (r.table, r.dst) != (route.table, route.dst));
                if op.action != Action::Delete {
                    after.routes.push(route.clone());
                }
            }
            other => panic!("{other:?}"),
        }
    }
    after
}

/// Carries a plan out, after which no op is left.
fn settled(desired: &Desired, observed: &Observed) -> Observed {
    let after = carried(observed, &planned(desired, observed));
    assert_eq!(planned(desired, &after).ops, [], "a second pass does nothing");
    after
}

fn ops(plan: &Plan) -> Vec<(Action, Kind)> {
    let of = |op: &Op| (op.action, op.object.kind());
    plan.ops.iter().map(of).collect()
}

const MANY: [(&str, &[&str]); 3] = [
    ("10.1.0.0/24", &["192.0.2.1"]),
    ("10.2.0.0/24", &["192.0.2.1"]),
    ("10.3.0.0/24", &["192.0.2.1"]),
];

#[test]
fn routes_to_one_gateway_share_an_object_that_is_made_first() {
    let plan = planned(&desired(&MANY), &empty());
    let create = |kind| (Action::Create, kind);
    let wanted = [Kind::Nexthop, Kind::Route, Kind::Route, Kind::Route];
    assert_eq!(ops(&plan), wanted.map(create));
    for route in 1..4 {
        assert!(plan.needs(route).eq([0]), "no route without its object");
    }
    let after = settled(&desired(&MANY), &empty());
    let [object] = after.nexthops.as_slice() else { panic!("{:?}", after.nexthops) };
    assert!(Nexthop::ids(MARKER).contains(&object.id) && object.protocol == MARKER);
    let hop = via("192.0.2.1", eth0());
    assert_eq!(object.target, NexthopTarget::One(trueup_net::Family::Inet, hop));
}

#[test]
fn another_gateway_for_all_is_one_op() {
    let before = settled(&desired(&MANY), &empty());
    let to = desired(&MANY.map(|(dst, _)| (dst, &["192.0.2.2"][..])));
    let plan = planned(&to, &before);
    assert_eq!(ops(&plan), [(Action::Update, Kind::Nexthop)]);
    settled(&to, &before);
}

#[test]
fn when_all_gateways_change_each_object_follows_its_own_routes() {
    let all = |third: u8| {
        let hops: Vec<[String; 2]> =
            (0..64).map(|n| [format!("10.{n}.0.0/16"), format!("192.0.{third}.{n}")]).collect();
        let route = |[dst, gateway]: &[String; 2]| {
            let hop = via(gateway, name("eth0"));
            Route::new(dst.parse().unwrap(), NextHops::One(hop))
        };
        Desired::default()
            .with_routes(hops.iter().map(route).collect::<Routes>())
            .with_nexthops(NexthopMode::Objects)
    };
    let before = settled(&all(2), &empty());
    assert_eq!(before.nexthops.len(), 64);
    let plan = planned(&all(3), &before);
    assert_eq!(ops(&plan), [(Action::Update, Kind::Nexthop); 64]);
    settled(&all(3), &before);
}

#[test]
fn a_second_gateway_makes_a_group_and_a_third_changes_it_in_place() {
    let with = |gateways: &'static [&'static str]| desired(&MANY.map(|(dst, _)| (dst, gateways)));
    let one = settled(&with(&["192.0.2.1"]), &empty());
    let plan = planned(&with(&["192.0.2.1", "192.0.2.2"]), &one);
    let wanted = [
        (Action::Create, Kind::Nexthop),
        (Action::Create, Kind::Nexthop),
        (Action::Update, Kind::Route),
        (Action::Update, Kind::Route),
        (Action::Update, Kind::Route),
    ];
    assert_eq!(ops(&plan), wanted, "what is there is used as a member");
    let two = settled(&with(&["192.0.2.1", "192.0.2.2"]), &one);
    let three = with(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let plan = planned(&three, &two);
    let wanted = [(Action::Create, Kind::Nexthop), (Action::Update, Kind::Nexthop)];
    assert_eq!(ops(&plan), wanted, "the routes stay as they are");
    settled(&three, &two);
    // Replacing a member by another takes one op too.
    let other = with(&["192.0.2.1", "192.0.2.9"]);
    assert_eq!(ops(&planned(&other, &two)), [(Action::Update, Kind::Nexthop)]);
    // And back to one: the group and the unneeded member go last.
    let back = planned(&with(&["192.0.2.1"]), &two);
    assert_eq!(back.ops.len(), 5);
    assert!(ops(&back)[3..].iter().all(|op| *op == (Action::Delete, Kind::Nexthop)));
    settled(&with(&["192.0.2.1"]), &two);
}

#[test]
fn turned_off_the_routes_are_written_out_before_the_objects_go() {
    let on = settled(&desired(&MANY), &empty());
    let off = desired(&MANY).with_nexthops(NexthopMode::Inline);
    let plan = planned(&off, &on);
    let update = (Action::Update, Kind::Route);
    assert_eq!(ops(&plan), [update, update, update, (Action::Delete, Kind::Nexthop)]);
    assert!(plan.needs(3).eq([0, 1, 2]), "it goes when all have left it");
    let written = settled(&off, &on);
    assert_eq!(written.nexthops, []);
    let plan = planned(&desired(&MANY), &written);
    assert_eq!(ops(&plan), [(Action::Create, Kind::Nexthop), update, update, update]);
    settled(&desired(&MANY), &written);
}

#[test]
fn a_number_of_another_writer_is_not_taken() {
    let ours = settled(&desired(&MANY), &empty()).nexthops;
    let mut observed = empty();
    observed.nexthops = vec![ours[0].clone().with_protocol(4)];
    let plan = planned(&desired(&MANY), &observed);
    assert!(plan.conflicts.is_empty());
    let Object::Nexthop(made) = &plan.ops[0].object else { panic!("{:?}", plan.ops) };
    assert_eq!((plan.ops[0].action, made.id), (Action::Create, ours[0].id + 1));
    settled(&desired(&MANY), &observed);
}

#[test]
fn what_a_foreign_route_or_group_leads_to_stays() {
    let mut on = settled(&desired(&MANY), &empty());
    let nothing = desired(&[]);
    let id = on.nexthops[0].id;
    let group = Nexthop::new(9, NexthopTarget::Group(vec![(id, 1)])).with_protocol(4);
    let mut route = Route::new("10.9.0.0/24".parse().unwrap(), NextHops::Object(id, vec![eth0()]));
    route.protocol = 4;
    let held = |observed: &Observed| {
        let plan = planned(&nothing, observed);
        let last = plan.ops.last().unwrap();
        assert_eq!((last.action, last.object.kind()), (Action::Delete, Kind::Nexthop));
        matches!(last.hold, Some(Hold::Collateral(_)))
    };
    assert!(!held(&on));
    on.nexthops.push(group);
    assert!(held(&on));
    on.nexthops.pop();
    on.routes.push(route.canonical());
    assert!(held(&on));
    on.complete = Kinds::ALL.without(Kind::Route);
    assert_eq!(planned(&nothing, &on).ops, [], "not knowing never deletes");
}

#[test]
fn what_no_object_can_stand_for_is_written_out() {
    let mut state = desired(&[]);
    let eth0 = || name("eth0");
    let hops = [
        NextHops::One(NextHop::dev(eth0())),
        NextHops::One(NextHop::via("192.0.2.1".parse().unwrap())),
        NextHops::Many(vec![via("192.0.2.1", eth0()), via("192.0.2.1", eth0())]),
        NextHops::Many(vec![via("192.0.2.1", eth0()).with_weight(256), via("192.0.2.2", eth0())]),
    ];
    let dst = |n: usize| format!("10.{n}.0.0/16").parse().unwrap();
    let mut routes: Vec<_> = (0..4).map(|n| Route::new(dst(n), hops[n].clone())).collect();
    let mut from =
        Route::new("2001:db8::/32".parse().unwrap(), NextHops::One(via("fe80::1", eth0())));
    from.from = Some("2001:db8:1::/48".parse().unwrap());
    routes.push(from);
    routes.push(Route::of_type(trueup_net::RouteType::Blackhole, dst(9)));
    state.routes = Some(routes.into());
    let plan = planned(&state, &empty());
    assert_eq!(ops(&plan), [(Action::Create, Kind::Route); 6]);
}

#[test]
fn an_object_of_ipv6_is_no_successor_of_one_of_ipv4() {
    let before = settled(&desired(&MANY), &empty());
    // The IPv4 route may lead to either. The IPv6 one could not stay on an object that became IPv4.
    let six = desired(&[("2001:db8::/32", &["fe80::1"]), ("10.1.0.0/24", &["fe80::1"])]);
    let plan = planned(&six, &before);
    let created = plan.ops.iter().filter(|op| op.action == Action::Create);
    assert_eq!(created.filter(|op| op.object.kind() == Kind::Nexthop).count(), 1);
    assert_eq!(settled(&six, &before).nexthops.len(), 1, "both share it");
}

#[test]
fn the_commands_are_iproute2s() {
    let plan = planned(&desired(&[("10.1.0.0/24", &["192.0.2.1", "192.0.2.2"])]), &empty());
    let commands: Vec<String> = plan.ops.iter().map(|op| op.command(&plan.devices)).collect();
    let [a, b, group, route] = commands.as_slice() else { panic!("{commands:?}") };
    let id = |command: &str| command.split(' ').nth(3).unwrap().parse::<u32>().unwrap();
    let gateways = [a, b].map(|command| command.split(' ').nth(5).unwrap());
    assert!(gateways.contains(&"192.0.2.1") && gateways.contains(&"192.0.2.2"));
    assert!(a.starts_with("nexthop add id ") && a.ends_with(" dev eth0 proto 116"), "{a}");
    let (least, most) = (id(a).min(id(b)), id(a).max(id(b)));
    assert_eq!(*group, format!("nexthop add id {} group {least},1/{most},1 proto 116", id(group)));
    assert_eq!(*route, format!("route add 10.1.0.0/24 nhid {} proto 116 table 254", id(group)));
}
