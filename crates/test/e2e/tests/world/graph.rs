//! Collections and exports as vertices of a file's graph.

use rustix::process::Signal;
use trueup_testkit::wait_until;

use crate::host::{Host, etcd, export};

const ONE: &str = "10.20.1.0/24";
const TWO: &str = "10.20.2.0/24";
const ALL: &str = "10.20.0.0/16";

/// Returns an `[[exec]]` that records each run, with the routes of the host's table.
fn exec(host: &Host, name: &str, more: &str) -> String {
    let table = host.table();
    let script = format!(
        "ip -4 route show table {table} >> {0:?}/{name}; echo run >> {0:?}/{name}",
        host.agent.directory()
    );
    format!("[[exec]]\nname = {name:?}\ncommand = [\"/bin/sh\", \"-c\", {script:?}]\n{more}\n")
}

/// Returns the records of a command's runs.
fn noted(host: &Host, name: &str) -> String {
    std::fs::read_to_string(host.agent.directory().join(name)).unwrap_or_default()
}

fn runs(host: &Host, name: &str) -> usize {
    noted(host, name).lines().filter(|it| *it == "run").count()
}

fn is_in_state(host: &Host, vertex: &str, state: &str) -> bool {
    let sample = format!("trueup_vertex_state{{state=\"{state}\",vertex=\"{vertex}\"}}");
    host.metrics().contains_key(&sample)
}

#[track_caller]
fn wait_for_state(host: &Host, vertex: &str, state: &str) {
    wait_until(&format!("{vertex} is {state}"), || is_in_state(host, vertex, state));
}

pub(crate) fn commands_run_after_what_is_collected_and_what_is_exported() {
    let cluster = etcd();
    let (mut a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    let on_export = exec(&a, "exported", "on = [\"export\"]");
    a.declare(&(export("pods", ONE) + &on_export));
    let graph = a.run(&["graph", "f.toml"]);
    assert_eq!(graph.code, 2, "{graph:?}");
    let shows = |text: &str, line: &str| text.lines().any(|it| it == line);
    assert!(shows(&graph.out, "collector   in place"), "{graph:?}");
    assert!(shows(&graph.out, "exporter   would change"), "{graph:?}");
    assert!(shows(&graph.out, "  refreshed by exporter"), "{graph:?}");
    let planned = a.run(&["plan", "f.toml"]);
    assert!(!planned.out.contains("exporter"), "apply exports nothing: {planned:?}");

    let collected = exec(&b, "collected", "on = [\"collect\"]");
    let known = exec(&b, "known", "after = [\"collect\"]\ncheck = [\"/bin/false\"]");
    b.declare(&(b.collect(ALL) + &collected + &known));
    let mut on_b = b.watch();
    wait_for_state(&b, "collector", "in_place");
    wait_until("the command after it has run", || runs(&b, "known") > 0);
    assert_eq!(runs(&b, "collected"), 0, "nothing was collected");

    let mut on_a = a.watch();
    wait_until("the command after the exports has run", || runs(&a, "exported") == 1);
    wait_for_state(&a, "exporter", "in_place");
    let graph = a.run(&["graph", "f.toml"]);
    assert!(shows(&graph.out, "exporter   in place"), "{graph:?}");
    wait_until("the command after the collection has run", || runs(&b, "collected") == 1);
    assert!(noted(&b, "collected").starts_with(ONE), "{}", noted(&b, "collected"));

    a.declare(&(export("pods", TWO) + &on_export));
    wait_until("both have run again", || {
        runs(&a, "exported") == 2 && noted(&b, "collected").contains(TWO)
    });
    a.top = "export = []";
    a.declare(&on_export);
    b.wait_for_route(TWO, false);
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
}

pub(crate) fn without_the_store_the_network_is_made_and_exports_are_tried_again() {
    let mut cluster = etcd();
    let a = Host::new("a", 1, &cluster);
    cluster.kill(0).unwrap();
    let own =
        format!("[[route]]\ndst = \"10.30.0.0/16\"\nvia = \"10.200.0.8\"\ntable = {}\n", a.table());
    let after = exec(&a, "exported", "after = [\"export\"]\ncheck = [\"/bin/false\"]");
    a.declare(&(export("pods", ONE) + &own + &a.collect(ALL) + &after));
    let mut on_a = a.watch();
    a.wait_for_route("10.30.0.0/16", true);
    wait_for_state(&a, "exporter", "failed");
    wait_for_state(&a, "collector", "failed");
    assert_eq!(a.metrics()["trueup_converged"], 0.0);
    assert_eq!(runs(&a, "exported"), 0);
    wait_until("it says so", || a.log().contains("! exporter   (failed: "));

    // A store that does not answer delays neither the end nor the next start.
    on_a.terminate(Signal::TERM);
    let mut on_a = a.watch();
    wait_for_state(&a, "exporter", "failed");
    cluster.restart(0).unwrap();
    wait_for_state(&a, "exporter", "in_place");
    wait_for_state(&a, "collector", "in_place");
    wait_until("the command has run", || runs(&a, "exported") > 0);
    a.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    on_a.terminate(Signal::TERM);
}
