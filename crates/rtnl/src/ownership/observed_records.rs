//! What was observed on the keys that a ledger has records of.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{Dev, IfName, Item as _, Kind, Kinds, Object, Observed};

use super::record::RecordKey;
use crate::location::link_names;

/// What was observed on the keys of records and open intents.
pub(super) struct ObservedRecords {
    pub(super) names: BTreeMap<u32, IfName>,
    objects: BTreeMap<RecordKey, Vec<Object>>,
    complete: Kinds,
}

impl ObservedRecords {
    /// `has` says whether a key has a record or an open intent; `keys` are all of these.
    pub(super) fn of<'a>(
        observed: &Observed,
        keys: impl Iterator<Item = &'a RecordKey>,
        has: impl Fn(&RecordKey) -> bool,
    ) -> ObservedRecords {
        let kinds: BTreeSet<Kind> = keys.map(RecordKey::kind).collect();
        let mut records = ObservedRecords {
            names: link_names(observed),
            objects: BTreeMap::new(),
            complete: observed.complete,
        };
        let mut note = |object: Object| {
            let name = |dev: Dev| records.names.get(&dev.as_index()?).copied();
            let key = RecordKey::of(&object, name);
            if let Some(key) = key.filter(&has) {
                records.objects.entry(key).or_default().push(object);
            }
        };
        for kind in kinds {
            match kind {
                Kind::Link => {
                    let links = observed.links.iter();
                    links.for_each(|link| note(link.clone().into()));
                }
                Kind::Address => {
                    let addresses = observed.addresses.iter();
                    addresses.for_each(|address| note(address.clone().into()));
                }
                Kind::Neighbour => {
                    let declared = observed.neighbours.iter().filter(|n| n.is_declared());
                    declared.for_each(|neighbour| note(neighbour.clone().into()));
                }
                // There can be a million, of which few have a record.
                Kind::Route => {
                    let routes = observed.routes.iter();
                    let known = routes.filter(|route| has(&RecordKey::Route(route.key())));
                    known.for_each(|route| note(route.clone().into()));
                }
                Kind::Rule => {
                    let rules = observed.rules.iter();
                    rules.for_each(|rule| note(rule.clone().into()));
                }
                // Always ours by the marker.
                Kind::Nexthop => {}
            }
        }
        records
    }

    /// The objects on a key.
    pub(super) fn on(&self, key: &RecordKey) -> &[Object] {
        self.objects.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether the interface that a key is, or is on, is there.
    pub(super) fn has_interface(&self, key: &RecordKey) -> bool {
        key.interface()
            .is_none_or(|(name, index)| self.names.get(&index) == Some(&name))
    }

    /// Whether all that could be on a key was read.
    pub(super) fn is_complete(&self, key: &RecordKey) -> bool {
        !self.has_interface(key) || self.complete.contains(key.kind())
    }
}
