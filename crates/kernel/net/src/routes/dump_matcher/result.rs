//! The results of a [`DumpMatcher`](super::DumpMatcher) for one dump.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::net::IpAddr;

use crate::kinds::{NextHops, ObjectKind as _, Route};
use crate::routes::index::{Id, Key4, Key6, Packed, Routes};

/// The matcher's decision about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum RowMatch {
    /// The row is as desired, and not kept.
    Matched,
    /// The row is another writer's on no desired key, and not kept.
    Foreign,
    /// The row is kept for the planner.
    Kept,
    /// The row is kept together with the one before it: both have the same key, and the first one
    /// had counted as a match.
    KeptBoth(Box<Route>),
}

/// The objects on which routes depend, besides the ones that make gateways reachable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteDependencies {
    /// The devices of the routes' next hops, by index.
    pub devices: BTreeSet<u32>,
    /// The routes' preferred source addresses.
    pub sources: BTreeSet<IpAddr>,
    /// The nexthop objects that routes point at, by id.
    pub nexthops: BTreeSet<u32>,
}

impl RouteDependencies {
    /// Adds a route's dependencies.
    pub fn note(&mut self, route: &Route) {
        self.sources.extend(route.src);
        if let NextHops::Object(id, _) = &route.nexthops {
            self.nexthops.insert(*id);
        }
        let devices = route.nexthops.devices();
        self.devices.extend(devices.filter_map(|dev| dev.as_index()));
    }

    /// Adds the dependencies of other routes.
    pub fn add(&mut self, others: RouteDependencies) {
        self.devices.extend(others.devices);
        self.sources.extend(others.sources);
        self.nexthops.extend(others.nexthops);
    }
}

/// The keys of desired routes without a matching row, and the dependencies of the matching rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mismatches {
    pub(super) v4: Vec<Key4>,
    pub(super) v6: Vec<Key6>,
    pub(super) matched: usize,
    pub(super) dependencies: RouteDependencies,
    pub(super) disorder: bool,
}

impl Mismatches {
    /// Adds the mismatches of another dump.
    pub(super) fn add(&mut self, other: Mismatches) {
        let sorted = self.v4.is_empty() && self.v6.is_empty();
        self.v4.extend(other.v4);
        self.v6.extend(other.v6);
        self.matched += other.matched;
        self.dependencies.add(other.dependencies);
        self.disorder |= other.disorder;
        if !sorted {
            self.v4.sort_unstable();
            self.v6.sort_unstable();
        }
    }

    /// Returns true if all mismatches of another dump are among these.
    pub(super) fn contains(&self, other: &Mismatches) -> bool {
        other.v4.iter().all(|key| self.v4.binary_search(key).is_ok())
            && other.v6.iter().all(|key| self.v6.binary_search(key).is_ok())
    }

    /// Returns the mismatches common to two dumps of the same routes: a route seen once exists.
    pub(super) fn common(mut self, other: &Mismatches) -> Mismatches {
        self.v4.retain(|key| other.v4.binary_search(key).is_ok());
        self.v6.retain(|key| other.v6.binary_search(key).is_ok());
        self.matched = self.matched.max(other.matched);
        self.dependencies.add(other.dependencies.clone());
        self
    }
}

impl<D: Clone + Eq + Hash> Routes<D> {
    /// Returns the routes with mismatches, and those with a kept row on their key.
    pub(super) fn mismatched(&self, mismatches: &Mismatches, kept: &[Route]) -> Routes<D> {
        let of_kept = kept.iter().map(|route| Packed::of(&route.key()));
        let v4 = of_kept.clone().filter_map(|key| match key {
            Packed::V4(key) => Some(key),
            _ => None,
        });
        let v6 = of_kept.filter_map(|key| match key {
            Packed::V6(key) => Some(key),
            _ => None,
        });
        self.subset(
            among(&self.v4, &mismatches.v4, v4),
            among(&self.v6, &mismatches.v6, v6),
            // Rows with a source prefix are always kept.
            self.generic.clone(),
        )
    }
}

/// Returns the rows with some keys. The first keys are in order, and all of them have rows.
fn among<K: Ord + Copy>(
    rows: &BTreeMap<K, Id>,
    keys: &[K],
    more: impl Iterator<Item = K>,
) -> BTreeMap<K, Id> {
    // If many keys are wanted, walking all rows is faster.
    let mut some: BTreeMap<K, Id> = if keys.len() > rows.len() / 16 {
        let mut wanted = keys.iter().peekable();
        let found = rows.iter().filter(|(key, _)| {
            while wanted.next_if(|next| next < key).is_some() {}
            wanted.next_if(|next| next == key).is_some()
        });
        found.map(|(key, id)| (*key, *id)).collect()
    } else {
        keys.iter().filter_map(|key| Some((*key, *rows.get(key)?))).collect()
    };
    // Most of them are in order, and come first.
    let mut rest = keys;
    for key in more {
        if rest.first().is_none_or(|next| *next > key) {
            rest = &keys[keys.partition_point(|known| *known < key)..];
        }
        while let [next, after @ ..] = rest
            && *next < key
        {
            rest = after;
        }
        if rest.first() != Some(&key)
            && let Some(id) = rows.get(&key)
        {
            some.insert(key, *id);
        }
    }
    some
}
