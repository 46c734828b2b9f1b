//! Records as lines of JSON, for people and other programs. trueup does not read them back.

use std::collections::HashSet;
use std::io::{self, Write};

use serde::{Serialize, Serializer};
use trueup_reconcile::Claim;

use crate::Error;
use crate::backoffs::Backoff;
use crate::database::ReadTable;
use crate::keys::KeyState;
use crate::ledger::{parse_claim, parse_record_key};
use crate::operation::{Outcome, StoredOperation};
use crate::record::{Decoder, Keyspace, Record, get, millis, scan, text};

/// The keyspaces to write. The others are indexes of these.
const WRITTEN: [Keyspace; 6] = [
    Keyspace::Operation,
    Keyspace::Key,
    Keyspace::Nonce,
    Keyspace::Backoff,
    Keyspace::Owned,
    Keyspace::Intent,
];

/// Writes all records, a line each.
pub(crate) fn write(records: &ReadTable, out: &mut dyn Write) -> Result<(), Error> {
    for_each_record(records, |line| {
        serde_json::to_writer(&mut *out, &line).map_err(not_written)?;
        out.write_all(b"\n").map_err(not_written)
    })?;
    out.flush().map_err(not_written)
}

fn not_written(cause: impl Into<io::Error>) -> Error {
    Error::os("cannot write the export", cause)
}

/// The number of a journal's records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// The number of operations, in flight or ended.
    pub operations: u64,
    /// The number of idempotency keys, reserved or ended.
    pub keys: u64,
    /// The number of spent nonces that were not forgotten.
    pub nonces: u64,
    /// The number of objects with a backoff.
    pub backoffs: u64,
    /// The number of owned keys in ledgers.
    pub owned: u64,
    /// The number of open intents in ledgers.
    pub intents: u64,
}

/// Reads every record, and counts them.
pub(crate) fn count(records: &ReadTable) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    for_each_record(records, |line| {
        let count = match line {
            Line::Operation { .. } => &mut counts.operations,
            Line::Key { .. } => &mut counts.keys,
            Line::Nonce { .. } => &mut counts.nonces,
            Line::Backoff { .. } => &mut counts.backoffs,
            Line::Owned { .. } => &mut counts.owned,
            Line::Intent { .. } => &mut counts.intents,
        };
        *count += 1;
        Ok(())
    })?;
    Ok(counts)
}

/// Visits every readable record. Then returns the error of the first unreadable one.
fn for_each_record(
    records: &ReadTable,
    mut visit: impl FnMut(Line) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut first = None;
    let mut unreadable = 0;
    for space in WRITTEN {
        for entry in scan(records, &space.key(&[]))? {
            let entry = entry?;
            let name = entry.0.escape_ascii().to_string();
            match Line::parse(space, entry) {
                Ok(line) => visit(line)?,
                Err(error) if error.is_of_record() => {
                    unreadable += 1;
                    first.get_or_insert(error.and(&format!("it is the record of {name}")));
                }
                Err(error) => return Err(error),
            }
        }
    }
    match first {
        Some(error) => Err(error.and(&format!("{unreadable} in all cannot be read"))),
        None => Ok(()),
    }
}

/// Returns true if a record can be read. A key without its operation could neither be executed nor
/// ended, so it counts as unreadable.
pub(crate) fn is_readable(records: &ReadTable, key: &[u8], value: &[u8]) -> bool {
    let Some((first, rest)) = key.split_first() else {
        return false;
    };
    let Some(space) = WRITTEN.into_iter().find(|space| *space as u8 == *first) else {
        return true;
    };
    match Line::parse(space, (rest.to_vec(), value.to_vec())) {
        Ok(Line::Key { operation: Some(name), .. }) => {
            let value = get(records, &Keyspace::Operation.key(name.as_bytes())).ok().flatten();
            value.is_some_and(|value| StoredOperation::parse(&name, &value).is_ok())
        }
        other => other.is_ok(),
    }
}

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line {
    Operation {
        name: String,
        state: &'static str,
        #[serde(skip_serializing_if = "Bytes::is_empty")]
        object: Bytes,
        #[serde(skip_serializing_if = "Bytes::is_empty")]
        key: Bytes,
        #[serde(skip_serializing_if = "Bytes::is_empty")]
        step: Bytes,
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<u64>,
        what: Bytes,
    },
    Key {
        key: Bytes,
        state: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        operation: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<Bytes>,
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<u64>,
    },
    Nonce {
        nonce: Bytes,
        expires: u64,
    },
    Backoff {
        object: Bytes,
        tries: u32,
        next: u64,
    },
    Owned {
        #[serde(flatten)]
        at: LedgerKey,
        value: Bytes,
    },
    Intent {
        #[serde(flatten)]
        at: LedgerKey,
        intended: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<Bytes>,
    },
}

#[derive(Serialize)]
struct LedgerKey {
    source: String,
    namespace: String,
    boot: String,
    key: Bytes,
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        if let Ok(text) = str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &hex)?;
        map.end()
    }
}

impl Line {
    fn parse(space: Keyspace, (key, value): Record) -> Result<Line, Error> {
        match space {
            Keyspace::Key => {
                Ok(Line::of_key(Bytes(key), KeyState::parse(&value, &HashSet::new())?))
            }
            Keyspace::Nonce => {
                Ok(Line::Nonce { nonce: Bytes(key), expires: Decoder(&value).u64()? })
            }
            Keyspace::Backoff => {
                let Backoff { tries, next } = Backoff::parse(&value)?;
                Ok(Line::Backoff { object: Bytes(key), tries, next: millis(next) })
            }
            Keyspace::Owned => Ok(Line::Owned { at: LedgerKey::parse(&key)?, value: Bytes(value) }),
            Keyspace::Intent => {
                let (intended, value) = match parse_claim(&value)? {
                    Claim::Ours(value) => ("ours", Some(Bytes(value))),
                    Claim::NotOurs => ("not ours", None),
                };
                let at = LedgerKey::parse(&key)?;
                Ok(Line::Intent { at, intended, value })
            }
            _ => {
                let stored = StoredOperation::parse(&text(&key)?, &value)?.operation;
                let (state, why) = stored.state.words();
                Ok(Line::Operation {
                    state,
                    why: why.map(str::to_owned),
                    name: stored.name,
                    object: Bytes(stored.object),
                    key: Bytes(stored.key),
                    step: Bytes(stored.step),
                    task: stored.task,
                    ended: stored.ended.map(millis),
                    what: Bytes(stored.what),
                })
            }
        }
    }

    fn of_key(key: Bytes, state: KeyState) -> Line {
        let (operation, outcome, ended) = match state {
            KeyState::InProgress { operation } | KeyState::InDoubt { operation } => {
                (Some(operation), None, None)
            }
            KeyState::Ended { outcome, at } => (None, Some(outcome), Some(millis(at))),
        };
        let (state, answer, why) = match outcome {
            None => ("reserved", None, None),
            Some(Outcome::Succeeded(answer)) => ("succeeded", Some(Bytes(answer)), None),
            Some(Outcome::Failed(why)) => ("failed", None, Some(why)),
            Some(Outcome::Compensated(why)) => ("compensated", None, Some(why)),
        };
        Line::Key { key, state, operation, answer, why, ended }
    }
}

impl LedgerKey {
    fn parse(key: &[u8]) -> Result<LedgerKey, Error> {
        let (source, scope, key) = parse_record_key(key)?;
        Ok(LedgerKey {
            source,
            namespace: scope.namespace().to_owned(),
            boot: scope.boot().to_owned(),
            key: Bytes(key),
        })
    }
}
