//! The result of a pass, which lets the next one cover less than everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use trueup_net::internal::{Announced, ObjectTracker, RouteDependencies, Tracker};
use trueup_net::{
    Address, Desired, Dev, Devices, IfName, Kind, Kinds, Link, Neighbour, NeighbourKey, NextHops,
    Nexthop, NexthopMode, Object, ObjectKey, ObjectKind, Observed, OfKind, Policy, Route, RouteKey,
    Routes, Rule, each_kind,
};
use trueup_observe::{DirtySet, WatchScope};
use trueup_reconcile::OpKey;

use super::Pass;
use super::foreign::ForeignKeys;
use super::mode::{Facts, Mode, Read, SingleObjects};
use super::plan::PassPlan;
use crate::dirty_part::DirtyPart;
use crate::history::{History, UndonePlace};
use crate::key::ObjectId;
use crate::ownership::record_key::Location;
use crate::{Options, key};

/// With more foreign routes on our keys than this, every foreign route matters.
const MAX_FOREIGN: usize = 1 << 16;

/// The result of the last pass.
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) options: Options,
    /// The links in the namespace.
    pub(super) links: Vec<Link>,
    /// The links' names.
    devices: Devices,
    /// The interfaces that matter, by name.
    relevant: BTreeSet<IfName>,
    /// The dependencies of our routes.
    dependencies: RouteDependencies,
    /// The kinds of which objects without our marker matter too: they are ours by the ledger, or on
    /// our keys.
    unmarked: Kinds,
    /// The keys of such routes.
    pub(super) foreign: ForeignKeys,
    /// The tracker of our routes, if the last pass brought all of them in place.
    pub(crate) tracker: Option<Tracker>,
    /// The tracker of our addresses, neighbours and rules, if the last pass brought all of them in
    /// place.
    pub(crate) objects: Option<ObjectTracker>,
    /// True if all reads were complete.
    pub(crate) is_complete: bool,
    /// True if `dependencies` are known: one pass was complete, and the incomplete ones since then
    /// changed nothing.
    pub(crate) has_dependencies: bool,
}

/// The changes due in a part of a namespace.
struct News {
    part: DirtyPart,
    /// True if other writers have put routes on our keys.
    is_shared: bool,
    /// True if the kernel must be read, since the trackers do not know all that is due.
    is_read_needed: bool,
    /// True if nexthop objects are to change, or to be retried.
    are_nexthops_due: bool,
}

