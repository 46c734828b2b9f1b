//! Turns what other hosts export into routes. It is untrusted input: checked, bounded and confined.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use trueup_diff::{IfName, NextHops, Prefix, Route, RouteKey, Routes};

use super::{Collect, route};

/// A resource of the kind `route`, as the world has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    /// The host that exported it.
    pub exporter: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The revision that made it.
    pub created: u64,
    /// What was exported.
    pub data: &'a [u8],
}

/// What became of the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The routes, by key, each with its resource.
    pub routes: BTreeMap<RouteKey, (Route<IfName>, Origin)>,
    /// The resources that were not taken, in the order in which they were made.
    pub refused: Vec<Refused>,
    /// Routes to a part of another host's prefix, which take its traffic.
    pub overlaps: Vec<Overlap>,
}

/// Where a route comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Origin {
    /// The host that exported it.
    pub exporter: String,
    /// The name of the resource.
    pub name: String,
    /// The revision that made it.
    pub created: u64,
}

/// A resource that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The resource.
    pub origin: Origin,
    /// The destination, if it is a route.
    pub dst: Option<Prefix>,
    /// The reason.
    pub reason: String,
}

/// A route to a part of another host's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// The shorter prefix, and where it comes from.
    pub outer: (Prefix, Origin),
    /// The longer prefix, which the kernel prefers.
    pub inner: (Prefix, Origin),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin {
            exporter,
            name,
            created,
        } = self;
        write!(
            f,
            "`{}` of host {exporter}, revision {created}",
            name.escape_debug()
        )
    }
}

impl Origin {
    fn of(resource: &Resource<'_>) -> Origin {
        Origin {
            exporter: resource.exporter.to_owned(),
            name: resource.name.to_owned(),
            created: resource.created,
        }
    }
}

impl Accepted {
    /// Refuses the routes whose key this host declares itself.
    pub fn yield_to(&mut self, declared: &Routes<IfName>) {
        let refused = &mut self.refused;
        self.routes.retain(|key, (route, origin)| {
            let is_free = declared.get(key).is_none();
            if !is_free {
                refused.push(Refused {
                    origin: origin.clone(),
                    dst: Some(route.dst),
                    reason: format!("this host declares {} itself", route.dst),
                });
            }
            is_free
        });
    }
}

/// Makes routes of the resources that `collects` take. What `host`, this host, exported itself is
/// left out.
///
/// Of two resources for the same route the one that was made first wins, on every host. A route is
/// taken only if a collection takes from its exporter, and its destination is within; in number, as
/// many as the collection takes from one host, those that were made first. Its table and device are
/// the collection's.
pub fn accept<'a>(
    collects: &[Collect],
    host: &str,
    resources: impl IntoIterator<Item = Resource<'a>>,
) -> Accepted {
    let others = resources.into_iter().filter(|it| it.exporter != host);
    let mut resources: Vec<Resource<'a>> = others.collect();
    resources.sort_by_key(|it| (it.created, it.exporter, it.name, it.data));
    let mut accepted = Accepted::default();
    let mut taken: HashMap<(usize, &str), u32> = HashMap::new();
    for resource in &resources {
        let exported = route::from_data(resource.data);
        let dst = exported.as_ref().ok().map(|exported| exported.dst);
        let made =
            exported.and_then(|it| make(collects, resource, &it, &mut taken, &accepted.routes));
        let origin = Origin::of(resource);
        match made {
            Ok(routes) => {
                let routes = routes.into_iter();
                let keyed = routes.map(|route| (route.canonical_key(), (route, origin.clone())));
                accepted.routes.extend(keyed);
            }
            Err(reason) => accepted.refused.push(Refused {
                origin,
                dst,
                reason,
            }),
        }
    }
    accepted.overlaps = overlaps(&accepted.routes);
    accepted
}

/// Makes the routes of a resource, one for each collection that takes it.
fn make<'a>(
    collects: &[Collect],
    resource: &Resource<'a>,
    exported: &Route<IfName>,
    taken: &mut HashMap<(usize, &'a str), u32>,
    routes: &BTreeMap<RouteKey, (Route<IfName>, Origin)>,
) -> Result<Vec<Route<IfName>>, String> {
    let mut made = Vec::new();
    let mut reason = format!("no collection takes from host {}", resource.exporter);
    for (position, collect) in collects.iter().enumerate() {
        if !collect.from.contains(resource.exporter) {
            continue;
        }
        if !collect
            .within
            .iter()
            .any(|within| within.covers(exported.dst))
        {
            reason = format!("{} is not within what is collected", exported.dst);
            continue;
        }
        let route = confined(exported, collect);
        if let Some((_, origin)) = routes.get(&route.canonical_key()) {
            reason = format!("{} was exported first: {origin}", exported.dst);
            continue;
        }
        let count = taken.entry((position, resource.exporter)).or_default();
        if *count >= collect.limit {
            reason = format!("the limit of {} from one host is reached", collect.limit);
            continue;
        }
        *count += 1;
        made.push(route);
    }
    match made.is_empty() {
        true => Err(reason),
        false => Ok(made),
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

/// Finds the routes to a part of another host's prefix: each with the longest such prefix.
fn overlaps(routes: &BTreeMap<RouteKey, (Route<IfName>, Origin)>) -> Vec<Overlap> {
    let mut sorted: Vec<&(Route<IfName>, Origin)> = routes.values().collect();
    sorted.sort_by_key(|(route, origin)| (route.table, route.dst, origin));
    let mut around: Vec<&(Route<IfName>, Origin)> = Vec::new();
    let mut overlaps = Vec::new();
    for it @ (route, origin) in sorted {
        let covers =
            |outer: &Route<IfName>| outer.table == route.table && outer.dst.covers(route.dst);
        while around.last().is_some_and(|(outer, _)| !covers(outer)) {
            around.pop();
        }
        let is_anothers = |(outer, theirs): &&&(Route<IfName>, Origin)| {
            outer.dst != route.dst && theirs.exporter != origin.exporter
        };
        if let Some((outer, theirs)) = around.iter().rev().find(is_anothers) {
            overlaps.push(Overlap {
                outer: (outer.dst, theirs.clone()),
                inner: (route.dst, origin.clone()),
            });
        }
        around.push(it);
    }
    overlaps
}
