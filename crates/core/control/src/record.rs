//! The journal's record of an operation: its action without secrets, and its start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Action, Change, Error, ErrorKind, Value, Verb};

/// The journal's record of an operation. A secret is marked as such, without its text: the action's
/// effect is judged by its other fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) action: Action,
    /// The name of the request to the backend.
    pub(crate) request: String,
    /// True if a job asked for the action, not a plan.
    pub(crate) is_job: bool,
    /// True if the same action was done before, and its object read back with another value.
    pub(crate) is_again: bool,
    /// The time of its start, in milliseconds since 1970.
    pub(crate) started: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    key: String,
    verb: StoredVerb,
    changes: Vec<StoredChange>,
    run_state: Option<StoredChange>,
    reason: String,
    request: String,
    job: bool,
    again: bool,
    started: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredVerb {
    Create,
    Configure,
    SetRunState,
    Destroy,
    Other(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredChange {
    field: String,
    old: Option<StoredValue>,
    new: StoredValue,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredValue {
    Text(String),
    Secret,
}

const VERSION: u32 = 1;

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let action = &self.action;
        let stored = Stored {
            version: VERSION,
            key: action.key.clone(),
            verb: match &action.verb {
                Verb::Create => StoredVerb::Create,
                Verb::Configure => StoredVerb::Configure,
                Verb::SetRunState => StoredVerb::SetRunState,
                Verb::Destroy => StoredVerb::Destroy,
                Verb::Other(verb) => StoredVerb::Other(verb.clone()),
            },
            changes: action.changes.iter().map(StoredChange::from).collect(),
            run_state: action.run_state.as_ref().map(StoredChange::from),
            reason: action.reason.clone(),
            request: self.request.clone(),
            job: self.is_job,
            again: self.is_again,
            started: self.started,
        };
        // Texts, numbers and lists of them always serialise.
        serde_json::to_vec(&stored).unwrap_or_default()
    }

    /// Encodes an action without its secrets.
    pub(crate) fn definition(action: Action) -> Vec<u8> {
        let record =
            Record { action, request: String::new(), is_job: true, is_again: false, started: 0 };
        record.encode()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record, Error> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(|error| {
            let message = "the record of the operation cannot be read";
            Error::new(ErrorKind::Malformed, message).with_source(error)
        })?;
        if stored.version != VERSION {
            let message = format!(
                "the record of the operation has version {}, not {VERSION}: use the program that \
                 wrote it",
                stored.version
            );
            return Err(Error::new(ErrorKind::Malformed, message));
        }
        let changes = stored.changes.into_iter().map(Change::from);
        Ok(Record {
            action: Action {
                key: stored.key,
                verb: match stored.verb {
                    StoredVerb::Create => Verb::Create,
                    StoredVerb::Configure => Verb::Configure,
                    StoredVerb::SetRunState => Verb::SetRunState,
                    StoredVerb::Destroy => Verb::Destroy,
                    StoredVerb::Other(verb) => Verb::Other(verb),
                },
                changes: changes.collect(),
                run_state: stored.run_state.map(Change::from),
                reason: stored.reason,
            },
            request: stored.request,
            is_job: stored.job,
            is_again: stored.again,
            started: stored.started,
        })
    }

    /// Returns true if the action has the same purpose. Does not compare the texts of secrets.
    pub(crate) fn is_same(&self, action: &Action) -> bool {
        fn new(action: &Action) -> impl Iterator<Item = (&str, bool, &str)> {
            action.all_changes().map(|change| {
                let is_secret = change.new.is_secret();
                let text = if is_secret { "" } else { change.new.expose() };
                (change.field.as_str(), is_secret, text)
            })
        }
        self.action.verb == action.verb && new(&self.action).eq(new(action))
    }

    /// Returns the time of its start.
    pub(crate) fn started(&self) -> SystemTime {
        let after = Duration::from_millis(self.started);
        UNIX_EPOCH.checked_add(after).unwrap_or(UNIX_EPOCH)
    }
}

/// Returns the whole milliseconds of a time since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl From<&Change> for StoredChange {
    fn from(change: &Change) -> StoredChange {
        StoredChange {
            field: change.field.clone(),
            old: change.old.as_ref().map(StoredValue::from),
            new: StoredValue::from(&change.new),
        }
    }
}

impl From<StoredChange> for Change {
    fn from(change: StoredChange) -> Change {
        Change { field: change.field, old: change.old.map(Value::from), new: change.new.into() }
    }
}

impl From<&Value> for StoredValue {
    fn from(value: &Value) -> StoredValue {
        if value.is_secret() {
            StoredValue::Secret
        } else {
            StoredValue::Text(value.expose().to_owned())
        }
    }
}

impl From<StoredValue> for Value {
    fn from(value: StoredValue) -> Value {
        match value {
            StoredValue::Text(text) => Value::new(text),
            StoredValue::Secret => Value::secret(""),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/record.rs"]
mod tests;
