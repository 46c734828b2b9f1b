//! Idempotency keys: what is to happen once happens once. Not what happens.
//!
//! To look a key up and to record it is one step. A key that was reserved and never settled, because the process died, is in
//! doubt: nobody executes it again until someone who has looked says what came of it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::journal::Inner;
use crate::operations::{OperationState, Stored};
use crate::record::{Fields, Fill, MAX_KEY, MAX_VALUE, Space, Tx, check_len, get, scan};
use crate::retention::{Keep, millis, time};
use crate::{Error, Refusal};

/// The journal's face for idempotency keys.
#[derive(Clone, Debug)]
pub struct Keys {
    inner: Arc<Inner>,
}

/// What [`Keys::reserve`] answers.
#[derive(Debug)]
pub enum Reserved {
    /// Execute it, and settle the reservation.
    Execute(Reservation),
    /// Someone in this process executes it at the moment.
    InProgress,
    /// It has reached success, with this answer.
    Succeeded(Vec<u8>),
    /// It was reserved, and what came of it is not known. Look, then [`Keys::resolve`] it.
    InDoubt,
}

/// What is recorded of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Someone in this process executes it.
    InProgress,
    /// It has reached success.
    Succeeded {
        /// The answer for all who ask.
        answer: Vec<u8>,
        /// When, in milliseconds.
        at: SystemTime,
    },
    /// It was reserved, and what came of it is not known.
    InDoubt,
}

/// What came of a key in doubt, as found out by looking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It took effect, with this answer.
    Succeeded(Vec<u8>),
    /// It had no effect: the key is free again.
    NotExecuted,
}

/// How an operation ends together with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It took effect: the operation has succeeded, and so has the key, with this answer.
    Succeeded(Vec<u8>),
    /// It had no effect, for this reason: the operation has failed, and the key is free again.
    Failed(String),
}

/// The right to execute a key. Dropped without a word, it leaves the key in doubt.
#[derive(Debug)]
#[must_use = "dropped, it leaves the key in doubt"]
pub struct Reservation {
    inner: Arc<Inner>,
    key: Vec<u8>,
}

/// The keys whose reservation someone holds. One comes before its record is durable and goes after its outcome is, so whoever
/// holds the lock while a view is taken knows of each reserved key in the view whether it is in progress.
#[derive(Debug, Default)]
pub(crate) struct Live(Mutex<HashSet<Vec<u8>>>);

impl Live {
    fn keys(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in it, and lets go of it: the view is there.
    fn of(keys: MutexGuard<'_, HashSet<Vec<u8>>>) -> HashSet<Vec<u8>> {
        keys.clone()
    }
}

impl Keys {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Keys { inner }
    }

