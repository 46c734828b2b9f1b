//! Ways in which a pass could silently cost another writer objects, one per test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use trueup_loop::{Config, Loop};
use trueup_net::{Desired, Lifetimes, LinkKind, Neighbour, NextHop, NextHops, Route};
use trueup_reconcile::Report as _;
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{Kind, Snapshot, ip, ip_batch, uplinks, wait_until};

use crate::support::{address, converge, describe, name, nothing, ours, pass, rows, up};

/// If the kernel stores the marker, an object without it is not the one that we made: another
/// writer deleted ours, and declared the same.
pub(crate) fn what_a_writer_made_again_is_his() {
    uplinks(1);
    let all = Desired::default()
        .with_addresses([address("up0", "10.9.0.1/24"), address("up0", "fd00:9::1/64")])
        .with_neighbours([Neighbour::new(
            name("up0"),
            "10.200.0.9".parse().unwrap(),
            "02:00:00:00:00:09".parse().unwrap(),
        )]);
    let first = converge(&all, &MemoryLedger::default());
    ip_batch([
        "address delete 10.9.0.1/24 dev up0",
        "address add 10.9.0.1/24 dev up0",
        "address delete fd00:9::1/64 dev up0",
        "address add fd00:9::1/64 dev up0 nodad",
        "neighbour delete 10.200.0.9 dev up0",
        "neighbour add 10.200.0.9 lladdr 02:00:00:00:00:09 dev up0 nud permanent",
    ]);
    let his = Snapshot::settled();
    let second = converge(&all, first.ledger());
    assert_eq!(second.ops().count(), 0, "{}", describe(&second));
    let none = Desired::default().with_addresses([]).with_neighbours([]);
    let third = converge(&none, second.ledger());
    assert_eq!(third.ops().count(), 0, "{}", describe(&third));
    his.assert_same(&Snapshot::settled());
}

/// When an IPv6 address goes or changes, the kernel deletes the device's first route to its subnet,
/// which it takes for its own.
pub(crate) fn a_foreign_route_to_an_ipv6_subnet_holds_our_address_in_it() {
    uplinks(1);
    let one = |lifetimes| {
        let mut one = address("up0", "fd00:9::1/64");
        one.lifetimes = lifetimes;
        Desired::default().with_addresses([one])
    };
    let endless = Lifetimes::default();
    let ends = Lifetimes { valid: 5000, preferred: 4000 };
    for change in [nothing(), one(ends)] {
        let first = converge(&one(endless), &MemoryLedger::default());
        ip(&["route", "add", "fd00:9::/64", "dev", "up0", "metric", "100", "protocol", "static"]);
        let before = Snapshot::settled();
        let held = pass(&change, first.ledger());
        assert_eq!(held.pending().count(), 1, "{}", describe(&held));
        before.assert_same(&Snapshot::settled());

        // The kernel does not find a route behind its own.
        ip_batch([
            "route delete fd00:9::/64 dev up0 metric 100",
            "route add fd00:9::/64 dev up0 metric 300 protocol static",
        ]);
        let done = converge(&change, held.ledger());
        let behind = || rows(Kind::Route, |_, f| f.get("proto").is_some_and(|p| p == "4"));
        assert_eq!(behind().len(), 1, "{}", describe(&done));
        ip(&["route", "delete", "fd00:9::/64", "dev", "up0", "metric", "300"]);
        let _gone = converge(&nothing(), done.ledger());
        assert_eq!(ours(Kind::Address), [""; 0]);
    }
}

fn pair(mtu: u32) -> Desired {
    let kind = LinkKind::veth(name("v1"));
    Desired::default().with_links([up(kind, "v0").with_mtu(mtu)])
}

/// A route goes with its nexthop object, and the object with its link.
pub(crate) fn a_foreign_route_through_a_nexthop_object_holds_its_link() {
    let first = converge(&pair(1500), &MemoryLedger::default());
    ip_batch([
        "link set v1 up",
        "nexthop add id 5 dev v0",
        "nexthop add id 6 via fe80::9 dev v0",
        "route add 10.50.0.0/16 nhid 5 protocol static",
    ]);
    let mut down = pair(1500);
    let links = down.links.take().unwrap();
    down.links = Some(links.into_iter().map(|link| link.with_up(false)).collect());
    for change in [&nothing(), &down] {
        let before = Snapshot::settled();
        let held = pass(change, first.ledger());
        assert_eq!(held.pending().count(), 1, "{}", describe(&held));
        before.assert_same(&Snapshot::settled());
    }
    ip_batch(["route delete 10.50.0.0/16", "route add fd50::/32 nhid 6 protocol static"]);
    let before = Snapshot::settled();
    let held = pass(&nothing(), first.ledger());
    assert_eq!(held.pending().count(), 1, "{}", describe(&held));
    before.assert_same(&Snapshot::settled());
}

/// A device stacked on another follows it to a smaller MTU, and below 1280 bytes loses IPv6.
pub(crate) fn a_foreign_link_on_ours_holds_a_smaller_mtu() {
    let first = converge(&pair(1500), &MemoryLedger::default());
    ip_batch([
        "link add f0 link v0 type macvlan",
        "link set f0 up",
        "address add fd00:9::1/64 dev f0 nodad",
    ]);
    for mtu in [1400, 1200] {
        let before = Snapshot::settled();
        let held = pass(&pair(mtu), first.ledger());
        assert_eq!(held.pending().count(), 1, "{}", describe(&held));
        before.assert_same(&Snapshot::settled());
    }
    ip(&["link", "set", "f0", "mtu", "1300"]);
    let _fits = converge(&pair(1400), first.ledger());
}

// fault source-4
pub(crate) fn own_writes_bring_no_further_pass() {
    ip_batch([
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "address add fd00:1::1/64 dev v0",
    ]);
    // The kernel's pending announcements about these are not about our writes.
    Snapshot::settled();
    let desired = Desired::default().with_routes([Route::new(
        "2001:db8::/32".parse().unwrap(),
        NextHops::One(NextHop::via("fd00:1::9".parse().unwrap())),
    )]);
    let passes = Arc::new(AtomicU32::new(0));
    let counted = passes.clone();
    let config =
        Config::default().with_interval(Duration::from_secs(3600)).with_debounce(Duration::ZERO);
    // A descriptor, since only this thread is in the namespace, not the loop's.
    let here = Namespace::current().open().unwrap();
    let it =
        Loop::new(Rtnl::new(), here, desired, MemoryLedger::default(), Options::default(), config)
            .on_report(move |_, result| {
                assert!(result.unwrap().converged());
                counted.fetch_add(1, Ordering::SeqCst);
            });
    let running = it.spawn("rtnl").unwrap();
    wait_until("the first pass", || passes.load(Ordering::SeqCst) > 0);
    // The kernel's pending announcements about the links, within a second, may bring another pass.
    let mut before = 0;
    wait_until("rest", || {
        let seen = passes.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1200));
        before = passes.load(Ordering::SeqCst);
        seen == before
    });
    let less = Desired::default().with_routes([]);
    running.handle().set_desired(less).unwrap();
    wait_until("the next", || passes.load(Ordering::SeqCst) > before);
    // Our own write's announcements have arrived by now, and would have caused a pass.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(passes.load(Ordering::SeqCst), before + 1);
    running.stop(Duration::from_secs(10)).unwrap();
}