impl Baseline {
    /// Makes the baseline after a pass, from its last plan.
    pub(super) fn of(
        pass: &mut Pass<'_>,
        last: &mut PassPlan,
        is_complete: bool,
        is_unchanged: bool,
    ) -> Baseline {
        let foreign = std::mem::take(&mut pass.foreign);
        let mut before = pass.baseline.take();
        let pass = &*pass;
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.has_dependencies && before.options == *pass.options);
        let has_dependencies = is_complete || is_unchanged && is_same;
        // Narrow keys say nothing about undone objects elsewhere.
        let is_everything = pass.is_over_everything();
        let known = before.as_mut().and_then(|before| before.tracker.take());
        let known_objects = before.as_mut().and_then(|before| before.objects.take());
        let devices = match &mut before {
            // The links are the last pass's.
            Some(before) if pass.mode.read == Read::Nothing => std::mem::take(&mut before.devices),
            _ => Devices::of(
                last.seen
                    .snapshot
                    .observed
                    .links
                    .iter()
                    .map(|link| (Dev::index(link.index), link.name)),
            ),
        };
        let links = std::mem::take(&mut last.seen.snapshot.observed.links);
        let last = &*last;
        let observed = &last.seen.snapshot.observed;
        let tracker = tracker(pass, last, known).filter(|_| is_complete);
        let objects = object_tracker(pass, last, known_objects).filter(|_| is_complete);
        let mut baseline = match before {
            Some(mut before) if !is_everything => {
                if pass.mode.keys.objects().is_some() {
                    // All other declarations are unchanged.
                    before.relevant.extend(pass.wanted.device_names());
                } else {
                    before.relevant = pass.desired.device_names();
                }
                Baseline {
                    links,
                    devices,
                    foreign,
                    tracker,
                    objects,
                    is_complete,
                    has_dependencies,
                    ..before
                }
            }
            before => {
                // If rows may be missing, earlier knowledge still holds.
                let held = before.filter(|_| is_same && !is_complete);
                Baseline {
                    options: pass.options.clone(),
                    links,
                    devices,
                    relevant: pass.desired.device_names(),
                    dependencies: held.map(|held| held.dependencies).unwrap_or_default(),
                    unmarked: pass.policy.by_ledger,
                    foreign,
                    tracker,
                    objects,
                    is_complete,
                    has_dependencies,
                }
            }
        };
        for key in pass.ledger_view.keys() {
            baseline.unmarked = baseline.unmarked.with(key.kind());
            baseline.relevant.extend(key.interface().map(|(name, _)| name));
        }
        if is_everything && is_complete {
            let tracker = baseline.tracker.as_ref();
            baseline.foreign.retain(|key| {
                pass.desired.has_route(key) || tracker.is_some_and(|it| it.states.is_parked(key))
            });
        }
        baseline.foreign.add_all(pass.unmarked.iter());
        for conflict in &last.plan.conflicts {
            baseline.unmarked = baseline.unmarked.with(conflict.desired.kind());
            if let Object::Route(route) = &conflict.desired {
                baseline.foreign.add(route.key());
            }
        }
        each_kind!(K => K::note_foreign(&mut baseline, pass.desired, observed, pass.policy.marker));
        let dependencies = &mut baseline.dependencies;
        for nexthop in &observed.nexthops {
            dependencies.nexthops.insert(nexthop.id);
            dependencies.devices.extend(nexthop.dev().and_then(Dev::as_index));
        }
        if let Some(rest) = &last.seen.out_of_sync {
            dependencies.add(rest.dependencies.clone());
        }
        observed.all_routes().for_each(|route| dependencies.note(&route));
        baseline
    }

    /// Decides on a pass's mode, from the objects that became dirty since the last pass, and those
    /// whose failed op is `due` again. Has the tracker plan the routes concerned.
    pub(crate) fn decide(
        &mut self,
        history: &History,
        desired: &Desired,
        options: &Options,
        dirty: &DirtySet,
        due: &[OpKey],
        policy: &Policy,
    ) -> (Facts, Mode) {
        // Without a subscription there is no baseline.
        let (facts, everything) = Mode::everything(desired, true);
        let mut dirty = dirty.clone();
        let unknown = self.announce(&dirty, history, desired, policy);
        dirty.coarsen(|key| !unknown.contains(key));
        let dirty = &dirty;
        let Some(mut news) = self.take_news(history, desired, options, dirty, due) else {
            return (facts, everything);
        };
        let tracker = self.tracker.as_ref().filter(|_| desired.routes.is_some());
        let mut single = SingleObjects {
            routes: tracker.iter().flat_map(|it| it.states.dirty_keys()).copied().collect(),
            ..SingleObjects::default()
        };
        match self.objects.as_ref().map(|objects| self.single_objects(objects, desired)) {
            Some(Some((others, devices))) => (single.others, single.devices) = (others, devices),
            Some(None) => news.is_read_needed = true,
            None => {}
        }
        // The announcement of an own write may be all that has happened.
        let is_some_known = !single.routes.is_empty()
            || !single.others.is_empty()
            || !dirty.objects.is_empty() && news.part == DirtyPart::default();
        // The subnet of a new address may be that of one in place, which only a read shows.
        let are_routes_free =
            single.routes.is_empty() || single.others.iter().all(|key| key.kind() != Kind::Address);
        let is_ground_firm = !dirty.links
            && dirty.addresses.is_empty()
            && dirty.neighbours.is_empty()
            && dirty.rules.is_empty()
            && dirty.routes.is_empty()
            && are_routes_free;
        let facts = Facts {
            is_part_known: true,
            are_nexthops_due: news.are_nexthops_due,
            are_routes_assigned: tracker.is_some_and(Tracker::has_objects),
            are_routes_due: news.part.has_routes(),
            are_keys_tracked: !news.is_read_needed && is_ground_firm && is_some_known,
            are_keys_alone: !news.is_shared && dirty.tables.is_empty(),
            ..facts
        };
        (facts, Mode::decide(facts, news.part, single))
    }

    /// Returns the keys of the objects to plan for, with their devices. `None` if they are too
    /// many, or if only a read shows what is there.
    fn single_objects(
        &self,
        objects: &ObjectTracker,
        desired: &Desired,
    ) -> Option<(BTreeSet<ObjectKey>, Devices)> {
        let keys = objects.keys(desired, &self.devices)?;
        let of_keys = keys.iter().filter_map(device_of);
        let devices = Devices::of(of_keys.filter_map(|dev| Some((dev, *self.devices.name(dev)?))));
        keys.iter().all(|key| objects.is_known(key)).then_some((keys, devices))
    }

    /// Has the tracker take in the announced objects. Returns the keys on which only a read shows
    /// what is to be done.
    fn announce(
        &mut self,
        dirty: &DirtySet,
        history: &History,
        desired: &Desired,
        policy: &Policy,
    ) -> BTreeSet<ObjectKey> {
        let Baseline { objects, devices, .. } = self;
        let mut is_known = |key: &ObjectKey, object: &Option<Object>| {
            let Some(objects) = objects.as_mut().filter(|_| is_on_any(devices, key)) else {
                return false;
            };
            match objects.announce(key, object.as_ref(), desired, devices, policy) {
                Announced::Known => true,
                // An undone op may have waited for it to go.
                Announced::Beside => history.is_all_done(),
                Announced::Unknown => false,
            }
        };
        let unknown = dirty.objects.iter().filter(|(key, object)| !is_known(key, object));
        unknown.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the interfaces that matter, and those that `wanted` names.
    pub(super) fn interfaces(&self, wanted: &Desired) -> BTreeSet<IfName> {
        let mut names = wanted.device_names();
        names.extend(&self.relevant);
        names
    }

    /// Returns true if a neighbour may not be in place: its device is missing, it is to be planned,
    /// or it was left undone.
    pub(super) fn may_lack(&self, key: &NeighbourKey<IfName>) -> bool {
        let on = self.devices.dev(&key.dev).zip(self.objects.as_ref());
        on.is_none_or(|(dev, objects)| {
            let key = ObjectKey::Neighbour(NeighbourKey::new(dev, key.dst, key.proxy));
            objects.states.there(&key).is_some()
        })
    }

    /// Takes in the due objects, and has the trackers plan for those that they know. Returns the
    /// rest, or `None` if only a full pass will do.
    fn take_news(
        &mut self,
        history: &History,
        desired: &Desired,
        options: &Options,
        dirty: &DirtySet,
        due: &[OpKey],
    ) -> Option<News> {
        let is_tracked = |kind| match kind {
            Kind::Route => self.tracker.is_some(),
            kind => self.objects.as_ref().is_some_and(|objects| objects.tracks(kind)),
        };
        if self.options != *options || !history.is_same_but(desired, is_tracked) {
            return None;
        }
        let part = DirtyPart::of(dirty, &self.devices, |key| self.concerns(key, desired))?;
        let is_shared = dirty.shared_routes.iter().any(|key| self.concerns(key, desired));
        let mut news = News { part, is_shared, is_read_needed: false, are_nexthops_due: false };
        for key in &dirty.deleted_routes {
            match &mut self.tracker {
                Some(tracker) if is_last(tracker, key, desired) => {
                    tracker.states.mark(*key, Vec::new());
                }
                _ => news.is_read_needed = true,
            }
        }
        for key in &dirty.freed_routes {
            if !self.concerns(key, desired) {
                continue;
            }
            let is_ours =
                |there: &[Route]| there.iter().any(|route| route.protocol == options.protocol());
            match &mut self.tracker {
                // The obstacle is gone.
                Some(tracker)
                    if tracker.states.parked(key).is_some_and(|there| !is_ours(there))
                        && is_last(tracker, key, desired) =>
                {
                    tracker.states.mark(*key, Vec::new());
                }
                _ => {
                    news.is_read_needed = true;
                    news.part.add(Location::Route(*key), &self.devices);
                }
            }
        }
        let tracked = self.objects.iter().flat_map(|it| it.states.dirty_keys());
        let is_address_news =
            dirty.objects.keys().chain(tracked).any(|key| key.kind() == Kind::Address);
        // Nexthop objects are retried without the routes that wait for them.
        let (objects, due): (Vec<OpKey>, Vec<OpKey>) = due.iter().copied().partition(|key| {
            history.undone_at(key.0).is_some_and(|it| it.location == Location::Nexthops)
        });
        // An undone op may wait for a change of a link or an address.
        let is_ground_new = dirty.links || !dirty.addresses.is_empty() || is_address_news;
        let mut woken: Vec<UndonePlace> = if is_ground_new {
            history.undone().collect()
        } else {
            due.iter().filter_map(|key| history.undone_at(key.0)).collect()
        };
        let planned: Vec<ObjectId> = self.planned();
        woken.extend(history.waiting_for(planned.into_iter().chain(due.iter().map(|key| key.0))));
        for UndonePlace { id, location, key } in woken {
            let is_tracked = match (location, &mut self.tracker, &mut self.objects) {
                (Location::Nexthops, ..) => return None,
                // Its device is still missing: no link has changed, or the links are read.
                _ if device_of(&key).is_some_and(|dev| dev.as_index().is_none()) => true,
                // Its device is gone.
                _ if !is_on_any(&self.devices, &key) => return None,
                // Only a read can show if it still exists.
                _ if history.is_in_conflict(id) => false,
                (Location::Route(key), Some(tracker), _) => tracker.states.wake(&key),
                (Location::Device(_) | Location::Rules(_), _, Some(objects)) => {
                    objects.states.wake(&key)
                }
                (Location::Route(_) | Location::Link, ..)
                | (Location::Device(_) | Location::Rules(_), _, None) => false,
            };
            if !is_tracked {
                news.is_read_needed = true;
                news.part.add(location, &self.devices);
            }
        }
        for key in self.tracker.iter().flat_map(|it| it.states.dirty_keys()) {
            news.part.add(Location::Route(*key), &self.devices);
        }
        for key in self.objects.iter().flat_map(|it| it.states.dirty_keys()) {
            news.part.add_object(key, &self.devices);
        }
        let has_replaced = self.tracker.as_ref().is_some_and(Tracker::has_replaced_nexthops);
        news.are_nexthops_due = !objects.is_empty() || has_replaced;
        Some(news)
    }

    /// Returns the ids of the objects that the trackers will have planned.
    fn planned(&self) -> Vec<ObjectId> {
        let routes = self.tracker.iter().flat_map(|it| it.states.dirty_keys());
        let mut planned: Vec<ObjectId> = routes.map(|key| key::route(key).0).collect();
        let others = self.objects.iter().flat_map(|it| it.states.dirty_keys());
        planned.extend(others.map(|key| key::key_id(key.clone(), &self.devices)));
        planned
    }

    /// Returns true if other writers' routes on a key matter to us.
    pub(super) fn concerns(&self, key: &RouteKey, desired: &Desired) -> bool {
        desired.has_route(key)
            || self.foreign.keys.contains(key)
            || self.tracker.as_ref().is_none_or(|tracker| tracker.states.is_parked(key))
    }

    /// Records where other writers have put routes since the last pass.
    pub(crate) fn note_shared(&mut self, dirty: &DirtySet, desired: &Desired) {
        let mut foreign = std::mem::take(&mut self.foreign);
        foreign.note(dirty, |key| self.concerns(key, desired));
        self.foreign = foreign;
    }

    /// Records which desired objects changed since the last pass.
    pub(crate) fn follow(&mut self, desired: &Desired, policy: &Policy) {
        let marker = policy.marker;
        if let Some(objects) = &mut self.objects {
            objects.follow(desired, &self.devices, policy);
        }
        let (Some(mut tracker), Some(routes)) = (self.tracker.take(), &desired.routes) else {
            return;
        };
        let is_known = tracker.follow(routes, &self.devices, marker)
            // The state of a foreign route's key is known only if it was read.
            && tracker.states.dirty_keys().all(|key| {
                !self.foreign.keys.contains(key)
                    || tracker
                        .states
                        .there(key)
                        .is_some_and(|it| it.iter().any(|route| route.protocol != marker))
            });
        self.tracker = is_known.then_some(tracker);
    }

    /// Returns the changes to report until the next pass, if this one was quiet.
    pub(super) fn watch_scope(&self, pass: &Pass<'_>) -> WatchScope {
        let mut scope = WatchScope::new(pass.desired.managed(), pass.policy.marker);
        scope.any_protocol = self.unmarked;
        let is_small = self.foreign.keys.len() <= MAX_FOREIGN;
        scope.foreign_routes = is_small.then(|| Arc::clone(&self.foreign.keys));
        scope.devices = Some(self.relevant_names().into_keys().collect());
        scope.route_devices = Some(self.dependencies.devices.clone());
        scope.route_sources = Some(self.dependencies.sources.clone());
        let gateways = pass.desired.routes.iter().flat_map(Routes::open_gateways);
        scope.gateways = Some(gateways.map(|(_, via)| via).collect());
        scope.nexthops = Some(self.dependencies.nexthops.clone());
        scope
    }

    /// Returns true if the interfaces that matter are still the last pass's.
    pub(super) fn has_same_links(&self, observed: &Observed) -> bool {
        let now: BTreeMap<u32, IfName> = observed
            .links
            .iter()
            .filter(|link| self.relevant.contains(&link.name))
            .map(|link| (link.index, link.name))
            .collect();
        self.relevant_names() == now
    }

    /// Returns the interfaces that matter and existed, by index.
    fn relevant_names(&self) -> BTreeMap<u32, IfName> {
        let named = |name: &IfName| Some((self.devices.dev(name)?.as_index()?, *name));
        self.relevant.iter().filter_map(named).collect()
    }
}

