//! Words of other tools for what a desired state says in iproute2's: netplan, systemd-networkd,
//! NetworkManager, ifupdown, nmstate, Cisco.

/// The words, each with what they are keys of (any of these), and what to write instead.
const WORDS: &[(&[&str], &[&str], &str)] = &[
    (&["a route"], &["to", "destination", "dest", "prefix", "network", "target"], "write `dst`"),
    (
        &["a route", "a next hop"],
        &["gateway", "gw", "next_hop", "nexthop", "next_hop_address", "router"],
        "write `via`",
    ),
    (&["a route"], &["pref", "priority", "preference", "distance"], "write `metric`"),
    (&["a route"], &["source", "prefsrc", "preferred_source"], "write `src`"),
    (&["a route"], &["lookup", "table_id", "vrf"], "write `table`"),
    (
        &["a route", "an address"],
        &["netmask", "mask", "prefixlen", "prefix_length"],
        "write the length behind the address, such as \"10.0.0.0/24\"",
    ),
    (
        &["an address"],
        &["ip", "addr", "local", "addresses"],
        "write `address`, one in each [[address]]",
    ),
    (&["a neighbour"], &["ip", "addr", "address", "to"], "write `dst`"),
    (&["a neighbour"], &["mac", "macaddress", "mac_address", "hwaddr"], "write `lladdr`"),
    (&["a link"], &["mac", "macaddress", "mac_address", "hwaddr", "lladdr"], "write `address`"),
    (
        &["a link"],
        &["ports", "slaves", "members", "interfaces", "bridge_ports"],
        "write master = \"NAME\" in the [[link]] of each port",
    ),
    (
        &["a link"],
        &["addresses", "ip", "ipv4", "ipv6", "dhcp4", "dhcp6"],
        "write an [[address]] with `dev` and `address` for each",
    ),
    (&["a link"], &["routes", "gateway4", "gateway6"], "write [[route]] with `dst` and `via`"),
    (&["a link"], &["vni", "vlan_id", "vid", "tag"], "write `id`"),
    (&["a link"], &["type"], "write `kind`"),
    (&["a link"], &["parent", "lower", "base_iface", "dev"], "write `link`"),
    (&["a link"], &["state", "enabled", "activation_mode"], "write `up`"),
    (&["a link"], &["dstport", "destination_port"], "write `port`"),
    (&["a rule"], &["pref", "preference", "prio", "order"], "write `priority`"),
    (&["a rule"], &["lookup", "table_id"], "write `table`"),
    (&["a rule"], &["mark"], "write `fwmark`"),
    (&["a rule"], &["src", "source"], "write `from`"),
    (&["a rule"], &["dst", "destination"], "write `to`"),
    (
        &["a route", "an address", "a neighbour", "a next hop"],
        &["device", "interface", "iface", "oif", "ifname", "next_hop_interface"],
        "write `dev`",
    ),
    (
        &["a file"],
        &["nexthop", "next_hop"],
        "write `via` and `dev`, or a list `nexthops`, in [[route]]",
    ),
    (
        &["a file"],
        &["interface", "ethernets", "bridges", "vlans", "bonds", "iface", "netdev", "Match"],
        "write a [[link]] for each",
    ),
    (&["a file"], &["Network", "network"], "write [[link]], [[address]] and [[route]]"),
];

/// Returns what to write instead of a word that another tool has for a key or section of `of`.
pub(crate) fn remedy(of: &str, word: &str) -> Option<&'static str> {
    let word = word.replace('-', "_");
    let mut words = WORDS.iter();
    let found = words.find(|(all, words, _)| all.contains(&of) && words.contains(&word.as_str()));
    found.map(|(_, _, remedy)| *remedy)
}
