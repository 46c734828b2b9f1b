//! Objects that the kernel removes as a side effect of a change to a link. If one is another
//! writer's, the op is held and names it.

use trueup_net::{Desired, IfName, Link, LinkKind, VxlanAttrs};
use trueup_rtnl::MemoryLedger;
use trueup_testkit::fields::is_static_entry;
use trueup_testkit::{Kind, Snapshot, ip, ip_batch, ip_force, raw_dump};

use crate::support::{bridge, converge, describe, name, nothing, pass, up};

fn links(links: impl IntoIterator<Item = Link<IfName>>) -> Desired {
    Desired::default().with_links(links.into_iter().collect::<Vec<_>>())
}

fn pair() -> Link<IfName> {
    let kind = LinkKind::veth(name("v1"));
    up(kind, "v0")
}

fn down(link: Link<IfName>) -> Link<IfName> {
    link.with_up(false)
}

fn port_of(master: Option<&str>, mut link: Link<IfName>) -> Link<IfName> {
    link.master = Some(master.map(name));
    link
}

/// Asserts that a pass changes nothing, and holds an op because of the named object.
fn is_held(change: &Desired, ledger: &MemoryLedger, object: &str) {
    let before = Snapshot::settled();
    let held = pass(change, ledger);
    let after = Snapshot::settled();
    let text = describe(&held);
    assert_eq!(before.diff(&after), "", "{text}");
    let named = held.pending().any(|(_, why)| why.to_string().contains(object));
    assert!(named && held.applied().count() == 0, "{object}: {text}");
}

/// Makes a foreign nexthop object with a route that uses it. Without a use it would hold no op.
fn used_nexthop(id: u32, dev: &str) {
    let nexthop = format!("nexthop add id {id} dev {dev} proto static");
    let route = format!("route add 10.20{id}.0.0/16 nhid {id} proto static");
    ip_batch([nexthop.as_str(), &route]);
}

pub(crate) fn a_foreign_nexthop_object_holds_its_link() {
    let first = converge(&links([pair()]), &MemoryLedger::default());
    ip(&["link", "set", "v1", "up"]);
    used_nexthop(5, "v0");
    let other = up(LinkKind::Ifb, "v0");
    for change in [nothing(), links([down(pair())]), links([other])] {
        is_held(&change, first.ledger(), "nexthop 5");
    }
    ip(&["nexthop", "delete", "id", "5"]);
    converge(&nothing(), first.ledger());
}

pub(crate) fn a_foreign_group_over_our_link_holds_it_as_it_would_shrink() {
    let first = converge(&links([pair(), up(LinkKind::Ifb, "i0")]), &MemoryLedger::default());
    ip_batch([
        "link set v1 up",
        "nexthop add id 5 dev v0 proto static",
        "nexthop add id 6 dev i0 proto static",
        "nexthop add id 7 group 5/6 proto static",
        "route add 10.50.0.0/16 nhid 7 proto static",
    ]);
    is_held(&links([pair()]), first.ledger(), "");
    is_held(&links([up(LinkKind::Ifb, "i0")]), first.ledger(), "");
}

pub(crate) fn a_nexthop_object_on_the_other_end_holds_what_takes_its_carrier() {
    ip_batch([
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "link set v1 up",
        "nexthop add id 5 dev v1 proto static",
        "route add 10.50.0.0/16 nhid 5 proto static",
    ]);
    let change = links([down(Link::must_exist(name("v0")))]);
    is_held(&change, &MemoryLedger::default(), "");
}

pub(crate) fn a_nexthop_object_on_a_bridge_holds_its_last_port() {
    ip_batch([
        "link add fb0 type bridge",
        "link set fb0 up",
        "link add f0 type veth peer name f1",
        "link set f1 up",
    ]);
    let port = port_of(Some("fb0"), pair());
    let first = converge(&links([port.clone()]), &MemoryLedger::default());
    ip(&["link", "set", "v1", "up"]);
    Snapshot::settled();
    used_nexthop(5, "fb0");
    ip_batch(["link add f2 link fb0 type macvlan", "link set f2 up"]);
    let none = links([port_of(None, pair())]);
    for change in [&nothing(), &none, &links([down(port.clone())])] {
        is_held(change, first.ledger(), "nexthop 5");
    }
    used_nexthop(6, "f2");
    ip(&["nexthop", "delete", "id", "5"]);
    for change in [&nothing(), &none, &links([down(port)])] {
        is_held(change, first.ledger(), "nexthop 6");
    }
    // Another live port keeps the carrier.
    ip_batch(["link set f0 master fb0", "link set f0 up"]);
    Snapshot::settled();
    converge(&none, first.ledger());
    converge(&nothing(), first.ledger());
}

