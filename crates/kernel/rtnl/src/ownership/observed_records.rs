//! What was observed on the keys that a ledger has records of.

use std::collections::BTreeMap;

use trueup_net::{Dev, IfName, Kinds, Object, ObjectKind as _, Observed, OfKind, each_kind};

use super::record_key::{RecordKey, Recorded as _};
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
        let kinds: Kinds = keys.map(RecordKey::kind).collect();
        let mut records = ObservedRecords {
            names: link_names(observed),
            objects: BTreeMap::new(),
            complete: observed.complete,
        };
        let name = |dev: Dev| records.names.get(&dev.as_index()?).copied();
        each_kind!(K => if kinds.contains(K::KIND) && !K::MARKER_IS_SURE {
            let lasting = OfKind::<K>::of_kind(observed).iter().filter(|it| !it.is_transient());
            for object in lasting {
                let key = object.key_of_record(&name);
                // There can be a million, of which few have a record.
                if let Some(key) = key.filter(&has) {
                    let objects = records.objects.entry(key).or_default();
                    objects.push(object.clone().into());
                }
            }
        });
        records
    }

    /// The objects on a key.
    pub(super) fn on(&self, key: &RecordKey) -> &[Object] {
        self.objects.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether the interface that a key is, or is on, is there.
    pub(super) fn has_interface(&self, key: &RecordKey) -> bool {
        key.interface().is_none_or(|(name, index)| self.names.get(&index) == Some(&name))
    }

    /// Whether all that could be on a key was read.
    pub(super) fn is_complete(&self, key: &RecordKey) -> bool {
        !self.has_interface(key) || self.complete.contains(key.kind())
    }
}
