//! Turns indexed objects into authored ones, the reverse of `trueup_net::resolve`.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use trueup_net::{
    Address, Desired, Dev, IfName, Kinds, Link, LinkKind, Neighbour, NextHop, NextHops, Nexthop,
    NexthopMode, NexthopTarget, Observed, Route, RouteType, Rule,
};
use trueup_rtnl::DEFAULT_PROTOCOL;

use super::Authorable;

/// Error: a device is not in the namespace.
struct Nameless;

/// The links of a namespace, by index and by name, and our nexthop objects.
pub(crate) struct Names<'a> {
    by_index: BTreeMap<u32, &'a Link>,
    by_name: BTreeMap<IfName, u32>,
    nexthops: BTreeMap<u32, &'a Nexthop>,
    /// How routes are declared: with nexthop objects if one of our routes has one.
    pub(crate) shape: NexthopMode,
}

impl<'a> Names<'a> {
    pub(crate) fn new(observed: &'a Observed) -> Names<'a> {
        let links = &observed.links;
        let ours = observed.nexthops.iter().filter(|it| it.protocol == DEFAULT_PROTOCOL);
        let mut names = Names {
            by_index: links.iter().map(|link| (link.index, link)).collect(),
            by_name: links.iter().map(|link| (link.name, link.index)).collect(),
            nexthops: ours.map(|nexthop| (nexthop.id, nexthop)).collect(),
            shape: NexthopMode::Inline,
        };
        let mut routes = observed.routes.iter();
        if routes.any(|route| names.hops_of_object(route).is_some()) {
            names.shape = NexthopMode::Objects;
        }
        names
    }

    /// Returns the nexthop object of ours that one of our routes uses, or its members if it is a
    /// group.
    fn nexthops_of(&self, route: &Route) -> impl Iterator<Item = &'a Nexthop> {
        let object = match route.nexthops {
            NextHops::Object(id, _) if route.protocol == DEFAULT_PROTOCOL => self.nexthops.get(&id),
            _ => None,
        };
        let members = object.into_iter().flat_map(|object| object.members());
        let known = members.filter_map(|id| self.nexthops.get(&id));
        object.into_iter().chain(known).copied()
    }

    /// Returns the next hops that these objects stand for.
    fn hops_of_object(&self, route: &Route) -> Option<NextHops> {
        let object = self.nexthops_of(route).next()?;
        let hops = match &object.target {
            NexthopTarget::Group(members) => members
                .iter()
                .map(|(id, weight)| hop(self.nexthops.get(id)?, *weight))
                .collect::<Option<_>>()?,
            _ => vec![hop(object, 1)?],
        };
        Some(NextHops::Many(hops).canonical())
    }

    pub(crate) fn link(&self, index: u32) -> Option<&'a Link> {
        self.by_index.get(&index).copied()
    }

    fn name(&self, dev: Dev) -> Result<IfName, Nameless> {
        let link = dev.as_index().and_then(|index| self.link(index));
        link.map(|link| link.name).ok_or(Nameless)
    }
}

fn hop(nexthop: &Nexthop, weight: u16) -> Option<NextHop> {
    match &nexthop.target {
        NexthopTarget::One(_, hop) => Some(hop.clone().with_weight(weight)),
        _ => None,
    }
}

fn index(dev: Dev) -> Option<u32> {
    dev.as_index()
}

impl Authorable for Link {
    type Authored = Link<IfName>;

    /// Returns the authored link. A link on a device of another namespace has no kind, so that it
    /// must exist. Master, alias and group are left out if the link has none.
    fn authored(&self, names: &Names<'_>) -> Option<Link<IfName>> {
        let kind = self.kind.clone().and_then(|kind| authored_kind(kind, names));
        let mut link = self.clone();
        (link.index, link.kind) = (0, None);
        link.master = link.master.filter(Option::is_some);
        link.alias = link.alias.filter(|alias| !alias.is_empty());
        link.group = link.group.filter(|group| *group != 0);
        let mut link = link.try_map_dev(|dev| names.name(dev)).ok()?;
        link.kind = kind;
        Some(link)
    }

    fn declare(desired: Desired, all: Vec<Link<IfName>>) -> Desired {
        desired.with_links(all)
    }

    fn devices(&self, names: &Names<'_>) -> BTreeSet<u32> {
        let peer = match &self.kind {
            Some(LinkKind::Veth { peer: Some(peer), .. }) => names.by_name.get(peer).copied(),
            _ => None,
        };
        let parents = self.parents().filter_map(|dev| index(*dev));
        parents.chain(peer).chain([self.index]).collect()
    }
}

