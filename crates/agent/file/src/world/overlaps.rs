//! The routes that take traffic from another host's, kept from change to change: to a part of its
//! prefix, or to all of it with a lower metric.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{IfName, IpNetwork, Prefix, Route, RouteKey};

use super::{Origin, Overlap};

type Routes = BTreeMap<RouteKey, (Route<IfName>, Origin)>;

/// The routes that take traffic from another host's: each with the one that the kernel would use
/// without it.
#[derive(Default)]
pub(super) struct Overlaps {
    /// The routes by table and destination: those to parts of a prefix follow it.
    by_prefix: BTreeMap<(u32, Prefix), BTreeSet<RouteKey>>,
    /// The route to the prefix, by the route to a part of it.
    found: BTreeMap<RouteKey, RouteKey>,
}

impl Overlaps {
    /// Brings it up to date with routes, of which these have changed.
    pub(super) fn update(&mut self, routes: &Routes, changed: &BTreeSet<RouteKey>) {
        for key in changed {
            let at = (key.table, key.dst);
            let of_prefix = self.by_prefix.entry(at).or_default();
            match routes.contains_key(key) {
                true => of_prefix.insert(*key),
                false => of_prefix.remove(key),
            };
            if of_prefix.is_empty() {
                self.by_prefix.remove(&at);
            }
        }
        let mut concerned = changed.clone();
        for RouteKey { table, dst, .. } in changed {
            let from = self.by_prefix.range((*table, *dst)..);
            let parts = from.take_while(|((of, part), _)| of == table && dst.covers(*part));
            concerned.extend(parts.flat_map(|(_, keys)| keys));
        }
        for key in concerned {
            match self.outer(routes, &key) {
                Some(outer) => self.found.insert(key, outer),
                None => self.found.remove(&key),
            };
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn all(&self, routes: &Routes) -> Vec<Overlap> {
        let side = |key: &RouteKey| {
            let (route, origin) = routes.get(key)?;
            Some((route.dst, origin.clone()))
        };
        let overlap = |(inner, outer): (&RouteKey, &RouteKey)| {
            let (inner, outer) = (side(inner)?, side(outer)?);
            Some(Overlap { outer, inner })
        };
        self.found.iter().filter_map(overlap).collect()
    }

    /// Returns the route of another host that this one takes traffic from: to the same prefix with
    /// the next higher metric, or else to the longest prefix around it.
    fn outer(&self, routes: &Routes, key: &RouteKey) -> Option<RouteKey> {
        let (_, origin) = routes.get(key)?;
        let is_anothers = |outer: &&RouteKey| {
            let outer = routes.get(*outer);
            outer.is_some_and(|(_, theirs)| theirs.exporter != origin.exporter)
        };
        let same = self.by_prefix.get(&(key.table, key.dst));
        let behind = |other: &&RouteKey| other.metric > key.metric;
        let mut behind = same.into_iter().flatten().filter(behind);
        if let Some(behind) = behind.find(is_anothers) {
            return Some(*behind);
        }
        let shorter = (0..key.dst.len()).rev();
        let around = shorter.filter_map(|len| {
            let network = IpNetwork::new(key.dst.address(), len).ok()?;
            let at = (key.table, Prefix::containing(network));
            self.by_prefix.get(&at)?.iter().rev().find(is_anothers)
        });
        around.copied().next()
    }
}
