//! FRR: zebra and staticd.

use trueup_testkit::{ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host, run, succeeds};

const ROUTE: &str = "ip route 10.50.0.0/16 10.1.0.9\n";

/// Starts both daemons with a static route, once the link has its address.
fn start(host: &Host) -> [Daemon; 2] {
    third_writer();
    ip(&["address", "add", "10.1.0.1/24", "dev", "d0"]);
    host.empty("/etc/frr");
    host.empty("/var/tmp");
    host.write("frr/none", "");
    configure(ROUTE);
    let daemon = |name: &str| {
        let path = format!("/usr/lib/frr/{name}");
        let daemon = Daemon::start(&[&path, "-u", "root", "-g", "root", "--log", "stdout"]);
        wait_until("it answers", || succeeds(&["vtysh", "-d", name, "-c", "show version"]));
        daemon
    };
    let daemons = ["zebra", "staticd"].map(daemon);
    run(&["vtysh", "-b"]);
    wait_until("its route is there", || has("10.50.0.0/16", "metric 20"));
    daemons
}

fn configure(routes: &str) {
    std::fs::write("/etc/frr/vtysh.conf", "service integrated-vtysh-config\n").unwrap();
    std::fs::write("/etc/frr/frr.conf", routes).unwrap();
}

fn has(destination: &str, words: &str) -> bool {
    ip(&["route", "show", destination]).contains(words)
}

pub(crate) fn routes_of_both_stay() {
    let host = Host::new();
    let _daemons = start(&host);
    let mut beside = Beside::new(OURS);
    beside.shows_peace(|| {
        configure(&format!("{ROUTE}ip route 10.51.0.0/16 10.1.0.9\n"));
        run(&["vtysh", "-b"]);
        wait_until("its new route is there", || has("10.51.0.0/16", "metric 20"));
    });
    beside.is_named("FRR", "4278190080");
    beside.end();
}

pub(crate) fn a_route_of_ours_to_its_prefix_makes_it_withdraw_its_own_unless_the_metric_is_large() {
    let ours = |metric: u32| {
        format!("{OURS}[[route]]\ndst = \"10.50.0.0/16\"\nvia = \"10.66.0.9\"\nmetric = {metric}\n")
    };
    let host = Host::new();
    let _daemons = start(&host);
    let mut beside = Beside::new(&ours(20));
    beside.is_in_conflict("10.50.0.0/16");
    beside.is_quiet("with the same metric");
    assert!(has("10.50.0.0/16", "proto static metric 20"));
    // zebra takes the upper byte as the distance. If the metric is small, our route is better, and
    // zebra withdraws its own.
    for metric in [0, 30] {
        beside.declare(&ours(metric));
        beside.wait_for_ours("with a small metric");
        wait_until("it withdraws its own", || !has("10.50.0.0/16", "proto static"));
        beside.is_quiet("with a small metric");
    }
    // With the largest distance both routes are there.
    beside.declare(&ours(255 << 24));
    beside.settles("with a large metric");
    assert!(has("10.50.0.0/16", "proto static") && has("10.50.0.0/16", "metric 4278190080"));
    beside.declare(OURS);
    beside.settles("without the route: its own is back");
    beside.end();
}

pub(crate) fn its_nexthop_objects_hold_a_link_for_their_time() {
    let host = Host::new();
    let _daemons = start(&host);
    // The default is 180 seconds.
    configure(&format!("zebra nexthop-group keep 5\n{ROUTE}"));
    run(&["vtysh", "-b"]);
    let beside = Beside::new(OURS);
    beside.wait_for_ours("at first");
    let objects = || ip(&["nexthop", "show", "dev", "own0"]);
    wait_until("it has one for our address, and one for our gateway", || {
        let objects = objects();
        objects.lines().filter(|line| line.contains("proto zebra")).count() == 2
    });
    // Deleting the link would also delete foreign objects on it.
    beside.declare("link = []\naddress = []\nroute = []\nrule = []\n");
    beside.has_status("pending", "own0");
    assert!(objects().contains("proto zebra"));
    wait_until("the link goes once they are gone", || !ip(&["link"]).contains("own0"));
    beside.end();
}
