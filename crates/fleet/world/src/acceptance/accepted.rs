//! The accepted and refused exports of other hosts.

use std::collections::BTreeMap;
use std::fmt;

use trueup_net::{IfName, Prefix, Route, RouteKey, Routes};

use crate::store::Revision;

/// The decisions about other hosts' exports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Accepted {
    /// The accepted routes by key, each with its export.
    pub routes: BTreeMap<RouteKey, (Route<IfName>, Origin)>,
    /// The refused exports, in the order in which they were made.
    pub refused: Vec<Refused>,
    /// The routes that take traffic from another host's: to a part of its prefix, or to all of it
    /// with a lower metric.
    pub overlaps: Vec<Overlap>,
}

/// The export that a route comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Origin {
    /// The name of the host that exported it.
    pub exporter: String,
    /// The export's name, unique among the exporter's exports of a kind to the same hosts.
    pub name: String,
    /// The store's revision in which the export was made.
    pub created: Revision,
}

/// An export that makes no route, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The export, by the host that offers it and its name.
    pub origin: Origin,
    /// The destination. `None` if the export is not a route.
    pub dst: Option<Prefix>,
    /// The reason for the refusal, in words.
    pub reason: String,
}

/// A route that takes traffic from another host's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// The prefix that loses traffic, with its export.
    pub outer: (Prefix, Origin),
    /// The prefix that the kernel prefers, with its export: a longer prefix, or the same with a
    /// lower metric.
    pub inner: (Prefix, Origin),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { exporter, name, created } = self;
        write!(f, "`{}` of host {exporter}, revision {created}", name.escape_debug())
    }
}

/// Writes both prefixes with their exports, and which one wins.
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
    /// Refuses routes whose key this host declares itself.
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
