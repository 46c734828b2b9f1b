//! Link properties without keys in a file, if they differ from a new link's. The words are
//! iproute2's.

use std::collections::BTreeMap;

use trueup_netlink::wire::{Attrs, Message, MessageWriter, read_string};
use trueup_netlink::{DumpStep, Error, Socket};

/// An attribute's number, its word, and a new link's value.
type Attribute = (u16, &'static str, u32);

/// `IFLA_*`
const LINK: [Attribute; 2] = [(13, "txqlen", 1000), (39, "protodown", 0)];

/// `IFLA_BOND_*`
const BOND: [Attribute; 28] = [
    (4, "updelay", 0),
    (5, "downdelay", 0),
    (6, "use_carrier", 1),
    (7, "arp_interval", 0),
    (8, "arp_ip_target", 0),
    (9, "arp_validate", 0),
    (10, "arp_all_targets", 0),
    (11, "primary", 0),
    (12, "primary_reselect", 0),
    (13, "fail_over_mac", 0),
    (14, "xmit_hash_policy", 0),
    (15, "resend_igmp", 1),
    (16, "num_grat_arp", 1),
    (17, "all_slaves_active", 0),
    (18, "min_links", 0),
    (19, "lp_interval", 1),
    (20, "packets_per_slave", 1),
    (21, "lacp_rate", 0),
    (22, "ad_select", 0),
    (24, "ad_actor_sys_prio", 65_535),
    (25, "ad_user_port_key", 0),
    (26, "ad_actor_system", 0),
    (27, "tlb_dynamic_lb", 1),
    (28, "peer_notif_delay", 0),
    (29, "lacp_active", 1),
    (30, "arp_missed_max", 2),
    (31, "ns_ip6_target", 0),
    (33, "coupled_control", 1),
];

/// `IFLA_BR_*`
const BRIDGE: [Attribute; 17] = [
    (2, "hello_time", 200),
    (3, "max_age", 2000),
    (6, "priority", 32_768),
    (9, "group_fwd_mask", 0),
    (22, "mcast_router", 1),
    (23, "mcast_snooping", 1),
    (24, "mcast_query_use_ifaddr", 0),
    (25, "mcast_querier", 0),
    (27, "mcast_hash_max", 4096),
    (36, "nf_call_iptables", 0),
    (37, "nf_call_ip6tables", 0),
    (38, "nf_call_arptables", 0),
    (39, "vlan_default_pvid", 1),
    (41, "vlan_stats_enabled", 0),
    (42, "mcast_stats_enabled", 0),
    (43, "mcast_igmp_version", 2),
    (44, "mcast_mld_version", 1),
];

/// `IFLA_VXLAN_*`
const VXLAN: [Attribute; 18] = [
    (6, "tos", 0),
    (8, "ageing", 300),
    (9, "maxaddress", 0),
    (10, "srcport", 0),
    (11, "proxy", 0),
    (12, "rsc", 0),
    (13, "l2miss", 0),
    (14, "l3miss", 0),
    (18, "udpcsum", 1),
    (19, "udp6zerocsumtx", 0),
    (20, "udp6zerocsumrx", 0),
    (21, "remcsumtx", 0),
    (22, "remcsumrx", 0),
    (23, "gbp", 0),
    (25, "external", 0),
    (26, "flowlabel", 0),
    (27, "gpe", 0),
    (29, "df", 0),
];

/// `IFLA_MACVLAN_*`
const MACVLAN: [Attribute; 1] = [(2, "flags", 0)];

/// `IFLA_VLAN_*`
const VLAN: [Attribute; 3] = [(2, "flags", 1), (3, "egress-qos-map", 0), (4, "ingress-qos-map", 0)];

/// `IFLA_BRPORT_*`
const BRIDGE_PORT: [Attribute; 18] = [
    (2, "priority", 32),
    (4, "hairpin", 0),
    (5, "guard", 0),
    (6, "root_block", 0),
    (7, "fastleave", 0),
    (8, "learning", 1),
    (9, "flood", 1),
    (10, "proxy_arp", 0),
    (12, "proxy_arp_wifi", 0),
    (25, "mcast_router", 1),
    (27, "mcast_flood", 1),
    (28, "mcast_to_unicast", 0),
    (29, "vlan_tunnel", 0),
    (30, "bcast_flood", 1),
    (31, "group_fwd_mask", 0),
    (32, "neigh_suppress", 0),
    (33, "isolated", 0),
    (39, "locked", 0),
];

/// `IFLA_BOND_SLAVE_*`
const BOND_PORT: [Attribute; 2] = [(5, "queue_id", 0), (9, "prio", 0)];

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const IFINFOMSG: usize = 16;
const AF_BRIDGE: u8 = 7;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_PROP_LIST: u16 = 52;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BRIDGE_VLAN_INFO: u16 = 2;
const RTEXT_FILTER_BRVLAN: u32 = 2;
const NLA_TYPE_MASK: u16 = 0x3fff;

const IFF_NOARP: u32 = 1 << 7;
const IFF_PROMISC: u32 = 1 << 8;
const IFF_ALLMULTI: u32 = 1 << 9;
const IFF_MULTICAST: u32 = 1 << 12;

/// `BRIDGE_VLAN_INFO_PVID`, `BRIDGE_VLAN_INFO_UNTAGGED`
const PVID: u32 = 1 << 1;
const UNTAGGED: u32 = 1 << 2;
/// The flags of a new port in VLAN 1.
const PVID_UNTAGGED: u32 = PVID | UNTAGGED;

/// Reads the links, and returns a line for each link with such properties.
pub(crate) fn of_links(socket: &mut Socket) -> Result<Vec<String>, Error> {
    let mut unsaid: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (family, mask) in [(0, 0), (AF_BRIDGE, RTEXT_FILTER_BRVLAN)] {
        let mut request = Vec::new();
        let mut message = MessageWriter::begin(&mut request, RTM_GETLINK, NLM_F_REQUEST_DUMP);
        let mut header = [0; IFINFOMSG];
        header[0] = family;
        message.body(&header);
        message.attr_u32(IFLA_EXT_MASK, mask);
        let _fits = message.finish();
        let mut rows: Vec<(String, Vec<String>)> = Vec::new();
        let dump = socket.dump(&request, |step| match step {
            DumpStep::Begin => rows.clear(),
            DumpStep::Message(message) if message.header.kind == RTM_NEWLINK => {
                rows.extend(row(family, &message));
            }
            DumpStep::Message(_) | DumpStep::Part(_) => {}
        })?;
        let _whole = dump.whole()?;
        for (name, found) in rows {
            unsaid.entry(name).or_default().extend(found);
        }
    }
    unsaid.retain(|_, found| !found.is_empty());
    let lines = unsaid.into_iter().map(|(name, found)| {
        format!("link {name}: {}, for which a file has no keys", found.join(", "))
    });
    Ok(lines.collect())
}

/// Returns a link's name, and its differing properties in words.
fn row(family: u8, message: &Message<'_>) -> Option<(String, Vec<String>)> {
    let (header, attrs) = message.split(IFINFOMSG)?;
    let name = read_string(attrs.find(IFLA_IFNAME)?);
    let found = match family {
        AF_BRIDGE => vlans(attrs),
        _ => properties(header, attrs),
    };
    Some((String::from_utf8_lossy(name).into_owned(), found))
}

fn properties(header: &[u8], attrs: Attrs<'_>) -> Vec<String> {
    let info = nested(&attrs, IFLA_LINKINFO);
    let kind = read_string(info.find(IFLA_INFO_KIND).unwrap_or_default());
    let known: &[Attribute] = match kind {
        b"bond" => &BOND,
        b"bridge" => &BRIDGE,
        b"vxlan" => &VXLAN,
        b"macvlan" => &MACVLAN,
        b"vlan" => &VLAN,
        b"" | b"veth" | b"ifb" | b"dummy" | b"vrf" | b"tun" => &[],
        other => {
            return vec![format!("its kind {} and its ends", String::from_utf8_lossy(other))];
        }
    };
    let port: &[Attribute] = match read_string(info.find(IFLA_INFO_SLAVE_KIND).unwrap_or_default())
    {
        b"bridge" => &BRIDGE_PORT,
        b"bond" => &BOND_PORT,
        _ => &[],
    };
    // A physical device's driver decides on its queue and its flags.
    let is_virtual = !matches!(kind, b"" | b"tun" | b"ifb" | b"dummy" | b"vrf");
    let flags = integer(header.get(8..12).unwrap_or_default());
    let mut found = differences(nested(&info, IFLA_INFO_DATA), known);
    found.extend(differences(nested(&info, IFLA_INFO_SLAVE_DATA), port));
    found.extend(differences(attrs.clone(), if is_virtual { &LINK } else { &LINK[1..] }));
    for (is_set, word) in [
        (attrs.find(IFLA_PROP_LIST).is_some(), "altname"),
        (flags & IFF_PROMISC != 0, "promisc on"),
        (flags & IFF_ALLMULTI != 0, "allmulticast on"),
        (is_virtual && flags & IFF_MULTICAST == 0, "multicast off"),
        (is_virtual && flags & IFF_NOARP != 0, "arp off"),
    ] {
        found.extend(is_set.then(|| word.to_owned()));
    }
    found
}

fn nested<'a>(attrs: &Attrs<'a>, number: u16) -> Attrs<'a> {
    Attrs::new(attrs.find(number).unwrap_or_default())
}

