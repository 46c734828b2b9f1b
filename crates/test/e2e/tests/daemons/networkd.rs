//! systemd-networkd without systemd: it only needs a bus.

use std::fs;

use trueup_testkit::{Kind, ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host, bus, run};

const NETWORK: &str = "[Match]\nName=d0\n[Network]\nAddress=10.1.0.1/24\n\
    LinkLocalAddressing=no\nIPv6AcceptRA=no\n";

fn start(host: &Host, network: &str, manager: &str) -> [Daemon; 2] {
    third_writer();
    let bus = bus(host);
    host.empty("/etc/systemd");
    host.write("systemd/network/10-d0.network", network);
    // Its directory must exist with the right owner: the machine's belongs to another user.
    host.write("systemd/netif/none", "");
    fs::create_dir("/etc/systemd/network").unwrap();
    fs::write("/etc/systemd/networkd.conf", manager).unwrap();
    let networkd = Daemon::start(&["/lib/systemd/systemd-networkd"]);
    wait_until("it has configured its link", || {
        run(&["networkctl", "--no-pager", "list", "d0"]).contains("configured")
    });
    [bus, networkd]
}

/// Makes networkd reconfigure its link, with another address.
fn reload(host: &Host, network: &str) {
    let more = format!("{network}Address=10.1.1.1/24\n");
    host.write("systemd/network/10-d0.network", &more);
    run(&["networkctl", "reload"]);
    wait_until("it has its new address", has_new_address);
}

fn has_new_address() -> bool {
    ip(&["address", "show", "dev", "d0"]).contains("10.1.1.1/24")
}

pub(crate) fn a_changed_file_flushes_ours_and_it_comes_back() {
    let host = Host::new();
    let _daemons = start(&host, NETWORK, "");
    // It also flushes other writers' rules.
    let mut beside = Beside::new(OURS).without(|row| row.kind == Kind::Rule);
    beside.shows_peace_and(|beside| {
        beside.loses_nothing("after a reload without a change", || {
            run(&["networkctl", "reload"]);
        });
        reload(&host, NETWORK);
        beside.loses(&[Kind::Address, Kind::Route, Kind::Rule]);
    });
    beside.is_named("systemd-networkd", "KeepConfiguration=yes");
    beside.end();
}

pub(crate) fn by_its_settings_it_keeps_all_of_ours() {
    let network = format!("{NETWORK}KeepConfiguration=yes\n");
    let manager = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n";
    let host = Host::new();
    let _daemons = start(&host, &network, manager);
    let mut beside = Beside::new(OURS);
    beside.shows_peace_and(|beside| {
        beside.loses_nothing("after a changed file", || reload(&host, &network));
        // networkd deletes the address that its file no longer has.
        beside.loses_nothing("after its address is gone", || {
            host.write("systemd/network/10-d0.network", &network);
            run(&["networkctl", "reload"]);
            wait_until("its address is gone", || !has_new_address());
        });
    });
    beside.end();
}
