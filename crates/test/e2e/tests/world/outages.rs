//! Outages of the store.

use rustix::process::{Pid, Signal, kill_process};
use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_testkit::{assert_no_changes, ip, uplinks, wait_until};

use crate::host::{Host, Pair, etcd, export};

const ONE: &str = "10.20.1.0/24";
const ALL: &str = "10.20.0.0/16";

/// Waits until a few passes have run since the call.
fn passes(host: &Host) {
    let name = "trueup_passes_total{extent=\"whole\"}";
    let before = host.metrics().get(name).copied().unwrap_or_default();
    host.wait_for_metric(name, |it| it >= before + 2.0);
}

pub(crate) fn while_etcd_is_stopped_routes_stay_and_it_is_said_since_when() {
    let mut pair = Pair::start(ONE, "", "");
    let Pair { cluster, a, b, .. } = &mut pair;
    cluster.kill(0).unwrap();
    let cut_off = "trueup_world_cut_off_seconds";
    b.wait_for_metric(cut_off, |it| it > 0.0);
    a.wait_for_metric(cut_off, |it| it > 0.0);
    passes(b);
    assert!(b.has_route(ONE));
    assert_eq!(b.metrics()["trueup_world_known"], 1.0);
    let words = "what was collected stays";
    wait_until("it says since when", || b.log().contains(words));

    cluster.restart(0).unwrap();
    b.wait_for_metric(cut_off, |it| it == 0.0);
    a.wait_for_metric(cut_off, |it| it == 0.0);
    a.declare(&export("pods", "10.20.9.0/24"));
    b.wait_for_route("10.20.9.0/24", true);
    b.wait_for_route(ONE, false);
    pair.end();
}

pub(crate) fn a_restart_while_etcd_is_stopped_deletes_nothing() {
    // Undeclared objects are deleted at once.
    let mut pair = Pair::start(ONE, "", "grace = 0");
    pair.on_b.terminate(Signal::TERM);
    pair.cluster.kill(0).unwrap();
    pair.on_b = pair.b.watch();
    let Pair { cluster, a, b, .. } = &mut pair;
    b.wait_for_metric("trueup_world_known", |it| it == 0.0);
    b.wait_for_metric("trueup_world_cut_off_seconds", |it| it > 0.0);
    passes(b);
    assert!(b.has_route(ONE));
    let metrics = b.metrics();
    assert_eq!(metrics["trueup_world_retained"], 1.0, "{metrics:?}");
    assert_eq!(metrics["trueup_converged"], 0.0, "what is not known is not converged");
    let said = "it is not known yet what to collect, and 1 route stays from before";
    wait_until("it says so", || b.log().contains(said));

    cluster.restart(0).unwrap();
    b.wait_for_metric("trueup_world_known", |it| it == 1.0);
    b.wait_for_metric("trueup_converged", |it| it == 1.0);
    b.wait_for_metric("trueup_world_collected", |it| it == 1.0);
    assert!(b.has_route(ONE));
    // Once the store's content is known, routes no longer exported are deleted.
    a.top = "export = []";
    a.declare("");
    b.wait_for_route(ONE, false);
    pair.end();
}

pub(crate) fn by_policy_routes_are_withdrawn_in_a_partition() {
    let mut pair = Pair::start(ONE, "partition = \"drop\"", "");
    pair.cluster.kill(0).unwrap();
    pair.b.wait_for_route(ONE, false);
    pair.cluster.restart(0).unwrap();
    pair.b.wait_for_route(ONE, true);
    pair.end();
}

pub(crate) fn one_shot_commands_without_the_store_change_nothing() {
    let mut cluster = etcd();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    a.declare(&export("pods", ONE));
    b.declare(&b.collect(ALL));
    let mut on_a = a.watch();
    a.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    assert_eq!(b.run(&["apply", "f.toml"]).code, 0);
    assert!(b.has_route(ONE));
    on_a.terminate(Signal::TERM);
    cluster.kill(0).unwrap();
    assert_no_changes(|| {
        for command in ["plan", "apply"] {
            let ran = b.run(&[command, "f.toml"]);
            ran.assert_refused(&["cannot read what other hosts export, so nothing is done"]);
        }
    });
    assert!(b.has_route(ONE));
}

pub(crate) fn a_lost_lease_exports_again_and_touches_no_route() {
    let cluster = etcd();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    a.declare(&(export("pods", ONE) + &a.collect(ALL)));
    b.declare(&(export("pods", "10.20.2.0/24") + &b.collect(ALL)));
    let mut on_a = a.watch();
    let mut on_b = b.watch();
    b.wait_for_route(ONE, true);
    a.wait_for_route("10.20.2.0/24", true);
    let pid = Pid::from_child(&on_a.0);
    kill_process(pid, Signal::STOP).unwrap();
    b.wait_for_route(ONE, false);
    kill_process(pid, Signal::CONT).unwrap();
    b.wait_for_route(ONE, true);
    a.wait_for_metric("trueup_world_lease_losses_total", |it| it >= 1.0);
    assert!(a.has_route("10.20.2.0/24"));
    assert!(a.log().contains("the lease of the exports had ended"), "{}", a.log());
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
}

/// Two machines from one image have the same machine id, and here also the same namespace.
pub(crate) fn the_second_of_two_machines_with_one_name_exports_nothing() {
    let cluster = etcd();
    let (first, second) = (Host::new("a", 1, &cluster), Host::new("a", 1, &cluster));
    first.declare(&export("pods", ONE));
    second.declare(&export("pods", "10.20.2.0/24"));
    let exported = || first.run(&["world", "ls", "f.toml"]).out;
    let _on_first = first.watch();
    wait_until("it is exported", || exported().contains(ONE));
    let mut on_second = second.watch();
    wait_until("it says why", || second.log().contains("has its session"));
    passes(&first);
    assert!(exported().contains(ONE) && !exported().contains("10.20.2.0/24"));
    assert!(!first.log().contains("nothing is exported"), "{}", first.log());
    on_second.terminate(Signal::TERM);
}

/// This is like a recreated store. Collected routes stay until there is a view of the new one.
pub(crate) fn a_store_that_is_another_one_ends_the_agent() {
    let mut options = ClusterOptions::local(1);
    options.places[0].ports = Some((2379, 2380));
    ip(&["link", "set", "lo", "up"]);
    uplinks(1);
    let cluster = Cluster::start(&options).unwrap();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    a.declare(&export("pods", ONE));
    b.declare(&b.collect(ALL));
    let (mut on_a, mut on_b) = (a.watch(), b.watch());
    b.wait_for_route(ONE, true);
    drop(cluster);
    let _another = Cluster::start(&options).unwrap();
    for (host, agent) in [(&a, &mut on_a), (&b, &mut on_b)] {
        assert_eq!(agent.ended(), 1, "{}", host.log());
        let words = "the store is another one now: etcd at ";
        assert!(host.log().contains(words), "{}", host.log());
    }
    assert!(b.has_route(ONE));
    // Restart them, as a service manager does.
    let (mut on_a, mut on_b) = (a.watch(), b.watch());
    b.wait_for_metric("trueup_converged", |it| it == 1.0);
    b.wait_for_route(ONE, true);
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
}
