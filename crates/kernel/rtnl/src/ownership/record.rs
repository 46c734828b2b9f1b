//! A record of the ledger: its value, and its text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trueup_net::{Dev, IfName, Kind, LinkKind, Object, ObjectKind as _, with_object};
use trueup_reconcile::LedgerError;

use super::record_key::RecordKey;

/// The last state applied to a key of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The object as last observed, or for a link as created.
    pub(crate) object: Object,
    /// The object as it was before we overrode it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) former: Option<Former>,
}

/// An object as it was before we overrode it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Former {
    pub(crate) object: Object,
    /// Its devices by index. It is not restored on another device that has such an index by now.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    devices: BTreeMap<u32, IfName>,
}

impl Former {
    pub(crate) fn new(object: Object, name: impl Fn(Dev) -> Option<IfName>) -> Former {
        let devices = object
            .devices()
            .iter()
            .filter_map(|dev| Some((dev.as_index()?, name(*dev)?)))
            .collect();
        Former { devices, object }
    }

    /// Returns true if another device now has one of these indexes.
    pub(crate) fn is_elsewhere(&self, names: &BTreeMap<u32, IfName>) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|(index, name)| names.get(index).is_some_and(|now| now != name))
    }

    /// Returns true if all of its devices exist.
    pub(crate) fn has_devices(&self, names: &BTreeMap<u32, IfName>) -> bool {
        let mut devices = self.devices.iter();
        devices.all(|(index, name)| names.get(index) == Some(name))
    }
}

/// The state of each key, intended or present. `None` for an object that is not ours.
pub(crate) type Records = BTreeMap<RecordKey, Option<Record>>;

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Makes the record of an object deleted so that the former one can be restored. A link is
    /// never deleted for that.
    pub(crate) fn restoring(former: &Former) -> Record {
        Record { object: former.object.clone(), former: Some(former.clone()) }
    }

    pub(crate) fn is_restoring(&self) -> bool {
        let former = self.former.as_ref();
        self.object.kind() != Kind::Link
            && former.is_some_and(|former| former.object == self.object)
    }

    /// Returns true if an object is still the recorded one.
    pub(crate) fn is_current(&self, object: &Object) -> bool {
        match (&self.object, object) {
            // A link's kind cannot change.
            (Object::Link(recorded), Object::Link(link)) => same_kind(&recorded.kind, &link.kind),
            _ => self.object.protocol() == object.protocol(),
        }
    }
}

fn same_kind(one: &Option<LinkKind>, other: &Option<LinkKind>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
        // A must-exist link, or one whose kind the kernel does not report.
        _ => true,
    }
}

/// Returns true if an object is as wanted in every field, or for a link in its kind.
pub(crate) fn agrees(wanted: &Object, object: &Object) -> bool {
    if let (Object::Link(wanted), Object::Link(link)) = (wanted, object) {
        return same_kind(&wanted.kind, &link.kind);
    }
    with_object!(wanted, wanted: K => {
        <&K>::try_from(object).is_ok_and(|object| wanted.agrees(object))
    })
}

/// Returns true if an object is in its former state.
pub(crate) fn is_as_before(former: &Object, object: &Object) -> bool {
    let same = match (former, object) {
        (Object::Link(former), Object::Link(link)) => former.agrees(link),
        _ => agrees(former, object),
    };
    same && former.protocol() == object.protocol()
}

/// Encodes a key or a record as text, readable in an export.
pub(crate) fn encode(what: &impl Serialize) -> Vec<u8> {
    // Writing to memory cannot fail, and our types always encode.
    serde_json::to_vec(what).unwrap_or_default()
}

/// Decodes text that this version would encode the same. Other text may mean something else to a
/// later one.
fn decode<'a, T: Deserialize<'a> + Serialize>(
    what: &str,
    bytes: &'a [u8],
) -> Result<T, LedgerError> {
    let why = match serde_json::from_slice(bytes) {
        Ok(decoded) if encode(&decoded) == bytes => return Ok(decoded),
        Ok(_) => "this version does not write it so".to_owned(),
        Err(error) => error.to_string(),
    };
    let shown = String::from_utf8_lossy(bytes);
    Err(LedgerError::new(format!("a {what} in the ledger cannot be read: {why}: {shown}")))
}

/// Decodes a key with its record.
pub(crate) fn entry(
    key: &[u8],
    record: Option<&[u8]>,
) -> Result<(RecordKey, Option<Record>), LedgerError> {
    let (shown, key): (_, RecordKey) = (key, decode("key", key)?);
    let record: Option<Record> = record.map(|bytes| decode("record", bytes)).transpose()?;
    let name = key.interface().map(|(name, _)| name);
    let mut objects = record.iter().flat_map(|Record { object, former }| {
        std::iter::once(object).chain(former.iter().map(|former| &former.object))
    });
    if !objects.all(|object| RecordKey::of(object, |_| name).as_ref() == Some(&key)) {
        let shown = String::from_utf8_lossy(shown);
        return Err(LedgerError::new(format!(
            "a record in the ledger is not about its key: {shown}"
        )));
    }
    Ok((key, record))
}
