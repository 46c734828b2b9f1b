//! A cluster whose members and clients are on a network of its own, which can be cut.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};

use trueup_etcd::testing::{Cluster, ClusterOptions, Place};
use trueup_testkit::{NamedNetns, bridge, ip, ip_batch, named_netns, veth_pair};

/// The members' namespaces, on a bridge in the test's own, which the clients are in.
pub(crate) struct Net {
    _members: Vec<NamedNetns>,
}

/// Starts three members, each in a namespace.
pub(crate) fn three(arguments: &[&str]) -> (Net, Cluster) {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    veth_pair("client", "clients");
    bridge("between", &["clients"]);
    ip(&["address", "add", "10.99.0.254/24", "dev", "client"]);
    let mut members = Vec::new();
    let mut places = Vec::new();
    for member in 0..3 {
        let name = format!("etcd{}", NUMBERS.fetch_add(1, Ordering::Relaxed));
        let inside = named_netns(&name);
        let last = member + 1;
        ip_batch([
            format!("link add member{member} type veth peer name eth0 netns {name}"),
            format!("link set member{member} master between up"),
        ]);
        inside.ip(&["link", "set", "lo", "up"]);
        inside.ip(&["link", "set", "eth0", "up"]);
        inside.ip(&[
            "address",
            "add",
            &format!("10.99.0.{last}/24"),
            "dev",
            "eth0",
        ]);
        places.push(Place {
            address: IpAddr::V4(Ipv4Addr::new(10, 99, 0, last)),
            ports: Some((2379, 2380)),
            launcher: ["ip", "netns", "exec", &name].map(str::to_owned).to_vec(),
        });
        members.push(inside);
    }
    let options = ClusterOptions::at(places).with_arguments(arguments.iter().copied());
    let cluster = Cluster::start(&options).unwrap();
    (Net { _members: members }, cluster)
}

impl Net {
    /// Cuts all clients off, without a word to either side.
    pub(crate) fn cut_clients(&self) {
        ip(&["link", "set", "clients", "down"]);
    }

    pub(crate) fn heal_clients(&self) {
        ip(&["link", "set", "clients", "up"]);
    }

    /// Cuts a member off, from the others and from all clients.
    pub(crate) fn cut_member(&self, member: usize) {
        ip(&["link", "set", &format!("member{member}"), "down"]);
    }

    pub(crate) fn heal_member(&self, member: usize) {
        ip(&["link", "set", &format!("member{member}"), "up"]);
    }
}
