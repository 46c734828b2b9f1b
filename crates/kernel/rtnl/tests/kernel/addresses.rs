//! Addresses, one situation per test.

use trueup_net::{AddressFlags, Desired, Lifetimes};
use trueup_reconcile::Report as _;
use trueup_rtnl::{MemoryLedger, Pending, Wait};
use trueup_testkit::{Kind, assert_no_changes, ip, uplinks};

use crate::support::{address, converge, describe, nothing, ours, pass, routes_to, rows, via};

/// The kernel deletes the secondaries of a subnet with its primary.
pub(crate) fn a_primary_with_a_foreign_secondary_is_held() {
    uplinks(1);
    let one = Desired::default().with_addresses([address("up0", "10.9.0.1/24")]);
    let first = converge(&one, &MemoryLedger::default());
    ip(&["address", "add", "10.9.0.2/24", "dev", "up0"]);
    let of_subnet = || rows(Kind::Address, |_, fields| fields["address"].starts_with("10.9.0."));
    let before = of_subnet();
    assert_eq!(before.len(), 2);

    let report = pass(&nothing(), first.ledger());
    assert!(!report.converged());
    let held = |(_, pending): (_, &Pending)| matches!(pending, Pending::Own(Wait::Held(_)));
    assert!(report.pending().all(held) && report.pending().count() == 1, "{}", describe(&report));
    assert_eq!(of_subnet(), before);

    ip(&["address", "delete", "10.9.0.2/24", "dev", "up0"]);
    let _gone = converge(&nothing(), report.ledger());
    assert_eq!(of_subnet(), [""; 0]);
}

/// In one pass, the first address of a subnet goes, the second becomes the first, and the routes
/// through both stay, although the kernel deletes the second with the first, and the routes with
/// both.
pub(crate) fn another_first_address_of_a_subnet_and_its_routes_take_one_pass() {
    uplinks(1);
    let with = |hosts: &[&str]| {
        Desired::default()
            .with_addresses(hosts.iter().map(|host| address("up0", host)).collect::<Vec<_>>())
            .with_routes([via("10.50.0.0/16", "10.9.0.9"), via("10.51.0.0/16", "10.9.0.8")])
    };
    let mut last = MemoryLedger::default();
    for hosts in [
        &["10.9.0.1/24", "10.9.0.2/24"][..],
        &["10.9.0.2/24"],
        &["10.9.0.3/24", "10.9.0.1/24"],
        &["10.9.0.2/24", "10.9.0.4/24"],
    ] {
        let desired = with(hosts);
        let report = converge(&desired, &last);
        assert_eq!(ours(Kind::Address).len(), hosts.len());
        assert_eq!(ours(Kind::Route).len(), 2);
        let again = assert_no_changes(|| converge(&desired, report.ledger()));
        assert_eq!(again.ops().count(), 0);
        last = again.ledger().clone();
    }
}

/// When an IPv6 address goes, IPv6 removes it as preferred source from every route, another
/// writer's too.
pub(crate) fn an_ipv6_address_that_is_a_foreign_route_s_source_is_held() {
    uplinks(1);
    let one = Desired::default().with_addresses([address("up0", "fd00:9::1/64")]);
    let first = converge(&one, &MemoryLedger::default());
    ip(&["route", "add", "fd50::/32", "dev", "up0", "src", "fd00:9::1", "protocol", "static"]);
    let before = routes_to("fd50::/32");
    let report = pass(&nothing(), first.ledger());
    assert!(!report.converged(), "{}", describe(&report));
    assert_eq!(routes_to("fd50::/32"), before);
}

pub(crate) fn the_same_ipv6_address_with_another_prefix_length_is_made_anew() {
    uplinks(1);
    let with = |text: &str| Desired::default().with_addresses([address("up0", text)]);
    let first = converge(&with("fd00:9::1/64"), &MemoryLedger::default());
    let second = converge(&with("fd00:9::1/80"), first.ledger());
    assert_eq!(second.ops().count(), 2, "deleted and created: {}", describe(&second));
    assert_eq!(ours(Kind::Address).len(), 1);
}

/// IPv4 keeps no preferred lifetime for a permanent address, so none can be desired.
pub(crate) fn an_endless_ipv4_address_has_no_finite_preference() {
    uplinks(1);
    for (text, possible) in [("10.9.0.1/24", false), ("fd00:9::1/64", true)] {
        let mut one = address("up0", text);
        one.lifetimes = Lifetimes { preferred: 3000, ..Lifetimes::default() };
        let desired = Desired::default().with_addresses([one]);
        let here = trueup_rtnl::Namespace::current();
        let planned = trueup_rtnl::Rtnl::new().plan(
            &here,
            &desired,
            &MemoryLedger::default(),
            &trueup_rtnl::Options::default(),
        );
        assert_eq!(planned.is_ok(), possible, "{text}");
        if possible {
            let report = converge(&desired, &MemoryLedger::default());
            assert_eq!(report.ops().count(), 1);
        }
    }
}

/// People usually write labels with a colon.
pub(crate) fn labels_and_flags_round_trip() {
    uplinks(1);
    let mut labelled = address("up0", "10.9.0.1/24");
    labelled.label = Some("up0:1".parse().unwrap());
    let mut routeless = address("up0", "fd00:9::1/64");
    routeless.flags = AddressFlags::NODAD | AddressFlags::NOPREFIXROUTE;
    let desired = Desired::default().with_addresses([labelled, routeless]);
    let report = converge(&desired, &MemoryLedger::default());
    let rows = ours(Kind::Address).concat();
    assert!(rows.contains("label up0:1"), "{rows}");
    assert_eq!(routes_to("fd00:9::/64"), [""; 0]);
    let again = assert_no_changes(|| converge(&desired, report.ledger()));
    assert_eq!(again.ops().count(), 0);
}

/// A link's addresses go with it, and with them the foreign routes that have one as their source.
pub(crate) fn a_foreign_route_s_source_on_our_link_holds_its_delete() {
    uplinks(1);
    let with = |dev: &str| {
        Desired::default()
            .with_links([crate::support::bridge(dev)])
            .with_addresses([address(dev, "10.9.0.1/24"), address(dev, "fd00:9::1/64")])
    };
    for (dst, src) in [("10.50.0.0/16", "10.9.0.1"), ("fd50::/32", "fd00:9::1")] {
        let first = converge(&with("br0"), &MemoryLedger::default());
        ip(&["route", "add", dst, "dev", "up0", "src", src, "protocol", "static"]);
        let before = routes_to(dst);
        for gone in [nothing(), {
            let mut unmanaged = nothing();
            unmanaged.addresses = None;
            unmanaged
        }] {
            let report = pass(&gone, first.ledger());
            assert!(!report.converged(), "{}", describe(&report));
            assert_eq!(routes_to(dst), before, "{}", describe(&report));
        }
        ip(&["route", "delete", dst]);
        ip(&["link", "delete", "br0"]);
    }
}
