//! Finds the foreign objects that a plan concerns, and reads them.
//!
//! Foreign routes matter if a plan creates or replaces one, since they may be on its key. Foreign
//! objects of all kinds matter if a plan deletes objects that carry others, since they may be
//! deleted along. They are read only then, and only the relevant ones are kept.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use trueup_net::{
    Action, Dev, Family, ForwardingEntry, Kind, Kinds, Link, NextHops, Nexthop, Object, ObjectKind,
    Observed, Op, Plan, Protocols, Route, RouteKey,
};
use trueup_observe::{DirtySet, Incomplete, Observer, ReadScope, Snapshot};

use super::mode::{Conflicts, Keys};
use super::{Observation, Pass};
use crate::Error;
use crate::history::History;
use crate::key::object_id;

/// `ENODEV`: the kernel refuses a dump for a device that does not exist.
pub(super) const ENODEV: i32 = 19;

impl Pass<'_> {
    /// Returns the foreign objects that a plan concerns, except those already read for it.
    pub(super) fn concerned(
        &self,
        history: &History,
        plan: &Plan,
        seen: &Observation,
    ) -> ForeignObjects {
        ForeignObjects::of(plan, &seen.snapshot.observed, &self.foreign, &seen.foreign, |op| {
            let is_by_kernel = self.mode.conflicts == Conflicts::ByKernel
                && !history.is_in_conflict(object_id(&op.object, &plan.devices));
            is_by_kernel || self.backoff(history, op, &plan.devices).is_some()
        })
    }

    /// Adds these foreign objects to the observation. Returns true if another plan is needed.
    pub(super) fn observe_foreign(
        &mut self,
        foreign: ForeignObjects,
        seen: &mut Observation,
    ) -> Result<bool, Error> {
        let managed = self.wanted.managed();
        let concerns_devices = !foreign.devs.is_empty();
        let read = foreign.read(
            self.observer,
            managed,
            |route| {
                let key = route.key();
                // In the kernel's order: it uses the first object on a key.
                managed.contains(Kind::Route)
                    && (route.protocol == self.policy.marker
                        || self.unmarked.contains(&key)
                        || seen.foreign.covers(&key) && self.desired.has_route(&key))
            },
            |key| self.desired.has_route(key),
            &mut seen.snapshot,
        )?;
        self.foreign.extend(read.on_keys);
        if read.is_new && concerns_devices {
            // Other links may need to be recreated now.
            seen.are_devices_stale = true;
            let is_assigned = matches!(self.mode.keys, Keys::Nexthops(_) | Keys::Objects(..));
            // Routes in sync stay on their nexthop objects.
            seen.names.take_if(|_| seen.out_of_sync.is_none() && !is_assigned);
        }
        Ok(read.is_new)
    }

    /// Finds the conflicting foreign routes that come from router advertisements. Returns true if
    /// there are any: then another plan is made beside them.
    pub(super) fn observe_advertised(&self, plan: &Plan, seen: &mut Observation) -> bool {
        let in_conflict: BTreeSet<RouteKey> = plan
            .conflicts
            .iter()
            .filter_map(|conflict| match &conflict.foreign {
                Object::Route(route) if route.protocol == Protocols::ROUTER_ADVERTISEMENT => {
                    Some(route.key())
                }
                _ => None,
            })
            .collect();
        if in_conflict.is_empty() {
            return false;
        }
        let observed = &mut seen.snapshot.observed;
        observed.advertised = self
            .observer
            .advertised(observed.routes.iter().filter(|route| in_conflict.contains(&route.key())));
        !observed.advertised.is_empty()
    }
}

/// The keys of ours with known foreign routes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignKeys {
    pub(super) keys: Arc<BTreeSet<RouteKey>>,
    /// The tables of which all such keys are known.
    pub(super) tables: BTreeSet<(Family, u32)>,
}

