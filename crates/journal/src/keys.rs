//! Idempotency keys: an action with a key is executed once, across restarts.
//!
//! One step looks a key up and records it. A key that was reserved and has no recorded outcome,
//! because the process died, is in doubt: it is not executed again until the caller has looked and
//! resolves it.

use std::sync::Arc;
use std::time::SystemTime;

use crate::operations::{OperationState, StoredOperation};
use crate::record::{
    Decoder, Encoder, Keyspace, MAX_KEY, MAX_VALUE, Transaction, check_len, get, scan,
};
use crate::retention::{Keep, millis, time};
use crate::store::Store;
use crate::{Error, Refusal};

/// The idempotency keys in a journal.
#[derive(Clone, Debug)]
pub struct Keys {
    store: Arc<Store>,
}

/// The answer of [`Keys::reserve`].
#[derive(Debug)]
pub enum Reserved {
    /// The caller executes the key, and then records its outcome in the reservation.
    Execute(Reservation),
    /// Another caller in this process is executing the key.
    InProgress,
    /// The key succeeded, with this answer.
    Succeeded(Vec<u8>),
    /// The key was reserved, and its outcome is not known. Look, then [`Keys::resolve`] it.
    InDoubt,
}

/// The recorded state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyState {
    /// A caller in this process is executing it.
    InProgress,
    /// It succeeded.
    Succeeded {
        /// The answer for every later caller.
        answer: Vec<u8>,
        /// The time of the success, in whole milliseconds.
        at: SystemTime,
    },
    /// It was reserved, and its outcome is not known.
    InDoubt,
}

/// The outcome of a key in doubt, as the caller found it by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It took effect, with this answer.
    Succeeded(Vec<u8>),
    /// It had no effect: the key can be reserved again.
    NotExecuted,
}

/// The outcome of an operation and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It took effect: operation and key have succeeded, the key with this answer.
    Succeeded(Vec<u8>),
    /// It had no effect, for this reason: the operation has failed, and the key can be reserved
    /// again.
    Failed(String),
}

