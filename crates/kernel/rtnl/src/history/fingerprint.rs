//! A fingerprint of a desired state, to recognise it in the next pass.
//!
//! A collection that logs its changes is compared at the cost of the changes since. Another one,
//! such as that of a file read again, is compared object by object.

use std::collections::BTreeSet;

use trueup_diff::Revision;
use trueup_net::{
    Address, Collection, Desired, IfName, Keyed, Kind, Link, Neighbour, NexthopMode,
    ObjectKind as _, OfKind, Routes, Rule, each_kind, per_kind,
};
use trueup_reconcile::OpKey;

use crate::{Options, key};

type FingerprintOf<K> = <<Desired as OfKind<K>>::Cell as Fingerprinted>::Fingerprint;

per_kind! {
    /// The fingerprints of the declared objects, kind by kind.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct DesiredFingerprint[FingerprintOf] {}
}

impl DesiredFingerprint {
    pub(super) fn of(desired: &Desired) -> DesiredFingerprint {
        let mut fingerprint = DesiredFingerprint::default();
        fingerprint.follow(desired);
        fingerprint
    }

    /// Updates to a desired state.
    pub(super) fn follow(&mut self, desired: &Desired) {
        each_kind!(K => {
            OfKind::<K>::of_kind(desired).note_in(OfKind::<K>::of_kind_mut(self));
        });
    }

    /// Updates to a desired state. Returns the keys of the changed objects, or `None` if the
    /// changed routes are not known one by one.
    pub(crate) fn changed_keys(
        &mut self,
        desired: &Desired,
        options: &Options,
    ) -> Option<Vec<OpKey>> {
        let mut changed = Some(Vec::new());
        each_kind!(K => {
            let keys = OfKind::<K>::of_kind(desired).changed(OfKind::<K>::of_kind(self), options);
            changed = changed.zip(keys).map(|(mut changed, keys)| {
                changed.extend(keys);
                changed
            });
        });
        self.follow(desired);
        changed
    }

    pub(super) fn is_same(&self, desired: &Desired) -> bool {
        self.is_same_but(desired, |_| false)
    }

    /// Returns true if a desired state is the same, except for changes of single objects of the
    /// kinds for which `is_left_out` returns true.
    pub(super) fn is_same_but(
        &self,
        desired: &Desired,
        is_left_out: impl Fn(Kind) -> bool,
    ) -> bool {
        let mut same = true;
        each_kind!(K => {
            let (now, known) = (OfKind::<K>::of_kind(desired), OfKind::<K>::of_kind(self));
            same = same
                && if is_left_out(K::KIND) {
                    now.is_managed_as(known)
                } else {
                    now.is_known_as(known)
                };
        });
        same
    }
}

/// One kind's field of [`Desired`].
pub(crate) trait Fingerprinted {
    type Fingerprint;

    /// Updates a fingerprint to this.
    fn note_in(&self, known: &mut Self::Fingerprint);

    /// Returns true if the objects are the same.
    fn is_known_as(&self, known: &Self::Fingerprint) -> bool;

    /// Returns true if the kind is managed as before, with whatever objects.
    fn is_managed_as(&self, known: &Self::Fingerprint) -> bool;

    /// Returns the keys of the changed objects, or `None` if they are not known one by one.
    fn changed(&self, known: &Self::Fingerprint, options: &Options) -> Option<Vec<OpKey>>;
}

/// The objects of a collection at a revision.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known<A: Keyed> {
    at: Revision,
    objects: Collection<A>,
}

impl<A: Keyed> Known<A> {
    /// Returns the keys of objects that differ.
    fn differing(&self, now: &Collection<A>) -> BTreeSet<A::Key> {
        let differs = |key: &A::Key| {
            self.objects.get(key) != now.get(key)
                || self.objects.adopted().contains(key) != now.adopted().contains(key)
        };
        match now.changed_since(self.at) {
            Some(mut keys) => {
                keys.retain(differs);
                keys
            }
            None => {
                self.objects.keys().chain(now.keys()).filter(|key| differs(key)).cloned().collect()
            }
        }
    }
}

