//! Turns what other hosts export into routes. It is untrusted input: checked, bounded and confined.

use std::collections::BTreeMap;
use std::fmt;

use trueup_net::{IfName, Prefix, Route, RouteKey, Routes};

use super::{Acceptance, Collect};

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
    /// Routes that take traffic from another host's: to a part of its prefix, or to all of it with
    /// a lower metric.
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

/// A route that takes traffic from another host's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// The prefix that loses traffic, and where it comes from.
    pub outer: (Prefix, Origin),
    /// The longer prefix, or the same one with a lower metric, which the kernel prefers.
    pub inner: (Prefix, Origin),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { exporter, name, created } = self;
        write!(f, "`{}` of host {exporter}, revision {created}", name.escape_debug())
    }
}

/// Writes both prefixes, with where they come from, and which one wins.
impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((outer, of), (inner, within)) = (&self.outer, &self.inner);
        if outer == inner {
            return write!(
                f,
                "{inner} ({within}) has a lower metric than that of {of}: the kernel \
                              prefers it"
            );
        }
        write!(
            f,
            "{inner} ({within}) is a part of {outer} ({of}): the kernel prefers the longer one"
        )
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
    let mut acceptance = Acceptance::new(collects, host);
    let resources = resources.into_iter();
    resources.for_each(|resource| acceptance.insert(resource));
    acceptance.settle();
    acceptance.accepted()
}
