//! The state expected of the kernel, derived from the desired state: the rules of iproute2 and the
//! kernel's canonical form, written a second time, apart from the model under test.

use std::net::IpAddr;

use trueup_net::{
    Address, Family, IfName, Link, LinkKind, MacvlanAttrs, Neighbour, NeighbourState, NextHop,
    NextHops, Route, RouteType, Rule, RuleAction,
};
use trueup_testkit::fields::{Fields, Hop, hops, is_reject};

/// Returns true if a row is as expected. A field without an expectation must be absent, unless
/// `open`: for links and for other writers' objects any value is right.
pub fn matches(expected: &Fields, row: &Fields, open: bool) -> bool {
    let agrees = |(field, value): (&&'static str, &String)| {
        let seen = row.get(field).map_or("", String::as_str);
        let number = |text: &str| text.parse().unwrap_or(0_u32);
        match *field {
            "valid" | "preferred" if open && number(value) == u32::MAX => return true,
            "flags" if open => return number(value) & !number(seen) == 0,
            "metrics" if open => {
                return value.split_terminator(' ').all(|it| seen.split(' ').any(|is| is == it));
            }
            _ => {}
        }
        match value.strip_prefix("left of ") {
            // A lifetime counts down, and is renewed before half of it is over.
            Some(given) => {
                let given: u32 = given.parse().unwrap();
                let left: u32 = seen.parse().unwrap_or(0);
                left <= given && left > given / 2
            }
            None => value == seen,
        }
    };
    let covered = |field: &&'static str| {
        expected.contains_key(field)
            || (*field == "gateways" && expected.contains_key("hops"))
            || (*field == "hops" && expected.contains_key("gateways"))
    };
    expected.iter().all(agrees) && (open || row.keys().all(covered))
}

fn flag(fields: &mut Fields, name: &'static str, set: bool) {
    if set {
        fields.insert(name, "yes".to_owned());
    }
}

fn put(fields: &mut Fields, name: &'static str, value: Option<impl ToString>) {
    if let Some(value) = value {
        fields.insert(name, value.to_string());
    }
}

pub fn link(link: &Link<IfName>) -> Fields {
    let mut fields = Fields::new();
    fields.insert("name", link.name.to_string());
    put(&mut fields, "up", link.up);
    put(&mut fields, "mtu", link.mtu);
    put(&mut fields, "lladdr", link.address);
    put(
        &mut fields,
        "group",
        link.group.map(|g| match g {
            0 => String::new(),
            g => g.to_string(),
        }),
    );
    put(
        &mut fields,
        "master",
        link.master.map(|master| master.map_or("none".to_owned(), |m| m.to_string())),
    );
    let alias = link.alias.as_ref().map(|a| String::from_utf8_lossy(a));
    put(&mut fields, "alias", alias);
    put(&mut fields, "kind", link.kind.as_ref().map(LinkKind::name));
    match &link.kind {
        Some(LinkKind::Bridge(bridge)) => {
            put(&mut fields, "stp", bridge.stp.map(u32::from));
            put(&mut fields, "ageing", bridge.ageing_time);
        }
        Some(LinkKind::Veth { peer, .. }) => put(&mut fields, "lower", *peer),
        Some(LinkKind::Vxlan(vxlan)) => {
            put(&mut fields, "id", Some(vxlan.id));
            put(&mut fields, "port", vxlan.port);
            put(&mut fields, "local", vxlan.local);
            put(&mut fields, "remote", vxlan.remote);
            put(&mut fields, "ttl", vxlan.ttl);
            put(&mut fields, "learning", vxlan.learning.map(u32::from));
        }
        Some(LinkKind::Macvlan(MacvlanAttrs { link, mode, .. })) => {
            put(&mut fields, "lower", Some(link));
            put(&mut fields, "mode", mode.map(|mode| mode.number()));
        }
        _ => {}
    }
    fields
}

pub fn address(address: &Address<IfName>) -> Fields {
    let v4 = address.family() == Family::Inet;
    let mut fields = Fields::new();
    fields.insert("dev", address.dev.to_string());
    fields.insert("address", address.address.to_string());
    let peer = address.peer.filter(|peer| *peer != address.address.ip());
    put(&mut fields, "peer", peer);
    if v4 {
        let label = address.label.as_ref().map(ToString::to_string);
        let own = address.dev.to_string();
        put(&mut fields, "label", label.filter(|label| *label != own));
        put(&mut fields, "scope", Some(address.scope.0).filter(|s| *s != 0));
        put(&mut fields, "broadcast", address.broadcast);
    }
    put(&mut fields, "flags", Some(address.flags.bits()).filter(|f| *f != 0));
    put(&mut fields, "metric", Some(address.metric).filter(|m| *m != 0));
    let lifetime = |given| match given {
        0 | u32::MAX => given.to_string(),
        given => format!("left of {given}"),
    };
    fields.insert("preferred", lifetime(address.lifetimes.preferred));
    fields.insert("valid", lifetime(address.lifetimes.valid));
    fields
}

