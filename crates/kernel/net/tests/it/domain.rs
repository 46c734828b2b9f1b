//! Objects outside a domain: one small plan for each rule.

use trueup_net::{
    Address, Desired, Dev, Domain, Family, Hold, IfName, Kind, Kinds, Link, LinkKind, Metric,
    Metrics, NextHop, NextHops, Observed, Owned, Plan, Policy, Reason, Route, RouteType, Rule,
    RuleAction, plan,
};

const MARKER: u8 = 116;

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn seen(index: u32, text: &str) -> Link {
    Link::new(name(text), LinkKind::Dummy)
        .with_index(index)
        .with_up(true)
        .with_mtu(1500)
        .with_no_master()
        .with_alias([])
        .with_group(0)
}

/// `eth0` is 2, `veth1` is 3.
fn observed() -> Observed {
    Observed::default().with_links([seen(2, "eth0"), seen(3, "veth1")]).with_complete(Kinds::ALL)
}

/// Makes a ledger with these links.
fn owned(indexes: &[u32]) -> Owned {
    Owned::default().with_links(indexes.iter().copied().collect::<std::collections::BTreeSet<_>>())
}

fn within(domain: Domain) -> Policy {
    Policy::from(MARKER).with_domain(domain)
}

fn address<D>(dev: D, text: &str) -> Address<D> {
    Address::new(dev, text.parse().unwrap()).with_protocol(MARKER)
}

fn route<D>(dst: &str, dev: D) -> Route<D> {
    Route::new(dst.parse().unwrap(), NextHops::One(NextHop::dev(dev)))
        .canonical()
        .with_protocol(MARKER)
}

fn rule(priority: u32) -> Rule {
    Rule::new(Family::Inet, priority, RuleAction::Lookup(5)).with_protocol(MARKER)
}

fn planned(desired: &Desired, observed: &Observed, policy: &Policy) -> Plan {
    plan(desired, observed, &owned(&[3]), policy).unwrap()
}

/// Returns the ops of a plan that are carried out, each as a word.
fn done(plan: &Plan) -> Vec<String> {
    let due = plan.ops.iter().filter(|op| op.hold.is_none());
    due.map(|op| format!("{:?} {}", op.action, op.object.spec(&plan.devices))).collect()
}

const NOTHING: [&str; 0] = [];

#[test]
fn undeclared_objects_go_in_the_domain_alone() {
    let there = observed()
        .with_addresses([
            address(Dev::index(2), "10.1.0.1/24"),
            address(Dev::index(3), "10.2.0.1/24"),
        ])
        .with_routes([route("10.8.0.0/16", Dev::index(2)), route("10.9.0.0/16", Dev::index(3))])
        .with_rules([rule(77), rule(1077)]);
    let nothing = Desired::default().with_addresses([]).with_routes([]).with_rules([]);
    let gone = |domain| done(&planned(&nothing, &there, &within(domain)));
    assert_eq!(gone(Domain::default()).len(), 6);

    let of_veths =
        ["Delete 10.9.0.0/16 dev veth1 proto 116 table 254", "Delete 10.2.0.1/24 dev veth1"];
    let veths = Domain::default().with_interfaces(["veth*".parse().unwrap()]);
    assert_eq!(gone(veths), of_veths);
    // The ledger lists only veth1.
    assert_eq!(gone(Domain::default().with_created_interfaces(true)), of_veths);

    let rules = Domain::default().with_rule_priorities([1000..=1999]);
    assert_eq!(gone(rules), ["Delete inet pref 1077 protocol 116 table 5"]);
    let prefixes = Domain::default().with_prefixes(["10.8.0.0/15".parse().unwrap()]);
    assert_eq!(gone(prefixes.clone()).len(), 2);
    // A route must be in every given part.
    let both = prefixes.with_tables([100..=199]);
    assert_eq!(gone(both), NOTHING);
    // The ledger lists none of them.
    assert_eq!(gone(Domain::default().with_ledger_only(true)), NOTHING);
}

#[test]
fn what_is_desired_outside_is_held() {
    let desired = Desired::default().with_routes([
        route("10.8.0.0/16", name("eth0")),
        route("10.9.0.0/16", name("veth1")),
        Route::of_type(RouteType::Blackhole, "10.7.0.0/16".parse().unwrap()),
    ]);
    let veths = within(Domain::default().with_interfaces(["veth*".parse().unwrap()]));
    let plan = planned(&desired, &observed(), &veths);
    assert_eq!(done(&plan), ["Create 10.9.0.0/16 dev veth1 proto 116 table 254"]);
    let held = plan.ops.iter().filter(|op| op.hold == Some(Hold::OutsideDomain));
    assert_eq!(held.count(), 2);
}

#[test]
fn a_link_is_created_by_a_name_of_the_domain_and_then_ours() {
    let desired = Desired::default()
        .with_links([
            Link::new(name("veth2"), LinkKind::Dummy),
            Link::new(name("other"), LinkKind::Dummy),
        ])
        .with_addresses([
            address(name("veth2"), "10.2.0.1/24"),
            address(name("other"), "10.3.0.1/24"),
        ]);
    let creates = |domain: Domain| {
        let plan = plan(
            &desired,
            &Observed::default().with_complete(Kinds::ALL),
            &owned(&[]),
            within(domain),
        );
        done(&plan.unwrap())
    };
    let veths = creates(Domain::default().with_interfaces(["veth*".parse().unwrap()]));
    assert!(veths.len() == 2 && veths.iter().all(|line| line.contains("veth2")), "{veths:?}");
    assert_eq!(creates(Domain::default().with_created_interfaces(true)).len(), 4);
}

