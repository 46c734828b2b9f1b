//! What a pass leaves for the next one, so that it can be about less than everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_net::{
    Desired, Dev, Devices, IfName, Item as _, Kind, Kinds, Link, NexthopAssignment, NexthopMode,
    Object, Observed, Route, RouteDependencies, RouteKey, Routes, Tracker,
};
use trueup_observe::{DirtySet, WatchScope};

use super::Pass;
use super::foreign_keys::ForeignKeys;
use super::pass_plan::PassPlan;
use super::scope::PassScope;
use crate::location::{Location, link_names};
use crate::{Options, Planned};

/// With more foreign routes on our keys than this, every foreign route matters.
const MAX_FOREIGN: usize = 1 << 16;

/// What the last pass found.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) options: Options,
    /// The links.
    pub(super) links: Vec<Link>,
    /// Their names, by index.
    pub(crate) names: BTreeMap<u32, IfName>,
    /// The interfaces that matter, by name.
    relevant: BTreeSet<IfName>,
    /// What our routes depend on.
    dependencies: RouteDependencies,
    /// The kinds of which objects without our marker matter too: they are ours by the ledger, or on
    /// our keys.
    unmarked: Kinds,
    /// The keys of such routes.
    pub(super) foreign: ForeignKeys,
    /// The routes that are there, if all that are desired are.
    pub(crate) tracker: Option<Tracker>,
    /// True if all that was read was complete.
    pub(crate) is_complete: bool,
    /// True if `dependencies` are known: a pass was complete, and the incomplete ones since changed
    /// nothing.
    pub(crate) has_dependencies: bool,
}

impl Baseline {
    /// Returns what a pass leaves, where `before` is what the last one left.
    pub(super) fn of(
        pass: &mut Pass<'_>,
        last: &mut PassPlan,
        before: Option<Baseline>,
        is_complete: bool,
        is_unchanged: bool,
    ) -> Baseline {
        let foreign = std::mem::take(&mut pass.foreign);
        let pass = &*pass;
        let is_same =
            |before: &Baseline| before.has_dependencies && before.options == *pass.options;
        let is_same = before.as_ref().is_some_and(is_same);
        let has_dependencies = is_complete || is_unchanged && is_same;
        // A narrow scope says nothing of what was left undone elsewhere.
        let is_everything = pass.scope.is_everything();
        let (known, mut before) = match before {
            Some(mut before) => (before.tracker.take(), Some(before)),
            None => (None, None),
        };
        let names = match (&pass.scope, &mut before) {
            // Its links are those of the last pass.
            (PassScope::TrackedRoutes(_), Some(before)) => std::mem::take(&mut before.names),
            _ => link_names(&last.planned.observed),
        };
        let links = std::mem::take(&mut last.planned.observed.links);
        let last = &*last;
        let planned = &last.planned;
        let tracker = tracker(pass, last, known).filter(|_| is_complete);
        let mut baseline = match before.take() {
            Some(mut before) if !is_everything => {
                match pass.scope.desired_routes() {
                    // All else is desired as before.
                    Some(routes) => before.relevant.extend(routes.device_names()),
                    None => before.relevant = pass.desired.device_names(),
                }
                Baseline { links, names, foreign, tracker, is_complete, has_dependencies, ..before }
            }
            before => {
                // Where rows may be missing, what was known of them still holds.
                let held = before.filter(|_| is_same && !is_complete);
                Baseline {
                    options: pass.options.clone(),
                    links,
                    names,
                    relevant: pass.desired.device_names(),
                    dependencies: held.map(|held| held.dependencies).unwrap_or_default(),
                    unmarked: pass.policy.by_ledger,
                    foreign,
                    tracker,
                    is_complete,
                    has_dependencies,
                }
            }
        };
        for key in pass.ledger_view.keys() {
            baseline.unmarked = baseline.unmarked.with(key.kind());
            let interface = key.interface().map(|(name, _)| name);
            baseline.relevant.extend(interface);
        }
        if is_everything && is_complete {
            let tracker = baseline.tracker.as_ref();
            let is_parked = |key: &RouteKey| tracker.is_some_and(|it| it.is_parked(key));
            baseline.foreign.retain(|key| pass.desired.has_route(key) || is_parked(key));
        }
        baseline.foreign.add_all(pass.unmarked.iter());
        for conflict in &planned.plan.conflicts {
            baseline.unmarked = baseline.unmarked.with(conflict.desired.kind());
            if let Object::Route(route) = &conflict.desired {
                baseline.foreign.add(route.key());
            }
        }
        baseline.note_satisfied_by_foreign(pass, &planned.observed);
        let dependencies = &mut baseline.dependencies;
        for nexthop in &planned.observed.nexthops {
            dependencies.nexthops.insert(nexthop.id);
            let device = nexthop.dev().and_then(Dev::as_index);
            dependencies.devices.extend(device);
        }
        dependencies.add(last.dependencies.clone());
        let routes = planned.observed.all_routes();
        routes.for_each(|route| dependencies.note(&route));
        baseline
    }