impl ForeignKeys {
    /// Returns true if no foreign route is on a key of ours.
    pub(super) fn is_alone(&self, key: &RouteKey) -> bool {
        self.covers(key) && !self.keys.contains(key)
    }

    /// Returns true if the foreign routes on a key of ours are known.
    pub(super) fn covers(&self, key: &RouteKey) -> bool {
        self.tables.contains(&(key.dst.family(), key.table))
    }

    pub(super) fn extend(&mut self, other: ForeignKeys) {
        self.add_all(other.keys.iter());
        self.tables.extend(other.tables);
    }

    /// Records where other writers have put routes, for the keys that matter.
    pub(super) fn note(&mut self, dirty: &DirtySet, matters: impl Fn(&RouteKey) -> bool) {
        if dirty.everything {
            *self = ForeignKeys::default();
            return;
        }
        self.add_all(dirty.shared_routes.iter().filter(|key| matters(key)));
        // If there are too many keys, a dirty set names only the tables.
        let DirtySet { routes, tables, .. } = dirty;
        self.tables.retain(|table| !tables.contains(table) && !routes.contains(&table.0));
    }

    /// Records a foreign route on a key.
    pub(super) fn add(&mut self, key: RouteKey) {
        if !self.keys.contains(&key) {
            Arc::make_mut(&mut self.keys).insert(key);
        }
    }

    /// Records foreign routes on these keys. Copies the keys, which the subscription shares, only
    /// if one of them is new.
    pub(super) fn add_all<'k>(&mut self, keys: impl Iterator<Item = &'k RouteKey>) {
        keys.for_each(|key| self.add(*key));
    }

    /// Forgets the keys that no longer matter.
    pub(super) fn retain(&mut self, matters: impl Fn(&RouteKey) -> bool) {
        if !self.keys.iter().all(&matters) {
            Arc::make_mut(&mut self.keys).retain(matters);
        }
    }
}

/// Returns the scope of all routes in the tables of these keys. If there are many tables, reads
/// all.
pub(super) fn scope_of_keys<'k>(keys: impl Iterator<Item = &'k RouteKey>) -> ReadScope {
    let (mut families, mut tables) = (BTreeSet::new(), BTreeSet::new());
    for key in keys {
        families.insert(key.dst.family());
        tables.insert(key.table);
    }
    let only = families.first().copied().filter(|_| families.len() == 1);
    let mut scope = ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Route));
    scope.tables = (tables.len() <= 16).then_some(tables);
    scope.family = only;
    scope
}

/// The foreign objects that matter to a plan.
#[derive(Default)]
pub(super) struct ForeignObjects {
    /// Routes with these keys, which the plan creates or replaces. Sorted.
    keys: Vec<RouteKey>,
    /// Objects on these devices, which lose something on which others may depend.
    devs: BTreeSet<Dev>,
    /// True if the plan changes links.
    links: bool,
    /// The families of the plan's routes and addresses. Objects of one family delete none of the
    /// other along.
    families: BTreeSet<Family>,
    /// Routes with one of these sources, an address that is to go.
    sources: HashSet<IpAddr>,
    /// Routes that point at one of these nexthop objects, which are to go.
    nexthops: BTreeSet<u32>,
}

/// The result of reading foreign objects.
struct ForeignRead {
    /// True if another plan is needed.
    is_new: bool,
    /// The foreign routes on our keys, with the tables in which they are complete.
    on_keys: ForeignKeys,
}