pub fn neighbour(neighbour: &Neighbour<IfName>) -> Fields {
    let mut fields = Fields::new();
    fields.insert("dev", neighbour.dev.to_string());
    fields.insert("dst", neighbour.dst.to_string());
    flag(&mut fields, "router", neighbour.router);
    flag(&mut fields, "proxy", neighbour.proxy);
    if !neighbour.proxy {
        put(&mut fields, "lladdr", neighbour.lladdr);
        flag(&mut fields, "ext_learn", neighbour.ext_learn);
        let state = match neighbour.state {
            NeighbourState::Permanent => "permanent",
            NeighbourState::NoArp => "noarp",
            NeighbourState::Dynamic => "dynamic",
        };
        fields.insert("state", state.to_owned());
    }
    fields
}

fn type_number(kind: RouteType) -> u8 {
    match kind {
        RouteType::Unicast => 1,
        RouteType::Local => 2,
        RouteType::Blackhole => 6,
        RouteType::Unreachable => 7,
        RouteType::Prohibit => 8,
        RouteType::Throw => 9,
        other => panic!("the generator makes no {other:?}"),
    }
}

pub fn route(route: &Route<IfName>) -> Fields {
    let v4 = route.family() == Family::Inet;
    let kind = type_number(route.kind);
    let mut fields = Fields::new();
    fields.insert("dst", route.dst.to_string());
    put(&mut fields, "from", route.from.filter(|from| from.len() != 0));
    put(&mut fields, "tos", Some(route.tos).filter(|tos| *tos != 0));
    fields.insert("table", route.table.to_string());
    // IP6_RT_PRIO_USER
    let metric = if v4 || route.metric != 0 { route.metric } else { 1024 };
    put(&mut fields, "metric", Some(metric).filter(|m| *m != 0));
    fields.insert("type", kind.to_string());
    put(&mut fields, "src", route.src);
    let metrics: String = route.metrics.iter().map(|(m, v)| format!("{}={v} ", m as u16)).collect();
    put(&mut fields, "metrics", Some(metrics).filter(|m| !m.is_empty()));
    let list: &[NextHop<IfName>] = match &route.nexthops {
        NextHops::None | NextHops::Object(..) => &[],
        NextHops::One(hop) => std::slice::from_ref(hop),
        NextHops::Many(hops) => hops,
        other => panic!("{other:?}"),
    };
    if v4 {
        let direct = list.iter().all(|hop| hop.via.is_none());
        let scope = match route.kind {
            RouteType::Local => 254,
            RouteType::Unicast if direct => 253,
            _ => 0,
        };
        let scope = route.scope.map_or(scope, |scope| scope.0);
        put(&mut fields, "scope", Some(scope).filter(|s| *s != 0));
    }
    if is_reject(kind) {
        return fields;
    }
    let alone = list.len() == 1;
    let leg = |hop: &NextHop<IfName>| -> Hop {
        let via = hop.via.map_or("-".to_owned(), |via: IpAddr| via.to_string());
        let dev = hop.dev.map_or("*".to_owned(), |dev| dev.to_string());
        let weight = if alone { 1 } else { u32::from(hop.weight) };
        (via, dev, weight, hop.onlink)
    };
    let (all, gateways) = hops(list.iter().map(leg).collect());
    if list.iter().any(|hop| hop.dev.is_none()) {
        fields.insert("gateways", gateways);
    } else {
        fields.insert("hops", all);
    }
    fields
}

pub fn rule(rule: &Rule) -> Fields {
    let mut fields = Fields::new();
    let family = if rule.family == Family::Inet { 2 } else { 10 };
    fields.insert("family", family.to_string());
    fields.insert("priority", rule.priority.to_string());
    // FR_ACT_*
    let (action, table, goto) = match rule.action {
        RuleAction::Lookup(table) => (1, table, 0),
        RuleAction::Goto(target) => (2, 0, target),
        RuleAction::Nop => (3, 0, 0),
        RuleAction::Blackhole => (6, 0, 0),
        RuleAction::Unreachable => (7, 0, 0),
        RuleAction::Prohibit => (8, 0, 0),
        other => panic!("{other:?}"),
    };
    fields.insert("action", action.to_string());
    let nonzero = |n: u32| Some(n).filter(|n| *n != 0);
    put(&mut fields, "table", nonzero(table));
    put(&mut fields, "goto", nonzero(goto));
    flag(&mut fields, "not", rule.not);
    put(&mut fields, "from", rule.from.filter(|n| n.prefix() != 0));
    put(&mut fields, "to", rule.to.filter(|n| n.prefix() != 0));
    put(&mut fields, "iif", rule.iif);
    put(&mut fields, "oif", rule.oif);
    put(&mut fields, "tos", nonzero(rule.tos.into()));
    let mark = rule.fwmark.map(|fw| format!("{}/{:#x}", fw.mark, fw.mask));
    put(&mut fields, "fwmark", mark);
    put(&mut fields, "ipproto", nonzero(rule.ipproto.unwrap_or(0).into()));
    let ports =
        |p: Option<trueup_net::NumberRange<u16>>| p.map(|p| format!("{}-{}", p.start, p.end));
    put(&mut fields, "sport", ports(rule.sport));
    put(&mut fields, "dport", ports(rule.dport));
    put(&mut fields, "uidrange", rule.uidrange.map(|u| format!("{}-{}", u.start, u.end)));
    put(&mut fields, "l3mdev", nonzero(rule.l3mdev.into()));
    put(&mut fields, "suppress_prefixlength", rule.suppress_prefixlength);
    put(&mut fields, "suppress_ifgroup", rule.suppress_ifgroup);
    fields
}
