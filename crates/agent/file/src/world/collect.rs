//! `[[collect]]`: what this host takes from others.

use trueup_net::{IfName, Kind, Prefix, RouteKey, table};

use super::{Hosts, hosts};
use crate::fields::Fields;
use crate::file::File;
use crate::file_keys::WORLD;
use crate::list::Element;
use crate::parse;
use crate::section::Keyed;
use crate::value::{Node, Result, Value, fault};

/// The kinds that can be collected.
const KINDS: [(&str, Kind); 1] = [("route", Kind::Route)];

/// How many objects are taken from one host, unless said otherwise.
const LIMIT: u32 = 1_000;
/// The highest limit.
const MAX_LIMIT: u32 = 1_000_000;

/// What this host takes from others, and how far it trusts them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collect {
    /// The kind of the objects.
    pub kind: Kind,
    /// The hosts that they are taken from.
    pub from: Hosts,
    /// The prefixes that contain the destination of each route that is taken. They are not empty.
    pub within: Vec<Prefix>,
    /// How many objects are taken from one host: 1 to 1,000,000.
    pub limit: u32,
    /// The metric of each route; `None` for that of its exporter.
    pub metric: Option<u32>,
    /// The table of each route; `None` for `main`.
    pub table: Option<u32>,
    /// The device of each next hop; `None` for the one that leads to the gateway.
    pub dev: Option<IfName>,
}

impl Collect {
    /// True if a route of this key can come from this collection.
    pub fn contains(&self, key: &RouteKey) -> bool {
        let table = self.table.unwrap_or(table::MAIN);
        key.table == table && self.within.iter().any(|within| within.covers(key.dst))
    }
}

impl Element for Collect {
    const NAME: &'static str = "collect";
    const WITH_ARTICLE: &'static str = "a collection";
    const NEEDS: Option<&'static str> = Some(WORLD);
    const KEYS: &'static [&'static str] =
        &["kind", "from", "within", "limit", "metric", "table", "dev"];

    fn read(fields: &Fields<'_>) -> Result<Collect> {
        let kind = |value: &Value<'_>| parse::one_of(value, "kind to collect", &KINDS);
        let limit = fields.read("limit", parse::number(1..=MAX_LIMIT))?;
        Ok(Collect {
            kind: fields.required("kind", "kind = \"route\"", kind)?,
            from: fields.read("from", hosts)?.unwrap_or(Hosts::Any),
            within: fields.required("within", "within = [ \"10.20.0.0/16\" ]", within)?,
            limit: limit.unwrap_or(LIMIT),
            metric: fields.read("metric", parse::number(0..=u32::MAX))?,
            table: fields.read("table", parse::table(fields.tables))?,
            dev: fields.read("dev", parse::name)?,
        })
    }

    fn list(file: &mut File) -> &mut Option<Vec<Collect>> {
        &mut file.collects
    }
}

/// Two that differ only in what they make of a route would make it twice.
impl Keyed for Collect {
    const REMEDY: &'static str = "another table";
    type Key = (Kind, Hosts, Vec<Prefix>, Option<u32>);

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
