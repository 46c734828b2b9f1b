//! A fingerprint of a desired state, to recognise it in the next pass.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::Revision;
use trueup_net::{Desired, Kind, ObjectKind as _, OfKind, Routes, Rule, each_kind};
use trueup_reconcile::OpKey;

use crate::{Options, key};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DesiredFingerprint {
    /// All objects except routes.
    lists: Desired,
    routes: Option<Revision>,
}

impl DesiredFingerprint {
    pub(super) fn of(desired: &Desired) -> DesiredFingerprint {
        let mut lists = Desired::default().with_adopt(desired.adopt.clone());
        each_kind!(K => if K::KIND != Kind::Route {
            let list = OfKind::<K>::of_kind(desired);
            OfKind::<K>::of_kind_mut(&mut lists).clone_from(list);
        });
        DesiredFingerprint { lists, routes: desired.routes.as_ref().map(Routes::revision) }
    }

    /// Updates to a desired state, which often differs only in its routes.
    pub(super) fn follow(&mut self, desired: &Desired) {
        if self.has_lists(desired) {
            self.routes = desired.routes.as_ref().map(Routes::revision);
        } else {
            *self = DesiredFingerprint::of(desired);
        }
    }

    /// Updates to a desired state. Returns the keys of the changed objects, or `None` if the
    /// changed routes are not known one by one.
    pub(crate) fn changed_keys(
        &mut self,
        desired: &Desired,
        options: &Options,
    ) -> Option<Vec<OpKey>> {
        let routes = match (self.routes, &desired.routes) {
            (None, None) => Some(BTreeSet::new()),
            (Some(known), Some(routes)) => routes.changed_since(known),
            (Some(_), None) | (None, Some(_)) => None,
        };
        let mut changed: Option<Vec<OpKey>> =
            routes.map(|keys| keys.iter().map(key::route).collect());
        if let Some(changed) = &mut changed
            && !self.has_lists(desired)
        {
            let known = &self.lists;
            changed.extend(differing(&known.links, &desired.links, |it| key::link(it.name)));
            changed.extend(differing(&known.addresses, &desired.addresses, |it| {
                key::address(&it.canonical_key())
            }));
            changed.extend(differing(&known.neighbours, &desired.neighbours, |it| {
                key::neighbour(&it.canonical_key())
            }));
            changed.extend(differing(&known.rules, &desired.rules, |rule: &Rule| {
                key::rule(rule, options)
            }));
        }
        self.follow(desired);
        changed
    }

    pub(super) fn is_same(&self, desired: &Desired) -> bool {
        self.routes == desired.routes.as_ref().map(Routes::revision) && self.has_lists(desired)
    }

    /// Returns true if a desired state, except its routes, is the same.
    pub(super) fn is_same_but_routes(&self, desired: &Desired) -> bool {
        self.has_lists(desired) && self.routes.is_some() == desired.routes.is_some()
    }

    fn has_lists(&self, desired: &Desired) -> bool {
        let mut same = self.lists.adopt == desired.adopt;
        each_kind!(K => if K::KIND != Kind::Route {
            same &= OfKind::<K>::of_kind(&self.lists) == OfKind::<K>::of_kind(desired);
        });
        same
    }
}

/// Returns the keys of items that differ, or are in only one of the lists.
fn differing<T: PartialEq>(
    known: &Option<Vec<T>>,
    desired: &Option<Vec<T>>,
    key: impl Fn(&T) -> OpKey,
) -> Vec<OpKey> {
    let before: BTreeMap<OpKey, &T> = known.iter().flatten().map(|it| (key(it), it)).collect();
    let now: BTreeMap<OpKey, &T> = desired.iter().flatten().map(|it| (key(it), it)).collect();
    let keys: BTreeSet<OpKey> = before.keys().chain(now.keys()).copied().collect();
    keys.into_iter().filter(|key| before.get(key) != now.get(key)).collect()
}
