//! What a pass leaves for the next one, so that it can be about less than everything.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{
    Desired, Dev, Devices, IfName, Item as _, Kind, Kinds, NexthopAssignment, NexthopMode, Object,
    Observed, RouteDependencies, RouteKey, Routes, Tracker,
};
use trueup_observe::WatchScope;

use super::Pass;
use super::pass_plan::PassPlan;
use crate::Options;
use crate::location::{Location, link_names};

/// With more foreign routes on our keys than this, every foreign route matters.
const MAX_FOREIGN: usize = 1024;

/// What the last pass found.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) options: Options,
    /// The interfaces.
    pub(crate) names: BTreeMap<u32, IfName>,
    /// The interfaces that matter, by name.
    relevant: BTreeSet<IfName>,
    /// What our routes depend on.
    dependencies: RouteDependencies,
    /// The kinds of which objects without our marker matter too: they are ours by the ledger, or on
    /// our keys.
    unmarked: Kinds,
    /// Such routes.
    foreign: BTreeSet<RouteKey>,
    /// The routes that are there, if all that are desired are.
    pub(crate) tracker: Option<Tracker>,
    /// The nexthop objects that the routes point at, if they do.
    pub(crate) assignment: Option<NexthopAssignment>,
    /// True if all that was read was complete.
    pub(crate) is_complete: bool,
    /// True if `dependencies` are known: a pass was complete, and the incomplete ones since changed
    /// nothing.
    pub(crate) has_dependencies: bool,
}

