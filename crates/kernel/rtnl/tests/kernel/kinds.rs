//! Kinds of links that not every kernel has: made, kept, changed and removed, one kind per test.
//! Each test runs only if the kernel has the kind.

use std::process::Command;

use serde_json::Value;
use trueup_net::{
    BondAttrs, BondMode, Desired, Family, IfName, Link, LinkKind, Rule, RuleAction, VlanAttrs,
    VlanProtocol,
};
use trueup_reconcile::Report as _;
use trueup_rtnl::MemoryLedger;
use trueup_testkit::{
    Kind, Snapshot, assert_no_changes, index_of, ip, ip_batch, ip_json, raw_dump, uplinks,
};

use crate::support::{address, bridge, converge, describe, name, nothing, pass, rows, up, via};

fn links(links: Vec<Link<IfName>>) -> Desired {
    Desired::default().with_links(links)
}

fn port(mut link: Link<IfName>, master: &str) -> Link<IfName> {
    link.master = Some(Some(name(master)));
    link
}

fn vlan(dev: &str, lower: &str, id: u16) -> Link<IfName> {
    let protocol = VlanProtocol::Dot1Q;
    let link = name(lower);
    up(LinkKind::Vlan(VlanAttrs::new(link, id).with_protocol(protocol)), dev)
}

fn bond(mode: BondMode, miimon: u32) -> Link<IfName> {
    up(LinkKind::Bond(BondAttrs::default().with_mode(mode).with_miimon(miimon)), "bond0")
}

fn vrf(table: u32) -> Link<IfName> {
    up(LinkKind::Vrf { table }, "red")
}

/// Prints the kernel's abilities, and the markers that it returns, one per line. The tables of
/// `docs/kernels.md` are made from them.
// fact 60
pub(crate) fn what_the_kernel_can_is_reported() {
    let can = |line: &str| {
        let mut ip = Command::new("ip");
        ip.args(line.split(' ')).output().unwrap().status.success()
    };
    let tell = |question: &str, answer: &str| println!("support: {question} = {answer}");
    let yes = |can: bool| if can { "yes" } else { "no" };
    uplinks(1);
    for kind in
        ["bridge", "veth", "vxlan", "vlan", "macvlan", "ifb", "dummy", "bond", "vrf", "wireguard"]
    {
        let more = match kind {
            "vxlan" => " id 42 dstport 4789",
            "vlan" => " id 42",
            "vrf" => " table 42",
            _ => "",
        };
        let made = can(&format!("link add link up0 name x type {kind}{more}"));
        tell(&format!("links of kind {kind}"), yes(made));
        assert!(!made || can("link delete x"));
    }
    let filters = can("link add br0 type bridge vlan_filtering 1");
    tell("bridges that filter by VLAN", yes(filters));
    let by_source = can("-6 route add fd50::/64 from fd51::/64 dev up0");
    tell("IPv6 routes by source prefix", yes(by_source));
    tell("rules by `l3mdev`", yes(can("rule add l3mdev priority 900")));

    let marker = |kind, text: &str| {
        let rows = raw_dump(kind, 0);
        let mut rows = rows.iter().filter(|row| row.to_string().contains(text));
        rows.any(|row| row.protocol() == Some(116))
    };
    let stored = |had: bool| if had { "stored" } else { "dropped" };
    let kept = |had: bool| if had { "kept" } else { "cleared" };
    ip_batch([
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev up0 proto 116",
        "rule add priority 1000 lookup 100 proto 116",
        "route add 10.50.0.0/16 dev up0 proto 116",
        "nexthop add id 9 dev up0 proto 116",
    ]);
    // iproute2 6.1 has no word for it on an address.
    let (four, six) = ("10.9.0.1", "fd00:9::1");
    let addresses = [format!("{four}/24"), format!("{six}/64")];
    let marked = Desired::default()
        .with_addresses(addresses.iter().map(|text| address("up0", text)).collect::<Vec<_>>());
    converge(&marked, &MemoryLedger::default());
    for (of, kind, text) in [
        ("IPv4 addresses", Kind::Address, four),
        ("IPv6 addresses", Kind::Address, six),
        ("neighbours", Kind::Neighbour, "10.9.0.9"),
        ("rules", Kind::Rule, "priority=1000"),
        ("routes", Kind::Route, "10.50.0.0"),
        ("nexthop objects", Kind::Nexthop, ""),
    ] {
        tell(&format!("marker on {of}"), stored(marker(kind, text)));
    }
    ip_batch(["address replace 10.9.0.1/24 dev up0", "address replace fd00:9::1/64 dev up0 nodad"]);
    for (of, text) in [("IPv4", four), ("IPv6", six)] {
        let question = format!("marker of an {of} address after a replace without one");
        tell(&question, kept(marker(Kind::Address, text)));
    }
    // Every kernel that trueup runs on stores these.
    assert!(marker(Kind::Route, "10.50.0.0") && marker(Kind::Rule, "priority=1000"));
}

