//! How much of a namespace a pass looks at. It is decided before the pass begins.

use trueup_diff::{Desired, Kinds, NexthopMode, Plan};
use trueup_observe::{DirtySet, ReadScope};

use super::baseline::Baseline;
use super::conflict_check::ConflictCheck;
use super::dirty_keys::DirtyKeys;
use super::everything::{self, RouteRows};
use super::nexthop_table::NexthopTableScope;
use super::tracked_routes::TrackedRoutes;
use crate::Options;
use crate::dirty_part::{DirtyPart, exceeds_part};
use crate::history::History;
use crate::location::Location;

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
        baseline: Option<&Baseline>,
        history: &History,
        desired: &Desired,
        options: &Options,
        dirty: &DirtySet,
    ) -> PassScope {
        let narrow = || {
            let baseline = baseline?;
            let is_same = baseline.options == *options && history.is_same_but_routes(desired);
            let names = &baseline.names;
            let mut part = DirtyPart::of(dirty, names).filter(|_| is_same)?;
            let mut assignment = None;
            if !history.is_same(desired) {
                match (&baseline.tracker, &baseline.assignment) {
                    (Some(tracker), _) => tracker
                        .dirty_keys()
                        .for_each(|key| part.add(Location::of_route(key), names)),
                    (None, Some(known)) => assignment = Some(known),
                    (None, None) => return None,
                }
            }
            // An op that was left undone may wait for what has happened since.
            let undone = || history.undone();
            undone().for_each(|location| part.add(location, names));
            // Which object a route points at follows from all routes.
            let needs_all = desired.nexthops == NexthopMode::Objects && part.has_routes();
            if needs_all || undone().any(|location| location == Location::Nexthops) {
                return None;
            }
            if let Some(assignment) = assignment.cloned() {
                let scope = NexthopTableScope::new(part, desired, assignment);
                return Some(PassScope::NexthopTable(scope));
            }
            let (tracker, routes) = (baseline.tracker.as_ref(), desired.routes.as_ref());
            Some(match TrackedRoutes::of(tracker, routes, dirty, &part) {
                Some(tracked) => PassScope::TrackedRoutes(tracked),
                None => PassScope::DirtyKeys(DirtyKeys::new(part, desired)),
            })
        };
        narrow().unwrap_or(PassScope::Everything(RouteRows::OutOfSync))
    }

    /// Returns the next wider scope.
    pub(super) fn wider(self, desired: &Desired) -> PassScope {
        match self {
            PassScope::TrackedRoutes(tracked) => {
                PassScope::DirtyKeys(DirtyKeys::new(tracked.part, desired))
            }
            PassScope::DirtyKeys(_) | PassScope::NexthopTable(_) => {
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

    pub(super) fn contains(&self, location: Location) -> bool {
        let has_nexthops = matches!(self, PassScope::NexthopTable(_));
        let is_nexthop = location == Location::Nexthops;
        is_nexthop && has_nexthops || self.part().is_none_or(|part| part.contains(location))
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
            PassScope::DirtyKeys(_) | PassScope::TrackedRoutes(_) => exceeds_part(plan),
        }
    }

    /// Returns true if the first plan in the scope can be carried out.
    pub(super) fn allows(&self, plan: &Plan) -> bool {
        let is_empty = matches!(self, PassScope::TrackedRoutes(_)) && plan.is_empty();
        !is_empty && !self.is_exceeded_by(plan)
    }
}