/// The right to execute a key. Dropped without an outcome, it leaves the key in doubt.
#[derive(Debug)]
#[must_use = "dropped, it leaves the key in doubt"]
pub struct Reservation {
    store: Arc<Store>,
    key: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Keys { store }
    }

    /// Reserves `key`, or returns why there is nothing to execute. Of all callers that ask at once,
    /// one gets the reservation.
    ///
    /// An empty key is no key: each caller is to execute, and nothing is recorded.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the key is longer than 65536 bytes; as every write
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// and then nothing may be executed.
    pub fn reserve(&self, key: &[u8]) -> Result<Reserved, Error> {
        check_len("a key", key, MAX_KEY)?;
        let reservation = || Reservation {
            store: Arc::clone(&self.store),
            key: key.to_vec(),
        };
        if key.is_empty() {
            return Ok(Reserved::Execute(reservation()));
        }
        // Most repeated requests find success, which costs no write.
        if let Some(KeyState::Succeeded { answer, .. }) = self.state(key)? {
            return Ok(Reserved::Succeeded(answer));
        }
        let (wanted, held_keys) = (key.to_vec(), Arc::clone(self.store.held_keys()));
        let found = self.store.write(move |transaction| {
            let record = Keyspace::Key.key(&wanted);
            let mut held = held_keys.lock();
            match transaction.get(&record)? {
                Some(value) => KeyState::parse(&value, held.contains(&wanted)).map(Some),
                None => {
                    transaction.put(&record, &KeyState::InProgress.encode())?;
                    held.insert(wanted);
                    Ok(None)
                }
            }
        })?;
        Ok(match found {
            None => Reserved::Execute(reservation()),
            Some(KeyState::InProgress) => Reserved::InProgress,
            Some(KeyState::Succeeded { answer, .. }) => Reserved::Succeeded(answer),
            Some(KeyState::InDoubt) => Reserved::InDoubt,
        })
    }

    /// Returns the recorded state of `key`.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn state(&self, key: &[u8]) -> Result<Option<KeyState>, Error> {
        let held = self.store.held_keys().lock();
        self.store.read(move |records| {
            // The table is open: the lock is not needed any more.
            let is_held = held.contains(key);
            drop(held);
            let value = get(records, &Keyspace::Key.key(key))?;
            value
                .map(|value| KeyState::parse(&value, is_held))
                .transpose()
        })
    }

    /// Returns the keys in doubt, in the order of their bytes.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn in_doubt(&self) -> Result<Vec<Vec<u8>>, Error> {
        let held = self.store.held_keys().lock();
        self.store.read(move |records| {
            // Copied, because the table is open: the lock is not needed any more.
            let in_progress = held.clone();
            drop(held);
            let mut found = Vec::new();
            for entry in scan(records, &Keyspace::Key.key(&[]))? {
                let (key, value) = entry?;
                if KeyState::parse(&value, in_progress.contains(&key))? == KeyState::InDoubt {
                    found.push(key);
                }
            }
            Ok(found)
        })
    }

    /// Records the outcome of a key in doubt, at the time `now`.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NotReserved`](Refusal::NotReserved),
    /// [`InProgress`](Refusal::InProgress) or [`Succeeded`](Refusal::Succeeded);
    /// [`Invalid`](crate::ErrorKind::Invalid) if the answer is longer than 16 MiB; otherwise as
    /// every write.
    pub fn resolve(
        &self,
        key: &[u8],
        resolution: Resolution,
        now: SystemTime,
    ) -> Result<(), Error> {
        commit_outcome(&self.store, key, None, resolution.into(), now, false)
    }

    /// Records the outcome of `operation` and its key in doubt, at the time `now`, in one commit:
    /// after a crash both have ended, or neither. With an empty key, which is none, only the
    /// operation ends.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve), and [`Refused`](crate::ErrorKind::Refused) with
    /// [`NoOperation`](Refusal::NoOperation) or [`Ended`](Refusal::Ended). After an error neither
    /// has ended.
    pub fn end(
        &self,
        key: &[u8],
        operation: &str,
        ending: Ending,
        now: SystemTime,
    ) -> Result<(), Error> {
        commit_outcome(&self.store, key, Some(operation), ending, now, false)
    }

    /// Forgets keys that succeeded, except those to `keep`: forgotten keys can be executed again.
    /// Keys in progress or in doubt stay. Returns the number of keys forgotten.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget(&self, keep: Keep) -> Result<u64, Error> {
        self.store.write(move |transaction| {
            let forgotten = keep.prune(transaction, Keyspace::Succeeded)?;
            for key in &forgotten {
                transaction.remove(&Keyspace::Key.key(key))?;
            }
            Ok(forgotten.len() as u64)
        })
    }
}

impl Reservation {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Records that the key took effect at the time `now`, and the answer for later callers.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the answer is longer than 16 MiB; otherwise as
    /// every write. The key is in doubt then.
    pub fn succeeded(self, answer: &[u8], now: SystemTime) -> Result<(), Error> {
        let ending = Ending::Succeeded(answer.to_vec());
        commit_outcome(&self.store, &self.key, None, ending, now, true)
    }

    /// Frees the key: the caller is certain that there was no effect.
    ///
    /// # Errors
    ///
    /// As every write. The key is in doubt then.
    pub fn not_executed(self) -> Result<(), Error> {
        let (ending, now) = (Resolution::NotExecuted.into(), SystemTime::UNIX_EPOCH);
        commit_outcome(&self.store, &self.key, None, ending, now, true)
    }

    /// Records the outcome of `operation` and this key, at the time `now`, in one commit: after a
    /// crash both have ended, or neither.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NoOperation`](Refusal::NoOperation) or
    /// [`Ended`](Refusal::Ended); [`Invalid`](crate::ErrorKind::Invalid) if the answer or the
    /// reason is longer than 16 MiB; otherwise as every write. The key is in doubt then, and the
    /// operation as it was.
    pub fn end(self, operation: &str, ending: Ending, now: SystemTime) -> Result<(), Error> {
        commit_outcome(&self.store, &self.key, Some(operation), ending, now, true)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.store.held_keys().lock().remove(&self.key);
    }
}