/// Goes through states one by one. Each must come about in one pass and then be stable. At the end
/// nothing is desired, and all must be as before. `see` examines the kernel's objects in each
/// state.
fn go_through(states: &[Desired], see: impl Fn(usize)) {
    let before = Snapshot::settled();
    let mut last = MemoryLedger::default();
    for (at, desired) in states.iter().enumerate() {
        last = converge(desired, &last).ledger().clone();
        see(at);
        let again = assert_no_changes(|| converge(desired, &last));
        assert_eq!(again.ops().count(), 0, "{}", describe(&again));
    }
    let gone = converge(&nothing(), &last);
    assert_eq!(*gone.ledger(), MemoryLedger::default());
    before.assert_same(&Snapshot::settled());
}

fn shown(dev: &str) -> Value {
    ip_json::<Value>(&["link", "show", "dev", dev])[0].clone()
}

/// Returns iproute2's data on a link's kind.
fn data(dev: &str) -> Value {
    let link = shown(dev);
    assert_eq!(link["flags"].to_string().matches("\"UP\"").count(), 1, "{link}");
    link["linkinfo"]["info_data"].clone()
}

pub(crate) fn a_dummy_comes_changes_and_goes() {
    let with = |change: fn(&mut Link<IfName>)| {
        let mut link = up(LinkKind::Dummy, "dum0");
        change(&mut link);
        links(vec![link])
            .with_addresses([address("dum0", "10.9.0.1/24"), address("dum0", "fd00:9::1/64")])
            .with_routes([via("10.50.0.0/16", "10.9.0.9")])
    };
    let states = [
        with(|_| {}),
        with(|link| link.mtu = Some(1400)),
        with(|link| link.address = Some("02:00:00:00:00:77".parse().unwrap())),
    ];
    go_through(&states, |at| {
        let (link, expected) = (shown("dum0"), [1500, 1400, 1400][at]);
        assert_eq!(link["linkinfo"]["info_kind"], "dummy");
        assert_eq!(link["mtu"], expected);
    });
}

pub(crate) fn a_vlan_comes_changes_and_goes() {
    let on = |id| {
        links(vec![vlan("br0.v", "br0", id), bridge("br0")])
            .with_addresses([address("br0.v", "10.9.0.1/24")])
    };
    // Another id is another device, which takes the address over.
    go_through(&[on(0), on(7), on(4094)], |at| {
        assert_eq!(data("br0.v")["id"], [0, 7, 4094][at]);
        assert_eq!(shown("br0.v")["link"], "br0");
        assert!(ip(&["address", "show", "dev", "br0.v"]).contains("10.9.0.1/24"));
    });
}

pub(crate) fn a_vlan_s_tag_can_be_another_and_its_id_can_be_swapped() {
    let tagged = |protocol| {
        let link = name("br0");
        let kind = LinkKind::Vlan(VlanAttrs::new(link, 7).with_protocol(protocol));
        links(vec![bridge("br0"), up(kind, "v7")])
    };
    let pair = |one, other| {
        links(vec![bridge("br0"), vlan("one", "br0", one), vlan("other", "br0", other)])
    };
    let states =
        [tagged(VlanProtocol::Dot1Q), tagged(VlanProtocol::Dot1Ad), pair(7, 8), pair(8, 7)];
    go_through(&states, |at| match at {
        0 => assert_eq!(data("v7")["protocol"], "802.1Q"),
        1 => assert_eq!(data("v7")["protocol"], "802.1ad"),
        2 => assert_eq!((&data("one")["id"], &data("other")["id"]), (&7.into(), &8.into())),
        _ => assert_eq!((&data("one")["id"], &data("other")["id"]), (&8.into(), &7.into())),
    });
}

/// The kernel refuses a port that is up, and brings up the ports that it accepts.
pub(crate) fn a_bond_takes_new_ports_and_lets_them_go() {
    let ports = |up: fn(LinkKind<IfName>, &str) -> Link<IfName>| {
        [up(LinkKind::Dummy, "p0"), up(LinkKind::Dummy, "p1")]
    };
    let [p0, p1] = ports(up);
    let whole = |mode, miimon| {
        links(vec![port(p0.clone(), "bond0"), port(p1.clone(), "bond0"), bond(mode, miimon)])
    };
    let alone = p1.clone().with_no_master();
    let states = [
        whole(BondMode::ActiveBackup, 100),
        whole(BondMode::ActiveBackup, 200),
        links(vec![port(p0.clone(), "bond0"), alone, bond(BondMode::ActiveBackup, 200)]),
    ];
    go_through(&states, |at| {
        let data = data("bond0");
        assert_eq!(data["mode"], "active-backup", "{data}");
        assert_eq!(data["miimon"], [100, 200, 200][at], "{data}");
        let master = |dev| shown(dev)["master"].as_str().map(str::to_owned);
        assert_eq!(master("p0").as_deref(), Some("bond0"));
        assert_eq!(master("p1").as_deref(), [Some("bond0"), Some("bond0"), None][at]);
    });
}

