//! Which foreign objects matter to a plan, and reading them.
//!
//! Foreign routes matter where a plan creates or replaces one (who is on the key?), and foreign
//! objects of all kinds where it takes down what carries others (which would go along?). Only then
//! they are read, and of those only the ones in question are kept.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use trueup_net::{
    Action, Dev, Family, ForwardingEntry, Item, Kind, Kinds, Link, NextHops, Nexthop, Object,
    Observed, Op, Plan, Route, RouteKey,
};
use trueup_observe::{Incomplete, Observer, ReadScope, Snapshot};

use super::ENODEV;
use super::foreign_keys::ForeignKeys;
use super::observe::scope_of_keys;
use crate::Error;

/// When a pass finds out whether foreign routes are on the keys of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConflictCheck {
    /// They are read before anything is written.
    #[default]
    BeforeWrite,
    /// The kernel refuses the write: creates are exclusive, and a changed route is
    /// [appended](Plan::append_then_delete) before the former one is deleted. Keys on which the last
    /// pass found foreign routes are read before.
    ByKernel,
}

/// The foreign objects that matter to a plan.
#[derive(Default)]
pub(super) struct ForeignObjects {
    /// Routes on these keys: the plan creates or replaces them. Sorted.
    keys: Vec<RouteKey>,
    /// Objects on these devices, which lose something that others may depend on.
    devs: BTreeSet<Dev>,
    /// Whether the plan changes links.
    links: bool,
    /// The families of the routes and of the addresses. Those of one take nothing of the other
    /// along.
    families: BTreeSet<Family>,
    /// Routes with one of these sources: the address is to go.
    sources: HashSet<IpAddr>,
    /// Routes that point at one of these nexthop objects, which are to go.
    nexthops: BTreeSet<u32>,
}

/// What was read of foreign objects.
pub(super) struct ForeignRead {
    /// True if another plan is needed.
    pub(super) is_new: bool,
    /// The foreign routes on keys of ours, and the tables of which these are all.
    pub(super) on_keys: ForeignKeys,
}