    /// Reserves `key`, or tells why there is nothing to execute. However many ask at once, one is told to execute.
    ///
    /// An empty key is no key: the answer is to execute, each time, and nothing is recorded. What
    /// is not to run again needs a key.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the key is longer than 65536 bytes; as every write
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly), and then nothing is to be
    /// executed.
    pub fn reserve(&self, key: &[u8]) -> Result<Reserved, Error> {
        check_len("a key", key, MAX_KEY)?;
        let reservation = || Reservation {
            inner: Arc::clone(&self.inner),
            key: key.to_vec(),
        };
        if key.is_empty() {
            return Ok(Reserved::Execute(reservation()));
        }
        // Most that ask again find success: that costs no write.
        if let Some(KeyState::Succeeded { answer, .. }) = self.state(key)? {
            return Ok(Reserved::Succeeded(answer));
        }
        let (wanted, live) = (key.to_vec(), Arc::clone(&self.inner.live));
        let found = self.inner.commits.write(move |tx| {
            let place = Space::Key.key(&wanted);
            let mut live = live.keys();
            match tx.get(&place)? {
                Some(value) => KeyState::parse(&value, live.contains(&wanted)).map(Some),
                None => {
                    tx.put(&place, &KeyState::InProgress.encode())?;
                    live.insert(wanted);
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

    /// What is recorded of `key`.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn state(&self, key: &[u8]) -> Result<Option<KeyState>, Error> {
        let live = self.inner.live.keys();
        self.inner.commits.read(move |view| {
            let live = Live::of(live).contains(key);
            let value = get(view, &Space::Key.key(key))?;
            value.map(|value| KeyState::parse(&value, live)).transpose()
        })
    }

    /// The keys in doubt, in their own order.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn in_doubt(&self) -> Result<Vec<Vec<u8>>, Error> {
        let live = self.inner.live.keys();
        self.inner.commits.read(move |view| {
            let live = Live::of(live);
            let mut found = Vec::new();
            for entry in scan(view, &Space::Key.key(&[]))? {
                let (key, value) = entry?;
                if KeyState::parse(&value, live.contains(&key))? == KeyState::InDoubt {
                    found.push(key);
                }
            }
            Ok(found)
        })
    }

    /// Says what came of a key in doubt, at the time `now`.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NotReserved`](Refusal::NotReserved),
    /// [`InProgress`](Refusal::InProgress) or [`Succeeded`](Refusal::Succeeded); [`Invalid`](crate::ErrorKind::Invalid) if the
    /// answer is longer than 16 MiB; otherwise as every write.
    pub fn resolve(
        &self,
        key: &[u8],
        resolution: Resolution,
        now: SystemTime,
    ) -> Result<(), Error> {
        settle(&self.inner, key, None, resolution.into(), now, false)
    }

    /// Says how `operation` and its key in doubt ended, at the time `now`, in one commit: after a
    /// crash both have ended, or neither. With an empty key, which is none, the operation
    /// alone ends.
    ///
    /// # Errors
    ///
    /// As [`resolve`](Self::resolve), and [`Refused`](crate::ErrorKind::Refused) with
    /// [`NoOperation`](Refusal::NoOperation) or [`Ended`](Refusal::Ended). Of an error neither has
    /// ended.
    pub fn end(
        &self,
        key: &[u8],
        operation: &str,
        ending: Ending,
        now: SystemTime,
    ) -> Result<(), Error> {
        settle(&self.inner, key, Some(operation), ending, now, false)
    }

    /// Forgets keys that have reached success, but for those to `keep`: they can be executed again. Those in progress or in
    /// doubt stay. Returns how many went.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget(&self, keep: Keep) -> Result<u64, Error> {
        self.inner.commits.write(move |tx| {
            let forgotten = keep.forget(tx, Space::Succeeded)?;
            for key in &forgotten {
                tx.remove(&Space::Key.key(key))?;
            }
            Ok(forgotten.len() as u64)
        })
    }
}

impl Reservation {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Records that it took effect, and the answer for all who will ask, at the time `now`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the answer is longer than 16 MiB; otherwise as every write. The key is in
    /// doubt then.
    pub fn succeeded(self, answer: &[u8], now: SystemTime) -> Result<(), Error> {
        let ending = Ending::Succeeded(answer.to_vec());
        settle(&self.inner, &self.key, None, ending, now, true)
    }

    /// Gives the key free again: it is certain that there was no effect.
    ///
    /// # Errors
    ///
    /// As every write. The key is in doubt then.
    pub fn not_executed(self) -> Result<(), Error> {
        let (ending, now) = (Resolution::NotExecuted.into(), SystemTime::UNIX_EPOCH);
        settle(&self.inner, &self.key, None, ending, now, true)
    }

    /// Records how `operation` and this key ended, at the time `now`, in one commit: after a crash
    /// both have ended, or neither.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NoOperation`](Refusal::NoOperation) or
    /// [`Ended`](Refusal::Ended); [`Invalid`](crate::ErrorKind::Invalid) if the answer or the
    /// reason is longer than 16 MiB; otherwise as every write. The key is in doubt then, and the
    /// operation as it was.
    pub fn end(self, operation: &str, ending: Ending, now: SystemTime) -> Result<(), Error> {
        settle(&self.inner, &self.key, Some(operation), ending, now, true)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.inner.live.keys().remove(&self.key);
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

/// Ends a key, and the operation of it if there is one. All is looked at before the first write, so
/// that a refusal writes nothing. `held` says that the caller has the reservation; otherwise no thread
/// may have it.
fn settle(
    inner: &Arc<Inner>,
    key: &[u8],
    operation: Option<&str>,
    ending: Ending,
    now: SystemTime,
    held: bool,
) -> Result<(), Error> {
    match &ending {
        Ending::Succeeded(answer) => check_len("an answer", answer, MAX_VALUE)?,
        Ending::Failed(why) => check_len("a reason", why.as_bytes(), MAX_VALUE)?,
    }
    let live = Arc::clone(&inner.live);
    let key = key.to_vec();
    let operation = operation.map(str::to_owned);
    inner.commits.write(move |tx| {
        // Without a key there is nothing to end but the operation.
        let is_key = !(key.is_empty() && (held || operation.is_some()));
        if is_key {
            check_open(tx, &key, live.keys().contains(&key), held)?;
        }
        if let Some(name) = operation {
            let state = match &ending {
                Ending::Succeeded(_) => OperationState::Succeeded,
                Ending::Failed(why) => OperationState::Failed(why.clone()),
            };
            Stored::in_flight(tx, &name)?.end(tx, state, now)?;
        }
        let place = Space::Key.key(&key);
        match ending {
            _ if !is_key => Ok(()),
            Ending::Failed(_) => tx.remove(&place),
            Ending::Succeeded(answer) => {
                let number = tx.next();
                let index = Fill::default().u64(millis(now)).bytes(&key);
                tx.put(&Space::Succeeded.numbered(number), &index.0)?;
                tx.put(&place, &KeyState::Succeeded { answer, at: now }.encode())
            }
        }
    })
}

/// Refuses a key that has nothing to end.
fn check_open(tx: &Tx<'_>, key: &[u8], live: bool, held: bool) -> Result<(), Error> {
    let refused = |refusal| Err(Error::refused(refusal, String::from_utf8_lossy(key)));
    let Some(value) = tx.get(&Space::Key.key(key))? else {
        return refused(Refusal::NotReserved);
    };
    match KeyState::parse(&value, live)? {
        KeyState::Succeeded { .. } => refused(Refusal::Succeeded),
        KeyState::InProgress if !held => refused(Refusal::InProgress),
        KeyState::InProgress | KeyState::InDoubt => Ok(()),
    }
}

impl KeyState {
    fn encode(&self) -> Vec<u8> {
        match self {
            KeyState::Succeeded { answer, at } => {
                Fill::default().u8(1).u64(millis(*at)).bytes(answer).0
            }
            KeyState::InProgress | KeyState::InDoubt => Fill::default().u8(0).0,
        }
    }

    /// Whether a reserved key is in progress is not on disk: `live` tells.
    pub(crate) fn parse(value: &[u8], live: bool) -> Result<KeyState, Error> {
        let mut fields = Fields(value);
        match fields.u8()? {
            0 if live => Ok(KeyState::InProgress),
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
