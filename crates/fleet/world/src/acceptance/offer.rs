//! An export of another host, and the routes that collections would make of it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use trueup_net::{IfName, NextHops, Prefix, Route, RouteKey};

use super::accepted::Origin;
use super::collect::Collect;
use super::unusable::{gateways, is_link_local};
use crate::entry::Revision;
use crate::resource_key::ResourceKey;
use crate::resources::Resource;

/// An export, in the order in which they are judged: on every host alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) created: Revision,
    pub(super) key: Arc<ResourceKey>,
}

impl Id {
    pub(super) fn origin(&self) -> Origin {
        Origin {
            exporter: self.key.exporter.clone(),
            name: String::from_utf8_lossy(&self.key.name).into_owned(),
            created: self.created,
        }
    }
}

impl Ord for Id {
    fn cmp(&self, other: &Id) -> Ordering {
        let of = (self.created, &self.key.exporter, &self.key.name, &self.key);
        of.cmp(&(other.created, &other.key.exporter, &other.key.name, &other.key))
    }
}

impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Id) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A route that a collection would make.
type Made = (RouteKey, Route<IfName>);

/// What an export says, and what is made of it.
pub(super) struct Offer {
    pub(super) id: Arc<Id>,
    /// What was exported.
    pub(super) data: Vec<u8>,
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
    /// Confines an export as each collection says. `exported` is what it says, or why it is none.
    pub(super) fn new(
        id: Arc<Id>,
        resource: &Resource,
        exported: Result<&Route<IfName>, String>,
        collects: &[Collect],
    ) -> Offer {
        let mut offer = Offer {
            id,
            data: resource.data.clone(),
            dst: None,
            error: None,
            gateways: BTreeSet::new(),
            routes: Vec::new(),
            taken: BTreeSet::new(),
        };
        match exported {
            Err(error) => offer.error = Some(error),
            Ok(exported) => {
                offer.dst = Some(exported.dst);
                offer.routes = (collects.iter().enumerate())
                    .filter(|(_, collect)| collect.from.contains(&offer.id.key.exporter))
                    .map(|(position, collect)| {
                        let route = confined(exported, collect);
                        (position, route.map(|route| (route.canonical_key(), route)))
                    })
                    .collect();
                if offer.keys().next().is_some() {
                    offer.gateways = gateways(exported).collect();
                }
            }
        }
        offer
    }

    /// Makes no route of it, whatever the collections say.
    pub(super) fn refuse(&mut self, why: String) {
        self.error = Some(why);
        self.gateways.clear();
        self.routes.clear();
    }

    /// True if it is of a resource: a lease or a revision alone says nothing else.
    pub(super) fn is_of(&self, resource: &Resource) -> bool {
        (self.id.created, &self.data) == (resource.created, &resource.data)
    }

    /// Returns the destination, if a collection would make a route of it.
    pub(super) fn destination(&self) -> Option<Prefix> {
        self.dst.filter(|_| self.keys().next().is_some())
    }

    /// Returns the keys of the routes that it would make.
    pub(super) fn keys(&self) -> impl Iterator<Item = RouteKey> {
        self.routes.iter().filter_map(|(_, route)| route.as_ref().ok()).map(|(key, _)| *key)
    }

    /// Returns the route of this key that it makes.
    pub(super) fn route(&self, key: &RouteKey) -> Option<&Route<IfName>> {
        self.routes.iter().rev().find_map(|(position, made)| match made {
            Ok((of, route)) if of == key && self.taken.contains(&(*position, *of)) => Some(route),
            _ => None,
        })
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
    if collect.dev.is_none()
        && let Some(gateway) = gateways(exported).find(|it| is_link_local(*it))
    {
        return Err(format!(
            "the gateway {gateway} is link-local, and needs the collection's `dev`"
        ));
    }
    let mut hops = exported.nexthops.as_slice().to_vec();
    for hop in &mut hops {
        hop.dev = collect.dev;
    }
    let route = Route::new(dst, NextHops::Many(hops).canonical())
        .with_metric(collect.metric.unwrap_or(exported.metric));
    Ok(match collect.table {
        Some(table) => route.with_table(table),
        None => route,
    })
}