impl ForeignObjects {
    /// Returns what matters to a plan. On keys that are `known` to be ours alone nothing does, nor
    /// on keys of which all was `read`, nor on that of a create that `is_unread`: it is exclusive,
    /// so that the kernel refuses it if another writer's route is on the key.
    pub(super) fn of(
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
                // In IPv6 what the kernel takes for the route to its subnet goes with each change.
                (Object::Address(address), Action::Update) if address.family() == Family::Inet6 => {
                    foreign.families.insert(Family::Inet6);
                    foreign.devs.insert(address.dev);
                }
                _ => {}
            }
        }
        // A plan's ops are in key order but for their stages: this is quick, and takes less than
        // half of what a hash set would.
        foreign.keys.sort_unstable();
        foreign
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.devs.is_empty() && self.nexthops.is_empty()
    }

    /// Whether they are on devices: then they can change which links can be recreated.
    pub(super) fn concern_devices(&self) -> bool {
        !self.devs.is_empty()
    }

    /// Reads them, and adds them to what was observed. `is_read` says which routes are there
    /// already.
    pub(super) fn read(
        mut self,
        observer: &mut Observer,
        managed: Kinds,
        is_read: impl Fn(&Route) -> bool,
        is_desired: impl Fn(&RouteKey) -> bool,
        observed: &mut Observed,
        incomplete: &mut Vec<Incomplete>,
    ) -> Result<ForeignRead, Error> {
        let takes_along = !self.devs.is_empty() || !self.nexthops.is_empty();
        let has_dependants =
            takes_along && self.read_dependants(observer, managed, observed, incomplete)?;
        let has_keys = !self.keys.is_empty();
        let wanted = |route: &Route| {
            let is_wanted = || self.contains(route) || has_keys && is_desired(&route.key());
            !is_read(route) && is_wanted()
        };
        let (routes, not_whole) = observer.routes_where(&self.route_scope(), &wanted)?;
        let mut on_keys = ForeignKeys::default();
        if has_keys && not_whole.is_none() {
            let tables = self.keys.iter().map(|key| (key.dst.family(), key.table));
            on_keys.tables.extend(tables);
            routes.iter().for_each(|route| on_keys.add(route.key()));
        }
        let has_routes = !routes.is_empty();
        if not_whole.is_none() {
            // What was known of them from an earlier pass is read anew.
            observed.routes.retain(|route| !wanted(route));
        }
        observed.routes.extend(routes);
        incomplete.extend(not_whole);
        // Without knowing what goes along, nothing that takes others along may go. Rules depend on
        // nothing, and on a nexthop object only routes and groups do.
        let complete = observed.complete;
        let lacks = |hides: fn(Kind) -> bool| {
            takes_along && incomplete.iter().any(|reason| hides(reason.kind()))
        };
        if lacks(|kind| kind != Kind::Rule) {
            observed.complete = observed.complete.without(Kind::Link);
            observed.complete = observed.complete.without(Kind::Address);
        }
        if lacks(|kind| [Kind::Link, Kind::Route, Kind::Nexthop].contains(&kind)) {
            observed.complete = observed.complete.without(Kind::Nexthop);
        }
        Ok(ForeignRead {
            is_new: has_routes || has_dependants || observed.complete != complete,
            on_keys,
        })
    }

    /// Reads what is on the devices, and the groups of the nexthop objects. Returns true if that
    /// can make another plan.
    fn read_dependants(
        &mut self,
        observer: &mut Observer,
        managed: Kinds,
        observed: &mut Observed,
        incomplete: &mut Vec<Incomplete>,
    ) -> Result<bool, Error> {
        let is_unread = |kind| !self.devs.is_empty() && !managed.contains(kind);
        let mut kinds = Kinds::NONE;
        if is_unread(Kind::Address) {
            kinds = kinds.with(Kind::Address);
        }
        if self.links || !self.nexthops.is_empty() {
            kinds = kinds.with(Kind::Nexthop);
        }
        let scope = ReadScope::default().with_kinds(kinds);
        let mut others = observer.snapshot_beside(&scope, &observed.links)?;
        if is_unread(Kind::Neighbour) {
            let neighbours = self.neighbours(observer, &observed.links)?;
            others.incomplete.extend(neighbours.incomplete);
            observed.neighbours.extend(neighbours.observed.neighbours);
        }
        if kinds.contains(Kind::Address) {
            observed.addresses = others.observed.addresses;
        }
        let nexthops = self.nexthops_of(others.observed.nexthops);
        // Another writer may have made one anew since the pass read it.
        let read: BTreeSet<u32> = nexthops.iter().map(|nexthop| nexthop.id).collect();
        let before = observed.nexthops.clone();
        observed.nexthops.retain(|nexthop| !read.contains(&nexthop.id));
        observed.nexthops.extend(nexthops);
        observed.nexthops.sort_by_key(|nexthop| nexthop.id);
        let is_changed = observed.nexthops != before;
        incomplete.extend(others.incomplete);
        if self.links {
            let on = |entry: &ForwardingEntry| self.devs.contains(&entry.dev);
            let (entries, not_whole) = observer.forwarding_where(on)?;
            observed.forwarding = entries;
            incomplete.extend(not_whole);
        }
        // The addresses of a link go with it, and so do the routes that have one as their source.
        let on_devs = observed.addresses.iter();
        let on_devs = on_devs.filter(|address| self.devs.contains(&address.dev));
        self.sources.extend(on_devs.map(|address| address.address.ip()));
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

    /// Of all nexthop objects those that lead out of the devices or are to go, and their groups.
    fn nexthops_of(&self, all: Vec<Nexthop>) -> Vec<Nexthop> {
        let leads = |nexthop: &&Nexthop| {
            let is_on = nexthop.dev().is_some_and(|dev| self.devs.contains(&dev));
            is_on || self.nexthops.contains(&nexthop.id)
        };
        let ids: BTreeSet<u32> = all.iter().filter(leads).map(|nexthop| nexthop.id).collect();
        let concerns =
            |it: &Nexthop| ids.contains(&it.id) || it.members().any(|id| ids.contains(&id));
        all.into_iter().filter(concerns).collect()
    }

    fn route_scope(&self) -> ReadScope {
        if self.devs.is_empty() && self.nexthops.is_empty() {
            return scope_of_keys(self.keys.iter());
        }
        let is_one = !self.links && self.nexthops.is_empty() && self.families.len() == 1;
        let only = self.families.first().copied().filter(|_| is_one);
        ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Route)).with_family(only)
    }

    fn contains(&self, route: &Route) -> bool {
        let points = |id: &u32| self.nexthops.contains(id);
        self.keys.binary_search(&route.key()).is_ok()
            || matches!(&route.nexthops, NextHops::Object(id, _) if points(id))
            || (!self.devs.is_empty()
                && (route.src.is_some_and(|src| self.sources.contains(&src))
                    || route.carriers().any(|dev| self.devs.contains(&dev))))
    }
}
