//! `[[link]]`.

use std::net::IpAddr;

use trueup_diff::{
    BondMode, BridgeAttrs, IfName, Kind, Link, LinkKind, MacvlanMode, VlanProtocol, VxlanAttrs,
};

use crate::value::{Fields, Node, Result, Table, Value, fault, unknown};
use crate::{Declared, Form, words};

/// The kinds that a file may name.
const KINDS: [&str; 11] = [
    "bridge", "veth", "vxlan", "vlan", "macvlan", "ifb", "dummy", "bond", "vrf", "tun", "tap",
];

/// The keys that only some kinds take.
const KEYS_OF_KINDS: [(&str, &[&str]); 17] = [
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

/// The longest alias in bytes (`IFALIASZ` less the NUL).
const LONGEST_ALIAS: usize = 255;

/// MTU and intervals are `int`s in the kernel.
const INT_MAX: u32 = i32::MAX as u32;

impl Form for Link<IfName> {
    const KIND: Kind = Kind::Link;
    const WHAT: &'static str = "a link";
    const KEYS: &'static [&'static str] = &[
        "name",
        "kind",
        "up",
        "mtu",
        "address",
        "master",
        "alias",
        "group",
        "peer",
        "id",
        "local",
        "remote",
        "group_address",
        "port",
        "learning",
        "ttl",
        "link",
        "protocol",
        "mode",
        "stp",
        "vlan_filtering",
        "forward_delay",
        "ageing_time",
        "miimon",
        "table",
        "adopt",
    ];
    type Key<'a> = IfName;

    fn list(desired: &mut Declared) -> &mut Option<Vec<Self>> {
        &mut desired.links
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let name = fields.required("name", "name = \"br0\"", own_name)?;
        let kind_word = |value| words::text(value, "a kind, such as \"bridge\"");
        let kind = fields.read("kind", kind_word)?;
        check_keys(fields, kind)?;
        let mut link = Link::must_exist(name);
        link.kind = kind.map(|kind| read_kind(fields, kind)).transpose()?;
        link.up = fields.read("up", words::flag)?;
        link.mtu = fields.read("mtu", words::number(1..=INT_MAX))?;
        link.address = fields.read("address", words::lladdr)?;
        link.master = fields.read("master", master)?;
        link.alias = fields.read("alias", alias)?;
        link.group = fields.read("group", words::number(0..=u32::MAX))?;
        let own = |key: &&str| {
            let value = fields.get(key).map(words::name);
            matches!(value, Some(Ok(other)) if other == name)
        };
        if let Some(key) = ["master", "link", "peer"].into_iter().find(own) {
            let message = format!("{key}: {name} cannot be its own {key}: write another name");
            return fields.fault(key, message);
        }
        Ok(link)
    }

    fn write(&self, table: &mut Table<'static>) {
        table.push("name", words::name_node(&self.name));
        if let Some(kind) = &self.kind {
            table.push("kind", Node::Text(kind.name().to_owned().into()));
            write_kind(kind, table);
        }
        flag(table, "up", self.up);
        number(table, "mtu", self.mtu);
        if let Some(address) = self.address {
            table.push("address", Node::Text(address.to_string().into()));
        }
        if let Some(master) = &self.master {
            let none = Node::Text("".into());
            table.push("master", master.as_ref().map_or(none, words::name_node));
        }
        if let Some(alias) = &self.alias {
            table.push("alias", words::bytes_node(alias));
        }
        number(table, "group", self.group);
    }

    fn plain(&self) -> Self {
        let mut plain = self.clone();
        plain.index = 0;
        // What no file can create must exist.
        plain.kind = plain
            .kind
            .filter(|kind| !matches!(kind, LinkKind::Other(_)));
        plain
    }

    fn key(&self) -> IfName {
        self.name
    }

    fn key_words(&self) -> (String, &'static str) {
        (format!("link {}", self.name), "another name")
    }
}

