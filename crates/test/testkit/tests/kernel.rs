//! Tests of the testkit on the running kernel.

#![allow(clippy::unwrap_used, reason = "test code, though without #[test]")]

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

use serde_json::Value;
use trueup_testkit::{
    Action, Changes, Kind, Snapshot, assert_no_changes, bridge, fresh_netns, index_of, ip,
    ip_batch, ip_fails, ip_json, named_netns, quiet_netns, raw_dump, uplinks, veth_pair,
    without_net_admin,
};

trueup_testkit::kernel_tests![
    is_root_of_a_namespace_of_its_own,
    each_test_starts_empty,
    each_test_starts_empty_as_well,
    lo_is_down_where_asked,
    named_namespaces_need_no_root,
    net_admin_can_be_given_up,
    raw_dump_agrees_with_iproute2,
    idle_snapshots_are_equal,
    status_is_not_configuration,
    snapshots_tell_what_changed,
    announcements_are_seen,
    equal_writes_are_seen_where_announced,
    carrier_is_no_change,
    the_segments_of_a_bridges_ports_are_no_change,
    uplinks_carry_routes,
    reading_changes_nothing,
];

fn is_root_of_a_namespace_of_its_own() {
    let outside = fs::read_link("/proc/self/ns/net").unwrap();
    let inside = fs::read_link("/proc/thread-self/ns/net").unwrap();
    assert_ne!(outside, inside);
    assert_eq!(
        fs::read_dir("/run")
            .unwrap()
            .filter(|e| e.as_ref().unwrap().file_name() != "netns")
            .count(),
        0
    );
    ip(&["link", "add", "t0", "type", "veth"]);
}

fn each_test_starts_empty() {
    let links = ip_json::<Value>(&["link", "show"]);
    assert_eq!(links.as_array().unwrap().len(), 1, "{links}");
    assert!(links[0]["flags"].as_array().unwrap().contains(&"UP".into()));
    veth_pair("same", "name");
}

fn each_test_starts_empty_as_well() {
    each_test_starts_empty();
}

fn lo_is_down_where_asked() {
    fresh_netns();
    let links = ip_json::<Value>(&["link", "show", "dev", "lo"]);
    assert_eq!(links[0]["operstate"], "DOWN");
    quiet_netns();
    assert_eq!(index_of("lo"), 1);
}

fn named_namespaces_need_no_root() {
    let netns = named_netns("testkit-named");
    netns.ip(&["link", "add", "in0", "type", "veth", "peer", "name", "in1"]);
    assert!(fs::metadata("/run/netns/testkit-named").is_ok());
    assert!(netns.ip(&["link", "show"]).contains("in0"));
    assert!(!ip(&["link", "show"]).contains("in0"));
    drop(netns);
    assert!(fs::metadata("/run/netns/testkit-named").is_err());
}

fn net_admin_can_be_given_up() {
    without_net_admin();
    let said = ip_fails(&["link", "add", "t0", "type", "veth"]);
    assert!(said.contains("not permitted"), "{said}");
    let status = Command::new("ip").args(["link", "show"]).output().unwrap();
    assert!(status.status.success(), "reading needs no capability");
}

fn raw_dump_agrees_with_iproute2() {
    uplinks(1);
    ip_batch(
        (0..300).map(|i| {
            format!("route add 172.16.{}.{}/32 via 10.200.0.2 metric {i}", i / 256, i % 256)
        }),
    );
    ip_batch([
        "route add blackhole 172.20.0.0/16 table 1000000 protocol bird",
        "route add 172.21.0.0/16 via inet6 fd00:200::2 dev up0",
    ]);
    let raw: BTreeSet<_> = raw_dump(Kind::Route, 2)
        .iter()
        .map(|row| {
            let dst = row.attrs.get(&1).map_or([0; 4], |dst| dst[..].try_into().unwrap());
            (
                Ipv4Addr::from(dst),
                row.header[1],
                row.table().unwrap(),
                row.attr_u32(6),
                row.device(),
            )
        })
        .collect();
    let message: BTreeSet<_> = ip_json::<Value>(&["-4", "-N", "route", "show", "table", "all"])
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let dst = row["dst"].as_str().unwrap();
            let (address, len) = dst.split_once('/').unwrap_or((dst, "32"));
            let number = |key: &str| row[key].as_u64().map(|n| u32::try_from(n).unwrap());
            let table = row["table"].as_str().map_or(254, |table| table.parse().unwrap());
            let device = row["dev"].as_str().map_or(0, index_of);
            (address.parse().unwrap(), len.parse().unwrap(), table, number("metric"), device)
        })
        .collect();
    // With -N, `ip` prints tables as numbers; neither reports metric 0.
    assert!(raw.len() > 300);
    assert_eq!(raw, message);
}

fn idle_snapshots_are_equal() {
    uplinks(3);
    bridge("br0", &["far0", "far1"]);
    ip_batch([
        "address add 10.9.0.1/24 dev br0 valid_lft 100 preferred_lft 90",
        "route add default via 10.200.0.2",
        "rule add priority 100 fwmark 7 lookup 100",
        "neigh add 10.200.0.2 dev up0 lladdr 02:00:00:00:00:02 nud reachable",
        "nexthop add id 7 via 10.200.1.2 dev up1",
    ]);
    let before = Snapshot::settled();
    for kind in Kind::ALL {
        assert!(before.of(kind).count() > 0, "no {}s", kind.word());
    }
    // Time passes: lifetimes count down, resolution fails, the bridge's ports start to forward.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.send_to(b"anyone?", "10.200.0.3:9").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    before.assert_same(&Snapshot::take());
}

