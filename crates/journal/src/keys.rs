//! Idempotency keys: what is to happen once happens once. Not what happens.
//!
//! To look a key up and to record it is one step. A key that was reserved and never settled, because the process died, is in
//! doubt: nobody executes it again until someone who has looked says what came of it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::journal::Inner;
use crate::record::{Fields, Fill, MAX_KEY, MAX_VALUE, Space, check_len, get, scan};
use crate::retention::{Keep, millis};
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
    /// It has reached success, with this answer.
    Succeeded(Vec<u8>),
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
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the key is longer than 65536 bytes; as every write
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly), and then nothing is to be
    /// executed.
    pub fn reserve(&self, key: &[u8]) -> Result<Reserved, Error> {
        check_len("a key", key, MAX_KEY)?;
        // Most that ask again find success: that costs no write.
        if let Some(KeyState::Succeeded(answer)) = self.state(key)? {
            return Ok(Reserved::Succeeded(answer));
        }
        let (wanted, live) = (key.to_vec(), Arc::clone(&self.inner.live));
        let found = self.inner.commits.write(move |tx| {
            let place = Space::Key.key(&wanted);
            let mut live = live.keys();
            match tx.get(&place)? {
                Some(value) => KeyState::parse(&value, live.contains(&wanted)).map(Some),
                None => {
                    tx.put(&place, &KeyState::InProgress.encode(0))?;
                    live.insert(wanted);
                    Ok(None)
                }
            }
        })?;
        Ok(match found {
            None => Reserved::Execute(Reservation {
                inner: Arc::clone(&self.inner),
                key: key.to_vec(),
            }),
            Some(KeyState::InProgress) => Reserved::InProgress,
            Some(KeyState::Succeeded(answer)) => Reserved::Succeeded(answer),
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
        settle(&self.inner, key, resolution, now, false)
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
        let resolution = Resolution::Succeeded(answer.to_vec());
        settle(&self.inner, &self.key, resolution, now, true)
    }

    /// Gives the key free again: it is certain that there was no effect.
    ///
    /// # Errors
    ///
    /// As every write. The key is in doubt then.
    pub fn not_executed(self) -> Result<(), Error> {
        let now = SystemTime::UNIX_EPOCH;
        settle(&self.inner, &self.key, Resolution::NotExecuted, now, true)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.inner.live.keys().remove(&self.key);
    }
}

/// `held`: by the one who holds the reservation; otherwise nobody may hold it.
fn settle(
    inner: &Arc<Inner>,
    key: &[u8],
    resolution: Resolution,
    now: SystemTime,
    held: bool,
) -> Result<(), Error> {
    if let Resolution::Succeeded(answer) = &resolution {
        check_len("an answer", answer, MAX_VALUE)?;
    }
    let live = Arc::clone(&inner.live);
    let key = key.to_vec();
    inner.commits.write(move |tx| {
        let place = Space::Key.key(&key);
        let shown = String::from_utf8_lossy(&key);
        let live = live.keys().contains(&key);
        let Some(value) = tx.get(&place)? else {
            return Err(Error::refused(Refusal::NotReserved, shown));
        };
        match KeyState::parse(&value, live)? {
            KeyState::Succeeded(_) => return Err(Error::refused(Refusal::Succeeded, shown)),
            KeyState::InProgress if !held => {
                return Err(Error::refused(Refusal::InProgress, shown));
            }
            KeyState::InProgress | KeyState::InDoubt => {}
        }
        match resolution {
            Resolution::NotExecuted => tx.remove(&place),
            Resolution::Succeeded(answer) => {
                let number = tx.next();
                let index = Fill::default().u64(millis(now)).bytes(&key);
                tx.put(&Space::Succeeded.numbered(number), &index.0)?;
                tx.put(&place, &KeyState::Succeeded(answer).encode(millis(now)))
            }
        }
    })
}

impl KeyState {
    fn encode(&self, at: u64) -> Vec<u8> {
        match self {
            KeyState::Succeeded(answer) => Fill::default().u8(1).u64(at).bytes(answer).0,
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
                fields.u64()?;
                Ok(KeyState::Succeeded(fields.bytes()?.to_vec()))
            }
            _ => Err(Error::damaged("a key is in no known state")),
        }
    }
}
