//! Backoffs: an object's number of failures, and the time of its next try.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::record::{
    Decoder, Encoder, Keyspace, MAX_KEY, Transaction, check_len, get, millis, scan, time,
};
use crate::{Error, Journal};

/// The wait of a failed object. The outcome of an operation sets or clears its object's backoff in
/// the same commit: see [`Execution`](crate::Execution).
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use trueup_journal::{Backoff, Journal};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("trueup-doc-backoff-{}", std::process::id()));
/// # std::fs::create_dir(&folder)?;
/// let journal = Journal::open(folder.join("journal"))?;
/// let next = SystemTime::now() + Duration::from_secs(5);
/// journal.set_backoff(b"vm7", Backoff { tries: 1, next })?;
/// assert_eq!(journal.backoff(b"vm7")?.map(|it| it.tries), Some(1));
/// journal.clear_backoff(b"vm7")?;
/// assert_eq!(journal.backoff(b"vm7")?, None);
/// # drop(journal);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The number of failed tries.
    pub tries: u32,
    /// The time of the next try, in whole milliseconds.
    pub next: SystemTime,
}

impl Journal {
    /// Records an object's backoff, and replaces an earlier one.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the object's key is longer than 65536 bytes;
    /// otherwise the errors of any write.
    pub fn set_backoff(&self, object: &[u8], backoff: Backoff) -> Result<(), Error> {
        check_len("an object's key", object, MAX_KEY)?;
        let owned = object.to_vec();
        self.write(move |transaction| set(transaction, &owned, backoff))
    }

    /// Clears an object's backoff. If there is none, writes nothing.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn clear_backoff(&self, object: &[u8]) -> Result<(), Error> {
        let owned = object.to_vec();
        self.write(move |transaction| clear(transaction, &owned))
    }

    /// Returns an object's backoff; `None` if it has none.
    ///
    /// # Errors
    ///
    /// The backoff cannot be read.
    pub fn backoff(&self, object: &[u8]) -> Result<Option<Backoff>, Error> {
        self.read(|records| {
            get(records, &Keyspace::Backoff.key(object))?
                .map(|value| Backoff::parse(&value))
                .transpose()
        })
    }

    /// Returns all backoffs by object. Leaves out an unreadable one: its object is tried at once,
    /// and the outcome replaces it.
    ///
    /// # Errors
    ///
    /// The journal cannot be read.
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
