//! The record of an operation: its fields, its states, its encoding, and its retention.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::record::{Decoder, Encoder, Keyspace, Record, Transaction, millis, text, time};
use crate::{Error, Refusal};

/// The latest record of an operation. `Debug` shows the length of its values, not their bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// The operation's name, chosen by the caller.
    pub name: String,
    /// The object that it acts on; empty if none was given. It is the key of its backoff.
    pub object: Vec<u8>,
    /// The description given when it began.
    pub what: Vec<u8>,
    /// The idempotency key; empty if it has none.
    pub key: Vec<u8>,
    /// The last recorded step; empty if there was none.
    pub step: Vec<u8>,
    /// The last recorded task id for this step; `None` if there is none.
    pub task: Option<String>,
    /// The progress or the outcome.
    pub state: OperationState,
    /// The time when it ended, in whole milliseconds; `None` while it is in flight.
    pub ended: Option<SystemTime>,
}

/// The progress of an operation, up to its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationState {
    /// It was begun, or its next step was, and no task is recorded for it.
    Started,
    /// Another system executes it, as [`Operation::task`].
    Running,
    /// It is in flight, and its outcome cannot be found out at the moment, for this reason.
    InDoubt(String),
    /// The operation took effect.
    Succeeded,
    /// The operation failed; the text is the reason that its executor gave.
    Failed(String),
    /// The operation took effect in part and was undone, for this reason.
    Compensated(String),
}

/// The end of an operation: from then on the answer to its idempotency key. `Debug` shows the
/// length of an answer, not its bytes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The operation took effect, with this answer.
    Succeeded(Vec<u8>),
    /// The operation failed; the text is the reason that its executor gave.
    Failed(String),
    /// The operation took effect in part and was undone, for this reason.
    Compensated(String),
}

impl OperationState {
    /// True if the operation is no longer in flight.
    pub fn is_ended(&self) -> bool {
        use OperationState::{Compensated, Failed, InDoubt, Running, Started, Succeeded};
        match self {
            Started | Running | InDoubt(_) => false,
            Succeeded | Failed(_) | Compensated(_) => true,
        }
    }

    /// Returns the state as a word, and the reason.
    pub(crate) fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            OperationState::Started => ("started", None),
            OperationState::Running => ("running", None),
            OperationState::InDoubt(why) => ("in_doubt", Some(why)),
            OperationState::Succeeded => ("succeeded", None),
            OperationState::Failed(why) => ("failed", Some(why)),
            OperationState::Compensated(why) => ("compensated", Some(why)),
        }
    }
}

impl Outcome {
    pub(crate) fn state(&self) -> OperationState {
        match self {
            Outcome::Succeeded(_) => OperationState::Succeeded,
            Outcome::Failed(why) => OperationState::Failed(why.clone()),
            Outcome::Compensated(why) => OperationState::Compensated(why.clone()),
        }
    }
}

/// Shows the length of bytes that may be a secret.
pub(crate) struct Redacted<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} bytes)", self.0.len())
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("name", &self.name)
            .field("object", &String::from_utf8_lossy(&self.object))
            .field("what", &Redacted(&self.what))
            .field("key", &Redacted(&self.key))
            .field("step", &Redacted(&self.step))
            .field("task", &self.task)
            .field("state", &self.state)
            .field("ended", &self.ended)
            .finish()
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Succeeded(answer) => {
                f.debug_tuple("Succeeded").field(&Redacted(answer)).finish()
            }
            Outcome::Failed(why) => f.debug_tuple("Failed").field(why).finish(),
            Outcome::Compensated(why) => f.debug_tuple("Compensated").field(why).finish(),
        }
    }
}

/// The record of an operation as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredOperation {
    /// The number of its start while it is in flight, then the number of its end.
    pub(crate) number: u64,
    pub(crate) operation: Operation,
}

/// Returns the record of an ended operation, which may be forgotten.
pub(crate) fn ended((name, value): Record) -> Option<Ended> {
    let StoredOperation { number, operation } =
        StoredOperation::parse(&text(&name).ok()?, &value).ok()?;
    Some(Ended { number, at: operation.ended?, name })
}

impl StoredOperation {
    pub(crate) fn load(
        transaction: &Transaction<'_>,
        name: &str,
    ) -> Result<Option<StoredOperation>, Error> {
        let value = transaction.get(&Keyspace::Operation.key(name.as_bytes()))?;
        value.map(|value| StoredOperation::parse(name, &value)).transpose()
    }

