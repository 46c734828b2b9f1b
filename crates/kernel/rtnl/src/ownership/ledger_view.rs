//! The objects that are ours by the ledger: links, objects on which the kernel stores no marker,
//! adopted objects, and overridden ones. The records come from a [`Ledger`], and are compared here
//! with the observation.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{
    IfName, Kind, Kinds, Object, ObjectKind as _, Observed, OfKind, Owned, Policy, RouteKey,
    each_kind,
};
use trueup_reconcile::{Claim, Ledger, LedgerError};

use super::record::{Former, Record, Records, agrees, encode, entry, is_as_before};
use super::record_key::{Location, RecordKey, SourceKind as _, link_names, name_of};

/// The records of a ledger, with its open intents.
#[derive(Clone, Debug, Default)]
pub(crate) struct LedgerView {
    records: BTreeMap<RecordKey, Record>,
    open: Records,
}

/// The observation's answer to an intent.
enum Answer {
    Ours(Object),
    NotOurs,
    /// No object exists, and the former one is to be restored.
    Restoring(Former),
    /// The key was not observed.
    Unknown,
}

impl LedgerView {
    /// Reads the records of a pass's locations. Others stay as they are.
    ///
    /// # Errors
    ///
    /// If the ledger cannot be read, or contains a record that this version does not write.
    pub(crate) fn read(
        ledger: &dyn Ledger,
        contains: impl Fn(Location) -> bool,
    ) -> Result<LedgerView, LedgerError> {
        let mut view = LedgerView::default();
        for (key, record) in ledger.owned()? {
            let (key, record) = entry(&key, Some(&record))?;
            if contains(key.location()) {
                view.records.extend(record.map(|record| (key, record)));
            }
        }
        for (key, claim) in ledger.open_intents()? {
            let intended = match &claim {
                Claim::Ours(record) => Some(&record[..]),
                Claim::NotOurs => None,
            };
            let (key, intended) = entry(&key, intended)?;
            if contains(key.location()) {
                view.open.insert(key, intended);
            }
        }
        Ok(view)
    }

