//! Which nexthop objects routes point at, where they do: which of those that are there serve, which are changed, and what
//! numbers new ones get.
//!
//! Nothing is remembered from pass to pass. An object that is there as desired is used. Where a set of next hops has become
//! another, the routes are to stay on their object, so that one change of it is all there is to do: the new set takes over
//! the one object whose set nobody desires any more; of several, the one that bears the set's name. That is a number made of
//! the first route that leads there: as a rule it is the same before and after. Where it is not, the routes are pointed at
//! a new object, which costs an op each and is as right.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::{NextHop, Nexthop, NexthopTarget, Route, RouteKey, RouteType};
use crate::ownership::Proof;
use crate::values::Family;

/// The next hops of a set, sorted, each with its share.
type Set = Vec<(NextHop, u16)>;

/// What tells a set from others whatever it is at the moment: its first route, and the place among its next hops.
type Name = (RouteKey, usize);

/// The nexthop objects that routes point at: which there are to be, and which stands for what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NexthopTable {
    of_sets: BTreeMap<Set, u32>,
    all: Vec<Nexthop>,
}

impl NexthopTable {
    /// All of them, in the order of their numbers.
    pub fn all(&self) -> &[Nexthop] {
        &self.all
    }

    /// Those for values of routes, given the objects that are there. `firsts` finds the key of the first route of each value:
    /// it is asked only where names are needed.
    pub(crate) fn of(
        values: &[Option<Route>],
        firsts: impl Fn() -> Vec<Option<RouteKey>>,
        observed: &[Nexthop],
        proof: Proof<'_>,
    ) -> NexthopTable {
        // Each set with the values that have it, whose next hops are in the order in which they were written.
        let mut sets: BTreeMap<Set, Vec<usize>> = BTreeMap::new();
        for (at, route) in values.iter().enumerate() {
            if let Some(set) = route.as_ref().and_then(set_of) {
                sets.entry(set).or_default().push(at);
            }
        }
        let mut singles: [Wanted; 2] = Default::default();
        for at in sets.values().flatten() {
            let hops = values[*at]
                .iter()
                .flat_map(|route| route.nexthops.as_slice());
            for (place, hop) in hops.enumerate() {
                let of_family = usize::from(family_of(hop) == Family::Inet6);
                let target = singles[of_family].entry(target_of(hop)).or_default();
                target.push((*at, place));
            }
        }
        let mut numbers = IdAllocator {
            observed,
            used: observed.iter().map(|nexthop| nexthop.id).collect(),
            proof,
            firsts: &firsts,
            names: OnceCell::new(),
        };
        let [four, six] = singles;
        let is_of = |family| move |target: &NexthopTarget| matches!(target, NexthopTarget::One(of, _) if *of == family);
        let mut ids = numbers.assign(four, is_of(Family::Inet));
        ids.extend(numbers.assign(six, is_of(Family::Inet6)));

        let id_of = |hop: &NextHop| ids.get(&target_of(hop)).copied();
        let group_of = |set: &Set| {
            let members = set.iter().map(|(hop, weight)| Some((id_of(hop)?, *weight)));
            let mut members: Vec<(u32, u16)> = members.collect::<Option<_>>()?;
            members.sort_unstable();
            Some(NexthopTarget::Group(members))
        };
        // The kernel lets no route of IPv6 lead to IPv4, and so no group of theirs become one that does.
        let leads_to_four = |target: &NexthopTarget| {
            let of_four = |id: u32| {
                let known = observed.iter().find(|nexthop| nexthop.id == id);
                known.is_none_or(|nexthop| {
                    matches!(nexthop.target, NexthopTarget::One(Family::Inet, _))
                })
            };
            matches!(target, NexthopTarget::Group(members) if members.iter().any(|(id, _)| of_four(*id)))
        };
        let mut groups: [Wanted; 2] = Default::default();
        for (set, at) in sets.iter().filter(|(set, _)| set.len() > 1) {
            let four = set.iter().any(|(hop, _)| family_of(hop) == Family::Inet);
            if let Some(target) = group_of(set) {
                let named = at.iter().map(|at| (*at, 0)).collect();
                groups[usize::from(!four)].insert(target, named);
            }
        }
        let [four, six] = groups;
        let is_group = |target: &NexthopTarget| matches!(target, NexthopTarget::Group(_));
        let mut all_ids = numbers.assign(four, |target| is_group(target) && leads_to_four(target));
        all_ids.extend(numbers.assign(six, |target| is_group(target) && !leads_to_four(target)));

        let of_set = |set: Set| {
            let id = match set.as_slice() {
                [(hop, _)] => id_of(hop),
                _ => group_of(&set).and_then(|target| all_ids.get(&target).copied()),
            };
            id.map(|id| (set, id))
        };
        let of_sets = sets.into_keys().filter_map(of_set).collect();
        all_ids.extend(ids);
        let object = |(target, id)| Nexthop {
            id,
            target,
            protocol: proof.policy.marker,
            unmodelled: false,
        };
        let mut all: Vec<Nexthop> = all_ids.into_iter().map(object).collect();
        all.sort_unstable_by_key(|nexthop| nexthop.id);
        NexthopTable { of_sets, all }
    }

