//! Takes over a host set up by another tool, as described in `docs/migration.md`.

use std::fs;
use std::path::Path;

use trueup_testkit::{ip, ip_batch, quiet_netns};

use crate::agent::Agent;

/// Returns the page's file, without its indentation.
fn wanted() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/migration.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let lines = file.lines().map(|line| line.strip_prefix("   ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Sets up a host as an installer leaves it: an address, and a default route through its NIC.
fn host() {
    quiet_netns();
    ip_batch([
        "link add eno1 type veth peer name gw",
        "link set gw up",
        "link set eno1 up",
        "address add 10.0.0.5/24 brd + dev eno1",
        "route add default via 10.0.0.1",
    ]);
}

fn lines(words: &[&str]) -> String {
    ip(words)
}

pub(crate) fn a_host_of_another_tool_is_taken_over_and_moved() {
    host();
    let agent = Agent::new();
    let now = agent.run(&["observe"]);
    let now = format!("adopt = true\n{}", now.out);
    let plan = agent.plan(&now);
    assert_eq!(plan.json()["ops"].to_string(), "[]", "{plan:?}");
    let before = (lines(&["route"]), lines(&["-4", "address"]));
    agent.settle(&now);
    assert_eq!((lines(&["route"]), lines(&["-4", "address"])), before);

    let report = agent.settle(&wanted());
    assert_eq!(report["notices"].to_string(), "[]", "{report}");
    let routes = lines(&["route"]);
    assert!(routes.contains("default via 10.0.0.1 dev br0"), "{routes}");
    assert!(!routes.contains("eno1"), "{routes}");
    let of_port = lines(&["-4", "address", "show", "dev", "eno1"]);
    assert_eq!(of_port, "", "the port has no address");
    let of_bridge = lines(&["-4", "address", "show", "dev", "br0"]);
    assert!(of_bridge.contains("10.0.0.5/24"), "{of_bridge}");
}

pub(crate) fn a_host_that_is_not_taken_over_hears_what_it_keeps() {
    host();
    let agent = Agent::new();
    let without = wanted().replace("addresses = \"only\"\n", "");
    let planned = agent.plan(&without);
    let notice = "link eno1: a port of br0, and has the address 10.0.0.5/24";
    assert!(planned.json()["notices"].to_string().contains(notice), "{planned:?}");
    let applied = agent.apply(&without);
    assert!(applied.json()["notices"].to_string().contains(notice), "{applied:?}");
    let held = agent.apply(&wanted());
    assert_eq!(held.code, 2, "{held:?}");
    assert!(held.out.contains("another writer's"), "{held:?}");
}
