//! Observed routes in compact form among others, more of them than a plan resolves at a time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use trueup_net::render::snapshot_hash;
use trueup_net::{
    Action, Desired, Dev, IfName, Kinds, Link, LinkKind, Metric, NextHop, NextHops, Object,
    ObjectKind, Observed, Owned, Plan, Policy, Prefix, Route, RouteKey, RouteType, Routes, plan,
};

const MARKER: u8 = 116;
const OTHER: u8 = 4;
const MANY: u32 = 4_000;

/// Returns the `n`-th key: in both families and several tables, metrics, types of service and
/// sources.
fn key(n: u32) -> RouteKey {
    let number = n / 4;
    let dst = match n % 2 {
        0 => Prefix::new(Ipv4Addr::from_bits(0x0a00_0000 + (number << 8)).into(), 24),
        _ => Prefix::new(Ipv6Addr::from_bits(0xfd << 120 | u128::from(number) << 64).into(), 64),
    };
    let mut key = RouteKey::new([254, 300_000][n as usize / 2 % 2], dst.unwrap());
    key.metric = [1024, 7][number as usize % 2];
    match (n % 2, number % 5) {
        (0, 0) => key.tos = 16,
        (1, 0) => key.from = Some("fd01::/64".parse().unwrap()),
        _ => {}
    }
    key
}

fn gateway(key: &RouteKey, last: u8) -> NextHop {
    let via = match key.dst.address() {
        IpAddr::V4(_) => Ipv4Addr::new(10, 9, 0, last).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, last.into()).into(),
    };
    NextHop::via(via).with_dev(Dev::index(2))
}

fn route(key: &RouteKey, nexthops: NextHops) -> Route {
    let mut route = Route::new(key.dst, nexthops)
        .with_table(key.table)
        .with_metric(key.metric)
        .with_tos(key.tos)
        .with_protocol(MARKER);
    route.from = key.from;
    route.canonical()
}

fn through(key: &RouteKey, last: u8) -> Route {
    route(key, NextHops::One(gateway(key, last)))
}

/// Returns the rows on the `n`-th key.
fn rows(n: u32) -> Vec<Route> {
    let key = key(n);
    let ours = through(&key, 8);
    let foreign = || through(&key, 7).with_protocol(OTHER);
    match n / 2 % 16 {
        0 => vec![],
        1 => vec![foreign()],
        2 => vec![foreign(), ours],
        3 => vec![ours, foreign()],
        4 => vec![ours, through(&key, 6)],
        5 => vec![through(&key, 9)],
        6 => vec![ours.with_unmodelled(true)],
        7 => vec![route(&key, NextHops::One(NextHop::dev(Dev::index(2))))],
        8 => {
            let hops = [8, 9].map(|last| gateway(&key, last));
            vec![route(&key, NextHops::Many(hops.to_vec()))]
        }
        9 => vec![route(&key, NextHops::None).with_kind(RouteType::Blackhole)],
        10 => vec![route(&key, NextHops::Object(5, vec![Dev::index(2)]))],
        11 => {
            let mut ours = ours;
            ours.metrics.set(Metric::Mtu, 1400);
            ours.src = Some(gateway(&key, 1).via.unwrap());
            vec![ours]
        }
        _ => vec![ours],
    }
}

fn planned(desired: &Desired, observed: &Observed, policy: &Policy) -> Plan {
    plan(desired, observed, &Owned::default(), policy).unwrap()
}

#[test]
fn many_routes_in_compact_form_make_no_difference_to_a_plan() {
    let eth0 =
        Link::new("eth0".parse().unwrap(), LinkKind::Other("".into())).with_index(2).with_up(true);
    let mut routes: Vec<Route> = (0..MANY).flat_map(rows).collect();
    routes.sort_by_key(ObjectKind::key);
    let listed =
        Observed::default().with_links([eth0]).with_routes(routes).with_complete(Kinds::ALL);
    // Every eleventh is not desired.
    let wanted = (0..MANY).filter(|n| n % 11 != 0).map(|n| {
        let key = key(n);
        let via = gateway(&key, 9).via.unwrap();
        let hop = NextHop::via(via).with_dev("eth0".parse::<IfName>().unwrap());
        let mut wanted = Route::new(key.dst, NextHops::One(hop))
            .with_table(key.table)
            .with_metric(key.metric)
            .with_tos(key.tos);
        wanted.from = key.from;
        wanted
    });
    let desired = Desired::default().with_routes(wanted.collect::<Routes<_>>());

    for policy in [Policy::from(MARKER), Policy::from(MARKER).with_take(true)] {
        let plan = planned(&desired, &listed, &policy);
        assert!(plan.ops.len() > 2_000 && plan.ops.iter().any(|op| op.action == Action::Delete));
        assert!(policy.take || plan.conflicts.len() > 300);

        let mut compact = listed.clone();
        compact.compact_routes(&policy);
        let moved = listed.routes.len() - compact.routes.len();
        assert!((1_000..2_000).contains(&moved), "{moved}");
        let mut all: Vec<Route> = compact.all_routes().map(|it| it.into_owned()).collect();
        all.sort_by_key(ObjectKind::key);
        assert_eq!(all, listed.routes);
        assert_eq!(snapshot_hash(&compact), snapshot_hash(&listed));
        assert_eq!(planned(&desired, &compact, &policy), plan);

        // Each op contains the former row unchanged.
        for op in plan.ops.iter().filter(|op| op.action == Action::Update) {
            let was = op.was().unwrap().into_owned();
            let Object::Route(was) = was else { panic!("{was:?}") };
            assert!(listed.routes.contains(&was), "{was:?}");
        }

        // A foreign route that appears on a key of ours meanwhile is noticed there.
        let mut beside = compact.clone();
        let on_all = listed.routes.iter().filter(|route| route.protocol == MARKER);
        let foreign: Vec<Route> = on_all
            .filter(|route| route.metric == 7)
            .map(|route| through(&route.key(), 5).with_protocol(OTHER))
            .collect();
        beside.routes.extend(foreign.clone());
        let mut expected = listed.clone();
        expected.routes.extend(foreign);
        assert_eq!(planned(&desired, &beside, &policy), planned(&desired, &expected, &policy));

        let is_wanted = |route: &Route| route.metric == 7;
        compact.retain_routes(is_wanted);
        let mut rest: Vec<Route> = compact.all_routes().map(|it| it.into_owned()).collect();
        rest.sort_by_key(ObjectKind::key);
        let expected = listed.routes.iter().filter(|route| is_wanted(route));
        assert!(rest.iter().eq(expected));
    }
}
