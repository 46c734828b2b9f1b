//! A property: after any changes and announcements, the plan for the tracker's keys is the part of
//! the plan over everything that concerns these three kinds.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::kinds::{Address, Link, LinkKind, Neighbour};
use crate::observed::Observed;
use crate::op::Op;
use crate::ownership::Owned;
use crate::plan::plan;
use crate::values::{Dev, Family, IfName};

const MARKER: u8 = 116;

fn name() -> IfName {
    "a".parse().unwrap()
}

fn devices() -> Devices {
    Devices::of([(Dev::index(2), name())])
}

fn policy() -> Policy {
    Policy::from(MARKER)
}

fn neighbour(last: u8, lladdr: u8) -> Neighbour<IfName> {
    let lladdr = format!("02:00:00:00:00:{lladdr:02x}").parse().unwrap();
    Neighbour::new(name(), IpAddr::from([10, 0, 0, last]), lladdr)
}

fn address(last: u8, metric: u32) -> Address<IfName> {
    let address = format!("10.{last}.0.1/24").parse().unwrap();
    Address::new(name(), address).with_metric(metric)
}

/// Several rules have one priority, and some have more selectors than others.
fn rule(number: u8, table: u32) -> Rule {
    let rule = Rule::new(Family::Inet, 10 + u32::from(number / 2), RuleAction::Lookup(table));
    if number % 2 == 1 { rule.with_from("10.0.0.0/8".parse().unwrap()) } else { rule }
}

/// A step: a change of the declaration, or of the kernel by another writer.
#[derive(Clone, Copy, Debug)]
enum Step {
    Declare { kind: u8, key: u8, value: u8 },
    Withdraw { kind: u8, key: u8 },
    Remove { kind: u8, key: u8 },
    Rewrite { kind: u8, key: u8, value: u8 },
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let (kind, key, value) = (0..3_u8, 0..6_u8, 1..4_u8);
    prop_oneof![
        3 => (kind.clone(), key.clone(), value.clone())
            .prop_map(|(kind, key, value)| Step::Declare { kind, key, value }),
        2 => (kind.clone(), key.clone()).prop_map(|(kind, key)| Step::Withdraw { kind, key }),
        2 => (kind.clone(), key.clone()).prop_map(|(kind, key)| Step::Remove { kind, key }),
        2 => (kind, key, value)
            .prop_map(|(kind, key, value)| Step::Rewrite { kind, key, value }),
        2 => Just(Step::Pass),
    ]
}

/// Returns an object of ours as the kernel holds it.
fn object(kind: u8, key: u8, value: u8) -> Object {
    let (devices, policy) = (devices(), policy());
    let names = names(&devices, &policy);
    match kind {
        0 => address(key, value.into()).resolve(&names).unwrap().into(),
        1 => neighbour(key, value).resolve(&names).unwrap().into(),
        _ => rule(key, value.into()).resolve(&names).unwrap().into(),
    }
}

fn observed<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Observed {
    let mut observed = Observed::default()
        .with_links([Link::new(name(), LinkKind::Ifb).with_index(2)])
        .with_complete(Kinds::ALL);
    for object in objects {
        match object.clone() {
            Object::Address(address) => observed.addresses.push(address),
            Object::Neighbour(neighbour) => observed.neighbours.push(neighbour),
            Object::Rule(rule) => observed.rules.push(*rule),
            other => panic!("{other:?}"),
        }
    }
    observed
}

fn ops(desired: &Desired, observed: &Observed) -> Vec<Op> {
    plan(desired, observed, &Owned::default(), policy()).unwrap().ops
}

/// Returns the ops for the tracker's keys, from what it knows alone.
fn known_ops(tracker: &ObjectTracker, desired: &Desired) -> Vec<Op> {
    let (devices, policy) = (devices(), policy());
    let keys = tracker.keys(desired, &devices).unwrap();
    let rows: Vec<Object> =
        keys.iter().flat_map(|key| tracker.rows(key, desired, &devices, &policy)).collect();
    ops(&narrowed(desired, &keys, &devices), &observed(&rows))
}

