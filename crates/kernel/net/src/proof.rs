//! Decides if an object is ours: by its marker or the ledger, within the domain.

use std::collections::BTreeSet;

use crate::devices::Devices;
use crate::domain::Domain;
use crate::kinds::{Kinds, Link, Object, ObjectKey, ObjectKind, Part, Place};
use crate::ownership::{Owned, Ownership, Policy};
use crate::values::{Dev, IfName};
use crate::with_object;

/// Returns the proof that an observed object is ours to change, or `None`. Plans use the same
/// decision. `links` must be the observed links.
pub fn proof(object: &Object, links: &[Link], owned: &Owned, policy: &Policy) -> Option<Ownership> {
    let domain = &DomainDevices::of(&policy.domain, links, owned);
    let proof = Proof { policy, owned, domain, managed: Kinds::NONE };
    with_object!(object, object: K => {
        let ours = proof.is_ours(object) || proof.is_overridden(object);
        let by_marker = proof.bears_marker::<K>(object.protocol());
        ours.then_some(if by_marker { Ownership::Marker } else { Ownership::Ledger })
    })
}

/// The facts that prove objects to be ours: the marker, and the ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) owned: &'a Owned,
    /// Outside of it nothing is ours.
    pub(crate) domain: &'a DomainDevices<'a>,
    /// The managed kinds.
    pub(crate) managed: Kinds,
}

impl<'a> Proof<'a> {
    /// Returns true if an observed object is ours to delete: by its marker if that counts, else by
    /// the ledger.
    pub(crate) fn is_ours<K: ObjectKind>(&self, object: &K) -> bool {
        object.can_be_ours()
            && self.domain.contains(object)
            && (self.bears_marker::<K>(object.protocol())
                || object.is_recorded(K::owned_in(self.owned)) && !self.is_overridden(object))
    }

    /// Returns true if an observed link is ours to change: made by us, or overridden.
    pub(crate) fn may_change(&self, link: &Link) -> bool {
        self.is_ours(link) || self.is_overridden(link)
    }

    /// Returns true if it was another writer's and is to be so again, instead of being deleted.
    fn is_overridden<K: ObjectKind>(&self, object: &K) -> bool {
        !K::OVERRIDDEN_CAN_GO
            && self.former(&object.object_key()).is_some()
            && self.domain.contains(object)
    }

    /// Returns true if an object may be deleted along with another: it is ours, and of a managed
    /// kind.
    pub(crate) fn may_go<K: ObjectKind>(&self, object: &K) -> bool {
        self.managed.contains(K::KIND) && self.is_ours(object)
    }

    /// Returns true if the domain allows a foreign object to be deleted along with one of ours.
    pub(crate) fn may_go_along<K: ObjectKind>(&self, object: &K) -> bool {
        K::BEARS_PROTOCOL && self.policy.domain.may_go_along.contains(&object.protocol())
    }

    /// Returns true if a protocol is our marker on objects of a kind.
    pub(crate) fn bears_marker<K: ObjectKind>(&self, protocol: u8) -> bool {
        let counts = K::MARKER_IS_SURE || !self.policy.by_ledger.contains(K::KIND);
        K::BEARS_PROTOCOL && counts && protocol == self.policy.marker
    }

    /// Returns the object as it was before we overrode it, or `None`.
    pub(crate) fn former(&self, key: &ObjectKey) -> Option<&'a Object> {
        self.owned.former.get(key)
    }
}

/// Returns true if an overridden object can be restored: the model holds all of it, and `is_there`
/// returns true for its devices.
pub(crate) fn can_be_restored(former: &Object, is_there: impl Fn(Dev) -> bool) -> bool {
    let is_known = !matches!(former, Object::Route(route) if route.unmodelled);
    is_known && former.devices().into_iter().all(is_there)
}

/// A domain, with the existing and the planned devices.
#[derive(Clone, Debug)]
pub(crate) struct DomainDevices<'a> {
    domain: &'a Domain,
    is_limited: bool,
    names: BTreeSet<IfName>,
    devices: BTreeSet<Dev>,
}

impl<'a> DomainDevices<'a> {
    pub(crate) fn of(domain: &'a Domain, links: &[Link], owned: &Owned) -> DomainDevices<'a> {
        let mut devices = DomainDevices {
            domain,
            is_limited: domain.is_limited(),
            names: BTreeSet::new(),
            devices: BTreeSet::new(),
        };
        if Part::Interfaces.is_given(domain) {
            for link in links {
                let is_created = owned.links.contains(&link.index);
                devices.add(Dev::index(link.index), link.name, is_created);
            }
        }
        devices
    }

    /// Adds the devices that do not exist: those that a plan creates, and missing ones.
    pub(crate) fn with_new(mut self, devices: &Devices) -> Self {
        if Part::Interfaces.is_given(self.domain) {
            let planned = devices.planned();
            planned.for_each(|(dev, name)| self.add(dev, *name, true));
            let missing = devices.missing();
            missing.for_each(|(dev, name)| self.add(dev, *name, false));
        }
        self
    }

    fn add(&mut self, dev: Dev, name: IfName, is_created: bool) {
        if self.domain.created_interfaces && is_created
            || self.domain.interfaces.iter().any(|pattern| pattern.matches(&name))
        {
            self.names.insert(name);
            self.devices.insert(dev);
        }
    }

    /// Returns true if an object is in the domain.
    pub(crate) fn contains<K: ObjectKind>(&self, object: &K) -> bool {
        !self.is_limited || self.has_place::<K>(&object.place())
    }

    /// Returns true if a place is in the domain, which is limited.
    pub(crate) fn has_place<K: ObjectKind>(&self, place: &Place) -> bool {
        let given = K::PARTS.iter().filter(|part| part.is_given(self.domain));
        let mut answers = given.filter_map(|part| self.answer(*part, place)).peekable();
        let is_asked = answers.peek().is_some();
        (is_asked || self.domain.has_all_desired::<K>()) && answers.all(|is_inside| is_inside)
    }

    /// Returns true if a given part allows the place, false if it forbids it, and `None` if it does
    /// not apply to it.
    fn answer(&self, part: Part, place: &Place) -> Option<bool> {
        let domain = self.domain;
        match part {
            Part::Interfaces => match place.link {
                Some(link) => Some(self.names.contains(&link)),
                None if place.devices.is_empty() => None,
                None => Some(place.devices.iter().all(|dev| self.devices.contains(dev))),
            },
            Part::Tables => {
                place.table.map(|table| domain.tables.iter().any(|all| all.contains(&table)))
            }
            Part::Prefixes => {
                place.prefix.map(|of| domain.prefixes.iter().any(|all| all.covers(of)))
            }
            Part::RulePriorities => place
                .rule_priority
                .map(|of| domain.rule_priorities.iter().any(|all| all.contains(&of))),
            Part::NexthopObjects => Some(true),
        }
    }
}
