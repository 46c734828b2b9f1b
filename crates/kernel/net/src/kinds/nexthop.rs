//! Nexthop objects (Linux 5.3): where routes lead, kept apart from them under a number, so that to
//! change one is to change all routes that point at it.

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

/// A nexthop object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Nexthop {
    /// Its number (`NHA_ID`), by which routes point at it. 0 is none.
    pub id: u32,
    /// Where it leads.
    pub target: NexthopTarget,
    /// Who installed it (`nhm_protocol`): for one of ours the marker.
    pub protocol: u8,
    /// The kernel reports configuration that this model does not hold, such as an encapsulation or
    /// a resilient group. Never set on a desired object, so that the two never agree.
    pub unmodelled: bool,
}

/// Where a nexthop object leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum NexthopTarget {
    /// To one next hop, whose weight says nothing. The family is that of the gateway; without one,
    /// that of the routes that it is for: an IPv6 route takes none of IPv4.
    One(Family, NextHop),
    /// Nowhere (`NHA_BLACKHOLE`).
    Blackhole(Family),
    /// To several others, each by its number and with its weight, 1 to 256. In canonical form in
    /// the order of the numbers: the kernel balances alike whatever the order.
    Group(Vec<(u32, u16)>),
}

impl NexthopTarget {
    pub(crate) fn is_group(&self) -> bool {
        matches!(self, NexthopTarget::Group(_))
    }
}

impl Nexthop {
    /// Makes a nexthop object.
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
    /// The numbers that objects of ours have: the marker is their uppermost byte.
    ///
    /// The kernel gives those who ask for none the numbers from 1 up, FRR's come from below
    /// 1,800,000,000, and another agent of our kind has another marker. Creates are exclusive all
    /// the same.
    pub fn ids(marker: u8) -> RangeInclusive<u32> {
        let first = u32::from(marker) << 24;
        // Some kernels never end a dump that shows the last number of all
        // (`rtm_dump_walk_nexthops`).
        first.max(1)..=first | 0x00ff_fffe
    }

    /// The numbers of the objects that a group leads to.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        let members = match &self.target {
            NexthopTarget::Group(members) => members.as_slice(),
            NexthopTarget::One(..) | NexthopTarget::Blackhole(_) => &[],
        };
        members.iter().map(|(id, _)| *id)
    }

    /// The device that it leads out of.
    pub fn dev(&self) -> Option<Dev> {
        match &self.target {
            NexthopTarget::One(_, hop) => hop.dev,
            NexthopTarget::Blackhole(_) | NexthopTarget::Group(_) => None,
        }
    }

    /// With the members of a group in the order of their numbers.
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
    // What is not known to be there may point at it.
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
        // The kernel makes no group of a single one, nor the other way round (`replace_nexthop`).
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

    /// Groups come after what they lead to, and go before it.
    fn rank(&self, stage: Stage, _depths: &Depths) -> i64 {
        let group = i64::from(self.members().next().is_some());
        if stage == Stage::Nexthops { group } else { -group }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action == Action::Delete {
            // What points at it would go along.
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

/// Where a nexthop object leads, each word after a space.
struct TargetWords<'a>(&'a NexthopTarget, &'a Devices);

impl fmt::Display for TargetWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A gateway of its own family: `ip nexthop` takes no other.
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
