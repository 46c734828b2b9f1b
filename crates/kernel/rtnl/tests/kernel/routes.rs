//! Routes, one situation per test.

use std::collections::BTreeMap;

use trueup_apply::apply;
use trueup_net::{Action, Desired, NextHop, NextHops, Route, RouteType};
use trueup_netlink::Socket;
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Outcome, Rtnl};
use trueup_testkit::{Changes, Kind, assert_no_changes, ip, ip_batch, uplinks};

use crate::support::{address, converge, describe, name, nothing, ours, pass, routes_to, via};

const BOTH: [(&str, &str, &str); 2] =
    [("10.50.0.0/16", "10.200.0.8", "10.200.0.9"), ("fd50::/32", "fd00:200:0::8", "fd00:200:0::9")];

fn routes(routes: Vec<Route<trueup_net::IfName>>) -> Desired {
    Desired::default().with_routes(routes)
}

/// Returns the announcements of routes: `+` for new or replaced, `-` for deleted.
fn announced(changes: &mut Changes) -> String {
    let all = changes.take();
    let routes = all.iter().filter(|message| message.kind == Kind::Route);
    let mark = |message: &trueup_testkit::RawMessage| match message.action {
        trueup_testkit::Action::New => '+',
        trueup_testkit::Action::Del => '-',
    };
    routes.map(mark).collect()
}

pub(crate) fn a_changed_gateway_is_one_replace_and_no_delete() {
    uplinks(1);
    let none = MemoryLedger::default();
    for (dst, a, b) in BOTH {
        let _first = converge(&routes(vec![via(dst, a)]), &none);
        let mut changes = Changes::watch();
        let report = converge(&routes(vec![via(dst, b)]), &none);
        assert_eq!(announced(&mut changes), "+", "{dst}");
        let actions: Vec<_> = report.ops().map(|done| done.op.action).collect();
        assert_eq!(actions, [Action::Update]);
        let _gone = converge(&nothing(), &none);
    }
}

/// A declared route converges beside an offered one, and if it fails itself it is not converged.
pub(crate) fn a_route_that_is_offered_and_refused_keeps_nothing_from_converging() {
    uplinks(1);
    let none = MemoryLedger::default();
    let (dst, gateway) = ("10.51.0.0/16", "192.0.2.1");
    let mut desired = routes(vec![via("10.50.0.0/16", "10.200.0.8"), via(dst, gateway)]);
    let refused = pass(&desired, &none);
    assert!(!refused.converged(), "{}", describe(&refused));
    let key = via(dst, gateway).canonical_key();
    desired.routes.as_mut().unwrap().offer(key);
    let offered = pass(&desired, &none);
    assert!(offered.converged(), "{}", describe(&offered));
    assert!(offered.declined().count() > 0, "{}", describe(&offered));
    assert_eq!(offered.failed().count(), 0, "{}", describe(&offered));
    let mut statuses = 0;
    offered.statuses(&mut |_, status| statuses += usize::from(status.is_some()));
    assert_eq!(statuses, 1);
    // A pass that may try no more ops does not know if the kernel takes the route.
    let limits = trueup_reconcile::PassLimits::default().with_ops(0);
    let (here, options) = (Namespace::current(), Options::default());
    let cut = Rtnl::new()
        .reconcile(PassInput::new(&here, &desired, &mut none.clone(), &options).with_limits(limits))
        .unwrap();
    assert!(!cut.converged(), "{}", describe(&cut));

    // A declared route that fails still counts.
    let mut both = desired.clone();
    let declared = via("10.52.0.0/16", gateway);
    drop(both.routes.as_mut().unwrap().insert(declared));
    let failing = pass(&both, &none);
    assert!(!failing.converged(), "{}", describe(&failing));

    ip(&["route", "add", "192.0.2.0/24", "dev", "up0"]);
    let _taken = converge(&desired, &none);
    assert_eq!(routes_to(dst).len(), 1);
}

pub(crate) fn a_changed_metric_leaves_exactly_one_route() {
    uplinks(1);
    let none = MemoryLedger::default();
    for (dst, a, _) in BOTH {
        for metric in [0, 100, 50, 2000, 0] {
            let route = via(dst, a).with_metric(metric);
            let _report = converge(&routes(vec![route]), &none);
            let rows = routes_to(dst);
            assert_eq!(rows.len(), 1, "metric {metric}: {rows:#?}");
        }
        let _gone = converge(&nothing(), &none);
    }
}

