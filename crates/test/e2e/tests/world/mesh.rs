//! The example `mesh`: hosts that exchange their routes.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::process::{Child, Command};

use serde_json::Value;
use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_testkit::{Node, bridge_at, wait_until};

/// A process of the example, killed on drop.
struct Mesh(Child);

impl Mesh {
    fn start(store: &str, hosts: &[String]) -> Mesh {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-mesh"));
        Mesh(command.arg(store).args(hosts).spawn().unwrap())
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Makes three hosts, and the example's arguments for them.
fn hosts(name: &str) -> (Vec<Node>, Vec<String>) {
    bridge_at("hosts", Ipv4Addr::new(10, 98, 0, 254));
    let host = |number| {
        let (name, address) = (format!("{name}{number}"), Ipv4Addr::new(10, 98, 0, number));
        let node = Node::named(&name, "hosts", address);
        (node, format!("{name},10.20.{number}.0/24,{address}"))
    };
    (1..4).map(host).unzip()
}

fn routes(node: &Node) -> BTreeSet<String> {
    let rows = node.space.ip(&["-json", "route", "show", "proto", "116"]);
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let text = |row: &Value| format!("{} via {}", row["dst"], row["gateway"]).replace('"', "");
    rows.iter().map(text).collect()
}

fn wait_for_routes(node: &Node, numbers: &[u8]) {
    let route = |number: &u8| format!("10.20.{number}.0/24 via 10.98.0.{number}");
    let routes_to: BTreeSet<_> = numbers.iter().map(route).collect();
    wait_until(&format!("the routes are {routes_to:?}"), || routes(node) == routes_to);
}

pub(crate) fn a_mesh_in_one_process() {
    let (nodes, hosts) = hosts("one");
    let _mesh = Mesh::start("embedded", &hosts);
    wait_for_routes(&nodes[0], &[2, 3]);
    wait_for_routes(&nodes[1], &[1, 3]);
    wait_for_routes(&nodes[2], &[1, 2]);
}

pub(crate) fn a_mesh_on_etcd_without_a_host_that_died() {
    let cluster = Cluster::start(&ClusterOptions::local(1)).unwrap();
    let (nodes, hosts) = hosts("etcd");
    let store = cluster.config().endpoints.join(",");
    let _two = Mesh::start(&store, &hosts[..2]);
    let one = Mesh::start(&store, &hosts[2..]);
    wait_for_routes(&nodes[0], &[2, 3]);
    wait_for_routes(&nodes[2], &[1, 2]);
    drop(one);
    wait_for_routes(&nodes[0], &[2]);
    wait_for_routes(&nodes[1], &[1]);
}
