//! A cluster whose members and clients are on a network of its own, which can be cut.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use trueup_etcd::testing::{Cluster, ClusterOptions, Place};
use trueup_testkit::{NamedNetns, bridge, ip, ip_batch, named_netns, veth_pair};

/// The members' namespaces, on a bridge in the test's own, which the clients are in.
pub(crate) struct Net {
    members: Vec<NamedNetns>,
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
    (Net { members }, cluster)
}

impl Net {
    /// Cuts all clients off, without a word to either side.
    pub(crate) fn cut_clients(&self) {
        ip(&["link", "set", "clients", "down"]);
    }

    pub(crate) fn heal_clients(&self) {
        ip(&["link", "set", "clients", "up"]);
    }

    /// Cuts a member off from the others. Clients reach it.
    pub(crate) fn cut_peers(&self, member: usize) {
        self.peers(member, "add");
    }

    pub(crate) fn heal_peers(&self, member: usize) {
        self.peers(member, "delete");
    }

    fn peers(&self, member: usize, action: &str) {
        for other in (0..3).filter(|&other| other != member) {
            let other = format!("10.99.0.{}/32", other + 1);
            self.members[member].ip(&["route", action, "blackhole", &other]);
        }
    }

    /// Runs a function at a member, on a thread in its namespace.
    pub(crate) fn inside<T: Send>(&self, member: usize, function: impl FnOnce() -> T + Send) -> T {
        let file = format!("/run/netns/{}", self.members[member].name());
        let file = File::open(file).unwrap();
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
