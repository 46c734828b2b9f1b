//! Foreign objects are not touched, and one failure holds nothing else back.

use serde_json::Value;
use trueup_testkit::{Kind, Snapshot, ip, ip_batch, ip_json, uplinks, veth_pair};

use crate::agent::{Agent, FAMILIES, counts, route, via};

const NOTHING: &str = "link = []\naddress = []\nneighbour = []\nroute = []\nrule = []\n";

/// Sets up a host with other writers' objects: every kind, both families, the usual protocols.
fn busy_host() {
    uplinks(2);
    veth_pair("theirs", "theirs-p");
    let mut lines = vec![
        "address add 10.66.0.1/24 dev theirs".to_owned(),
        "address add 10.66.0.2/24 dev theirs".to_owned(),
        "address add fd00:66::1/64 dev theirs nodad".to_owned(),
        "neigh add 10.66.0.9 lladdr 02:00:00:00:00:66 dev theirs nud permanent".to_owned(),
        "neigh add fd00:66::9 lladdr 02:00:00:00:00:66 dev theirs nud permanent".to_owned(),
        "neigh add proxy 10.66.0.77 dev theirs".to_owned(),
        "rule add pref 500 from 10.66.0.0/24 lookup 66".to_owned(),
        "rule add pref 1000 fwmark 5 lookup 100 protocol static".to_owned(),
        "link set theirs alias somebody".to_owned(),
    ];
    for (at, protocol) in ["static", "kernel", "ra", "bird"].into_iter().enumerate() {
        lines.push(format!("route add 10.{}.0.0/16 via 10.200.0.2 proto {protocol}", 30 + at));
        lines.push(format!("route add fd00:{}::/64 via fd00:200::2 proto {protocol}", 30 + at));
        lines.push(format!(
            "route add 10.40.0.0/16 via 10.200.1.2 metric {} proto {protocol} table 9",
            at + 1
        ));
    }
    ip_batch(lines);
    ip(&["-6", "rule", "add", "pref", "1000", "from", "fd00:66::/64", "lookup", "66"]);
}

pub(crate) fn foreign_state_is_bit_identical_through_all_of_our_life() {
    busy_host();
    let before = Snapshot::settled();
    let agent = Agent::new();
    let file = |gateway: usize, mtu: u32, lladdr: &str, table: u32| {
        let mut text = format!(
            r#"
            [[link]]
            name = "ours"
            kind = "veth"
            peer = "ours-p"
            mtu = {mtu}
            [[address]]
            dev = "ours"
            address = "10.55.0.{gateway}/24"
            [[address]]
            dev = "ours"
            address = "fd00:55::{gateway}/64"
            nodad = true
            [[neighbour]]
            dev = "ours"
            dst = "10.55.0.9"
            lladdr = "{lladdr}"
            [[neighbour]]
            dev = "theirs"
            dst = "fd00:66::8"
            lladdr = "{lladdr}"
            [[rule]]
            priority = 1000
            fwmark = 5
            family = "inet6"
            table = {table}
            [[rule]]
            priority = 500
            from = "10.66.0.0/25"
            table = {table}
            "#
        );
        for words in FAMILIES {
            text += &via(words.dst, words.gateways[gateway - 1]);
            text += &route(words.other, &format!("type = \"blackhole\"\ntable = {table}"));
        }
        // Beside theirs, in the same table.
        text += &route("10.40.0.0/16", "via = \"10.200.0.9\"\ntable = 9\nmetric = 9");
        text
    };
    let theirs = || Snapshot::settled().without_protocol(116).without_devices(&["ours", "ours-p"]);
    for (gateway, mtu, lladdr, table) in
        [(1, 1500, "02:00:00:00:00:01", 100), (2, 1400, "02:00:00:00:00:02", 1_000_000)]
    {
        agent.settle(&file(gateway, mtu, lladdr, table));
        before.assert_same(&theirs());
        assert!(Snapshot::take().routes_with_protocol(116).len() == 5);
    }
    agent.settle(NOTHING);
    before.assert_same(&Snapshot::settled());
}

pub(crate) fn a_foreign_route_on_our_key_is_a_conflict() {
    uplinks(1);
    for words in FAMILIES {
        let agent = Agent::new();
        let [theirs, ours] = words.gateways;
        ip(&[words.flag, "route", "add", words.dst, "via", theirs, "proto", "static"]);
        let before = Snapshot::settled();
        let text = via(words.dst, ours) + &via(words.other, ours);
        let plan = agent.plan(&text);
        assert_eq!((plan.code, counts_of_plan(&plan.json())), (2, [1, 1]));
        let ran = agent.apply(&text);
        let report = ran.json();
        assert_eq!((ran.code, counts(&report)), (2, [1, 0, 0, 1]), "{ran:?}");
        assert_eq!(report["converged"], false);
        let conflict = &report["conflicts"][0];
        assert_eq!(conflict["kind"], "route");
        assert!(conflict["desired"].as_str().unwrap().contains(ours), "{conflict}");
        assert!(conflict["foreign"].as_str().unwrap().contains(theirs), "{conflict}");
        before.assert_same(&Snapshot::settled().without_protocol(116));
        let there = ip_json::<Value>(&[words.flag, "route", "show", words.other]);
        assert_eq!(there[0]["gateway"], ours);

        let text = agent.run(&["apply", "f.toml"]).out;
        let conflict = text.lines().next().unwrap();
        assert!(conflict.contains("(conflict: foreign ") && conflict.starts_with("! "), "{text}");
        assert!(text.ends_with("not converged: 1 conflict\n"), "{text}");
        agent.settle("route = []");
        before.assert_same(&Snapshot::settled());
    }
}

