//! Nonces: tokens that are spent once, such as approvals. The journal remembers each until it
//! expires, by the latest time seen: a clock that is set back revives none of them.

use std::time::SystemTime;

use crate::record::{Decoder, Keyspace, MAX_KEY, Transaction, check_len, get, millis, time};
use crate::{Error, Journal, Refusal};

impl Journal {
    /// Spends a nonce that is valid until `expires`. If several callers try, one succeeds.
    ///
    /// To spend it together with the start of an operation, use
    /// [`Start::nonce`](crate::Start::nonce).
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use trueup_journal::{Journal, Refusal};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = std::env::temp_dir().join(format!("trueup-doc-nonce-{}", std::process::id()));
    /// # std::fs::create_dir(&folder)?;
    /// let journal = Journal::open(folder.join("journal"))?;
    /// let now = SystemTime::now();
    /// let expires = now + Duration::from_secs(600);
    /// journal.spend_nonce(b"approval 1", expires, now)?;
    /// let again = journal.spend_nonce(b"approval 1", expires, now).unwrap_err();
    /// assert_eq!(again.refusal(), Some(Refusal::NonceSpent));
    /// # drop(journal);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NonceSpent`](Refusal::NonceSpent), or with
    /// [`NonceExpired`](Refusal::NonceExpired) if it has expired at the time `now`, or at the
    /// latest time seen; [`Invalid`](crate::ErrorKind::Invalid) if it is empty or longer than 65536
    /// bytes; otherwise the errors of any write.
    pub fn spend_nonce(
        &self,
        nonce: &[u8],
        expires: SystemTime,
        now: SystemTime,
    ) -> Result<(), Error> {
        check(nonce)?;
        let owned = nonce.to_vec();
        self.write(move |transaction| spend(transaction, &owned, expires, now))
    }

    /// Returns true if the nonce was spent, and not forgotten since.
    ///
    /// # Errors
    ///
    /// The nonce cannot be read.
    pub fn is_nonce_spent(&self, nonce: &[u8]) -> Result<bool, Error> {
        let key = Keyspace::Nonce.key(nonce);
        self.read(|records| Ok(get(records, &key)?.is_some()))
    }

    /// Returns the latest time seen: by [`note_time`](Self::note_time), or when a nonce was spent
    /// or forgotten. `None` if there is none.
    ///
    /// # Errors
    ///
    /// The time cannot be read.
    pub fn latest_time(&self) -> Result<Option<SystemTime>, Error> {
        self.read(|records| {
            get(records, &Keyspace::LatestTime.key(&[]))?
                .map(|it| Decoder(&it).u64().map(time))
                .transpose()
        })
    }

    /// Records the time `now`: a nonce that has expired by then is refused from now on, even if the
    /// clock is set back. If `now` is before the latest time, writes nothing.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn note_time(&self, now: SystemTime) -> Result<(), Error> {
        self.write(move |transaction| note_time(transaction, now))
    }

    /// Forgets the nonces that have expired at the time `now`, and returns their number. From then
    /// on they are refused as expired, even if the clock is set back.
    ///
    /// # Errors
    ///
    /// The errors of any write.
    pub fn forget_nonces(&self, now: SystemTime) -> Result<u64, Error> {
        self.write(move |transaction| {
            let mut expired = Vec::new();
            for entry in transaction.scan(&Keyspace::Expiry.key(&[]))? {
                let at_and_nonce = entry?.0;
                if Decoder(&at_and_nonce).u64()? > millis(now) {
                    break;
                }
                expired.push(at_and_nonce);
            }
            for at_and_nonce in &expired {
                let (_, nonce) = at_and_nonce.split_at(8);
                transaction.remove(&Keyspace::Nonce.key(nonce))?;
                transaction.remove(&Keyspace::Expiry.key(at_and_nonce))?;
            }
            if !expired.is_empty() {
                note_time(transaction, now)?;
            }
            Ok(expired.len() as u64)
        })
    }
}

/// Refuses bytes that cannot be a nonce.
pub(crate) fn check(nonce: &[u8]) -> Result<(), Error> {
    if nonce.is_empty() {
        return Err(Error::invalid("a nonce is empty"));
    }
    check_len("a nonce", nonce, MAX_KEY)
}

/// Spends a nonce, or refuses it and writes nothing.
pub(crate) fn spend(
    transaction: &mut Transaction<'_>,
    nonce: &[u8],
    expires: SystemTime,
    now: SystemTime,
) -> Result<(), Error> {
    let (key, until) = (Keyspace::Nonce.key(nonce), millis(expires));
    if transaction.get(&key)?.is_some() {
        return Err(Error::refused(Refusal::NonceSpent, "cannot spend"));
    }
    // A nonce that had already expired may have been spent, and forgotten since.
    if until <= millis(now).max(latest_time(transaction)?) {
        return Err(Error::refused(Refusal::NonceExpired, "cannot spend"));
    }
    note_time(transaction, now)?;
    let expiry = [&until.to_be_bytes(), nonce].concat();
    transaction.put(&Keyspace::Expiry.key(&expiry), b"")?;
    transaction.put(&key, &until.to_be_bytes())
}

fn note_time(transaction: &mut Transaction<'_>, now: SystemTime) -> Result<(), Error> {
    let now = millis(now);
    if now > latest_time(transaction)? {
        transaction.put(&Keyspace::LatestTime.key(&[]), &now.to_be_bytes())
    } else {
        Ok(())
    }
}

/// Returns the latest time seen, in milliseconds since 1970; 0 if there is none.
fn latest_time(transaction: &Transaction<'_>) -> Result<u64, Error> {
    match transaction.get(&Keyspace::LatestTime.key(&[]))? {
        Some(value) => Decoder(&value).u64(),
        None => Ok(0),
    }
}
