//! How a pass goes about its work: one value with four fields, decided before the pass begins.
//!
//! [`Mode::decide`] is a function of [`Facts`] alone, and [`Mode::wider`] is the only way from one
//! mode to another while a pass runs.

use std::borrow::Cow;
use std::collections::BTreeSet;

use trueup_net::{Desired, NexthopMode, RouteKey};

use crate::dirty_part::DirtyPart;
use crate::ownership::record_key::Location;

/// How a pass goes about its work.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mode {
    pub(crate) keys: Keys,
    pub(crate) read: Read,
    pub(crate) verify: Verify,
    pub(crate) conflicts: Conflicts,
}

/// The keys that a pass is about. Of all others it judges and changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Keys {
    /// All that is managed.
    Everything,
    /// The dirty part of the namespace.
    Part(DirtyPart),
    /// The nexthop objects that routes point at, and the dirty part beside them, which has no
    /// routes. Each route stays on its object, so that the pass costs the number of objects.
    Nexthops(DirtyPart),
    /// Single routes, in the tables of the part.
    Routes(DirtyPart, BTreeSet<RouteKey>),
}

/// What is read of the keys before the first plan. The links are always read with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All objects, for a caller who asks about any of them.
    All,
    /// All objects but the routes that are as desired, which are dropped as they arrive.
    OutOfSync,
    /// Nothing: the tracker knows what the kernel holds.
    Nothing,
}

/// How changes are verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// The keys are read again.
    Read,
    /// By the kernel's echo of each change if a plan changes few routes and nothing else, and
    /// otherwise by a read.
    Echo,
}

/// How another writer's routes on the keys of a plan are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// They are read before anything is written.
    BeforeWrite,
    /// The kernel refuses the write: creates are exclusive, and a changed route is
    /// [appended](trueup_net::Plan::append_then_delete) before the former one is deleted. Keys on
    /// which the last pass found foreign routes are read before.
    ByKernel,
}

/// What is known when a pass begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The driver asks for no more than what is dirty, the last pass left a baseline that still
    /// holds, and the dirty part is known.
    pub(crate) is_part_known: bool,
    /// Nexthop objects are to lead elsewhere, or to be tried again.
    pub(crate) are_nexthops_due: bool,
    /// It is known at which nexthop object each route points.
    pub(crate) are_routes_assigned: bool,
    /// The dirty part has routes.
    pub(crate) are_routes_due: bool,
    /// The tracker knows what the kernel holds on the keys of all routes that are due, and nothing
    /// that they depend on is dirty.
    pub(crate) are_routes_tracked: bool,
    /// Single routes of ours are due, and nothing else is.
    pub(crate) are_routes_alone: bool,
    /// Routes are to point at nexthop objects. Otherwise no route takes another one along.
    pub(crate) uses_nexthops: bool,
    /// The source hears what other writers do from now on.
    pub(crate) is_subscribed: bool,
}

impl Facts {
    /// Returns true if routes are due that may have to point at another nexthop object. At which
    /// follows from all routes.
    fn may_point_anew(&self) -> bool {
        self.uses_nexthops && self.are_routes_due
    }
}

impl Mode {
    /// Decides on the narrowest mode that will do. `part` is dirty, and `routes` are the single
    /// routes that are due.
    pub(crate) fn decide(facts: Facts, part: DirtyPart, routes: BTreeSet<RouteKey>) -> Mode {
        let keys = if !facts.is_part_known {
            Keys::Everything
        } else if facts.are_nexthops_due {
            if facts.are_routes_assigned && !facts.are_routes_due {
                Keys::Nexthops(part)
            } else {
                Keys::Everything
            }
        } else if facts.are_routes_tracked {
            Keys::Routes(part, routes)
        } else if facts.may_point_anew() {
            Keys::Everything
        } else {
            Keys::Part(part)
        };
        Mode::over(keys, facts)
    }

    /// Returns the mode of a pass over everything that is desired.
    pub(crate) fn everything(desired: &Desired, is_subscribed: bool) -> (Facts, Mode) {
        let uses_nexthops = desired.nexthops == NexthopMode::Objects;
        let facts = Facts { uses_nexthops, is_subscribed, ..Facts::default() };
        (facts, Mode::over(Keys::Everything, facts))
    }

    /// Returns the mode of a pass that shows everything and changes nothing.
    pub(crate) fn look() -> Mode {
        Mode { read: Read::All, ..Mode::over(Keys::Everything, Facts::default()) }
    }

    /// Returns the next wider mode. Conflicts that are read before a write are still read.
    pub(crate) fn wider(self, facts: Facts) -> Mode {
        let wider = match self.keys {
            Keys::Everything => return self,
            Keys::Routes(part, _) if !facts.may_point_anew() => Mode::over(Keys::Part(part), facts),
            _ => Mode::over(Keys::Everything, facts),
        };
        match self.conflicts {
            Conflicts::BeforeWrite => Mode { conflicts: Conflicts::BeforeWrite, ..wider },
            Conflicts::ByKernel => wider,
        }
    }

    fn over(keys: Keys, facts: Facts) -> Mode {
        let is_echo_proof = match keys {
            Keys::Everything => facts.is_subscribed && !facts.uses_nexthops,
            Keys::Routes(..) => facts.are_routes_alone,
            Keys::Part(_) | Keys::Nexthops(_) => false,
        };
        let is_everything = keys == Keys::Everything;
        let is_known = matches!(keys, Keys::Routes(..));
        Mode {
            keys,
            read: if is_known { Read::Nothing } else { Read::OutOfSync },
            verify: if is_echo_proof { Verify::Echo } else { Verify::Read },
            conflicts: if is_everything { Conflicts::BeforeWrite } else { Conflicts::ByKernel },
        }
    }
}

impl Keys {
    pub(crate) fn is_everything(&self) -> bool {
        matches!(self, Keys::Everything)
    }

    /// The part of the namespace that the keys are in, unless they are everything.
    pub(crate) fn part(&self) -> Option<&DirtyPart> {
        match self {
            Keys::Everything => None,
            Keys::Part(part) | Keys::Nexthops(part) | Keys::Routes(part, _) => Some(part),
        }
    }

    /// The keys themselves, if they are those of single routes.
    pub(crate) fn routes(&self) -> Option<&BTreeSet<RouteKey>> {
        match self {
            Keys::Routes(_, routes) => Some(routes),
            _ => None,
        }
    }

    /// Returns true if the records of a location are about these keys. Of single routes these are
    /// the records of their tables.
    pub(crate) fn contains(&self, location: Location) -> bool {
        match self.part() {
            None => true,
            Some(_) if location == Location::Nexthops => matches!(self, Keys::Nexthops(_)),
            Some(part) => part.contains(location),
        }
    }

    /// Returns what is desired on these keys.
    pub(crate) fn narrow<'a>(&self, desired: &'a Desired) -> Cow<'a, Desired> {
        match self {
            Keys::Everything => Cow::Borrowed(desired),
            Keys::Part(part) => Cow::Owned(part.narrow(desired)),
            Keys::Nexthops(part) => {
                let mut narrowed = part.narrow(desired);
                // Nexthop objects are managed where routes are.
                narrowed.routes.get_or_insert_default();
                Cow::Owned(narrowed)
            }
            Keys::Routes(_, keys) => {
                let mut narrowed = Desired::default();
                narrowed.routes =
                    desired.routes.as_ref().map(|routes| routes.at(keys.iter().copied()));
                Cow::Owned(narrowed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
