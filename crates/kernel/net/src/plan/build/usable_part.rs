//! The part of an object with several next hops that can be made while some of their devices are
//! down. The kernel refuses the whole object because of a single one.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::{NextHop, NextHops, Nexthop, NexthopTarget, ObjectKind, Route};
use crate::observed::Observed;
use crate::op::Hold;
use crate::resolve::Resolved;
use crate::values::Dev;

/// The devices that no next hop can lead out of after the plan. Only looked up if there are several
/// next hops.
pub(super) struct DownDevices<'a> {
    desired: &'a Resolved,
    observed: &'a Observed,
    found: OnceCell<Found>,
}

struct Found {
    down: BTreeSet<Dev>,
    /// Devices among them that are up without a carrier: no nexthop object can be made on one.
    without_carrier: BTreeSet<Dev>,
    /// The devices of desired nexthop objects, by id.
    of_objects: BTreeMap<u32, Dev>,
}

impl<'a> DownDevices<'a> {
    pub(super) fn new(desired: &'a Resolved, observed: &'a Observed) -> DownDevices<'a> {
        DownDevices { desired, observed, found: OnceCell::new() }
    }

    fn find(&self) -> Found {
        let (desired, observed) = (self.desired, self.observed);
        let without_carrier = observed.links.iter().filter(|link| {
            let status = observed.link_status.get(&link.index);
            link.up == Some(true) && status.is_some_and(|status| status.carrier == Some(false))
        });
        let objects = desired.nexthops.iter().flatten();
        Found {
            down: observed.devices_down(desired.links.iter().flatten(), &desired.devices),
            without_carrier: without_carrier.map(|link| Dev::index(link.index)).collect(),
            of_objects: objects.filter_map(|nexthop| Some((nexthop.id, nexthop.dev()?))).collect(),
        }
    }

    fn is_down(&self, dev: Dev) -> bool {
        self.found.get_or_init(|| self.find()).down.contains(&dev)
    }

    /// Returns the device of a nexthop object, if it prevents the object.
    fn of_unusable_object(&self, id: u32) -> Option<Dev> {
        let found = self.found.get_or_init(|| self.find());
        let dev = found.of_objects.get(&id)?;
        let is_down = found.down.contains(dev) || found.without_carrier.contains(dev);
        is_down.then_some(*dev)
    }

    fn hold(&self, dev: Dev) -> Option<Hold> {
        self.desired.devices.name(dev).copied().map(Hold::NextHop)
    }
}

/// An object of which part may be made before the rest.
pub(super) trait UsablePart: ObjectKind {
    /// Returns that part, and the rest's reason to wait. `None` if all of the object can be made,
    /// or nothing.
    fn usable_part(&self, _down: &DownDevices<'_>) -> Option<(Self, Hold)> {
        None
    }
}

impl UsablePart for crate::kinds::Link {}
impl UsablePart for crate::kinds::Address {}
impl UsablePart for crate::kinds::Neighbour {}
impl UsablePart for crate::kinds::Rule {}

impl UsablePart for Route {
    fn usable_part(&self, down: &DownDevices<'_>) -> Option<(Route, Hold)> {
        let NextHops::Many(hops) = &self.nexthops else {
            return None;
        };
        let (usable, unusable): (Vec<NextHop>, Vec<_>) =
            hops.iter().cloned().partition(|hop| !hop.dev.is_some_and(|dev| down.is_down(dev)));
        let hold = down.hold(unusable.first()?.dev?)?;
        let part = Route { nexthops: NextHops::Many(usable).canonical(), ..self.clone() };
        (part.nexthops != NextHops::None).then_some((part, hold))
    }
}

impl UsablePart for Nexthop {
    fn usable_part(&self, down: &DownDevices<'_>) -> Option<(Nexthop, Hold)> {
        let NexthopTarget::Group(members) = &self.target else {
            return None;
        };
        let (usable, unusable): (Vec<(u32, u16)>, Vec<_>) =
            members.iter().partition(|(id, _)| down.of_unusable_object(*id).is_none());
        let hold = down.hold(down.of_unusable_object(unusable.first()?.0)?)?;
        if usable.is_empty() {
            return None;
        }
        Some((Nexthop { target: NexthopTarget::Group(usable), ..self.clone() }, hold))
    }
}
