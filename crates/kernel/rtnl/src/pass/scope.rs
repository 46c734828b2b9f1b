//! How much of a namespace a pass looks at. It is decided before the pass begins.

use trueup_net::{Desired, Kinds, NextHops, NexthopMode, Plan, Route, RouteKey, Routes, Tracker};
use trueup_observe::{DirtySet, ReadScope};
use trueup_reconcile::OpKey;

use super::baseline::Baseline;
use super::conflict_check::ConflictCheck;
use super::dirty_keys::DirtyKeys;
use super::everything::{self, RouteRows};
use super::nexthop_table::NexthopTableScope;
use super::tracked_routes::TrackedRoutes;
use crate::Options;
use crate::dirty_part::{DirtyPart, exceeds_part};
use crate::history::History;
use crate::key;
use crate::location::Location;
use crate::ownership::record_key::RecordKey;

/// How much of a namespace a pass looks at.
#[derive(Clone, Debug)]
pub(crate) enum PassScope {
    /// All that is managed.
    Everything(RouteRows),
    /// What is dirty.
    DirtyKeys(DirtyKeys),
    /// Single routes, which are not read.
    TrackedRoutes(TrackedRoutes),
    /// The nexthop objects that routes point at.
    NexthopTable(NexthopTableScope),
}

impl PassScope {
    /// Decides on the narrowest scope that will do, given what the last pass found, and what became
    /// dirty since.
    pub(crate) fn decide(
        baseline: Option<&mut Baseline>,
        history: &History,
        desired: &Desired,
        options: &Options,
        dirty: &DirtySet,
        due: &[OpKey],
    ) -> PassScope {
        let narrow = || {
            let baseline = baseline?;
            let is_same = baseline.options == *options && history.is_same_but_routes(desired);
            let names = &baseline.names;
            let matters = |key: &RouteKey| baseline.concerns(key, desired);
            let mut part = DirtyPart::of(dirty, names, matters).filter(|_| is_same)?;
            let is_shared = dirty.shared_routes.iter().any(matters);
            if !history.is_same(desired) && baseline.tracker.is_none() {
                return None;
            }
            // True if something has to be read.
            let mut is_more_woken = false;
            let is_last = |tracker: &Tracker, key: &RouteKey| is_last(tracker, key, desired);
            for key in &dirty.deleted_routes {
                match &mut baseline.tracker {
                    Some(tracker) if is_last(tracker, key) => tracker.mark_absent(*key),
                    _ => is_more_woken = true,
                }
            }
            let freed = dirty.freed_routes.iter().filter(|key| baseline.concerns(key, desired));
            for key in freed.copied().collect::<Vec<_>>() {
                let marker = options.protocol();
                let is_ours = |there: &[Route]| there.iter().any(|it| it.protocol == marker);
                let is_gone = |tracker: &Tracker| {
                    let is_foreign = tracker.parked(&key).is_some_and(|it| !is_ours(it));
                    is_foreign && is_last(tracker, &key)
                };
                match baseline.tracker.as_mut().filter(|tracker| is_gone(tracker)) {
                    // What was in the way is gone.
                    Some(tracker) => tracker.mark_absent(key),
                    None => {
                        is_more_woken = true;
                        part.add(Location::Route(key), names);
                    }
                }
            }
            // Nexthop objects are tried again without the routes that wait for them.
            let is_object = |key: &OpKey| history.undone_at(key.0) == Some(Location::Nexthops);
            let (objects, due): (Vec<OpKey>, Vec<OpKey>) = due.iter().copied().partition(is_object);
            // An op that was left undone may wait for a change of a link or an address.
            let mut woken: Vec<Location> = match dirty.links || !dirty.addresses.is_empty() {
                true => history.undone().collect(),
                false => due.iter().filter_map(|key| history.undone_at(key.0)).collect(),
            };
            let planned = baseline.tracker.iter().flat_map(Tracker::dirty_keys);
            let planned = planned.map(key::route).chain(due.iter().copied());
            woken.extend(history.waiting_for(planned.map(|key| key.0)));
            for location in woken {
                let is_tracked = match (location, &mut baseline.tracker) {
                    (Location::Nexthops, _) => return None,
                    // Whether it is still there has to be read.
                    (Location::Route(key), _) if history.is_in_conflict(key::route(&key).0) => {
                        false
                    }
                    (Location::Route(key), Some(tracker)) => tracker.wake(&key),
                    _ => false,
                };
                if !is_tracked {
                    is_more_woken = true;
                    part.add(location, names);
                }
            }
            for key in baseline.tracker.iter().flat_map(Tracker::dirty_keys) {
                part.add(Location::Route(*key), names);
            }
            let tracker = baseline.tracker.as_ref();
            if !objects.is_empty() || tracker.is_some_and(Tracker::has_replaced_nexthops) {
                let assignment = tracker.and_then(Tracker::assignment);
                let assignment = assignment.filter(|_| !part.has_routes())?.clone();
                let scope = NexthopTableScope::new(part, desired, assignment);
                return Some(PassScope::NexthopTable(scope));
            }
            let tracked = baseline.tracker.as_ref().zip(desired.routes.as_ref());
            let tracked = tracked.filter(|_| !is_more_woken);
            let tracked = tracked.and_then(|(tracker, routes)| {
                TrackedRoutes::of(tracker, routes, dirty, is_shared, &part)
            });
            match tracked {
                Some(tracked) => Some(PassScope::TrackedRoutes(tracked)),
                None if points_anew(&part, desired) => None,
                None => Some(PassScope::DirtyKeys(DirtyKeys::new(part, desired))),
            }
        };
        narrow().unwrap_or(PassScope::Everything(RouteRows::OutOfSync))
    }

