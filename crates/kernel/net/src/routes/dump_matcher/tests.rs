use super::*;
use crate::kinds::{NextHop, NextHops};
use crate::values::Dev;

const MARKER: u8 = 116;

fn rows(destinations: &[&str]) -> (Routes, Vec<Route>) {
    let via = NextHop::via([10, 0, 0, 1].into());
    (
        destinations
            .iter()
            .map(|dst| Route::new(dst.parse().unwrap(), NextHops::One(via.clone())))
            .collect(),
        destinations
            .iter()
            .map(|dst| {
                let hop = NextHop::via([10, 0, 0, 1].into());
                let mut route = Route::new(dst.parse().unwrap(), NextHops::One(hop)).canonical();
                route.protocol = MARKER;
                route
            })
            .collect(),
    )
}

fn matcher(routes: &Routes) -> DumpMatcher<'_> {
    DumpMatcher::new(routes, &Devices::default(), MARKER)
}

#[test]
fn rows_in_order_match_and_rows_out_of_order_are_reported() {
    let (routes, rows) = rows(&["10.0.0.0/16", "10.0.0.0/8", "10.1.0.0/16"]);
    let mut matcher = matcher(&routes);
    matcher.begin(Family::Inet);
    for row in &rows {
        assert_eq!(matcher.match_route(row), RowMatch::Matched);
    }
    matcher.end(Family::Inet, None);
    assert!(matcher.settle(true));
    assert_eq!(matcher.matched(), 3);
    assert!(matcher.out_of_sync(&routes, &[]).is_empty());

    for at in [2, 0, 1] {
        let _ = matcher.match_route(&rows[at]);
    }
    matcher.end(Family::Inet, None);
    assert!(!matcher.settle(true));
}

/// Only the matcher knows the dependencies of dropped rows.
#[test]
fn each_dump_has_the_dependencies_of_its_own_rows() {
    let (routes, mut rows) = rows(&["10.0.0.0/16", "10.1.0.0/16"]);
    let src = [10, 0, 0, 9].into();
    let wanted: Routes = routes.iter().map(|route| route.with_src(src)).collect();
    for (row, index) in rows.iter_mut().zip([4, 5]) {
        let hop = NextHop::via([10, 0, 0, 1].into());
        row.nexthops = NextHops::One(hop.with_dev(Dev::index(index)));
    }
    let mut of_plain = matcher(&routes);
    let plain = rows.clone();
    rows.iter_mut().for_each(|row| row.src = Some(src));
    let mut of_others = matcher(&wanted);
    for (matcher, rows, sources) in
        [(&mut of_plain, plain, BTreeSet::new()), (&mut of_others, rows, BTreeSet::from([src]))]
    {
        matcher.begin(Family::Inet);
        for (row, index) in rows.iter().zip([4, 5]) {
            assert_eq!(matcher.match_route(row), RowMatch::Matched);
            matcher.end(Family::Inet, None);
            assert!(matcher.settle(true));
            let RouteDependencies { devices, sources: found, .. } =
                std::mem::take(&mut matcher.found.dependencies);
            assert_eq!((devices, &found), (BTreeSet::from([index]), &sources));
        }
    }
}

#[test]
fn rows_of_one_key_do_not_match() {
    let (routes, rows) = rows(&["10.0.0.0/16", "10.1.0.0/16"]);
    let mut matcher = matcher(&routes);
    matcher.begin(Family::Inet);
    assert_eq!(matcher.match_route(&rows[0]), RowMatch::Matched);
    let both = RowMatch::KeptBoth(Box::new(rows[0].clone()));
    assert_eq!(matcher.match_route(&rows[0]), both);
    assert_eq!(matcher.match_route(&rows[0]), RowMatch::Kept);
    matcher.end(Family::Inet, None);
    assert!(matcher.settle(true));
    assert_eq!(matcher.matched(), 0);
    assert_eq!(matcher.out_of_sync(&routes, &rows[..1]).len(), 2);
}