impl Baseline {
    /// Returns what a pass leaves, where `before` is what the last one left.
    pub(super) fn of(
        pass: &Pass<'_>,
        last: &PassPlan,
        before: Option<Baseline>,
        is_complete: bool,
        is_unchanged: bool,
    ) -> Baseline {
        let planned = &last.planned;
        let names = link_names(&planned.observed);
        let is_same =
            |before: &Baseline| before.has_dependencies && before.options == *pass.options;
        let is_same = before.as_ref().is_some_and(is_same);
        let has_dependencies = is_complete || is_unchanged && is_same;
        let is_in_sync = is_complete && planned.plan.is_empty();
        let routes = pass.desired.routes.as_ref();
        // Which objects routes point at follows from all of them.
        let is_inline = pass.desired.nexthops == NexthopMode::Inline;
        // A narrow scope says nothing of what was left undone elsewhere.
        let is_everything = pass.scope.is_everything();
        let was =
            |known: fn(&Baseline) -> bool| is_everything || before.as_ref().is_some_and(known);
        let was_tracked = was(|before| before.tracker.is_some());
        let tracker = routes.filter(|_| is_in_sync && is_inline && was_tracked);
        let tracker = tracker.map(Tracker::in_sync);
        let was_assigned = was(|before| before.assignment.is_some());
        let resolved = last.routes.as_ref();
        let resolved = resolved.filter(|_| is_in_sync && !is_inline && was_assigned);
        let assignment = resolved.map(NexthopAssignment::in_sync);
        let has_nexthops = pass.scope.contains(Location::Nexthops);
        let mut baseline = match before {
            Some(before) if !is_everything => Baseline {
                names,
                relevant: device_names(pass.desired),
                tracker,
                // A scope without nexthop objects leaves them as they were.
                assignment: assignment.or(before.assignment.filter(|_| !has_nexthops)),
                is_complete,
                has_dependencies,
                ..before
            },
            before => {
                // Where rows may be missing, what was known of them still holds.
                let held = before.filter(|_| is_same && !is_complete);
                Baseline {
                    options: *pass.options,
                    names,
                    relevant: device_names(pass.desired),
                    dependencies: held.map(|held| held.dependencies).unwrap_or_default(),
                    unmarked: pass.policy.by_ledger,
                    foreign: BTreeSet::new(),
                    tracker,
                    assignment,
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
        baseline.foreign.extend(&pass.unmarked);
        for conflict in &planned.plan.conflicts {
            baseline.unmarked = baseline.unmarked.with(conflict.desired.kind());
            if let Object::Route(route) = &conflict.desired {
                baseline.foreign.insert(route.key());
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
        let routes = planned.observed.routes.iter();
        routes.for_each(|route| dependencies.note(route));
        baseline
    }

    /// Takes in which routes are desired otherwise than in the last pass.
    pub(crate) fn follow(&mut self, desired: &Desired, marker: u8) {
        let devices = devices(&self.names);
        // What is on the key of a foreign route is not known.
        let followed = |(mut tracker, routes): (Tracker, &Routes)| {
            let is_ours = |key: &RouteKey| !self.foreign.contains(key);
            let followed = tracker.follow(routes, &devices, marker);
            (followed && tracker.dirty_keys().all(is_ours)).then_some(tracker)
        };
        let tracker = self.tracker.take().zip(desired.routes.as_ref());
        self.tracker = tracker.and_then(followed);
        let assignment = self.assignment.take().zip(desired.routes.as_ref());
        self.assignment = assignment.and_then(|(mut assignment, routes)| {
            let followed = assignment.follow(routes);
            followed.then_some(assignment)
        });
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
        if of_rules.any(|rule| rules.contains(&(rule.family, rule.priority))) {
            self.unmarked = self.unmarked.with(Kind::Rule);
        }
        let neighbours = observed.neighbours.iter();
        let neighbours: BTreeSet<_> = neighbours
            .filter(|neighbour| is_foreign(neighbour.protocol))
            .map(|neighbour| neighbour.dst)
            .collect();
        let mut of_neighbours = desired.neighbours.iter().flatten();
        if of_neighbours.any(|neighbour| neighbours.contains(&neighbour.dst)) {
            self.unmarked = self.unmarked.with(Kind::Neighbour);
        }
        // Of foreign routes those alone were read that may be on our keys.
        for route in &observed.routes {
            if is_foreign(route.protocol) {
                self.unmarked = self.unmarked.with(Kind::Route);
                self.foreign.insert(route.key());
            }
        }
    }

    /// Returns what the subscription is to report until the next pass. Unless the pass was quiet,
    /// whatever happens may be what an undone op waits for.
    pub(super) fn watch_scope(&self, pass: &Pass<'_>, is_quiet: bool) -> WatchScope {
        let mut scope = WatchScope::new(pass.desired.managed(), pass.policy.marker);
        scope.any_protocol = self.unmarked;
        let is_small = self.foreign.len() <= MAX_FOREIGN;
        scope.foreign_routes = is_small.then(|| self.foreign.clone());
        if is_quiet {
            let matters = |(_, name): &(&u32, &IfName)| self.relevant.contains(*name);
            let devices = self.names.iter().filter(matters).map(|(index, _)| *index);
            scope.devices = Some(devices.collect());
            scope.route_devices = Some(self.dependencies.devices.clone());
            scope.route_sources = Some(self.dependencies.sources.clone());
            scope.nexthops = Some(self.dependencies.nexthops.clone());
        }
        scope
    }

    /// Returns true if the interfaces that matter are those of the last pass.
    pub(super) fn has_same_links(&self, observed: &Observed) -> bool {
        let matters = |(_, name): &(u32, IfName)| self.relevant.contains(name);
        let links = observed.links.iter();
        let now: BTreeMap<u32, IfName> = links
            .map(|link| (link.index, link.name))
            .filter(matters)
            .collect();
        let known = self.names.iter().map(|(index, name)| (*index, *name));
        known.filter(matters).eq(now)
    }
}

/// Returns the devices that a desired state names.
fn device_names(desired: &Desired) -> BTreeSet<IfName> {
    let mut names = BTreeSet::new();
    for link in desired.links.iter().flatten() {
        names.insert(link.name);
        names.extend(link.parents().copied());
    }
    names.extend(desired.addresses.iter().flatten().map(|it| it.dev));
    names.extend(desired.neighbours.iter().flatten().map(|it| it.dev));
    let nexthops = desired.routes.iter().flat_map(Routes::nexthops);
    names.extend(nexthops.flat_map(|nexthops| nexthops.devices().copied()));
    names
}

fn devices(names: &BTreeMap<u32, IfName>) -> Devices {
    let names = names.iter();
    Devices::of(names.map(|(index, name)| (Dev::index(*index), *name)))
}
