//! Links, and objects on them, one situation per test.

use trueup_net::{
    Address, BridgeAttrs, Desired, Family, FwMark, IfName, Link, LinkKind, Rule, RuleAction,
    VxlanAttrs,
};
use trueup_reconcile::Report as _;
use trueup_rtnl::{MemoryLedger, Pending, Wait};
use trueup_testkit::{Kind, Snapshot, assert_no_changes, index_of, ip, ip_batch, uplinks};

use crate::support::{
    address, bridge, converge, describe, name, nothing, ours, pass, rows, up, via,
};

fn links(links: Vec<Link<IfName>>) -> Desired {
    Desired::default().with_links(links)
}

fn vxlan(id: u32) -> Link<IfName> {
    let attrs = VxlanAttrs::new(id).with_port(4789);
    up(LinkKind::Vxlan(attrs), "vx0")
}

pub(crate) fn another_vxlan_id_recreates_the_link_and_all_on_it_in_one_pass() {
    let with = |id| {
        links(vec![vxlan(id)])
            .with_addresses([address("vx0", "10.9.0.1/24"), address("vx0", "fd00:9::1/64")])
            .with_routes([via("10.50.0.0/16", "10.9.0.9"), via("fd50::/32", "fd00:9::9")])
    };
    let first = converge(&with(1), &MemoryLedger::default());
    let (index, routes) = (index_of("vx0"), ours(Kind::Route));
    let second = converge(&with(2), first.ledger());
    assert_ne!(index_of("vx0"), index);
    assert_eq!(ours(Kind::Route), routes);
    assert_eq!(ours(Kind::Address).len(), 2);
    let again = assert_no_changes(|| converge(&with(2), second.ledger()));
    assert_eq!(again.ops().count(), 0);
    let gone = converge(&nothing(), again.ledger());
    assert_eq!(*gone.ledger(), MemoryLedger::default());
}

pub(crate) fn a_link_made_again_by_a_writer_is_not_ours() {
    let first = converge(&links(vec![bridge("br0")]), &MemoryLedger::default());
    ip(&["link", "delete", "br0"]);
    ip(&["link", "add", "br0", "type", "bridge"]);
    let before = Snapshot::take();
    let report = converge(&nothing(), first.ledger());
    assert_eq!(report.ops().count(), 0, "{}", describe(&report));
    assert_eq!(*report.ledger(), MemoryLedger::default());
    before.assert_same(&Snapshot::take());
}

/// A user may choose an index. The index of a deleted link of ours proves nothing.
pub(crate) fn an_index_used_again_is_not_ours() {
    let first = converge(&links(vec![bridge("br0")]), &MemoryLedger::default());
    let index = index_of("br0").to_string();
    ip(&["link", "delete", "br0"]);
    ip(&["link", "add", "other", "index", &index, "type", "bridge"]);
    let before = Snapshot::take();
    let report = converge(&nothing(), first.ledger());
    assert_eq!(report.ops().count(), 0, "{}", describe(&report));
    before.assert_same(&Snapshot::take());
}

pub(crate) fn a_writer_on_our_bridge_holds_its_delete() {
    let mut last = MemoryLedger::default();
    for (other_writer, end) in [
        ("address add 10.9.0.1/24 dev br0", "address delete 10.9.0.1/24 dev br0"),
        ("address add fd00:9::1/64 dev br0 nodad", "address delete fd00:9::1/64 dev br0"),
        (
            "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent",
            "neighbour delete 10.9.0.9 dev br0",
        ),
        ("neighbour add proxy fd00:9::7 dev br0", "neighbour delete proxy fd00:9::7 dev br0"),
        ("route add 10.50.0.0/16 dev br0 protocol static", "route delete 10.50.0.0/16"),
        ("link add up br0.9 link br0 type macvlan", "link delete br0.9"),
    ] {
        last = converge(&links(vec![bridge("br0")]), &last).ledger().clone();
        ip_batch([other_writer]);
        let before = Snapshot::settled();
        let report = pass(&nothing(), &last);
        assert!(!report.converged(), "{other_writer}");
        let held = |(_, pending): (_, &Pending)| matches!(pending, Pending::Own(Wait::Held(_)));
        assert!(report.pending().all(held), "{other_writer}: {}", describe(&report));
        before.assert_same(&Snapshot::take());
        ip_batch([end]);
        last = converge(&nothing(), report.ledger()).ledger().clone();
    }
}

/// A link set down loses its routes, neighbours and IPv6 addresses. With another hardware address
/// it loses its neighbours, permanent ones too.
pub(crate) fn a_writer_on_our_link_holds_the_changes_that_would_cost_him_his_objects() {
    let veth = |change: fn(&mut Link<IfName>)| {
        let mut link = up(LinkKind::veth(name("v1")), "v0");
        change(&mut link);
        links(vec![link])
    };
    let plain = veth(|_| {});
    let down = veth(|link| link.up = Some(false));
    let moved = veth(|link| link.address = Some("02:00:00:00:00:77".parse().unwrap()));
    let small = veth(|link| link.mtu = Some(1000));
    let neighbour = "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev v0 nud permanent";
    for (other_writer, change) in [
        (neighbour, &down),
        (neighbour, &moved),
        ("address add fd00:9::1/64 dev v0 nodad", &down),
        ("address add fd00:9::1/64 dev v0 nodad", &small),
        ("route add 10.50.0.0/16 dev v0 protocol static", &down),
    ] {
        let first = converge(&plain, &MemoryLedger::default());
        ip_batch([other_writer]);
        let before = Snapshot::settled();
        let report = pass(change, first.ledger());
        assert!(!report.converged(), "{other_writer}");
        assert_eq!(report.pending().count(), 1, "{other_writer}: {}", describe(&report));
        before.assert_same(&Snapshot::settled());
        ip(&["link", "delete", "v0"]);
    }
}