pub(crate) fn one_impossible_gateway_among_a_hundred_fails_alone() {
    uplinks(1);
    let many = |skip: usize| -> Vec<_> {
        let gateway = |i: usize| if i == skip { "192.0.2.1" } else { "10.200.0.9" };
        (0..100).map(|i| via(&format!("10.50.{i}.0/24"), gateway(i))).collect()
    };
    let report = pass(&routes(many(37)), &MemoryLedger::default());
    assert!(!report.converged());
    assert_eq!(report.applied().count(), 99);
    let failed: Vec<_> = report.failed().map(|(_, failure)| failure.to_string()).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].contains("Nexthop has invalid gateway"), "{failed:?}");
    assert_eq!(ours(Kind::Route).len(), 99);

    // Nor does it hold deletes.
    let few = many(37).split_off(37).into_iter().take(2).collect();
    let report = pass(&routes(few), &MemoryLedger::default());
    assert_eq!(report.applied().count(), 98, "{}", describe(&report));
    assert_eq!(ours(Kind::Route).len(), 1);
}

pub(crate) fn a_foreign_route_on_a_desired_key_is_a_conflict_and_stays() {
    uplinks(1);
    for (dst, a, b) in BOTH {
        for protocol in ["static", "kernel", "ra", "bird"] {
            ip(&["route", "add", dst, "via", a, "protocol", protocol]);
            let before = routes_to(dst);
            let other = dst.replace("50", "51");
            let wanted = routes(vec![via(dst, b), via(&other, b)]);
            let report = pass(&wanted, &MemoryLedger::default());
            assert!(!report.converged());
            assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
            assert_eq!(report.applied().count(), 1, "the other is applied");
            assert_eq!(routes_to(dst), before);
            let _gone = converge(&nothing(), report.ledger());
            assert_eq!(routes_to(dst), before);
            ip(&["route", "delete", dst]);
        }
    }
}

pub(crate) fn an_equal_foreign_route_serves_and_is_not_ours_to_delete() {
    uplinks(1);
    for (dst, a, _) in BOTH {
        ip(&["route", "add", dst, "via", a, "protocol", "static"]);
        let before = routes_to(dst);
        let report = converge(&routes(vec![via(dst, a)]), &MemoryLedger::default());
        assert_eq!(report.ops().count(), 0);
        let _gone = converge(&nothing(), report.ledger());
        assert_eq!(routes_to(dst), before);
    }
}

/// A table above 255, a default route, rejects and a missing metric are each stored in another form
/// than written.
pub(crate) fn what_the_kernel_stores_otherwise_is_recognized() {
    uplinks(1);
    let reject = |dst: &str| Route::of_type(RouteType::Blackhole, dst.parse().unwrap());
    let mut all = Vec::new();
    for (dst, a, _) in BOTH {
        let default = if dst.contains(':') { "::/0" } else { "0.0.0.0/0" };
        for table in [254, 100, 1_000_000] {
            all.push(via(dst, a).with_table(table));
            all.push(via(default, a).with_table(table));
            all.push(reject(&dst.replace("50", "52")).with_table(table));
        }
    }
    let wanted = routes(all);
    let report = converge(&wanted, &MemoryLedger::default());
    assert_eq!(report.applied().count(), 18);
    let again = assert_no_changes(|| converge(&wanted, report.ledger()));
    assert_eq!(again.ops().count(), 0);
}

pub(crate) fn a_permuted_multipath_route_is_the_same_route() {
    uplinks(2);
    for (dst, gateways) in [
        ("10.50.0.0/16", ["10.200.0.9", "10.200.1.9", "10.200.0.8"]),
        ("fd50::/32", ["fd00:200:0::9", "fd00:200:1::9", "fd00:200:0::8"]),
    ] {
        let multipath = |order: [usize; 3]| {
            let hop =
                |at: usize| NextHop::via(gateways[at].parse().unwrap()).with_weight(at as u16 + 1);
            let hops = order.into_iter().map(hop).collect();
            routes(vec![Route::new(dst.parse().unwrap(), NextHops::Many(hops))])
        };
        let first = converge(&multipath([0, 1, 2]), &MemoryLedger::default());
        let second = assert_no_changes(|| converge(&multipath([2, 0, 1]), first.ledger()));
        assert_eq!(second.ops().count(), 0);
    }
}

/// A tentative IPv6 address is no preferred source. Even without duplicate address detection it is
/// tentative for a moment, until another thread of the kernel completes it.
pub(crate) fn an_ipv6_source_waits_for_its_address() {
    uplinks(1);
    let mut sourced = via("fd50::/32", "fd00:200:0::9");
    sourced.src = Some("fd00:200:0::5".parse().unwrap());
    let desired = routes(vec![sourced]).with_addresses([trueup_net::Address::new(
        crate::support::name("up0"),
        "fd00:200:0::5/64".parse().unwrap(),
    )]);
    let mut last = MemoryLedger::default();
    trueup_testkit::wait_until("the source is there", || {
        let report = pass(&desired, &last);
        last = report.ledger().clone();
        for (_, failure) in report.failed() {
            assert_eq!(failure.class, trueup_apply::ErrorClass::Dependency);
        }
        report.converged()
    });
    assert_eq!(routes_to("fd50::/32").len(), 1);
}

