//! What is accepted of other hosts' exports, and what is refused.

use std::collections::BTreeMap;
use std::fmt;

use trueup_net::{IfName, Prefix, Route, RouteKey, Routes};

use crate::store::Revision;

/// What became of the exports of other hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The routes, by key, each with where it comes from.
    pub routes: BTreeMap<RouteKey, (Route<IfName>, Origin)>,
    /// The exports that were not taken, in the order in which they were made.
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
    /// The name of the export.
    pub name: String,
    /// The revision that made it.
    pub created: Revision,
}

/// An export that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The export.
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
