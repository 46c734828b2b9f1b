//! [`NexthopTable`] holds the nexthop objects that routes point at. It decides which existing
//! objects are used and changed, and which ids new ones get.
//!
//! It remembers nothing between passes. An existing object that is as desired is used. If a set of
//! next hops changes, its routes should stay on their object, so that a single change of the object
//! suffices. So the new set takes over an object whose set is no longer desired. If there are
//! several, it takes the one with the set's own id, a hash of the first route with the set, which
//! is usually the same before and after. If it is not, the routes move to a new object. That costs
//! an op for each route, but is equally correct.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::{NextHop, Nexthop, NexthopTarget, Route, RouteKey, RouteType};
use crate::values::Family;

/// A set's next hops, sorted, each with its weight.
type NexthopSet = Vec<(NextHop, u16)>;

/// The nexthop objects that routes point at, with the set of next hops of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NexthopTable {
    of_sets: BTreeMap<NexthopSet, u32>,
    all: Vec<Nexthop>,
}

impl NexthopTable {
    /// Returns all objects, by id.
    pub(crate) fn all(&self) -> &[Nexthop] {
        &self.all
    }

    /// Makes the table for the values of routes, given the existing objects. `first_keys` finds the
    /// key of each value's first route. It is called only if new ids are needed.
    pub(super) fn of(
        values: &[Option<&Route>],
        first_keys: impl Fn() -> Vec<Option<RouteKey>>,
        observed: &[Nexthop],
        marker: u8,
    ) -> NexthopTable {
        // Each set with the values that use it, which list next hops in the order written.
        let mut sets: BTreeMap<NexthopSet, Vec<usize>> = BTreeMap::new();
        for (at, route) in values.iter().enumerate() {
            if let Some(set) = route.and_then(set_of) {
                sets.entry(set).or_default().push(at);
            }
        }
        let mut singles: [Wanted; 2] = Default::default();
        for value in sets.values().flatten() {
            let hops = values[*value].iter().flat_map(|route| route.nexthops.as_slice());
            for (position, hop) in hops.enumerate() {
                let of_family = usize::from(family_of(hop) == Family::Inet6);
                let uses = singles[of_family].entry(target_of(hop)).or_default();
                uses.push(Use { value: *value, position });
            }
        }
        let mut allocator = IdAllocator {
            observed,
            used: observed.iter().map(|nexthop| nexthop.id).collect(),
            marker,
            first_keys,
            found: OnceCell::new(),
        };
        let mut ids = BTreeMap::new();
        for (wanted, family) in singles.into_iter().zip([Family::Inet, Family::Inet6]) {
            ids.extend(allocator.assign(
                wanted,
                |target| matches!(target, NexthopTarget::One(of, _) if *of == family),
            ));
        }
        let mut groups: [Wanted; 2] = Default::default();
        for (set, values) in sets.iter().filter(|(set, _)| set.len() > 1) {
            let four = set.iter().any(|(hop, _)| family_of(hop) == Family::Inet);
            if let Some(target) = target_of_set(set, &ids) {
                let uses = values.iter().map(|value| Use { value: *value, position: 0 });
                groups[usize::from(!four)].insert(target, uses.collect());
            }
        }
        for (wanted, is_four) in groups.into_iter().zip([true, false]) {
            ids.extend(allocator.assign(wanted, |target| {
                target.is_group() && leads_to_four(target, observed) == is_four
            }));
        }
        let of_sets = sets
            .into_keys()
            .filter_map(|set| {
                let id = *ids.get(&target_of_set(&set, &ids)?)?;
                Some((set, id))
            })
            .collect();
        let mut all: Vec<Nexthop> = ids
            .into_iter()
            .map(|(target, id)| Nexthop { id, target, protocol: marker, unmodelled: false })
            .collect();
        all.sort_unstable_by_key(|nexthop| nexthop.id);
        NexthopTable { of_sets, all }
    }

    /// Returns the object that a route points at, or `None` if the route contains its next hops.
    pub(super) fn object_of(&self, route: &Route) -> Option<u32> {
        if self.of_sets.is_empty() {
            return None;
        }
        self.of_sets.get(&set_of(route)?).copied()
    }

    /// Splits the table in two. Sets whose object, or a member of it, is among `ids` are in the
    /// second. Neither part has objects to create, so a plan with it concerns only routes.
    pub(super) fn split(&self, ids: &BTreeSet<u32>) -> (NexthopTable, NexthopTable) {
        let groups = self
            .all
            .iter()
            .filter(|nexthop| nexthop.members().any(|id| ids.contains(&id)))
            .map(|group| group.id);
        let among: BTreeSet<u32> = groups.chain(ids.iter().copied()).collect();
        let (of_ids, others) = self
            .of_sets
            .iter()
            .map(|(set, id)| (set.clone(), *id))
            .partition(|(_, id)| among.contains(id));
        let [others, of_ids] =
            [others, of_ids].map(|of_sets| NexthopTable { of_sets, all: Vec::new() });
        (others, of_ids)
    }
}

/// Returns the target of a set's object, given the ids of the objects for single next hops.
fn target_of_set(set: &NexthopSet, ids: &BTreeMap<NexthopTarget, u32>) -> Option<NexthopTarget> {
    if let [(hop, _)] = set.as_slice() {
        return Some(target_of(hop));
    }
    let members = set.iter().map(|(hop, weight)| Some((*ids.get(&target_of(hop))?, *weight)));
    let mut members: Vec<(u32, u16)> = members.collect::<Option<_>>()?;
    members.sort_unstable();
    Some(NexthopTarget::Group(members))
}