    /// Returns true if there is no record and no open intent.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.open.is_empty()
    }

    pub(crate) fn record(&self, key: &RecordKey) -> Option<&Record> {
        self.records.get(key)
    }

    /// Returns the keys of records and of open intents.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        let intended = self.open.keys().filter(|key| !self.records.contains_key(key));
        self.records.keys().chain(intended)
    }

    /// Returns the record that an open intent would leave.
    pub(crate) fn intent(&self, key: &RecordKey) -> Option<&Record> {
        self.open.get(key)?.as_ref()
    }

    fn observed(&self, observed: &Observed) -> ObservedRecords {
        ObservedRecords::of(observed, self.keys(), |key| {
            self.records.contains_key(key) || self.has_intent(key)
        })
    }

    pub(crate) fn has_intent(&self, key: &RecordKey) -> bool {
        self.open.contains_key(key)
    }

    /// Returns the routes without the marker, which a read by marker does not show.
    pub(crate) fn unmarked_routes(&self, marker: u8) -> BTreeSet<RouteKey> {
        self.records
            .values()
            .chain(self.open.values().flatten())
            .filter_map(|record| match &record.object {
                Object::Route(route) if route.protocol != marker => Some(route.key()),
                _ => None,
            })
            .collect()
    }

    /// Returns the key of a link of ours, by its name.
    pub(crate) fn link_named(&self, name: &IfName) -> Option<RecordKey> {
        self.records
            .keys()
            .find(|key| matches!(key, RecordKey::Link(link) if link.name == *name))
            .cloned()
    }

    /// Returns the kinds of missing objects of ours whose dumps silently lose rows while others
    /// write: routes (`inet6_dump_fib`, `fn_trie_dump_leaf`) and rules (`dump_rules`).
    pub(crate) fn missing(&self, observed: &Observed) -> Kinds {
        let mut expected = self
            .keys()
            .filter(|key| matches!(key.kind(), Kind::Route | Kind::Rule))
            .filter(|key| match self.open.get(*key) {
                Some(intended) => intended.is_some(),
                None => self.records.get(*key).is_some_and(|record| !record.is_restoring()),
            })
            .peekable();
        if expected.peek().is_none() {
            return Kinds::NONE;
        }
        let seen = self.observed(observed);
        expected
            .filter(|key| observed.complete.contains(key.kind()) && seen.on(key).is_empty())
            .map(RecordKey::kind)
            .collect()
    }

    /// Returns the observed objects that are ours.
    pub(crate) fn owned(&self, observed: &Observed) -> Owned {
        let mut owned = Owned::default();
        if self.records.is_empty() {
            return owned;
        }
        let seen = self.observed(observed);
        for (key, record) in &self.records {
            if !seen.has_interface(key) {
                continue;
            }
            let object = &record.object;
            let there = seen.on(key);
            let former = record.former.as_ref();
            if record.is_restoring() {
                owned.returning.extend(
                    former
                        .filter(|former| there.is_empty() && !former.is_elsewhere(&seen.names))
                        .map(|former| (object.key(), former.object.clone())),
                );
                continue;
            }
            // A link of another kind is another link, and an overridden one is not ours to delete.
            let is_link = key.kind() == Kind::Link;
            let is_current = !is_link || there.iter().any(|object| record.is_current(object));
            if is_current && !(is_link && record.former.is_some()) {
                key.own(object.protocol(), &mut owned);
            }
            owned.former.extend(
                former
                    .filter(|former| is_current && !former.is_elsewhere(&seen.names))
                    .map(|former| (object.key(), former.object.clone())),
            );
        }
        owned
    }

    /// Withdraws an intent of an op that did nothing. `missing` is true if the object did not exist
    /// before.
    pub(crate) fn withdraw(&mut self, key: &RecordKey, missing: bool) {
        let before =
            self.records.get(key).filter(|record| !missing || record.is_restoring()).cloned();
        if let Some(intended) = self.open.get_mut(key) {
            *intended = before;
        }
    }

    /// Closes the open intents that the observation answers, in this view only. `refused` lists
    /// keys that another writer had taken by the time of our write.
    pub(crate) fn close_intents(
        &mut self,
        observed: &Observed,
        policy: &Policy,
        refused: &BTreeSet<RecordKey>,
    ) -> Records {
        let mut closed = Records::new();
        if self.open.is_empty() {
            return closed;
        }
        let seen = self.observed(observed);
        for (key, intended) in std::mem::take(&mut self.open) {
            let answer = if refused.contains(&key) {
                Answer::NotOurs
            } else {
                self.answer(&key, intended.as_ref(), &seen, policy)
            };
            match answer {
                Answer::Unknown => drop(self.open.insert(key, intended)),
                Answer::NotOurs => drop(closed.insert(key, None)),
                Answer::Restoring(former) => {
                    closed.insert(key, Some(Record::restoring(&former)));
                }
                Answer::Ours(object) => {
                    let known = intended.as_ref().or_else(|| self.records.get(&key));
                    let former = known.and_then(|record| record.former.clone());
                    closed.insert(key, Some(Record { object, former }));
                }
            }
        }
        self.note(&closed);
        closed
    }

    /// Answers an intent by the objects on its key. `wanted` is the object that we were to have.
    /// Without it, the object was to be removed, and we may have had it before.
    fn answer(
        &self,
        key: &RecordKey,
        wanted: Option<&Record>,
        seen: &ObservedRecords,
        policy: &Policy,
    ) -> Answer {
        let before = self.record(key);
        let there = seen.on(key);
        if there.is_empty() {
            if !seen.is_complete(key) {
                return Answer::Unknown;
            }
            // An object that overrode another was deleted to recreate or restore it.
            let overridden = before.and_then(|record| record.former.as_ref());
            return match wanted.and_then(|record| record.former.as_ref()) {
                Some(former)
                    if wanted.is_some_and(Record::is_restoring) || overridden == Some(former) =>
                {
                    Answer::Restoring(former.clone())
                }
                _ => Answer::NotOurs,
            };
        }
        let known = wanted.into_iter().chain(before);
        let former: Vec<&Object> =
            known.clone().filter_map(|it| Some(&it.former.as_ref()?.object)).collect();
        // A former object proves nothing.
        let ours: Vec<&Object> =
            known.filter(|record| !record.is_restoring()).map(|record| &record.object).collect();
        let is_stored = !policy.unstored.contains(key.kind());
        there
            .iter()
            // An overridden object in its former state was restored, or never changed.
            .filter(|object| !former.iter().any(|former| is_as_before(former, object)))
            .find(|object| {
                let borne = object.protocol();
                let is_as_intended = ours.iter().any(|ours| agrees(ours, object));
                let was_borne = ours.iter().any(|ours| ours.protocol() == borne);
                let was_overridden = former.iter().any(|former| former.protocol() == borne);
                match key {
                    // Its index was drawn for it, or it is overridden.
                    RecordKey::Link(_) => is_as_intended,
                    // The key includes the protocol.
                    RecordKey::Rule(_) => !ours.is_empty(),
                    // Without a marker, an object that is not as intended is another writer's.
                    _ if borne == 0 => {
                        is_as_intended && (!is_stored || was_borne || was_overridden)
                    }
                    // Older kernels keep the marker of an IPv4 address that is replaced.
                    _ => was_borne || was_overridden && is_as_intended,
                }
            })
            .map_or(Answer::NotOurs, |object| Answer::Ours(object.clone()))
    }

    /// Removes, on the observed keys, the records of objects that are no longer ours, and the
    /// records no longer needed. Returns them, with the objects that another writer has
    /// overwritten, as they are now.
    pub(crate) fn release(
        &mut self,
        observed: &Observed,
        policy: &Policy,
        is_observed: impl Fn(&RecordKey) -> bool,
    ) -> (Records, Vec<Object>) {
        let mut gone = Records::new();
        let mut overwritten = Vec::new();
        if self.records.is_empty() {
            return (gone, overwritten);
        }
        let seen = self.observed(observed);
        for (key, record) in &self.records {
            if self.has_intent(key) || !seen.is_complete(key) || !is_observed(key) {
                continue;
            }
            let current = seen.on(key).iter().find(|object| record.is_current(object));
            if record.is_restoring() {
                let former = record.former.as_ref();
                let is_possible = former.is_some_and(|former| former.has_devices(&seen.names));
                if !seen.on(key).is_empty() || !is_possible {
                    gone.insert(key.clone(), None);
                }
                continue;
            }
            let needed = current.is_some_and(|object| {
                let proven = !policy.is_by_ledger(key.kind()) && object.protocol() == policy.marker;
                !proven || record.former.is_some()
            });
            if needed {
                continue;
            }
            gone.insert(key.clone(), None);
            if current.is_none() {
                overwritten.extend(seen.on(key).first().cloned());
            }
        }
        self.note(&gone);
        (gone, overwritten)
    }

    fn note(&mut self, closed: &Records) {
        for (key, record) in closed {
            self.open.remove(key);
            match record {
                Some(record) => drop(self.records.insert(key.clone(), record.clone())),
                None => drop(self.records.remove(key)),
            }
        }
    }

    /// Records intents durably.
    ///
    /// # Errors
    ///
    /// If that failed. Then none of the intended ops may be carried out.
    pub(crate) fn begin(
        &mut self,
        ledger: &mut dyn Ledger,
        intents: Records,
    ) -> Result<(), LedgerError> {
        if intents.is_empty() {
            return Ok(());
        }
        ledger.begin(claims(&intents))?;
        self.open.extend(intents);
        Ok(())
    }
}

