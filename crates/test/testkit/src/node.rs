//! Hosts of a network, each in a namespace, which can be cut off without their noticing it.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::topology::{NamedNetns, bridge, ip, ip_batch, ip_json, named_netns, wait_until};

/// Makes a bridge for [nodes](Node), with this address in a /16 subnet. It makes the calling
/// thread's namespace a host as well.
///
/// # Panics
///
/// If a link with this name exists.
#[track_caller]
pub fn bridge_at(name: &str, address: Ipv4Addr) {
    bridge(name, &[]);
    // Set a hardware address: otherwise the bridge takes a port's, and ports come and go.
    ip(&["link", "set", name, "address", "02:00:00:00:00:fe"]);
    ip(&["address", "add", &format!("{address}/16"), "dev", name]);
}

/// A host: a named namespace with one link, `eth0`, to a bridge in the namespace that made it.
#[must_use = "its namespace is deleted when dropped"]
pub struct Node {
    /// The host's namespace, named like the host.
    pub space: NamedNetns,
    /// The name of the link's other end, at the bridge.
    port: String,
}

impl Node {
    /// Makes a host with a unique name.
    ///
    /// # Panics
    ///
    /// Like [`Node::named`].
    #[track_caller]
    pub fn new(bridge: &str, address: Ipv4Addr) -> Node {
        static NUMBERS: AtomicU32 = AtomicU32::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Node::named(&format!("node{number}"), bridge, address)
    }

    /// Makes a host with this name (at most ten bytes) and this address in a /16 subnet. The bridge
    /// forwards the host's packets when this returns.
    ///
    /// # Panics
    ///
    /// If there is no such bridge, or a namespace with this name exists.
    #[track_caller]
    pub fn named(name: &str, bridge: &str, address: Ipv4Addr) -> Node {
        let port = format!("port-{name}");
        let space = named_netns(name);
        ip_batch([
            format!("link add {port} type veth peer name eth0 netns {name}"),
            format!("link set {port} master {bridge} up"),
        ]);
        space.ip(&["link", "set", "lo", "up"]);
        space.ip(&["link", "set", "eth0", "up"]);
        space.ip(&["address", "add", &format!("{address}/16"), "dev", "eth0"]);
        // Packets sent before are lost.
        wait_until("the bridge forwards", || {
            let state = &ip_json::<Value>(&["link", "show", "dev", &port])[0];
            state["linkinfo"]["info_slave_data"]["state"] == "forwarding"
        });
        Node { space, port }
    }

    /// Sets the link down at the bridge: no packet comes through, and `eth0` has no carrier. Its
    /// addresses and routes stay.
    #[track_caller]
    pub fn cut(&self) {
        ip(&["link", "set", &self.port, "down"]);
    }

    /// Sets the link to the bridge up again, after [`cut`](Self::cut).
    #[track_caller]
    pub fn heal(&self) {
        ip(&["link", "set", &self.port, "up"]);
    }

    /// Runs a function on a thread in the host's namespace.
    ///
    /// # Panics
    ///
    /// If the function panics.
    pub fn inside<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.space.name())).expect("a namespace");
        thread::scope(|scope| {
            let entered = scope.spawn(move || {
                let kind = LinkNameSpaceType::Network;
                move_into_link_name_space(file.as_fd(), Some(kind)).expect("CAP_SYS_ADMIN");
                function()
            });
            entered.join().expect("the function did not panic")
        })
    }
}
