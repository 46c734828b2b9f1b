//! The objects on a key: their owners before and after a plan.

use std::collections::BTreeMap;

use trueup_net::{
    Action, Address, Desired, Dev, Family, IfName, Kinds, Lifetimes, Link, LinkKind, Neighbour,
    NeighbourState, ObjectKey, ObjectKind as _, Observed, Owned, Plan, Rule, RuleAction, plan,
};

fn name() -> IfName {
    "eth0".parse().unwrap()
}

/// The device, with index 2.
fn observed() -> Observed {
    let link = Link::new(name(), LinkKind::Other("".into())).with_index(2);
    Observed::default().with_links([link]).with_complete(Kinds::ALL)
}

fn address<D>(dev: D, text: &str) -> Address<D> {
    Address::new(dev, text.parse().unwrap())
}

fn neighbour<D>(dev: D, lladdr: &str) -> Neighbour<D> {
    Neighbour::new(dev, [10, 0, 0, 9].into(), lladdr.parse().unwrap()).with_protocol(116)
}

/// Plans addresses on the device, given the desired ones, the existing ones, and ours among these.
fn planned(desired: &[Address<IfName>], there: &[Address], ours: &[&Address]) -> Plan {
    let owned = ours.iter().map(|address| (address.key(), 0)).collect::<BTreeMap<_, _>>();
    let desired = Desired::default().with_addresses(desired.to_vec());
    let owned = Owned::default().with_addresses(owned);
    plan(&desired, &observed().with_addresses(there), &owned, 116).unwrap()
}

#[test]
fn foreign_objects_are_conflicts_and_are_never_deleted() {
    let dev = Dev::index(2);
    let mortal = address(dev, "10.0.0.1/24").with_lifetimes(Lifetimes { valid: 60, preferred: 60 });
    let open = [address(name(), "10.0.0.1/24"), address(name(), "10.0.0.2/24")];
    let mut desired = open.clone();
    desired[0].lifetimes = Lifetimes { valid: 600, preferred: 600 };
    let observed = [mortal, address(dev, "10.0.0.2/24"), address(dev, "10.0.0.3/24")];
    let none = planned(&desired, &observed, &[]);
    assert_eq!(none.conflicts.len(), 1);
    assert!(none.ops.is_empty());
    let plan = planned(&open, &observed, &[]);
    assert!(plan.is_empty(), "what is left open matches anything: {plan:?}");
    let all = planned(&desired, &observed, &observed.each_ref());
    let done: Vec<_> = all.ops.iter().map(|op| (op.action, op.object.key())).collect();
    let keys = observed.each_ref().map(|address| ObjectKey::Address(address.key()));
    assert_eq!(done, [(Action::Update, keys[0].clone()), (Action::Delete, keys[2].clone())]);
    assert!(all.conflicts.is_empty());
}

#[test]
fn a_resolved_neighbour_is_nobodys() {
    let resolved =
        neighbour(Dev::index(2), "02:00:00:00:00:08").with_state(NeighbourState::Dynamic);
    let observed = observed().with_neighbours([resolved]);
    let none = Desired::default().with_neighbours([]);
    assert!(plan(&none, &observed, &Owned::default(), 116).unwrap().is_empty());
    let desired = Desired::default().with_neighbours([neighbour(name(), "02:00:00:00:00:09")]);
    let plan = plan(&desired, &observed, &Owned::default(), 116).unwrap();
    assert_eq!((plan.ops.len(), plan.ops[0].action), (1, Action::Update));
    assert!(plan.conflicts.is_empty());
}

#[test]
fn an_equal_rule_of_another_protocol_serves_unless_ours_is_there() {
    let rule = Rule::new(Family::Inet, 77, RuleAction::Lookup(5));
    let [of_kernel, ours] = [3, 116].map(|protocol| rule.clone().with_protocol(protocol));
    let inverted = of_kernel.clone().with_not(true);
    let desired = Desired::default().with_rules([rule]);
    for (rules, ops) in
        [(vec![], 1), (vec![of_kernel.clone()], 0), (vec![of_kernel, ours], 0), (vec![inverted], 1)]
    {
        let observed = observed().with_rules(rules);
        let plan = plan(&desired, &observed, &Owned::default(), 116).unwrap();
        assert_eq!(plan.ops.len(), ops, "{observed:?}");
    }
}
