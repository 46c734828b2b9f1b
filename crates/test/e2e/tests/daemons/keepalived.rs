//! keepalived, with a second router at the link's other end.

use rustix::process::Signal;
use trueup_testkit::{ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host};

fn config(device: &str, priority: u8) -> String {
    format!(
        "global_defs {{\n script_user root\n}}\n\
         vrrp_instance one {{\n state BACKUP\n interface {device}\n virtual_router_id 51\n\
         priority {priority}\n advert_int 1\n virtual_ipaddress {{\n 10.1.0.100/24 dev {device}\n }}\n}}\n"
    )
}

fn has_address() -> bool {
    ip(&["address", "show", "dev", "d0"]).contains("10.1.0.100/24")
}

pub(crate) fn its_address_comes_and_goes_beside_ours() {
    let host = Host::new();
    third_writer();
    ip(&["address", "add", "10.1.0.1/24", "dev", "d0"]);
    host.far.ip(&["address", "add", "10.1.0.2/24", "dev", "d1"]);
    let file = host.write("here.conf", &config("d0", 100));
    let pids = ["-p", "/run/here.pid", "-r", "/run/here.vrrp.pid"];
    let here = [&["keepalived", "-n", "-l", "-D", "-f", &file], &pids[..]].concat();
    let here = Daemon::start(&here);
    wait_until("it has the address", has_address);
    let mut beside = Beside::new(OURS);
    beside.shows_peace(|| {
        host.write("here.conf", &config("d0", 110));
        here.signal(Signal::HUP);
    });
    beside.is_named("keepalived", "leave the addresses that it moves out");

    let file = host.write("there.conf", &config("d1", 200));
    let pids = ["-p", "/run/there.pid", "-r", "/run/there.vrrp.pid"];
    let there = ["ip", "netns", "exec", "far", "keepalived", "-n", "-l", "-D", "-f", &file];
    let there = Daemon::start(&[&there, &pids[..]].concat());
    wait_until("the other router takes the address", || !has_address());
    beside.wait_for_ours("while the other router has the address");
    beside.is_quiet("while the other router has the address");
    there.stop();
    wait_until("the address comes back", has_address);
    beside.settles("after the address came back");
    beside.end();
}