/// A kind whose foreign objects may satisfy desired ones, so that their removal matters.
trait SatisfiedByForeign {
    /// Records that there are such objects. Kinds that are always watched need no record.
    fn note_foreign(baseline: &mut Baseline, desired: &Desired, observed: &Observed, marker: u8);
}

impl SatisfiedByForeign for Link {
    fn note_foreign(_: &mut Baseline, _: &Desired, _: &Observed, _: u8) {}
}

impl SatisfiedByForeign for Address {
    fn note_foreign(_: &mut Baseline, _: &Desired, _: &Observed, _: u8) {}
}

impl SatisfiedByForeign for Nexthop {
    fn note_foreign(_: &mut Baseline, _: &Desired, _: &Observed, _: u8) {}
}

impl SatisfiedByForeign for Rule {
    fn note_foreign(baseline: &mut Baseline, desired: &Desired, observed: &Observed, marker: u8) {
        let foreign = observed.rules.iter().filter(|rule| rule.protocol != marker);
        let there: BTreeSet<_> = foreign.map(|rule| (rule.family, rule.priority)).collect();
        let mut rules = desired.rules.iter().flatten();
        if !there.is_empty() && rules.any(|rule| there.contains(&(rule.family, rule.priority))) {
            baseline.unmarked = baseline.unmarked.with(Kind::Rule);
        }
    }
}