#[test]
fn a_foreign_object_is_overridden_and_adopted_in_the_domain_alone() {
    let other = route("10.8.0.0/16", Dev::index(2)).with_protocol(4);
    let there = observed().with_routes([other.clone()]);
    let desired = |metric| {
        let mut metrics = Metrics::default();
        metrics.set(Metric::Mtu, metric);
        let route = route("10.8.0.0/16", name("eth0")).with_metrics(metrics);
        Desired::default().with_routes([route])
    };
    let inside = Domain::default().with_tables([254..=254]);
    let outside = Domain::default().with_tables([100..=199]);
    let taken = |domain: &Domain| {
        let policy = within(domain.clone()).with_take(true);
        planned(&desired(1400), &there, &policy)
    };
    assert!(
        taken(&inside).ops.iter().all(|op| op.reason == Reason::Overridden && op.hold.is_none())
    );
    assert_eq!(done(&taken(&outside)), NOTHING);

    let equal = Desired::default().with_routes([route("10.8.0.0/16", name("eth0"))]);
    let adopted = |domain: &Domain| {
        let policy = within(domain.clone()).with_adopt(true);
        planned(&equal, &there, &policy).adopted.len()
    };
    assert_eq!((adopted(&inside), adopted(&outside)), (1, 0));
}

#[test]
fn an_op_that_would_take_along_what_is_outside_is_held() {
    // The address on our link has our marker, and is in another domain.
    let there = observed().with_addresses([address(Dev::index(3), "10.2.0.1/24")]);
    let desired = Desired::default().with_links([]).with_addresses([]);
    let by_ledger = within(Domain::default().with_ledger_only(true));
    let plan = planned(&desired, &there, &by_ledger);
    assert_eq!(done(&plan), NOTHING);
    assert!(matches!(plan.ops[0].hold, Some(Hold::Collateral(_))), "{plan:?}");
}

#[test]
fn the_prefixes_of_a_domain_cover_longer_ones_alone() {
    let covers = |one: &str, other: &str| {
        let prefix = |text: &str| text.parse::<trueup_net::Prefix>().unwrap();
        prefix(one).covers(prefix(other))
    };
    assert!(covers("10.0.0.0/8", "10.1.0.0/16") && covers("10.0.0.0/8", "10.0.0.0/8"));
    assert!(!covers("10.1.0.0/16", "10.0.0.0/8") && !covers("0.0.0.0/0", "::/0"));
}

fn of_interfaces(pattern: &str) -> Domain {
    Domain::default().with_interfaces([pattern.parse().unwrap()])
}

fn of_prefix(text: &str) -> Domain {
    Domain::default().with_prefixes([text.parse().unwrap()])
}

fn kinds(kinds: &[Kind]) -> Kinds {
    kinds.iter().copied().collect()
}

#[test]
fn domains_overlap_in_the_kinds_that_both_have() {
    let all = Domain::default();
    let on_interfaces = [Kind::Link, Kind::Address, Kind::Neighbour, Kind::Route];

    assert_eq!(all.overlap(&all), kinds(&Kind::ALL));
    assert_eq!(of_interfaces("veth*").overlap(&all), kinds(&on_interfaces));
    assert_eq!(of_interfaces("veth*").overlap(&of_interfaces("eth0")), Kinds::NONE);
    assert_eq!(of_interfaces("veth*").overlap(&of_interfaces("*0")), kinds(&on_interfaces));
    let routes = kinds(&[Kind::Route]);
    assert_eq!(of_prefix("10.0.0.0/8").overlap(&of_prefix("10.1.0.0/16")), routes);
    assert_eq!(of_prefix("10.1.0.0/16").overlap(&of_prefix("10.0.0.0/8")), routes);
    assert_eq!(of_prefix("10.1.0.0/16").overlap(&of_prefix("10.2.0.0/16")), Kinds::NONE);
    // A route with that prefix can lead through such an interface.
    assert_eq!(of_prefix("10.1.0.0/16").overlap(&of_interfaces("eth0")), routes);
    let [one, other] = [100, 101].map(|table| of_prefix("10.0.0.0/8").with_tables([table..=table]));
    assert_eq!(one.overlap(&other), Kinds::NONE);
    let created = Domain::default().with_created_interfaces(true);
    assert_eq!(created.overlap(&created), Kinds::NONE);
    let by_ledger = Domain::default().with_ledger_only(true);
    assert_eq!(by_ledger.overlap(&by_ledger), Kinds::NONE);
    // To an agent that goes by the marker, objects with it are undeclared.
    assert_eq!(by_ledger.overlap(&of_interfaces("eth0")), kinds(&on_interfaces));
    let objects = Domain::default().with_nexthop_objects(true);
    assert_eq!(objects.overlap(&objects), kinds(&[Kind::Nexthop]));
}

/// Returns true if domains of these interfaces can have the same link.
fn meet(one: &str, other: &str) -> bool {
    let met = of_interfaces(one).overlap(&of_interfaces(other));
    assert_eq!(met, of_interfaces(other).overlap(&of_interfaces(one)), "{one} {other}");
    met.contains(Kind::Link)
}

#[test]
fn patterns_meet_where_a_name_fits_both() {
    assert!(meet("eth0", "eth0") && !meet("eth0", "eth1") && !meet("eth", "eth0"));
    assert!(meet("veth*", "veth7") && meet("veth*", "*7") && !meet("veth*", "eth*"));
    assert!(meet("a*b", "*ab*") && meet("a*b", "ab") && !meet("a*b", "a*c"));
    assert!(meet("*", "lo") && meet("x*", "x*") && !meet("x*y", "x"));
}
