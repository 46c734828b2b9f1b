//! `[[route]]`.

use std::net::IpAddr;

use trueup_diff::{
    Family, IfName, Kind, Metric, Metrics, NextHop, NextHops, Prefix, Route, RouteType, table,
};

use crate::value::{Fields, Node, Result, Table, Value, fault};
use crate::{Declared, Form, words};

/// The types that a file may name.
const TYPES: [(&str, RouteType); 6] = [
    ("unicast", RouteType::Unicast),
    ("blackhole", RouteType::Blackhole),
    ("unreachable", RouteType::Unreachable),
    ("prohibit", RouteType::Prohibit),
    ("throw", RouteType::Throw),
    ("local", RouteType::Local),
];

const HOP_KEYS: [&str; 4] = ["via", "dev", "weight", "onlink"];

/// The bit of `congctl` in the mask of locked metrics (`RTAX_CC_ALGO`).
const CONGCTL: u32 = 16;

impl Form for Route<IfName> {
    const KIND: Kind = Kind::Route;
    const WHAT: &'static str = "a route";
    const KEYS: &'static [&'static str] = &[
        "dst",
        "family",
        "type",
        "via",
        "dev",
        "onlink",
        "nexthops",
        "src",
        "from",
        "metric",
        "table",
        "tos",
        "scope",
        "mtu",
        "window",
        "rtt",
        "rttvar",
        "ssthresh",
        "cwnd",
        "advmss",
        "reordering",
        "hoplimit",
        "initcwnd",
        "features",
        "rto_min",
        "initrwnd",
        "quickack",
        "fastopen_no_cookie",
        "congctl",
        "adopt",
    ];
    type Key<'a> = (u32, Prefix, u32, u8, Option<Prefix>);

    fn list(desired: &mut Declared) -> &mut Option<Vec<Self>> {
        &mut desired.routes
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let type_word = |value: &Value<'_>| words::one_of(value, "type", &TYPES);
        let kind = fields.read("type", type_word)?.unwrap_or_default();
        let src = fields.read("src", words::address)?;
        let from = fields.read("from", words::prefix)?;
        let nexthops = nexthops(fields, kind)?;
        let dst = destination(fields, nexthops.as_slice(), src, from)?;
        let route = Route {
            table: fields
                .read("table", words::table(fields.tables))?
                .unwrap_or(table::MAIN),
            metric: fields
                .read("metric", words::number(0..=u32::MAX))?
                .unwrap_or(0),
            tos: fields.read("tos", words::bits(0..=255))?.unwrap_or(0),
            from,
            kind,
            src,
            scope: fields.read("scope", words::scope)?,
            metrics: metrics(fields)?,
            ..Route::new(dst, nexthops)
        };
        check_families(fields, &route)?;
        Ok(route)
    }

    fn write(&self, table: &mut Table<'static>) {
        let family = self.family();
        if self.dst.is_default() {
            table.push("dst", Node::Text("default".into()));
            table.push("family", Node::Text(family.name().into()));
        } else {
            table.push("dst", Node::Text(self.dst.to_string().into()));
        }
        if self.kind != RouteType::Unicast {
            table.push(
                "type",
                Node::Text(self.kind.name().unwrap_or_default().into()),
            );
        }
        match &self.nexthops {
            NextHops::One(hop) => write_hop(hop, table),
            NextHops::Many(hops) => {
                let hop = |hop| {
                    let mut table = Table::default();
                    write_hop(hop, &mut table);
                    let node = Node::Table(table);
                    Value { at: 0, node }
                };
                table.push("nexthops", Node::List(hops.iter().map(hop).collect()));
            }
            NextHops::None | NextHops::Object(..) => {}
        }
        if let Some(src) = self.src {
            table.push("src", Node::Text(src.to_string().into()));
        }
        if let Some(from) = self.from {
            table.push("from", Node::Text(from.to_string().into()));
        }
        if self.metric != 0 {
            table.push("metric", Node::Integer(self.metric.into()));
        }
        if self.table != table::MAIN {
            table.push("table", Node::Integer(self.table.into()));
        }
        if self.tos != 0 {
            table.push("tos", Node::Integer(self.tos.into()));
        }
        if let Some(scope) = self.scope {
            table.push("scope", words::scope_node(scope));
        }
        write_metrics(&self.metrics, table);
    }

    fn plain(&self) -> Self {
        let mut plain = self.clone();
        plain.protocol = 0;
        plain.nexthops = plain.nexthops.canonical();
        // An observed route says the scope that follows from its type and gateway; left open, it
        // will follow again.
        let scope = plain.scope.take();
        let follows = plain.clone().canonical().scope;
        if self.family() == Family::Inet && scope != follows {
            plain.scope = scope;
        }
        plain
    }

    fn key(&self) -> Self::Key<'_> {
        let default_metric = match self.family() {
            Family::Inet6 if self.metric == 0 => 1024,
            _ => self.metric,
        };
        let from = self.from.filter(|from| !from.is_default());
        (self.table, self.dst, default_metric, self.tos, from)
    }

    fn key_words(&self) -> (String, &'static str) {
        let (table, dst, metric, tos, from) = self.key();
        let mut words = format!("route to {dst} in table {table} with metric {metric}");
        if tos != 0 {
            words.push_str(&format!(", tos {tos}"));
        }
        if let Some(from) = from {
            words.push_str(&format!(", from {from}"));
        }
        (words, "another metric or table")
    }
}