/// Each of two ports leaves the bridge a carrier, but both together do not: one goes.
pub(crate) fn a_nexthop_object_on_a_bridge_holds_one_of_its_last_two_ports() {
    ip_batch(["link add fb0 type bridge", "link set fb0 up"]);
    let veth = |one: &str, other| {
        let kind = LinkKind::veth(name(other));
        port_of(Some("fb0"), up(kind, one))
    };
    let both =
        links([pair()].map(|it| port_of(Some("fb0"), it)).into_iter().chain([veth("w0", "w1")]));
    let first = converge(&both, &MemoryLedger::default());
    ip_batch(["link set v1 up", "link set w1 up"]);
    Snapshot::settled();
    used_nexthop(5, "fb0");
    let report = pass(&nothing(), first.ledger());
    assert_eq!(report.applied().count(), 1, "{}", describe(&report));
    assert_eq!(report.pending().count(), 1, "{}", describe(&report));
    let nexthops = ip(&["nexthop", "show", "id", "5"]);
    assert!(nexthops.contains("dev fb0"), "{nexthops}");
}

pub(crate) fn a_neighbour_on_a_bridge_holds_the_port_that_would_change_its_address() {
    let bare = [bridge("br0"), pair()];
    let first = converge(&links(bare.clone()), &MemoryLedger::default());
    ip(&["link", "set", "v1", "up"]);
    Snapshot::settled();
    ip_batch(["neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent"]);
    let joined = links([bridge("br0"), port_of(Some("br0"), pair())]);
    is_held(&joined, first.ledger(), "neighbour 10.9.0.9");
    // With its own address the bridge keeps its neighbours.
    ip(&["neighbour", "delete", "10.9.0.9", "dev", "br0"]);
    let second = converge(&joined, first.ledger());
    ip_batch([
        "link set v1 up",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent",
    ]);
    Snapshot::settled();
    is_held(&links([bridge("br0"), port_of(None, pair())]), second.ledger(), "10.9.0.9");
    ip_batch([
        "link set br0 address 02:00:00:00:00:ff",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev br0 nud permanent",
    ]);
    converge(&links([bridge("br0"), port_of(None, pair())]), second.ledger());
}

/// A port that leaves a bridge loses its static entries; a VXLAN that goes loses all of its own.
pub(crate) fn a_forwarding_entry_holds_its_port_and_its_tunnel() {
    let vxlan = LinkKind::Vxlan(VxlanAttrs::new(7).with_port(4789));
    let tunnel = up(vxlan, "x0");
    let port = port_of(Some("br0"), pair());
    let all = links([bridge("br0"), port.clone(), tunnel.clone()]);
    let first = converge(&all, &MemoryLedger::default());
    let entries = [
        "fdb add 02:00:00:00:00:08 dev v0 master static",
        "fdb append 02:00:00:00:00:09 dev x0 dst 192.0.2.1",
    ];
    assert_eq!(ip_force(&entries), "");
    let rows = || raw_dump(Kind::Neighbour, 7).iter().filter(|row| is_static_entry(row)).count();
    let before = rows();
    let left = links([bridge("br0"), port_of(None, pair()), tunnel]);
    is_held(&left, first.ledger(), "forwarding entry 02:00:00:00:00:08");
    let bare = links([bridge("br0"), port]);
    is_held(&bare, first.ledger(), "forwarding entry 02:00:00:00:00:09");
    is_held(&nothing(), first.ledger(), "forwarding entry");
    assert_eq!(rows(), before);
}

