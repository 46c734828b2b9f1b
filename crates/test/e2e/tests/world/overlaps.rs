//! Hosts that export the same prefix, or parts of it.

use rustix::process::Signal;
use trueup_testkit::wait_until;

use crate::host::{Host, etcd, export_via};

const ALL: &str = "10.20.0.0/16";
const SAME: &str = "10.20.1.0/24";
const PART: &str = "10.20.1.128/25";
const OF_A: &str = "10.200.0.8";
const OF_B: &str = "10.200.0.9";

/// Waits until each host's route to the prefix uses that gateway.
#[track_caller]
fn wait_for_winner(hosts: [&Host; 3], gateway: &str) {
    let route = format!("{SAME} via {gateway} ");
    for host in hosts {
        wait_until(&route, || host.routes().contains(&route));
    }
}

/// flannel#805, flannel#2554.
pub(crate) fn overlapping_routes_have_a_winner_that_every_host_picks_alike() {
    let cluster = etcd();
    let host = |name, number| Host::new(name, number, &cluster);
    let (a, b) = (host("a", 1), host("b", 2));
    let (early, middle, late) = (host("c", 3), host("d", 4), host("e", 5));
    let collectors = [&early, &middle, &late];
    for host in collectors {
        host.declare(&host.collect(ALL));
    }
    a.declare(&export_via("pods", SAME, OF_A));
    b.declare(&(export_via("pods", SAME, OF_B) + &export_via("part", PART, OF_B)));

    // One host hears of both exports as they come, one finds the first, one finds both.
    let mut on_early = early.watch();
    early.wait_for_metric("trueup_world_known", |it| it == 1.0);
    let mut on_a = a.watch();
    a.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    let mut on_middle = middle.watch();
    middle.wait_for_route(SAME, true);
    let mut on_b = b.watch();
    b.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    let mut on_late = late.watch();
    for host in collectors {
        host.wait_for_metric("trueup_world_collected", |it| it == 2.0);
        host.wait_for_metric("trueup_world_refused", |it| it == 1.0);
        host.wait_for_metric("trueup_world_overlaps", |it| it == 1.0);
        host.wait_for_route(PART, true);
        let why = host.run(&["why", "route", SAME, "--file", "f.toml"]);
        for words in [
            format!("{SAME} exported by host a as `pods`, revision "),
            format!("{SAME} exported by host b as `pods`, revision "),
            format!("refused, as {SAME} was exported first: `pods` of host a"),
            format!("{PART} exported by host b as `part`, revision "),
            format!("collected; takes its part of {SAME} from host a"),
        ] {
            assert!(why.out.contains(&words), "no {words:?} in {why:?}");
        }
        let collected = host.run(&["world", "collect", "f.toml", "--format", "json"]);
        let lines = collected.out.lines();
        let all: Vec<serde_json::Value> =
            lines.map(|it| serde_json::from_str(it).unwrap()).collect();
        let part = all.iter().find(|it| it["dst"] == PART).unwrap();
        assert_eq!(part["part_of"].to_string(), format!("[\"{SAME}\",\"a\"]"));
    }
    wait_for_winner(collectors, OF_A);

    // The remaining export wins. If the first one returns, it counts as the later one.
    a.declare("");
    wait_for_winner(collectors, OF_B);
    a.declare(&export_via("pods", SAME, OF_A));
    for host in collectors {
        host.wait_for_metric("trueup_world_refused", |it| it == 1.0);
    }
    wait_for_winner(collectors, OF_B);
    for running in [&mut on_a, &mut on_b, &mut on_early, &mut on_middle, &mut on_late] {
        running.terminate(Signal::TERM);
    }
}
