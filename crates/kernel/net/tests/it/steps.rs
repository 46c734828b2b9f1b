//! Intermediate steps towards the desired state of links.

use trueup_net::{
    Action, BondAttrs, BridgeAttrs, Desired, Dev, Hold, IfName, Kinds, Link, LinkKind,
    MacvlanAttrs, NextHop, NextHops, Object, Observed, Owned, Plan, Reason, Route, plan,
};

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn there(link: &str, index: u32, kind: LinkKind) -> Link {
    Link::new(name(link), kind).with_index(index).with_up(true).with_mtu(1500).with_no_master()
}

fn eth0() -> Link {
    there("eth0", 2, LinkKind::Other("".into()))
}

fn observed(links: impl Into<Vec<Link>>) -> Observed {
    Observed::default().with_links(links.into()).with_complete(Kinds::ALL)
}

fn planned(desired: &Desired, observed: &Observed, owned: &[u32]) -> Plan {
    let owned = Owned::default()
        .with_links(owned.iter().copied().collect::<std::collections::BTreeSet<_>>());
    plan(desired, observed, &owned, 116).unwrap()
}

fn commands(plan: &Plan) -> Vec<String> {
    let command = |op: &trueup_net::Op| op.command(&plan.devices).to_string();
    plan.ops.iter().map(command).collect()
}

#[test]
fn a_port_that_is_up_is_set_down_for_a_bond() {
    let bond = || Link::new(name("bond0"), LinkKind::Bond(BondAttrs::default()));
    let port = || Link::must_exist(name("eth0")).with_master(name("bond0"));
    let desired = |port: Link<IfName>| Desired::default().with_links([bond(), port]);
    let down_and_up = ["link set dev eth0 down", "link set dev eth0 master bond0 up"];

    let plan = planned(&desired(port()), &observed([eth0()]), &[]);
    assert_eq!(commands(&plan)[0], "link add name bond0 type bond");
    assert_eq!(commands(&plan)[1..], down_and_up);
    assert_eq!(plan.ops[1].reason, Reason::Step);
    assert!(plan.needs(1).eq([0]), "it stays up without the bond");
    assert!(plan.needs(2).eq([0, 1]));

    let with_bond = observed([eth0(), there("bond0", 3, LinkKind::Bond(BondAttrs::default()))]);
    assert_eq!(commands(&planned(&desired(port()), &with_bond, &[3])), down_and_up);
    // Another writer's bond.
    let alone = Desired::default().with_links([port()]);
    assert_eq!(commands(&planned(&alone, &with_bond, &[])), down_and_up);
    let declared_up = desired(port().with_up(true));
    assert_eq!(commands(&planned(&declared_up, &with_bond, &[3])), down_and_up);

    // One is down already, and another bond sets one down when it leaves.
    let down =
        observed([eth0().with_up(false), there("bond0", 3, LinkKind::Bond(BondAttrs::default()))]);
    let joins = ["link set dev eth0 master bond0"];
    assert_eq!(commands(&planned(&desired(port()), &down, &[3])), joins);
    let in_another = observed([
        eth0().with_master(Dev::index(4)),
        there("bond0", 3, LinkKind::Bond(BondAttrs::default())),
        there("bond1", 4, LinkKind::Bond(BondAttrs::default())),
    ]);
    assert_eq!(commands(&planned(&desired(port()), &in_another, &[3])), joins);
    let bridge = Link::new(name("bond0"), LinkKind::Bridge(BridgeAttrs::default()));
    let desired = Desired::default().with_links([bridge, port()]);
    assert_eq!(commands(&planned(&desired, &observed([eth0()]), &[]))[1..], joins);
}

#[test]
fn a_step_waits_with_what_it_is_for() {
    let foreign = Route::new(
        "10.2.0.0/16".parse().unwrap(),
        NextHops::One(NextHop::default().with_dev(Dev::index(2))),
    );
    let there = observed([eth0(), there("bond0", 3, LinkKind::Bond(BondAttrs::default()))])
        .with_routes([foreign.canonical().with_protocol(4)]);
    let port = Link::must_exist(name("eth0")).with_master(name("bond0"));
    let desired = Desired::default().with_links([port]);
    let mut plan = planned(&desired, &there, &[]);
    for at in 0..2 {
        assert!(matches!(plan.hold(at), Some(Hold::Collateral(_))), "{at}");
    }
    for op in &mut plan.ops {
        op.hold = None;
    }
    assert_eq!((plan.hold(0), plan.hold(1)), (None, None));
    plan.ops[1].hold = Some(Hold::Cut);
    assert_eq!(plan.hold(0), Some(&Hold::Cut));
}

fn macvlan(link: &str, index: u32, lower: u32, address: &str) -> Link {
    let kind = LinkKind::Macvlan(MacvlanAttrs::new(Dev::index(lower)));
    there(link, index, kind).with_address(address.parse().unwrap())
}

fn wants(link: &str, lower: &str, address: &str) -> Link<IfName> {
    let kind = LinkKind::Macvlan(MacvlanAttrs::new(name(lower)));
    Link::new(name(link), kind).with_address(address.parse().unwrap())
}

