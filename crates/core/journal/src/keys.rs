//! Idempotency keys: each belongs to the operation that began with it, and has its outcome.

use std::collections::HashSet;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use crate::operation::{Ended, Outcome};
use crate::record::{Decoder, Encoder, Keyspace, Record, Transaction, millis, time};
use crate::{Error, Refusal};

/// The answer of an idempotency key: the progress or the outcome of the operation that began with
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// A caller in this process executes the operation of this name.
    InProgress {
        /// The operation's name.
        operation: String,
    },
    /// The operation is in flight, and no caller in this process executes it: find out its state,
    /// then [resume](crate::Journal::resume) it.
    InDoubt {
        /// The operation's name.
        operation: String,
    },
    /// The operation has an outcome, which every later caller with the key gets.
    Ended {
        /// The operation's outcome.
        outcome: Outcome,
        /// The time of its end, in whole milliseconds.
        at: SystemTime,
    },
}

/// A hash that distinguishes the requests of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHash([u8; 32]);

impl RequestHash {
    /// Returns the hash of a request that has several parts.
    pub(crate) fn of(parts: &[&[u8]]) -> RequestHash {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        RequestHash(hash.finalize().into())
    }

    /// Returns the hash at the beginning of a key's record, and the rest of the record.
    fn split(record: &[u8]) -> Result<(RequestHash, &[u8]), Error> {
        let (hash, rest) = record
            .split_first_chunk()
            .ok_or_else(|| Error::unreadable("the record of a key ends early"))?;
        Ok((RequestHash(*hash), rest))
    }

    /// Refuses a key whose record belongs to another request.
    pub(crate) fn check(self, key: &[u8], record: &[u8]) -> Result<(), Error> {
        if RequestHash::split(record)?.0 == self {
            return Ok(());
        }
        Err(Error::refused(Refusal::KeyUsed, String::from_utf8_lossy(key)))
    }
}

/// Records that the operation `name` has the key.
pub(crate) fn reserve(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    name: &str,
    request: RequestHash,
) -> Result<(), Error> {
    let record = Encoder(request.0.to_vec()).u8(0).bytes(name.as_bytes());
    transaction.put(&Keyspace::Key.key(key), &record.0)
}

/// Records the key's outcome.
pub(crate) fn end(
    transaction: &mut Transaction<'_>,
    key: &[u8],
    outcome: Outcome,
    now: SystemTime,
) -> Result<(), Error> {
    let before = transaction.get(&Keyspace::Key.key(key))?;
    let (request, _) = RequestHash::split(
        &before.ok_or_else(|| Error::unreadable("a key that ends has no record"))?,
    )?;
    let number = transaction.next();
    let (state, answer) = match outcome {
        Outcome::Succeeded(answer) => (1, answer),
        Outcome::Failed(why) => (2, why.into_bytes()),
        Outcome::Compensated(why) => (3, why.into_bytes()),
    };
    let record = Encoder(request.0.to_vec()).u8(state).u64(number).u64(millis(now)).bytes(&answer);
    transaction.put(&Keyspace::Key.key(key), &record.0)
}

/// Removes the key.
pub(crate) fn free(transaction: &mut Transaction<'_>, key: &[u8]) -> Result<(), Error> {
    transaction.remove(&Keyspace::Key.key(key))
}

/// Returns the record of an ended operation's key, which may be forgotten.
pub(crate) fn ended((key, value): Record) -> Option<Ended> {
    let mut fields = Decoder(RequestHash::split(&value).ok()?.1);
    if fields.u8().ok()? == 0 {
        return None;
    }
    Some(Ended { number: fields.u64().ok()?, at: time(fields.u64().ok()?), name: key })
}

impl KeyState {
    /// Parses a record. `held` has the operations that a caller in this process executes, because
    /// the disk does not.
    pub(crate) fn parse(value: &[u8], held: &HashSet<String>) -> Result<KeyState, Error> {
        let mut fields = Decoder(RequestHash::split(value)?.1);
        let state = fields.u8()?;
        let parsed = if state == 0 {
            let operation = fields.string()?;
            if held.contains(&operation) {
                KeyState::InProgress { operation }
            } else {
                KeyState::InDoubt { operation }
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
