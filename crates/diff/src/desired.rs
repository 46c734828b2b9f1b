//! What is declared, what was observed, and what is ours: the three inputs of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{
    Address, AddressKey, ForwardingEntry, IfName, Item, Kind, Kinds, Link, LinkStatus, Neighbour,
    NeighbourKey, Nexthop, Protocols, Route, RouteKey, Rule,
};
use crate::plan::{Object, ObjectKey};
use crate::routes::NexthopTable;
use crate::routes::Routes;

/// What is declared, by name. A kind that is `None` is unmanaged; an empty list means "none of
/// ours".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Links.
    pub links: Option<Vec<Link<IfName>>>,
    /// Addresses.
    pub addresses: Option<Vec<Address<IfName>>>,
    /// Neighbours.
    pub neighbours: Option<Vec<Neighbour<IfName>>>,
    /// Routes.
    pub routes: Option<Routes>,
    /// Rules.
    pub rules: Option<Vec<Rule>>,
    /// How the kernel is told where routes lead.
    pub nexthops: NexthopMode,
    /// The objects but routes that become ours if they are there already as desired, each by its kind and its position in the
    /// list of that kind. Of routes: [`Routes::adopt`].
    pub adopt: BTreeSet<(Kind, usize)>,
}

/// How the kernel is told where routes lead. Whichever it is, the routes are the same; objects cost the kernel less, and one
/// of them is changed at once for all routes that point at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NexthopMode {
    /// The next hops are written out in each route.
    #[default]
    Inline,
    /// Routes point at nexthop objects (Linux 5.3), which are ours, where a gateway and a device are given for each of their
    /// next hops. All others are written out: straight out of a device, a device left open, an IPv6 source prefix, the same
    /// next hop twice, a weight of 256.
    ///
    /// The kernel deletes such an object, and with it the routes that point at it, as soon as its device goes down or loses
    /// its carrier, and makes none until it has one.
    Objects,
    /// The same, where the routes are a part of those for which it has been [found](crate::assigned) which objects there are
    /// to be.
    Assigned(Arc<NexthopTable>),
}

impl NexthopMode {
    /// The objects, where it has been found which there are to be.
    pub fn objects(&self) -> Option<&NexthopTable> {
        match self {
            NexthopMode::Assigned(objects) => Some(objects),
            NexthopMode::Inline | NexthopMode::Objects => None,
        }
    }
}

impl Desired {
    /// The kinds on which there is an opinion.
    pub fn managed(&self) -> Kinds {
        let managed = |kind: &Kind| match kind {
            Kind::Link => self.links.is_some(),
            Kind::Address => self.addresses.is_some(),
            Kind::Neighbour => self.neighbours.is_some(),
            Kind::Route => self.routes.is_some(),
            Kind::Rule => self.rules.is_some(),
            // What is no longer pointed at goes, whatever the shape is by now.
            Kind::Nexthop => self.routes.is_some(),
        };
        Kind::ALL.into_iter().filter(managed).collect()
    }
}

/// What the kernel reported, in canonical form and keyed by interface index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Every link of the namespace: names resolve against them.
    pub links: Vec<Link>,
    /// The status of the links, by index. One that is not here counts as running.
    pub link_status: BTreeMap<u32, LinkStatus>,
    /// Addresses.
    pub addresses: Vec<Address>,
    /// Neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Routes: all that bear our marker; of foreign ones at least those on a desired key.
    pub routes: Vec<Route>,
    /// Rules.
    pub rules: Vec<Rule>,
    /// Nexthop objects: all that bear our marker; of foreign ones at least those with a number of
    /// ours ([`Nexthop::ids`]), groups that lead to one, and those that lead out of a link that the
    /// plan touches.
    pub nexthops: Vec<Nexthop>,
    /// Forwarding entries on links that the plan touches.
    pub forwarding: Vec<ForwardingEntry>,
    /// The kinds of which every object in question is here. Of any other kind nothing is deleted.
    pub complete: Kinds,
}

/// How objects are told to be ours, and what is done where they are not.
///
/// A bare marker is a policy as well: one that goes by the marker, adopts nothing and takes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The protocol that our objects bear.
    pub marker: u8,
    /// The kinds of which the marker proves nothing: only what is in [`Owned`] is ours.
    pub by_ledger: Kinds,
    /// The kinds on whose objects this kernel does not store a protocol: it reports 0.
    pub unstored: Kinds,
    /// Whether all objects that are there as desired, and are foreign, become ours.
    pub adopt: bool,
    /// The protocols of other agents whose objects may become ours. What bears none of these and
    /// none of [`Protocols::UNMARKED`] is another agent's, and does not.
    pub adopt_protocols: Protocols,
    /// Whether foreign objects on desired keys are replaced.
    pub take: bool,
}

impl From<u8> for Policy {
    fn from(marker: u8) -> Policy {
        Policy {
            marker,
            by_ledger: Kinds::NONE,
            unstored: Kinds::NONE,
            adopt: false,
            adopt_protocols: Protocols::NONE,
            take: false,
        }
    }
}

