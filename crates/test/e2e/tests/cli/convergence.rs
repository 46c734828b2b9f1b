//! From nothing to the file and back, judged by raw dumps and by iproute2.

use serde_json::Value;
use trueup_testkit::{
    Action, Changes, Kind, Snapshot, assert_no_changes, ip, ip_batch, ip_json, uplinks,
};

use crate::agent::{Agent, FAMILIES, counts, route, via};

const MARKER: u8 = 116;
const EXAMPLE: &str = include_str!("../../../../../docs/examples/edge.toml");

fn marked(snapshot: &Snapshot, kind: Kind) -> usize {
    snapshot.of(kind).filter(|row| row.protocol() == Some(MARKER)).count()
}

fn ops(plan: &Value) -> Vec<String> {
    let ops = plan["ops"].as_array().unwrap();
    ops.iter()
        .map(|op| format!("{} {}", op["op"].as_str().unwrap(), op["kind"].as_str().unwrap()))
        .collect()
}

/// Returns the output of `ip`, a trimmed line each, without parts that no file declares.
fn shown(args: &[&str]) -> Vec<String> {
    let words = [" onlink", " linkdown", " pref medium", " proto 116"];
    let line = |line: &str| {
        let plain = words.iter().fold(line.to_owned(), |line, word| line.replace(word, ""));
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = ip(args).replace("\n\t", " ");
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

pub(crate) fn from_nothing_to_the_example_in_one_apply() {
    let agent = Agent::new();
    let before = agent.plan(EXAMPLE);
    assert_eq!(before.code, 2);
    let report = agent.settle(EXAMPLE);
    assert_eq!(
        report["applied"].as_array().unwrap().len(),
        before.json()["ops"].as_array().unwrap().len()
    );

    let raw = Snapshot::settled();
    let kinds = [Kind::Address, Kind::Neighbour, Kind::Route, Kind::Rule];
    assert_eq!(kinds.map(|kind| marked(&raw, kind)), [4, 3, 20, 4]);
    assert_eq!(
        shown(&["-4", "route", "show", "table", "all", "proto", "116"]),
        [
            "10.2.0.0/16 via 10.1.0.9 dev br0",
            "10.3.0.0/16 via 10.1.0.10 dev br0 src 10.1.0.1 metric 50",
            "10.4.0.0/16 nexthop via 10.1.0.9 dev br0 weight 2 nexthop via 10.1.0.10 dev br0 weight 1",
            "10.5.0.0/16 via 10.1.0.9 dev br0 mtu 1400",
            "10.6.0.0/16 dev br0 scope link",
            "10.7.0.0/16 via inet6 fd00:1::9 dev br0",
            "10.9.0.0/16 via 10.1.0.9 dev br0 table 1000000",
            "blackhole 198.51.100.0/24",
            "default via 10.1.0.9 dev br0 table 100",
            "default via 192.0.2.1 dev wan0 metric 100",
            "prohibit 203.0.113.0/24",
            "throw 10.8.0.0/16 table 100",
            "unreachable default metric 4000",
        ]
    );
    assert_eq!(
        shown(&["-6", "route", "show", "table", "all", "proto", "116"]),
        [
            "blackhole 2001:db8:dead::/48 dev lo metric 1024",
            "default via 2001:db8::1 dev wan0 metric 100",
            "default via fd00:1::9 dev br0 table 100 metric 1024",
            "fd00:2::/64 via fd00:1::9 dev br0 metric 1024",
            "fd00:3::/64 via fd00:1::10 dev br0 metric 50",
            "fd00:4::/64 metric 1024 nexthop via fd00:1::9 dev br0 weight 2 nexthop via fd00:1::10 dev br0 weight 1",
            "unreachable fd00:5::/64 dev lo metric 1024",
        ]
    );
    assert_eq!(
        shown(&["-4", "rule", "show"])[..3],
        [
            "0: from all lookup local",
            "1000: from 10.1.0.128/25 lookup 100",
            "1001: from all fwmark 0x7 lookup 1000000",
        ]
    );
    let addresses = ip_json::<Value>(&["address", "show", "dev", "wan0"]);
    assert_eq!(addresses[0]["ifalias"], "uplink to the provider");
    assert_eq!(ip_json::<Value>(&["link", "show", "dev", "guest0"])[0]["master"], "br0");

    // The second pass sends no message that changes anything. It also has no op, even one that the
    // kernel would not announce.
    let again = assert_no_changes(|| agent.apply(EXAMPLE));
    assert_eq!((again.code, counts(&again.json())), (0, [0; 4]));
    raw.assert_same(&Snapshot::settled());
}

pub(crate) fn a_route_moves_to_another_gateway_in_one_replace() {
    uplinks(1);
    for words in FAMILIES {
        let agent = Agent::new();
        let [a, b] = words.gateways;
        agent.settle(&via(words.dst, a));
        let moved = via(words.dst, b);
        let plan = agent.plan(&moved).json();
        assert_eq!(ops(&plan), ["update route"], "{plan}");

        let mut changes = Changes::watch();
        agent.settle(&moved);
        let changes: Vec<_> = changes
            .take()
            .into_iter()
            .filter(|row| row.kind == Kind::Route)
            .map(|row| row.action)
            .collect();
        assert_eq!(changes, [Action::New], "{}", words.family);
        let there = ip_json::<Value>(&[words.flag, "route", "show", words.dst]);
        assert_eq!(there.as_array().unwrap().len(), 1, "{there}");
        assert_eq!(there[0]["gateway"], b);
    }
}

pub(crate) fn a_changed_metric_leaves_one_route() {
    uplinks(1);
    for words in FAMILIES {
        let agent = Agent::new();
        let with = |metric: u32| {
            let gateway = words.gateways[0];
            route(words.dst, &format!("via = \"{gateway}\"\nmetric = {metric}"))
        };
        agent.settle(&with(100));
        agent.settle(&with(50));
        let there = ip_json::<Value>(&[words.flag, "route", "show", words.dst]);
        assert_eq!(there.as_array().unwrap().len(), 1, "{there}");
        assert_eq!(there[0]["metric"], 50);
    }
}

pub(crate) fn canonical_forms_need_no_second_pass() {
    uplinks(1);
    let agent = Agent::new();
    let mut text = String::new();
    for words in FAMILIES {
        let [a, b] = words.gateways;
        let family = words.family;
        text += &via(words.dst, a);
        text += &route("default", &format!("family = \"{family}\"\nvia = \"{a}\""));
        text += &route(words.other, "type = \"blackhole\"");
        text += &route(words.dst, "type = \"unreachable\"\ntable = 1000000");
        text +=
            &format!("[[rule]]\npriority = 900\nfamily = \"{family}\"\nfwmark = 5\ntable = 100\n");
        text += &route(
            words.other,
            &format!(
                "table = 77\nnexthops = [{{ via = \"{b}\", weight = 3 }}, {{ via = \"{a}\" }}]"
            ),
        );
    }
    agent.settle(&text);
    // The order of next hops has no meaning.
    let mut turned = text.clone();
    for words in FAMILIES {
        let [a, b] = words.gateways;
        turned = turned.replace(
            &format!("[{{ via = \"{b}\", weight = 3 }}, {{ via = \"{a}\" }}]"),
            &format!("[{{ via = \"{a}\" }}, {{ via = \"{b}\", weight = 3 }}]"),
        );
    }
    assert_ne!(text, turned);
    agent.assert_nothing_to_do(&turned);
}

pub(crate) fn an_address_and_a_route_on_a_veth_of_the_same_file() {
    let text = r#"
        route = [
            { dst = "10.99.0.0/16", via = "10.77.0.2", src = "10.77.0.1" },
            { dst = "fd00:99::/64", via = "fd00:77::2", src = "fd00:77::1" },
        ]
        address = [
            { dev = "one", address = "10.77.0.1/24" },
            { dev = "one", address = "fd00:77::1/64", nodad = true },
        ]
        link = [
            { name = "one", kind = "veth", peer = "two", up = true },
            { name = "two", kind = "veth", peer = "one", up = true },
        ]
    "#;
    let agent = Agent::new();
    agent.settle(text);
    for words in FAMILIES {
        let there = ip_json::<Value>(&[words.flag, "route", "show", words.dst]);
        assert_eq!(there[0]["dev"], "one", "{there}");
    }
}

/// A plan's commands lead iproute2 to the same state as a pass.
pub(crate) fn ip_batch_takes_the_commands_of_a_plan() {
    let agent = Agent::new();
    agent.write("edge.toml", EXAMPLE);
    let ran = agent.run(&["plan", "edge.toml", "--format", "ip"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    // `ip -batch` has no option for a rule's family.
    let (six, rest): (Vec<&str>, Vec<&str>) = ran.out.lines().partition(|l| l.starts_with("-6 "));
    // Compare by names: our links have other indexes. iproute2 6.1 sets no marker on addresses.
    let state = || {
        Snapshot::settled();
        let lists: [&[&str]; 5] = [
            &["-4", "route", "show", "table", "all", "proto", "116"],
            &["-6", "route", "show", "table", "all", "proto", "116"],
            &["-4", "rule"],
            &["-6", "rule"],
            &["neighbour", "show", "nud", "permanent"],
        ];
        let rows = lists.map(|list| match ip_json(list) {
            Value::Array(rows) => rows,
            other => vec![other],
        });
        let mut rows: Vec<String> = rows
            .concat()
            .iter()
            // The carrier's current state does not count.
            .map(|row| row.to_string().replace("\"linkdown\"", ""))
            .collect();
        rows.sort();
        rows
    };
    agent.settle(EXAMPLE);
    let applied = state();
    assert!(applied.len() > 20, "{applied:#?}");
    trueup_testkit::quiet_netns();
    ip_batch(rest);
    for line in six {
        ip(&line.split(' ').collect::<Vec<_>>());
    }
    assert_eq!(state(), applied);
    // Addresses and links that are as desired are accepted from any writer.
    agent.assert_nothing_to_do(EXAMPLE);
}
