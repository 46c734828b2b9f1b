//! Nodes of a network, each in a namespace, which can be cut off without a word.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use trueup_testkit::{NamedNetns, bridge, ip, ip_batch, ip_json, named_netns, wait_until};

/// Makes a bridge that is a node itself, with that address.
pub(crate) fn bridge_at(name: &str, address: Ipv4Addr) {
    bridge(name, &[]);
    // Its own: without one it has that of some port, which comes and goes.
    ip(&["link", "set", name, "address", "02:00:00:00:00:fe"]);
    ip(&["address", "add", &format!("{address}/16"), "dev", name]);
}

/// A namespace with one link, `eth0`, to a bridge in the namespace that made it.
pub(crate) struct Node {
    pub(crate) space: NamedNetns,
    /// The other end of its link.
    port: String,
}

impl Node {
    pub(crate) fn new(bridge: &str, address: Ipv4Addr) -> Node {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let (name, port) = (format!("node{number}"), format!("port{number}"));
        let space = named_netns(&name);
        ip_batch([
            format!("link add {port} type veth peer name eth0 netns {name}"),
            format!("link set {port} master {bridge} up"),
        ]);
        space.ip(&["link", "set", "lo", "up"]);
        space.ip(&["link", "set", "eth0", "up"]);
        space.ip(&["address", "add", &format!("{address}/16"), "dev", "eth0"]);
        // What is sent before is lost.
        wait_until("the bridge forwards", || {
            let state = &ip_json::<Value>(&["link", "show", "dev", &port])[0];
            state["linkinfo"]["info_slave_data"]["state"] == "forwarding"
        });
        Node { space, port }
    }

    pub(crate) fn cut(&self) {
        ip(&["link", "set", &self.port, "down"]);
    }

    pub(crate) fn heal(&self) {
        ip(&["link", "set", &self.port, "up"]);
    }

    /// Runs a function on a thread in it.
    pub(crate) fn inside<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.space.name())).unwrap();
        thread::scope(|scope| {
            let entered = scope.spawn(move || {
                let kind = LinkNameSpaceType::Network;
                move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
                function()
            });
            entered.join().unwrap()
        })
    }
}
