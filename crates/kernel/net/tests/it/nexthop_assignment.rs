//! Routes on nexthop objects, compared with the full diff: the plan from a tracker's part, single
//! routes or whole objects, is the plan for all.

use std::collections::BTreeSet;

use proptest::prelude::*;
use trueup_net::internal::{Resolution, Tracker, plan_with};
use trueup_net::{
    Desired, Dev, Devices, IfName, Kinds, Link, NextHop, NextHops, Nexthop, NexthopMode, Object,
    Observed, Owned, Plan, Policy, Route, Routes, plan,
};

const MARKER: u8 = 116;

fn policy() -> Policy {
    MARKER.into()
}

fn name() -> IfName {
    "eth0".parse().unwrap()
}

/// Returns next hops to few places: by one gateway or two, with a device or, so that no object can
/// replace them, without.
fn way(number: u8) -> NextHops<IfName> {
    let hop = |number: u8| {
        NextHop::via(format!("10.0.0.{}", number % 4 + 1).parse().unwrap()).with_dev(name())
    };
    match number {
        0..4 => NextHops::One(hop(number)),
        4..7 => NextHops::Many(vec![hop(number), hop(number + 1)]),
        _ => NextHops::One(NextHop::via("10.0.0.1".parse().unwrap())),
    }
}

fn route(place: u8, number: u8) -> Route<IfName> {
    let dst = match place {
        0 => "10.0.0.0/8".into(),
        place => format!("10.{place}.0.0/16"),
    };
    Route::new(dst.parse().unwrap(), way(number))
}

#[derive(Clone, Debug)]
enum Event {
    ReplaceNexthops(u8, u8),
    Desire(u8, u8),
    Release(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..8_u8, 0..8_u8).prop_map(|(from, to)| Event::ReplaceNexthops(from, to)),
        6 => (0..12_u8, 0..8_u8).prop_map(|(place, number)| Event::Desire(place, number)),
        4 => (0..12_u8).prop_map(Event::Release),
    ]
}

fn observed(routes: Vec<Route>, nexthops: Vec<Nexthop>) -> Observed {
    let link = Link::must_exist(name()).with_index(2).with_up(true);
    Observed::default()
        .with_links([link])
        .with_routes(routes)
        .with_nexthops(nexthops)
        .with_complete(Kinds::ALL)
}

fn planned(desired: &Desired, observed: &Observed) -> Plan {
    plan(desired, observed, &Owned::default(), MARKER).unwrap()
}

/// Resolves the desired routes, given the existing nexthop objects.
fn resolved(desired: &Desired, there: &Observed) -> Resolution {
    let names = Resolution::of(desired, there, &Owned::default(), &policy()).unwrap();
    names.with_routes(desired, there, &policy())
}

/// Plans for the objects alone, or for single routes, if either suffices.
fn of_part(tracker: &Tracker, desired: &Desired, there: &Observed) -> Option<Plan> {
    let mut tracker = tracker.clone();
    let all = desired.routes.as_ref()?;
    let names = Devices::of([(Dev::index(2), name())]);
    if !tracker.follow(all, &names, MARKER) {
        return None;
    }
    let plan = |routes: &Routes, names: &Resolution, there: &Observed| {
        Some(plan_with(desired, Some(routes), names, there, &Owned::default(), &policy()).unwrap())
    };
    if tracker.has_replaced_nexthops() {
        let alone = observed(Vec::new(), there.nexthops.clone());
        let names = resolved(desired, &alone);
        let stays = tracker.keeps_objects(&names, &alone.nexthops);
        return stays.then(|| plan(&Routes::new(), &names, &alone))?;
    }
    let (routes, rows) = tracker.partial_input(all);
    let alone = observed(rows, Vec::new());
    let names = Resolution::of(desired, &alone, &Owned::default(), &policy()).unwrap();
    let names = names.with_routes_on(&tracker, &routes, &policy());
    names.has_routes().then(|| plan(&routes, &names, &alone))?
}

/// Returns the state once all is as desired, with a tracker of the routes' objects.
fn settled(desired: &Desired, before: &Observed) -> (Observed, Tracker) {
    let names = resolved(desired, before);
    let tracker = Tracker::in_sync(desired.routes.as_ref().unwrap());
    let tracker = tracker.with_objects(&names, BTreeSet::new()).unwrap();
    let mut after = observed(Vec::new(), Vec::new());
    for object in names.objects(desired, &policy()).unwrap() {
        match object {
            Object::Route(route) => after.routes.push(route),
            Object::Nexthop(nexthop) => after.nexthops.push(nexthop),
            other => panic!("{other:?}"),
        }
    }
    (after, tracker)
}

