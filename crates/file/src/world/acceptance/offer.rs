//! A resource, and the routes that collections would make of it.

use std::collections::BTreeSet;

use trueup_diff::{IfName, NextHops, Prefix, Route, RouteKey};

use crate::world::{Collect, Origin, Resource, route};

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
        let Id {
            created,
            exporter,
            name,
            data,
            copy: _,
        } = other;
        (self.created, &self.exporter, &self.name, &self.data) == (*created, exporter, name, data)
    }

    pub(super) fn origin(&self) -> Origin {
        Origin {
            exporter: self.exporter.clone(),
            name: self.name.clone(),
            created: self.created,
        }
    }
}

/// A route that a collection would make.
type Made = (RouteKey, Route<IfName>);

/// What a resource says, and what is made of it.
#[derive(Default)]
pub(super) struct Offer {
    /// The destination, if it is a route.
    pub(super) dst: Option<Prefix>,
    /// Why it is no route.
    pub(super) error: Option<String>,
    /// For each collection that takes from its exporter, by its position, the route that it would
    /// make; none if that is not within.
    pub(super) routes: Vec<(usize, Option<Made>)>,
    /// The routes that it makes, each by the position of a collection.
    pub(super) taken: BTreeSet<(usize, RouteKey)>,
}

impl Offer {
    /// Reads a resource, and confines it as each collection says.
    pub(super) fn read(collects: &[Collect], resource: Resource<'_>) -> Offer {
        let exported = match route::from_data(resource.data) {
            Ok(exported) => exported,
            Err(error) => {
                return Offer {
                    error: Some(error),
                    ..Offer::default()
                };
            }
        };
        let made = |(position, collect): (usize, &Collect)| {
            let mut within = collect.within.iter();
            let is_within = within.any(|within| within.covers(exported.dst));
            let route = is_within.then(|| confined(&exported, collect));
            (position, route.map(|route| (route.canonical_key(), route)))
        };
        let collects = collects.iter().enumerate();
        let collects = collects.filter(|(_, collect)| collect.from.contains(resource.exporter));
        Offer {
            dst: Some(exported.dst),
            routes: collects.map(made).collect(),
            ..Offer::default()
        }
    }

    /// Returns the keys of the routes that it would make.
    pub(super) fn keys(&self) -> impl Iterator<Item = RouteKey> {
        let routes = self.routes.iter().filter_map(|(_, route)| route.as_ref());
        routes.map(|(key, _)| *key)
    }
}

/// Returns the route as this host has it.
fn confined(exported: &Route<IfName>, collect: &Collect) -> Route<IfName> {
    let mut hops = exported.nexthops.as_slice().to_vec();
    for hop in &mut hops {
        hop.dev = collect.dev;
    }
    let mut route = Route::new(exported.dst, NextHops::Many(hops).canonical())
        .with_metric(collect.metric.unwrap_or(exported.metric));
    if let Some(table) = collect.table {
        route = route.with_table(table);
    }
    route
}
