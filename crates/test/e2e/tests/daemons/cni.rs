//! The CNI plugins `bridge` and `host-local`, run as by a container runtime.

use std::io::Write as _;
use std::process::{Command, Stdio};

use trueup_testkit::{NamedNetns, ip, named_netns};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::Host;

const CONFIG: &str = r#"{ "cniVersion": "1.0.0", "name": "net", "type": "bridge",
    "bridge": "cni0", "isGateway": true, "ipMasq": false,
    "ipam": { "type": "host-local", "dataDir": "/run/cni", "subnet": "10.1.0.0/24",
        "routes": [{ "dst": "0.0.0.0/0" }] } }"#;

fn plugin(command: &str, container: &NamedNetns) {
    let name = container.name();
    let mut plugin = Command::new("/usr/lib/cni/bridge")
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", name)
        .env("CNI_NETNS", format!("/run/netns/{name}"))
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", "/usr/lib/cni")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    plugin.stdin.take().unwrap().write_all(CONFIG.as_bytes()).unwrap();
    let output = plugin.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command} {name}: {said}");
}

fn container(name: &str) -> NamedNetns {
    let container = named_netns(name);
    plugin("ADD", &container);
    container
}

pub(crate) fn containers_come_and_go_beside_ours() {
    let _host = Host::new();
    third_writer();
    let first = container("first");
    let mut beside = Beside::new(OURS);
    beside.shows_peace(|| {
        let second = container("second");
        assert!(second.ip(&["route"]).contains("default via 10.1.0.1"));
        plugin("DEL", &second);
    });
    assert!(first.ip(&["address"]).contains("10.1.0.2/24"));
    beside.end();
}

pub(crate) fn its_address_may_be_declared_too() {
    let address =
        |more: &str| format!("address = [{{ dev = \"cni0\", address = \"10.1.0.1/24\"{more} }}]\n");
    let _host = Host::new();
    third_writer();
    let first = container("first");
    // Theirs comes first: we use it as it is, and it stays theirs.
    let mut beside = Beside::new(&address(""));
    beside.settles("with its address");
    beside.declare(&address(", broadcast = \"10.1.0.254\""));
    beside.is_in_conflict("10.1.0.1/24");
    beside.is_quiet("with another broadcast address");
    beside.declare("address = []\n");
    beside.settles("without its address");
    // Ours comes first: the plugin uses it as it is.
    plugin("DEL", &first);
    ip(&["link", "delete", "cni0"]);
    beside.declare(&format!(
        "link = [{{ name = \"cni0\", kind = \"bridge\", up = true }}]\n{}",
        address("")
    ));
    beside.wait_for_ours("without its bridge");
    beside.is_quiet("without its bridge");
    let mut second = None;
    beside.loses_nothing("with a container on our bridge", || {
        second = Some(container("second"));
    });
    let second = second.unwrap();
    assert!(second.ip(&["route"]).contains("default via 10.1.0.1"));
    beside.end();
}