/// The ledger: what is ours by our own record. Each object with the protocol that it bore when it became ours; one that bears
/// another by now has been rewritten by somebody else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// Links, by index: the name alone would match a stranger's after ours is gone.
    pub links: BTreeSet<u32>,
    /// Addresses.
    pub addresses: BTreeMap<AddressKey, u8>,
    /// Neighbours.
    pub neighbours: BTreeMap<NeighbourKey, u8>,
    /// Routes.
    pub routes: BTreeMap<RouteKey, u8>,
    /// Rules, by their keys, which have the protocol in them.
    pub rules: BTreeSet<Rule>,
    /// What stood on keys before we took them: it is put back once we no longer desire the key. A link that is here is ours to
    /// change, and never to delete.
    pub former: BTreeMap<ObjectKey, Object>,
    /// What stood on keys before we took them, where we have deleted ours to put it back, and nothing is there yet. Not links.
    pub returning: BTreeMap<ObjectKey, Object>,
}

/// What makes an observed object ours to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvenBy {
    /// The marker that it bears.
    Marker,
    /// Our own record. A link that was taken from others is ours to change, and not to delete.
    Ledger,
}

/// Whether an observed object is ours to change, and by what: the very judgement that a plan is made by.
pub fn proof(object: &Object, owned: &Owned, policy: impl Into<Policy>) -> Option<ProvenBy> {
    let proof = Proof {
        policy: policy.into(),
        owned,
        managed: Kinds::NONE,
    };
    let (ours, protocol) = match object {
        Object::Link(link) => return proof.may_change(link).then_some(ProvenBy::Ledger),
        Object::Address(address) => (proof.address(address), address.protocol),
        Object::Neighbour(neighbour) => {
            let ours = neighbour.is_declared() && proof.neighbour(neighbour);
            (ours, neighbour.protocol)
        }
        Object::Route(route) => (proof.route(route), route.protocol),
        Object::Rule(rule) => (proof.rule(rule), rule.protocol),
        Object::Nexthop(nexthop) => (proof.nexthop(nexthop), nexthop.protocol),
    };
    let by = match proof.bears_marker(object.kind(), protocol) {
        true => ProvenBy::Marker,
        false => ProvenBy::Ledger,
    };
    ours.then_some(by)
}

/// What proves an object to be ours: the marker that it bears, and the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    pub(crate) policy: Policy,
    pub(crate) owned: &'a Owned,
    /// The kinds on which there is an opinion.
    pub(crate) managed: Kinds,
}

impl<'a> Proof<'a> {
    /// Whether an object may go along with another that goes: it is ours, and of a kind on which
    /// there is an opinion.
    pub(crate) fn may_go(&self, kind: Kind, ours: bool) -> bool {
        ours && self.managed.contains(kind)
    }

    /// Ours to delete.
    pub(crate) fn link(&self, link: &Link) -> bool {
        link.index != 0 && self.owned.links.contains(&link.index) && !self.is_taken(link)
    }

    /// Ours to change: made by us, or taken.
    pub(crate) fn may_change(&self, link: &Link) -> bool {
        self.link(link) || self.is_taken(link)
    }

    fn is_taken(&self, link: &Link) -> bool {
        self.former(&ObjectKey::Link(link.name)).is_some()
    }

    pub(crate) fn address(&self, address: &Address) -> bool {
        self.proven(
            address,
            Kind::Address,
            address.protocol,
            &self.owned.addresses,
        )
    }

    pub(crate) fn neighbour(&self, neighbour: &Neighbour) -> bool {
        let owned = &self.owned.neighbours;
        self.proven(neighbour, Kind::Neighbour, neighbour.protocol, owned)
    }

    pub(crate) fn route(&self, route: &Route) -> bool {
        self.proven(route, Kind::Route, route.protocol, &self.owned.routes)
    }

    pub(crate) fn rule(&self, rule: &Rule) -> bool {
        let by_ledger = !self.owned.rules.is_empty() && self.owned.rules.contains(&rule.key());
        !rule.unmodelled && (self.bears_marker(Kind::Rule, rule.protocol) || by_ledger)
    }

    /// Always by the marker: every kernel that has nexthop objects keeps it.
    pub(crate) fn nexthop(&self, nexthop: &Nexthop) -> bool {
        self.bears_marker(Kind::Nexthop, nexthop.protocol)
    }

    /// By the marker, where it counts; else by the ledger. Another's marker on it means that another has written it since.
    fn proven<T: Item>(
        &self,
        item: &T,
        kind: Kind,
        protocol: u8,
        owned: &BTreeMap<T::Key, u8>,
    ) -> bool {
        self.bears_marker(kind, protocol)
            || !owned.is_empty() && owned.get(&item.key()) == Some(&protocol)
    }

    pub(crate) fn bears_marker(&self, kind: Kind, protocol: u8) -> bool {
        let counts = kind == Kind::Nexthop || !self.policy.by_ledger.contains(kind);
        counts && protocol == self.policy.marker
    }

    /// What stood on a key before we took it.
    pub(crate) fn former(&self, key: &ObjectKey) -> Option<&'a Object> {
        self.owned.former.get(key)
    }
}
