//! The mode of a pass: one value with four fields, decided before the pass begins.
//!
//! [`Mode::decide`] depends only on [`Facts`]. Only [`Mode::wider`] changes the mode of a running
//! pass.

use std::borrow::Cow;
use std::collections::BTreeSet;

use trueup_net::internal::narrowed;
use trueup_net::{Desired, Devices, NexthopMode, ObjectKey, RouteKey};

use crate::dirty_part::DirtyPart;
use crate::ownership::record_key::Location;

/// The way in which a pass works.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mode {
    pub(crate) keys: Keys,
    pub(crate) read: Read,
    pub(crate) verify: Verify,
    pub(crate) conflicts: Conflicts,
}

/// The keys that a pass covers. It neither judges nor changes others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Keys {
    /// All managed objects.
    Everything,
    /// The dirty part of the namespace.
    Part(DirtyPart),
    /// The nexthop objects that routes point at, and the dirty part without routes. Each route
    /// stays on its object, so the pass costs the number of objects.
    Nexthops(DirtyPart),
    /// Single objects, in the part.
    Objects(DirtyPart, SingleObjects),
}

/// The keys of single objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SingleObjects {
    pub(crate) routes: BTreeSet<RouteKey>,
    /// Addresses, neighbours and rules.
    pub(crate) others: BTreeSet<ObjectKey>,
    /// The devices of `others`.
    pub(crate) devices: Devices,
}

/// The objects read on the keys before the first plan. Links are always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// All objects, for a caller who may ask about any of them.
    All,
    /// All objects except routes in sync, which are dropped as they arrive.
    OutOfSync,
    /// None: the trackers know the kernel's state.
    Nothing,
}

/// The verification of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// The keys are read again.
    Read,
    /// By the kernel's echo of each change, or a request for the single object, if a plan changes
    /// only a few. Else by a read.
    Echo,
}

/// The way to find other writers' routes on a plan's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// They are read before any write.
    BeforeWrite,
    /// The kernel refuses the write. Creates are exclusive, and a changed route is
    /// [appended](trueup_net::Plan::append_then_delete) before the former one is deleted. Keys on
    /// which the last pass found foreign routes are read first.
    ByKernel,
}

/// The facts known when a pass begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// True if the driver asks only for dirty objects, the last pass's baseline still holds, and
    /// the dirty part is known.
    pub(crate) is_part_known: bool,
    /// True if nexthop objects are to change, or to be retried.
    pub(crate) are_nexthops_due: bool,
    /// True if each route's nexthop object is known.
    pub(crate) are_routes_assigned: bool,
    /// True if the dirty part has routes.
    pub(crate) are_routes_due: bool,
    /// True if the trackers know the kernel's state on the keys of all due objects, and none of
    /// their dependencies is dirty.
    pub(crate) are_keys_tracked: bool,
    /// True if only single objects of ours are due.
    pub(crate) are_keys_alone: bool,
    /// True if routes are to point at nexthop objects. If false, no route deletes another along.
    pub(crate) uses_nexthops: bool,
    /// True if the source hears other writers' changes from now on.
    pub(crate) is_subscribed: bool,
}

impl Facts {
    /// Returns true if due routes may have to point at another nexthop object, which depends on all
    /// routes.
    fn may_point_anew(&self) -> bool {
        self.uses_nexthops && self.are_routes_due
    }
}

impl Mode {
    /// Decides on the narrowest sufficient mode. `part` is dirty, and `objects` are the single
    /// objects due.
    pub(crate) fn decide(facts: Facts, part: DirtyPart, objects: SingleObjects) -> Mode {
        let keys = if !facts.is_part_known {
            Keys::Everything
        } else if facts.are_nexthops_due {
            if facts.are_routes_assigned && !facts.are_routes_due {
                Keys::Nexthops(part)
            } else {
                Keys::Everything
            }
        } else if facts.are_keys_tracked {
            Keys::Objects(part, objects)
        } else if facts.may_point_anew() {
            Keys::Everything
        } else {
            Keys::Part(part)
        };
        Mode::over(keys, facts)
    }

    /// Returns the mode of a full pass.
    pub(crate) fn everything(desired: &Desired, is_subscribed: bool) -> (Facts, Mode) {
        let uses_nexthops = desired.nexthops == NexthopMode::Objects;
        let facts = Facts { uses_nexthops, is_subscribed, ..Facts::default() };
        (facts, Mode::over(Keys::Everything, facts))
    }

    /// Returns the mode of a pass that shows everything and changes nothing.
    pub(crate) fn look() -> Mode {
        Mode { read: Read::All, ..Mode::over(Keys::Everything, Facts::default()) }
    }

    /// Returns the next wider mode. Conflicts that are read before a write still are.
    pub(crate) fn wider(self, facts: Facts) -> Mode {
        let wider = match self.keys {
            Keys::Everything => return self,
            Keys::Objects(part, _) if !facts.may_point_anew() => {
                Mode::over(Keys::Part(part), facts)
            }
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
            Keys::Objects(..) => facts.are_keys_alone,
            Keys::Part(_) | Keys::Nexthops(_) => false,
        };
        let is_everything = keys == Keys::Everything;
        let is_known = matches!(keys, Keys::Objects(..));
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

    /// Returns the part of the namespace with the keys, unless they are everything.
    pub(crate) fn part(&self) -> Option<&DirtyPart> {
        match self {
            Keys::Everything => None,
            Keys::Part(part) | Keys::Nexthops(part) | Keys::Objects(part, _) => Some(part),
        }
    }

    /// Returns the keys, if they are single objects'.
    pub(crate) fn objects(&self) -> Option<&SingleObjects> {
        match self {
            Keys::Objects(_, objects) => Some(objects),
            _ => None,
        }
    }

    /// Returns true if a location's records concern these keys. For single objects these are the
    /// records of their part.
    pub(crate) fn contains(&self, location: Location) -> bool {
        match self.part() {
            None => true,
            Some(_) if location == Location::Nexthops => matches!(self, Keys::Nexthops(_)),
            Some(part) => part.contains(location),
        }
    }

    /// Returns the desired objects on these keys.
    pub(crate) fn narrow<'a>(&self, desired: &'a Desired) -> Cow<'a, Desired> {
        match self {
            Keys::Everything => Cow::Borrowed(desired),
            Keys::Part(part) => Cow::Owned(part.narrow(desired)),
            Keys::Nexthops(part) => {
                let mut narrowed = part.narrow(desired);
                // Nexthop objects are managed if routes are.
                narrowed.routes.get_or_insert_default();
                Cow::Owned(narrowed)
            }
            Keys::Objects(_, SingleObjects { routes: keys, others, devices }) => {
                let mut narrowed = narrowed(desired, others, devices);
                if !keys.is_empty() {
                    narrowed.routes =
                        desired.routes.as_ref().map(|routes| routes.at(keys.iter().copied()));
                }
                Cow::Owned(narrowed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