fn change(desired: &mut Desired, kind: u8, key: u8, value: Option<u8>) {
    fn set<A: Authored>(objects: &mut Option<Collection<A>>, object: A, is_there: bool) {
        let objects = objects.as_mut().unwrap();
        if is_there {
            objects.insert(object);
        } else {
            objects.remove(&object.canonical_key());
        }
    }
    let (is_there, value) = (value.is_some(), value.unwrap_or(1));
    match kind {
        0 => set(&mut desired.addresses, address(key, value.into()), is_there),
        1 => set(&mut desired.neighbours, neighbour(key, value), is_there),
        _ => set(&mut desired.rules, rule(key, value.into()), is_there),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_plan_for_what_changed_is_the_plan_for_everything(
        steps in prop::collection::vec(step(), 1..24),
    ) {
        let mut desired = Desired::default()
            .with_addresses([])
            .with_neighbours([])
            .with_rules([]);
        let mut kernel: BTreeMap<ObjectKey, Object> = BTreeMap::new();
        let all = ObjectTracker::KINDS.into_iter().collect();
        let mut tracker = ObjectTracker::in_sync(&desired, all);
        for step in steps.into_iter().chain([Step::Pass]) {
            match step {
                Step::Declare { kind, key, value } => {
                    change(&mut desired, kind, key, Some(value));
                }
                Step::Withdraw { kind, key } => change(&mut desired, kind, key, None),
                Step::Remove { kind, key } => {
                    let keys: Vec<ObjectKey> =
                        (1..4).map(|value| object(kind, key, value).key()).collect();
                    for key in keys {
                        if kernel.remove(&key).is_some() {
                            tracker.follow(&desired, &devices(), &policy());
                            tracker.announce(&key, None, &desired, &devices(), &policy());
                        }
                    }
                }
                Step::Rewrite { kind, key, value } => {
                    let object = object(kind, key, value);
                    kernel.insert(object.key(), object.clone());
                    tracker.follow(&desired, &devices(), &policy());
                    let key = object.key();
                    tracker.announce(&key, Some(&object), &desired, &devices(), &policy());
                }
                Step::Pass => {
                    tracker.follow(&desired, &devices(), &policy());
                    for kind in ObjectTracker::KINDS {
                        prop_assert!(tracker.tracks(kind));
                    }
                    let expected = ops(&desired, &observed(kernel.values()));
                    prop_assert_eq!(known_ops(&tracker, &desired), expected);
                    kernel.clear();
                    for kind in 0..3 {
                        for (key, value) in (0..6).flat_map(|key| (1..4).map(move |v| (key, v))) {
                            let object = object(kind, key, value);
                            let wanted = wanted(&desired, &object.key(), &devices(), &policy());
                            kernel.extend(wanted.map(|wanted| (wanted.key(), wanted)));
                        }
                    }
                    tracker.states.mark_all_in_sync(|_| true);
                }
            }
        }
    }
}

#[test]
fn an_announcement_of_the_desired_object_leaves_nothing_to_plan() {
    let desired = Desired::default().with_neighbours([neighbour(1, 1)]);
    let mut tracker = ObjectTracker::in_sync(&desired, Kinds::ALL);
    let ours = object(1, 1, 1);
    let announce = |tracker: &mut ObjectTracker, object: Option<&Object>| {
        tracker.announce(&ours.key(), object, &desired, &devices(), &policy())
    };
    assert_eq!(announce(&mut tracker, Some(&ours)), Announced::Known);
    assert_eq!(tracker.states.dirty_keys().next(), None);
    assert_eq!(announce(&mut tracker, None), Announced::Known);
    assert_eq!(announce(&mut tracker, Some(&object(1, 1, 2))), Announced::Known);
    let other = object(1, 2, 1).key();
    tracker.announce(&other, None, &desired, &devices(), &policy());
    assert_eq!(tracker.states.dirty_keys().collect::<Vec<_>>(), [&ours.key()]);
}

#[test]
fn only_a_read_shows_what_to_do_where_another_writers_object_was_or_is() {
    let desired = Desired::default()
        .with_addresses([address(1, 1)])
        .with_neighbours([neighbour(1, 1)])
        .with_rules([rule(0, 1)]);
    let mut tracker = ObjectTracker::in_sync(&desired, Kinds::ALL);
    let mut announce = |key: &ObjectKey, object: Option<&Object>| {
        let announced = tracker.announce(key, object, &desired, &devices(), &policy());
        assert_eq!(tracker.states.dirty_keys().next(), None);
        announced
    };
    let theirs = |object: Object| match object {
        Object::Rule(rule) => Object::from(rule.with_protocol(4)),
        Object::Neighbour(neighbour) => neighbour.with_protocol(4).into(),
        other => panic!("{other:?}"),
    };
    for kind in [1, 2] {
        // On a key of ours, or equal to a rule of ours.
        let there = theirs(object(kind, 2 - kind, 1));
        assert_eq!(announce(&there.key(), Some(&there)), Announced::Unknown);
        // An announcement that is older than the read which found theirs.
        let ours = object(kind, 2 - kind, 1);
        if kind == 1 {
            assert_eq!(announce(&ours.key(), Some(&ours)), Announced::Unknown);
        }
        assert_eq!(announce(&there.key(), None), Announced::Unknown);
        // On another key.
        let there = theirs(object(kind, 4, 1));
        assert_eq!(announce(&there.key(), Some(&there)), Announced::Beside);
        assert_eq!(announce(&there.key(), None), Announced::Beside);
    }
    let mut cache = neighbour(3, 1).resolve(&names(&devices(), &policy())).unwrap();
    cache.state = crate::kinds::NeighbourState::Dynamic;
    let beside = announce(&Object::from(cache.clone()).key(), Some(&cache.into()));
    assert_eq!(beside, Announced::Beside);
}

#[test]
fn a_key_is_not_known_where_another_writer_has_an_object_or_nothing_is_announced() {
    let desired = Desired::default().with_neighbours([]).with_rules([]);
    let mut tracker = ObjectTracker::in_sync(&desired, Kinds::ALL);
    let (neighbour, rule) = (object(1, 1, 1), object(2, 0, 1));
    assert!(tracker.is_known(&neighbour.key()) && tracker.is_known(&rule.key()));
    assert!(!tracker.is_known(&object(0, 1, 1).key()), "unmanaged");
    let Object::Neighbour(mut proxy) = neighbour.clone() else { panic!() };
    proxy.proxy = true;
    assert!(!tracker.is_known(&Object::from(proxy).key()));
    // A delete by the rule's key could hit one with more selectors.
    tracker.set_foreign(|_| true, [neighbour.key(), object(2, 1, 7).key()]);
    assert!(!tracker.is_known(&neighbour.key()) && !tracker.is_known(&rule.key()));
    assert!(tracker.is_known(&object(2, 2, 1).key()), "another priority");
    tracker.set_foreign(|key| key.kind() == Kind::Neighbour, []);
    assert!(tracker.is_known(&neighbour.key()) && !tracker.is_known(&rule.key()));
    tracker.forget(Kind::Rule);
    assert!(!tracker.tracks(Kind::Rule) && tracker.tracks(Kind::Neighbour));
}

/// No announcement says that a lost route is back.
#[test]
fn an_announcement_of_an_address_without_its_route_needs_a_read() {
    let desired = Desired::default().with_addresses([address(1, 1)]);
    let mut tracker = ObjectTracker::in_sync(&desired, Kinds::ALL);
    let there = object(0, 1, 1);
    let Object::Address(mut lost) = there.clone() else { panic!() };
    lost.lost = LostRoutes::Subnet;
    tracker.states.park(there.key(), vec![lost.into()]);
    let announced = tracker.announce(&there.key(), Some(&there), &desired, &devices(), &policy());
    assert_eq!(announced, Announced::Unknown);
}
