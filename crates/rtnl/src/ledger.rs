//! What we own by our own record: links, what lives on a kernel that does not keep the marker, what was adopted, and what was
//! taken from others. The records are a [`Ledger`]'s; here is what they mean, and what the kernel says to them.
//!
//! Interface indexes are used again after an interface is gone. So every index is kept with the name that went with it, and
//! counts only while both are still seen together: what was ours on a vanished interface never matches a stranger's.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use trueup_diff::{
    AddressKey, Dev, IfName, Item, Kind, Kinds, LinkKind, NeighbourKey, Object, Observed, Owned,
    Policy, RouteKey, Rule,
};
use trueup_reconcile::{Claim, Ledger, LedgerError};

/// What a record is about, whatever else there is by then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecordKey {
    Link { name: IfName, index: u32 },
    Address { name: IfName, key: AddressKey },
    Neighbour { name: IfName, key: NeighbourKey },
    Route(RouteKey),
    Rule(Box<Rule>),
}

/// What was last applied to a key that is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// As it was last seen. Of a link: as it was made.
    pub(crate) object: Object,
    /// What was there before we took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<Former>,
}

/// What was on a key before we took it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Former {
    pub(crate) object: Object,
    /// The devices that it refers to: to another that has the index of one by now it is not given back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    devices: BTreeMap<u32, IfName>,
}

impl Former {
    pub(crate) fn new(object: Object, name: impl Fn(Dev) -> Option<IfName>) -> Former {
        let devices = object.devices();
        let named = devices
            .iter()
            .filter_map(|dev| Some((dev.as_index()?, name(*dev)?)));
        Former {
            devices: named.collect(),
            object,
        }
    }

    /// Whether another device has the index of one of its by now.
    fn is_elsewhere(&self, names: &BTreeMap<u32, IfName>) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|(index, name)| names.get(index).is_some_and(|now| now != name))
    }

    /// Whether all that it was on is there.
    fn has_devices(&self, names: &BTreeMap<u32, IfName>) -> bool {
        let mut devices = self.devices.iter();
        devices.all(|(index, name)| names.get(index) == Some(name))
    }
}

/// What keys are to be, or are: `None` for what is not ours.
pub(crate) type Records = BTreeMap<RecordKey, Option<Record>>;

/// The records of one scope, and the intents that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    records: BTreeMap<RecordKey, Record>,
    open: Records,
}

impl RecordKey {
    /// The key of an object on devices of these names.
    pub(crate) fn of(object: &Object, name: impl Fn(Dev) -> Option<IfName>) -> Option<RecordKey> {
        Some(match object {
            Object::Link(link) => RecordKey::Link {
                name: link.name,
                index: link.index,
            },
            Object::Address(address) => RecordKey::Address {
                name: name(address.dev)?,
                key: address.key(),
            },
            Object::Neighbour(neighbour) => RecordKey::Neighbour {
                name: name(neighbour.dev)?,
                key: neighbour.key(),
            },
            Object::Route(route) => RecordKey::Route(route.key()),
            Object::Rule(rule) => RecordKey::Rule(Box::new(rule.key())),
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            RecordKey::Link { .. } => Kind::Link,
            RecordKey::Address { .. } => Kind::Address,
            RecordKey::Neighbour { .. } => Kind::Neighbour,
            RecordKey::Route(_) => Kind::Route,
            RecordKey::Rule(_) => Kind::Rule,
        }
    }

    /// The interface that it is, or is on.
    pub(crate) fn interface(&self) -> Option<(IfName, u32)> {
        match self {
            RecordKey::Link { name, index } => Some((*name, *index)),
            RecordKey::Address { name, key } => Some((*name, key.dev.as_index()?)),
            RecordKey::Neighbour { name, key } => Some((*name, key.dev.as_index()?)),
            RecordKey::Route(_) | RecordKey::Rule(_) => None,
        }
    }
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// What we deleted so that what was there before can be made again. A link is never deleted for that.
    pub(crate) fn returning(former: &Former) -> Record {
        Record {
            object: former.object.clone(),
            former: Some(former.clone()),
        }
    }

    pub(crate) fn is_returning(&self) -> bool {
        let is_former = |former: &Former| former.object == self.object;
        self.object.kind() != Kind::Link && self.former.as_ref().is_some_and(is_former)
    }

    /// Whether what is there is still what was recorded, in whoever's hands.
    pub(crate) fn stands(&self, object: &Object) -> bool {
        match (&self.object, object) {
            // The kind of a link cannot change.
            (Object::Link(recorded), Object::Link(link)) => same_kind(&recorded.kind, &link.kind),
            _ => protocol(&self.object) == protocol(object),
        }
    }
}

fn same_kind(one: &Option<LinkKind>, other: &Option<LinkKind>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
        // What must exist, and what the kernel says nothing of.
        _ => true,
    }
}