    /// Refuses an operation that has ended or does not exist.
    pub(crate) fn require_in_flight(
        found: Option<StoredOperation>,
        name: &str,
    ) -> Result<StoredOperation, Error> {
        match found {
            None => Err(Error::refused(Refusal::NoOperation, name)),
            Some(stored) if stored.operation.state.is_ended() => {
                Err(Error::refused(Refusal::Ended, name))
            }
            Some(stored) => Ok(stored),
        }
    }

    pub(crate) fn save(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let (state, why) = match &self.operation.state {
            // With a task it is running.
            OperationState::Started | OperationState::Running => (0, ""),
            OperationState::InDoubt(why) => (1, why.as_str()),
            OperationState::Succeeded => (2, ""),
            OperationState::Failed(why) => (3, why.as_str()),
            OperationState::Compensated(why) => (4, why.as_str()),
        };
        let task = self.operation.task.as_deref().unwrap_or_default();
        let ended = self.operation.ended.map_or(0, millis);
        let value = Encoder::default()
            .u64(self.number)
            .u8(state)
            .u64(ended)
            .bytes(why.as_bytes())
            .bytes(task.as_bytes())
            .bytes(&self.operation.object)
            .bytes(&self.operation.key)
            .bytes(&self.operation.step)
            .bytes(&self.operation.what);
        let name = self.operation.name.as_bytes();
        transaction.put(&Keyspace::Operation.key(name), &value.0)
    }

    pub(crate) fn parse(name: &str, value: &[u8]) -> Result<StoredOperation, Error> {
        let mut fields = Decoder(value);
        let number = fields.u64()?;
        let state = fields.u8()?;
        let ended = time(fields.u64()?);
        let why = fields.string()?;
        let task = Some(fields.string()?).filter(|task| !task.is_empty());
        let object = fields.bytes()?.to_vec();
        let key = fields.bytes()?.to_vec();
        let step = fields.bytes()?.to_vec();
        let what = fields.bytes()?.to_vec();
        fields.end()?;
        let state = match state {
            0 if task.is_none() => OperationState::Started,
            0 => OperationState::Running,
            1 => OperationState::InDoubt(why),
            2 => OperationState::Succeeded,
            3 => OperationState::Failed(why),
            4 => OperationState::Compensated(why),
            _ => return Err(Error::unreadable("an operation is in no known state")),
        };
        let ended = state.is_ended().then_some(ended);
        let operation =
            Operation { name: name.to_owned(), object, what, key, step, task, state, ended };
        Ok(StoredOperation { number, operation })
    }

    /// Records its end.
    pub(crate) fn end(
        &mut self,
        transaction: &mut Transaction<'_>,
        state: OperationState,
        now: SystemTime,
    ) -> Result<(), Error> {
        self.number = transaction.next();
        self.operation.state = state;
        self.operation.ended = Some(now);
        self.save(transaction)
    }
}

/// The ended operations, or their keys, to keep. There is no default, because an operation with a
/// forgotten key can be executed again.
///
/// ```
/// use std::time::SystemTime;
/// use trueup_journal::{Journal, Keep, Start};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-keep-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let journal = Journal::open(folder.join("journal"))?;
/// for name in ["one", "two", "three"] {
///     let Ok(execution) = journal.begin(Start::new(name, b""))? else { continue };
///     execution.succeeded(b"", SystemTime::now())?;
/// }
/// assert_eq!(journal.forget_operations(Keep::Latest(1))?, 2);
/// # drop(journal);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Keeps records that ended at most `than` before `now`, and all later ones, in case the clock
    /// was set back.
    Younger {
        /// The greatest age, in whole milliseconds.
        than: Duration,
        /// The current time.
        now: SystemTime,
    },
    /// Keeps this many, the latest in the order in which they ended.
    Latest(u64),
}

/// A record that may be forgotten.
pub(crate) struct Ended {
    /// The number of its end.
    pub(crate) number: u64,
    /// The time of its end.
    pub(crate) at: SystemTime,
    /// The operation's name, or the key.
    pub(crate) name: Vec<u8>,
}

impl Keep {
    /// Returns the records to forget.
    pub(crate) fn surplus(self, mut ended: Vec<Ended>) -> Vec<Ended> {
        match self {
            Keep::Latest(count) => {
                ended.sort_unstable_by_key(|record| record.number);
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                ended.truncate(ended.len().saturating_sub(count));
            }
            Keep::Younger { than, now } => ended.retain(|record| {
                let age = millis(now).saturating_sub(millis(record.at));
                u128::from(age) > than.as_millis()
            }),
        }
        ended
    }
}
