//! What we own by our own record: links, what lives on a kernel that does not keep the marker, what was adopted, and what was
//! taken from others. The records are a [`Ledger`]'s; here is what the kernel says to them.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{Dev, IfName, Item as _, Kind, Kinds, Object, Observed, Owned, Policy, RouteKey};
use trueup_reconcile::{Claim, Ledger, LedgerError};

use crate::record::{
    Former, Record, RecordKey, Records, agrees, encode, entry, is_as_before, protocol,
};
use crate::region::{Place, Region};

/// The records of one scope, and the intents that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    records: BTreeMap<RecordKey, Record>,
    open: Records,
}

/// What is there of what a book is about.
struct Seen {
    names: BTreeMap<u32, IfName>,
    objects: BTreeMap<RecordKey, Vec<Object>>,
    complete: Kinds,
}

impl Seen {
    fn of(book: &Book, observed: &Observed) -> Seen {
        let is_known = |key: &RecordKey| book.records.contains_key(key) || book.is_open(key);
        let kinds: Kinds = book.keys().map(RecordKey::kind).collect();
        let mut seen = Seen {
            names: names(observed),
            objects: BTreeMap::new(),
            complete: observed.complete,
        };
        let mut note = |object: Object| {
            let name = |dev: Dev| seen.names.get(&dev.as_index()?).copied();
            let key = RecordKey::of(&object, name);
            if let Some(key) = key.filter(is_known) {
                seen.objects.entry(key).or_default().push(object);
            }
        };
        for kind in Kind::ALL.into_iter().filter(|kind| kinds.contains(*kind)) {
            match kind {
                Kind::Link => observed
                    .links
                    .iter()
                    .for_each(|link| note(link.clone().into())),
                Kind::Address => observed
                    .addresses
                    .iter()
                    .for_each(|address| note(address.clone().into())),
                Kind::Neighbour => {
                    let declared = observed.neighbours.iter().filter(|n| n.is_declared());
                    declared.for_each(|neighbour| note(neighbour.clone().into()));
                }
                // There can be a million of which few are in question.
                Kind::Route => {
                    let routes = observed.routes.iter();
                    let known = routes.filter(|route| is_known(&RecordKey::Route(route.key())));
                    known.for_each(|route| note(route.clone().into()));
                }
                Kind::Rule => observed
                    .rules
                    .iter()
                    .for_each(|rule| note(rule.clone().into())),
                // Always ours by the marker.
                Kind::Nexthop => {}
            }
        }
        seen
    }

    /// The objects on a key.
    fn on(&self, key: &RecordKey) -> &[Object] {
        self.objects.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether the interface that a key is, or is on, is there.
    fn has_interface(&self, key: &RecordKey) -> bool {
        key.interface()
            .is_none_or(|(name, index)| self.names.get(&index) == Some(&name))
    }

    /// Whether all that could be on a key was read.
    fn is_whole(&self, key: &RecordKey) -> bool {
        !self.has_interface(key) || self.complete.contains(key.kind())
    }
}

/// The names of the interfaces that are there.
pub(crate) fn names(observed: &Observed) -> BTreeMap<u32, IfName> {
    let links = observed.links.iter();
    links.map(|link| (link.index, link.name)).collect()
}

/// What the kernel says to an intent, or to a record.
enum Verdict {
    Ours(Object),
    NotOurs,
    /// Nothing is there, and what was before we took it is to be again.
    Returning(Former),
    /// What is there is not known.
    Open,
}

impl Book {
    /// # Errors
    ///
    /// When the ledger cannot be read, or holds what nobody here has written.
    pub(crate) fn read(ledger: &dyn Ledger) -> Result<Book, LedgerError> {
        let mut book = Book::default();
        for (key, record) in ledger.owned()? {
            let (key, record) = entry(&key, Some(&record))?;
            book.records.extend(record.map(|record| (key, record)));
        }
        for (key, claim) in ledger.open_intents()? {
            let intended = match &claim {
                Claim::Ours(record) => Some(&record[..]),
                Claim::NotOurs => None,
            };
            book.open.extend([entry(&key, intended)?]);
        }
        Ok(book)
    }