/// Returns true if a group leads to IPv4, or may. The kernel refuses it for IPv6 routes, so none of
/// their groups may become one.
fn leads_to_four(target: &NexthopTarget, observed: &[Nexthop]) -> bool {
    let NexthopTarget::Group(members) = target else {
        return false;
    };
    members.iter().any(|(id, _)| {
        let known = observed.iter().find(|nexthop| nexthop.id == *id);
        known.is_none_or(|nexthop| matches!(nexthop.target, NexthopTarget::One(Family::Inet, _)))
    })
}

/// Returns true if an object can replace the route's next hops.
pub(super) fn can_point(route: &Route) -> bool {
    set_of(route).is_some()
}

/// Returns the set of a route's next hops, if an object can hold it. The kernel requires a device
/// for each next hop, takes none twice in a group, and refuses IPv6 routes with a source prefix. A
/// route straight out of a device may make other routes' gateways reachable, so it contains its
/// next hop.
fn set_of(route: &Route) -> Option<NexthopSet> {
    if route.kind != RouteType::Unicast || route.from.is_some() {
        return None;
    }
    let hops = route.nexthops.as_slice();
    let members = hops.iter().map(|hop| {
        // Before Linux 6.12 a weight in a group is at most 255.
        let is_known = hop.written_dev().is_some_and(|dev| !dev.is_missing());
        let fits = hop.via.is_some() && is_known && hop.weight < 256;
        fits.then(|| (hop.clone().with_weight(1), hop.weight))
    });
    let mut set: NexthopSet = members.collect::<Option<_>>()?;
    set.sort_unstable();
    let twice = set.windows(2).any(|pair| pair[0].0 == pair[1].0);
    (!set.is_empty() && !twice).then_some(set)
}

fn family_of(hop: &NextHop) -> Family {
    hop.via.map_or(Family::Inet, Family::of)
}

/// Returns the target of the object for one next hop.
fn target_of(hop: &NextHop) -> NexthopTarget {
    NexthopTarget::One(family_of(hop), hop.clone().with_weight(1))
}

/// A use of a target: by the routes of a value, at a position among their next hops.
struct Use {
    value: usize,
    position: usize,
}

/// The routes' targets, each with all its uses.
type Wanted = BTreeMap<NexthopTarget, Vec<Use>>;

/// Assigns ids to targets.
struct IdAllocator<'a, F> {
    observed: &'a [Nexthop],
    used: BTreeSet<u32>,
    marker: u8,
    first_keys: F,
    /// The key of each value's first route, once looked up.
    found: OnceCell<Vec<Option<RouteKey>>>,
}

impl<F: Fn() -> Vec<Option<RouteKey>>> IdAllocator<'_, F> {
    /// Assigns ids to the targets of one sort. They take over existing objects of the same sort
    /// that are no longer desired.
    fn assign(
        &mut self,
        wanted: Wanted,
        is_alike: impl Fn(&NexthopTarget) -> bool,
    ) -> BTreeMap<NexthopTarget, u32> {
        let mut there: Vec<&Nexthop> = self
            .observed
            .iter()
            .filter(|nexthop| nexthop.protocol == self.marker && !nexthop.unmodelled)
            .collect();
        there.sort_unstable_by_key(|nexthop| nexthop.id);
        there.retain(|nexthop| is_alike(&nexthop.target));
        let mut ids = BTreeMap::new();
        let mut free = BTreeSet::new();
        for nexthop in there {
            if !wanted.contains_key(&nexthop.target) {
                free.insert(nexthop.id);
            } else if !ids.contains_key(&nexthop.target) {
                ids.insert(nexthop.target.clone(), nexthop.id);
            }
        }
        let mut missing: Vec<_> =
            wanted.into_iter().filter(|(target, _)| !ids.contains_key(target)).collect();
        if let ([(target, _)], 1) = (missing.as_slice(), free.len()) {
            ids.extend(free.pop_first().map(|id| (target.clone(), id)));
            return ids;
        }
        missing.sort_by_cached_key(|(_, uses)| self.first_use(uses));
        for (target, uses) in missing {
            let Some(first) = self.first_use(&uses) else {
                continue;
            };
            let own = self.own_id(&first);
            let id = free.take(&own).or_else(|| self.next_unused(own));
            // If all sixteen million ids are used, routes contain their next hops.
            let Some(id) = id else { continue };
            self.used.insert(id);
            ids.insert(target, id);
        }
        ids
    }

    /// Returns the first route that uses a target, and the position among its next hops.
    fn first_use(&self, uses: &[Use]) -> Option<(RouteKey, usize)> {
        let first_keys = self.found.get_or_init(&self.first_keys);
        uses.iter().filter_map(|at| Some((first_keys.get(at.value).copied()??, at.position))).min()
    }

    /// Returns the id derived from a target's first use.
    fn own_id(&self, (key, position): &(RouteKey, usize)) -> u32 {
        let RouteKey { table, dst, metric, tos, .. } = key;
        // FNV-1a: the same in every version and on every machine.
        let hash = format!("{table} {dst} {metric} {tos} {position}")
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let ids = Nexthop::ids(self.marker);
        ids.start() + (hash >> 24 ^ hash) % (ids.end() - ids.start() + 1)
    }

    /// Returns the first unused id from `from` on.
    fn next_unused(&self, from: u32) -> Option<u32> {
        let ids = Nexthop::ids(self.marker);
        let mut from_there = (from..=*ids.end()).chain(*ids.start()..from);
        from_there.find(|id| !self.used.contains(id))
    }
}