impl ForeignObjects {
    /// Returns the foreign objects that matter to a plan. Keys `known` to be only ours need none,
    /// nor keys that were `read` completely. Nor does a create on a key that `is_unread`: it is
    /// exclusive, so the kernel refuses it if another writer's route is there.
    fn of(
        plan: &Plan,
        observed: &Observed,
        known: &ForeignKeys,
        read: &ForeignKeys,
        is_unread: impl Fn(&Op) -> bool,
    ) -> ForeignObjects {
        let devs = plan.devices_hit(observed);
        let mut foreign =
            ForeignObjects { links: !devs.is_empty(), devs, ..ForeignObjects::default() };
        for op in &plan.ops {
            let Op { action, object, .. } = op;
            match (object, action) {
                (Object::Route(_), Action::Create) if is_unread(op) => {}
                (Object::Route(_), Action::Update) if plan.appends_then_deletes(op) => {}
                (Object::Route(route), Action::Create | Action::Update)
                    if read.covers(&route.key()) => {}
                (Object::Route(route), Action::Update) if known.is_alone(&route.key()) => {}
                (Object::Route(route), Action::Create | Action::Update) => {
                    foreign.families.insert(route.family());
                    foreign.keys.push(route.key());
                }
                (Object::Nexthop(nexthop), Action::Delete) => {
                    foreign.nexthops.insert(nexthop.id);
                }
                (Object::Address(address), Action::Delete) => {
                    foreign.families.insert(address.family());
                    foreign.devs.insert(address.dev);
                    foreign.sources.insert(address.address.ip());
                }
                // In IPv6 each change affects the route that the kernel takes for the subnet's.
                (Object::Address(address), Action::Update) if address.family() == Family::Inet6 => {
                    foreign.families.insert(Family::Inet6);
                    foreign.devs.insert(address.dev);
                }
                _ => {}
            }
        }
        // A plan's ops are in key order except for their stages. So sorting is fast, and takes less
        // than half the memory of a hash set.
        foreign.keys.sort_unstable();
        foreign
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.devs.is_empty() && self.nexthops.is_empty()
    }

    /// Reads them, and adds them to the observation. `is_read` returns true for routes already
    /// there.
    fn read(
        mut self,
        observer: &mut Observer,
        managed: Kinds,
        is_read: impl Fn(&Route) -> bool,
        is_desired: impl Fn(&RouteKey) -> bool,
        Snapshot { observed, incomplete, .. }: &mut Snapshot,
    ) -> Result<ForeignRead, Error> {
        let takes_along = !self.devs.is_empty() || !self.nexthops.is_empty();
        let has_dependants =
            takes_along && self.read_dependants(observer, managed, observed, incomplete)?;
        let has_keys = !self.keys.is_empty();
        let wanted = |route: &Route| {
            !is_read(route) && (self.contains(route) || has_keys && is_desired(&route.key()))
        };
        let (routes, not_whole) = observer.routes_where(&self.route_scope(), &wanted)?;
        let mut on_keys = ForeignKeys::default();
        if has_keys && not_whole.is_none() {
            on_keys.tables.extend(self.keys.iter().map(|key| (key.dst.family(), key.table)));
            routes.iter().for_each(|route| on_keys.add(route.key()));
        }
        let has_routes = !routes.is_empty();
        if not_whole.is_none() {
            // Routes known from an earlier pass are read anew.
            observed.routes.retain(|route| !wanted(route));
        }
        observed.routes.extend(routes);
        incomplete.extend(not_whole);
        // Without knowledge of its dependants, no object that others depend on may be deleted.
        // Rules depend on no other object, and only routes and groups depend on a nexthop object.
        let before = observed.complete;
        let lacking: Kinds =
            incomplete.iter().filter(|_| takes_along).map(Incomplete::kind).collect();
        if lacking.without(Kind::Rule) != Kinds::NONE {
            observed.complete = observed.complete.without(Kind::Link).without(Kind::Address);
        }
        if [Kind::Link, Kind::Route, Kind::Nexthop].iter().any(|kind| lacking.contains(*kind)) {
            observed.complete = observed.complete.without(Kind::Nexthop);
        }
        Ok(ForeignRead {
            is_new: has_routes || has_dependants || observed.complete != before,
            on_keys,
        })
    }