    /// What of it is about a region. The rest stays as it is.
    pub(crate) fn within(mut self, region: &Region) -> Book {
        if !region.is_whole() {
            self.records
                .retain(|key, _| region.holds(Place::of_key(key)));
            self.open.retain(|key, _| region.holds(Place::of_key(key)));
        }
        self
    }

    /// Whether nothing is recorded, nor open.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.open.is_empty()
    }

    pub(crate) fn record(&self, key: &RecordKey) -> Option<&Record> {
        self.records.get(key)
    }

    /// What is recorded, and what is meant to be.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &RecordKey> {
        let meant = self.open.keys();
        let meant = meant.filter(|key| !self.records.contains_key(key));
        self.records.keys().chain(meant)
    }

    /// What is meant, where that is not known to have come about.
    pub(crate) fn intent(&self, key: &RecordKey) -> Option<&Record> {
        self.open.get(key)?.as_ref()
    }

    pub(crate) fn is_open(&self, key: &RecordKey) -> bool {
        self.open.contains_key(key)
    }

    /// The routes of it that do not bear the marker: a look for what does would not show them.
    pub(crate) fn unmarked_routes(&self, marker: u8) -> BTreeSet<RouteKey> {
        let intended = self.open.values().filter_map(|record| record.as_ref());
        self.records
            .values()
            .chain(intended)
            .filter_map(|record| match &record.object {
                Object::Route(route) if route.protocol != marker => Some(route.key()),
                _ => None,
            })
            .collect()
    }

    /// The other end of a pair, by its name, if it is ours.
    pub(crate) fn link_named(&self, name: &IfName) -> Option<RecordKey> {
        let key =
            |key: &&RecordKey| matches!(key, RecordKey::Link { name: known, .. } if known == name);
        self.records.keys().find(key).cloned()
    }

    /// The kinds of which something is not there that is ours, or was to be, and whose dumps lose rows without a sign while
    /// others write: routes (`inet6_dump_fib`, `fn_trie_dump_leaf`) and rules (`dump_rules`).
    pub(crate) fn missing(&self, observed: &Observed) -> Kinds {
        let lossy = |kind| matches!(kind, Kind::Route | Kind::Rule);
        let expected = |key: &&RecordKey| {
            let recorded = || self.records.get(*key).is_some_and(|r| !r.is_returning());
            let meant = self.open.get(*key).map(Option::is_some);
            lossy(key.kind()) && meant.unwrap_or_else(recorded)
        };
        let mut expected = self.keys().filter(expected).peekable();
        if expected.peek().is_none() {
            return Kinds::NONE;
        }
        let seen = Seen::of(self, observed);
        expected
            .filter(|key| observed.complete.contains(key.kind()) && seen.on(key).is_empty())
            .map(RecordKey::kind)
            .collect()
    }

    /// What of it holds among what is there.
    pub(crate) fn owned(&self, observed: &Observed) -> Owned {
        let mut owned = Owned::default();
        if self.records.is_empty() {
            return owned;
        }
        let seen = Seen::of(self, observed);
        for (key, record) in &self.records {
            if !seen.has_interface(key) {
                continue;
            }
            let object = &record.object;
            let there = seen.on(key);
            let former = record.former.as_ref();
            if record.is_returning() {
                let former = former.filter(|_| there.is_empty());
                let former = former.filter(|former| !former.is_elsewhere(&seen.names));
                let former = former.map(|former| (object.key(), former.object.clone()));
                owned.returning.extend(former);
                continue;
            }
            match key {
                RecordKey::Link { index, .. } => {
                    let stands = there.iter().any(|object| record.stands(object));
                    if stands && record.former.is_none() {
                        owned.links.insert(*index);
                    }
                }
                RecordKey::Address { key, .. } => {
                    owned.addresses.insert(*key, protocol(object));
                }
                RecordKey::Neighbour { key, .. } => {
                    owned.neighbours.insert(*key, protocol(object));
                }
                RecordKey::Route(key) => {
                    owned.routes.insert(*key, protocol(object));
                }
                RecordKey::Rule(rule) => {
                    owned.rules.insert((**rule).clone());
                }
                RecordKey::Nexthop(_) => {}
            }
            // A link that has become another kind is another link.
            let stands =
                key.kind() != Kind::Link || there.iter().any(|object| record.stands(object));
            let former = former.filter(|former| stands && !former.is_elsewhere(&seen.names));
            let former = former.map(|former| (object.key(), former.object.clone()));
            owned.former.extend(former);
        }
        owned
    }

    /// Takes an intent back of which nothing was done. `missing` is what was meant for an object that was not there.
    pub(crate) fn withdraw(&mut self, key: &RecordKey, missing: bool) {
        let stays = |record: &&Record| !missing || record.is_returning();
        let before = self.records.get(key).filter(stays).cloned();
        if let Some(intended) = self.open.get_mut(key) {
            *intended = before;
        }
    }

    /// Closes the open intents to which what is there gives an answer, in this book alone. `refused` are keys that somebody
    /// else had by the time we asked for them.
    pub(crate) fn look(
        &mut self,
        observed: &Observed,
        policy: Policy,
        refused: &BTreeSet<RecordKey>,
    ) -> Records {
        let mut settled = Records::new();
        if self.open.is_empty() {
            return settled;
        }
        let seen = Seen::of(self, observed);
        for (key, intended) in std::mem::take(&mut self.open) {
            let verdict = if refused.contains(&key) {
                Verdict::NotOurs
            } else {
                self.verdict(&key, intended.as_ref(), &seen, policy)
            };
            match verdict {
                Verdict::Open => drop(self.open.insert(key, intended)),
                Verdict::NotOurs => drop(settled.insert(key, None)),
                Verdict::Returning(former) => {
                    settled.insert(key, Some(Record::returning(&former)));
                }
                Verdict::Ours(object) => {
                    let known = intended.as_ref().or_else(|| self.records.get(&key));
                    let former = known.and_then(|record| record.former.clone());
                    settled.insert(key, Some(Record { object, former }));
                }
            }
        }
        self.note(&settled);
        settled
    }

    /// What is there of a key that we meant to have (`wanted`), or to remove, and may have had before.
    fn verdict(
        &self,
        key: &RecordKey,
        wanted: Option<&Record>,
        seen: &Seen,
        policy: Policy,
    ) -> Verdict {
        let before = self.record(key);
        let there = seen.on(key);
        if there.is_empty() {
            if !seen.is_whole(key) {
                return Verdict::Open;
            }
            // What was taken before, and is to be made anew or given back, was deleted by us for that.
            let was_taken = |former: &&Former| {
                let before = before.and_then(|record| record.former.as_ref());
                wanted.is_some_and(Record::is_returning) || before == Some(*former)
            };
            let former = wanted.and_then(|record| record.former.as_ref());
            return match former.filter(was_taken) {
                Some(former) => Verdict::Returning(former.clone()),
                None => Verdict::NotOurs,
            };
        }
        let known = || wanted.into_iter().chain(before);
        let former = || known().filter_map(|record| record.former.as_ref());
        let was_taken_with = |borne| former().any(|former| protocol(&former.object) == borne);
        // What was there before us is no proof.
        let either = || known().filter(|record| !record.is_returning());
        let as_meant = |object: &Object| either().any(|record| agrees(&record.object, object));
        let bore = |borne| either().any(|record| protocol(&record.object) == borne);
        let stored = !policy.unstored.contains(key.kind());
        // What was taken, and is as it was before that, has been given back, or was never changed.
        let mine = |object: &&Object| !former().any(|former| is_as_before(&former.object, object));
        let mut candidates = there.iter().filter(mine);
        let ours = candidates.find(|object| match (key, protocol(object)) {
            // Its index was drawn for it, or it was taken.
            (RecordKey::Link { .. }, _) => as_meant(object),
            // The key has the protocol in it.
            (RecordKey::Rule(_), _) => either().next().is_some(),
            // Nobody's mark is on it: what looks otherwise than we meant it to is another's.
            (_, 0) => as_meant(object) && (!stored || bore(0) || was_taken_with(0)),
            // Older kernels leave an IPv4 address that is replaced the mark that it had.
            (_, borne) => bore(borne) || was_taken_with(borne) && as_meant(object),
        });
        match ours {
            Some(object) => Verdict::Ours(object.clone()),
            None => Verdict::NotOurs,
        }
    }

    /// Takes out what is not ours any more, and what needs no record. What somebody rewrote is told as shed, with the protocol
    /// that it bears now.
    pub(crate) fn tidy(&mut self, observed: &Observed, policy: Policy) -> (Records, Vec<Object>) {
        let mut gone = Records::new();
        let mut shed = Vec::new();
        if self.records.is_empty() {
            return (gone, shed);
        }
        let seen = Seen::of(self, observed);
        for (key, record) in &self.records {
            if self.is_open(key) || !seen.is_whole(key) {
                continue;
            }
            let standing = seen.on(key).iter().find(|object| record.stands(object));
            if record.is_returning() {
                let possible = |former: &Former| former.has_devices(&seen.names);
                if !seen.on(key).is_empty() || !record.former.as_ref().is_some_and(possible) {
                    gone.insert(key.clone(), None);
                }
                continue;
            }
            let needed = standing.is_some_and(|object| {
                let proven = key.kind() != Kind::Link
                    && !policy.by_ledger.contains(key.kind())
                    && protocol(object) == policy.marker;
                !proven || record.former.is_some()
            });
            if needed {
                continue;
            }
            gone.insert(key.clone(), None);
            if standing.is_none() {
                shed.extend(seen.on(key).first().cloned());
            }
        }
        self.note(&gone);
        (gone, shed)
    }

    /// Takes in what is so.
    pub(crate) fn note(&mut self, settled: &Records) {
        for (key, record) in settled {
            self.open.remove(key);
            match record {
                Some(record) => drop(self.records.insert(key.clone(), record.clone())),
                None => drop(self.records.remove(key)),
            }
        }
    }

    /// Records what is meant, for good once this returns.
    ///
    /// # Errors
    ///
    /// When that failed: then nothing of it is to be done.
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

