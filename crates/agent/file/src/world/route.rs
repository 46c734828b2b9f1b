//! A route as one host exports it: its destination and gateways. The host that collects it sets all
//! else.

use trueup_net::{IfName, NextHop, NextHops, Route};
use trueup_world::check_route;

use crate::fields::Fields;
use crate::json;
use crate::kinds::FileObject as _;
use crate::tables::TableNames;
use crate::text::json_table;
use crate::value::{Node, Result, Table, Value, fault};

/// The keys.
const KEYS: [&str; 5] = ["dst", "family", "via", "nexthops", "metric"];

/// The longest text of a route, in bytes.
const MAX_BYTES: usize = 4096;

/// Reads an exported route: of this host, or of another.
pub(super) fn read(value: &Value<'_>) -> Result<Route<IfName>> {
    let Node::Table(table) = &value.node else {
        let example = "{ dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }";
        return value.unexpected(format_args!("a route, such as {example}"));
    };
    let tables = TableNames::default();
    let fields = Fields::new("an exported route", value.at, table, &[&KEYS], &tables)?;
    let route = Route::read(&fields)?;
    let leads_out = |hop: &NextHop<IfName>| hop.via.is_some() && hop.dev.is_none() && !hop.onlink;
    let hops = route.nexthops.as_slice();
    if matches!(route.nexthops, NextHops::Object(..)) || !hops.iter().all(leads_out) {
        return fault(
            value.at,
            "an exported route leads to gateways alone: leave `dev` and `onlink` out, which the \
             hosts that collect it have otherwise",
        );
    }
    match check_route(&route) {
        Ok(()) => Ok(route),
        Err(why) => fault(value.at, why),
    }
}

/// Writes a route as a resource of the world: JSON of the form of the file.
pub(super) fn to_data(route: &Route<IfName>) -> String {
    let mut table = Table::default();
    route.write(&mut table);
    let mut data = String::new();
    json_table(&table, &mut data);
    data
}

/// Reads what another host exported, as a [`trueup_world::Acceptance`] asks for it.
///
/// # Errors
///
/// When it is no route, in words that repeat no control characters.
pub fn exported_route(data: &[u8]) -> std::result::Result<Route<IfName>, String> {
    if data.len() > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes"));
    }
    str::from_utf8(data).map_err(|_| "it is not UTF-8".to_owned()).and_then(|text| {
        let read = json::value(text).and_then(|value| read(&value));
        read.map_err(|fault| trueup_net::render::clean(&fault.message).to_string())
    })
}