    /// Returns the next wider scope.
    pub(super) fn wider(self, desired: &Desired) -> PassScope {
        match self {
            PassScope::TrackedRoutes(tracked) if !points_anew(&tracked.part, desired) => {
                PassScope::DirtyKeys(DirtyKeys::new(tracked.part, desired))
            }
            PassScope::TrackedRoutes(_) | PassScope::DirtyKeys(_) | PassScope::NexthopTable(_) => {
                PassScope::Everything(RouteRows::OutOfSync)
            }
            PassScope::Everything(rows) => PassScope::Everything(rows),
        }
    }

    pub(crate) fn is_everything(&self) -> bool {
        matches!(self, PassScope::Everything(_))
    }

    /// The part of the namespace that the pass is about, unless it is about everything.
    pub(super) fn part(&self) -> Option<&DirtyPart> {
        match self {
            PassScope::Everything(_) => None,
            PassScope::DirtyKeys(keys) => Some(&keys.part),
            PassScope::TrackedRoutes(tracked) => Some(&tracked.part),
            PassScope::NexthopTable(table) => Some(&table.keys.part),
        }
    }

    /// The keys of the routes that the pass is about, if it is about single routes.
    pub(crate) fn route_keys(&self) -> Option<impl Iterator<Item = &RouteKey>> {
        match self {
            PassScope::TrackedRoutes(tracked) => Some(tracked.keys.iter()),
            _ => None,
        }
    }

