//! Very many routes that change their gateway at once, among routes of all sorts. Foreign ones are
//! then read along with ours, and ours are stored in compact form.

use std::collections::BTreeMap;

use trueup_net::{Action, Desired, NextHops, Object, ObjectKind as _, Route, RouteKey};
use trueup_reconcile::{Extent, Hints, PassInput, PassLimits, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Outcome, Rtnl};
use trueup_testkit::fields::OURS;
use trueup_testkit::{Kind, ip_batch, uplinks};

use crate::support::{converge, describe, ours, pass, rows, via};

/// More than the number from which a pass samples a dump before reading it all.
const MANY: u32 = 17_000;

fn dst(n: u32) -> String {
    match n % 2 {
        0 => format!("10.{}.{}.0/24", 64 + (n >> 8), n & 255),
        _ => format!("fd60:0:{n:x}::/64"),
    }
}

fn gateway(n: u32, last: u32) -> String {
    match n % 2 {
        0 => format!("10.200.0.{last}"),
        _ => format!("fd00:200:0::{last}"),
    }
}

fn desired(last: u32) -> Desired {
    let routes: Vec<_> = (0..MANY).map(|n| via(&dst(n), &gateway(n, last))).collect();
    Desired::default().with_routes(routes)
}

fn foreign_rows() -> Vec<String> {
    rows(Kind::Route, |row, _| row.protocol() != Some(OURS))
}