/// Where the route leads, with all that does not depend on the family checked.
fn nexthops(fields: &Fields<'_>, kind: RouteType) -> Result<NextHops<IfName>> {
    let given = ["nexthops", "via", "dev", "onlink"];
    let given = given.into_iter().find(|key| fields.has(key));
    let word = kind.name().unwrap_or_default();
    if let Some(key) = given
        && kind.is_reject()
    {
        let message = format!("a route of type {word} leads nowhere: leave `{key}` out");
        return fields.fault(key, message);
    }
    if kind == RouteType::Local {
        if let Some(key) = given.filter(|key| *key != "dev") {
            let message = format!("a route of type local takes only `dev`: leave `{key}` out");
            return fields.fault(key, message);
        }
        if given.is_none() {
            return fields.fault(
                "type",
                "a route of type local needs `dev`: write dev = \"lo\"",
            );
        }
    }
    if let Some(list) = fields.get("nexthops") {
        let alone = ["via", "dev", "onlink"];
        if let Some(key) = alone.into_iter().find(|key| fields.has(key)) {
            let message = format!("with `nexthops`, write `{key}` in each of them");
            return fields.fault(key, message);
        }
        return many(fields, list);
    }
    match given {
        Some(_) => hop(fields).map(NextHops::One),
        None if kind == RouteType::Unicast => fault(
            fields.at,
            "a unicast route needs `via`, `dev` or `nexthops`: write one, or a type such as \
             type = \"blackhole\"",
        ),
        None => Ok(NextHops::None),
    }
}

fn many(fields: &Fields<'_>, list: &Value<'_>) -> Result<NextHops<IfName>> {
    let Node::List(elements) = &list.node else {
        return list
            .unexpected("a list such as [ { via = \"10.0.0.1\" }, { via = \"10.0.0.2\" } ]");
    };
    if elements.is_empty() {
        return fault(list.at, "`nexthops` is empty: write at least one");
    }
    let one = |value: &Value<'_>| {
        let Node::Table(table) = &value.node else {
            return value.unexpected("a next hop such as { via = \"10.0.0.1\" }");
        };
        let fields = Fields::new("a next hop", value.at, table, &HOP_KEYS, fields.tables)?;
        let weight = fields.read("weight", words::number(1..=256))?;
        Ok(hop(&fields)?.weight(weight.unwrap_or(1)))
    };
    let hops = elements.iter().map(one).collect::<Result<_>>()?;
    Ok(NextHops::Many(hops).canonical())
}

/// One next hop, its weight aside.
fn hop(fields: &Fields<'_>) -> Result<NextHop<IfName>> {
    let hop = NextHop {
        via: fields.read("via", words::address)?,
        dev: fields.read("dev", words::name)?,
        weight: 1,
        onlink: fields.read("onlink", words::flag)?.unwrap_or(false),
    };
    if hop.via.is_none() && hop.dev.is_none() {
        return fault(fields.at, "a next hop needs `via` or `dev`");
    }
    // `fib_check_nh` in net/ipv4/fib_semantics.c, `ip6_route_check_nh_onlink` in net/ipv6/route.c.
    if hop.onlink && (hop.via.is_none() || hop.dev.is_none()) {
        return fields.fault("onlink", "onlink needs both `via` and `dev`");
    }
    Ok(hop)
}

/// The destination: `default` has the family that the rest tells.
fn destination(
    fields: &Fields<'_>,
    hops: &[NextHop<IfName>],
    src: Option<IpAddr>,
    from: Option<Prefix>,
) -> Result<Prefix> {
    let family = fields.read("family", words::family)?;
    let is_default =
        |value: &Value<'_>| matches!(&value.node, Node::Text(text) if text == "default");
    let example = "dst = \"10.0.0.0/8\", or dst = \"default\"";
    if !fields.required("dst", example, |value| Ok(is_default(value)))? {
        let dst = fields.required("dst", example, words::prefix)?;
        return match family {
            Some(family) if family != dst.family() => {
                let message = format!("`dst` is {}: leave `family` out", dst.family());
                fields.fault("family", message)
            }
            _ => Ok(dst),
        };
    }
    let mut vias = hops.iter().filter_map(|hop| hop.via).map(Family::of);
    let via = vias.next().filter(|first| vias.all(|next| next == *first));
    let told = family
        .or(src.map(Family::of))
        .or(from.map(Prefix::family))
        .or(via);
    match told {
        Some(family) => Ok(Prefix::default_route(family)),
        None => fields.fault(
            "dst",
            "default of which family? Write family = \"inet\" or family = \"inet6\"",
        ),
    }
}