/// The observed objects on the keys of records and open intents.
struct ObservedRecords {
    names: BTreeMap<u32, IfName>,
    objects: BTreeMap<RecordKey, Vec<Object>>,
    complete: Kinds,
}

impl ObservedRecords {
    /// `has` returns true for keys with a record or an open intent; `keys` lists all of these.
    fn of<'a>(
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
        each_kind!(K => if kinds.contains(K::KIND) && !K::MARKER_IS_SURE {
            for object in OfKind::<K>::of_kind(observed).iter().filter(|it| !it.is_transient()) {
                let key = object.record_key(&|dev| name_of(dev, &records.names));
                // There can be a million objects, few of which have a record.
                if let Some(key) = key.map(Into::into).filter(&has) {
                    records.objects.entry(key).or_default().push(object.clone().into());
                }
            }
        });
        records
    }

    /// Returns the objects on a key.
    fn on(&self, key: &RecordKey) -> &[Object] {
        self.objects.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns true if the key's interface exists.
    fn has_interface(&self, key: &RecordKey) -> bool {
        key.interface().is_none_or(|(name, index)| self.names.get(&index) == Some(&name))
    }

    /// Returns true if all objects that could be on a key were read.
    fn is_complete(&self, key: &RecordKey) -> bool {
        !self.has_interface(key) || self.complete.contains(key.kind())
    }
}

/// Commits the outcomes of intents. Does nothing if there are none.
///
/// # Errors
///
/// If the outcomes may not have been recorded.
pub(crate) fn commit(ledger: &mut dyn Ledger, outcomes: &Records) -> Result<(), LedgerError> {
    if outcomes.is_empty() {
        return Ok(());
    }
    ledger.commit_outcomes(claims(outcomes))
}

fn claims(records: &Records) -> BTreeMap<Vec<u8>, Claim> {
    records
        .iter()
        .map(|(key, record)| match record {
            Some(record) => (encode(key), Claim::Ours(record.encode())),
            None => (encode(key), Claim::NotOurs),
        })
        .collect()
}

#[cfg(test)]
mod tests;
