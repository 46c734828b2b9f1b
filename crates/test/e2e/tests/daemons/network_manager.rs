//! NetworkManager, which needs a bus.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use trueup_testkit::{Kind, ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host, bus, run, succeeds};

const CONNECTION: &str = "[connection]\nid=one\nuuid=2b6bb0a4-5f3c-4f5c-9d0e-6f3f3c2f3e11\n\
    type=ethernet\ninterface-name=d0\n[ipv4]\nmethod=manual\naddress1=10.1.0.1/24\n\
    [ipv6]\nmethod=ignore\n";

fn start(host: &Host, unmanaged: &str) -> [Daemon; 2] {
    let bus = bus(host);
    host.empty("/var/lib/NetworkManager");
    let file = host.write("nm/connections/one.nmconnection", CONNECTION);
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    let config = host.write(
        "nm/nm.conf",
        &format!(
            "[main]\nplugins=keyfile\nauth-polkit=false\nno-auto-default=*\ndns=none\n\
             rc-manager=unmanaged\n[keyfile]\npath=/run/nm/connections\n{unmanaged}\n"
        ),
    );
    let folders = ["--config-dir=/run/nm/none", "--system-config-dir=/run/nm/none"];
    let config = format!("--config={config}");
    let daemon = [&["NetworkManager", "--no-daemon", &config], &folders[..]].concat();
    let manager = Daemon::start(&daemon);
    wait_until("it answers", || succeeds(&["nmcli", "general"]));
    [bus, manager]
}

fn has_address() -> bool {
    ip(&["address", "show", "dev", "d0"]).contains("10.1.0.1/24")
}

/// Waits until NetworkManager reports this state of the device.
fn wait_for_state(state: &str) {
    let line = format!("d0:ethernet:{state}:");
    wait_until(&line, || run(&["nmcli", "--terse", "device"]).contains(&line));
}

pub(crate) fn a_reapplied_device_loses_our_addresses_and_they_come_back() {
    let host = Host::new();
    third_writer();
    let _daemons = start(&host, "");
    wait_for_state("connected");
    // It also flushes the kernel's own IPv6 addresses.
    let mut beside = Beside::new(OURS).without(|row| row.family() == 10);
    beside.shows_peace_and(|beside| {
        run(&["nmcli", "device", "reapply", "d0"]);
        beside.loses(&[Kind::Address]);
        beside.settles("after it was reapplied");
        run(&["nmcli", "connection", "up", "one"]);
        beside.loses(&[Kind::Address]);
    });
    beside.is_named("NetworkManager", "unmanaged-devices");
    beside.end();
}

pub(crate) fn a_device_that_has_our_addresses_first_is_activated_by_hand() {
    let host = Host::new();
    third_writer();
    let mut beside = Beside::new(OURS);
    beside.settles("before it starts");
    let _daemons = start(&host, "");
    wait_for_state("connected (externally)");
    beside.settles("before it is activated");
    assert!(!has_address());
    run(&["nmcli", "connection", "up", "one"]);
    assert!(has_address());
    beside.settles("after it was activated");
    assert!(has_address());
    beside.end();
}

pub(crate) fn an_unmanaged_device_keeps_ours() {
    let host = Host::new();
    third_writer();
    let _daemons = start(&host, "unmanaged-devices=interface-name:d0");
    wait_for_state("unmanaged");
    let mut beside = Beside::new(OURS);
    beside.settles("at first");
    beside.loses_nothing("after a reload", || {
        run(&["nmcli", "general", "reload"]);
        run(&["nmcli", "connection", "reload"]);
    });
    beside.end();
}