impl SatisfiedByForeign for Neighbour {
    fn note_foreign(baseline: &mut Baseline, desired: &Desired, observed: &Observed, marker: u8) {
        let foreign = observed.neighbours.iter().filter(|it| it.protocol != marker);
        let there: BTreeSet<_> = foreign.map(|neighbour| neighbour.dst).collect();
        let mut neighbours = desired.neighbours.iter().flatten();
        if !there.is_empty() && neighbours.any(|neighbour| there.contains(&neighbour.dst)) {
            baseline.unmarked = baseline.unmarked.with(Kind::Neighbour);
        }
    }
}

impl SatisfiedByForeign for Route {
    /// Only those foreign routes were read that may be on our keys.
    fn note_foreign(baseline: &mut Baseline, _: &Desired, observed: &Observed, marker: u8) {
        for route in observed.all_routes().filter(|route| route.protocol != marker) {
            baseline.unmarked = baseline.unmarked.with(Kind::Route);
            baseline.foreign.add(route.key());
        }
    }
}

/// Returns the tracker after a pass, given the one before it.
fn tracker(pass: &Pass<'_>, last: &PassPlan, before: Option<Tracker>) -> Option<Tracker> {
    let routes = pass.desired.routes.as_ref()?;
    let keys = &pass.mode.keys;
    let mut tracker = if keys.is_everything() { Tracker::in_sync(routes) } else { before? };
    match keys.objects() {
        Some(single) => single.routes.iter().for_each(|key| tracker.states.mark_in_sync(key)),
        None => tracker.states.mark_all_in_sync(|key| keys.contains(Location::Route(*key))),
    }
    let PassPlan { plan, seen } = last;
    if pass.desired.nexthops == NexthopMode::Objects && keys.contains(Location::Nexthops) {
        let undone = plan.ops.iter().filter_map(|op| match &op.object {
            Object::Nexthop(nexthop) => Some(nexthop.id),
            _ => None,
        });
        tracker = tracker.with_objects(seen.names.as_ref()?, undone.collect())?;
    }
    let mut left: BTreeMap<RouteKey, Vec<Route>> = plan
        .ops
        .iter()
        .map(|op| &op.object)
        .chain(plan.conflicts.iter().map(|conflict| &conflict.desired))
        .filter_map(|object| match object {
            Object::Route(route) => Some((route.key(), Vec::new())),
            _ => None,
        })
        .collect();
    for route in seen.snapshot.observed.all_routes() {
        if let Some(there) = left.get_mut(&route.key()) {
            there.push(route.into_owned());
        }
    }
    for (key, there) in left {
        tracker.states.park(key, there);
    }
    Some(tracker)
}

