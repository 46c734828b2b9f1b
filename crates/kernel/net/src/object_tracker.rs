//! [`ObjectTracker`] remembers the kernel's state of desired addresses, neighbours and rules from
//! one pass to the next, as [`Tracker`](crate::internal::Tracker) does for routes.
//!
//! After a pass over everything the kernel is as desired, but for the objects that it left undone.
//! From then on each collection logs its own changes, and the monitor reports changes in the
//! kernel. So a plan for the changed keys costs the number of changes, for any number of objects.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::Revision;

use crate::collection::{Collection, Keyed as _};
use crate::desired::{Desired, NexthopMode};
use crate::devices::{Devices, Names};
use crate::key_states::KeyStates;
use crate::kinds::{
    Authored, Kind, Kinds, LostRoutes, Object, ObjectKey, ObjectKind as _, OfKind, Rule, RuleAction,
};
use crate::ownership::Policy;
use crate::routes::Routes;
use crate::{each_kind, with_object};

/// The most rules of one priority that a plan for one of them covers.
const COMPANIONS: usize = 256;

/// The kernel's state of desired objects by key, and the revisions of the collections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectTracker {
    /// The revisions of the tracked kinds.
    revisions: BTreeMap<Kind, Revision>,
    /// The keys on which the kernel may differ from the desired state.
    pub states: KeyStates<ObjectKey, Object>,
    /// The keys on which another writer has an object. Only a read shows what is there.
    foreign: BTreeSet<ObjectKey>,
}

/// The use of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The object is ours, and a plan for its key needs no read.
    Known,
    /// The object is another writer's, and not on a key of ours.
    Beside,
    /// Only a read shows what is to be done.
    Unknown,
}

impl ObjectTracker {
    /// The kinds that can be tracked.
    pub const KINDS: [Kind; 3] = [Kind::Address, Kind::Neighbour, Kind::Rule];

    /// Records that a pass over everything found the objects of these kinds as desired, if they
    /// are managed and can be tracked.
    pub fn in_sync(desired: &Desired, kinds: Kinds) -> ObjectTracker {
        let mut tracker = ObjectTracker::default();
        each_kind!(K => if kinds.contains(K::KIND) && ObjectTracker::KINDS.contains(&K::KIND) {
            let revision = OfKind::<K>::of_kind(desired).revision();
            tracker.revisions.extend(revision.map(|revision| (K::KIND, revision)));
        });
        tracker
    }

    /// Returns true if a kind is tracked.
    pub fn tracks(&self, kind: Kind) -> bool {
        self.revisions.contains_key(&kind)
    }

    /// No longer tracks a kind.
    pub fn forget(&mut self, kind: Kind) {
        if self.revisions.remove(&kind).is_some() {
            self.states.mark_all_in_sync(|key| key.kind() == kind);
            self.foreign.retain(|key| key.kind() != kind);
        }
    }

    /// Records the keys of other writers' objects, in the place of those for which `was_read`
    /// returns true.
    pub fn set_foreign(
        &mut self,
        was_read: impl Fn(&ObjectKey) -> bool,
        foreign: impl IntoIterator<Item = ObjectKey>,
    ) {
        self.foreign.retain(|key| !was_read(key));
        let tracked = foreign.into_iter().filter(|key| self.revisions.contains_key(&key.kind()));
        self.foreign.extend(tracked);
    }

    /// Follows the changes of the desired objects since the last call. A kind with too many, or on
    /// an unknown device, is no longer tracked.
    pub fn follow(&mut self, desired: &Desired, devices: &Devices, policy: &Policy) {
        let names = names(devices, policy);
        each_kind!(K => if let Some(at) = self.revisions.get(&K::KIND).copied() {
            let cell = OfKind::<K>::of_kind(desired);
            if cell.revision() != Some(at) {
                match cell.revision().zip(cell.changes(at, &names)) {
                    Some((revision, changes)) => {
                        for (key, former) in changes {
                            let there = || Some(former.into_iter().collect());
                            let _known = self.states.mark_changed(key, there);
                        }
                        self.revisions.insert(K::KIND, revision);
                    }
                    None => self.forget(K::KIND),
                }
            }
        });
    }

