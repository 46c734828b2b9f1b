//! [`Collect`]: what this host takes from others, and how far it trusts them.

use trueup_net::{IfName, Kind, Prefix, RouteKey, table};

use crate::resource_key::Hosts;

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
    /// How many objects are taken from one host, unless said otherwise.
    pub const LIMIT: u32 = 1_000;

    /// Takes the routes to destinations within these prefixes, from any host.
    pub fn routes(within: Vec<Prefix>) -> Collect {
        Collect {
            kind: Kind::Route,
            from: Hosts::Any,
            within,
            limit: Collect::LIMIT,
            metric: None,
            table: None,
            dev: None,
        }
    }

    /// True if a route of this key can come from this collection.
    pub fn contains(&self, key: &RouteKey) -> bool {
        let table = self.table.unwrap_or(table::MAIN);
        key.table == table && self.within.iter().any(|within| within.covers(key.dst))
    }
}