fn status_is_not_configuration() {
    uplinks(1);
    ip_batch([
        "route add 172.16.0.0/12 via 10.200.0.2",
        "route add 172.16.0.0/12 metric 7 nexthop via 10.200.0.2 nexthop via 10.200.0.3",
    ]);
    let before = Snapshot::settled();
    let far = before.index_of("far0").unwrap();
    ip(&["link", "set", "far0", "down"]);
    trueup_testkit::wait_until("carrier loss flags the routes", || {
        ip(&["route", "show"]).matches("linkdown").count() >= 4
    });
    // The link that was set down did change, and so did its IPv6 rows.
    let rest = |snapshot: Snapshot| snapshot.only(|row| row.device() != far);
    rest(before).assert_same(&rest(Snapshot::take()));
}

fn snapshots_tell_what_changed() {
    uplinks(1);
    ip(&["route", "add", "172.16.0.0/12", "via", "10.200.0.2", "proto", "116"]);
    let before = Snapshot::settled();
    assert_eq!(before.routes_with_protocol(116).len(), 1);
    ip(&["route", "replace", "172.16.0.0/12", "via", "10.200.0.3", "proto", "bird"]);
    let after = Snapshot::take();
    let diff = before.diff(&after);
    assert_eq!(diff.lines().count(), 2, "{diff}");
    assert!(diff.contains("- route") && diff.contains("GATEWAY=10.200.0.2"), "{diff}");
    assert!(diff.contains("+ route") && diff.contains("GATEWAY=10.200.0.3"), "{diff}");
    assert!(after.routes_with_protocol(116).is_empty());
    ip(&["route", "replace", "172.16.0.0/12", "via", "10.200.0.2", "proto", "116"]);
    before.assert_same(&Snapshot::take());
    ip(&["link", "set", "up0", "alias", "changed"]);
    assert!(before.diff(&Snapshot::take()).contains("alias=changed"));
}

fn announcements_are_seen() {
    uplinks(1);
    let mut changes = Changes::watch();
    ip(&["route", "add", "172.16.0.0/12", "via", "10.200.0.2"]);
    ip(&["-6", "rule", "add", "priority", "9", "table", "9"]);
    ip(&["link", "set", "up0", "mtu", "1400"]);
    ip(&["route", "delete", "172.16.0.0/12"]);
    let seen: Vec<_> = changes.take().iter().map(|m| (m.kind, m.action)).collect();
    for wanted in [
        (Kind::Route, Action::New),
        (Kind::Rule, Action::New),
        (Kind::Link, Action::New),
        (Kind::Route, Action::Del),
    ] {
        assert!(seen.contains(&wanted), "{wanted:?} not in {seen:?}");
    }
    assert!(changes.take().is_empty());
    assert_eq!(
        assert_no_changes(|| ip_json::<Value>(&["link", "show"])[0]["ifname"].clone()),
        "lo"
    );
}

fn carrier_is_no_change() {
    uplinks(1);
    let operstate = || ip_json::<Value>(&["link", "show", "up0"])[0]["operstate"].clone();
    trueup_testkit::wait_until("up0 has a carrier", || operstate() == "UP");
    let mut changes = Changes::watch();
    let near = index_of("up0");
    ip(&["link", "set", "far0", "down"]);
    trueup_testkit::wait_until("up0 loses its carrier", || operstate() != "UP");
    let devices: BTreeSet<_> = changes.take().iter().map(|m| m.device()).collect();
    assert!(devices.contains(&index_of("far0")));
    assert!(!devices.contains(&near), "{devices:?}");
}

/// A bridge takes them from its ports without an announcement. The announcement of its carrier, up
/// to a second later, would look like a change.
fn the_segments_of_a_bridges_ports_are_no_change() {
    uplinks(1);
    ip_batch(["link add br0 address 02:00:00:00:00:0b type bridge", "link set br0 up"]);
    let bridge = index_of("br0");
    let links =
        |snapshot: Snapshot| snapshot.only(|row| row.kind == Kind::Link && row.device() == bridge);
    let before = links(Snapshot::settled());
    let size = || ip_json::<Value>(&["-d", "link", "show", "br0"])[0]["tso_max_size"].clone();
    let size_before = size();
    ip(&["link", "set", "far0", "master", "br0"]);
    assert_ne!(size(), size_before);
    before.assert_same(&links(Snapshot::settled()));
}

fn equal_writes_are_seen_where_announced() {
    uplinks(1);
    let six = ["-6", "route", "replace", "fd01::/64", "via", "fd00:200::2"];
    let address = ["address", "replace", "fd00:200::9/64", "dev", "up0", "nodad"];
    ip(&six);
    ip(&address);
    let mut changes = Changes::watch();
    ip(&six);
    assert_eq!(changes.take().len(), 1);
    ip(&address);
    assert!(!changes.take().is_empty());
    ip(&six);
    let text = changes.take()[0].to_string();
    assert!(text.contains("DST=fd01::"), "{text}");
}

fn uplinks_carry_routes() {
    uplinks(12);
    ip(&["route", "add", "172.16.0.0/12", "via", "10.200.11.2"]);
    ip(&["-6", "route", "add", "fd01::/64", "via", "fd00:200:b::2"]);
    let index = index_of("up11");
    let snapshot = Snapshot::settled().without_devices(&["up0"]);
    assert!(snapshot.index_of("up0").is_none());
    assert!(snapshot.of(Kind::Route).any(|row| row.device() == index));
    assert!(snapshot.without_protocol(3).of(Kind::Route).all(|row| row.protocol() == Some(2)));
}

/// The README's example.
fn reading_changes_nothing() {
    veth_pair("v0", "v1");
    let before = Snapshot::settled();
    assert_no_changes(|| ip(&["-6", "route", "show", "table", "all"]));
    before.assert_same(&Snapshot::settled());
}
