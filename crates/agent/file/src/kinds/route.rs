//! `[[route]]`.

mod metrics;
mod nexthops;

use std::net::IpAddr;

use trueup_net::{Family, IfName, NextHop, Prefix, Route, RouteKey, RouteType, Routes, table};

use super::{DesiredList, by_key};
use crate::element::{Declared, Element, FileObject};
use crate::fields::Fields;
use crate::location::Location;
use crate::parse;
use crate::value::{Node, Result, Table, Value, fault, text};

/// The types that a file can name.
const TYPES: [(&str, RouteType); 6] = [
    ("unicast", RouteType::Unicast),
    ("blackhole", RouteType::Blackhole),
    ("unreachable", RouteType::Unreachable),
    ("prohibit", RouteType::Prohibit),
    ("throw", RouteType::Throw),
    ("local", RouteType::Local),
];

/// The destination whose family follows from the rest of the route.
const DEFAULT: &str = "default";

impl Element for Route<IfName> {
    const WITH_ARTICLE: &'static str = "a route";
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
    ];
    const REMEDY: &'static str = "another metric or table";
    type Key = RouteKey;

    fn read(fields: &Fields<'_>) -> Result<Self> {
        // Checks the syntax first: later faults assume a valid prefix.
        fields.read("dst", |value| {
            if is_default(value) { Ok(()) } else { parse::prefix(value).map(drop) }
        })?;
        let kind =
            fields.read("type", |value| parse::one_of(value, "type", &TYPES))?.unwrap_or_default();
        let src = fields.read("src", parse::address)?;
        let from = fields.read("from", parse::prefix)?;
        let nexthops = nexthops::read(fields, kind)?;
        let dst = destination(fields, nexthops.as_slice(), src, from)?;
        let mut route = Route::new(dst, nexthops)
            .with_table(fields.read("table", parse::table(fields.tables))?.unwrap_or(table::MAIN))
            .with_metric(fields.read("metric", parse::number(0..=u32::MAX))?.unwrap_or(0))
            .with_tos(fields.read("tos", parse::bits(0..=255))?.unwrap_or(0))
            .with_kind(kind)
            .with_metrics(metrics::read(fields)?);
        (route.from, route.src) = (from, src);
        route.scope = fields.read("scope", parse::scope)?;
        check_families(fields, &route)?;
        Ok(route)
    }

    fn key(&self) -> RouteKey {
        self.canonical_key()
    }

    fn describe(&self) -> String {
        let RouteKey { table, dst, metric, tos, from, .. } = self.canonical_key();
        let mut text = format!("route to {dst} in table {table} with metric {metric}");
        if tos != 0 {
            text.push_str(&format!(", tos {tos}"));
        }
        if let Some(from) = from {
            text.push_str(&format!(", from {from}"));
        }
        text
    }
}

impl FileObject for Route<IfName> {
    fn write(&self, table: &mut Table<'static>) {
        if self.dst.is_default() {
            table.set("dst", text(DEFAULT));
            table.set("family", text(self.family()));
        } else {
            table.set("dst", text(self.dst));
        }
        if self.kind != RouteType::Unicast {
            table.set("type", text(self.kind.name().unwrap_or_default()));
        }
        nexthops::write(&self.nexthops, table);
        table.set_some("src", self.src.map(text));
        table.set_some("from", self.from.map(text));
        table.set_nonzero("metric", self.metric);
        if self.table != table::MAIN {
            table.set("table", self.table);
        }
        table.set_nonzero("tos", self.tos.into());
        table.set_some("scope", self.scope.map(parse::scope_node));
        metrics::write(&self.metrics, table);
    }

    fn authored(&self) -> Self {
        let mut authored = self.clone();
        authored.protocol = 0;
        authored.nexthops = authored.nexthops.canonical();
        // A scope that follows from the type and the gateway is left open. Reading it back gives
        // the same.
        let scope = authored.scope.take();
        let follows = authored.clone().canonical().scope;
        if self.family() == Family::Inet && scope != follows {
            authored.scope = scope;
        }
        authored
    }
}

impl DesiredList for Routes {
    type Object = Route<IfName>;

    fn from_file(declared: Declared<Route<IfName>>) -> (Routes, Vec<Location>) {
        let (elements, locations, adopted) = by_key(declared, Route::canonical_key);
        let mut routes = Routes::from(elements);
        adopted.into_iter().for_each(|key| routes.adopt(key));
        (routes, locations)
    }

    fn objects(&self) -> impl Iterator<Item = (Route<IfName>, bool)> {
        self.iter().map(|route| {
            let is_adopted = self.adopted().contains(&route.canonical_key());
            (route, is_adopted)
        })
    }
}

fn is_default(value: &Value<'_>) -> bool {
    matches!(&value.node, Node::Text(text) if text == DEFAULT)
}

/// Reads the destination. `default` takes the family of the rest of the route.
fn destination(
    fields: &Fields<'_>,
    hops: &[NextHop<IfName>],
    src: Option<IpAddr>,
    from: Option<Prefix>,
) -> Result<Prefix> {
    let family = fields.read("family", parse::family)?;
    let example = "dst = \"10.0.0.0/8\", or dst = \"default\"";
    if !fields.required("dst", example, |value| Ok(is_default(value)))? {
        let dst = fields.required("dst", example, parse::prefix)?;
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
    match family.or(src.map(Family::of)).or(from.map(Prefix::family)).or(via) {
        Some(family) => Ok(Prefix::default_route(family)),
        None => fields.fault(
            "dst",
            "the family of \"default\" is unknown: write family = \"inet\" or family = \"inet6\"",
        ),
    }
}

/// Checks the properties that only one family has.
fn check_families(fields: &Fields<'_>, route: &Route<IfName>) -> Result<()> {
    let family = route.family();
    if let Some(src) = route.src
        && Family::of(src) != family
    {
        let other = Family::of(src);
        let remedy = "write an address of the same family";
        return fields.fault("src", format!("src is {other}, the route is {family}: {remedy}"));
    }
    if family == Family::Inet {
        if fields.has("from") {
            let message = "`from` is for IPv6 routes: for IPv4 write a [[rule]] with from";
            return fields.fault("from", message);
        }
        return Ok(());
    }
    if route.from.is_some_and(|from| from.family() != family) {
        return fields.fault("from", "from is inet, the route is inet6: write an IPv6 prefix");
    }
    if let Some(key) = ["tos", "scope"].into_iter().find(|key| fields.has(key)) {
        let message = format!("IPv6 routes have no {key}: leave `{key}` out");
        return fields.fault(key, message);
    }
    let mut hops = route.nexthops.as_slice().iter();
    if let Some(index) = hops.position(|hop| hop.via.is_some_and(|via| via.is_ipv4())) {
        let element = match fields.get("nexthops").map(|list| &list.node) {
            Some(Node::List(elements)) => elements.get(index).map(|element| element.at),
            _ => None,
        };
        let at = element.unwrap_or(fields.position("via"));
        return fault(at, "an IPv6 route cannot have an IPv4 gateway: write an IPv6 address");
    }
    Ok(())
}