    /// The routes that the pass is about, as desired, if it is about single routes.
    pub(super) fn desired_routes(&self) -> Option<&Routes> {
        match self {
            PassScope::TrackedRoutes(tracked) => tracked.desired.routes.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn contains(&self, location: Location) -> bool {
        let has_nexthops = matches!(self, PassScope::NexthopTable(_));
        let is_nexthop = location == Location::Nexthops;
        is_nexthop && has_nexthops || self.part().is_none_or(|part| part.contains(location))
    }

    /// Returns true if an observation in the scope shows what is on a key. That of single routes is
    /// narrower than the part that the records are read for.
    pub(super) fn observes(&self, key: &RecordKey) -> bool {
        match (self, key) {
            (PassScope::TrackedRoutes(tracked), RecordKey::Route(key)) => {
                tracked.keys.contains(key)
            }
            (PassScope::TrackedRoutes(_), _) => false,
            _ => true,
        }
    }

    /// What is desired in the scope.
    pub(super) fn desired<'a>(&'a self, all: &'a Desired) -> &'a Desired {
        match self {
            PassScope::Everything(_) => all,
            PassScope::DirtyKeys(keys) => &keys.desired,
            PassScope::TrackedRoutes(tracked) => &tracked.desired,
            PassScope::NexthopTable(table) => &table.keys.desired,
        }
    }

    /// What to read but routes.
    pub(super) fn read_scope(&self, managed: Kinds, marker: u8) -> ReadScope {
        match self {
            PassScope::Everything(_) => everything::read_scope(managed, marker),
            PassScope::DirtyKeys(keys) => keys.read_scope(managed),
            PassScope::TrackedRoutes(_) => ReadScope::default(),
            PassScope::NexthopTable(table) => table.read_scope(managed, marker),
        }
    }

    /// Which routes of ours to read.
    pub(super) fn route_scopes(&self, marker: u8) -> Vec<ReadScope> {
        match self {
            PassScope::Everything(_) => vec![everything::route_scope(marker)],
            PassScope::DirtyKeys(keys) => keys.route_scopes(marker),
            PassScope::TrackedRoutes(_) => Vec::new(),
            PassScope::NexthopTable(table) => table.keys.route_scopes(marker),
        }
    }

    /// Returns true if it is worth while to look at the first routes of a dump before it is made.
    pub(super) fn is_worth_sample(&self, desired: &Desired) -> bool {
        let is_whole = matches!(self, PassScope::Everything(RouteRows::OutOfSync));
        is_whole && everything::is_worth_sample(desired)
    }

    /// Returns true if routes in sync with what is desired are dropped as they arrive.
    pub(super) fn drops_routes_in_sync(&self) -> bool {
        !matches!(self, PassScope::Everything(RouteRows::All))
    }

    /// How the first plan finds foreign routes on the keys of its own.
    pub(super) fn conflict_check(&self) -> ConflictCheck {
        match self {
            PassScope::Everything(_) => ConflictCheck::BeforeWrite,
            _ => ConflictCheck::ByKernel,
        }
    }

    /// Returns true if a plan has consequences outside the scope.
    pub(super) fn is_exceeded_by(&self, plan: &Plan) -> bool {
        match self {
            PassScope::Everything(_) => false,
            PassScope::NexthopTable(table) => table.has_moved_routes || exceeds_part(plan),
            PassScope::TrackedRoutes(tracked) => tracked.lacks_object || exceeds_part(plan),
            PassScope::DirtyKeys(_) => exceeds_part(plan),
        }
    }

    /// Returns true if the first plan in the scope can be carried out.
    pub(super) fn allows(&self, plan: &Plan) -> bool {
        let is_doubtful = match self {
            // Without an op nothing is read.
            PassScope::TrackedRoutes(tracked) => {
                !tracked.is_verified_by_echo && plan.ops.is_empty()
            }
            _ => false,
        };
        !is_doubtful && !self.is_exceeded_by(plan)
    }
}

/// Returns true if routes are to be read that point at nexthop objects. At which follows from all
/// routes.
fn points_anew(part: &DirtyPart, desired: &Desired) -> bool {
    desired.nexthops == NexthopMode::Objects && part.has_routes()
}

/// Returns true if a plan can take for granted that nothing of ours is left on a key after an event
/// that a route went from it, which can be of one of several routes or next hops. Where a route is
/// desired, an exclusive create finds out what is left.
fn is_last(tracker: &Tracker, key: &RouteKey, desired: &Desired) -> bool {
    desired.has_route(key)
        || match tracker.there(key) {
            None | Some([]) => true,
            Some([only]) => !matches!(only.nexthops, NextHops::Many(_)),
            Some(_) => false,
        }
}
