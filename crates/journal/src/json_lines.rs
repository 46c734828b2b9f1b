//! Records as lines of JSON, for people and for other programs. trueup does not read them back.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use trueup_reconcile::Claim;

use crate::Error;
use crate::database::ReadTable;
use crate::keys::KeyState;
use crate::ledger::{parse_claim, parse_record_key};
use crate::operations::{self, OperationState};
use crate::record::{Keyspace, Record, scan, text};
use crate::retention::millis;

/// The keyspaces that are written. The others are indexes of these.
const WRITTEN: [Keyspace; 4] = [
    Keyspace::Operation,
    Keyspace::Key,
    Keyspace::Owned,
    Keyspace::Intent,
];

/// Writes all records.
pub(crate) fn write(records: &ReadTable, out: &mut dyn Write) -> Result<(), Error> {
    let os = |cause: io::Error| Error::os("cannot write the export", cause);
    for_each_record(records, |line| {
        serde_json::to_writer(&mut *out, &line).map_err(|cause| os(cause.into()))?;
        out.write_all(b"\n").map_err(os)
    })?;
    out.flush().map_err(os)
}

/// The number of records of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Operations.
    pub operations: u64,
    /// Idempotency keys.
    pub keys: u64,
    /// Owned keys in ledgers.
    pub owned: u64,
    /// Open intents in ledgers.
    pub intents: u64,
}

/// Reads every record, and counts them.
pub(crate) fn count(records: &ReadTable) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    for_each_record(records, |line| {
        let count = match line {
            Line::Operation { .. } => &mut counts.operations,
            Line::Key { .. } => &mut counts.keys,
            Line::Owned { .. } => &mut counts.owned,
            Line::Intent { .. } => &mut counts.intents,
        };
        *count += 1;
        Ok(())
    })?;
    Ok(counts)
}

fn for_each_record(
    records: &ReadTable,
    mut visit: impl FnMut(Line) -> Result<(), Error>,
) -> Result<(), Error> {
    for space in WRITTEN {
        for entry in scan(records, &space.key(&[]))? {
            visit(Line::parse(records, space, entry?)?)?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line {
    Operation {
        name: String,
        state: &'static str,
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
        answer: Option<Bytes>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ended: Option<u64>,
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
    fn parse(records: &ReadTable, space: Keyspace, (key, value): Record) -> Result<Line, Error> {
        match space {
            Keyspace::Key => {
                let (state, answer, ended) = match KeyState::parse(&value, false)? {
                    KeyState::Succeeded { answer, at } => {
                        ("succeeded", Some(Bytes(answer)), Some(millis(at)))
                    }
                    KeyState::InProgress | KeyState::InDoubt => ("reserved", None, None),
                };
                Ok(Line::Key {
                    key: Bytes(key),
                    state,
                    answer,
                    ended,
                })
            }
            Keyspace::Owned => Ok(Line::Owned {
                at: LedgerKey::parse(&key)?,
                value: Bytes(value),
            }),
            Keyspace::Intent => {
                let (intended, value) = match parse_claim(&value)? {
                    Claim::Ours(value) => ("ours", Some(Bytes(value))),
                    Claim::NotOurs => ("not ours", None),
                };
                let at = LedgerKey::parse(&key)?;
                Ok(Line::Intent {
                    at,
                    intended,
                    value,
                })
            }
            _ => {
                let stored = operations::read(records, &text(&key)?, &value)?;
                let (state, task, why) = match stored.state {
                    OperationState::Started => ("started", None, None),
                    OperationState::Running(task) => ("running", Some(task), None),
                    OperationState::Succeeded => ("succeeded", None, None),
                    OperationState::Failed(why) => ("failed", None, Some(why)),
                };
                Ok(Line::Operation {
                    name: stored.name,
                    state,
                    task,
                    why,
                    ended: stored.ended.map(millis),
                    what: Bytes(stored.what),
                })
            }
        }
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