pub(crate) fn a_route_deleted_between_plan_and_apply_counts_as_deleted() {
    uplinks(1);
    let dsts = BOTH.map(|(dst, _, _)| dst);
    let wanted = BOTH.map(|(dst, a, _)| via(dst, a)).to_vec();
    let report = converge(&routes(wanted), &MemoryLedger::default());
    let here = Namespace::current();
    let (plan, _) =
        Rtnl::new().plan(&here, &routes(vec![]), report.ledger(), &Options::default()).unwrap();
    assert_eq!(plan.ops.len(), 2);
    for dst in dsts {
        ip(&["route", "delete", dst]);
    }
    let outcomes = apply(&plan, &mut Socket::open(&here).unwrap(), &BTreeMap::new(), &|| true);
    assert_eq!(outcomes.outcomes, [Outcome::Applied, Outcome::Applied]);
}

/// Another writer takes the key between plan and apply. Exclusive creation leaves it to that
/// writer.
pub(crate) fn a_key_taken_between_plan_and_apply_is_left_to_the_writer() {
    uplinks(1);
    let here = Namespace::current();
    let wanted = BOTH.map(|(dst, a, _)| via(dst, a)).to_vec();
    let (plan, _) = Rtnl::new()
        .plan(&here, &routes(wanted), &MemoryLedger::default(), &Options::default())
        .unwrap();
    ip_batch(BOTH.map(|(dst, _, b)| format!("route add {dst} via {b} protocol static")));
    let before = BOTH.map(|(dst, _, _)| routes_to(dst));
    let outcomes = apply(&plan, &mut Socket::open(&here).unwrap(), &BTreeMap::new(), &|| true);
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(f) if f.errno == Some(17));
    assert!(outcomes.outcomes.iter().all(failed), "{outcomes:?}");
    assert_eq!(BOTH.map(|(dst, _, _)| routes_to(dst)), before);
}

/// A gateway under a local route is local, and refused, until that route is gone.
pub(crate) fn a_local_route_is_made_anew_to_lead_elsewhere() {
    uplinks(1);
    let dst = || "0.0.0.0/0".parse().unwrap();
    let mut local = Route::of_type(RouteType::Local, dst());
    local.nexthops = NextHops::One(NextHop::dev(name("lo")));
    let first = converge(&routes(vec![local]), &MemoryLedger::default());
    let hop = NextHop::via("10.99.0.1".parse().unwrap()).with_dev(name("up0")).with_onlink(true);
    let report = converge(&routes(vec![Route::new(dst(), NextHops::One(hop))]), first.ledger());
    assert_eq!(report.applied().count(), 2, "{}", describe(&report));
}

/// In the order of the calls. The owner of the addresses, and their mover, make no difference.
pub(crate) fn a_route_follows_its_gateway_to_another_device() {
    uplinks(2);
    let none = MemoryLedger::default();
    for (dst, gateway, subnet) in
        [("10.84.0.0/16", "10.83.0.9", "10.83.0.1/24"), ("fd84::/32", "fd83::9", "fd83::1/64")]
    {
        let at = |dev: &str| {
            Desired::default()
                .with_addresses([address(dev, subnet)])
                .with_routes([via(dst, gateway)])
        };
        let leads_out_of = |dev: &str| {
            let rows = routes_to(dst);
            let is_there = rows.len() == 1 && rows[0].contains(&format!("{gateway} dev {dev}"));
            assert!(is_there, "{dev}: {rows:#?}");
        };
        let _first = converge(&at("up0"), &none);
        leads_out_of("up0");
        let _moved = converge(&at("up1"), &none);
        leads_out_of("up1");
        assert_no_changes(|| drop(converge(&at("up1"), &none)));

        // Another writer moves the subnet.
        let alone = Desired::default().with_routes([via(dst, gateway)]);
        ip(&["addr", "del", subnet, "dev", "up1"]);
        ip(&["addr", "add", subnet, "dev", "up0", "nodad"]);
        let _followed = converge(&alone, &none);
        leads_out_of("up0");
        let _gone = converge(&nothing(), &none);
        ip(&["addr", "del", subnet, "dev", "up0"]);
    }
}
