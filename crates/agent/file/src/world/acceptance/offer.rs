//! A resource, and the routes that collections would make of it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trueup_net::{IfName, NextHops, Prefix, Route, RouteKey};

use crate::world::{Collect, Grant, Origin, Resource, route, unusable};

/// A resource, in the order in which they are judged: on every host alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id {
    created: u64,
    pub(super) exporter: String,
    name: String,
    data: Vec<u8>,
    /// Of several that are the same, each has a number.
    pub(super) copy: usize,
}

impl Id {
    pub(super) fn of(resource: Resource<'_>) -> Id {
        Id {
            created: resource.created,
            exporter: resource.exporter.to_owned(),
            name: resource.name.to_owned(),
            data: resource.data.to_vec(),
            copy: 0,
        }
    }

    /// True if it differs in its number alone.
    pub(super) fn is_copy_of(&self, other: &Id) -> bool {
        let Id { created, exporter, name, data, copy: _ } = other;
        (self.created, &self.exporter, &self.name, &self.data) == (*created, exporter, name, data)
    }

    pub(super) fn origin(&self) -> Origin {
        Origin { exporter: self.exporter.clone(), name: self.name.clone(), created: self.created }
    }
}

/// A route that a collection would make.
type Made = (RouteKey, Route<IfName>);

/// What a resource says, and what is made of it.
#[derive(Default)]
pub(super) struct Offer {
    /// The destination, if it is a route.
    pub(super) dst: Option<Prefix>,
    /// Why it makes no route, whatever the collections say.
    pub(super) error: Option<String>,
    /// Its gateways, if a collection would make a route of it.
    pub(super) gateways: BTreeSet<IpAddr>,
    /// For each collection that takes from its exporter, by its position, the route that it would
    /// make, or why it would make none.
    pub(super) routes: Vec<(usize, Result<Made, String>)>,
    /// The routes that it makes, each by the position of a collection.
    pub(super) taken: BTreeSet<(usize, RouteKey)>,
}

impl Offer {
    /// Reads a resource, and confines it as each collection says.
    pub(super) fn read(collects: &[Collect], resource: Resource<'_>) -> Offer {
        let exported = match route::from_data(resource.data) {
            Ok(exported) => exported,
            Err(error) => {
                return Offer { error: Some(error), ..Offer::default() };
            }
        };
        let made = |(position, collect): (usize, &Collect)| {
            let route = confined(&exported, collect);
            (position, route.map(|route| (route.canonical_key(), route)))
        };
        let collects = collects.iter().enumerate();
        let collects = collects.filter(|(_, collect)| collect.from.contains(resource.exporter));
        let routes: Vec<_> = collects.map(made).collect();
        let is_made = routes.iter().any(|(_, made)| made.is_ok());
        let gateways = unusable::gateways(&exported).filter(|_| is_made);
        Offer { dst: Some(exported.dst), gateways: gateways.collect(), routes, ..Offer::default() }
    }

    /// Returns the destination, if a collection would make a route of it.
    pub(super) fn destination(&self) -> Option<Prefix> {
        self.dst.filter(|_| self.keys().next().is_some())
    }

    /// Makes no route of it if that is not granted to its exporter.
    pub(super) fn require(&mut self, grant: &Grant, exporter: &str) {
        if let Some(dst) = self.dst.filter(|dst| !grant.allows(exporter, *dst)) {
            self.error = Some(format!("{dst} is not granted to host {exporter}"));
            self.routes.clear();
        }
    }

    /// Returns the keys of the routes that it would make.
    pub(super) fn keys(&self) -> impl Iterator<Item = RouteKey> {
        let routes = self.routes.iter().filter_map(|(_, route)| route.as_ref().ok());
        routes.map(|(key, _)| *key)
    }
}

/// Returns the route as this host has it.
///
/// # Errors
///
/// When the collection takes no such route.
fn confined(exported: &Route<IfName>, collect: &Collect) -> Result<Route<IfName>, String> {
    let dst = exported.dst;
    if !collect.within.iter().any(|within| within.covers(dst)) {
        return Err(format!("{dst} is not within what is collected"));
    }
    let mut gateways = unusable::gateways(exported);
    if collect.dev.is_none()
        && let Some(gateway) = gateways.find(|it| unusable::is_link_local(*it))
    {
        return Err(format!(
            "the gateway {gateway} is link-local, and needs the collection's `dev`"
        ));
    }
    let mut hops = exported.nexthops.as_slice().to_vec();
    for hop in &mut hops {
        hop.dev = collect.dev;
    }
    let mut route = Route::new(exported.dst, NextHops::Many(hops).canonical())
        .with_metric(collect.metric.unwrap_or(exported.metric));
    if let Some(table) = collect.table {
        route = route.with_table(table);
    }
    Ok(route)
}