/// Without the ledger, objects with the marker go, and links, which have none, stay.
pub(crate) fn a_lost_ledger_costs_links_alone() {
    let before = Snapshot::take();
    let mut link = bridge("br0");
    link.mtu = Some(1400);
    let all = links(vec![link])
        .with_addresses([address("br0", "10.9.0.1/24"), address("br0", "fd00:9::1/64")])
        .with_routes([via("10.50.0.0/16", "10.9.0.9"), via("fd50::/32", "fd00:9::9")])
        .with_neighbours([trueup_net::Neighbour::new(
            name("br0"),
            "10.9.0.9".parse().unwrap(),
            "02:00:00:00:00:09".parse().unwrap(),
        )])
        .with_rules([Rule::new(Family::Inet, 1000, RuleAction::Lookup(100))]);
    let _first = converge(&all, &MemoryLedger::default());
    let report = converge(&nothing(), &MemoryLedger::default());
    assert_eq!(report.applied().count(), 6, "{}", describe(&report));
    let index = index_of("br0");
    assert_eq!(rows(Kind::Link, |row, _| row.device() == index).len(), 1);
    ip(&["link", "delete", "br0"]);
    before.assert_same(&Snapshot::settled());
}

pub(crate) fn kinds_that_are_not_managed_are_not_touched() {
    uplinks(1);
    let mut all = nothing();
    all.links = Some([bridge("br0")].into());
    all.addresses = Some([address("up0", "10.9.0.1/24")].into());
    all.routes = Some([via("10.50.0.0/16", "10.9.0.9")].into());
    all.rules = Some([Rule::new(Family::Inet6, 1000, RuleAction::Lookup(100))].into());
    let first = converge(&all, &MemoryLedger::default());
    let silent = Desired::default();
    let second = assert_no_changes(|| converge(&silent, first.ledger()));
    assert_eq!(second.ops().count(), 0);
    // Our objects are still remembered.
    let gone = converge(&nothing(), second.ledger());
    assert_eq!(gone.applied().count(), 4, "{}", describe(&gone));
}

pub(crate) fn a_mark_without_a_mask_is_a_whole_mark() {
    let mut rule = Rule::new(Family::Inet, 1000, RuleAction::Lookup(1_000_000));
    rule.fwmark = Some(FwMark { mark: 7, mask: u32::MAX });
    let mut of_ipv6 = rule.clone();
    of_ipv6.family = Family::Inet6;
    let desired = Desired::default().with_rules([rule, of_ipv6]);
    let report = converge(&desired, &MemoryLedger::default());
    let again = assert_no_changes(|| converge(&desired, report.ledger()));
    assert_eq!(again.ops().count(), 0);
    // Another writer's rule that differs only in the protocol is another rule, and both stay.
    ip(&["rule", "add", "fwmark", "7", "priority", "1000", "lookup", "1000000"]);
    let both =
        || rows(Kind::Rule, |_, fields| fields["family"] == "2" && fields["priority"] == "1000");
    assert_eq!(both().len(), 2);
    let _gone = converge(&nothing(), again.ledger());
    assert_eq!(both().len(), 1);
}

/// A pair goes as one, and with either end other writers' objects on the other.
pub(crate) fn a_writer_on_the_other_end_holds_the_pair() {
    let pair =
        links(vec![up(LinkKind::veth(name("v1")), "v0"), up(LinkKind::veth(name("v0")), "v1")]);
    for other_writer in [
        "route add 10.50.0.0/16 dev v1 protocol static",
        "route add fd50::/32 dev v1 protocol static",
        "route add 10.50.0.0/16 dev v0 protocol static",
    ] {
        let first = converge(&pair, &MemoryLedger::default());
        ip_batch([other_writer]);
        let before = Snapshot::settled();
        let report = pass(&nothing(), first.ledger());
        assert_eq!(report.pending().count(), 1, "{other_writer}: {}", describe(&report));
        before.assert_same(&Snapshot::settled());
        ip(&["link", "delete", "v0"]);
    }
}

/// An absent section expresses no opinion, even if a link of ours has objects declared by an
/// earlier file.
pub(crate) fn a_link_that_carries_what_is_no_longer_declared_stays() {
    let bridge = Link::new(name("br0"), LinkKind::Bridge(BridgeAttrs::default()));
    let whole = Desired::default()
        .with_links([bridge])
        .with_addresses([Address::new(name("br0"), "10.9.0.1/24".parse().unwrap())]);
    let first = converge(&whole, &MemoryLedger::default());
    let no_links = Desired::default().with_links([]);
    let before = Snapshot::settled();
    let held = pass(&no_links, first.ledger());
    assert!(!held.converged());
    assert_eq!(held.pending().count(), 1, "{}", describe(&held));
    before.assert_same(&Snapshot::settled());
    let nothing = no_links.with_addresses([]);
    converge(&nothing, held.ledger());
    assert_eq!(Snapshot::settled().index_of("br0"), None);
}

/// A bridge reports that it does not filter, even on a kernel that cannot.
pub(crate) fn a_bridge_can_be_declared_not_to_filter() {
    let attrs = BridgeAttrs::default().with_vlan_filtering(false);
    let desired = Desired::default().with_links([Link::new(name("br0"), LinkKind::Bridge(attrs))]);
    converge(&desired, &MemoryLedger::default());
}
