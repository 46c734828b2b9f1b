//! DHCP clients, and a server at the link's other end.

use trueup_testkit::{Kind, ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host, run};

/// Starts a server that gives the client one address.
fn server(host: &Host, address: &str) -> Daemon {
    host.far.ip(&["address", "replace", "10.1.0.1/24", "dev", "d1"]);
    let range = format!("--dhcp-range={address},{address},1h");
    let lease = "--leasefile-ro";
    let words = ["--conf-file=/dev/null", "--port=0", "--interface=d1", &range, lease];
    let daemon = ["ip", "netns", "exec", "far", "dnsmasq", "--no-daemon", "--no-ping"];
    Daemon::start(&[&daemon[..], &words].concat())
}

/// Returns the desired state with a default route on the client's link.
fn default_with(metric: u32) -> String {
    format!("{OURS}[[route]]\ndst = \"0.0.0.0/0\"\nvia = \"10.77.0.9\"\nmetric = {metric}\n")
}

fn has_default() -> bool {
    ip(&["route", "show", "default"]).contains("proto dhcp")
}

fn has_address(address: &str) -> bool {
    ip(&["address", "show", "dev", "d0"]).contains(address)
}

/// Hides the files that clients write, except below `/run`.
fn hide(host: &Host) {
    host.write("resolv.conf", "");
    // A link into the machine's `/run` has no target here.
    if std::fs::exists("/etc/resolv.conf").unwrap() {
        run(&["mount", "--bind", "/run/resolv.conf", "/etc/resolv.conf"]);
    }
    for directory in ["/var/lib/dhcp", "/var/lib/dhcpcd"] {
        if std::fs::exists(directory).unwrap() {
            host.empty(directory);
        }
    }
    host.write("dhcpcd/none", "");
}

const DHCPCD: [&str; 5] = ["dhcpcd", "-B", "-4", "--noarp", "d0"];

pub(crate) fn dhcpcd_and_our_addresses_share_a_link() {
    let host = Host::new();
    hide(&host);
    third_writer();
    let first = server(&host, "10.1.0.50");
    let _client = Daemon::start(&DHCPCD);
    wait_until("it has an address", || has_address("10.1.0.50/24"));
    let mut beside = Beside::new(OURS).refreshed();
    beside.shows_peace(|| {
        run(&["dhcpcd", "-4", "-n", "d0"]);
    });
    beside.is_named("DHCP client", "nogateway");

    // Another server offers another address.
    first.stop();
    let _second = server(&host, "10.1.0.60");
    let mut client = None;
    beside.loses_nothing("with another address", || {
        run(&["dhcpcd", "-4", "-k", "d0"]);
        client = Some(Daemon::start(&DHCPCD));
        wait_until("it has the other address", || has_address("10.1.0.60/24"));
    });
    beside.end();
}

pub(crate) fn dhcpcd_deletes_our_default_route_on_its_link_unless_it_has_nogateway() {
    let host = Host::new();
    hide(&host);
    let _server = server(&host, "10.1.0.50");
    let mut beside = Beside::new(&default_with(50));
    beside.settles("before the client");
    let client = Daemon::start(&DHCPCD);
    wait_until("it has its default route", has_default);
    beside.loses(&[Kind::Route]);
    beside.settles("beside its default route");
    assert!(has_default());

    // Without a default route of its own, it leaves ours.
    run(&["dhcpcd", "-4", "-k", "d0"]);
    wait_until("its default route is gone", || !has_default());
    drop(client);
    beside.settles("after the client");
    let config = host.write("dhcpcd.conf", "nogateway\n");
    let words = [&DHCPCD[..1], &["-f", &config], &DHCPCD[1..]].concat();
    let mut client = None;
    beside.loses_nothing("with nogateway", || {
        client = Some(Daemon::start(&words));
        wait_until("it has an address", || has_address("10.1.0.50/24"));
    });
    beside.end();
}

pub(crate) fn dhclient_flushes_our_addresses_and_they_come_back() {
    let host = Host::new();
    hide(&host);
    third_writer();
    let _server = server(&host, "10.1.0.50");
    let client = ["dhclient", "-d", "-v", "d0"];
    let mut daemon = Some(Daemon::start(&client));
    wait_until("it has an address", || has_address("10.1.0.50/24"));
    wait_until("it has its default route", || {
        ip(&["route", "show", "default"]).contains("10.1.0.1")
    });
    let mut beside = Beside::new(&default_with(50)).refreshed();
    beside.settles("at first");
    beside.is_named("DHCP client", "nogateway");
    beside.shows_peace_and(|beside| {
        run(&["dhclient", "-r", "d0"]);
        beside.loses(&[Kind::Address]);
        drop(daemon.take());
        daemon = Some(Daemon::start(&client));
    });
    beside.end();
}
