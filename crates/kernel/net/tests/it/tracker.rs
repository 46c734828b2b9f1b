//! The tracker against the full diff: after any changes on either side, its part gives the same
//! plan.

use proptest::prelude::*;
use trueup_net::internal::Tracker;
use trueup_net::{
    Desired, Dev, Devices, IfName, Kinds, Link, NextHop, NextHops, ObjectKind as _, Observed,
    Owned, Plan, Route, RouteKey, Routes, plan,
};

const MARKER: u8 = 116;

fn name() -> IfName {
    "eth0".parse().unwrap()
}

/// One of few routes in both families, by one of few gateways.
fn route(place: u8, way: u8) -> Route<IfName> {
    let (dst, via) = match place % 3 {
        0 => (format!("2001:db8:{place}::/48"), format!("fe80::{}", way + 1)),
        1 => (format!("10.{place}.0.0/16"), format!("10.0.0.{}", way + 1)),
        _ => (format!("10.0.{place}.0/24"), format!("10.0.0.{}", way + 1)),
    };
    let hop = NextHop::via(via.parse().unwrap()).with_dev(name());
    Route::new(dst.parse().unwrap(), NextHops::One(hop)).with_metric(u32::from(place % 2))
}

fn observed(route: Route<IfName>) -> Route {
    let route = route.try_map_dev(|_| Ok::<_, ()>(Dev::index(2))).unwrap();
    route.canonical().with_protocol(MARKER)
}

#[derive(Clone, Debug)]
enum Event {
    Desire(u8, u8),
    Release(u8),
    /// The kernel has lost it.
    Gone(u8),
    /// Another writer has set it, with our marker.
    Set(u8, u8),
}

fn event() -> impl Strategy<Value = Event> {
    let place = 0..24_u8;
    prop_oneof![
        (place.clone(), 0..3_u8).prop_map(|(place, way)| Event::Desire(place, way)),
        place.clone().prop_map(Event::Release),
        place.clone().prop_map(Event::Gone),
        (place, 0..3_u8).prop_map(|(place, way)| Event::Set(place, way)),
    ]
}

fn planned(routes: Routes, there: Vec<Route>) -> Plan {
    let link = Link::must_exist(name()).with_index(2).with_up(true);
    let observed =
        Observed::default().with_links([link]).with_routes(there).with_complete(Kinds::ALL);
    let desired = Desired::default().with_routes(routes);
    plan(&desired, &observed, &Owned::default(), MARKER).unwrap()
}

proptest! {
    #![proptest_config(crate::common::no_file())]

    #[test]
    fn what_a_tracker_asks_gives_the_plan_of_all(
        first in prop::collection::vec((0..24_u8, 0..3_u8), 0..24),
        events in prop::collection::vec(prop::collection::vec(event(), 0..6), 1..5),
    ) {
        let mut desired: Routes = first.iter().map(|(place, way)| route(*place, *way)).collect();
        let mut there: Vec<Route> = desired.iter().map(observed).collect();
        let devices = Devices::of([(Dev::index(2), name())]);
        let mut tracker = Tracker::in_sync(&desired);
        let remove = |there: &mut Vec<Route>, key: RouteKey| there.retain(|row| row.key() != key);
        for round in events {
            let mut announced = Vec::new();
            for event in round {
                match event {
                    Event::Desire(place, way) => drop(desired.insert(route(place, way))),
                    Event::Release(place) => drop(desired.remove(&route(place, 0).canonical_key())),
                    Event::Gone(place) => {
                        let key = route(place, 0).canonical_key();
                        remove(&mut there, key);
                        announced.push((key, None));
                    }
                    Event::Set(place, way) => {
                        let row = observed(route(place, way));
                        remove(&mut there, row.key());
                        there.push(row.clone());
                        announced.push((row.key(), Some(row)));
                    }
                }
            }
            prop_assert!(tracker.follow(&desired, &devices, MARKER));
            for (key, row) in announced {
                match row {
                    Some(row) => tracker.states.mark(key, vec![row]),
                    None => tracker.states.mark(key, Vec::new()),
                }
            }
            let (routes, rows) = tracker.partial_input(&desired);
            let asked = planned(routes, rows);
            let all = planned(desired.clone(), there.clone());
            prop_assert_eq!(asked.text().to_string(), all.text().to_string());
            prop_assert_eq!(&asked, &all);
        }
    }
}

#[test]
fn what_changed_too_much_takes_a_look_at_all() {
    let devices = Devices::of([(Dev::index(2), name())]);
    let mut routes: Routes = [route(1, 0), route(2, 0)].into();
    let tracker = Tracker::in_sync(&routes);
    let via = |way: u8| route(1, way).nexthops;
    let mut rerouted = routes.clone();
    rerouted.replace_nexthops(&via(0), &via(1));
    assert_eq!(rerouted.iter().map(|route| route.nexthops).collect::<Vec<_>>(), [via(1), via(1)]);
    assert!(!tracker.clone().follow(&rerouted, &devices, MARKER));
    for _ in 0..5_000 {
        routes.insert(route(1, 1));
    }
    assert!(!tracker.clone().follow(&routes, &devices, MARKER));
    // Nothing is known of entirely different routes either.
    assert!(!tracker.clone().follow(&Routes::from([route(1, 0)]), &devices, MARKER));
}
