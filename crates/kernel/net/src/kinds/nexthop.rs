//! Nexthop objects (Linux 5.3): next hops stored apart from routes, under a number. Changing one
//! changes all routes that point at it.

use std::fmt;
use std::ops::RangeInclusive;

use super::route::render::Hop;
use super::{
    Action, Canonical, Carriers, Cleared, Collateral, Dependencies, Depths, Difference, Kind, Loss,
    NextHop, ObjectKind, Ordered, Render, Stage, Words, in_place, recreate, words_or_none,
};
use crate::devices::Devices;
use crate::kinds::{Located, Part, Place};
use crate::values::{Dev, Family};

/// An object of the kernel with a route's next hops, or a group of such objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Nexthop {
    /// The number (`NHA_ID`) by which routes point at it. 0 is not a valid one.
    pub id: u32,
    /// Its next hop, its members, or nothing.
    pub target: NexthopTarget,
    /// The writer's protocol (`nhm_protocol`). One of ours has the marker.
    pub protocol: u8,
    /// True if the kernel reports configuration that this model lacks, such as an encapsulation or
    /// a resilient group. Never set on a desired object, so the two never agree.
    pub unmodelled: bool,
}

/// The destination of a nexthop object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum NexthopTarget {
    /// One next hop, whose weight is ignored. The family is the gateway's. Without a gateway it is
    /// the routes': an IPv6 route takes no IPv4 object.
    One(Family, NextHop),
    /// Packets of this family are dropped without an answer (`NHA_BLACKHOLE`).
    Blackhole(Family),
    /// Several other objects, each by number with its weight, 1 to 256. The canonical order is by
    /// number, which makes no difference to the kernel's balancing.
    Group(Vec<(u32, u16)>),
}

impl NexthopTarget {
    pub(crate) fn is_group(&self) -> bool {
        matches!(self, NexthopTarget::Group(_))
    }
}

impl Nexthop {
    /// Makes a nexthop object without a protocol.
    pub fn new(id: u32, target: NexthopTarget) -> Nexthop {
        Nexthop { id, target, protocol: 0, unmodelled: false }
    }
}

setters! { impl Nexthop {
    with_target(target: NexthopTarget);
    with_protocol(protocol: u8);
    with_unmodelled(unmodelled: bool);
} }

impl Nexthop {
    /// Returns the numbers for our objects: the marker is the uppermost byte.
    ///
    /// The kernel assigns numbers from 1 up to callers that choose none, FRR's start below
    /// 1,800,000,000, and another trueup agent has another marker. Creates are exclusive in any
    /// case.
    pub fn ids(marker: u8) -> RangeInclusive<u32> {
        let first = u32::from(marker) << 24;
        // Some kernels never end a dump of the largest number (`rtm_dump_walk_nexthops`).
        first.max(1)..=first | 0x00ff_fffe
    }

    /// Returns the numbers of a group's members.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        let members = match &self.target {
            NexthopTarget::Group(members) => members.as_slice(),
            NexthopTarget::One(..) | NexthopTarget::Blackhole(_) => &[],
        };
        members.iter().map(|(id, _)| *id)
    }

    /// Returns the device of its next hop, if it has one.
    pub fn dev(&self) -> Option<Dev> {
        match &self.target {
            NexthopTarget::One(_, hop) => hop.dev,
            NexthopTarget::Blackhole(_) | NexthopTarget::Group(_) => None,
        }
    }

    /// Sorts the members of a group by number.
    #[must_use]
    pub fn canonical(mut self) -> Nexthop {
        if let NexthopTarget::Group(members) = &mut self.target {
            members.sort_unstable();
        }
        self
    }
}

impl Located for Nexthop {
    const PARTS: &'static [Part] = &[Part::NexthopObjects];

    fn place(&self) -> Place {
        Place::default().with_devices(self.devices())
    }
}

impl ObjectKind for Nexthop {
    type Key = u32;
    const KIND: Kind = Kind::Nexthop;
    const NAME: &'static str = "nexthop";
    const IS_DECLARED: bool = false;
    const MANAGED_WITH: Kind = Kind::Route;
    // An unobserved route or group may point at it.
    const DELETED_IF_COMPLETE: &'static [Kind] = &[Kind::Nexthop, Kind::Route];
    const MARKER_IS_SURE: bool = true;

