//! The encoding of a graph's records in a ledger: the key is the vertex's name.

use std::sync::Arc;

use trueup_reconcile::{Claim, Ledger, LedgerError};

use crate::error::ErrorKind;
use crate::state::Made;
use crate::{Error, Record};

/// The format's version, the first byte of a value.
const VERSION: u8 = 2;
/// The version before records had `made`.
const BEFORE_MADE: u8 = 1;

pub(crate) fn read(ledger: &dyn Ledger) -> Result<Vec<(Arc<str>, Record)>, Error> {
    let read = ledger
        .owned()
        .map_err(|error| format!("the graph's records cannot be read: {error}"))
        .and_then(|owned| {
            let records = owned.into_iter().map(|(key, value)| {
                let name = std::str::from_utf8(&key).ok();
                let record = name.map(Arc::from).zip(Record::from_bytes(&value));
                record.ok_or_else(|| {
                    format!(
                        "the record of vertex {} is not one that this version of a graph writes; \
                         use a ledger of its own, or the version that wrote it",
                        String::from_utf8_lossy(&key)
                    )
                })
            });
            records.collect()
        });
    read.map_err(|message| Error::new(ErrorKind::Ledger, message))
}

/// Writes all or none of these records, durably on return.
pub(crate) fn write(
    ledger: &mut dyn Ledger,
    records: &[(Arc<str>, Record)],
) -> Result<(), LedgerError> {
    let claims = records.iter().map(|(name, record)| {
        let is_empty = *record == Record::default();
        let claim = if is_empty { Claim::NotOurs } else { Claim::Ours(record.to_bytes()) };
        (name.as_bytes().to_vec(), claim)
    });
    ledger.commit_outcomes(claims.collect())
}

impl Record {
    /// Encodes the record for a ledger.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut value = vec![VERSION];
        value.extend(self.refreshes.to_be_bytes());
        put_names(&mut value, &self.intent);
        if let Some(made) = &self.made {
            value.extend(made.place.to_be_bytes());
            put_names(&mut value, &made.after);
            value.extend(&*made.undo);
        }
        value
    }

    /// Decodes a value that this or an earlier version of [`to_bytes`](Self::to_bytes) wrote;
    /// `None` if it has another form.
    pub fn from_bytes(value: &[u8]) -> Option<Record> {
        let (&version, rest) = value.split_first()?;
        let (refreshes, rest) = number(rest)?;
        let (intent, made) = match version {
            BEFORE_MADE => (names(rest, None)?.0, None),
            VERSION => {
                let (intent, rest) = counted_names(rest)?;
                (intent, made(rest)?)
            }
            _ => return None,
        };
        Some(Record { refreshes, intent, made })
    }
}

fn put_names(value: &mut Vec<u8>, names: &[Arc<str>]) {
    // A name too long for this length field is too long for a ledger's key, too.
    value.extend((names.len() as u32).to_be_bytes());
    for name in names {
        value.extend((name.len() as u32).to_be_bytes());
        value.extend(name.as_bytes());
    }
}

fn made(rest: &[u8]) -> Option<Option<Made>> {
    if rest.is_empty() {
        return Some(None);
    }
    let (place, rest) = rest.split_first_chunk()?;
    let (after, undo) = counted_names(rest)?;
    Some(Some(Made { place: u64::from_be_bytes(*place), after, undo: undo.into() }))
}

fn counted_names(bytes: &[u8]) -> Option<(Vec<Arc<str>>, &[u8])> {
    let (count, rest) = number(bytes)?;
    names(rest, Some(count))
}

/// Reads `count` names, or all that follow if it is `None`.
fn names(mut rest: &[u8], count: Option<u32>) -> Option<(Vec<Arc<str>>, &[u8])> {
    let mut names = Vec::new();
    while count.map_or(!rest.is_empty(), |count| names.len() < count as usize) {
        let (len, after_len) = number(rest)?;
        let (name, others) = after_len.split_at_checked(len as usize)?;
        names.push(std::str::from_utf8(name).ok()?.into());
        rest = others;
    }
    Some((names, rest))
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}