/// Keys of other kinds are told by the kinds that take them.
fn check_keys(fields: &Fields<'_>, kind: Option<&str>) -> Result<()> {
    if let Some(kind) = kind
        && !KINDS.contains(&kind)
    {
        let message = unknown("kind", kind, "a link", &KINDS);
        let none = "; leave `kind` out for a link that must exist";
        let none = if message.ends_with('?') { "" } else { none };
        return fields.fault("kind", message + none);
    }
    for (key, value) in fields.iter() {
        let Some((key, takers)) = KEYS_OF_KINDS.iter().find(|(known, _)| *known == key.name) else {
            continue;
        };
        let takers_words = takers.join(" and ");
        match kind {
            Some(kind) if takers.contains(&kind) => {}
            Some(kind) => {
                let message = format!(
                    "`{key}` is for links of kind {takers_words}, this is a {kind}: leave it out"
                );
                return fault(value.at, message);
            }
            None => {
                let message = format!(
                    "`{key}` is for links of kind {takers_words}: write kind = \"{}\", or leave \
                     it out",
                    takers.first().unwrap_or(&""),
                );
                return fault(value.at, message);
            }
        }
    }
    Ok(())
}

/// The name of a link that is declared: none that the kernel would make another of.
fn own_name(value: &Value<'_>) -> Result<IfName> {
    let name = words::name(value)?;
    if name.is_template() {
        let message = format!(
            "`{name}` has a `%`, which the kernel takes for a template and replaces by a number: \
             write a name without"
        );
        return fault(value.at, message);
    }
    Ok(name)
}

/// A name, or nothing for "none".
fn master(value: &Value<'_>) -> Result<Option<IfName>> {
    match &value.node {
        Node::Text(text) if text.is_empty() => Ok(None),
        _ => words::name(value).map(Some),
    }
}

fn alias(value: &Value<'_>) -> Result<Box<[u8]>> {
    let alias = words::bytes(value, "an alias as a string")?;
    if alias.len() > LONGEST_ALIAS {
        let message = format!("{} bytes: write {LONGEST_ALIAS} at most", alias.len());
        return fault(value.at, message);
    }
    Ok(alias.into())
}

fn read_kind(fields: &Fields<'_>, kind: &str) -> Result<LinkKind<IfName>> {
    Ok(match kind {
        "bridge" => LinkKind::Bridge(BridgeAttrs {
            stp: fields.read("stp", words::flag)?,
            vlan_filtering: fields.read("vlan_filtering", words::flag)?,
            forward_delay: fields.read("forward_delay", words::number(0..=u32::MAX))?,
            ageing_time: fields.read("ageing_time", words::number(0..=u32::MAX))?,
        }),
        "veth" => LinkKind::Veth {
            peer: fields.read("peer", own_name)?,
        },
        "vxlan" => LinkKind::Vxlan(read_vxlan(fields)?),
        "vlan" => LinkKind::Vlan {
            link: fields.required("link", "link = \"eth0\"", words::name)?,
            id: fields.required("id", "id = 100", words::number(0..=4094))?,
            protocol: fields
                .read("protocol", |value| {
                    one_of(value, "protocol", VlanProtocol::ALL, VlanProtocol::name)
                })?
                .unwrap_or_default(),
        },
        "macvlan" => LinkKind::Macvlan {
            link: fields.required("link", "link = \"eth0\"", words::name)?,
            mode: fields.read("mode", |value| {
                one_of(value, "mode", MacvlanMode::ALL, MacvlanMode::name)
            })?,
        },
        "bond" => LinkKind::Bond {
            mode: fields.read("mode", |value| {
                one_of(value, "mode", BondMode::ALL, BondMode::name)
            })?,
            miimon: fields.read("miimon", words::number(0..=INT_MAX))?,
        },
        "vrf" => LinkKind::Vrf {
            table: fields.required("table", "table = 100", words::table(fields.tables))?,
        },
        "ifb" => LinkKind::Ifb,
        "tun" => LinkKind::Tun,
        "tap" => LinkKind::Tap,
        _ => LinkKind::Dummy,
    })
}