pub(crate) fn a_new_gateway_for_very_many_routes_leaves_all_that_is_not_ours() {
    uplinks(1);
    let before = converge(&desired(8), &MemoryLedger::default());
    ip_batch(["nexthop add id 99 via 10.200.0.7 dev up0 protocol static"]);
    ip_batch([
        // On keys of ours, behind ours and before it.
        format!("route append {} via 10.200.0.7 protocol static", dst(1000)),
        format!("route prepend {} via 10.200.0.7 protocol bird", dst(1002)),
        format!("route append {} dev up0 protocol static", dst(1001)),
        // Ours, behind ours.
        format!("route append {} via 10.200.0.7 protocol {OURS}", dst(1008)),
        // With another type of service, and another metric.
        format!("route add {} tos 0x10 via 10.200.0.7 protocol static", dst(1004)),
        format!("route add {} via 10.200.0.7 metric 50 protocol static", dst(1006)),
        format!("route add {} via fd00:200:0::7 metric 50 protocol static", dst(1007)),
        // Elsewhere.
        "route add 10.140.0.0/24 nhid 99 protocol static".to_owned(),
        "route add blackhole fd61::/64 protocol bird".to_owned(),
        "route add 10.141.0.0/24 via 10.200.0.8 table 77 protocol static".to_owned(),
        // Ours, and not as trueup makes them.
        format!("route replace {} nhid 99 protocol {OURS}", dst(2000)),
        format!(
            "route replace {} protocol {OURS} nexthop via 10.200.0.8 nexthop via 10.200.0.7",
            dst(2002)
        ),
        format!("route replace {} via fd00:200:0::8 protocol {OURS} expires 1000", dst(2001)),
        format!("route replace blackhole {} protocol {OURS}", dst(2004)),
        format!("route replace {} via 10.200.0.8 protocol {OURS} mtu 1400", dst(2006)),
        // Ours, and undesired.
        format!("route add 10.142.0.0/24 via 10.200.0.8 protocol {OURS}"),
        format!("route add fd62::/64 via fd00:200:0::8 protocol {OURS}"),
    ]);
    let foreign = foreign_rows();

    let report = pass(&desired(9), before.ledger());
    assert!(report.doubts().is_empty(), "{:?}", report.doubts());
    assert_eq!(foreign_rows(), foreign);
    let key = |n: u32| via(&dst(n), &gateway(n, 9)).canonical_key();
    let mut contested: Vec<RouteKey> = report
        .conflicts()
        .iter()
        .map(|conflict| match (&conflict.desired, &conflict.foreign) {
            (Object::Route(wanted), Object::Route(foreign)) => {
                assert!([4, 12].contains(&foreign.protocol), "{foreign:?}");
                assert_eq!(wanted.key(), foreign.key());
                wanted.key()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    contested.sort();
    assert_eq!(contested, [key(1000), key(1002)]);

    // Each changed route is reported in its former state.
    let mut was: BTreeMap<RouteKey, Route> = BTreeMap::new();
    let mut deleted = Vec::new();
    for done in report.ops() {
        assert_eq!(*done.outcome, Outcome::Applied, "{done:?}");
        let Object::Route(route) = &done.op.object else { panic!("{done:?}") };
        match done.op.action {
            Action::Update => match done.op.was().map(|was| was.into_owned()) {
                Some(Object::Route(former)) => drop(was.insert(route.key(), former)),
                other => panic!("{other:?}"),
            },
            Action::Delete => deleted.push(route.clone()),
            Action::Create => {}
        }
    }
    let gone = deleted.iter().filter(|route| {
        let dst = route.dst.to_string();
        ["10.142.0.0/24", "fd62::/64"].contains(&&*dst)
    });
    assert_eq!(gone.count(), 2, "{deleted:?}");
    for n in 0..MANY {
        let Some(former) = was.get(&key(n)) else {
            // Made anew, or in conflict.
            assert!([1000, 1002, 2000, 2001, 2002, 2004].contains(&n), "{n}");
            continue;
        };
        assert_eq!((former.key(), former.protocol), (key(n), OURS));
        assert_eq!(former.unmodelled, n == 2001, "{former:?}");
        assert_eq!(former.metrics.is_empty(), n != 2006, "{former:?}");
        match (&former.nexthops, n) {
            (NextHops::Object(99, _), 2000) | (NextHops::None, 2004) => {}
            (NextHops::Many(hops), 2002) => assert_eq!(hops.len(), 2),
            (NextHops::One(hop), _) => {
                assert_eq!(hop.via, Some(gateway(n, 8).parse().unwrap()), "{former:?}");
            }
            other => panic!("{other:?}"),
        }
    }

    assert_eq!(ours(Kind::Route).len(), MANY as usize);
    let again = pass(&desired(9), report.ledger());
    assert_eq!(again.ops().count(), 0, "{}", describe(&again));
    assert_eq!(again.conflicts().len(), 2);
    assert_eq!(foreign_rows(), foreign);
}

/// A few of very many are changed, and verified by the kernel's echoes. The next passes rely on the
/// compact observation.
pub(crate) fn a_source_that_listens_knows_very_many_routes_after_another_writer_has_changed_some() {
    uplinks(1);
    let (here, options) = (Namespace::current(), Options::default());
    let (mut source, mut ledger) = (Rtnl::new(), MemoryLedger::default());
    let subscribed = source.subscribe(&here, Hints::new(|| {}));
    assert!(subscribed.is_active(), "{subscribed:?}");
    let mut desired = desired(8);
    let mut pass = |desired: &Desired, extent| {
        let limits = PassLimits::default().with_extent(extent);
        let report = source
            .reconcile(PassInput::new(&here, desired, &mut ledger, &options).with_limits(limits));
        report.unwrap()
    };
    for _ in 0..2 {
        let report = pass(&desired, Extent::Everything);
        assert!(report.converged(), "{}", describe(&report));
    }

    // The first of a dump are among them. One is an addition, and one is another writer's.
    ip_batch((0..100).map(|n| {
        let (dst, via) = (dst(n), gateway(n, 7));
        format!("route replace {dst} via {via} protocol {OURS}")
    }));
    let (twice, foreign) = (dst(40), dst(42));
    ip_batch([
        format!("route append {twice} via 10.200.0.6 protocol {OURS}"),
        format!("route append {foreign} via 10.200.0.6 protocol bird"),
    ]);
    let theirs = foreign_rows();
    let report = pass(&desired, Extent::Everything);
    assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
    let changed = report.applied().filter(|done| done.op.action == Action::Update);
    assert!((99..=100).contains(&changed.count()), "{}", describe(&report));
    assert_eq!(foreign_rows(), theirs);

    // The next passes rely on the kernel's actual state.
    for n in [0, 1, 2, 40, 16_000] {
        let routes = desired.routes.as_mut().unwrap();
        routes.insert(via(&dst(n), &gateway(n, 9)));
        let report = pass(&desired, Extent::Dirty);
        assert_eq!(report.applied().count(), 1, "{n}: {}", describe(&report));
        let routes = desired.routes.as_mut().unwrap();
        routes.remove(&via(&dst(n), &gateway(n, 9)).canonical_key());
        let report = pass(&desired, Extent::Dirty);
        assert_eq!(report.applied().count(), 1, "{n}: {}", describe(&report));
    }
    let report = pass(&desired, Extent::Everything);
    assert_eq!(report.ops().count(), 0, "{}", describe(&report));
    assert_eq!(report.conflicts().len(), 1);
    assert_eq!(ours(Kind::Route).len(), MANY as usize - 5);
    assert_eq!(foreign_rows(), theirs);
}
