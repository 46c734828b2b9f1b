//! ifupdown2: no daemon, but it removes objects missing from its file.

use serde_json::Value;
use trueup_testkit::{Kind, ip};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Host, run};

const INTERFACES: &str = "auto lo\niface lo inet loopback\n\
    auto d0\niface d0 inet static\n    address 10.1.0.1/24\n";

fn start(host: &Host) {
    third_writer();
    host.empty("/var/tmp");
    let interfaces = host.write("etc-network/interfaces", INTERFACES);
    let own = interfaces.trim_end_matches("/interfaces");
    run(&["cp", "-a", "/etc/network/ifupdown2", own]);
    run(&["mount", "--bind", own, "/etc/network"]);
    host.write("network/none", "");
    reload();
    assert!(ip(&["address", "show", "dev", "d0"]).contains("10.1.0.1/24"));
}

fn reload() {
    run(&["ifreload", "-a"]);
}

pub(crate) fn a_reload_takes_our_addresses_and_they_come_back() {
    let host = Host::new();
    start(&host);
    let mut beside = Beside::new(OURS);
    beside.shows_peace_and(|beside| {
        reload();
        beside.loses(&[Kind::Address]);
    });
    beside.end();
}

pub(crate) fn the_third_reload_in_a_minute_is_contention() {
    let is_contended = |event: &Value| event["event"] == "contention" && event["contended"] != 0;
    let host = Host::new();
    start(&host);
    let beside = Beside::new(OURS);
    for _ in 1..=3 {
        beside.wait_for_ours("before a reload");
        assert!(!beside.has_reported(is_contended));
        reload();
    }
    beside.reports("contention", is_contended);
    beside.wait_for_ours("in the end");
    beside.end();
}
