//! The ledger's records of keys.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::backend::{Backend, Ownership};
use crate::{Claim, Ledger, LedgerError};

/// The reason why a key is left alone.
const UNREADABLE: &str = "its record in the ledger cannot be parsed";

/// The record of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(bound(serialize = "V: Serialize", deserialize = "V: Deserialize<'de>"))]
pub(super) struct Record<V> {
    /// The value that we applied; `None` if the key is not ours.
    #[serde(with = "list", default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(super) ours: Option<V>,
    /// Digests of a value that was accepted, and of the different value that was read back. The
    /// values themselves may be another writer's, and too long for the ledger.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(super) otherwise: Option<(u64, u64)>,
    /// The digest of the value of an object to delete, if it differs from `ours`. After a crash,
    /// only the value shows that the object has not been deleted yet.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub(super) deletes: Option<u64>,
}

impl<V> Record<V> {
    pub(super) fn new(ours: Option<V>) -> Record<V> {
        Record { ours, otherwise: None, deletes: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ours.is_none() && self.otherwise.is_none()
    }
}

/// An optional value as a list, because the value itself may be `null`: `()` is.
mod list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<V: Serialize, S: Serializer>(
        value: &Option<V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_slice().serialize(serializer)
    }

    pub(super) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<V>, D::Error> {
        Ok(Vec::deserialize(deserializer)?.pop())
    }
}

/// Encodes a key with its record for the ledger.
///
/// # Errors
///
/// The ledger cannot hold it, or would return another: the reason, in words.
pub(super) fn encode<B: Backend>(
    key: &B::Key,
    record: &Record<B::Value>,
) -> Result<(Vec<u8>, Claim), String> {
    let key = json("key", key, Claim::MAX_KEY, |read| read == key)?;
    if record.is_empty() {
        return Ok((key, Claim::NotOurs));
    }
    // A value may have a part that is not written, such as a counter.
    let is_same = |read: &Record<B::Value>| match (&read.ours, &record.ours) {
        (Some(read), Some(ours)) => read == ours || B::same(read, ours),
        (read, ours) => read.is_none() && ours.is_none(),
    };
    json("value", record, Claim::MAX_VALUE, is_same).map(|value| (key, Claim::Ours(value)))
}

fn json<T: Serialize + DeserializeOwned>(
    noun: &str,
    item: &T,
    max: usize,
    is_same: impl FnOnce(&T) -> bool,
) -> Result<Vec<u8>, String> {
    let bytes = serde_json::to_vec(item)
        .map_err(|error| format!("its {noun} cannot be written as JSON: {error}"))?;
    if bytes.len() > max {
        return Err(format!("its {noun} takes {} bytes as JSON, of at most {max}", bytes.len()));
    }
    match serde_json::from_slice::<T>(&bytes) {
        Ok(read) if is_same(&read) => Ok(bytes),
        Ok(_) => Err(format!("its {noun} reads back from JSON as another one")),
        Err(error) => Err(format!("its {noun} cannot be read back from JSON: {error}")),
    }
}

/// The parsed content of a ledger.
pub(super) struct Records<K, V> {
    pub(super) by_key: BTreeMap<K, Record<V>>,
    /// The open intents: the value to apply, or `None` for a delete.
    pub(super) open: BTreeMap<K, Option<V>>,
    /// Keys whose record or intent cannot be parsed or written, with the reason. They are left
    /// alone.
    pub(super) unusable: BTreeMap<K, String>,
    /// Keys that the ledger has in forms of another version, with these forms. Their records are
    /// replaced.
    pub(super) old_forms: BTreeMap<K, BTreeSet<Vec<u8>>>,
    /// The number of keys that cannot be parsed themselves.
    pub(super) strange: usize,
}

impl<K, V> Records<K, V>
where
    K: Ord + Clone + Serialize + DeserializeOwned,
    V: DeserializeOwned,
{
    pub(super) fn read(ledger: &dyn Ledger) -> Result<Records<K, V>, LedgerError> {
        let mut records = Records {
            by_key: BTreeMap::new(),
            open: BTreeMap::new(),
            unusable: BTreeMap::new(),
            old_forms: BTreeMap::new(),
            strange: 0,
        };
        let owned = ledger.owned()?.into_iter();
        records.by_key = records.parse(owned, |value| serde_json::from_slice(&value).ok());
        records.open = records.parse(ledger.open_intents()?.into_iter(), |claim| match claim {
            Claim::Ours(value) => {
                let record = serde_json::from_slice::<Record<V>>(&value).ok()?;
                record.ours.map(Some)
            }
            Claim::NotOurs => Some(None),
        });
        for key in records.unusable.keys() {
            records.by_key.remove(key);
            records.open.remove(key);
        }
        Ok(records)
    }

    /// Parses the entries of a part of the ledger. Of a key that has several forms, this version's
    /// entry counts.
    fn parse<E, T>(
        &mut self,
        entries: impl Iterator<Item = (Vec<u8>, E)>,
        parse: impl Fn(E) -> Option<T>,
    ) -> BTreeMap<K, T> {
        let (mut parsed, mut old) = (BTreeMap::new(), BTreeMap::new());
        for (form, entry) in entries {
            let Ok(key) = serde_json::from_slice::<K>(&form) else {
                self.strange += 1;
                continue;
            };
            let is_old = serde_json::to_vec(&key).ok().as_ref() != Some(&form);
            if is_old {
                self.old_forms.entry(key.clone()).or_default().insert(form);
            }
            match parse(entry) {
                Some(entry) if is_old => drop(old.insert(key, entry)),
                Some(entry) => drop(parsed.insert(key, entry)),
                None => drop(self.unusable.insert(key, UNREADABLE.to_owned())),
            }
        }
        old.append(&mut parsed);
        old
    }
}

/// Returns true if an observed object is ours.
pub(super) fn is_ours<B: Backend>(
    backend: &B,
    key: &B::Key,
    now: &B::Value,
    record: Option<&Record<B::Value>>,
) -> bool {
    let ours = record.and_then(|record| record.ours.as_ref());
    match B::OWNERSHIP {
        Ownership::Value => ours.is_some_and(|ours| B::same(ours, now)),
        Ownership::Key => ours.is_some(),
        Ownership::Marker => backend.has_marker(key, now),
    }
}

/// Returns the value that is ours after a change whose outcome only `now` shows: after a crash, or
/// after an error. `before` is the value that was ours, and `to` the one to apply, or `None` for a
/// delete. `is_unchanged` is true if `now` was also read before the change.
///
/// If it cannot be known, the object is another writer's.
pub(super) fn settle<B: Backend>(
    before: Option<&B::Value>,
    is_unchanged: bool,
    to: Option<&B::Value>,
    now: Option<&B::Value>,
) -> Option<B::Value> {
    let now = now?;
    match (B::OWNERSHIP, to) {
        (Ownership::Marker, _) => None,
        (_, Some(to)) if B::same(to, now) => Some(to.clone()),
        // The key stays ours, even if another writer changed its value.
        (Ownership::Key, Some(to)) => before.map(|_| to.clone()),
        (Ownership::Key, None) if is_unchanged => before.cloned(),
        _ => before.filter(|before| B::same(before, now)).cloned(),
    }
}
