//! Operations: actions that take a while, recorded from their start to their outcome.
//!
//! A crash leaves an operation in flight, and never records a failure: only the affected system
//! knows if it took effect. The state of an idempotency key is the state of the operation that
//! began with it, so no crash leaves a key without an operation.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::execution::Execution;
use crate::keys::{self, KeyState, RequestHash};
use crate::nonces;
use crate::operation::{self, Ended, Keep, Operation, OperationState, Redacted, StoredOperation};
use crate::record::{Keyspace, MAX_KEY, MAX_VALUE, Record, check_len, get, scan, text};
use crate::{Error, Journal, Refusal};

/// The description of an operation to begin. `Debug` shows the length of its values, not their
/// bytes.
///
/// ```
/// use trueup_journal::{Journal, KeyState, Start};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-start-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let journal = Journal::open(folder.join("journal"))?;
/// let start = || Start::new("create vm7", b"4 GiB").object(b"vm7").key(b"request 17");
/// let _execution = journal.begin(start())?.expect("the first call executes");
/// // The same request again, while the first one runs:
/// assert!(matches!(journal.begin(start())?, Err(KeyState::InProgress { .. })));
/// # drop((_execution, journal));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Start<'a> {
    name: &'a str,
    what: &'a [u8],
    object: &'a [u8],
    key: &'a [u8],
    request: Option<&'a [u8]>,
    nonce: Option<(&'a [u8], SystemTime, SystemTime)>,
}

/// The operations in flight, in the order in which they began, and the names of unreadable ones,
/// each with the reason. A [`repair`](crate::repair) that may lose records removes the unreadable
/// ones.
pub type InFlight = (Vec<Operation>, Vec<(String, Error)>);

impl<'a> Start<'a> {
    /// Describes an operation by its name and its description `what`. The name is unique among
    /// operations in flight.
    pub fn new(name: &'a str, what: &'a [u8]) -> Self {
        Start { name, what, object: b"", key: b"", request: None, nonce: None }
    }

    /// Sets the object that it acts on: the key of its backoff.
    pub fn object(self, object: &'a [u8]) -> Self {
        Start { object, ..self }
    }

    /// Sets its idempotency key: only one operation with that key begins. An empty key counts as
    /// none.
    pub fn key(self, key: &'a [u8]) -> Self {
        Start { key, ..self }
    }

    /// Sets the request, if the description has more in it, such as the time: an operation with the
    /// same idempotency key and another request is refused. By default, the request is the object
    /// and the description.
    pub fn request(self, request: &'a [u8]) -> Self {
        Start { request: Some(request), ..self }
    }

    /// Returns the hash that distinguishes its request.
    fn request_hash(&self) -> RequestHash {
        match self.request {
            Some(request) => RequestHash::of(&[request]),
            None => RequestHash::of(&[self.object, self.what]),
        }
    }

    /// Spends a nonce in the same commit, as [`Journal::spend_nonce`] does.
    pub fn nonce(self, nonce: &'a [u8], expires: SystemTime, now: SystemTime) -> Self {
        Start { nonce: Some((nonce, expires, now)), ..self }
    }

    fn check(&self) -> Result<(), Error> {
        check_len("an operation's name", self.name.as_bytes(), MAX_KEY)?;
        check_len("an operation's object", self.object, MAX_KEY)?;
        check_len("a key", self.key, MAX_KEY)?;
        check_len("an operation's description", self.what, MAX_VALUE)?;
        self.nonce.map_or(Ok(()), |(nonce, ..)| nonces::check(nonce))
    }

    fn operation(&self) -> Operation {
        Operation {
            name: self.name.to_owned(),
            object: self.object.to_vec(),
            what: self.what.to_vec(),
            key: self.key.to_vec(),
            step: Vec::new(),
            task: None,
            state: OperationState::Started,
            ended: None,
        }
    }
}

impl fmt::Debug for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operation().fmt(f)?;
        let nonce = self.nonce.map(|(nonce, ..)| Redacted(nonce));
        nonce.map_or(Ok(()), |nonce| write!(f, " with a nonce {nonce:?}"))
    }
}

impl Journal {
    /// Records that an operation begins, and returns the right to execute it. If an operation began
    /// with its idempotency key before, records nothing and returns the key's state as the inner
    /// `Err`. If several callers use one key at once, one executes.
    ///
    /// Key, name and nonce are checked and recorded in one commit, in this order. A name whose
    /// operation has ended can begin again: its latest record counts.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`KeyUsed`](Refusal::KeyUsed) if an operation
    /// with another [request](Start::request) began with the key, [`InFlight`](Refusal::InFlight),
    /// [`NonceSpent`](Refusal::NonceSpent) or [`NonceExpired`](Refusal::NonceExpired);
    /// [`Invalid`](crate::ErrorKind::Invalid) if the name, the object, the key or the nonce is
    /// longer than 65536 bytes or the description than 16 MiB; as for any write
    /// [`NotDurable`](crate::ErrorKind::NotDurable) and [`ReadOnly`](crate::ErrorKind::ReadOnly).
    /// After an error, the caller must execute nothing.
    pub fn begin(&self, start: Start<'_>) -> Result<Result<Execution, KeyState>, Error> {
        start.check()?;
        // Most repeated requests find an outcome, which costs no write.
        if let Some(ended @ KeyState::Ended { .. }) = self.repeated(start)? {
            return Ok(Err(ended));
        }
        let (operation, request) = (start.operation(), start.request_hash());
        let nonce = start.nonce.map(|(nonce, expires, now)| (nonce.to_vec(), expires, now));
        let executed = Arc::clone(&self.0.held);
        let begun = self.write(move |transaction| {
            let (name, key) = (operation.name.clone(), operation.key.clone());
            let mut held = executed.lock();
            if let Some(value) = transaction.get(&Keyspace::Key.key(&key))? {
                request.check(&key, &value)?;
                return KeyState::parse(&value, &held).map(Err);
            }
            let before = StoredOperation::load(transaction, &name)?;
            // If it is only held, it has just ended, and its executor is about to return.
            if before.as_ref().is_some_and(|it| !it.operation.state.is_ended())
                || held.contains(&name)
            {
                return Err(Error::refused(Refusal::InFlight, &name));
            }
            if let Some((nonce, expires, now)) = nonce {
                nonces::spend(transaction, &nonce, expires, now)?;
            }
            let number = transaction.next();
            if !key.is_empty() {
                keys::reserve(transaction, &key, &name, request)?;
            }
            let stored = StoredOperation { number, operation };
            stored.save(transaction)?;
            held.insert(name);
            Ok(Ok(stored))
        })?;
        Ok(begun.map(|stored| Execution::new(self, stored)))
    }

