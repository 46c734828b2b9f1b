//! Single passes.

use trueup_net::{
    Address, BridgeAttrs, Desired, Family, IfName, Link, LinkKind, MacvlanAttrs, Neighbour,
    NextHop, NextHops, Route, RouteType, Rule, RuleAction,
};
use trueup_reconcile::Report as _;
use trueup_rtnl::MemoryLedger;
use trueup_testkit::{Snapshot, assert_no_changes};

use crate::support::{Passed, pass};

fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn everything() -> Desired {
    let up = |link: Link<IfName>| link.with_up(true);
    let bridge = up(Link::new(name("br0"), LinkKind::Bridge(BridgeAttrs::default())));
    let mut port = up(Link::new(name("v0"), LinkKind::veth(name("v1"))));
    port.master = Some(Some(name("br0")));
    port.alias = Some(b"a port".to_vec().into());
    let other = up(Link::new(name("v1"), LinkKind::veth(name("v0"))));
    let mut v6 = Address::new(name("br0"), "fd00::1/64".parse().unwrap());
    v6.flags = trueup_net::AddressFlags::NODAD;
    let via = |gateway: &str| NextHops::One(NextHop::via(gateway.parse().unwrap()));
    let route = |dst: &str, gateway: &str| Route::new(dst.parse().unwrap(), via(gateway));
    let blackhole = |dst: &str| Route::of_type(RouteType::Blackhole, dst.parse().unwrap());
    let rule = |family| Rule::new(family, 1000, RuleAction::Lookup(100));
    Desired::default()
        .with_links([other, port, bridge])
        .with_addresses([Address::new(name("br0"), "10.0.0.1/24".parse().unwrap()), v6])
        .with_neighbours([Neighbour::new(
            name("br0"),
            "10.0.0.9".parse().unwrap(),
            "02:00:00:00:00:09".parse().unwrap(),
        )])
        .with_routes([
            route("10.1.0.0/16", "10.0.0.9"),
            route("fd01::/64", "fd00::9"),
            route("0.0.0.0/0", "10.0.0.9"),
            route("::/0", "fd00::9"),
            blackhole("10.2.0.0/16"),
            blackhole("fd02::/64"),
        ])
        .with_rules([rule(Family::Inet), rule(Family::Inet6)])
}

/// Fails with the whole report.
fn assert_converged(report: &Passed) {
    let failed: Vec<_> = report.failed().map(|(done, f)| (done.op, f.to_string())).collect();
    let pending: Vec<_> = report.pending().map(|(done, why)| (done.op, why)).collect();
    assert!(
        report.converged(),
        "failed: {failed:#?}\npending: {pending:#?}\nconflicts: {:#?}\ndoubts: {:?} {:?}",
        report.conflicts(),
        report.doubts(),
        report.trouble()
    );
}

pub(crate) fn from_nothing_to_everything_and_back() {
    let before = Snapshot::take();
    let first = pass(&everything(), &MemoryLedger::default());
    assert_converged(&first);
    assert_eq!(first.failed().count() + first.pending().count(), 0);

    let second = assert_no_changes(|| pass(&everything(), first.ledger()));
    assert_converged(&second);
    assert_eq!(second.ops().count(), 0);

    let nothing = Desired::default()
        .with_links([])
        .with_addresses([])
        .with_neighbours([])
        .with_routes([])
        .with_rules([]);
    let last = pass(&nothing, second.ledger());
    assert_converged(&last);
    assert_eq!(*last.ledger(), MemoryLedger::default());
    before.assert_same(&Snapshot::settled());
}

/// A device that was never created has another number in each plan of a pass.
pub(crate) fn what_waits_for_a_link_that_fails_is_reported_once() {
    // The kernel refuses the loopback device.
    let lower = LinkKind::Macvlan(MacvlanAttrs::new(name("lo")));
    let desired = Desired::default()
        .with_links([
            Link::new(name("br0"), LinkKind::Bridge(BridgeAttrs::default())),
            Link::new(name("mac0"), lower),
        ])
        .with_addresses([Address::new(name("mac0"), "10.0.0.1/24".parse().unwrap())])
        .with_neighbours([Neighbour::new(
            name("mac0"),
            "10.0.0.9".parse().unwrap(),
            "02:00:00:00:00:09".parse().unwrap(),
        )]);
    let report = pass(&desired, &MemoryLedger::default());
    assert!(!report.converged());
    let mut message: Vec<String> =
        report.ops().map(|done| done.op.command(done.devices).to_string()).collect();
    let all = message.len();
    message.sort();
    message.dedup();
    assert_eq!((all, message.len()), (4, 4), "{message:#?}");
    assert_eq!(report.failed().count(), 1);
    assert_eq!(report.pending().count(), 2);
}