proptest! {
    #![proptest_config(crate::common::no_file())]

    #[test]
    fn the_plan_for_a_part_is_the_plan_of_all(
        first in prop::collection::vec((0..12_u8, 0..8_u8), 0..12),
        rounds in prop::collection::vec(prop::collection::vec(event(), 0..3), 1..5),
    ) {
        let routes = first.iter().map(|(place, number)| route(*place, *number));
        let routes = routes.collect::<Routes>();
        let desired = Desired::default().with_routes(routes);
        let mut desired = desired.with_nexthops(NexthopMode::Objects);
        let (mut there, mut tracker) = settled(&desired, &observed(Vec::new(), Vec::new()));
        for round in rounds {
            let routes = desired.routes.as_mut().unwrap();
            for event in round {
                match event {
                    Event::ReplaceNexthops(from, to) => {
                        routes.replace_nexthops(&way(from), &way(to));
                    }
                    Event::Desire(place, number) => drop(routes.insert(route(place, number))),
                    Event::Release(place) => drop(routes.remove(&route(place, 0).canonical_key())),
                }
            }
            if let Some(asked) = of_part(&tracker, &desired, &there) {
                let all = planned(&desired, &there);
                prop_assert_eq!(asked.text().to_string(), all.text().to_string());
                prop_assert_eq!(asked.ops, all.ops);
            }
            (there, tracker) = settled(&desired, &there);
        }
    }
}

#[test]
fn replaced_next_hops_take_a_change_of_their_objects_alone() {
    let routes = [route(1, 0), route(2, 0), route(3, 7)];
    let mut desired = Desired::default().with_routes(routes).with_nexthops(NexthopMode::Objects);
    let (there, tracker) = settled(&desired, &observed(Vec::new(), Vec::new()));
    let before = desired.clone();
    let replace_nexthops = |desired: &mut Desired, from, to| {
        let routes = desired.routes.as_mut().unwrap();
        routes.replace_nexthops(&way(from), &way(to));
    };
    replace_nexthops(&mut desired, 0, 1);
    let plan = of_part(&tracker, &desired, &there).unwrap();
    let [op] = &plan.ops[..] else { panic!("{}", plan.text()) };
    assert!(matches!(op.object, Object::Nexthop(_)), "{op:?}");

    // No object can replace this one. A route with a source prefix contains its next hops.
    let mut open = before.clone();
    replace_nexthops(&mut open, 7, 1);
    assert_eq!(of_part(&tracker, &open, &there), None);
    let six =
        |gateway: &str| NextHops::One(NextHop::via(gateway.parse().unwrap()).with_dev(name()));
    let plain = Route::new("2001:db8:1::/48".parse().unwrap(), six("fe80::1"));
    let from = plain.clone().with_from("2001:db8::/32".parse().unwrap());
    let mut odd = before;
    odd.routes.as_mut().unwrap().extend([plain, from]);
    let (there, tracker) = settled(&odd, &there);
    let mut others = odd.clone();
    replace_nexthops(&mut others, 0, 1);
    assert_eq!(of_part(&tracker, &others, &there).unwrap().ops.len(), 1);
    let routes = odd.routes.as_mut().unwrap();
    routes.replace_nexthops(&six("fe80::1"), &six("fe80::2"));
    assert_eq!(of_part(&tracker, &odd, &there), None);
}

#[test]
fn a_route_that_gets_the_next_hops_of_others_is_planned_for_alone() {
    let routes = [route(1, 0), route(2, 0), route(3, 1), route(4, 1), route(5, 7)];
    let desired = Desired::default().with_routes(routes).with_nexthops(NexthopMode::Objects);
    let (there, tracker) = settled(&desired, &observed(Vec::new(), Vec::new()));
    let ops = |changed: &[Route<IfName>]| {
        let mut desired = desired.clone();
        let routes = desired.routes.as_mut().unwrap();
        for route in changed {
            routes.insert(route.clone());
        }
        of_part(&tracker, &desired, &there).map(|plan| plan.ops.len())
    };
    assert_eq!(ops(&[route(1, 1)]), Some(1));
    assert_eq!(ops(&[route(1, 7), route(5, 0)]), Some(2));
    assert_eq!(ops(&[route(6, 1)]), Some(1));
    // An object appears, or one goes.
    assert_eq!(ops(&[route(1, 2)]), None);
    assert_eq!(ops(&[route(1, 1), route(2, 1)]), None);
}
