//! Orders and shapes of requests chosen because they are faster in the kernel. They must have the
//! same result as others.

use std::collections::BTreeSet;

use trueup_net::{
    AddressFlags, Desired, IfName, Link, LinkKind, NextHop, NextHops, Route, Routes, VxlanAttrs,
};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::crash::Points;
use trueup_testkit::{Kind, Snapshot, index_of, ip, ip_batch, quiet_netns};

use crate::support::{address, converge, describe, name, nothing, pass, rows, up};

fn pair() -> Vec<Link<IfName>> {
    let end = |dev: &str, peer: &str, lladdr: &str| {
        up(LinkKind::veth(name(peer)), dev).with_address(lladdr.parse().unwrap())
    };
    vec![end("v0", "v1", "02:00:00:00:00:01"), end("v1", "v0", "02:00:00:00:00:02")]
}

/// Returns all objects of a namespace once it is at rest.
fn everything() -> Vec<String> {
    Snapshot::settled();
    [Kind::Address, Kind::Route, Kind::Link]
        .into_iter()
        .flat_map(|kind| rows(kind, |_, _| true))
        .collect()
}

/// In one pass, links come up after their addresses. In two, the first pass makes the links, so
/// they are up before.
pub(crate) fn addresses_before_and_after_their_link_comes_up_are_alike() {
    let plain = |text: &str| address("v0", text).with_flags(AddressFlags::default());
    let flagged = |text: &str, flags| address("v0", text).with_flags(flags);
    let addresses = vec![
        plain("fd00:1::1/64"),
        plain("fd00:1::2/64"),
        plain("fd00:2::1/128"),
        plain("fe80::77/64"),
        address("v0", "fd00:3::1/64"),
        flagged("fd00:4::1/64", AddressFlags::NOPREFIXROUTE),
        flagged("fd00:5::1/64", AddressFlags::HOMEADDRESS),
        plain("fd00:6::1/64").with_metric(77),
        address("v0", "10.1.0.1/24"),
        address("v0", "10.1.0.2/24"),
        address("v1", "10.2.0.1/24"),
        address("v1", "fd00:7::1/64"),
    ];
    let hop = NextHop::via("fd00:1::9".parse().unwrap());
    let route = Route::new("fd00:9::/64".parse().unwrap(), NextHops::One(hop));
    // Without a carrier, duplicate address detection never ends.
    for (dad, carrier) in [("0", true), ("1", true), ("0", false)] {
        let mut ends = pair();
        if !carrier {
            ends[1].up = Some(false);
        }
        let links = Desired::default().with_links(ends);
        let all = links
            .clone()
            .with_addresses(addresses.clone())
            .with_routes([route.clone()].into_iter().collect::<Routes>());
        let fresh = || {
            quiet_netns();
            std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", dad).unwrap();
        };
        fresh();
        let first = converge(&links, &MemoryLedger::default());
        Snapshot::settled();
        converge(&all, first.ledger());
        let (after, with_carrier) = (alike(carrier), connected());

        fresh();
        let passed = converge(&all, &MemoryLedger::default());
        let commands: Vec<_> =
            passed.ops().map(|done| done.op.command(done.devices).to_string()).collect();
        let place = |what: &str| commands.iter().rposition(|command| command.contains(what));
        assert!(
            place("addr add fd00:") < place("link set dev v0 up").or(place("link set v0 up")),
            "{commands:#?}"
        );
        assert_eq!(alike(carrier), after, "accept_dad {dad}, carrier {carrier}");
        let again = converge(&all, passed.ledger());
        assert_eq!(again.ops().count(), 0, "{}", describe(&again));
        assert_eq!(connected(), with_carrier, "accept_dad {dad}, carrier {carrier}");
    }
}

/// Returns all objects of a namespace at rest, except the multicast routes of links without a
/// carrier. The kernel makes these at the first address added to such a link while it is up, else
/// when the carrier comes.
fn alike(carrier: bool) -> Vec<String> {
    let mut all = everything();
    all.retain(|row| carrier || !row.contains("dst ff00::/8"));
    all
}

/// Returns all objects once the carrier is there.
fn connected() -> Vec<String> {
    ip(&["link", "set", "v1", "up"]);
    everything()
}

/// Links of every kind available without modules, some stacked on others, and pairs.
fn many() -> Desired {
    let mut links = pair();
    for number in 0..6 {
        links.push(up(LinkKind::Bridge(Default::default()), &format!("br{number}")));
        links.push(up(LinkKind::Ifb, &format!("ifb{number}")));
    }
    let vxlan = VxlanAttrs::new(7).with_port(4789);
    links.push(up(LinkKind::Vxlan(vxlan), "vx0"));
    links[2].master = None;
    links[0].master = Some(Some(name("br0")));
    Desired::default().with_links(links)
}

pub(crate) fn many_links_go_in_one_message_and_no_writer_with_them() {
    let made = converge(&many(), &MemoryLedger::default());
    ip_batch([
        "link add foreign group 77 type bridge",
        "link add other type veth peer name end",
        "link set other up",
        "link set end group 4242 up",
    ]);
    let other_writers = ["foreign", "other", "end", "lo"];
    let ours: Vec<String> =
        rows(Kind::Link, |row, _| !other_writers.contains(&row.ifname().unwrap().as_str()));
    assert_eq!(ours.len(), 15);
    let foreign = || {
        Snapshot::settled().only(|row| {
            let known: BTreeSet<u32> = other_writers.map(index_of).into();
            known.contains(&row.device())
        })
    };
    let before = foreign();

    let points = Points::counted();
    let through = points.namespace(Namespace::current());
    let mut ledger = made.ledger().clone();
    let report = Rtnl::new()
        .reconcile(PassInput::new(&through, &nothing(), &mut ledger, &Options::default()))
        .unwrap();
    assert!(report.converged(), "{}", describe(&report));
    // The second end of the pair goes with the first.
    assert_eq!(report.applied().count(), 14, "{}", describe(&report));
    assert_eq!(ledger, MemoryLedger::default());
    let sent = |what: &str| {
        let passed = points.passed();
        passed.iter().filter(|point| *point == what).count()
    };
    assert_eq!(sent("before send: delete link"), 1, "{:?}", points.passed());
    assert_eq!(sent("before send: update link"), 14);
    before.assert_same(&foreign());
    assert_eq!(rows(Kind::Link, |_, _| true).len(), 4);
}

/// A link that another writer has already deleted is no failure, and the others still go.
pub(crate) fn few_links_go_one_by_one_and_what_is_gone_is_no_failure() {
    let links = |count: usize| {
        Desired::default().with_links(
            (0..count).map(|number| up(LinkKind::Ifb, &format!("ifb{number}"))).collect::<Vec<_>>(),
        )
    };
    for count in [1, 3, 4, 9] {
        let made = converge(&links(count), &MemoryLedger::default());
        let points = Points::counted();
        let through = points.namespace(Namespace::current());
        let mut ledger = made.ledger().clone();
        let report = Rtnl::new()
            .reconcile(PassInput::new(&through, &links(0), &mut ledger, &Options::default()))
            .unwrap();
        assert!(report.converged() && report.applied().count() == count);
        let deletes = points.passed();
        let deletes = deletes.iter().filter(|point| *point == "before send: delete link");
        assert_eq!(deletes.count(), if count < 4 { count } else { 1 });
    }
    let made = converge(&links(8), &MemoryLedger::default());
    ip(&["link", "delete", "ifb3"]);
    let report = pass(&links(0), made.ledger());
    assert!(report.converged(), "{}", describe(&report));
}