    /// Returns true if it matters to us what other writers have on a key.
    pub(super) fn concerns(&self, key: &RouteKey, desired: &Desired) -> bool {
        let is_parked = |tracker: &Tracker| tracker.is_parked(key);
        desired.has_route(key)
            || self.foreign.keys.contains(key)
            || self.tracker.as_ref().is_none_or(is_parked)
    }

    /// Takes in where other writers have put routes since the last pass.
    pub(crate) fn note_shared(&mut self, dirty: &DirtySet, desired: &Desired) {
        let mut foreign = std::mem::take(&mut self.foreign);
        foreign.note(dirty, |key| self.concerns(key, desired));
        self.foreign = foreign;
    }

    /// Takes in which routes are desired otherwise than in the last pass.
    pub(crate) fn follow(&mut self, desired: &Desired, marker: u8) {
        let devices = devices(&self.names);
        let followed = |(mut tracker, routes): (Tracker, &Routes)| {
            let followed = tracker.follow(routes, &devices, marker);
            let is_foreign = |route: &Route| route.protocol != marker;
            // What is on the key of a foreign route is known only where that was read.
            let is_known = |key: &RouteKey| {
                let there = || tracker.there(key).is_some_and(|it| it.iter().any(is_foreign));
                !self.foreign.keys.contains(key) || there()
            };
            (followed && tracker.dirty_keys().all(is_known)).then_some(tracker)
        };
        let tracker = self.tracker.take().zip(desired.routes.as_ref());
        self.tracker = tracker.and_then(followed);
    }

    /// Notes the kinds of foreign objects that satisfy a desired one: their end matters to us.
    fn note_satisfied_by_foreign(&mut self, pass: &Pass<'_>, observed: &Observed) {
        let (desired, marker) = (pass.desired, pass.policy.marker);
        let is_foreign = |protocol: u8| protocol != marker;
        let rules = observed.rules.iter();
        let rules: BTreeSet<_> = rules
            .filter(|rule| is_foreign(rule.protocol))
            .map(|rule| (rule.family, rule.priority))
            .collect();
        let mut of_rules = desired.rules.iter().flatten();
        if !rules.is_empty() && of_rules.any(|rule| rules.contains(&(rule.family, rule.priority))) {
            self.unmarked = self.unmarked.with(Kind::Rule);
        }
        let neighbours = observed.neighbours.iter();
        let neighbours: BTreeSet<_> = neighbours
            .filter(|neighbour| is_foreign(neighbour.protocol))
            .map(|neighbour| neighbour.dst)
            .collect();
        let mut of_neighbours = desired.neighbours.iter().flatten();
        if !neighbours.is_empty()
            && of_neighbours.any(|neighbour| neighbours.contains(&neighbour.dst))
        {
            self.unmarked = self.unmarked.with(Kind::Neighbour);
        }
        // Of foreign routes those alone were read that may be on our keys.
        for route in observed.all_routes() {
            if is_foreign(route.protocol) {
                self.unmarked = self.unmarked.with(Kind::Route);
                self.foreign.add(route.key());
            }
        }
    }