    /// Returns true if a plan for the key is possible without a read: the kind is tracked, its
    /// changes are announced, and no other writer's object is in the way.
    pub fn is_known(&self, key: &ObjectKey) -> bool {
        self.tracks(key.kind())
            && match key {
                // The kernel announces no proxy entries.
                ObjectKey::Neighbour(neighbour) => !neighbour.proxy && !self.foreign.contains(key),
                // A delete hits the first rule of its priority and protocol that has all selectors.
                ObjectKey::Rule(rule) => !self
                    .foreign
                    .range(ObjectKey::Rule(Box::new(first_of_priority(rule)))..)
                    .map_while(|key| match key {
                        ObjectKey::Rule(other) if is_beside(rule, other) => Some(other),
                        _ => None,
                    })
                    // An equal one may serve in the place of ours.
                    .any(|other| {
                        let ours = rule.as_ref().clone().with_protocol(other.protocol);
                        other.protocol == rule.protocol || **other == ours
                    }),
                // A lost route is shown by a read alone: no announcement says that it is back.
                key => {
                    let there = self.states.there(key).unwrap_or_default();
                    let has_lost = there.iter().any(|object| match object {
                        Object::Address(address) => address.lost != LostRoutes::None,
                        _ => false,
                    });
                    !has_lost && !self.foreign.contains(key)
                }
            }
    }

    /// Takes in an announcement: the object as the kernel holds it now, or `None` if it is deleted.
    pub fn announce(
        &mut self,
        key: &ObjectKey,
        object: Option<&Object>,
        desired: &Desired,
        devices: &Devices,
        policy: &Policy,
    ) -> Announced {
        if !self.tracks(key.kind()) {
            return Announced::Unknown;
        }
        let is_foreign = match (as_rule(key), object) {
            // The protocol is part of its key.
            (Some(rule), _) => rule.protocol != policy.marker,
            (None, Some(object)) => !is_ours(object, policy),
            (None, None) => self.foreign.contains(key),
        };
        if is_foreign {
            match object {
                Some(_) => drop(self.foreign.insert(key.clone())),
                None => drop(self.foreign.remove(key)),
            }
            let ours = match as_rule(key) {
                Some(rule) => ObjectKey::Rule(Box::new(rule.clone().with_protocol(policy.marker))),
                None => key.clone(),
            };
            // It may have replaced ours, served in its place, or been in its way.
            let is_beside = wanted(desired, &ours, devices, policy).is_none()
                && self.states.there(&ours).is_none();
            return if is_beside { Announced::Beside } else { Announced::Unknown };
        }
        let announced = if self.is_known(key) { Announced::Known } else { Announced::Unknown };
        let wanted = wanted(desired, key, devices, policy);
        let is_as_desired = match (wanted, object) {
            (None, None) => true,
            (Some(wanted), Some(object)) => {
                wanted.protocol() == object.protocol() && wanted.agrees_on(object, devices)
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        if is_as_desired && self.states.there(key).is_none() {
            return announced;
        }
        self.states.mark(key.clone(), object.cloned().into_iter().collect());
        announced
    }

    /// Returns the keys to plan for: the dirty ones, and those that a plan must see along with
    /// them. Returns `None` if they are too many.
    pub fn keys(&self, desired: &Desired, devices: &Devices) -> Option<BTreeSet<ObjectKey>> {
        let mut keys: BTreeSet<ObjectKey> = self.states.dirty_keys().cloned().collect();
        let rules: BTreeSet<&Rule> = keys.iter().filter_map(as_rule).collect();
        let mut companions = BTreeSet::new();
        for rule in rules {
            let first = first_of_priority(rule);
            let beside: Vec<&Rule> = desired
                .rules
                .iter()
                .flat_map(|rules| rules.keys_in(first.canonical_key()..))
                .take_while(|other| is_beside(rule, other))
                .take(COMPANIONS + 1)
                .collect();
            if beside.len() > COMPANIONS {
                return None;
            }
            let marked = beside.into_iter().map(|it| it.clone().with_protocol(rule.protocol));
            companions.extend(marked.map(|rule| ObjectKey::Rule(Box::new(rule))));
            // One that is to go may be parked.
            companions.extend(
                self.states
                    .parked_keys()
                    .filter(|key| as_rule(key).is_some_and(|other| is_beside(rule, other)))
                    .cloned(),
            );
        }
        keys.extend(companions);
        let has_devices = keys.iter().all(|key| match key {
            ObjectKey::Address(key) => devices.name(key.dev).is_some(),
            ObjectKey::Neighbour(key) => devices.name(key.dev).is_some(),
            _ => true,
        });
        has_devices.then_some(keys)
    }

    /// Returns the kernel's objects on a key.
    pub fn rows(
        &self,
        key: &ObjectKey,
        desired: &Desired,
        devices: &Devices,
        policy: &Policy,
    ) -> Vec<Object> {
        match self.states.there(key) {
            Some(there) => there.to_vec(),
            None => wanted(desired, key, devices, policy).into_iter().collect(),
        }
    }
}

/// Returns the desired objects with these keys, without routes.
pub fn narrowed(desired: &Desired, keys: &BTreeSet<ObjectKey>, devices: &Devices) -> Desired {
    let mut narrowed = Desired::default();
    each_kind!(K => if keys.iter().any(|key| key.kind() == K::KIND) {
        *OfKind::<K>::of_kind_mut(&mut narrowed) =
            OfKind::<K>::of_kind(desired).at_keys(keys, devices);
    });
    narrowed
}

/// Returns the desired object with a key, as it will be in the kernel.
fn wanted(
    desired: &Desired,
    key: &ObjectKey,
    devices: &Devices,
    policy: &Policy,
) -> Option<Object> {
    let mut found = None;
    each_kind!(K => if K::KIND == key.kind() {
        found = OfKind::<K>::of_kind(desired).wanted(key, &names(devices, policy));
    });
    found
}

fn names<'a>(devices: &'a Devices, policy: &Policy) -> Names<'a> {
    Names {
        devices,
        marker: policy.marker,
        rules_have_protocol: !policy.unstored.contains(Kind::Rule),
    }
}

