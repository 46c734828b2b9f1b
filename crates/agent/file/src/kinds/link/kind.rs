//! The kinds of links, with the keys that only some of them have.

use trueup_net::{
    BondAttrs, BondMode, BridgeAttrs, IfName, LinkKind, MacvlanAttrs, MacvlanMode, VlanAttrs,
    VlanProtocol, VxlanAttrs,
};

use super::{INT_MAX, own_name};
use crate::fields::Fields;
use crate::parse;
use crate::suggest::unknown;
use crate::value::{Result, Table, Value, fault, text};

/// The kinds that a file can name, each with the function that reads its keys.
const KINDS: [(&str, ReadKind); 11] = [
    ("bridge", read_bridge),
    ("veth", read_veth),
    ("vxlan", read_vxlan),
    ("vlan", read_vlan),
    ("macvlan", read_macvlan),
    ("ifb", |_| Ok(LinkKind::Ifb)),
    ("dummy", |_| Ok(LinkKind::Dummy)),
    ("bond", read_bond),
    ("vrf", read_vrf),
    ("tun", |_| Ok(LinkKind::Tun)),
    ("tap", |_| Ok(LinkKind::Tap)),
];

type ReadKind = fn(&Fields<'_>) -> Result<LinkKind<IfName>>;

/// The keys that only some kinds may have, with these kinds' names.
pub(super) const KEYS_OF_KINDS: [(&str, &[&str]); 17] = [
    ("peer", &["veth"]),
    ("id", &["vxlan", "vlan"]),
    ("local", &["vxlan"]),
    ("remote", &["vxlan"]),
    ("group_address", &["vxlan"]),
    ("port", &["vxlan"]),
    ("learning", &["vxlan"]),
    ("ttl", &["vxlan"]),
    ("link", &["vxlan", "vlan", "macvlan"]),
    ("protocol", &["vlan"]),
    ("mode", &["macvlan", "bond"]),
    ("stp", &["bridge"]),
    ("vlan_filtering", &["bridge"]),
    ("forward_delay", &["bridge"]),
    ("ageing_time", &["bridge"]),
    ("miimon", &["bond"]),
    ("table", &["vrf"]),
];

/// Reads the kind and its own keys.
pub(super) fn read(fields: &Fields<'_>) -> Result<Option<LinkKind<IfName>>> {
    let name = fields.read("kind", |value| parse::text(value, "a kind, such as \"bridge\""))?;
    let known = name.and_then(|name| KINDS.iter().find(|(known, _)| *known == name));
    if let (Some(name), None) = (name, known) {
        let mut message = unknown("kind", name, "a link", &KINDS.map(|(name, _)| name));
        if !message.ends_with('?') {
            message += "; leave `kind` out for a link that must exist";
        }
        return fields.fault("kind", message);
    }
    check_keys(fields, name)?;
    known.map(|(_, read)| read(fields)).transpose()
}

/// Checks that each key belongs to this kind.
fn check_keys(fields: &Fields<'_>, kind: Option<&str>) -> Result<()> {
    for (key, value) in fields.iter() {
        let Some((key, kinds)) = KEYS_OF_KINDS.iter().find(|(known, _)| *known == key.name) else {
            continue;
        };
        if kind.is_some_and(|kind| kinds.contains(&kind)) {
            continue;
        }
        let remedy = match kind {
            Some(kind) => format!(", this is a {kind}: leave it out"),
            None => format!(": write kind = \"{}\", or leave it out", kinds[0]),
        };
        let message = format!("`{key}` is for links of kind {}{remedy}", kinds.join(" and "));
        return fault(value.at, message);
    }
    Ok(())
}

fn read_bridge(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let mut bridge = BridgeAttrs::default();
    bridge.stp = fields.read("stp", parse::flag)?;
    bridge.vlan_filtering = fields.read("vlan_filtering", parse::flag)?;
    bridge.forward_delay = fields.read("forward_delay", forward_delay)?;
    bridge.ageing_time = fields.read("ageing_time", parse::number(0..=u32::MAX))?;
    Ok(LinkKind::Bridge(bridge))
}

/// Less than two seconds is not a valid delay for a bridge with a spanning tree, and a bridge
/// without one has no use for a delay. The value was probably meant in seconds.
fn forward_delay(value: &Value<'_>) -> Result<u32> {
    let delay = parse::number(0..=u32::MAX)(value)?;
    if !(1..*BridgeAttrs::STP_FORWARD_DELAY.start()).contains(&delay) {
        return Ok(delay);
    }
    let message = format!(
        "{delay} hundredths of a second are less than the 200 that a bridge can have: write {} for \
         {delay} seconds, or 0 for none",
        delay * 100
    );
    fault(value.at, message)
}

fn read_veth(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let peer = fields.read("peer", own_name)?;
    Ok(peer.map_or_else(LinkKind::veth_without_peer, LinkKind::veth))
}

fn read_vlan(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let link = fields.required("link", "link = \"eth0\"", parse::name)?;
    let id = fields.required("id", "id = 100", parse::number(0..=4094))?;
    let protocol = one_of(fields, "protocol", VlanProtocol::ALL, VlanProtocol::name)?;
    Ok(LinkKind::Vlan(VlanAttrs::new(link, id).with_protocol(protocol.unwrap_or_default())))
}

fn read_macvlan(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let link = fields.required("link", "link = \"eth0\"", parse::name)?;
    let mut macvlan = MacvlanAttrs::new(link);
    macvlan.mode = one_of(fields, "mode", MacvlanMode::ALL, MacvlanMode::name)?;
    Ok(LinkKind::Macvlan(macvlan))
}

fn read_bond(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let mut bond = BondAttrs::default();
    bond.mode = one_of(fields, "mode", BondMode::ALL, BondMode::name)?;
    bond.miimon = fields.read("miimon", parse::number(0..=INT_MAX))?;
    Ok(LinkKind::Bond(bond))
}

fn read_vrf(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let table = fields.required("table", "table = 100", parse::table(fields.tables))?;
    Ok(LinkKind::Vrf { table })
}

fn one_of<T: Copy>(
    fields: &Fields<'_>,
    key: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Option<T>> {
    let words: Vec<(&str, T)> = all.iter().map(|value| (name(*value), *value)).collect();
    fields.read(key, |value| parse::one_of(value, key, &words))
}

fn read_vxlan(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let remote = fields.read("remote", parse::address)?;
    let group = fields.read("group_address", parse::address)?;
    if remote.is_some() && group.is_some() {
        return fields.fault(
            "group_address",
            "`remote` and `group_address` exclude each other: leave one out",
        );
    }
    if remote.is_some_and(|remote| remote.is_multicast()) {
        let message = "remote: a multicast group: write it as `group_address`";
        return fields.fault("remote", message);
    }
    if group.is_some_and(|group| !group.is_multicast()) {
        let message = "group_address: not a multicast group: write it as `remote`";
        return fields.fault("group_address", message);
    }
    let mut vxlan =
        VxlanAttrs::new(fields.required("id", "id = 100", parse::number(0..=0xff_ffff))?);
    vxlan.local = fields.read("local", parse::address)?;
    vxlan.remote = remote.or(group);
    vxlan.port = fields.read("port", parse::number(1..=u16::MAX))?;
    vxlan.learning = fields.read("learning", parse::flag)?;
    vxlan.ttl = fields.read("ttl", parse::number(0..=255))?;
    vxlan.link = fields.read("link", parse::name)?;
    // `vxlan_config_validate` in drivers/net/vxlan/vxlan_core.c.
    if group.is_some() && vxlan.link.is_none() {
        let message = "group_address: a group needs `link`: write link = \"eth0\"";
        return fields.fault("group_address", message);
    }
    if let (Some(local), Some(remote)) = (vxlan.local, vxlan.remote)
        && local.is_ipv6() != remote.is_ipv6()
    {
        let message = "local: the other end has another family: write an address of that family";
        return fields.fault("local", message);
    }
    Ok(LinkKind::Vxlan(vxlan))
}

pub(super) fn write(kind: &LinkKind<IfName>, table: &mut Table<'static>) {
    match kind {
        LinkKind::Bridge(bridge) => {
            table.set_some("stp", bridge.stp);
            table.set_some("vlan_filtering", bridge.vlan_filtering);
            table.set_some("forward_delay", bridge.forward_delay);
            table.set_some("ageing_time", bridge.ageing_time);
        }
        LinkKind::Veth { peer, .. } => table.set_some("peer", peer.as_ref().map(parse::name_node)),
        LinkKind::Vxlan(vxlan) => write_vxlan(vxlan, table),
        LinkKind::Vlan(VlanAttrs { link, id, protocol, .. }) => {
            table.set("link", parse::name_node(link));
            table.set("id", u32::from(*id));
            if *protocol != VlanProtocol::default() {
                table.set("protocol", text(protocol.name()));
            }
        }
        LinkKind::Macvlan(MacvlanAttrs { link, mode, .. }) => {
            table.set("link", parse::name_node(link));
            table.set_some("mode", mode.map(|mode| text(mode.name())));
        }
        LinkKind::Bond(BondAttrs { mode, miimon, .. }) => {
            table.set_some("mode", mode.map(|mode| text(mode.name())));
            table.set_some("miimon", *miimon);
        }
        LinkKind::Vrf { table: id } => table.set("table", *id),
        // Kinds without keys. A link of any other kind is read back afterwards, and reported as one
        // that a file cannot express.
        _ => {}
    }
}

fn write_vxlan(vxlan: &VxlanAttrs<IfName>, table: &mut Table<'static>) {
    table.set("id", vxlan.id);
    table.set_some("local", vxlan.local.map(text));
    if let Some(remote) = vxlan.remote {
        let key = if remote.is_multicast() { "group_address" } else { "remote" };
        table.set(key, text(remote));
    }
    table.set_some("port", vxlan.port.map(u32::from));
    table.set_some("link", vxlan.link.as_ref().map(parse::name_node));
    table.set_some("learning", vxlan.learning);
    table.set_some("ttl", vxlan.ttl.map(u32::from));
}
