//! `[[collect]]`: what this host takes from others.

use trueup_net::{Kind, Prefix};
use trueup_world::{Collect, Hosts};

use super::hosts;
use crate::element::{Element, Keyed};
use crate::fields::Fields;
use crate::file_keys::{COLLECT, WORLD};
use crate::parse;
use crate::value::{Node, Result, Value, fault};

/// The kinds that can be collected.
const KINDS: [(&str, Kind); 1] = [("route", Kind::Route)];

/// The highest limit.
const MAX_LIMIT: u32 = 1_000_000;

impl Element for Collect {
    const NAME: &'static str = COLLECT;
    const WITH_ARTICLE: &'static str = "a collection";
    const NEEDS: Option<&'static str> = Some(WORLD);
    const KEYS: &'static [&'static str] =
        &["kind", "from", "within", "limit", "metric", "table", "dev"];

    fn read(fields: &Fields<'_>) -> Result<Collect> {
        let kind = |value: &Value<'_>| parse::one_of(value, "kind to collect", &KINDS);
        let kind = fields.required("kind", "kind = \"route\"", kind)?;
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