impl From<Resolution> for Ending {
    fn from(resolution: Resolution) -> Ending {
        match resolution {
            Resolution::Succeeded(answer) => Ending::Succeeded(answer),
            Resolution::NotExecuted => Ending::Failed(String::new()),
        }
    }
}

/// Records the outcome of a key, and of its operation if there is one. Everything is checked before
/// the first write, so that a refusal writes nothing. `is_holder` is true if the caller has the
/// reservation; otherwise no thread may have it.
fn commit_outcome(
    store: &Arc<Store>,
    key: &[u8],
    operation: Option<&str>,
    ending: Ending,
    now: SystemTime,
    is_holder: bool,
) -> Result<(), Error> {
    match &ending {
        Ending::Succeeded(answer) => check_len("an answer", answer, MAX_VALUE)?,
        Ending::Failed(why) => check_len("a reason", why.as_bytes(), MAX_VALUE)?,
    }
    let held_keys = Arc::clone(store.held_keys());
    let key = key.to_vec();
    let operation = operation.map(str::to_owned);
    store.write(move |transaction| {
        // Without a key only the operation ends.
        let has_key = !(key.is_empty() && (is_holder || operation.is_some()));
        if has_key {
            let is_held = held_keys.lock().contains(&key);
            check_open(transaction, &key, is_held, is_holder)?;
        }
        if let Some(name) = operation {
            let state = match &ending {
                Ending::Succeeded(_) => OperationState::Succeeded,
                Ending::Failed(why) => OperationState::Failed(why.clone()),
            };
            StoredOperation::in_flight(transaction, &name)?.end(transaction, state, now)?;
        }
        let record = Keyspace::Key.key(&key);
        match ending {
            _ if !has_key => Ok(()),
            Ending::Failed(_) => transaction.remove(&record),
            Ending::Succeeded(answer) => {
                let number = transaction.next();
                let index = Encoder::default().u64(millis(now)).bytes(&key);
                transaction.put(&Keyspace::Succeeded.numbered(number), &index.0)?;
                transaction.put(&record, &KeyState::Succeeded { answer, at: now }.encode())
            }
        }
    })
}

/// Refuses a key whose outcome is recorded, or that another caller executes.
fn check_open(
    transaction: &Transaction<'_>,
    key: &[u8],
    is_held: bool,
    is_holder: bool,
) -> Result<(), Error> {
    let refused = |refusal| Err(Error::refused(refusal, String::from_utf8_lossy(key)));
    let Some(value) = transaction.get(&Keyspace::Key.key(key))? else {
        return refused(Refusal::NotReserved);
    };
    match KeyState::parse(&value, is_held)? {
        KeyState::Succeeded { .. } => refused(Refusal::Succeeded),
        KeyState::InProgress if !is_holder => refused(Refusal::InProgress),
        KeyState::InProgress | KeyState::InDoubt => Ok(()),
    }
}

impl KeyState {
    fn encode(&self) -> Vec<u8> {
        match self {
            KeyState::Succeeded { answer, at } => {
                Encoder::default().u8(1).u64(millis(*at)).bytes(answer).0
            }
            KeyState::InProgress | KeyState::InDoubt => Encoder::default().u8(0).0,
        }
    }

    /// Parses a record. A reserved key is in progress if `is_held`, and in doubt otherwise: the
    /// difference is not on disk.
    pub(crate) fn parse(value: &[u8], is_held: bool) -> Result<KeyState, Error> {
        let mut fields = Decoder(value);
        match fields.u8()? {
            0 if is_held => Ok(KeyState::InProgress),
            0 => Ok(KeyState::InDoubt),
            1 => {
                let at = time(fields.u64()?);
                let answer = fields.bytes()?.to_vec();
                Ok(KeyState::Succeeded { answer, at })
            }
            _ => Err(Error::damaged("a key is in no known state")),
        }
    }
}
