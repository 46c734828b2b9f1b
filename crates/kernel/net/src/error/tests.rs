use crate::ownership::{Owned, Policy};
use crate::{Desired, IfName, Kinds, Link, LinkKind, Observed, VlanAttrs, plan};

use super::*;

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn vlan(text: &str, lower: &str) -> Link<IfName> {
    Link::new(name(text), LinkKind::Vlan(VlanAttrs::new(name(lower), 1)))
}

fn veth(text: &str, peer: &str) -> Link<IfName> {
    Link::new(name(text), LinkKind::Veth { peer: Some(name(peer)) })
}

/// Returns the position of the refused link, and its problem.
fn refused(links: [Link<IfName>; 2], policy: Policy) -> (usize, Problem) {
    let desired = Desired::default().with_links(links);
    let there = Link::new(name("old"), LinkKind::Ifb).with_index(3);
    let observed = Observed::default().with_links([there]).with_complete(Kinds::ALL);
    let error = plan(&desired, &observed, &Owned::default(), policy).unwrap_err();
    assert_eq!(error.kind, Kind::Link);
    (error.index, error.problem)
}

#[test]
fn what_cannot_be_stacked_is_refused() {
    let circle = refused([vlan("a", "b"), vlan("b", "a")], Policy::default());
    assert_eq!(circle, (0, Problem::Cycle(vec![1])));
    let place = circle.1.describe(|at| at.to_string());
    assert_eq!(place, "is stacked on itself through 1: a link cannot be above and below another");
    let misfit = [veth("a", "b"), Link::new(name("b"), LinkKind::Ifb)];
    assert_eq!(refused(misfit, Policy::default()), (0, Problem::Pair(1)));
    let rivals = [veth("a", "c"), veth("b", "c")];
    assert_eq!(refused(rivals, Policy::default()), (1, Problem::Pair(0)));
}

#[test]
fn a_strict_policy_refuses_a_device_that_is_not_there() {
    let links = [vlan("a", "none"), Link::new(name("b"), LinkKind::Ifb)];
    let policy = Policy::default().with_strict(true);
    assert_eq!(refused(links, policy), (0, Problem::UnknownDevice(name("none"))));
}
