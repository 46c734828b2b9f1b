use super::*;
use crate::kinds::{NextHop, ObjectKind as _};

const MARKER: u8 = 116;

fn route(dst: &str, dev: Dev) -> Route {
    let hop = NextHop::via([10, 0, 0, 1].into()).with_dev(dev);
    Route::new(dst.parse().unwrap(), NextHops::One(hop))
}

fn listed(resolved: &ResolvedRoutes, routes: &Routes<Dev>) -> Vec<Route> {
    resolved.for_routes(routes, &Devices::default()).list(routes).unwrap()
}

#[test]
fn a_part_is_listed_with_the_names_of_all_and_other_routes_with_their_own() {
    let (a, b) = (Dev::index(2), Dev::index(3));
    let all = Routes::from([route("10.0.0.0/16", a), route("10.1.0.0/16", b)]);
    let resolved = ResolvedRoutes::new(&all, &Devices::default(), MARKER);
    let whole = listed(&resolved, &all);
    assert!(whole.iter().all(|route| route.protocol == MARKER));

    let mut part = all.filtered(|key| *key == whole[1].key());
    assert!(resolved.covers(&part));
    assert_eq!(listed(&resolved, &part), whole[1..]);

    // The missing value's position is free, and is used again.
    part.insert(route("10.2.0.0/16", Dev::index(4)));
    assert!(!resolved.covers(&part));
    let gone = listed(&resolved, &part);
    assert_eq!(gone.len(), 2);
    assert_eq!(gone[1].nexthops, route("10.2.0.0/16", Dev::index(4)).nexthops);
}

#[test]
fn routes_point_at_objects_whatever_part_of_them_is_listed() {
    let all =
        Routes::from([route("10.0.0.0/16", Dev::index(2)), route("10.1.0.0/16", Dev::index(3))]);
    let devices = Devices::default();
    let resolved = ResolvedRoutes::with_objects(&all, &devices, MARKER, &[]);
    assert_eq!(resolved.nexthop_table().all().len(), 2);
    let whole = listed(&resolved, &all);
    for route in &whole {
        assert!(matches!(route.nexthops, NextHops::Object(..)));
        // Neither of these is a part: their values have positions of their own.
        assert_eq!(listed(&resolved, &all.at([route.key()])), std::slice::from_ref(route));
    }
}