    /// Which object a route points at, instead of leading by its own next hops.
    pub(crate) fn pointing(&self, route: &Route) -> Option<u32> {
        if self.of_sets.is_empty() {
            return None;
        }
        self.of_sets.get(&set_of(route)?).copied()
    }
}

/// The set of a route's next hops, if an object can stand for it: the kernel wants a device for each, takes none twice in a
/// group, and lets no route of IPv6 with a source prefix point at one. A route that leads straight out of a device may make
/// the gateways of others reachable, and stays as it is.
fn set_of(route: &Route) -> Option<Set> {
    if route.kind != RouteType::Unicast || route.from.is_some() {
        return None;
    }
    let hops = route.nexthops.as_slice();
    let legs = hops.iter().map(|hop| {
        // Before Linux 6.12 a share in a group is at most 255.
        let fits = hop.via.is_some() && hop.dev.is_some() && hop.weight < 256;
        fits.then(|| (hop.clone().weight(1), hop.weight))
    });
    let mut set: Set = legs.collect::<Option<_>>()?;
    set.sort_unstable();
    let twice = set.windows(2).any(|pair| pair[0].0 == pair[1].0);
    (!set.is_empty() && !twice).then_some(set)
}

fn family_of(hop: &NextHop) -> Family {
    hop.via.map_or(Family::Inet, Family::of)
}

/// Where an object for one next hop leads.
fn target_of(hop: &NextHop) -> NexthopTarget {
    NexthopTarget::One(family_of(hop), hop.clone().weight(1))
}

/// Ways that routes lead, each with where it is named: in which values, and at which of their places.
type Wanted = BTreeMap<NexthopTarget, Vec<(usize, usize)>>;

/// Who has which number.
struct IdAllocator<'a, F> {
    observed: &'a [Nexthop],
    used: BTreeSet<u32>,
    proof: Proof<'a>,
    /// The first route of each value, once it was asked for.
    names: OnceCell<Vec<Option<RouteKey>>>,
    firsts: F,
}

impl<F: Fn() -> Vec<Option<RouteKey>>> IdAllocator<'_, F> {
    /// Numbers for the targets of one sort, among those that are there of that sort.
    fn assign(
        &mut self,
        wanted: Wanted,
        is_alike: impl Fn(&NexthopTarget) -> bool,
    ) -> BTreeMap<NexthopTarget, u32> {
        let ours = |nexthop: &&Nexthop| self.proof.is_ours(*nexthop) && !nexthop.unmodelled;
        let mut there: Vec<&Nexthop> = self.observed.iter().filter(ours).collect();
        there.sort_unstable_by_key(|nexthop| nexthop.id);
        let mut ids = BTreeMap::new();
        let mut free = BTreeSet::new();
        for nexthop in there
            .into_iter()
            .filter(|nexthop| is_alike(&nexthop.target))
        {
            if !wanted.contains_key(&nexthop.target) {
                free.insert(nexthop.id);
            } else if !ids.contains_key(&nexthop.target) {
                ids.insert(nexthop.target.clone(), nexthop.id);
            }
        }
        let missing = wanted
            .into_iter()
            .filter(|(target, _)| !ids.contains_key(target));
        let mut missing: Vec<_> = missing.collect();
        if let ([(target, _)], 1) = (missing.as_slice(), free.len()) {
            ids.extend(free.pop_first().map(|id| (target.clone(), id)));
            return ids;
        }
        missing.sort_by_cached_key(|(_, places)| self.name(places));
        for (target, places) in missing {
            let Some(name) = self.name(&places) else {
                continue;
            };
            let named = self.number(&name);
            let id = free.take(&named).or_else(|| self.next(named));
            // All sixteen million taken: the routes are written out.
            let Some(id) = id else { continue };
            self.used.insert(id);
            ids.insert(target, id);
        }
        ids
    }

    /// The name of a target that is named there.
    fn name(&self, places: &[(usize, usize)]) -> Option<Name> {
        let firsts = self.names.get_or_init(&self.firsts);
        let name = |(value, place): &(usize, usize)| Some((firsts.get(*value).copied()??, *place));
        places.iter().filter_map(name).min()
    }

    /// The number that a name stands for.
    fn number(&self, (key, place): &Name) -> u32 {
        let RouteKey {
            table,
            dst,
            metric,
            tos,
            ..
        } = key;
        // FNV-1a: the same in every version and on every machine.
        let hash = format!("{table} {dst} {metric} {tos} {place}")
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| {
                (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
            });
        let ids = Nexthop::ids(self.proof.policy.marker);
        ids.start() + (hash >> 24 ^ hash) % (ids.end() - ids.start() + 1)
    }

    /// The first number from there on that nobody has.
    fn next(&self, from: u32) -> Option<u32> {
        let ids = Nexthop::ids(self.proof.policy.marker);
        let mut from_there = (from..=*ids.end()).chain(*ids.start()..from);
        from_there.find(|id| !self.used.contains(id))
    }
}