const A: &str = "02:00:00:00:00:0a";
const B: &str = "02:00:00:00:00:0b";
const C: &str = "02:00:00:00:00:0c";

/// Carries out the ops on macvlans, and fails if two on a device would have the same address.
fn carried(observed: &Observed, plan: &Plan) {
    let mut links = observed.links.clone();
    for op in &plan.ops {
        let Object::Link(link) = &op.object else { panic!("{op:?}") };
        let was = links.iter().position(|there| there.name == link.name);
        let former = was.map(|at| links.remove(at));
        if op.action != Action::Delete {
            let mut after = former.unwrap_or_else(|| (**link).clone());
            after.address = link.address.or(after.address);
            let of = |link: &Link| (link.kind.clone(), link.address);
            assert!(!links.iter().any(|it| of(it) == of(&after)), "EADDRINUSE: {op:?}");
            links.push(after);
        }
    }
}

#[test]
fn addresses_of_macvlans_change_in_any_permutation() {
    let there = observed([
        eth0(),
        there("eth1", 3, LinkKind::Other("".into())),
        macvlan("m1", 4, 2, A),
        macvlan("m2", 5, 2, B),
        macvlan("m3", 6, 2, C),
        macvlan("n1", 7, 3, A),
    ]);
    let lower = |link: &str| {
        if link.starts_with('n') { "eth1" } else { "eth0" }
    };
    for (wanted, steps) in [
        (vec![("m1", B), ("m2", A), ("m3", C), ("n1", A)], 2),
        (vec![("m1", B), ("m2", C), ("m3", A), ("n1", B)], 3),
        (vec![("m1", C), ("m2", A), ("m3", B), ("n1", A)], 3),
        // A chain, whose last one gets a free address.
        (vec![("m1", B), ("m2", C), ("m3", "02:00:00:00:00:0d")], 2),
        // From a link that goes, and for one that comes.
        (vec![("m1", C), ("m2", B)], 0),
        (vec![("m1", C), ("m2", B), ("m4", A)], 1),
        (vec![("m1", A), ("m2", B), ("m3", C), ("n1", B)], 0),
    ] {
        let links = wanted.iter().map(|(link, address)| wants(link, lower(link), address));
        let desired = Desired::default().with_links(links.collect::<Vec<_>>());
        let plan = planned(&desired, &there, &[4, 5, 6, 7]);
        carried(&there, &plan);
        let is_step = |op: &&trueup_net::Op| op.reason == Reason::Step;
        assert_eq!(plan.ops.iter().filter(is_step).count(), steps, "{wanted:?}");
    }
}

#[test]
fn a_macvlan_on_a_macvlan_is_on_the_device_below() {
    let plans = |links: &[Link], wanted: &[(&str, &str)]| {
        let links: Vec<Link> = links.to_vec();
        let owned: Vec<u32> = links.iter().map(|link| link.index).filter(|at| *at > 3).collect();
        let link = |(link, lower): &(&str, &str)| {
            let kind = LinkKind::Macvlan(MacvlanAttrs::new(name(lower)));
            Link::new(name(link), kind)
        };
        let desired = Desired::default().with_links(wanted.iter().map(link).collect::<Vec<_>>());
        commands(&planned(&desired, &observed(links), &owned))
    };
    let none: [&str; 0] = [];
    let chain = [("m1", "m2"), ("m2", "eth0")];
    let both = [eth0(), macvlan("m1", 4, 2, A), macvlan("m2", 5, 2, B)];
    assert_eq!(plans(&both, &chain), none);
    assert_eq!(
        plans(&both[..1], &chain),
        ["link add name m1 link eth0 type macvlan", "link add name m2 link eth0 type macvlan",]
    );
    // In a pod whose eth0 is a macvlan on a device of the host.
    let pod = there("eth0", 2, LinkKind::Macvlan(MacvlanAttrs::new(Dev::index(0))));
    let on_eth0 = [("m1", "eth0")];
    assert_eq!(
        plans(std::slice::from_ref(&pod), &on_eth0),
        ["link add name m1 link eth0 type macvlan"]
    );
    assert_eq!(plans(&[pod.clone(), macvlan("m1", 4, 0, A)], &on_eth0), none);
    // Elsewhere, it is made anew.
    let moved = plans(&[pod, there("v0", 3, LinkKind::Ifb), macvlan("m1", 4, 3, A)], &on_eth0);
    assert_eq!(moved, ["link del dev m1", "link add name m1 link eth0 type macvlan"]);
    // A cycle is refused.
    let kind = |lower| LinkKind::Macvlan(MacvlanAttrs::new(name(lower)));
    let circle = [("m1", "m2"), ("m2", "m3"), ("m3", "m1")];
    let circle = circle.map(|(link, lower)| Link::new(name(link), kind(lower)));
    let desired = Desired::default().with_links(circle);
    let error = plan(&desired, &observed([eth0()]), &Owned::default(), 116).unwrap_err();
    let said = error.to_string();
    let whole = "stacked on itself through item 2 of this kind and item 1 of this kind";
    assert!(said.contains(whole), "{said}");
}
