//! What a pass over a part builds on: what the one before it has found of the rest.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{
    Desired, Dev, Devices, IfName, Item as _, Kind, Kinds, NexthopAssignment, NexthopMode, Object,
    Observed, RouteDependencies, RouteKey, Routes, Tracker,
};
use trueup_observe::WatchScope;

use crate::Options;
use crate::ledger::names;
use crate::look::Planned;
use crate::pass::Pass;
use crate::region::{self, Place};

/// With more foreign routes in our places than this, any matters.
const FOREIGN: usize = 1024;

/// What the last pass found that the next may build on, if only a part of the whole is doubtful.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) options: Options,
    /// The interfaces.
    pub(crate) names: BTreeMap<u32, IfName>,
    /// Those that matter, by name.
    relevant: BTreeSet<IfName>,
    /// What our routes rest on.
    dependencies: RouteDependencies,
    /// The kinds of which what does not bear our marker matters too: it is ours by record, or in our place.
    unmarked: Kinds,
    /// Such routes.
    foreign: BTreeSet<RouteKey>,
    /// The routes that are there, if all that are desired are.
    pub(crate) tracker: Option<Tracker>,
    /// The nexthop objects that they point at, if they do.
    pub(crate) assignment: Option<NexthopAssignment>,
    /// Whether all that was read was whole.
    pub(crate) whole: bool,
    /// Whether what our routes rest on is known: it was whole once, and nothing was changed by a pass that was not.
    pub(crate) grounded: bool,
}

impl Known {
    /// What a pass over a region leaves known, of which `before` is what the rest was. `still`: it changed nothing.
    pub(crate) fn of(
        pass: &Pass<'_>,
        planned: &Planned,
        before: Option<Known>,
        whole: bool,
        still: bool,
    ) -> Known {
        let names = names(&planned.observed);
        let is_same = |before: &Known| before.grounded && before.options == *pass.options;
        let is_same = before.as_ref().is_some_and(is_same);
        let grounded = whole || still && is_same;
        let nothing_left = whole && planned.plan.is_empty();
        let routes = pass.desired.routes.as_ref();
        // Which objects routes point at follows from all of them.
        let written_out = pass.desired.nexthops == NexthopMode::Inline;
        // A part says nothing of what was left undone elsewhere.
        let tracked = |before: &Known| before.tracker.is_some();
        let all = pass.region.is_whole() || before.as_ref().is_some_and(tracked);
        let tracker = routes.filter(|_| nothing_left && written_out && all);
        let tracker = tracker.map(Tracker::in_sync);
        let stands = |before: &Known| before.assignment.is_some();
        let all = pass.region.is_whole() || before.as_ref().is_some_and(stands);
        let objects = pass
            .objects()
            .filter(|_| nothing_left && !written_out && all);
        let assignment = routes.zip(objects).map(|(routes, objects)| {
            let marker = pass.policy.marker;
            NexthopAssignment::in_sync(routes, objects, &devices(&names), marker)
        });
        let mut known = match before {
            Some(before) if !pass.region.is_whole() => Known {
                names,
                relevant: region::named(pass.desired),
                tracker,
                // A part without objects leaves them as they were.
                assignment: assignment.or(before
                    .assignment
                    .filter(|_| !pass.region.holds(Place::Nexthop))),
                whole,
                grounded,
                ..before
            },
            before => {
                // Where rows may be missing, what was known of them holds on.
                let held = before.filter(|_| is_same && !whole);
                let dependencies = held.map(|held| held.dependencies).unwrap_or_default();
                Known {
                    options: *pass.options,
                    names,
                    relevant: region::named(pass.desired),
                    dependencies,
                    unmarked: pass.policy.by_ledger,
                    foreign: BTreeSet::new(),
                    tracker,
                    assignment,
                    whole,
                    grounded,
                }
            }
        };
        for key in pass.book.keys() {
            known.unmarked = known.unmarked.with(key.kind());
            known.relevant.extend(key.interface().map(|(name, _)| name));
        }
        known.foreign.extend(pass.unmarked());
        for conflict in &planned.plan.conflicts {
            known.unmarked = known.unmarked.with(conflict.desired.kind());
            if let Object::Route(route) = &conflict.desired {
                known.foreign.insert(route.key());
            }
        }
        let objects = planned.observed.nexthops.iter();
        known
            .dependencies
            .nexthops
            .extend(objects.clone().map(|nexthop| nexthop.id));
        let devices = objects.filter_map(|nexthop| nexthop.dev()?.as_index());
        known.dependencies.devices.extend(devices);
        known.note_served(pass, &planned.observed);
        known
            .dependencies
            .add(pass.dependencies().cloned().unwrap_or_default());
        let routes = planned.observed.routes.iter();
        routes.for_each(|route| known.dependencies.note(route));
        known
    }

