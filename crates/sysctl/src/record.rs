//! What the ledger keeps of a key: what was last applied, and what was there before us.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trueup_reconcile::{Claim, Ledger, LedgerError};

use crate::value::same;
use crate::{Error, Key};

/// The record of a key that is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    /// What was written last.
    pub(crate) wanted: String,
    /// What was read after it. Not there in an intent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) found: Option<String>,
    /// The kernel took what was written, so that what was found is what it makes of it.
    #[serde(default)]
    pub(crate) accepted: bool,
    /// What was there before us. Not there where nothing could be read (a secret that was never set).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) original: Option<String>,
}

impl Record {
    /// What is there as long as nobody else changes it.
    pub(crate) fn applied(&self) -> &str {
        self.found.as_deref().unwrap_or(&self.wanted)
    }

    /// The kernel took `wanted` and made `now` of it, which is something else.
    pub(crate) fn is_kept_otherwise(&self, key: &Key, wanted: &str, now: &str) -> bool {
        self.accepted
            && self.wanted == wanted
            && self
                .found
                .as_deref()
                .is_some_and(|found| same(key, found, now))
            && !same(key, wanted, now)
    }

    /// As the ledger has it.
    pub(crate) fn claim(&self) -> Result<Claim, LedgerError> {
        serde_json::to_vec(self)
            .map(Claim::Ours)
            .map_err(LedgerError::new)
    }
}

/// What a ledger says, understood.
pub(crate) struct Book {
    pub(crate) owned: BTreeMap<Key, Record>,
    /// What was begun and not settled; `None` is not to be ours any more.
    pub(crate) open: BTreeMap<Key, Option<Record>>,
}

impl Book {
    pub(crate) fn read(ledger: &dyn Ledger) -> Result<Book, Error> {
        let owned = ledger.owned()?.into_iter();
        let owned = owned.map(|(key, value)| Ok((key_of(&key)?, record_of(&value)?)));
        let owned = owned.collect::<Result<_, LedgerError>>()?;
        let open = ledger.open_intents()?.into_iter().map(|(key, claim)| {
            let record = match claim {
                Claim::Ours(value) => Some(record_of(&value)?),
                Claim::NotOurs => None,
            };
            Ok((key_of(&key)?, record))
        });
        let open = open.collect::<Result<_, LedgerError>>()?;
        Ok(Book { owned, open })
    }
}

/// A key as the ledger has it: its path.
pub(crate) fn name(key: &Key) -> Vec<u8> {
    key.path().as_bytes().to_vec()
}

fn key_of(bytes: &[u8]) -> Result<Key, LedgerError> {
    let text = std::str::from_utf8(bytes).map_err(LedgerError::new)?;
    // The path of a key begins with `net/`, so that slashes separate.
    text.parse()
        .map_err(|error: Error| LedgerError::new(format!("it has what is no key of ours: {error}")))
}

fn record_of(bytes: &[u8]) -> Result<Record, LedgerError> {
    serde_json::from_slice(bytes)
        .map_err(|error| LedgerError::new(format!("it has what is no record of ours: {error}")))
}
