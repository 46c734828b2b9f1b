//! Idempotency keys: each is held by the operation that began with it, and has its outcome.

use std::collections::HashSet;
use std::time::SystemTime;

use crate::Error;
use crate::operation::Outcome;
use crate::record::{Decoder, Encoder, Keyspace, Record, Transaction};
use crate::retention::{Ended, millis, time};

/// The state of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// A caller in this process executes the operation of this name.
    InProgress {
        /// The name of the operation.
        operation: String,
    },
    /// The operation is in flight, and no caller in this process executes it: look, then
    /// [resume](crate::Operations::resume) it.
    InDoubt {
        /// The name of the operation.
        operation: String,
    },
    /// The operation has ended.
    Ended {
        /// Its outcome.
        outcome: Outcome,
        /// The time of its end, in whole milliseconds.
        at: SystemTime,
    },
}

/// Records that the operation `name` has the key.
pub(crate) fn reserve(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    name: &str,
) -> Result<(), Error> {
    let record = Encoder::default().u8(0).bytes(name.as_bytes());
    transaction.put(&Keyspace::Key.key(key), &record.0)
}

/// Records the outcome of the key.
pub(crate) fn end(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    outcome: Outcome,
    now: SystemTime,
) -> Result<(), Error> {
    let number = transaction.next();
    let (state, answer) = match outcome {
        Outcome::Succeeded(answer) => (1, answer),
        Outcome::Failed(why) => (2, why.into_bytes()),
        Outcome::Compensated(why) => (3, why.into_bytes()),
    };
    let record = Encoder::default()
        .u8(state)
        .u64(number)
        .u64(millis(now))
        .bytes(&answer);
    transaction.put(&Keyspace::Key.key(key), &record.0)
}

/// Removes the key.
pub(crate) fn free(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<(), Error> {
    transaction.remove(&Keyspace::Key.key(key))
}

/// Returns the record of a key whose operation has ended, as one that may be forgotten.
pub(crate) fn ended((key, value): Record) -> Option<Ended> {
    let mut fields = Decoder(&value);
    if fields.u8().ok()? == 0 {
        return None;
    }
    Some(Ended {
        number: fields.u64().ok()?,
        at: time(fields.u64().ok()?),
        name: key,
    })
}

impl KeyState {
    /// Parses a record. The operations that a caller in this process executes are `held`: that is
    /// not on disk.
    pub(crate) fn parse(value: &[u8], held: &HashSet<String>) -> Result<KeyState, Error> {
        let mut fields = Decoder(value);
        let state = fields.u8()?;
        let parsed = if state == 0 {
            let operation = fields.string()?;
            match held.contains(&operation) {
                true => KeyState::InProgress { operation },
                false => KeyState::InDoubt { operation },
            }
        } else {
            let _number = fields.u64()?;
            let at = time(fields.u64()?);
            let outcome = match state {
                1 => Outcome::Succeeded(fields.bytes()?.to_vec()),
                2 => Outcome::Failed(fields.string()?),
                3 => Outcome::Compensated(fields.string()?),
                _ => return Err(Error::unreadable("a key is in no known state")),
            };
            KeyState::Ended { outcome, at }
        };
        fields.end()?;
        Ok(parsed)
    }
}
