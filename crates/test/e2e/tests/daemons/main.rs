//! `trueup watch` beside each of the other network daemons in one namespace: the table "Beside
//! other daemons" of `docs/agents.md`. Runs only with `TRUEUP_DAEMONS=1`, as `cargo xtask prove
//! daemons` sets it: other machines lack the daemons.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests; clippy knows only those of the usual harness"
)]

mod advertisements;
#[allow(dead_code, reason = "shared with the tests of the program alone")]
#[path = "../cli/agent.rs"]
mod agent;
mod beside;
mod bird;
mod cni;
mod dhcp;
mod frr;
mod host;
mod ifupdown2;
mod keepalived;
#[allow(dead_code, reason = "shared with the tests of the program alone")]
#[path = "../cli/metrics.rs"]
mod metrics;
mod network_manager;
mod networkd;
#[allow(dead_code, reason = "shared with the tests of the program alone")]
#[path = "../cli/watch.rs"]
mod watch;

use std::env;
use std::path::Path;
use std::process::ExitCode;

/// The tests with one daemon.
struct Pairing {
    name: &'static str,
    /// The programs of the tests, each with its Debian package.
    programs: &'static [(&'static str, &'static str)],
    tests: &'static [(&'static str, fn())],
}

/// Lists tests with their names.
macro_rules! tests {
    ($($test:path),+ $(,)?) => { &[$((stringify!($test), $test)),+] };
}

const DNSMASQ: (&str, &str) = ("dnsmasq", "dnsmasq-base");
const DBUS: (&str, &str) = ("dbus-daemon", "dbus-daemon");

const PAIRINGS: [Pairing; 10] = [
    Pairing {
        name: "BIRD",
        programs: &[("bird", "bird2")],
        tests: tests![
            bird::routes_of_both_stay,
            bird::of_two_routes_with_metric_32_the_first_stays,
        ],
    },
    Pairing {
        name: "FRR",
        programs: &[("/usr/lib/frr/zebra", "frr"), ("vtysh", "frr")],
        tests: tests![
            frr::routes_of_both_stay,
            frr::a_route_of_ours_to_its_prefix_makes_it_withdraw_its_own_unless_the_metric_is_large,
            frr::its_nexthop_objects_hold_a_link_for_their_time,
        ],
    },
    Pairing {
        name: "keepalived",
        programs: &[("keepalived", "keepalived")],
        tests: tests![keepalived::its_address_comes_and_goes_beside_ours],
    },
    Pairing {
        name: "dhcpcd",
        programs: &[("dhcpcd", "dhcpcd5"), DNSMASQ],
        tests: tests![
            dhcp::dhcpcd_and_our_addresses_share_a_link,
            dhcp::dhcpcd_deletes_our_default_route_on_its_link_unless_it_has_nogateway,
        ],
    },
    Pairing {
        name: "dhclient",
        programs: &[("dhclient", "isc-dhcp-client"), DNSMASQ],
        tests: tests![dhcp::dhclient_flushes_our_addresses_and_they_come_back],
    },
    Pairing {
        name: "router advertisements",
        programs: &[("radvd", "radvd")],
        tests: tests![advertisements::our_default_route_with_a_metric_stands_beside_theirs],
    },
    Pairing {
        name: "systemd-networkd",
        programs: &[("/lib/systemd/systemd-networkd", "systemd"), DBUS],
        tests: tests![
            networkd::a_changed_file_flushes_ours_and_it_comes_back,
            networkd::by_its_settings_it_keeps_all_of_ours,
        ],
    },
    Pairing {
        name: "NetworkManager",
        programs: &[("NetworkManager", "network-manager"), DBUS],
        tests: tests![
            network_manager::a_reapplied_device_loses_our_addresses_and_they_come_back,
            network_manager::a_device_that_has_our_addresses_first_is_activated_by_hand,
            network_manager::an_unmanaged_device_keeps_ours,
        ],
    },
    Pairing {
        name: "ifupdown2",
        programs: &[("ifreload", "ifupdown2")],
        tests: tests![
            ifupdown2::a_reload_takes_our_addresses_and_they_come_back,
            ifupdown2::the_third_reload_in_a_minute_is_contention,
        ],
    },
    Pairing {
        name: "CNI",
        programs: &[("/usr/lib/cni/bridge", "containernetworking-plugins")],
        tests: tests![
            cni::containers_come_and_go_beside_ours,
            cni::its_address_may_be_declared_too,
        ],
    },
];

fn main() -> ExitCode {
    // Programs read the list.
    let say = |line: String| {
        if !env::args().any(|arg| arg == "--list") {
            println!("{line}");
        }
    };
    if env::var_os("TRUEUP_DAEMONS").is_none_or(|set| set != "1") {
        say("not run: needs other network daemons, and TRUEUP_DAEMONS=1".to_owned());
        return trueup_testkit::main(&[]);
    }
    let mut tests = Vec::new();
    for pairing in PAIRINGS {
        let is_missing = |(program, _): &&(&str, &str)| !is_installed(program);
        match pairing.programs.iter().find(is_missing) {
            Some((program, package)) => say(format!(
                "skipped: {}: {program} is not installed (apt-get install {package})",
                pairing.name
            )),
            None => tests.extend(pairing.tests),
        }
    }
    trueup_testkit::main(&tests)
}

/// Returns true if a program is in PATH, in Debian's directories for root, or at its own path.
fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    // An absolute path replaces the directory.
    folders.map(|folder| folder.join(program)).any(|path| Path::new(&path).is_file())
}
