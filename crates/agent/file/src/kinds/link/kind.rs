//! The kinds of links, with the keys that only some of them have.

use std::net::IpAddr;

use trueup_net::{
    BondAttrs, BondMode, BridgeAttrs, IfName, LinkKind, MacvlanAttrs, MacvlanMode, VethAttrs,
    VlanAttrs, VlanProtocol, VxlanAttrs,
};

use super::{INT_MAX, own_name};
use crate::fields::Fields;
use crate::parse;
use crate::suggest::unknown;
use crate::value::{Result, Table, Value, fault, text};

/// The kinds that a file can name, each with what reads its keys.
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

/// The keys that only some kinds may have, with the names of these.
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

/// Reads the kind, with the keys that only it may have.
pub(super) fn read(fields: &Fields<'_>) -> Result<Option<LinkKind<IfName>>> {
    let name = |value| parse::text(value, "a kind, such as \"bridge\"");
    let name = fields.read("kind", name)?;
    let known = name.map(|name| KINDS.iter().find(|(known, _)| *known == name));
    if let (Some(name), Some(None)) = (name, known) {
        let message = unknown("kind", name, "a link", &KINDS.map(|(name, _)| name));
        let none = if message.ends_with('?') {
            ""
        } else {
            "; leave `kind` out for a link that must exist"
        };
        return fields.fault("kind", message + none);
    }
    check_keys(fields, name)?;
    let read = known.flatten().map(|(_, read)| read(fields));
    read.transpose()
}

/// Checks that each key is one of this kind.
fn check_keys(fields: &Fields<'_>, kind: Option<&str>) -> Result<()> {
    for (key, value) in fields.iter() {
        let Some((key, kinds)) = KEYS_OF_KINDS.iter().find(|(known, _)| *known == key.name) else {
            continue;
        };
        let kinds_text = kinds.join(" and ");
        match kind {
            Some(kind) if kinds.contains(&kind) => {}
            Some(kind) => {
                let message = format!(
                    "`{key}` is for links of kind {kinds_text}, this is a {kind}: leave it out"
                );
                return fault(value.at, message);
            }
            None => {
                let message = format!(
                    "`{key}` is for links of kind {kinds_text}: write kind = \"{}\", or leave \
                     it out",
                    kinds.first().unwrap_or(&""),
                );
                return fault(value.at, message);
            }
        }
    }
    Ok(())
}

fn read_bridge(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    Ok(LinkKind::Bridge(
        BridgeAttrs::default()
            .with_stp(fields.read("stp", parse::flag)?)
            .with_vlan_filtering(fields.read("vlan_filtering", parse::flag)?)
            .with_forward_delay(fields.read("forward_delay", forward_delay)?)
            .with_ageing_time(fields.read("ageing_time", parse::number(0..=u32::MAX))?),
    ))
}

/// Less than two seconds is no delay that a bridge with a spanning tree can have, and one without has
/// no use for it: it was meant in seconds.
fn forward_delay(value: &Value<'_>) -> Result<u32> {
    let delay = parse::number(0..=u32::MAX)(value)?;
    match (1..*BridgeAttrs::STP_FORWARD_DELAY.start()).contains(&delay) {
        false => Ok(delay),
        true => fault(
            value.at,
            format!(
                "{delay} hundredths of a second are less than the 200 that a bridge can have: write \
                 {} for {delay} seconds, or 0 for none",
                delay * 100
            ),
        ),
    }
}

fn read_veth(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let peer = fields.read("peer", own_name)?;
    Ok(LinkKind::Veth(VethAttrs::default().with_peer(peer)))
}

fn read_vlan(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let protocol = |value| one_of(value, "protocol", VlanProtocol::ALL, VlanProtocol::name);
    Ok(LinkKind::Vlan(
        VlanAttrs::new(
            fields.required("link", "link = \"eth0\"", parse::name)?,
            fields.required("id", "id = 100", parse::number(0..=4094))?,
        )
        .with_protocol(fields.read("protocol", protocol)?.unwrap_or_default()),
    ))
}

fn read_macvlan(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let mode = |value| one_of(value, "mode", MacvlanMode::ALL, MacvlanMode::name);
    Ok(LinkKind::Macvlan(
        MacvlanAttrs::new(fields.required("link", "link = \"eth0\"", parse::name)?)
            .with_mode(fields.read("mode", mode)?),
    ))
}

fn read_bond(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let mode = |value| one_of(value, "mode", BondMode::ALL, BondMode::name);
    Ok(LinkKind::Bond(
        BondAttrs::default()
            .with_mode(fields.read("mode", mode)?)
            .with_miimon(fields.read("miimon", parse::number(0..=INT_MAX))?),
    ))
}

fn read_vrf(fields: &Fields<'_>) -> Result<LinkKind<IfName>> {
    let table = parse::table(fields.tables);
    let table = fields.required("table", "table = 100", table)?;
    Ok(LinkKind::Vrf { table })
}

fn one_of<T: Copy>(
    value: &Value<'_>,
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T> {
    let words: Vec<(&str, T)> = all.iter().map(|value| (name(*value), *value)).collect();
    parse::one_of(value, what, &words)
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
    let vxlan = VxlanAttrs::new(fields.required("id", "id = 100", parse::number(0..=0xff_ffff))?)
        .with_local(fields.read("local", parse::address)?)
        .with_remote(remote.or(group))
        .with_port(fields.read("port", parse::number(1..=u16::MAX))?)
        .with_link(fields.read("link", parse::name)?)
        .with_learning(fields.read("learning", parse::flag)?)
        .with_ttl(fields.read("ttl", parse::number(0..=255))?);
    // `vxlan_config_validate` in drivers/net/vxlan/vxlan_core.c.
    if group.is_some() && vxlan.link.is_none() {
        let message = "group_address: a group needs `link`: write link = \"eth0\"";
        return fields.fault("group_address", message);
    }
    let inet6 = |address: Option<IpAddr>| address.map(|address| address.is_ipv6());
    let families = (inet6(vxlan.local), inet6(vxlan.remote));
    if let (Some(local), Some(remote)) = families
        && local != remote
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
        LinkKind::Veth(VethAttrs { peer, .. }) => {
            table.set_some("peer", peer.as_ref().map(parse::name_node))
        }
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
        LinkKind::Ifb | LinkKind::Dummy | LinkKind::Tun | LinkKind::Tap | LinkKind::Other(_) => {}
        // The link is read back afterwards, and reported as one that a file cannot say.
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