fn authored_kind(kind: LinkKind, names: &Names<'_>) -> Option<LinkKind<IfName>> {
    match kind.try_map_dev(|dev| names.name(dev)).ok()? {
        // A kernel without VLAN filtering reports it as off, and refuses the attribute.
        LinkKind::Bridge(mut bridge) => {
            bridge.vlan_filtering = bridge.vlan_filtering.filter(|on| *on);
            Some(LinkKind::Bridge(bridge))
        }
        LinkKind::Tun | LinkKind::Tap | LinkKind::Other(_) => None,
        kind => Some(kind),
    }
}

impl Authorable for Address {
    type Authored = Address<IfName>;

    fn authored(&self, names: &Names<'_>) -> Option<Address<IfName>> {
        let authored = self.clone().try_map_dev(|dev| names.name(dev)).ok()?;
        Some(authored.with_protocol(0).with_secondary(false))
    }

    fn is_authored(&self, unstored: Kinds) -> bool {
        !self.is_kernels_own(unstored)
    }

    fn declare(desired: Desired, all: Vec<Address<IfName>>) -> Desired {
        desired.with_addresses(all)
    }

    fn seen(&self, on: Observed, _names: &Names<'_>) -> Observed {
        on.with_addresses([self.clone()])
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        index(self.dev).into_iter().collect()
    }
}

impl Authorable for Neighbour {
    type Authored = Neighbour<IfName>;

    fn authored(&self, names: &Names<'_>) -> Option<Neighbour<IfName>> {
        let authored = self.clone().try_map_dev(|dev| names.name(dev)).ok()?;
        Some(authored.with_state(Default::default()).with_protocol(0))
    }

    fn is_authored(&self, _unstored: Kinds) -> bool {
        self.is_declared()
    }

    fn declare(desired: Desired, all: Vec<Neighbour<IfName>>) -> Desired {
        desired.with_neighbours(all)
    }

    fn seen(&self, on: Observed, _names: &Names<'_>) -> Observed {
        on.with_neighbours([self.clone()])
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        index(self.dev).into_iter().collect()
    }
}

impl Authorable for Route {
    type Authored = Route<IfName>;

    fn authored(&self, names: &Names<'_>) -> Option<Route<IfName>> {
        let mut route = self.clone();
        if let Some(hops) = names.hops_of_object(self) {
            route.nexthops = hops;
        }
        let authored = route.try_map_dev(|dev| names.name(dev)).ok()?;
        Some(authored.with_protocol(0))
    }

    /// Returns true unless the kernel made the route by itself: a connected or local route, a
    /// redirect, or a router advertisement.
    fn is_authored(&self, _unstored: Kinds) -> bool {
        const REDIRECT: u8 = 1;
        const KERNEL: u8 = 2;
        const RA: u8 = 9;
        let undeclarable = matches!(
            self.kind,
            RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast | RouteType::Other(_)
        );
        !undeclarable && !matches!(self.protocol, REDIRECT | KERNEL | RA)
    }

    fn declare(desired: Desired, all: Vec<Route<IfName>>) -> Desired {
        desired.with_routes(all)
    }

    fn seen(&self, on: Observed, names: &Names<'_>) -> Observed {
        on.with_nexthops(names.nexthops_of(self).cloned().collect::<Vec<_>>())
            .with_routes([self.clone()])
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        let devices = self.nexthops.devices();
        devices.filter_map(|dev| index(*dev)).collect()
    }
}

impl Authorable for Rule {
    type Authored = Rule;

    fn authored(&self, _names: &Names<'_>) -> Option<Rule> {
        Some(self.clone().with_protocol(0))
    }

    /// Returns true except for the three rules of every namespace, and the one that comes with the
    /// first VRF. Kernels before 4.17 do not mark them.
    fn is_authored(&self, _unstored: Kinds) -> bool {
        const KERNEL: u8 = 2;
        let is_unmarked = self.protocol == 0 && matches!(self.priority, 0 | 32766 | 32767);
        self.protocol != KERNEL && !is_unmarked
    }

    fn declare(desired: Desired, all: Vec<Rule>) -> Desired {
        desired.with_rules(all)
    }

    fn seen(&self, on: Observed, _names: &Names<'_>) -> Observed {
        on.with_rules([self.clone()])
    }
}

/// A file declares no nexthop objects. It declares whether routes have them.
impl Authorable for Nexthop {
    type Authored = Infallible;

    fn authored(&self, _names: &Names<'_>) -> Option<Infallible> {
        None
    }

    fn is_authored(&self, _unstored: Kinds) -> bool {
        false
    }

    fn declare(desired: Desired, _all: Vec<Infallible>) -> Desired {
        desired
    }
}