/// What one family has and the other has not.
fn check_families(fields: &Fields<'_>, route: &Route<IfName>) -> Result<()> {
    let family = route.family();
    if let Some(src) = route.src
        && Family::of(src) != family
    {
        let message = format!("src is {}, the route is {family}", Family::of(src));
        return fields.fault("src", message);
    }
    if family == Family::Inet {
        if fields.has("from") {
            let message = "`from` is for IPv6 routes: for IPv4 write a [[rule]] with from";
            return fields.fault("from", message);
        }
        return Ok(());
    }
    if route.from.is_some_and(|from| from.family() != family) {
        return fields.fault("from", "from is inet, the route is inet6");
    }
    if let Some(key) = ["tos", "scope"].into_iter().find(|key| fields.has(key)) {
        let message = format!("IPv6 routes have no {key}: leave `{key}` out");
        return fields.fault(key, message);
    }
    let wrong = |hop: &NextHop<IfName>| matches!(hop.via, Some(IpAddr::V4(_)));
    if let Some(index) = route.nexthops.as_slice().iter().position(wrong) {
        let element = match fields.get("nexthops").map(|list| &list.node) {
            Some(Node::List(elements)) => elements.get(index).map(|element| element.at),
            _ => None,
        };
        let at = element.unwrap_or(fields.place("via"));
        return fault(at, "an IPv6 route cannot go through an IPv4 gateway");
    }
    Ok(())
}

/// The metrics: a number, or `"lock 1400"`.
fn metrics(fields: &Fields<'_>) -> Result<Metrics> {
    let mut metrics = Metrics::default();
    let mut lock = 0;
    for (key, _) in fields.iter() {
        let Some(metric) = Metric::ALL.into_iter().find(|m| m.name() == key.name) else {
            continue;
        };
        let (value, locked) = fields
            .read(metric.name(), metric_value)?
            .unwrap_or_default();
        if value == 0 && !locked {
            let message = format!("{}: 0 is no value: leave it out", key.name);
            return fields.fault(&key.name, message);
        }
        metrics.set(metric, value);
        let kept = metrics.value(metric).unwrap_or(0);
        if kept != value {
            let message = format!("{}: the kernel keeps {kept} at most", key.name);
            return fields.fault(&key.name, message);
        }
        lock |= u32::from(locked) << metric as u8;
    }
    if let Some(name) = fields.read("congctl", |value| words::text(value, "a name"))? {
        let (name, locked) = match name.strip_prefix("lock ") {
            Some(name) => (name, true),
            None => (name, false),
        };
        // `TCP_CA_NAME_MAX` is 16 with the NUL.
        let fits = (1..16).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
        if !fits {
            let message = "congctl: write the name of an algorithm, such as \"cubic\"";
            return fields.fault("congctl", message);
        }
        metrics.set_congctl(Some(name.to_owned()));
        lock |= u32::from(locked) << CONGCTL;
    }
    if lock != 0 {
        metrics.set_lock(lock);
    }
    Ok(metrics)
}

fn metric_value(value: &Value<'_>) -> Result<(u32, bool)> {
    let Node::Text(text) = &value.node else {
        return Ok((words::number(0..=u32::MAX)(value)?, false));
    };
    let number = text.strip_prefix("lock ").filter(|n| !n.starts_with('+'));
    match number.map(str::parse) {
        Some(Ok(number)) => Ok((number, true)),
        _ => fault(value.at, "write a number such as 1400, or \"lock 1400\""),
    }
}

fn write_hop(hop: &NextHop<IfName>, table: &mut Table<'static>) {
    if let Some(via) = hop.via {
        table.push("via", Node::Text(via.to_string().into()));
    }
    if let Some(dev) = &hop.dev {
        table.push("dev", words::name_node(dev));
    }
    if hop.weight != 1 {
        table.push("weight", Node::Integer(hop.weight.into()));
    }
    if hop.onlink {
        table.push("onlink", Node::Bool(true));
    }
}

fn write_metrics(metrics: &Metrics, table: &mut Table<'static>) {
    if metrics.is_empty() {
        return;
    }
    let locked = |number: u32| metrics.lock() & 1 << number != 0;
    for metric in Metric::ALL {
        match (metrics.value(metric), locked(metric as u32)) {
            (None, false) => {}
            (Some(value), false) => table.push(metric.name(), Node::Integer(value.into())),
            (value, true) => {
                let text = format!("lock {}", value.unwrap_or(0));
                table.push(metric.name(), Node::Text(text.into()));
            }
        }
    }
    if let Some(name) = metrics.congctl() {
        let lock = if locked(CONGCTL) { "lock " } else { "" };
        table.push("congctl", Node::Text(format!("{lock}{name}").into()));
    }
}
