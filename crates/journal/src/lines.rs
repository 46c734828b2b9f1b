//! Records as lines of JSON, for people and for other programs. Not read back by anything here.

use std::io::{self, Write};

use serde::{Serialize, Serializer};
use trueup_reconcile::Claim;

use crate::Error;
use crate::keys::KeyState;
use crate::ledger::{parse_claim, parse_place};
use crate::opening::View;
use crate::operations::{self, OperationState};
use crate::record::{Record, Space, scan, text};
use crate::retention::millis;

/// The spaces that are told. The others only find records of these.
const TOLD: [Space; 4] = [Space::Operation, Space::Key, Space::Owned, Space::Intent];

/// Writes all records.
pub(crate) fn write(view: &View, out: &mut dyn Write) -> Result<(), Error> {
    let os = |cause: io::Error| Error::os("cannot write the export", cause);
    each(view, |line| {
        serde_json::to_writer(&mut *out, &line).map_err(|cause| os(cause.into()))?;
        out.write_all(b"\n").map_err(os)
    })?;
    out.flush().map_err(os)
}

/// How many records there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Operations.
    pub operations: u64,
    /// Idempotency keys.
    pub keys: u64,
    /// Keys that a ledger says are owned.
    pub owned: u64,
    /// Intents whose outcome is not recorded.
    pub intents: u64,
}

/// Reads every record, and counts.
pub(crate) fn count(view: &View) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    each(view, |line| {
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

fn each(view: &View, mut tell: impl FnMut(Line) -> Result<(), Error>) -> Result<(), Error> {
    for space in TOLD {
        for entry in scan(view, &space.key(&[]))? {
            tell(Line::parse(view, space, entry?)?)?;
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
        place: Place,
        value: Bytes,
    },
    Intent {
        #[serde(flatten)]
        place: Place,
        intended: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<Bytes>,
    },
}

#[derive(Serialize)]
struct Place {
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
    fn parse(view: &View, space: Space, (key, value): Record) -> Result<Line, Error> {
        match space {
            Space::Key => {
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
            Space::Owned => Ok(Line::Owned {
                place: Place::parse(&key)?,
                value: Bytes(value),
            }),
            Space::Intent => {
                let (intended, value) = match parse_claim(&value)? {
                    Claim::Ours(value) => ("ours", Some(Bytes(value))),
                    Claim::NotOurs => ("not ours", None),
                };
                let place = Place::parse(&key)?;
                Ok(Line::Intent {
                    place,
                    intended,
                    value,
                })
            }
            _ => {
                let stored = operations::read(view, &text(&key)?, &value)?;
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

impl Place {
    fn parse(key: &[u8]) -> Result<Place, Error> {
        let (source, scope, key) = parse_place(key)?;
        Ok(Place {
            source,
            namespace: scope.namespace().to_owned(),
            boot: scope.boot().to_owned(),
            key: Bytes(key),
        })
    }
}