/// Returns true if an object has our marker, and is not the kernel's own.
fn is_ours(object: &Object, policy: &Policy) -> bool {
    object.protocol() == policy.marker && with_object!(object, object => object.can_be_ours())
}

fn as_rule(key: &ObjectKey) -> Option<&Rule> {
    match key {
        ObjectKey::Rule(rule) => Some(rule),
        _ => None,
    }
}

/// Returns the least possible key of a rule's family and priority.
fn first_of_priority(rule: &Rule) -> Rule {
    Rule::new(rule.family, rule.priority, RuleAction::Lookup(0))
}

fn is_beside(rule: &Rule, other: &Rule) -> bool {
    (rule.family, rule.priority) == (other.family, other.priority)
}

/// One kind's field of [`Desired`].
trait Followed: Sized {
    /// Returns the revision. `None` if the kind is unmanaged, or followed elsewhere.
    fn revision(&self) -> Option<Revision> {
        None
    }

    /// Returns the changed keys since a revision, each with its former object as it was in the
    /// kernel. Returns `None` if they are not known, or if a device is not.
    fn changes(&self, at: Revision, names: &Names<'_>) -> Option<Vec<(ObjectKey, Option<Object>)>>;

    /// Returns the desired object with a key.
    fn wanted(&self, key: &ObjectKey, names: &Names<'_>) -> Option<Object>;

    /// Returns the objects with these keys.
    fn at_keys(&self, keys: &BTreeSet<ObjectKey>, devices: &Devices) -> Self;
}

impl<A: Authored> Followed for Option<Collection<A>> {
    fn revision(&self) -> Option<Revision> {
        self.as_ref().map(Collection::revision)
    }

    fn changes(&self, at: Revision, names: &Names<'_>) -> Option<Vec<(ObjectKey, Option<Object>)>> {
        let changes = self.as_ref()?.changes_since(at)?;
        changes
            .map(|(key, former)| {
                let former = match former {
                    Some(former) => Some(former.resolve(names).ok()?.into()),
                    None => None,
                };
                Some((A::object_key(key, names)?, former))
            })
            .collect()
    }

    fn wanted(&self, key: &ObjectKey, names: &Names<'_>) -> Option<Object> {
        let key = A::key_in(key, names.devices)?;
        Some(self.as_ref()?.get(&key)?.resolve(names).ok()?.into())
    }

    fn at_keys(&self, keys: &BTreeSet<ObjectKey>, devices: &Devices) -> Self {
        let keys: Vec<A::Key> = keys.iter().filter_map(|key| A::key_in(key, devices)).collect();
        self.as_ref().map(|all| all.at(&keys))
    }
}

/// Routes have a tracker of their own.
impl Followed for Option<Routes> {
    fn changes(&self, _: Revision, _: &Names<'_>) -> Option<Vec<(ObjectKey, Option<Object>)>> {
        None
    }

    fn wanted(&self, _: &ObjectKey, _: &Names<'_>) -> Option<Object> {
        None
    }

    fn at_keys(&self, _: &BTreeSet<ObjectKey>, _: &Devices) -> Self {
        None
    }
}

/// Nexthop objects follow from the routes.
impl Followed for NexthopMode {
    fn changes(&self, _: Revision, _: &Names<'_>) -> Option<Vec<(ObjectKey, Option<Object>)>> {
        None
    }

    fn wanted(&self, _: &ObjectKey, _: &Names<'_>) -> Option<Object> {
        None
    }

    fn at_keys(&self, _: &BTreeSet<ObjectKey>, _: &Devices) -> Self {
        NexthopMode::default()
    }
}

#[cfg(test)]
mod tests;