/// Neighbours that are not permanent go with the carrier.
pub(crate) fn a_neighbour_that_is_not_permanent_holds_what_takes_its_carrier() {
    ip_batch([
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "link set v1 up",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev v1 nud noarp",
    ]);
    let change = links([down(Link::must_exist(name("v0")))]);
    is_held(&change, &MemoryLedger::default(), "neighbour 10.9.0.9");
}

/// If a device joins or leaves a VRF, the kernel sets it down and up again (`cycle_netdev`).
pub(crate) fn an_object_on_a_port_holds_what_makes_it_a_vrfs() {
    ip_batch(["link add fv0 type vrf table 50", "link set fv0 up"]);
    let first = converge(&links([pair()]), &MemoryLedger::default());
    ip(&["link", "set", "v1", "up"]);
    used_nexthop(5, "v0");
    is_held(&links([port_of(Some("fv0"), pair())]), first.ledger(), "nexthop 5");
    ip(&["nexthop", "delete", "id", "5"]);
    let second = converge(&links([port_of(Some("fv0"), pair())]), first.ledger());
    ip_batch(["link set v1 up", "address add fd00:9::1/64 dev v0 nodad"]);
    is_held(&links([port_of(None, pair())]), second.ledger(), "fd00:9::1");
}

/// If the kernel stores the writer of an address, a manual link-local one is foreign.
pub(crate) fn a_link_local_address_that_was_made_by_hand_holds_its_link() {
    let first = converge(&links([bridge("br0")]), &MemoryLedger::default());
    ip(&["address", "add", "fe80::1/64", "dev", "br0", "nodad"]);
    is_held(&nothing(), first.ledger(), "fe80::1");
    is_held(&links([down(bridge("br0"))]), first.ledger(), "fe80::1");
    ip(&["address", "delete", "fe80::1/64", "dev", "br0"]);
    converge(&nothing(), first.ledger());
}

/// Below 68 bytes a device loses all of IPv4 (`inetdev_event`).
pub(crate) fn what_is_of_ipv4_holds_an_mtu_that_is_too_small_for_it() {
    let ifb = || up(LinkKind::Ifb, "i0");
    let first = converge(&links([ifb()]), &MemoryLedger::default());
    ip_batch([
        "address add 10.9.0.1/24 dev i0",
        "route add 10.50.0.0/16 dev i0 proto static",
        "neighbour add 10.9.0.9 lladdr 02:00:00:00:00:09 dev i0 nud permanent",
    ]);
    let small = ifb().with_mtu(60);
    is_held(&links([small.clone()]), first.ledger(), "10.9.0.");
    ip_batch(["address flush dev i0", "neighbour flush dev i0 nud permanent"]);
    converge(&links([small]), first.ledger());
}

/// Like a macvlan, a macvtap gets the smaller MTU of the device below.
pub(crate) fn a_macvtap_of_another_writer_holds_a_smaller_mtu() {
    let first = converge(&links([pair()]), &MemoryLedger::default());
    ip(&["link", "add", "link", "v0", "name", "m0", "type", "macvtap"]);
    let small = pair().with_mtu(1400);
    is_held(&links([small.clone()]), first.ledger(), "link m0");
    ip(&["link", "delete", "m0"]);
    converge(&links([small]), first.ledger());
}

/// The kernel binds an IPv6 route that refuses packets to the loopback device.
pub(crate) fn a_reject_route_of_ipv6_holds_the_loopback_device_up() {
    ip_batch(["link set lo up", "route add unreachable fd00:9::/32 proto static"]);
    let change = links([down(Link::must_exist(name("lo")))]);
    is_held(&change, &MemoryLedger::default(), "fd00:9::/32");
    ip(&["route", "delete", "unreachable", "fd00:9::/32"]);
    converge(&change, &MemoryLedger::default());
}

/// A VLAN or similar device that is already down loses nothing with the device below.
pub(crate) fn a_vlan_that_is_down_holds_nothing() {
    let first = converge(&links([pair()]), &MemoryLedger::default());
    ip(&["link", "add", "link", "v0", "name", "f0", "type", "vlan", "id", "7"]);
    converge(&links([down(pair())]), first.ledger());
}