    /// Takes in which routes have become desired otherwise since.
    pub(crate) fn desire(&mut self, desired: &Desired, marker: u8) {
        let devices = devices(&self.names);
        // What is there on the key of one that is not ours is not for us to say.
        let followed = |(mut tracker, routes): (Tracker, &Routes)| {
            let ours = |key: &RouteKey| !self.foreign.contains(key);
            let followed = tracker.follow(routes, &devices, marker);
            (followed && tracker.dirty_keys().all(ours)).then_some(tracker)
        };
        let tracker = self.tracker.take().zip(desired.routes.as_ref());
        self.tracker = tracker.and_then(followed);
        let assignment = self.assignment.take().zip(desired.routes.as_ref());
        self.assignment = assignment
            .and_then(|(mut assignment, routes)| assignment.follow(routes).then_some(assignment));
    }

    /// What is not ours and equals what is desired serves in its place: its end is then our affair.
    fn note_served(&mut self, pass: &Pass<'_>, observed: &Observed) {
        let (wanted, marker) = (pass.desired, pass.policy.marker);
        let foreign = |protocol: u8| protocol != marker;
        let rules = observed.rules.iter();
        let rules: BTreeSet<_> = rules
            .filter(|rule| foreign(rule.protocol))
            .map(|rule| (rule.family, rule.priority))
            .collect();
        let mut of_rules = wanted.rules.iter().flatten();
        if of_rules.any(|rule| rules.contains(&(rule.family, rule.priority))) {
            self.unmarked = self.unmarked.with(Kind::Rule);
        }
        let neighbours = observed.neighbours.iter();
        let neighbours: BTreeSet<_> = neighbours
            .filter(|neighbour| foreign(neighbour.protocol))
            .map(|neighbour| neighbour.dst)
            .collect();
        let mut of_neighbours = wanted.neighbours.iter().flatten();
        if of_neighbours.any(|neighbour| neighbours.contains(&neighbour.dst)) {
            self.unmarked = self.unmarked.with(Kind::Neighbour);
        }
        // Of foreign routes those alone were read that may be in our places.
        for route in &observed.routes {
            if foreign(route.protocol) {
                self.unmarked = self.unmarked.with(Kind::Route);
                self.foreign.insert(route.key());
            }
        }
    }

    /// What matters until the next pass. Where something is left to do, whatever happens may be what it waits for.
    pub(crate) fn interest(&self, pass: &Pass<'_>, settled: bool) -> WatchScope {
        let mut interest = WatchScope::new(pass.desired.managed(), pass.policy.marker);
        interest.any_protocol = self.unmarked;
        interest.foreign_routes = (self.foreign.len() <= FOREIGN).then(|| self.foreign.clone());
        if settled {
            let matters = |(_, name): &(&u32, &IfName)| self.relevant.contains(*name);
            let devices = self.names.iter().filter(matters).map(|(index, _)| *index);
            interest.devices = Some(devices.collect());
            interest.route_devices = Some(self.dependencies.devices.clone());
            interest.route_sources = Some(self.dependencies.sources.clone());
            interest.nexthops = Some(self.dependencies.nexthops.clone());
        }
        interest
    }

    /// Whether the interfaces that matter are those that they were.
    pub(crate) fn has_links(&self, observed: &Observed) -> bool {
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

fn devices(names: &BTreeMap<u32, IfName>) -> Devices {
    let names = names.iter();
    Devices::of(names.map(|(index, name)| (Dev::index(*index), *name)))
}