fn counts_of_plan(plan: &Value) -> [usize; 2] {
    ["ops", "conflicts"].map(|list| plan[list].as_array().unwrap().len())
}

pub(crate) fn an_empty_section_removes_ours_and_an_absent_one_touches_nothing() {
    busy_host();
    let before = Snapshot::settled();
    let agent = Agent::new();
    let full = r#"
        link = [{ name = "ours", kind = "veth", peer = "ours-p", up = true }]
        address = [{ dev = "up0", address = "10.200.0.50/32" }, { dev = "up0", address = "fd00:50::1/128", nodad = true }]
        neighbour = [{ dev = "up0", dst = "10.200.0.9", lladdr = "02:00:00:00:00:09" }]
        rule = [{ priority = 900, from = "10.0.0.0/8", table = 9 }, { priority = 900, from = "fd00::/16", table = 9 }]
        route = [{ dst = "10.99.0.0/16", via = "10.200.0.8" }, { dst = "fd00:99::/64", via = "fd00:200::8" }]
    "#;
    agent.settle(full);
    let with_all = Snapshot::settled();
    // One section at a time: objects of the other kinds stay, wanted or not.
    for section in ["route", "rule", "neighbour", "address", "link"] {
        let text = format!("{section} = []");
        agent.settle(&text);
        let kind = match section {
            "route" => Kind::Route,
            "rule" => Kind::Rule,
            "neighbour" => Kind::Neighbour,
            "address" => Kind::Address,
            _ => Kind::Link,
        };
        let ours = |snapshot: &Snapshot| match kind {
            Kind::Link => usize::from(snapshot.index_of("ours").is_some()),
            _ => snapshot.of(kind).filter(|row| row.protocol() == Some(116)).count(),
        };
        assert!(ours(&with_all) > 0, "{section}");
        assert_eq!(ours(&Snapshot::settled()), 0, "{section}");
    }
    before.assert_same(&Snapshot::settled());

    agent.settle(full);
    agent.settle("rule = [{ priority = 901, from = \"10.0.0.0/8\", table = 9 }]");
    let rules_only = Snapshot::settled().only(|row| row.kind != Kind::Rule);
    // The links' hardware addresses are new.
    let stable = |snapshot: Snapshot| {
        snapshot.only(|row| row.kind != Kind::Rule).without_devices(&["ours", "ours-p"])
    };
    stable(with_all).assert_same(&stable(rules_only));
}

pub(crate) fn one_impossible_gateway_among_a_hundred() {
    uplinks(1);
    for words in FAMILIES {
        let agent = Agent::new();
        let prefix = |n: usize| match words.family {
            "inet" => format!("10.90.{n}.0/24"),
            _ => format!("fd00:90:{n:x}::/64"),
        };
        let text: String = (0..100)
            .map(|n| {
                let gateway = if n == 42 { words.nowhere } else { words.gateways[0] };
                via(&prefix(n), gateway)
            })
            .collect();
        let ran = agent.apply(&text);
        let report = ran.json();
        assert_eq!((ran.code, counts(&report)), (2, [99, 1, 0, 0]), "{}", ran.err);
        let failed = &report["failed"][0];
        assert!(failed["command"].as_str().unwrap().contains(&prefix(42)), "{failed}");
        let (errno, message) = match words.family {
            "inet" => (101, "Nexthop has invalid gateway"),
            _ => (113, "No route to host"),
        };
        assert_eq!(failed["errno"], errno, "{failed}");
        assert!(failed["message"].as_str().unwrap().contains(message), "{failed}");
        assert_eq!(failed["class"], "dependency");
        assert_eq!((&failed["op"], &failed["kind"]), (&"create".into(), &"route".into()));
        assert_eq!(Snapshot::take().routes_with_protocol(116).len(), 99);

        // The impossible route is still there; objects no longer wanted are still deleted.
        let ran = agent.apply(&via(&prefix(42), words.nowhere));
        assert_eq!((ran.code, counts(&ran.json())), (2, [99, 1, 0, 0]));
        assert_eq!(Snapshot::take().routes_with_protocol(116).len(), 0);

        let text = agent.run(&["apply", "f.toml"]).out;
        assert!(text.contains("(failed: ") && text.contains(message), "{text}");
        assert!(text.ends_with("not converged: 1 failed\n"), "{text}");
    }
}

pub(crate) fn what_waits_names_what_it_waits_for() {
    let agent = Agent::new();
    // The kernel refuses a macvlan on the loopback device.
    let text = r#"
        link = [{ name = "bad", kind = "macvlan", link = "lo", mode = "bridge", up = true }]
        address = [{ dev = "bad", address = "10.70.0.1/24" }]
        route = [{ dst = "198.51.100.0/24", type = "blackhole" }, { dst = "10.71.0.0/16", via = "10.70.0.2" }]
    "#;
    let ran = agent.apply(text);
    let report = ran.json();
    assert_eq!(ran.code, 2);
    let [applied, failed, pending, conflicts] = counts(&report);
    assert_eq!((applied, failed, conflicts), (1, 1, 0), "{report}");
    assert!(pending >= 2, "{report}");
    let address =
        report["pending"].as_array().unwrap().iter().find(|op| op["kind"] == "address").unwrap();
    let reason = address["reason"].as_str().unwrap();
    assert!(reason.starts_with("waits for: link add name bad"), "{address}");
    let text = agent.run(&["apply", "f.toml"]).out;
    assert!(text.contains("(pending: waits for: link add name bad"), "{text}");
}
