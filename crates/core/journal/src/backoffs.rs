//! Backoffs: how often an object failed, and when it is to be tried again.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::record::{
    Decoder, Encoder, Keyspace, MAX_KEY, Transaction, check_len, get, millis, scan, time,
};
use crate::{Error, Journal};

/// The wait of an object that failed. The outcome of an operation sets or clears the backoff of its
/// object in the same commit: see [`Execution`](crate::Execution).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The number of tries that failed.
    pub tries: u32,
    /// The time of the next try, in whole milliseconds.
    pub next: SystemTime,
}

impl Journal {
    /// Records the backoff of an object. The latest counts.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the object's key is longer than 65536 bytes;
    /// otherwise as every write.
    pub fn set_backoff(&self, object: &[u8], backoff: Backoff) -> Result<(), Error> {
        check_len("an object's key", object, MAX_KEY)?;
        let owned = object.to_vec();
        self.write(move |transaction| set(transaction, &owned, backoff))
    }

    /// Clears the backoff of an object. Without one nothing is written.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn clear_backoff(&self, object: &[u8]) -> Result<(), Error> {
        let owned = object.to_vec();
        self.write(move |transaction| clear(transaction, &owned))
    }

    /// Returns the backoff of an object.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn backoff(&self, object: &[u8]) -> Result<Option<Backoff>, Error> {
        self.read(|records| {
            get(records, &Keyspace::Backoff.key(object))?
                .map(|value| Backoff::parse(&value))
                .transpose()
        })
    }

    /// Returns all backoffs by object. One that cannot be read is left out: its object is tried at
    /// once, and the outcome replaces it.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub fn backoffs(&self) -> Result<BTreeMap<Vec<u8>, Backoff>, Error> {
        self.read(|records| {
            let mut all = BTreeMap::new();
            for entry in scan(records, &Keyspace::Backoff.key(&[]))? {
                let (object, value) = entry?;
                if let Ok(backoff) = Backoff::parse(&value) {
                    all.insert(object, backoff);
                }
            }
            Ok(all)
        })
    }
}

pub(crate) fn set(
    transaction: &mut Transaction<'_>,
    object: &[u8],
    backoff: Backoff,
) -> Result<(), Error> {
    let value = Encoder::default().u64(backoff.tries.into()).u64(millis(backoff.next));
    transaction.put(&Keyspace::Backoff.key(object), &value.0)
}

pub(crate) fn clear(transaction: &mut Transaction<'_>, object: &[u8]) -> Result<(), Error> {
    let key = Keyspace::Backoff.key(object);
    match transaction.get(&key)? {
        Some(_) => transaction.remove(&key),
        None => Ok(()),
    }
}

impl Backoff {
    pub(crate) fn parse(value: &[u8]) -> Result<Backoff, Error> {
        let mut fields = Decoder(value);
        let tries = u32::try_from(fields.u64()?);
        let next = time(fields.u64()?);
        fields.end()?;
        match tries {
            Ok(tries) => Ok(Backoff { tries, next }),
            Err(_) => Err(Error::unreadable("a backoff has no such number of tries")),
        }
    }
}