    /// Reads the objects on the devices, and the nexthop objects' groups. Returns true if the plan
    /// may change.
    fn read_dependants(
        &mut self,
        observer: &mut Observer,
        managed: Kinds,
        observed: &mut Observed,
        incomplete: &mut Vec<Incomplete>,
    ) -> Result<bool, Error> {
        let has_devices = !self.devs.is_empty();
        let mut kinds = Kinds::NONE;
        if has_devices && !managed.contains(Kind::Address) {
            kinds = kinds.with(Kind::Address);
        }
        if self.links || !self.nexthops.is_empty() {
            kinds = kinds.with(Kind::Nexthop);
        }
        let scope = ReadScope::default().with_kinds(kinds);
        let mut others = observer.snapshot_beside(&scope, &observed.links)?;
        if has_devices && !managed.contains(Kind::Neighbour) {
            let neighbours = self.neighbours(observer, &observed.links)?;
            others.incomplete.extend(neighbours.incomplete);
            observed.neighbours.extend(neighbours.observed.neighbours);
        }
        if kinds.contains(Kind::Address) {
            observed.addresses = others.observed.addresses;
        }
        let nexthops = self.nexthops_of(others.observed.nexthops);
        // Another writer may have recreated one since the pass read it.
        let read: BTreeSet<u32> = nexthops.iter().map(|nexthop| nexthop.id).collect();
        let before = observed.nexthops.clone();
        observed.nexthops.retain(|nexthop| !read.contains(&nexthop.id));
        observed.nexthops.extend(nexthops);
        observed.nexthops.sort_by_key(|nexthop| nexthop.id);
        let is_changed = observed.nexthops != before;
        incomplete.extend(others.incomplete);
        if self.links {
            let (entries, not_whole) = observer
                .forwarding_where(|entry: &ForwardingEntry| self.devs.contains(&entry.dev))?;
            observed.forwarding = entries;
            incomplete.extend(not_whole);
        }
        // A link's addresses go with it, and so do the routes that have one as their source.
        self.sources.extend(
            observed
                .addresses
                .iter()
                .filter(|address| self.devs.contains(&address.dev))
                .map(|address| address.address.ip()),
        );
        Ok(is_changed || !self.devs.is_empty())
    }

    /// Reads the neighbours on the devices.
    fn neighbours(&self, observer: &mut Observer, links: &[Link]) -> Result<Snapshot, Error> {
        let all = ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Neighbour));
        let devices: BTreeSet<u32> = self.devs.iter().filter_map(|dev| dev.as_index()).collect();
        match observer.snapshot_beside(&all.clone().with_devices(devices), links) {
            // A device is gone by now.
            Err(error) if error.errno() == Some(ENODEV) => {
                Ok(observer.snapshot_beside(&all, links)?)
            }
            read => Ok(read?),
        }
    }

    /// Returns the nexthop objects that lead out of the devices or are to go, with their groups.
    fn nexthops_of(&self, all: Vec<Nexthop>) -> Vec<Nexthop> {
        let ids: BTreeSet<u32> = all
            .iter()
            .filter(|nexthop| {
                nexthop.dev().is_some_and(|dev| self.devs.contains(&dev))
                    || self.nexthops.contains(&nexthop.id)
            })
            .map(|nexthop| nexthop.id)
            .collect();
        all.into_iter()
            .filter(|it| ids.contains(&it.id) || it.members().any(|id| ids.contains(&id)))
            .collect()
    }

    fn route_scope(&self) -> ReadScope {
        if self.devs.is_empty() && self.nexthops.is_empty() {
            return scope_of_keys(self.keys.iter());
        }
        let is_one = !self.links && self.nexthops.is_empty() && self.families.len() == 1;
        let only = self.families.first().copied().filter(|_| is_one);
        let mut scope = ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Route));
        scope.family = only;
        scope
    }

    fn contains(&self, route: &Route) -> bool {
        self.keys.binary_search(&route.key()).is_ok()
            || matches!(&route.nexthops, NextHops::Object(id, _) if self.nexthops.contains(id))
            || (!self.devs.is_empty()
                && (route.src.is_some_and(|src| self.sources.contains(&src))
                    || route.carriers().any(|dev| self.devs.contains(&dev))))
    }
}
