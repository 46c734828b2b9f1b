//! BIRD, configured to scan the kernel's routes once a second.

use trueup_testkit::{ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host, run, succeeds};

const CONTROL: &str = "/run/bird.ctl";

fn config(more: &str) -> String {
    format!(
        "router id 10.1.0.1;\n\
         protocol device {{ scan time 1; }}\n\
         protocol kernel {{ scan time 1; ipv4 {{ export all; import none; }}; }}\n\
         protocol static {{ ipv4; route 10.50.0.0/16 via 10.1.0.9; {more} }}\n"
    )
}

fn start(host: &Host) -> Daemon {
    third_writer();
    ip(&["address", "add", "10.1.0.1/24", "dev", "d0"]);
    let file = host.write("bird.conf", &config(""));
    Daemon::start(&["bird", "-f", "-c", &file, "-s", CONTROL])
}

fn wait_for_route() {
    wait_until("its route is there", || has("10.50.0.0/16", "metric 32"));
}

fn has(destination: &str, words: &str) -> bool {
    ip(&["route", "show", destination]).contains(words)
}

pub(crate) fn routes_of_both_stay() {
    let host = Host::new();
    let _bird = start(&host);
    wait_for_route();
    let mut beside = Beside::new(OURS);
    beside.shows_peace(|| {
        host.write("bird.conf", &config("route 10.51.0.0/16 via 10.1.0.9;"));
        run(&["birdc", "-s", CONTROL, "configure"]);
        wait_until("its new route is there", || has("10.51.0.0/16", "proto bird"));
    });
    beside.is_named("BIRD", "another metric than 32");
    beside.end();
}

pub(crate) fn of_two_routes_with_metric_32_the_first_stays() {
    let ours = |metric| {
        format!("{OURS}[[route]]\ndst = \"10.50.0.0/16\"\nvia = \"10.66.0.9\"\nmetric = {metric}\n")
    };
    let host = Host::new();
    let bird = start(&host);
    wait_for_route();
    let mut beside = Beside::new(&ours(32));
    beside.is_in_conflict("10.50.0.0/16");
    beside.is_quiet("with the same metric");
    assert!(has("10.50.0.0/16", "proto bird"));
    // With another metric, both routes are there.
    beside.declare(&ours(33));
    beside.settles("with another metric");
    assert!(has("10.50.0.0/16", "proto bird") && has("10.50.0.0/16", "metric 33"));
    // Now ours comes first.
    bird.stop();
    wait_until("its routes are gone", || !has("10.50.0.0/16", "proto bird"));
    beside.declare(&ours(32));
    wait_until("ours is there", || has("10.50.0.0/16", "metric 32"));
    let _bird = start_again();
    beside.wait_for_ours("with the same metric, ours first");
    beside.is_quiet("with the same metric, ours first");
    assert!(has("10.50.0.0/16", "proto 116") && !has("10.50.0.0/16", "proto bird"));
    beside.end();
}

fn start_again() -> Daemon {
    let bird = Daemon::start(&["bird", "-f", "-c", "/run/bird.conf", "-s", CONTROL]);
    wait_until("it has looked at the kernel's routes", || {
        let protocols = ["birdc", "-s", CONTROL, "show", "route"];
        succeeds(&protocols) && run(&protocols).contains("10.50.0.0/16")
    });
    bird
}
