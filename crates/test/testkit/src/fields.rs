//! Reads the kernel's rows as text fields, from raw bytes. It shares no code with the codecs under
//! test: the numbers here are from the kernel's headers.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{Kind, RawMessage};
use crate::wire::raw_dump;

/// The protocol number with which trueup marks its objects.
pub const OURS: u8 = 116;

/// Names of interfaces by index.
pub type Names = BTreeMap<u32, String>;

/// A row's fields by name. Fields at their default are left out.
pub type Fields = BTreeMap<&'static str, String>;

/// Returns the names of the interfaces in the calling thread's namespace.
pub fn names() -> Names {
    let links = raw_dump(Kind::Link, 0);
    let named = links.iter().map(|row| (row.device(), row.ifname().unwrap()));
    named.collect()
}

/// Returns the fields of a row; empty for a nexthop object.
pub fn fields(row: &RawMessage, names: &Names) -> Fields {
    let mut fields = Fields::new();
    match row.kind {
        Kind::Link => link(row, names, &mut fields),
        Kind::Address => address(row, names, &mut fields),
        Kind::Neighbour => neighbour(row, names, &mut fields),
        Kind::Route => route(row, names, &mut fields),
        Kind::Rule => rule(row, &mut fields),
        Kind::Nexthop => {}
    }
    fields.retain(|_, value| !value.is_empty());
    fields
}

/// Writes a row as one line: `kind`, then the fields.
pub fn line(kind: &str, fields: &Fields) -> String {
    let words: Vec<_> = fields.iter().map(|(k, v)| format!("{k} {v}")).collect();
    format!("{kind} {}", words.join(", "))
}