impl<A: OperatedOn> Fingerprinted for Option<Collection<A>> {
    type Fingerprint = Option<Known<A>>;

    fn note_in(&self, known: &mut Option<Known<A>>) {
        match (self, known) {
            (Some(now), Some(known)) => {
                if let Some(keys) = now.changed_since(known.at) {
                    keys.iter().for_each(|key| known.objects.copy_from(now, key));
                } else if known.objects != *now {
                    known.objects = now.clone();
                }
                known.at = now.revision();
            }
            (Some(now), known) => {
                *known = Some(Known { at: now.revision(), objects: now.clone() });
            }
            (None, known) => *known = None,
        }
    }

    fn is_known_as(&self, known: &Option<Known<A>>) -> bool {
        match (self, known) {
            (Some(now), Some(known)) => {
                now.revision() == known.at || known.differing(now).is_empty()
            }
            (now, known) => now.is_none() && known.is_none(),
        }
    }

    fn is_managed_as(&self, known: &Option<Known<A>>) -> bool {
        self.is_some() == known.is_some()
    }

    fn changed(&self, known: &Option<Known<A>>, options: &Options) -> Option<Vec<OpKey>> {
        let keys = match (self, known) {
            (Some(now), Some(known)) => known.differing(now),
            (Some(objects), None) | (None, Some(Known { objects, .. })) => {
                objects.keys().cloned().collect()
            }
            (None, None) => BTreeSet::new(),
        };
        Some(keys.iter().map(|key| A::op_key(key, options)).collect())
    }
}

impl Fingerprinted for Option<Routes> {
    type Fingerprint = Option<Revision>;

    fn note_in(&self, known: &mut Option<Revision>) {
        *known = self.as_ref().map(Routes::revision);
    }

    fn is_known_as(&self, known: &Option<Revision>) -> bool {
        self.as_ref().map(Routes::revision) == *known
    }

    fn is_managed_as(&self, known: &Option<Revision>) -> bool {
        self.is_some() == known.is_some()
    }

    fn changed(&self, known: &Option<Revision>, _: &Options) -> Option<Vec<OpKey>> {
        match (self, known) {
            (None, None) => Some(Vec::new()),
            (Some(routes), Some(known)) => {
                Some(routes.changed_since(*known)?.iter().map(key::route).collect())
            }
            (Some(_), None) | (None, Some(_)) => None,
        }
    }
}

/// Its objects follow from the routes.
impl Fingerprinted for NexthopMode {
    type Fingerprint = NexthopMode;

    fn note_in(&self, known: &mut NexthopMode) {
        *known = *self;
    }

    fn is_known_as(&self, known: &NexthopMode) -> bool {
        self == known
    }

    fn is_managed_as(&self, known: &NexthopMode) -> bool {
        self == known
    }

    fn changed(&self, _: &NexthopMode, _: &Options) -> Option<Vec<OpKey>> {
        Some(Vec::new())
    }
}

/// An authored object that ops are about.
pub(crate) trait OperatedOn: Keyed {
    /// Returns the driver's key for an object's.
    fn op_key(key: &Self::Key, options: &Options) -> OpKey;
}

impl OperatedOn for Link<IfName> {
    fn op_key(key: &IfName, _: &Options) -> OpKey {
        key::link(*key)
    }
}

impl OperatedOn for Address<IfName> {
    fn op_key(key: &Self::Key, _: &Options) -> OpKey {
        key::address(key)
    }
}

impl OperatedOn for Neighbour<IfName> {
    fn op_key(key: &Self::Key, _: &Options) -> OpKey {
        key::neighbour(key)
    }
}

impl OperatedOn for Rule {
    fn op_key(key: &Rule, options: &Options) -> OpKey {
        key::rule(key, options)
    }
}
