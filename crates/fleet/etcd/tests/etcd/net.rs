//! A cluster whose members are nodes of a network, with hosts on it.

use std::net::Ipv4Addr;

use trueup_contracts::etcd::{Cluster, ClusterOptions, Place};
use trueup_testkit::{Node, bridge_at};

/// The members, and the test's own namespace on their bridge `net`.
pub(crate) struct Net {
    pub(crate) members: Vec<Node>,
}

/// Starts members, each in a namespace. `options` changes their options.
pub(crate) fn cluster(
    members: u8,
    options: impl FnOnce(ClusterOptions) -> ClusterOptions,
) -> (Net, Cluster) {
    bridge_at("net", Ipv4Addr::new(10, 99, 255, 254));
    let address = |member| Ipv4Addr::new(10, 99, 0, member + 1);
    let members: Vec<_> = (0..members).map(|member| Node::new("net", address(member))).collect();
    let place =
        |(member, node): (u8, &Node)| Place::in_namespace(node.space.name(), address(member));
    let places = (0..).zip(&members).map(place).collect();
    let cluster = Cluster::start(&options(ClusterOptions::at(places))).unwrap();
    (Net { members }, cluster)
}

impl Net {
    /// Makes a host on the network.
    pub(crate) fn host(&self, number: u8) -> Node {
        Node::new("net", Ipv4Addr::new(10, 99, 1, number))
    }

    /// Cuts a member off from the others. Clients can still reach it.
    pub(crate) fn cut_peers(&self, member: usize) {
        self.peers(member, "add");
    }

    pub(crate) fn heal_peers(&self, member: usize) {
        self.peers(member, "delete");
    }

    fn peers(&self, member: usize, action: &str) {
        for other in (0..self.members.len()).filter(|&other| other != member) {
            let other = format!("10.99.0.{}/32", other + 1);
            let space = &self.members[member].space;
            space.ip(&["route", action, "blackhole", &other]);
        }
    }
}