/// The protocol that an object bears; of links 0, as they bear none.
pub(crate) fn protocol(object: &Object) -> u8 {
    match object {
        Object::Link(_) => 0,
        Object::Address(address) => address.protocol,
        Object::Neighbour(neighbour) => neighbour.protocol,
        Object::Route(route) => route.protocol,
        Object::Rule(rule) => rule.protocol,
    }
}

/// Whether an object is as wanted in every respect; of a link, whether it is of the kind.
fn agrees(wanted: &Object, object: &Object) -> bool {
    match (wanted, object) {
        (Object::Link(wanted), Object::Link(link)) => same_kind(&wanted.kind, &link.kind),
        (Object::Address(wanted), Object::Address(address)) => wanted.agrees(address),
        (Object::Neighbour(wanted), Object::Neighbour(neighbour)) => wanted.agrees(neighbour),
        (Object::Route(wanted), Object::Route(route)) => wanted.agrees(route),
        (Object::Rule(wanted), Object::Rule(rule)) => wanted.agrees(rule),
        _ => false,
    }
}

/// Whether an object is what was there before we took it.
fn is_as_before(former: &Object, object: &Object) -> bool {
    let same = match (former, object) {
        (Object::Link(former), Object::Link(link)) => former.agrees(link),
        _ => agrees(former, object),
    };
    same && protocol(former) == protocol(object)
}

/// Keys and records are text, for whoever reads an export.
fn encode(what: &impl Serialize) -> Vec<u8> {
    // Writing to memory does not fail, and neither does any of our types.
    serde_json::to_vec(what).unwrap_or_default()
}

/// What nobody here would have written so is not guessed at: a later version may mean something else by it.
fn decode<'a, T: Deserialize<'a> + Serialize>(
    what: &str,
    bytes: &'a [u8],
) -> Result<T, LedgerError> {
    let unreadable = |why: &dyn std::fmt::Display| {
        let shown = String::from_utf8_lossy(bytes);
        LedgerError::new(format!(
            "a {what} in the ledger cannot be read: {why}: {shown}"
        ))
    };
    let decoded = serde_json::from_slice(bytes).map_err(|error| unreadable(&error))?;
    if encode(&decoded) != bytes {
        return Err(unreadable(&"this version does not write it so"));
    }
    Ok(decoded)
}

/// A key, and what is recorded of it.
fn entry(key: &[u8], record: Option<&[u8]>) -> Result<(RecordKey, Option<Record>), LedgerError> {
    let (shown, key): (_, RecordKey) = (key, decode("key", key)?);
    let record: Option<Record> = record.map(|bytes| decode("record", bytes)).transpose()?;
    let name = |_| key.interface().map(|(name, _)| name);
    let is_about = |object: &Object| RecordKey::of(object, name).as_ref() == Some(&key);
    let mut objects = record.iter().flat_map(|Record { object, former }| {
        let former = former.iter().map(|former| &former.object);
        std::iter::once(object).chain(former)
    });
    if !objects.all(is_about) {
        let shown = String::from_utf8_lossy(shown);
        return Err(LedgerError::new(format!(
            "a record in the ledger is not about its key: {shown}"
        )));
    }
    Ok((key, record))
}

/// What is there of what a book is about.
struct Seen {
    names: BTreeMap<u32, IfName>,
    objects: BTreeMap<RecordKey, Vec<Object>>,
    complete: Kinds,
}

impl Seen {
    fn of(book: &Book, observed: &Observed) -> Seen {
        let keys = || book.records.keys().chain(book.open.keys());
        let kinds: Kinds = keys().map(RecordKey::kind).collect();
        let mut seen = Seen {
            names: names(observed),
            objects: BTreeMap::new(),
            complete: observed.complete,
        };
        let mut note = |object: Object| {
            let name = |dev: Dev| seen.names.get(&dev.as_index()?).copied();
            let key = RecordKey::of(&object, name);
            if let Some(key) = key.filter(|key| book.records.contains_key(key) || book.is_open(key))
            {
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
                Kind::Route => observed
                    .routes
                    .iter()
                    .for_each(|route| note(route.clone().into())),
                Kind::Rule => observed
                    .rules
                    .iter()
                    .for_each(|rule| note(rule.clone().into())),
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

    /// Records what is meant, for good once this returns. What is open in the same words already is not recorded again.
    ///
    /// # Errors
    ///
    /// When that failed: then nothing of it is to be done.
    pub(crate) fn begin(
        &mut self,
        ledger: &mut dyn Ledger,
        mut intents: Records,
    ) -> Result<(), LedgerError> {
        intents.retain(|key, intended| self.open.get(key) != Some(intended));
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
    ledger.settle(claims(settled))
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
    use trueup_diff::{Family, RuleAction};
    use trueup_reconcile::MemoryLedger;

    fn ledger(key: &str, record: &str) -> MemoryLedger {
        let mut ledger = MemoryLedger::default();
        let claims = [(key.into(), Claim::Ours(record.into()))];
        ledger.settle(claims.into()).unwrap();
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