/// Another mode is refused while there are ports (`bond_option_mode_set`): the bond is recreated.
pub(crate) fn a_bond_changes_its_mode() {
    let with = |mode| {
        let p0 = port(up(LinkKind::Dummy, "p0"), "bond0");
        links(vec![bond(mode, 100), p0]).with_addresses([address("bond0", "10.9.0.1/24")])
    };
    let states =
        [with(BondMode::BalanceRr), with(BondMode::ActiveBackup), with(BondMode::BalanceXor)];
    go_through(&states, |at| {
        let expected = ["balance-rr", "active-backup", "balance-xor"][at];
        assert_eq!(data("bond0")["mode"], expected);
        assert_eq!(shown("p0")["master"], "bond0");
    });
}

/// It is set down first, and comes up as a port.
// fact 57
pub(crate) fn a_link_that_is_up_is_no_bond_s_port() {
    let p0 = up(LinkKind::Dummy, "p0");
    let first = converge(&links(vec![p0.clone()]), &MemoryLedger::default());
    let bond = bond(BondMode::ActiveBackup, 100);
    let desired = links(vec![bond, port(p0, "bond0")]);
    let last = converge(&desired, first.ledger());
    let said = describe(&last);
    assert!(said.contains("link set dev p0 down"), "{said}");
    assert_eq!(shown("p0")["master"], "bond0");
    let again = assert_no_changes(|| converge(&desired, last.ledger()));
    assert_eq!(again.ops().count(), 0, "{}", describe(&again));
}

pub(crate) fn a_writer_on_a_link_is_not_lost_to_a_bond() {
    let p0 = up(LinkKind::Dummy, "p0");
    let first = converge(&links(vec![p0.clone()]), &MemoryLedger::default());
    for (other_writer, end) in [
        ("route add 10.50.0.0/16 dev p0 protocol static", "route delete 10.50.0.0/16"),
        ("address add fd00:9::1/64 dev p0 nodad", "address delete fd00:9::1/64 dev p0"),
    ] {
        ip_batch([other_writer]);
        let theirs = || {
            let index = index_of("p0");
            let of = |kind| rows(kind, move |row, _| row.device() == index);
            [of(Kind::Route), of(Kind::Address)]
        };
        let before = theirs();
        let desired = links(vec![bond(BondMode::ActiveBackup, 100), port(p0.clone(), "bond0")]);
        let report = pass(&desired, first.ledger());
        assert!(!report.converged(), "{other_writer}: {}", describe(&report));
        assert_eq!(theirs(), before, "{other_writer}: {}", describe(&report));
        ip_batch([end]);
        ip(&["link", "delete", "bond0"]);
    }
}

// fact 58
pub(crate) fn a_vrf_takes_ports_rules_and_routes_and_goes() {
    let with = |table| {
        let mut inside = via("10.50.0.0/16", "10.9.0.9");
        inside.table = table;
        let rule = Rule::new(Family::Inet, 900, RuleAction::Lookup(0)).with_l3mdev(true);
        links(vec![port(bridge("br0"), "red"), vrf(table)])
            .with_addresses([address("br0", "10.9.0.1/24"), address("br0", "fd00:9::1/64")])
            .with_routes([inside])
            .with_rules([rule])
    };
    // The first VRF of a namespace leaves the kernel's own rules for all of them behind.
    ip_batch(["link add first type vrf table 9", "link delete first"]);
    go_through(&[with(10), with(20)], |at| {
        let table = [10, 20][at];
        assert_eq!(data("red")["table"], table);
        assert_eq!(shown("br0")["master"], "red");
        let table = table.to_string();
        assert!(ip(&["route", "show", "table", &table]).contains("10.50.0.0/16"));
        assert!(ip(&["-6", "route", "show", "table", &table]).contains("fd00:9::/64"));
    });
}

/// Another writer makes it. trueup sets it up as declared, and neither makes nor deletes it.
pub(crate) fn a_wireguard_link_that_exists_is_set_up_and_stays() {
    let must_exist = |mtu| Link::must_exist(name("wg0")).with_up(true).with_mtu(mtu);
    let with = |mtu| {
        links(vec![must_exist(mtu)])
            .with_addresses([address("wg0", "10.9.0.1/24")])
            .with_routes([via("10.50.0.0/16", "10.9.0.9")])
    };
    let missing = pass(&with(1400), &MemoryLedger::default());
    assert!(!missing.converged());
    assert_eq!(missing.applied().count(), 0, "{}", describe(&missing));
    ip(&["link", "add", "wg0", "type", "wireguard"]);
    let mut last = MemoryLedger::default();
    for mtu in [1400, 1380] {
        last = converge(&with(mtu), &last).ledger().clone();
        assert_eq!(shown("wg0")["mtu"], mtu);
        let again = assert_no_changes(|| converge(&with(mtu), &last));
        assert_eq!(again.ops().count(), 0, "{}", describe(&again));
    }
    converge(&nothing(), &last);
    assert_eq!(shown("wg0")["linkinfo"]["info_kind"], "wireguard");
    assert!(!ip(&["address", "show", "dev", "wg0"]).contains("10.9.0.1"));
}