fn ip(bytes: &[u8]) -> String {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(four).to_string();
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(sixteen) => Ipv6Addr::from(sixteen).to_string(),
        Err(_) => format!("{bytes:?}"),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn nested(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut all = Vec::new();
    while bytes.len() >= 4 {
        let len = usize::from(u16_at(bytes, 0));
        all.push((u16_at(bytes, 2) & 0x3fff, bytes[4..len].to_vec()));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
    }
    all
}

fn named(names: &Names, index: u32) -> String {
    match names.get(&index) {
        Some(name) => name.clone(),
        None => format!("#{index}"),
    }
}

fn nonzero(number: u32) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

fn flag(set: bool) -> String {
    if set { "yes".to_owned() } else { String::new() }
}

fn link(row: &RawMessage, names: &Names, fields: &mut Fields) {
    let attr = |number| row.attrs.get(&number);
    fields.insert("name", row.ifname().unwrap_or_default());
    fields.insert("up", (u32_at(&row.header, 8) & 1 != 0).to_string());
    fields.insert("mtu", nonzero(row.attr_u32(4).unwrap_or(0)));
    fields.insert("lladdr", attr(1).map(|a| hex(a)).unwrap_or_default());
    let master = row.attr_u32(10).map(|index| named(names, index));
    fields.insert("master", master.unwrap_or_else(|| "none".to_owned()));
    fields.insert("alias", attr(20).map(|a| text(a)).unwrap_or_default());
    fields.insert("group", nonzero(row.attr_u32(27).unwrap_or(0)));
    let lower = row.attr_u32(5).filter(|index| *index != 0);
    fields.insert("lower", lower.map(|i| named(names, i)).unwrap_or_default());
    let info = attr(18).map(|info| nested(info)).unwrap_or_default();
    let kind = info.iter().find(|(n, _)| *n == 1).map(|(_, v)| text(v));
    let data: BTreeMap<u16, Vec<u8>> = info
        .iter()
        .find(|(n, _)| *n == 2)
        .map(|(_, v)| nested(v))
        .unwrap_or_default()
        .into_iter()
        .collect();
    let number = |n: u16| data.get(&n).filter(|v| v.len() == 4).map(|v| u32_at(v, 0));
    match kind.as_deref() {
        Some("bridge") => {
            // IFLA_BR_AGEING_TIME, IFLA_BR_STP_STATE
            fields.insert("ageing", number(4).unwrap_or(0).to_string());
            fields.insert("stp", number(5).unwrap_or(0).to_string());
        }
        Some("vxlan") => {
            // IFLA_VXLAN_ID, _GROUP, _LOCAL, _TTL, _LEARNING, _PORT
            fields.insert("id", number(1).unwrap_or(0).to_string());
            fields.insert("remote", data.get(&2).map(|a| ip(a)).unwrap_or_default());
            fields.insert("local", data.get(&4).map(|a| ip(a)).unwrap_or_default());
            fields.insert("ttl", data.get(&5).map_or(0, |a| a[0]).to_string());
            fields.insert("learning", data.get(&7).map_or(0, |a| a[0]).to_string());
            let port = data.get(&15).map(|a| u16::from_be_bytes([a[0], a[1]]));
            fields.insert("port", port.unwrap_or(0).to_string());
        }
        Some("macvlan") => _ = fields.insert("mode", number(1).unwrap_or(0).to_string()),
        _ => {}
    }
    fields.insert("kind", kind.unwrap_or_default());
}

fn address(row: &RawMessage, names: &Names, fields: &mut Fields) {
    let attr = |number: u16| row.attrs.get(&number);
    let v4 = row.family() == 2;
    let remote = attr(1).map(|a| ip(a)).unwrap_or_default();
    let local = attr(2).map(|a| ip(a)).unwrap_or_else(|| remote.clone());
    let dev = named(names, row.device());
    fields.insert("peer", if remote == local { String::new() } else { remote });
    fields.insert("address", format!("{local}/{}", row.header[1]));
    let label = attr(3).map(|label| text(label)).unwrap_or_default();
    fields.insert("label", if label == dev { String::new() } else { label });
    fields.insert("dev", dev);
    if v4 {
        fields.insert("scope", nonzero(row.header[3].into()));
        fields.insert("broadcast", attr(4).map(|a| ip(a)).unwrap_or_default());
    }
    let flags = row.attr_u32(8).unwrap_or(u32::from(row.header[2]));
    fields.insert("flags", nonzero(flags & 0x712));
    fields.insert("metric", nonzero(row.attr_u32(9).unwrap_or(0)));
    let life = attr(6).map_or((u32::MAX, u32::MAX), |c| (u32_at(c, 0), u32_at(c, 4)));
    fields.insert("preferred", life.0.to_string());
    fields.insert("valid", life.1.to_string());
    fields.insert("proto", nonzero(row.protocol().unwrap_or(0).into()));
}

fn neighbour(row: &RawMessage, names: &Names, fields: &mut Fields) {
    let attr = |number: u16| row.attrs.get(&number);
    let flags = row.header[10];
    let proxy = flags & 8 != 0;
    fields.insert("dev", named(names, row.device()));
    fields.insert("dst", attr(1).map(|a| ip(a)).unwrap_or_default());
    fields.insert("proxy", flag(proxy));
    fields.insert("router", flag(flags & 0x80 != 0));
    fields.insert("proto", nonzero(row.protocol().unwrap_or(0).into()));
    if !proxy {
        fields.insert("lladdr", attr(2).map(|a| hex(a)).unwrap_or_default());
        fields.insert("ext_learn", flag(flags & 0x10 != 0));
        let state = match u16_at(&row.header, 8) {
            state if state & 0x80 != 0 => "permanent",
            state if state & 0x40 != 0 => "noarp",
            _ => "dynamic",
        };
        fields.insert("state", state.to_owned());
    }
}

/// A next hop: gateway, device, weight, and true if it is on link.
pub type Hop = (String, String, u32, bool);

/// Writes next hops as text, sorted: with their devices, and without.
pub fn hops(mut hops: Vec<Hop>) -> (String, String) {
    let show = |hops: &[Hop], dev: bool| {
        let one = |(via, d, weight, onlink): &Hop| {
            let d = if dev { d.as_str() } else { "*" };
            let onlink = if *onlink { " onlink" } else { "" };
            format!("[via {via} dev {d} weight {weight}{onlink}]")
        };
        let mut all: Vec<_> = hops.iter().map(one).collect();
        all.sort();
        all.concat()
    };
    hops.sort();
    (show(&hops, true), show(&hops, false))
}

/// Returns true for the `rtm_type` of a blackhole, unreachable, prohibit or throw route (6 to 9).
pub fn is_reject(kind: u8) -> bool {
    (6..=9).contains(&kind)
}

fn route(row: &RawMessage, names: &Names, fields: &mut Fields) {
    let attr = |number: u16| row.attrs.get(&number);
    let [family, dst_len, src_len, tos, _, protocol, scope, kind] = row.header[..8] else {
        return;
    };
    let any = if family == 2 { "0.0.0.0" } else { "::" };
    let prefix = |number, len| {
        let address = attr(number).map_or(any.to_owned(), |a| ip(a));
        format!("{address}/{len}")
    };
    fields.insert("dst", prefix(1, dst_len));
    if src_len != 0 {
        fields.insert("from", prefix(2, src_len));
    }
    fields.insert("tos", nonzero(tos.into()));
    fields.insert("table", row.table().unwrap_or(0).to_string());
    fields.insert("metric", nonzero(row.attr_u32(6).unwrap_or(0)));
    fields.insert("type", kind.to_string());
    fields.insert("proto", protocol.to_string());
    fields.insert("scope", nonzero(scope.into()));
    fields.insert("src", attr(7).map(|a| ip(a)).unwrap_or_default());
    let metrics = attr(8).map(|metrics| nested(metrics)).unwrap_or_default();
    let shown = metrics.iter().map(|(n, v)| format!("{n}={} ", u32_at(v, 0)));
    fields.insert("metrics", shown.collect());
    fields.insert("nhid", nonzero(row.attr_u32(30).unwrap_or(0)));
    if is_reject(kind) {
        return;
    }
    let via = |attrs: &BTreeMap<u16, Vec<u8>>| match (attrs.get(&5), attrs.get(&18)) {
        (Some(gateway), _) => ip(gateway),
        (None, Some(via)) => ip(&via[2..]),
        (None, None) => "-".to_owned(),
    };
    let mut legs: Vec<Hop> = Vec::new();
    match attr(9) {
        None if row.device() == 0 => {}
        None => {
            let onlink = row.header[8] & 4 != 0;
            legs.push((via(&row.attrs), named(names, row.device()), 1, onlink));
        }
        Some(all) => {
            let mut rest = all.as_slice();
            while rest.len() >= 8 {
                let len = usize::from(u16_at(rest, 0));
                let attrs = nested(&rest[8..len]).into_iter().collect();
                let dev = named(names, u32_at(rest, 4));
                legs.push((via(&attrs), dev, u32::from(rest[3]) + 1, rest[2] & 4 != 0));
                rest = rest.get(len.next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
    }
    let (hops, gateways) = hops(legs);
    fields.insert("hops", hops);
    fields.insert("gateways", gateways);
}

fn rule(row: &RawMessage, fields: &mut Fields) {
    let attr = |number: u16| row.attrs.get(&number);
    let number = |n: u16| row.attr_u32(n).unwrap_or(0);
    let [family, dst_len, src_len, tos, ..] = row.header[..] else {
        return;
    };
    let any = if family == 2 { "0.0.0.0" } else { "::" };
    let prefix = |n, len: u8| {
        let address = attr(n).map_or(any.to_owned(), |a| ip(a));
        if len == 0 { String::new() } else { format!("{address}/{len}") }
    };
    fields.insert("family", family.to_string());
    fields.insert("to", prefix(1, dst_len));
    fields.insert("from", prefix(2, src_len));
    fields.insert("tos", nonzero(tos.into()));
    fields.insert("priority", number(6).to_string());
    fields.insert("action", row.header[7].to_string());
    fields.insert("not", flag(row.header[8] & 2 != 0));
    fields.insert("table", nonzero(row.table().unwrap_or(0)));
    fields.insert("goto", nonzero(number(4)));
    fields.insert("iif", attr(3).map(|name| text(name)).unwrap_or_default());
    fields.insert("oif", attr(17).map(|name| text(name)).unwrap_or_default());
    if (number(10), number(16)) != (0, 0) {
        fields.insert("fwmark", format!("{}/{:#x}", number(10), number(16)));
    }
    let byte = |n: u16| nonzero(attr(n).map_or(0, |v| v[0].into()));
    fields.insert("l3mdev", byte(19));
    fields.insert("proto", byte(21));
    fields.insert("ipproto", byte(22));
    let ports = |n: u16| {
        let range = attr(n).map(|v| format!("{}-{}", u16_at(v, 0), u16_at(v, 2)));
        range.unwrap_or_default()
    };
    fields.insert("sport", ports(23));
    fields.insert("dport", ports(24));
    let uids = attr(20).map(|v| format!("{}-{}", u32_at(v, 0), u32_at(v, 4)));
    fields.insert("uidrange", uids.unwrap_or_default());
    let unless = |n: u16| row.attr_u32(n).filter(|v| *v != u32::MAX);
    let suppress = |n| unless(n).map(|v| v.to_string()).unwrap_or_default();
    fields.insert("suppress_prefixlength", suppress(14));
    fields.insert("suppress_ifgroup", suppress(13));
}

/// Returns true for a forwarding entry that the kernel neither made nor learnt: for a bridge, an
/// entry with `NUD_NOARP`; for a VXLAN, any entry with a destination (`NDA_DST`).
pub fn is_static_entry(row: &RawMessage) -> bool {
    row.header[8] & 0x40 != 0 || row.attrs.contains_key(&1)
}