    /// Returns what the subscription is to report until the next pass, if that one was quiet.
    pub(super) fn watch_scope(&self, pass: &Pass<'_>) -> WatchScope {
        let mut scope = WatchScope::new(pass.desired.managed(), pass.policy.marker);
        scope.any_protocol = self.unmarked;
        let is_small = self.foreign.keys.len() <= MAX_FOREIGN;
        scope.foreign_routes = is_small.then(|| Arc::clone(&self.foreign.keys));
        let matters = |(_, name): &(&u32, &IfName)| self.relevant.contains(*name);
        let devices = self.names.iter().filter(matters).map(|(index, _)| *index);
        scope.devices = Some(devices.collect());
        scope.route_devices = Some(self.dependencies.devices.clone());
        scope.route_sources = Some(self.dependencies.sources.clone());
        let gateways = pass.desired.routes.iter().flat_map(Routes::open_gateways);
        scope.gateways = Some(gateways.map(|gateway| gateway.via).collect());
        scope.nexthops = Some(self.dependencies.nexthops.clone());
        scope
    }

    /// Returns true if the interfaces that matter are those of the last pass.
    pub(super) fn has_same_links(&self, observed: &Observed) -> bool {
        let matters = |(_, name): &(u32, IfName)| self.relevant.contains(name);
        let links = observed.links.iter();
        let now: BTreeMap<u32, IfName> =
            links.map(|link| (link.index, link.name)).filter(matters).collect();
        let known = self.names.iter().map(|(index, name)| (*index, *name));
        known.filter(matters).eq(now)
    }
}

/// Returns what is known of the routes after a pass, given what was known before it.
fn tracker(pass: &Pass<'_>, last: &PassPlan, before: Option<Tracker>) -> Option<Tracker> {
    let routes = pass.desired.routes.as_ref()?;
    let scope = &pass.scope;
    let mut tracker = match scope.is_everything() {
        true => Tracker::in_sync(routes),
        false => before?,
    };
    match scope.route_keys() {
        Some(keys) => keys.for_each(|key| tracker.mark_in_sync(key)),
        None => tracker.mark_all_in_sync(|key| scope.contains(Location::Route(*key))),
    }
    let Planned { plan, observed, .. } = &last.planned;
    if pass.desired.nexthops == NexthopMode::Objects && scope.contains(Location::Nexthops) {
        let undone = plan.ops.iter().filter_map(|op| match &op.object {
            Object::Nexthop(nexthop) => Some(nexthop.id),
            _ => None,
        });
        let assignment = NexthopAssignment::in_sync(last.routes.as_ref()?, undone.collect());
        tracker = tracker.with_assignment(assignment);
    }
    let conflicts = plan.conflicts.iter().map(|conflict| &conflict.desired);
    let left = plan.ops.iter().map(|op| &op.object).chain(conflicts);
    let keys = left.filter_map(|object| match object {
        Object::Route(route) => Some((route.key(), Vec::new())),
        _ => None,
    });
    let mut left: BTreeMap<RouteKey, Vec<Route>> = keys.collect();
    for route in observed.all_routes() {
        if let Some(there) = left.get_mut(&route.key()) {
            there.push(route.into_owned());
        }
    }
    for (key, there) in left {
        tracker.park(key, there);
    }
    Some(tracker)
}

fn devices(names: &BTreeMap<u32, IfName>) -> Devices {
    let names = names.iter();
    Devices::of(names.map(|(index, name)| (Dev::index(*index), *name)))
}
