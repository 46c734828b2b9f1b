//! Objects that the kernel would delete along with an op on a link.

use trueup_net::{
    Action, Address, BondAttrs, BondMode, BridgeAttrs, Desired, Dev, Hold, IfName, Kind, Kinds,
    Link, LinkKind, NextHop, NextHops, Object, Observed, Op, Owned, Plan, Reason, Route, plan,
};

const MARKER: u8 = 116;

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn observed(links: impl Into<Vec<Link>>) -> Observed {
    Observed::default().with_links(links.into()).with_complete(Kinds::ALL)
}

fn up(link: &str, index: u32, kind: LinkKind) -> Link {
    Link::new(name(link), kind).with_index(index).with_up(true).with_mtu(1500).with_no_master()
}

/// A foreign route on a device.
fn route(dst: &str, dev: Dev) -> Route {
    let hop = NextHop::default().with_dev(dev);
    let route = Route::new(dst.parse().unwrap(), NextHops::One(hop));
    route.canonical().with_protocol(4)
}

fn planned(desired: &Desired, observed: &Observed, owned: &Owned) -> Plan {
    plan(desired, observed, owned, MARKER).unwrap()
}

/// Returns each op on a link with the kind that it would delete along, if any. Steps are left out.
fn held(plan: &Plan) -> Vec<(Action, String, Option<Kind>)> {
    let on_links = plan.ops.iter().filter(|op| op.object.kind() == Kind::Link);
    let on_links = on_links.filter(|op| op.reason != Reason::Step);
    let taken = |op: &Op| match &op.hold {
        Some(Hold::Collateral(object)) => Some(object.kind()),
        Some(other) => panic!("{other:?}"),
        None => None,
    };
    let of = |op: &Op| match &op.object {
        Object::Link(link) => (op.action, link.name.to_string(), taken(op)),
        _ => unreachable!(),
    };
    on_links.map(of).collect()
}

fn bond() -> LinkKind<IfName> {
    LinkKind::Bond(BondAttrs::default())
}

#[test]
fn a_port_of_a_master_that_is_created_or_recreated_keeps_what_is_foreign() {
    let port = || Link::must_exist(name("eth0")).with_master(name("m0"));
    let eth0 = up("eth0", 2, LinkKind::Other("".into()));
    let foreign = observed([eth0.clone()]).with_routes([route("10.2.0.0/16", Dev::index(2))]);
    let joins = |kind: LinkKind<IfName>, observed: &Observed, owned: &Owned| {
        let desired = Desired::default().with_links([Link::new(name("m0"), kind), port()]);
        held(&planned(&desired, observed, owned))
    };
    let op = |action, link: &str, taken| (action, link.to_string(), taken);
    let (create, update) = (Action::Create, Action::Update);
    for (kind, taken) in [
        (bond(), Some(Kind::Route)),
        (LinkKind::Vrf { table: 100 }, Some(Kind::Route)),
        (LinkKind::Bridge(BridgeAttrs::default()), None),
    ] {
        assert_eq!(
            joins(kind, &foreign, &Owned::default()),
            [op(create, "m0", None), op(update, "eth0", taken)],
        );
    }
    // A bond of another mode is made anew.
    let backup = LinkKind::Bond(BondAttrs::default().with_mode(BondMode::ActiveBackup));
    let there =
        observed([eth0, up("m0", 3, backup)]).with_routes([route("10.2.0.0/16", Dev::index(2))]);
    let owned = Owned::default().with_links([3]);
    let round_robin = LinkKind::Bond(BondAttrs::default().with_mode(BondMode::BalanceRr));
    assert_eq!(
        joins(round_robin, &there, &owned),
        [
            op(Action::Delete, "m0", None),
            op(create, "m0", None),
            op(update, "eth0", Some(Kind::Route)),
        ],
    );
}

#[test]
fn a_new_port_with_a_small_mtu_costs_its_bridge_no_foreign_address() {
    let br0 = up("br0", 3, LinkKind::Bridge(BridgeAttrs::default()));
    let address = Address::new(Dev::index(3), "2001:db8::1/64".parse().unwrap());
    let there = observed([br0.clone(), up("eth0", 2, LinkKind::Other("".into())).with_mtu(1000)])
        .with_addresses([address]);
    let owned = Owned::default().with_links([3]);
    let bridge = || Link::new(name("br0"), LinkKind::Bridge(BridgeAttrs::default()));
    let vlan = LinkKind::Vlan(trueup_net::VlanAttrs::new(name("eth0"), 5));
    for (port, taken) in [
        (Link::new(name("p0"), LinkKind::Dummy).with_mtu(1000), Some(Kind::Address)),
        (Link::new(name("p0"), vlan), Some(Kind::Address)),
        (Link::new(name("p0"), LinkKind::Dummy), None),
    ] {
        let port = port.with_master(name("br0"));
        let desired = Desired::default().with_links([bridge(), port]);
        let held = held(&planned(&desired, &there, &owned));
        assert_eq!(held[0], (Action::Create, "p0".to_string(), None));
        assert_eq!(held[1], (Action::Update, "p0".to_string(), taken));
    }
}