    fn canonical_on(self, _devices: &Devices) -> Nexthop {
        self.canonical()
    }

    fn key(&self) -> u32 {
        self.id
    }

    fn compare(
        desired: Canonical<&Nexthop>,
        observed: Canonical<&Nexthop>,
        differ: &mut dyn FnMut(Difference),
    ) {
        // The kernel cannot change a group into a single next hop or back (`replace_nexthop`).
        let stays = desired.target.is_group() == observed.target.is_group();
        let way = if stays { in_place } else { recreate };
        way(desired.target == observed.target, "target", differ);
        let known = desired.unmodelled == observed.unmodelled;
        recreate(known, "attributes unknown here", differ);
    }

    fn protocol(&self) -> u8 {
        self.protocol
    }

    fn bearing(mut self, protocol: u8) -> Nexthop {
        self.protocol = protocol;
        self
    }

    fn devices(&self) -> Vec<Dev> {
        self.dev().into_iter().collect()
    }

    fn is_recorded(&self, owned: &()) -> bool {
        let () = owned;
        false
    }

    fn short_name(&self) -> String {
        self.id.to_string()
    }
}

impl Collateral for Nexthop {
    fn carriers(&self, of: &Carriers) -> Vec<Dev> {
        let members = self.members().filter_map(|id| of.nexthops.get(&id).copied());
        self.dev().into_iter().chain(members).collect()
    }

    fn losses(&self) -> &'static [Loss] {
        &[Loss::Delete, Loss::Down, Loss::Carrier]
    }

    /// A routing daemon makes such an object for each address, and uses few of them.
    fn only_names_device(&self, of: &Carriers) -> bool {
        let used = of.used_nexthops.as_ref();
        let is_unused = used.is_some_and(|used| !used.contains(&self.id));
        let NexthopTarget::One(_, hop) = &self.target else {
            return false;
        };
        is_unused && !self.unmodelled && hop.via.is_none()
    }
}

impl Ordered for Nexthop {
    fn stage(&self, action: Action, _anew: bool, _cleared: &Cleared) -> Stage {
        match action {
            Action::Create | Action::Update => Stage::Nexthops,
            Action::Delete => Stage::DropNexthops,
        }
    }

    /// Groups are created after their members, and deleted before them.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let group = i64::from(self.members().next().is_some());
        if stage == Stage::Nexthops { group } else { -group }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            // The routes and groups that point at it would be deleted along.
            needed.extend(before.leaving.get(&self.id).into_iter().flatten());
            return;
        }
        needed.extend(self.members().filter_map(|id| before.nexthops.get(&id)));
        if let NexthopTarget::One(_, hop) = &self.target {
            before.need_hop(hop, needed);
        }
    }

    fn provide(
        &self,
        action: Action,
        was: Option<&Nexthop>,
        at: u32,
        after: &mut Dependencies<'_>,
    ) {
        if action != Action::Create && !after.leaving.is_empty() {
            let members = was.unwrap_or(self).members();
            members.for_each(|id| after.leave(id, at));
        }
        if action != Action::Delete {
            after.nexthops.insert(self.id, at);
        }
    }
}

/// Writes the destination of a nexthop object, each word after a space.
struct TargetWords<'a>(&'a NexthopTarget, &'a Devices);

impl fmt::Display for TargetWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // `ip nexthop` takes only gateways of the object's family.
            NexthopTarget::One(family, hop) => {
                let family = hop.via.map_or(*family, Family::of);
                Hop(hop, family, self.1).fmt(f)
            }
            NexthopTarget::Blackhole(_) => f.write_str(" blackhole"),
            NexthopTarget::Group(members) => {
                members.iter().enumerate().try_for_each(|(at, member)| {
                    let lead = if at == 0 { " group " } else { "/" };
                    let (id, weight) = member;
                    write!(f, "{lead}{id},{weight}")
                })
            }
        }
    }
}

impl Render for Nexthop {
    const IP_OBJECT: &'static str = "nexthop";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Nexthop>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);

        write!(f, "id {}", self.id)?;
        if key {
            return Ok(());
        }
        write!(f, "{} proto {}", TargetWords(&self.target, devices), self.protocol)
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        match field {
            "target" => words_or_none(TargetWords(&self.target, devices)),
            _ => None,
        }
    }
}
