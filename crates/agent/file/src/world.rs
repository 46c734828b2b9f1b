//! The exchange between hosts: `[world]`, `[[export]]` and `[[collect]]`.

mod store;

use trueup_net::{IfName, Kind, NextHops, Prefix, Route};
use trueup_world::{Collect, Hosts, check_route};

pub use store::World;
pub(crate) use store::{read, write};

use crate::element::{Element, FileObject as _};
use crate::fields::Fields;
use crate::json;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Form, Node, Result, Table, Value, fault};

/// The word for all hosts.
const ANY: &str = "any";

/// The longest name of a host, in bytes. It equals the limit of a domain name.
const MAX_HOST: usize = 253;

/// Reads a host's name, or `any`.
fn hosts(value: &Value<'_>) -> Result<Hosts> {
    match &value.node {
        Node::Text(text) if text == ANY => Ok(Hosts::Any),
        _ => host(value).map(Hosts::One),
    }
}

/// Reads a host's name. It becomes a part of keys, roles and users of the store.
fn host(value: &Value<'_>) -> Result<String> {
    let name = parse::text(value, "the name of a host, such as \"a\"")?;
    if name == ANY {
        return fault(value.at, "`any` stands for all hosts: write another name");
    }
    if (1..=MAX_HOST).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it))
    {
        return Ok(name.to_owned());
    }
    let message = format!(
        "`{name}` is no name of a host: write 1 to {MAX_HOST} letters, digits, `-`, `_` and `.`"
    );
    fault(value.at, message)
}

/// An object that this host offers to others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// The name. A later export with the same name, kind and hosts replaces this one.
    pub name: String,
    /// The hosts that may collect it.
    pub to: Hosts,
    /// The route that a collecting host would have.
    pub route: Route<IfName>,
}

impl Export {
    /// Returns the object's kind. Only routes can be exported.
    pub fn kind(&self) -> Kind {
        Kind::Route
    }

    /// Returns the object as a resource of the world: JSON in the file's form, as
    /// [`exported_route`](crate::exported_route) reads it.
    pub fn data(&self) -> String {
        let mut table = Table::default();
        self.route.write(&mut table);
        let mut data = String::new();
        Form::Json.table(&table, &mut data);
        data
    }
}

impl Element for Export {
    const WITH_ARTICLE: &'static str = "an export";
    const KEYS: &'static [&'static str] = &["name", "to", "route"];
    type Key = (Hosts, Kind, String);

    fn read(fields: &Fields<'_>) -> Result<Export> {
        let example = "route = { dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }";
        Ok(Export {
            name: fields.required("name", "name = \"pods\"", parse::element_name)?,
            to: fields.read("to", hosts)?.unwrap_or(Hosts::Any),
            route: fields.required("route", example, read_route)?,
        })
    }

    fn key(&self) -> Self::Key {
        (self.to.clone(), self.kind(), self.name.clone())
    }

    fn describe(&self) -> String {
        format!("export `{}` to {}", self.name, self.to)
    }
}

/// The kinds that can be collected.
const COLLECTED: [(&str, Kind); 1] = [("route", Kind::Route)];

/// The highest limit of collected routes.
const MAX_LIMIT: u32 = 1_000_000;

/// Two collections that differ only in the routes' new properties would make each route twice.
impl Element for Collect {
    const WITH_ARTICLE: &'static str = "a collection";
    const KEYS: &'static [&'static str] =
        &["kind", "from", "within", "limit", "metric", "table", "dev"];
    const REMEDY: &'static str = "another table";
    type Key = (Kind, Hosts, Vec<Prefix>, Option<u32>);

    fn read(fields: &Fields<'_>) -> Result<Collect> {
        let kind = fields.required("kind", "kind = \"route\"", |value| {
            parse::one_of(value, "kind to collect", &COLLECTED)
        })?;
        let within = fields.required("within", "within = [ \"10.20.0.0/16\" ]", within)?;
        let mut collect = Collect::routes(within);
        collect.kind = kind;
        collect.from = fields.read("from", hosts)?.unwrap_or(Hosts::Any);
        collect.limit =
            fields.read("limit", parse::number(1..=MAX_LIMIT))?.unwrap_or(Collect::LIMIT);
        collect.metric = fields.read("metric", parse::number(0..=u32::MAX))?;
        collect.table = fields.read("table", parse::table(fields.tables))?;
        collect.dev = fields.read("dev", parse::name)?;
        Ok(collect)
    }

    fn key(&self) -> Self::Key {
        (self.kind, self.from.clone(), self.within.clone(), self.table)
    }

    fn describe(&self) -> String {
        format!("collection of each {} from {}", self.kind, self.from)
    }
}

fn within(value: &Value<'_>) -> Result<Vec<Prefix>> {
    match &value.node {
        Node::List(items) if items.is_empty() => fault(
            value.at,
            "nothing is within an empty list: write prefixes, such as \"10.20.0.0/16\"",
        ),
        Node::List(items) => items.iter().map(parse::prefix).collect(),
        _ => value.unexpected("a list of prefixes, such as [ \"10.20.0.0/16\" ]"),
    }
}

/// The keys of an exported route.
const ROUTE_KEYS: [&str; 5] = ["dst", "family", "via", "nexthops", "metric"];

/// The longest text of an exported route, in bytes.
const MAX_BYTES: usize = 4096;

/// Reads an exported route, of this host or of another.
fn read_route(value: &Value<'_>) -> Result<Route<IfName>> {
    let Node::Table(table) = &value.node else {
        let example = "{ dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }";
        return value.unexpected(format_args!("a route, such as {example}"));
    };
    let tables = TableNames::default();
    let fields = Fields::new("an exported route", value.at, table, &[&ROUTE_KEYS], &tables)?;
    let route = Route::read(&fields)?;
    let mut hops = route.nexthops.as_slice().iter();
    if matches!(route.nexthops, NextHops::Object(..))
        || hops.any(|hop| hop.via.is_none() || hop.dev.is_some() || hop.onlink)
    {
        return fault(
            value.at,
            "an exported route leads to gateways alone: leave `dev` and `onlink` out, which the \
             hosts that collect it have otherwise",
        );
    }
    check_route(&route).or_else(|why| fault(value.at, why)).map(|()| route)
}

/// Reads another host's export, in the form that a [`trueup_world::Acceptance`] needs.
///
/// # Errors
///
/// Fails if the data is not a route. The message repeats no control characters.
pub fn exported_route(data: &[u8]) -> std::result::Result<Route<IfName>, String> {
    if data.len() > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes"));
    }
    str::from_utf8(data).map_err(|_| "it is not UTF-8".to_owned()).and_then(|text| {
        let read = json::value(text).and_then(|value| read_route(&value));
        read.map_err(|fault| trueup_net::render::clean(&fault.message).to_string())
    })
}
