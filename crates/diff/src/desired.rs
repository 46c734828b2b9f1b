//! What is declared, what was observed, and what is ours: the three inputs of a plan.

use std::collections::BTreeSet;

use crate::model::{
    Address, AddressKey, IfName, Kind, Kinds, Link, Neighbour, NeighbourKey, Route, Rule,
};

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
    pub routes: Option<Vec<Route<IfName>>>,
    /// Rules.
    pub rules: Option<Vec<Rule>>,
    /// The objects that become ours if they are there already as desired, each by its kind and its position in the list of
    /// that kind.
    pub adopt: BTreeSet<(Kind, usize)>,
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
        };
        Kind::ALL.into_iter().filter(managed).collect()
    }
}

/// What the kernel reported, in canonical form and keyed by interface index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Every link of the namespace: names resolve against them.
    pub links: Vec<Link>,
    /// Addresses.
    pub addresses: Vec<Address>,
    /// Neighbours.
    pub neighbours: Vec<Neighbour>,
    /// Routes: all that bear our marker; of foreign ones at least those on a desired key.
    pub routes: Vec<Route>,
    /// Rules.
    pub rules: Vec<Rule>,
    /// The kinds of which every object in question is here. Of any other kind nothing is deleted.
    pub complete: Kinds,
}

/// The ledger: keys of objects that bear no marker of ours in the kernel and are ours all the
/// same, because we created them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// Links, by index: the name alone would match a stranger's after ours is gone.
    pub links: BTreeSet<u32>,
    /// Addresses.
    pub addresses: BTreeSet<AddressKey>,
    /// Neighbours.
    pub neighbours: BTreeSet<NeighbourKey>,
}

/// What proves an object to be ours: the marker that it bears, and the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    pub(crate) marker: u8,
    pub(crate) owned: &'a Owned,
    /// The kinds on which there is an opinion.
    pub(crate) managed: Kinds,
}

impl Proof<'_> {
    /// Whether an object may go along with another that goes: it is ours, and of a kind on which
    /// there is an opinion.
    pub(crate) fn may_go(&self, kind: Kind, ours: bool) -> bool {
        ours && self.managed.contains(kind)
    }

    pub(crate) fn link(&self, link: &Link) -> bool {
        link.index != 0 && self.owned.links.contains(&link.index)
    }

    /// By the marker; where the kernel reports none, by the ledger. Another's marker on it means
    /// that another has written it since.
    pub(crate) fn address(&self, address: &Address) -> bool {
        use crate::model::Item as _;
        address.protocol == self.marker
            || (address.protocol == 0 && self.owned.addresses.contains(&address.key()))
    }

    pub(crate) fn neighbour(&self, neighbour: &Neighbour) -> bool {
        use crate::model::Item as _;
        neighbour.protocol == self.marker
            || (neighbour.protocol == 0 && self.owned.neighbours.contains(&neighbour.key()))
    }

    pub(crate) fn route(&self, route: &Route) -> bool {
        route.protocol == self.marker
    }

    pub(crate) fn rule(&self, rule: &Rule) -> bool {
        rule.protocol == self.marker && !rule.unmodelled
    }
}