/// Returns the attributes that differ from a new link's.
fn differences(attrs: Attrs<'_>, known: &[Attribute]) -> Vec<String> {
    let differences = attrs.filter_map(|(number, payload)| {
        let (_, word, new) = known.iter().find(|(of, ..)| *of == number & NLA_TYPE_MASK)?;
        match payload.len() {
            0 => Some((*word).to_owned()),
            _ if integer(payload) == *new => None,
            1 | 2 | 4 => Some(format!("{word} {}", integer(payload))),
            _ => Some((*word).to_owned()),
        }
    });
    differences.collect()
}

/// Returns the VLANs of a port or a bridge, without the default one.
fn vlans(attrs: Attrs<'_>) -> Vec<String> {
    let spec = nested(&attrs, IFLA_AF_SPEC);
    let mut found = Vec::new();
    for (_, info) in spec.filter(|(number, _)| number & NLA_TYPE_MASK == IFLA_BRIDGE_VLAN_INFO) {
        let Some((flags, id)) = info.split_at_checked(2) else {
            continue;
        };
        let (flags, id) = (integer(flags), integer(id));
        if (id, flags) == (1, PVID_UNTAGGED) {
            continue;
        }
        let mut text = format!("vlan {id}");
        for (bit, word) in [(PVID, " pvid"), (UNTAGGED, " untagged")] {
            text.push_str(if flags & bit != 0 { word } else { "" });
        }
        found.push(text);
    }
    found
}

/// Returns the number in the first bytes, at most four, in this machine's byte order.
fn integer(payload: &[u8]) -> u32 {
    match *payload {
        [] => 0,
        [byte] => byte.into(),
        [a, b] | [a, b, _] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d, ..] => u32::from_ne_bytes([a, b, c, d]),
    }
}
