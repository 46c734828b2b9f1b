//! The next hops of a route: `via`, `dev` and `onlink`, or `nexthops`.

use trueup_net::{IfName, NextHop, NextHops, RouteType};

use crate::fields::Fields;
use crate::parse;
use crate::value::{Node, Result, Table, Value, fault, text};

const HOP_KEYS: [&str; 4] = ["via", "dev", "weight", "onlink"];

/// Reads the next hops, with the checks that do not depend on the family.
pub(super) fn read(fields: &Fields<'_>, kind: RouteType) -> Result<NextHops<IfName>> {
    let given = ["nexthops", "via", "dev", "onlink"].into_iter().find(|key| fields.has(key));
    let word = kind.name().unwrap_or_default();
    if let Some(key) = given
        && kind.is_reject()
    {
        let message = format!("a route of type {word} has no next hop: leave `{key}` out");
        return fields.fault(key, message);
    }
    if kind == RouteType::Local {
        if let Some(key) = given.filter(|key| *key != "dev") {
            let message = format!("a route of type local takes only `dev`: leave `{key}` out");
            return fields.fault(key, message);
        }
        if given.is_none() {
            return fields.fault("type", "a route of type local needs `dev`: write dev = \"lo\"");
        }
    }
    if let Some(list) = fields.get("nexthops") {
        if let Some(key) = ["via", "dev", "onlink"].into_iter().find(|key| fields.has(key)) {
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
    let hops = elements.iter().map(|value| {
        let Node::Table(table) = &value.node else {
            return value.unexpected("a next hop such as { via = \"10.0.0.1\" }");
        };
        let fields = Fields::new("a next hop", value.at, table, &[&HOP_KEYS], fields.tables)?;
        let weight = fields.read("weight", parse::number(1..=256))?;
        Ok(hop(&fields)?.with_weight(weight.unwrap_or(1)))
    });
    Ok(NextHops::Many(hops.collect::<Result<_>>()?).canonical())
}

/// Reads one next hop, except its weight.
fn hop(fields: &Fields<'_>) -> Result<NextHop<IfName>> {
    let mut hop = NextHop::default().with_onlink(fields.flag("onlink")?);
    hop.via = fields.read("via", parse::address)?;
    hop.dev = fields.read("dev", parse::name)?;
    if hop.via.is_none() && hop.dev.is_none() {
        return fault(fields.at, "a next hop needs `via` or `dev`: write one of them");
    }
    // `fib_check_nh` in net/ipv4/fib_semantics.c, `ip6_route_check_nh_onlink` in net/ipv6/route.c.
    if hop.onlink && (hop.via.is_none() || hop.dev.is_none()) {
        return fields.fault(
            "onlink",
            "onlink needs both `via` and `dev`: write both, or leave `onlink` out",
        );
    }
    Ok(hop)
}

pub(super) fn write(nexthops: &NextHops<IfName>, table: &mut Table<'static>) {
    match nexthops {
        NextHops::One(hop) => write_hop(hop, table),
        NextHops::Many(hops) => {
            let tables = hops.iter().map(|hop| {
                let mut table = Table::default();
                write_hop(hop, &mut table);
                Node::Table(table)
            });
            table.set("nexthops", tables.collect::<Node<'_>>());
        }
        // No next hop, or one that a file cannot express. The route is read back, and reported as
        // such.
        _ => {}
    }
}

fn write_hop(hop: &NextHop<IfName>, table: &mut Table<'static>) {
    table.set_some("via", hop.via.map(text));
    table.set_some("dev", hop.dev.as_ref().map(parse::name_node));
    if hop.weight != 1 {
        table.set("weight", u32::from(hop.weight));
    }
    table.set_true("onlink", hop.onlink);
}