fn one_of<T: Copy>(
    value: &Value<'_>,
    what: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T> {
    let words: Vec<(&str, T)> = all.iter().map(|value| (name(*value), *value)).collect();
    words::one_of(value, what, &words)
}

fn read_vxlan(fields: &Fields<'_>) -> Result<VxlanAttrs<IfName>> {
    let remote = fields.read("remote", words::address)?;
    let group = fields.read("group_address", words::address)?;
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
    let vxlan = VxlanAttrs {
        id: fields.required("id", "id = 100", words::number(0..=0xff_ffff))?,
        local: fields.read("local", words::address)?,
        remote: remote.or(group),
        port: fields.read("port", words::number(1..=u16::MAX))?,
        link: fields.read("link", words::name)?,
        learning: fields.read("learning", words::flag)?,
        ttl: fields.read("ttl", words::number(0..=255))?,
    };
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
        let message = "local: write an address of the family of the other end";
        return fields.fault("local", message);
    }
    Ok(vxlan)
}

fn flag(table: &mut Table<'static>, key: &'static str, flag: Option<bool>) {
    if let Some(flag) = flag {
        table.push(key, Node::Bool(flag));
    }
}

fn number(table: &mut Table<'static>, key: &'static str, number: Option<impl Into<i64>>) {
    if let Some(number) = number {
        table.push(key, Node::Integer(number.into()));
    }
}

fn write_kind(kind: &LinkKind<IfName>, table: &mut Table<'static>) {
    match kind {
        LinkKind::Bridge(bridge) => {
            flag(table, "stp", bridge.stp);
            flag(table, "vlan_filtering", bridge.vlan_filtering);
            number(table, "forward_delay", bridge.forward_delay);
            number(table, "ageing_time", bridge.ageing_time);
        }
        LinkKind::Veth { peer: Some(peer) } => table.push("peer", words::name_node(peer)),
        LinkKind::Vxlan(vxlan) => write_vxlan(vxlan, table),
        LinkKind::Vlan { link, id, protocol } => {
            table.push("link", words::name_node(link));
            number(table, "id", Some(*id));
            if *protocol != VlanProtocol::default() {
                table.push("protocol", Node::Text(protocol.name().into()));
            }
        }
        LinkKind::Macvlan { link, mode } => {
            table.push("link", words::name_node(link));
            if let Some(mode) = mode {
                table.push("mode", Node::Text(mode.name().into()));
            }
        }
        LinkKind::Bond { mode, miimon } => {
            if let Some(mode) = mode {
                table.push("mode", Node::Text(mode.name().into()));
            }
            number(table, "miimon", *miimon);
        }
        LinkKind::Vrf { table: id } => number(table, "table", Some(*id)),
        LinkKind::Veth { peer: None }
        | LinkKind::Ifb
        | LinkKind::Dummy
        | LinkKind::Tun
        | LinkKind::Tap
        | LinkKind::Other(_) => {}
    }
}

fn write_vxlan(vxlan: &VxlanAttrs<IfName>, table: &mut Table<'static>) {
    number(table, "id", Some(vxlan.id));
    if let Some(local) = vxlan.local {
        table.push("local", Node::Text(local.to_string().into()));
    }
    if let Some(remote) = vxlan.remote {
        let key = if remote.is_multicast() {
            "group_address"
        } else {
            "remote"
        };
        table.push(key, Node::Text(remote.to_string().into()));
    }
    number(table, "port", vxlan.port);
    if let Some(link) = &vxlan.link {
        table.push("link", words::name_node(link));
    }
    flag(table, "learning", vxlan.learning);
    number(table, "ttl", vxlan.ttl);
}