    /// Takes over an operation in flight that no caller executes: after a crash, or when its
    /// execution was dropped. Records nothing.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NoOperation`](Refusal::NoOperation),
    /// [`Ended`](Refusal::Ended) or [`InProgress`](Refusal::InProgress);
    /// [`Damaged`](crate::ErrorKind::Damaged) if its record cannot be read.
    pub fn resume(&self, name: &str) -> Result<Execution, Error> {
        let mut held = self.0.held.lock();
        let found = self.load(name)?;
        let stored = StoredOperation::require_in_flight(found, name)?;
        if !held.insert(name.to_owned()) {
            return Err(Error::refused(Refusal::InProgress, name));
        }
        Ok(Execution::new(self, stored))
    }

    /// Returns the latest record of the operation `name`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The record cannot be read.
    pub fn operation(&self, name: &str) -> Result<Option<Operation>, Error> {
        Ok(self.load(name)?.map(|stored| stored.operation))
    }

    /// Returns the state of an idempotency key; `None` if no operation began with it.
    ///
    /// # Errors
    ///
    /// The state cannot be read.
    pub fn key(&self, key: &[u8]) -> Result<Option<KeyState>, Error> {
        let held = self.0.held.lock();
        self.read(|records| {
            let value = get(records, &Keyspace::Key.key(key))?;
            value.map(|value| KeyState::parse(&value, &held)).transpose()
        })
    }

    /// Returns the state of the idempotency key of an operation to begin; `None` if the key is
    /// unused.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`KeyUsed`](Refusal::KeyUsed) if an operation
    /// with another [request](Start::request) began with the key. Also if the state cannot be read.
    pub fn repeated(&self, start: Start<'_>) -> Result<Option<KeyState>, Error> {
        let held = self.0.held.lock();
        self.read(|records| {
            let Some(value) = get(records, &Keyspace::Key.key(start.key))? else {
                return Ok(None);
            };
            start.request_hash().check(start.key, &value)?;
            KeyState::parse(&value, &held).map(Some)
        })
    }

    /// Returns the operations that have not ended. It reads all that were not forgotten.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
    pub fn in_flight(&self) -> Result<InFlight, Error> {
        let mut in_flight = Vec::new();
        let mut unreadable = Vec::new();
        self.read(|records| {
            for entry in scan(records, &Keyspace::Operation.key(&[]))? {
                let (name, value) = entry?;
                match text(&name).and_then(|name| StoredOperation::parse(&name, &value)) {
                    Ok(stored) if stored.operation.state.is_ended() => {}
                    Ok(stored) => in_flight.push(stored),
                    Err(error) => {
                        let name = String::from_utf8_lossy(&name).into_owned();
                        unreadable.push((name, error));
                    }
                }
            }
            Ok(())
        })?;
        in_flight.sort_unstable_by_key(|stored| stored.number);
        Ok((in_flight.into_iter().map(|stored| stored.operation).collect(), unreadable))
    }

    /// Forgets operations that have ended, except the ones to `keep`. Their idempotency keys stay,
    /// and so do operations in flight. Returns the number of forgotten operations.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn forget_operations(&self, keep: Keep) -> Result<u64, Error> {
        self.forget_in(Keyspace::Operation, keep, operation::ended)
    }

    /// Forgets the idempotency keys of ended operations, except the ones to `keep`. An operation
    /// with a forgotten key can be executed again. Returns the number of forgotten keys.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn forget_keys(&self, keep: Keep) -> Result<u64, Error> {
        self.forget_in(Keyspace::Key, keep, keys::ended)
    }

    /// Selects the records to forget without a commit, so that other writes continue. Records
    /// changed since then stay.
    fn forget_in(
        &self,
        space: Keyspace,
        keep: Keep,
        ended: fn(Record) -> Option<Ended>,
    ) -> Result<u64, Error> {
        let found = self.read(|records| {
            let mut found = Vec::new();
            for entry in scan(records, &space.key(&[]))? {
                found.extend(ended(entry?));
            }
            Ok(found)
        })?;
        let surplus = keep.surplus(found);
        self.write(move |transaction| {
            let mut forgotten = 0;
            for Ended { name, number, .. } in surplus {
                let key = space.key(&name);
                let now = transaction.get(&key)?.and_then(|value| ended((name, value)));
                if now.is_some_and(|now| now.number == number) {
                    transaction.remove(&key)?;
                    forgotten += 1;
                }
            }
            Ok(forgotten)
        })
    }

    fn load(&self, name: &str) -> Result<Option<StoredOperation>, Error> {
        self.read(|records| {
            let value = get(records, &Keyspace::Operation.key(name.as_bytes()))?;
            value.map(|value| StoredOperation::parse(name, &value)).transpose()
        })
    }
}