/// Records what is so. Nothing to record costs nothing.
///
/// # Errors
///
/// When it is not known to be recorded.
pub(crate) fn settle(ledger: &mut dyn Ledger, settled: &Records) -> Result<(), LedgerError> {
    if settled.is_empty() {
        return Ok(());
    }
    ledger.commit_outcomes(claims(settled))
}

fn claims(records: &Records) -> BTreeMap<Vec<u8>, Claim> {
    let claim = |record: &Option<Record>| match record {
        Some(record) => Claim::Ours(record.encode()),
        None => Claim::NotOurs,
    };
    records
        .iter()
        .map(|(key, record)| (encode(key), claim(record)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_diff::{Family, Rule, RuleAction};
    use trueup_reconcile::MemoryLedger;

    fn ledger(key: &str, record: &str) -> MemoryLedger {
        let mut ledger = MemoryLedger::default();
        let claims = [(key.into(), Claim::Ours(record.into()))];
        ledger.commit_outcomes(claims.into()).unwrap();
        ledger
    }

    #[test]
    fn what_nobody_here_would_have_written_is_an_error() {
        let rule = Rule::new(Family::Inet, 77, RuleAction::Lookup(5));
        let key = |rule: &Rule| {
            let key = RecordKey::Rule(Box::new(rule.key()));
            String::from_utf8(encode(&key)).unwrap()
        };
        let record = Record {
            object: rule.clone().into(),
            former: None,
        };
        let record = String::from_utf8(record.encode()).unwrap();
        assert!(Book::read(&ledger(&key(&rule), &record)).is_ok());
        let other = Rule::new(Family::Inet, 78, RuleAction::Lookup(5));
        let later = record.replacen('{', "{\"until\":5,", 1);
        for (key, record) in [
            (key(&other), record.clone()),
            (key(&rule), later),
            (key(&rule) + " ", record.clone()),
            (key(&rule), String::new()),
            (String::new(), record),
        ] {
            let read = Book::read(&ledger(&key, &record));
            assert!(read.is_err(), "{key}: {record}");
        }
    }
}