/// Returns the tracker of all other objects after a pass, given the one before it.
fn object_tracker(
    pass: &Pass<'_>,
    last: &PassPlan,
    before: Option<ObjectTracker>,
) -> Option<ObjectTracker> {
    let keys = &pass.mode.keys;
    let PassPlan { plan, seen } = last;
    let observed = &seen.snapshot.observed;
    let was_read = |key: &ObjectKey| match (keys.objects(), keys.part()) {
        (Some(single), _) => single.others.contains(key),
        (None, Some(part)) => part.contains_object(key),
        (None, None) => true,
    };
    let mut tracker = if keys.is_everything() {
        let by_marker = Kind::ALL.into_iter().filter(|kind| {
            !pass.policy.by_ledger.contains(*kind) && !pass.policy.unstored.contains(*kind)
        });
        ObjectTracker::in_sync(pass.desired, by_marker.collect())
    } else {
        before?
    };
    // An object of ours by the ledger may be as its maker made it.
    pass.ledger_view.keys().for_each(|key| tracker.forget(key.kind()));
    tracker.states.mark_all_in_sync(was_read);
    let mut foreign = Vec::new();
    let mut left: BTreeMap<ObjectKey, Vec<Object>> = plan
        .ops
        .iter()
        .map(|op| &op.object)
        .chain(plan.conflicts.iter().map(|conflict| &conflict.desired))
        .filter(|object| tracker.tracks(object.kind()))
        .map(|object| (object.key(), Vec::new()))
        .collect();
    each_kind!(K => if tracker.tracks(K::KIND) {
        for object in OfKind::<K>::of_kind(observed) {
            let is_foreign = object.protocol() != pass.policy.marker || !object.can_be_ours();
            if left.is_empty() && !is_foreign {
                continue;
            }
            let object: Object = object.clone().into();
            let key = object.key();
            if let Some(there) = left.get_mut(&key) {
                there.push(object);
            }
            if is_foreign {
                foreign.push(key);
            }
        }
    });
    tracker.set_foreign(was_read, foreign);
    for (key, there) in left {
        tracker.states.park(key, there);
    }
    Some(tracker)
}

/// Returns true if an object is on no device, or on a known one.
fn is_on_any(devices: &Devices, key: &ObjectKey) -> bool {
    device_of(key).is_none_or(|dev| devices.name(dev).is_some())
}

/// Returns the device that an object is on.
fn device_of(key: &ObjectKey) -> Option<Dev> {
    match key {
        ObjectKey::Address(key) => Some(key.dev),
        ObjectKey::Neighbour(key) => Some(key.dev),
        _ => None,
    }
}

/// Returns true if a plan may assume that no route of ours is left on a key after an event removed
/// one. The event may concern one of several routes or next hops. If a route is desired, an
/// exclusive create finds out.
fn is_last(tracker: &Tracker, key: &RouteKey, desired: &Desired) -> bool {
    desired.has_route(key)
        || match tracker.states.there(key) {
            None | Some([]) => true,
            Some([only]) => !matches!(only.nexthops, NextHops::Many(_)),
            Some(_) => false,
        }
}
