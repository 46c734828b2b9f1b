//! The ledger's record of a key: the value last applied, and the value before trueup's first write.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trueup_reconcile::{Claim, Ledger, LedgerError};

use crate::value::is_same_value;
use crate::{Desired, Error, Key};

/// The record of a key of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// The value written last.
    pub(crate) wanted: String,
    /// The value read after the write; `None` in an intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<String>,
    /// True if the kernel accepted the write, so that `found` is its form of `wanted`.
    #[serde(default)]
    pub(crate) accepted: bool,
    /// The value before our first write. `None` if there was none (a secret that was never set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) original: Option<String>,
}

impl Record {
    /// Returns the value that the key has unless another writer changes it.
    pub(crate) fn applied(&self) -> &str {
        self.found.as_deref().unwrap_or(&self.wanted)
    }

    /// Returns true if the kernel accepted `wanted` and stores the different value `now` for it.
    pub(crate) fn is_stored_differently(&self, key: &Key, wanted: &str, now: &str) -> bool {
        self.accepted
            && self.wanted == wanted
            && self.found.as_deref().is_some_and(|found| is_same_value(key, found, now))
            && !is_same_value(key, wanted, now)
    }

    /// Encodes the record for the ledger.
    pub(crate) fn claim(&self) -> Result<Claim, LedgerError> {
        serde_json::to_vec(self).map(Claim::Ours).map_err(LedgerError::new)
    }
}

/// The parsed records and open intents of a ledger, for one part of the settings.
pub(crate) struct LedgerRecords {
    pub(crate) owned: BTreeMap<Key, Record>,
    /// The open intents. `None` if the key was to be released.
    pub(crate) open: BTreeMap<Key, Option<Record>>,
}

impl LedgerRecords {
    /// Reads the records covered by a desired state.
    pub(crate) fn read(ledger: &dyn Ledger, about: &Desired) -> Result<LedgerRecords, Error> {
        let mut records = LedgerRecords { owned: BTreeMap::new(), open: BTreeMap::new() };
        for (key, value) in ledger.owned()? {
            records.owned.insert(parse_key(&key)?, parse_record(&value)?);
        }
        for (key, claim) in ledger.open_intents()? {
            let record = match claim {
                Claim::Ours(value) => Some(parse_record(&value)?),
                Claim::NotOurs => None,
            };
            records.open.insert(parse_key(&key)?, record);
        }
        records.owned.retain(|key, _| about.covers(key));
        records.open.retain(|key, _| about.covers(key));
        Ok(records)
    }
}

/// Encodes a key for the ledger: its path.
pub(crate) fn ledger_key(key: &Key) -> Vec<u8> {
    key.path().as_bytes().to_vec()
}

fn parse_key(bytes: &[u8]) -> Result<Key, LedgerError> {
    let text = std::str::from_utf8(bytes).map_err(LedgerError::new)?;
    // The path begins with `net/`, so it is parsed with slashes as separators.
    text.parse()
        .map_err(|error: Error| LedgerError::new(format!("a key in it is no sysctl key: {error}")))
}

fn parse_record(bytes: &[u8]) -> Result<Record, LedgerError> {
    serde_json::from_slice(bytes)
        .map_err(|error| LedgerError::new(format!("a record in it cannot be parsed: {error}")))
}
