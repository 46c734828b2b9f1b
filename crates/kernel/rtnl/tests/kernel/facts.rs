//! The kernel's own behaviour, which no pass can prevent. The judge's generators avoid these cases;
//! these tests notice a kernel that behaves differently.

use trueup_apply::ErrorClass;
use trueup_net::{Desired, Neighbour};
use trueup_rtnl::MemoryLedger;
use trueup_testkit::{Kind, ip, ip_batch, ip_fails, uplinks};

use crate::support::{converge, describe, name, pass, rows};

/// A bridge takes the least hardware address of its ports, unless it was given one. A device whose
/// address changes loses its neighbours, permanent ones too.
pub(crate) fn a_port_costs_its_bridge_the_neighbours() {
    ip_batch([
        "link add br0 type bridge",
        "link set br0 up",
        "link add v0 address 02:00:00:00:00:01 type veth peer name v1",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent",
        "neighbour add fd00:9::9 lladdr 02:00:00:00:00:09 dev br0 nud permanent",
    ]);
    let declared =
        || rows(Kind::Neighbour, |_, f| f.get("state").is_some_and(|s| s == "permanent"));
    assert_eq!(declared().len(), 2);
    ip(&["link", "set", "v0", "master", "br0"]);
    assert_eq!(declared(), [""; 0]);

    // With its own address it keeps them.
    ip_batch([
        "link set v0 nomaster",
        "link set br0 address 02:00:00:00:00:ff",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent",
        "link set v0 master br0",
        "link delete v0",
    ]);
    assert_eq!(declared().len(), 1);
}

/// `onlink` does not help an IPv6 gateway that has a longer prefix on another device, even if a
/// shorter one is on the right device.
pub(crate) fn an_ipv6_gateway_on_link_is_refused_where_it_is_elsewhere() {
    uplinks(2);
    ip(&["address", "add", "fd00:200::2/32", "dev", "up1", "nodad"]);
    let route = ["route", "add", "fd50::/32", "via", "fd00:200:0::9", "dev", "up1", "onlink"];
    let said = ip_fails(&route);
    assert!(said.contains("Nexthop has invalid gateway or device mismatch"), "{said}");
    ip(&["address", "delete", "fd00:200:0::1/64", "dev", "up0"]);
    ip(&route);
}

/// IPv6 looks a gateway up in the route's own table before all others.
pub(crate) fn an_ipv6_table_s_local_default_catches_its_gateways() {
    uplinks(1);
    ip(&["route", "add", "local", "::/0", "dev", "lo", "table", "100"]);
    let gateway = ["route", "add", "fd50::/32", "via", "fd00:200:0::9", "table"];
    let said = ip_fails(&[&gateway[..], &["100"]].concat());
    assert!(said.contains("Egress device can not be loopback device"), "{said}");
    ip(&[&gateway[..], &["101"]].concat());
}

/// A link with an MTU below 1280 has no IPv6, and refuses IPv6 neighbours ("IPv6 is disabled on
/// this device", EINVAL). This is no fault of the neighbour, and ends with the MTU.
pub(crate) fn a_neighbour_waits_for_its_device_to_have_ipv6() {
    ip_batch(["link add v0 mtu 1000 type veth peer name v1"]);
    let desired = Desired::default().with_neighbours([Neighbour::new(
        name("v0"),
        "fd00:9::9".parse().unwrap(),
        "02:00:00:00:00:09".parse().unwrap(),
    )]);
    let passed = pass(&desired, &MemoryLedger::default());
    let failed: Vec<_> = passed.failed().map(|(_, failure)| failure.class).collect();
    assert_eq!(failed, [ErrorClass::Dependency], "{}", describe(&passed));
    ip(&["link", "set", "v0", "mtu", "1500"]);
    converge(&desired, passed.ledger());
}
