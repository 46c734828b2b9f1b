//! The routes that take traffic from another host's, updated with each change. They lead to a part
//! of its prefix, or to all of it with a lower metric.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_net::{IpNetwork, Prefix, RouteKey};

use super::accepted::Overlap;
use super::offer::Id;

/// The export that makes each route.
pub(super) type Owners = BTreeMap<RouteKey, Arc<Id>>;

/// The routes that take traffic from another host's. Each has the route that the kernel would use
/// without it.
#[derive(Default)]
pub(super) struct Overlaps {
    /// The routes by table and destination. Routes to parts of a prefix follow it.
    by_prefix: BTreeMap<(u32, Prefix), BTreeSet<RouteKey>>,
    /// The route to the whole prefix, by the key of the route to a part of it.
    found: BTreeMap<RouteKey, RouteKey>,
}

impl Overlaps {
    /// Updates this from the routes. `changed` has the keys of the changed ones.
    pub(super) fn update(&mut self, owners: &Owners, changed: &BTreeSet<RouteKey>) {
        for key in changed {
            let at = (key.table, key.dst);
            let of_prefix = self.by_prefix.entry(at).or_default();
            if owners.contains_key(key) {
                of_prefix.insert(*key);
            } else {
                of_prefix.remove(key);
            }
            if of_prefix.is_empty() {
                self.by_prefix.remove(&at);
            }
        }
        let mut concerned = changed.clone();
        for RouteKey { table, dst, .. } in changed {
            concerned.extend(
                (self.by_prefix.range((*table, *dst)..))
                    .take_while(|((of, part), _)| of == table && dst.covers(*part))
                    .flat_map(|(_, keys)| keys),
            );
        }
        for key in concerned {
            match self.outer(owners, &key) {
                Some(outer) => self.found.insert(key, outer),
                None => self.found.remove(&key),
            };
        }
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    pub(super) fn all(&self, owners: &Owners) -> Vec<Overlap> {
        (self.found.iter())
            .filter_map(|(inner, outer)| {
                let (of, within) = (owners.get(outer)?.origin(), owners.get(inner)?.origin());
                Some(Overlap { outer: (outer.dst, of), inner: (inner.dst, within) })
            })
            .collect()
    }

    /// Returns the other host's route that loses traffic to this one: the same prefix with the next
    /// higher metric, or else the longest prefix around it.
    fn outer(&self, owners: &Owners, key: &RouteKey) -> Option<RouteKey> {
        let exporter = &owners.get(key)?.key.exporter;
        let is_anothers =
            |outer: &&RouteKey| owners.get(*outer).is_some_and(|it| it.key.exporter != *exporter);
        (self.by_prefix.get(&(key.table, key.dst)).into_iter().flatten())
            .filter(|other| other.metric > key.metric)
            .find(is_anothers)
            .or_else(|| {
                (0..key.dst.len()).rev().find_map(|len| {
                    let network = IpNetwork::new(key.dst.address(), len).ok()?;
                    let at = (key.table, Prefix::containing(network));
                    self.by_prefix.get(&at)?.iter().rev().find(is_anothers)
                })
            })
            .copied()
    }
}
